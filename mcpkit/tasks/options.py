"""How a server keeps its tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypedDict, cast

from mcpkit._utils.names import check_keywords

if TYPE_CHECKING:
    from mcpkit.tasks.store import TaskStore

__all__ = [
    "STORE",
    "Store",
    "TaskOptions",
    "TaskSettings",
    "check_place",
    "scheme_of",
    "settings_of",
]

STORE: Final = "MCPKIT_TASKS"
"""The environment variable that says where tasks are kept, where the app does not."""

Store: TypeAlias = "str | Callable[[], TaskStore]"
"""A path of a file, a URL of a database, or a function that makes a store."""

SCHEMES: Final[Mapping[str, tuple[str, str]]] = {
    "sqlite": ("sqlite3", ""),
    **dict.fromkeys(("postgresql", "postgres"), ("asyncpg", "postgres")),
    **dict.fromkeys(("redis", "rediss", "unix", "valkey", "valkeys"), ("redis", "redis")),
}
"""Of the URLs of databases that may keep tasks: the module that speaks to each, and its extra."""

_DAY: Final = 24 * 60 * 60.0
_LEAST_TTL: Final = 1.0
"""Seconds for which a task is kept if its client wishes for less: it has to be there (TASKL-4)."""


class TaskOptions(TypedDict, total=False):
    """How a server keeps its tasks, as `MCPKit` takes it.

    Keys:
        store: Where: the path of a file of SQLite, ``redis://…``, ``postgresql://…``, or a function
            that makes a `TaskStore`. In this process, which they end with, by default.
        ttl: Seconds from its making for which a task is kept, unless its client or its tool says
            otherwise; a day by default. None: for ever.
        max_ttl: The most seconds that a client may wish for; a week by default. None: for ever.
        poll_interval: Seconds that clients should let pass between two looks at a task; 1.
        max_tasks: Tasks that may be unfinished altogether; 10,000.
        max_tasks_each: Tasks of one principal that may be unfinished; 1,000. Without authentication
            all are of the same one.
        max_bytes: Bytes of the arguments, of a result, of a step's result, of all questions that a
            task asks and of all answers that it gets; 4 MiB each.
        max_running: Tasks that one process works on at once; 100.
        lease: Seconds after which a task is taken from a process that says nothing any more; 30.
            That a process has died is mostly known much sooner.
    """

    store: Store
    ttl: float | None
    max_ttl: float | None
    poll_interval: float
    max_tasks: int
    max_tasks_each: int
    max_bytes: int
    max_running: int
    lease: float


class TaskSettings(NamedTuple):
    """The settings of tasks; see `TaskOptions`."""

    store: Store | None = None
    ttl: float | None = _DAY
    max_ttl: float | None = 7 * _DAY
    poll_interval: float = 1.0
    max_tasks: int = 10_000
    max_tasks_each: int = 1000
    max_bytes: int = 4 * 1024 * 1024
    max_running: int = 100
    lease: float = 30.0

    def granted(self, wish: float | None, default: float | None) -> float | None:
        """Return for how long a task is kept.

        Args:
            wish: Seconds that its client wishes for; None if it does not say.
            default: Those that its tool says.
        """
        if wish is None:
            return default
        wish = max(wish, _LEAST_TTL)
        return wish if self.max_ttl is None else min(wish, self.max_ttl)


_POSITIVE: Final = frozenset(TaskOptions.__optional_keys__) - {"store"}


def settings_of(given: TaskOptions | Store | None, environment: Mapping[str, str]) -> TaskSettings:
    """Return the settings that an author has given.

    Args:
        given: Options, or where tasks are kept.
        environment: Says where they are kept if the author does not.

    Raises:
        TypeError: There is no such option.
        ValueError: An option has a value that makes no sense.
    """
    options: Mapping[str, Any] = {}
    if isinstance(given, dict):
        options = cast("Mapping[str, Any]", given)
        check_keywords("MCPKit(tasks=…)", options, [*TaskOptions.__optional_keys__])
    elif isinstance(given, str) or callable(given):
        options = {"store": given}
    elif given is not None:
        raise TypeError(
            f"MCPKit(tasks={given!r}): write where tasks are kept, such as a path, or a dict of "
            f'TaskOptions; that a tool runs as a task is said with @app.tool(task="optional")'
        )
    settings = TaskSettings(**options)
    if settings.store is None and environment.get(STORE):
        settings = settings._replace(store=environment[STORE])
    check_place(settings.store)
    for name in _POSITIVE:
        value = getattr(settings, name)
        if value is not None and not (0 < value < math.inf):
            raise ValueError(f"MCPKit(tasks=…): {name} must be more than 0, not {value!r}")
    return settings


def scheme_of(place: str) -> str:
    """Return the scheme of the URL of a database; ``sqlite`` for a path."""
    scheme, separator, _ = place.partition("://")
    return scheme if separator else "sqlite"


def check_place(place: Store | None) -> None:
    """Refuse a text that names no place where tasks can be kept.

    Raises:
        ValueError: With what there is, or what to install.
    """
    if not isinstance(place, str):
        return
    scheme = scheme_of(place)
    if scheme not in SCHEMES:
        known = ", ".join(f"{each}://" for each in SCHEMES)
        raise ValueError(
            f"tasks cannot be kept at {scheme}://…; write the path of a file, or a URL with one of "
            f"{known}"
        )
    module, extra = SCHEMES[scheme]
    if extra and find_spec(module) is None:
        raise ValueError(f'tasks at {scheme}://… need: pip install "mcpkit[{extra}]"')
