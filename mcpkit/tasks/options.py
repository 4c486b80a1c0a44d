"""TaskOptions: how a server stores and runs its tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypedDict, cast

from mcpkit._stores import SCHEMES, scheme_of
from mcpkit._utils.names import check_keywords

if TYPE_CHECKING:
    from mcpkit._stores.base import RecordStore

STORE: Final = "MCPKIT_TASKS"
"""The environment variable with the location of the tasks, for apps that do not set one."""

Store: TypeAlias = "str | Callable[[], RecordStore[Any]]"
"""The path of a file, the URL of a database, or a function that makes a store."""

_DAY: Final = 24 * 60 * 60.0
MIN_TTL: Final = 1.0
"""Seconds for which a task is stored if its client requests fewer: it must be found (TASKL-4)."""


class TaskOptions(TypedDict, total=False):
    """How a server stores and runs its tasks, as `MCPKit` takes it.

    Keys:
        store: Where tasks are stored: the path of a file of SQLite, ``redis://…``,
            ``postgresql://…``, or a function that makes a store, such as
            ``lambda: SqliteStore(path, durable=True)``. By default in this process; they end with
            it.
        ttl: Seconds for which a task is stored, from its creation, unless its client or its tool
            says otherwise; a day by default. None: without end.
        max_ttl: The longest `ttl` in seconds that a client may request; a week by default. None:
            any.
        poll_interval: Seconds that clients should wait between two polls of a task; 1.
        max_tasks: Unfinished tasks that there may be; 10,000.
        max_tasks_each: Unfinished tasks that one caller (its principal, else its network) may
            have; 1,000. The last eighth of `max_tasks` is for callers that have none.
        max_stored: Bytes that one process may store for tasks: arguments, questions, answers and
            results, plus 4 KiB per task; 64 times `max_bytes`. One caller may use half; beyond that
            its oldest finished tasks expire early.
        max_bytes: Bytes of the arguments, of a result, of the result of a step, of all questions
            that a task asks, and of all their answers; 4 MiB each.
        max_running: Tasks that one process runs at once; 100, of which one caller may have three
            quarters.
        lease: Seconds after which another process takes a task from one that no longer renews its
            lease; 30. The death of a process is mostly noticed much sooner.
    """

    store: Store
    ttl: float | None
    max_ttl: float | None
    poll_interval: float
    max_tasks: int
    max_tasks_each: int
    max_stored: int
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
    max_stored: int | None = None
    max_bytes: int = 4 * 1024 * 1024
    max_running: int = 100
    lease: float = 30.0

    def granted(self, requested: float | None, default: float | None) -> float | None:
        """Return the ``ttl`` of a task, from that of its client or else of its tool."""
        if requested is None:
            return default
        requested = max(requested, MIN_TTL)
        return requested if self.max_ttl is None else min(requested, self.max_ttl)


def settings_of(given: TaskOptions | Store | None) -> TaskSettings:
    """Return settings from an author's options.

    Raises `TypeError` or `ValueError` for invalid ones, also if a library is missing.
    """
    options: Mapping[str, Any] = {}
    if isinstance(given, dict):
        options = cast("Mapping[str, Any]", given)
        check_keywords("MCPKit(tasks=…)", options, [*TaskOptions.__optional_keys__])
    elif isinstance(given, str) or callable(given):
        options = {"store": given}
    elif given is not None:
        raise TypeError(
            f"MCPKit(tasks={given!r}): pass where tasks are stored, such as a path, or a dict of "
            f'TaskOptions; to run a tool as a task, use @app.tool(task="optional")'
        )
    settings = TaskSettings(**options)
    if isinstance(settings.store, str):
        _check_scheme(scheme_of(settings.store))
    for name in sorted(TaskOptions.__optional_keys__ - {"store"}):
        value = getattr(settings, name)
        if value is not None and not (0 < value < math.inf):
            raise ValueError(f"MCPKit(tasks=…): {name} must be more than 0, not {value!r}")
    return settings


def _check_scheme(scheme: str) -> None:
    if scheme not in SCHEMES:
        known = ", ".join(f"{each}://" for each in SCHEMES)
        raise ValueError(
            f"tasks cannot be stored at {scheme}://…; pass the path of a file, or a URL with one "
            f"of {known}"
        )
    library, extra = SCHEMES[scheme]
    if extra and find_spec(library) is None:
        raise ValueError(f'tasks at {scheme}://… need: pip install "mcpkit[{extra}]"')
