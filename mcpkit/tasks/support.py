"""``task=``: how a tool runs as a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, Literal, TypeAlias, get_args

from mcpkit._entries import Entry, EntryOption
from mcpkit.errors import RegistrationError

TaskMode: TypeAlias = Literal["optional", "required", "forbidden"]
"""Whether a call of a tool may, must or must not become a task."""


@dataclass(frozen=True)
class TaskSupport(EntryOption):
    """How a tool runs as a task: ``@app.tool(task=TaskSupport(resumable=True))``.

    Args:
        mode: ``"optional"`` lets clients that support tasks turn a call into a task; ``"required"``
            refuses all other calls; ``"forbidden"`` refuses tasks.
        resumable: True if a task whose process ended may run again; completed steps are not
            repeated. Otherwise it has failed.
        ttl: Seconds for which its tasks are stored; the app's by default.

    Raises:
        ValueError: The mode is unknown, `ttl` is not more than 0, or there is an option although
            the mode is ``"forbidden"``.
    """

    mode: TaskMode = "optional"
    _: KW_ONLY
    resumable: bool = False
    ttl: float | None = None

    def __post_init__(self) -> None:
        if self.mode not in get_args(TaskMode):
            known = ", ".join(map('"{}"'.format, get_args(TaskMode)))
            raise ValueError(f"task={self.mode!r}; write one of {known}")
        if self.mode == "forbidden" and (self.resumable or self.ttl is not None):
            raise ValueError('resumable= and ttl= are for tasks; write "optional" or "required"')
        if self.ttl is not None and not self.ttl > 0:
            raise ValueError(f"the ttl= of tasks is seconds, more than 0, not {self.ttl!r}")

    capabilities = ("tasks",)

    def members(self) -> Mapping[str, Any]:
        """Return what lists show of it."""
        return {"execution": {"taskSupport": self.mode}}


_FORBIDDEN: Final = TaskSupport("forbidden")


def support_of(tool: Entry) -> TaskSupport:
    """Return how a tool runs as a task."""
    found = tool.options.get("task")
    return found if isinstance(found, TaskSupport) else _FORBIDDEN


def prepare(tool: Entry, options: Mapping[str, Any], at: str) -> None:
    """Let a tool run as a task; raises `RegistrationError`."""
    given: Any = options.get("task") or "forbidden"
    try:
        support = given if isinstance(given, TaskSupport) else TaskSupport(given)
    except ValueError as error:
        raise RegistrationError(f"{at}: {error}") from None
    if support.mode != "forbidden":
        tool.options["task"] = support
