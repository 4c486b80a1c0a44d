"""A task's record, and the changes it may go through.

Each change is a function from one record to the next, without input or output: stores call them in
their transactions, and may call them again. `None` means that the change does not apply to the
record as it is, mostly because the leg that asks for it has been given up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from pydantic_core import from_json, to_json

__all__ = [
    "MOST_CRASHES",
    "Outcome",
    "Status",
    "Task",
    "advance",
    "answer",
    "cancel",
    "claim",
    "dump",
    "finish",
    "give_back",
    "keep",
    "load",
    "note",
    "park",
]

Status: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""As the protocol has them (TASKL-5)."""

Outcome: TypeAlias = Literal["completed", "failed"]

MOST_CRASHES: Final = 20
"""The legs in a row of which nothing came but the end of their process: then the task has failed,
or it would end one process after the other for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task as it is kept. What stands in it as bytes is not for the store to understand.

    Args:
        id: Cannot be guessed.
        owner: Whose task it is; empty if nobody is known.
        call: What is to be done.
        ttl: Seconds from its creation until it may be forgotten; None: never.
        created: When, in seconds of the store's clock, which it has from the store.
        updated: When its status, its message or its questions last changed.
        status: What clients are told.
        message: What they are told beside it.
        asks: Every question it has asked, by key, the oldest first. A key is never used for another
            question (TASKX-7).
        open: The keys of the questions that its last leg waits for.
        answers: Key → the answer.
        outcome: What came of it, once it has ended.
        leg: The number of the last leg that has begun. Only that one may change the record.
        runner: The process that runs this leg; None if none does.
        until: When that leg is given up unless it is kept, in seconds of the store's clock.
        crashes: The legs that ended without a word since one had something to show for it.
        begun: The legs that have begun since the last question, or since the task was made. The
            handler of a second one does again what another has done.
    """

    id: str
    owner: str
    call: bytes
    ttl: float | None
    created: float = 0.0
    updated: float = 0.0
    status: Status = "working"
    message: str | None = None
    asks: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    open: tuple[str, ...] = ()
    answers: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    outcome: bytes | None = None
    leg: int = 0
    runner: str | None = None
    until: float = 0.0
    crashes: int = 0
    begun: int = 0

    @property
    def is_over(self) -> bool:
        """True if it has ended, and nothing will change it any more (TASKL-5)."""
        return self.status in ("completed", "failed", "cancelled")

    @property
    def expires(self) -> float | None:
        """When it may be forgotten; None: never."""
        return None if self.ttl is None else self.created + self.ttl

    @property
    def due(self) -> float | None:
        """From when on a leg may begin; None: not until somebody answers, or never."""
        if self.status != "working":
            return None
        return self.updated if self.runner is None else self.until

    def runs(self, leg: int) -> bool:
        """Return True if a leg is the one that runs, and may change the record."""
        return not self.is_over and self.runner is not None and self.leg == leg


# --- what runners do ------------------------------------------------------------------------------


def claim(task: Task, runner: str, until: float) -> Task | None:
    """Begin the next leg, whether or not somebody else runs the last one."""
    if task.status != "working":
        return None
    return replace(
        task,
        leg=task.leg + 1,
        runner=runner,
        until=until,
        crashes=task.crashes + 1,
        begun=task.begun + 1,
    )


def keep(task: Task, leg: int, until: float) -> Task | None:
    """Let a leg go on for a while."""
    return replace(task, until=until) if task.runs(leg) else None


def park(
    task: Task, leg: int, asks: Mapping[str, bytes], now: float, message: str | None = None
) -> Task | None:
    """End a leg that waits for answers.

    Args:
        task: The record.
        leg: The leg.
        asks: All questions that it waits for. What a key has asked before, it asks still.
        now: The time.
        message: What clients are told from now on; None: what they were.

    Returns:
        A record that waits for them; if all have been answered meanwhile, one that is due.
    """
    if not task.runs(leg):
        return None
    missing = tuple(key for key in asks if key not in task.answers)
    return replace(
        task,
        asks={**task.asks, **{key: asks[key] for key in asks if key not in task.asks}},
        open=missing,
        status="input_required" if missing else "working",
        message=task.message if message is None else message,
        runner=None,
        crashes=0,
        begun=0,
        updated=now,
    )


def advance(task: Task, leg: int) -> Task | None:
    """Note that a leg has done a step."""
    return replace(task, crashes=0) if task.runs(leg) else None


def note(task: Task, leg: int, message: str, now: float) -> Task | None:
    """Tell how far a leg is."""
    return replace(task, message=message, updated=now) if task.runs(leg) else None


def give_back(task: Task, leg: int) -> Task | None:
    """Take back a leg of which nothing was done, because its process ends."""
    if not task.runs(leg):
        return None
    crashes, begun = max(0, task.crashes - 1), max(0, task.begun - 1)
    return replace(task, runner=None, crashes=crashes, begun=begun)


def finish(
    task: Task, leg: int, status: Outcome, outcome: bytes, now: float, message: str | None = None
) -> Task | None:
    """End the task."""
    if not task.runs(leg):
        return None
    return replace(
        task,
        status=status,
        outcome=outcome,
        message=task.message if message is None else message,
        open=(),
        runner=None,
        updated=now,
    )


# --- what clients do ------------------------------------------------------------------------------


def answer(task: Task, answers: Mapping[str, bytes], now: float) -> Task | None:
    """Answer questions.

    Args:
        task: The record.
        answers: Key → answer. What nobody asks, or not any more, is passed over (TASKX-9).
        now: The time.

    Returns:
        A record that is due if nothing is open any more; None if nothing was answered.
    """
    new = {key: answers[key] for key in task.open if key in answers}
    if not new or task.is_over:
        return None
    missing = tuple(key for key in task.open if key not in new)
    return replace(
        task,
        answers={**task.answers, **new},
        open=missing,
        status="input_required" if missing else "working",
        crashes=0,
        updated=now,
    )


def cancel(task: Task, now: float, message: str | None = None) -> Task | None:
    """End the task; a leg that runs is fenced off from now on (TASKL-11)."""
    if task.is_over:
        return None
    return replace(
        task,
        status="cancelled",
        message=task.message if message is None else message,
        open=(),
        runner=None,
        updated=now,
    )


# --- as bytes -------------------------------------------------------------------------------------

_PLAIN: Final = (
    "id",
    "owner",
    "ttl",
    "created",
    "updated",
    "status",
    "message",
    "open",
    "leg",
    "runner",
    "until",
    "crashes",
    "begun",
)


def dump(task: Task) -> bytes:
    """Return a task as bytes: a line of JSON, and behind it whatever is bytes in the task."""
    parts = [task.call, b"" if task.outcome is None else task.outcome]
    parts += [*task.asks.values(), *task.answers.values()]
    head: dict[str, Any] = {name: getattr(task, name) for name in _PLAIN}
    head["asks"], head["answers"] = [*task.asks], [*task.answers]
    head["has_outcome"] = task.outcome is not None
    head["sizes"] = [len(each) for each in parts]
    return b"".join([to_json(head), b"\n", *parts])


def load(data: bytes) -> Task:
    """Return the task that `dump` has made bytes of."""
    head, _, rest = data.partition(b"\n")
    found: dict[str, Any] = from_json(head)
    parts: list[bytes] = []
    for size in found["sizes"]:
        parts.append(rest[:size])
        rest = rest[size:]
    call, outcome, *more = parts
    asks: list[str] = found["asks"]
    found["open"] = tuple(found["open"])
    return Task(
        **{name: found[name] for name in _PLAIN},
        call=call,
        outcome=outcome if found["has_outcome"] else None,
        asks=dict(zip(asks, more, strict=False)),
        answers=dict(zip(found["answers"], more[len(asks) :], strict=True)),
    )
