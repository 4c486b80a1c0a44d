"""A task's record, and every change that it may go through.

Each change is a pure function from one record to the next: stores call them in their transactions,
and may call them again. `None` means that the change does not apply to the record, mostly because
the attempt that wants it has lost its lease.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

from pydantic_core import from_json

from mcpkit._protocol.messages import encode

Status: TypeAlias = Literal["working", "input_required", "completed", "failed", "cancelled"]
"""The protocol's statuses (TASKL-5)."""

Outcome: TypeAlias = Literal["completed", "failed"]

CALL: Final = "call-"
"""The prefix of the ids of calls, which clients do not see as tasks."""

MAX_CRASHES: Final = 20
"""Attempts in a row that may be lost, mostly with their process: then the task fails, or it would
end one process after the other."""

MAX_PAUSE_S: Final = 60.0
"""The longest time in seconds before a task runs again whose attempts have ended processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task. An attempt is one run of its handler. Times are in seconds of the store's clock.

    Args:
        id: Cannot be guessed.
        owner: The name of its owner; one name for all if there is no authentication.
        caller: The name of the caller whose shares it takes: a principal or a network; empty if
            that is not known.
        tool: The name of its tool, which says who may see it; empty if that depends on the
            arguments, too.
        call: The call, sealed; without its arguments once it has ended, unless `tool` is empty.
        ttl: Seconds from its creation after which it expires; None: never.
        created: When it was created; set by the store.
        updated: When its status, message or questions last changed.
        status: Its status.
        message: The status message.
        input_requests: Every question that it has asked, by key, the oldest first. A key is never
            used for another question (TASKX-7).
        open: The keys of the questions that the last attempt waits for.
        answers: The answers, by key.
        outcome: The result or error, once it has ended.
        attempt: The number of the last attempt. Only this one may change the record.
        worker: The process that runs this attempt, or holds its handler at a question; None if none
            does.
        lease_expires: When that process loses the task, unless it renews the lease. If none runs
            it: when the next one may; 0: at once.
        crashes: The attempts that were lost, mostly with their process, since the last progress.
        starts: The attempts since the last question, or since the creation. A second one repeats
            what the handler did in the first.
    """

    id: str
    owner: str
    call: bytes
    ttl: float | None
    caller: str = ""
    tool: str = ""
    created: float = 0.0
    updated: float = 0.0
    status: Status = "working"
    message: str | None = None
    input_requests: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    open: tuple[str, ...] = ()
    answers: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    outcome: bytes | None = None
    attempt: int = 0
    worker: str | None = None
    lease_expires: float = 0.0
    crashes: int = 0
    starts: int = 0

    @property
    def holder(self) -> str:
        """By whom it is counted in the store."""
        return self.caller or self.owner

    @property
    def is_call(self) -> bool:
        """True for the record of a call that runs once; see `mcpkit.tasks.calls`."""
        return self.id.startswith(CALL)

    @property
    def size(self) -> int:
        """The bytes of its values."""
        values = [*self.input_requests.values(), *self.answers.values()]
        return sum(map(len, [self.call, self.outcome or b"", *values]))

    @property
    def is_over(self) -> bool:
        """True if it has ended, and will not change any more (TASKL-5)."""
        return self.status in ("completed", "failed", "cancelled")

    @property
    def expires(self) -> float | None:
        """When it expires; None: never."""
        return None if self.ttl is None else self.created + self.ttl

    @property
    def due(self) -> float | None:
        """When an attempt may start; None: not before an answer, or never."""
        if self.status != "working":
            return None
        return self.lease_expires or self.updated

    def runs(self, attempt: int) -> bool:
        """Return True if an attempt is the one that runs, and may change the record."""
        return not self.is_over and self.worker is not None and self.attempt == attempt


Admit: TypeAlias = Callable[[Task], Awaitable[None]]
"""Raises an error if a caller may not use a task."""


# --- changes by workers ---------------------------------------------------------------------------


def claim(task: Task, worker: str, now: float, lease: float) -> Task | None:
    """Start the next attempt, even if another process still runs the last one.

    If attempts end with their processes one after the other, the task is due later instead.
    """
    if task.status != "working":
        return None
    if task.worker is not None and task.crashes > 1:
        pause = min(2.0 ** (task.crashes - 1), MAX_PAUSE_S)
        return replace(task, worker=None, lease_expires=now + pause)
    return replace(
        task,
        attempt=task.attempt + 1,
        worker=worker,
        lease_expires=now + lease,
        crashes=task.crashes + 1,
        starts=task.starts + 1,
    )


def renew(task: Task, attempt: int, lease_expires: float) -> Task | None:
    """Renew the lease of an attempt."""
    return replace(task, lease_expires=lease_expires) if task.runs(attempt) else None


def suspend(
    task: Task,
    attempt: int,
    input_requests: Mapping[str, bytes],
    now: float,
    message: str | None = None,
    *,
    is_held: bool = False,
) -> Task | None:
    """Let an attempt wait for answers; if all have been given meanwhile, the task is due.

    The attempt ends, unless its process holds the handler until then. A key that was used before
    keeps its question.
    """
    if not task.runs(attempt):
        return None
    missing = tuple(key for key in input_requests if key not in task.answers)
    return replace(
        task,
        input_requests={**task.input_requests, **input_requests, **task.input_requests},
        open=missing,
        status="input_required" if missing else "working",
        message=task.message if message is None else message,
        worker=task.worker if is_held else None,
        lease_expires=task.lease_expires if is_held else 0.0,
        crashes=0,
        starts=0,
        updated=now,
    )


def resume(task: Task, attempt: int) -> Task | None:
    """Record that an attempt goes on with its answers."""
    return replace(task, starts=1) if task.runs(attempt) else None


def advance(task: Task, attempt: int) -> Task | None:
    """Record that an attempt has completed a step."""
    if not task.runs(attempt):
        return None
    return replace(task, crashes=0) if task.crashes else task


def note(task: Task, now: float, attempt: int, message: str) -> Task | None:
    """Set the status message; nothing changes if it is the same."""
    is_new = task.runs(attempt) and task.message != message
    return replace(task, message=message, updated=now) if is_new else None


def release(task: Task, attempt: int) -> Task | None:
    """Undo the claim of an attempt that has done nothing, because its process ends."""
    if not task.runs(attempt):
        return None
    crashes, starts = max(0, task.crashes - 1), max(0, task.starts - 1)
    return replace(task, worker=None, lease_expires=0.0, crashes=crashes, starts=starts)


def finish(
    task: Task,
    attempt: int,
    status: Outcome,
    outcome: bytes,
    now: float,
    message: str | None = None,
    call: bytes | None = None,
) -> Task | None:
    """End the task, which keeps a shorter `call`, if there is one."""
    if not task.runs(attempt):
        return None
    message = task.message if message is None else message
    return _ended(task, now, call, status=status, outcome=outcome, message=message)


def _ended(task: Task, now: float, call: bytes | None, **changes: Any) -> Task:
    """Return a task without what only its next attempt would need."""
    call = task.call if call is None else call
    nothing: Mapping[str, bytes] = {}
    changes.update(call=call, input_requests=nothing, answers=nothing, open=(), worker=None)
    return replace(task, updated=now, **changes)


# --- changes by clients ---------------------------------------------------------------------------


def answer(task: Task, answers: Mapping[str, bytes], now: float) -> Task | None:
    """Answer questions; when none is open any more, the task goes on where it is held, or is due.

    Answers without an open question are ignored (TASKX-9).
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
        lease_expires=0.0 if task.worker is None else task.lease_expires,
        crashes=0,
        updated=now,
    )


def cancel(task: Task, now: float, call: bytes | None = None) -> Task | None:
    """Cancel the task; an attempt that runs can no longer change it (TASKL-11)."""
    return None if task.is_over else _ended(task, now, call, status="cancelled")


def expire(task: Task) -> Task | None:
    """Let the task expire at once if it has ended."""
    return replace(task, ttl=0.0, outcome=None) if task.is_over else None


# --- as bytes -------------------------------------------------------------------------------------

_HEAD: Final = {
    **{
        name: name
        for name in ("id", "owner", "ttl", "created", "updated", "status", "message", "open")
    },
    "attempt": "leg",
    "worker": "runner",
    "lease_expires": "until",
    "crashes": "crashes",
    "starts": "begun",
}
"""The fields in the first line of a stored task, and their names there, which never change."""

_LATER: Final = ("caller", "tool")
"""Fields that earlier versions do not have, and drop when they change a task."""


def dump(task: Task) -> bytes:
    """Return a task as bytes: a line of JSON, and after it the fields that are bytes."""
    parts = [task.call, b"" if task.outcome is None else task.outcome]
    parts += [*task.input_requests.values(), *task.answers.values()]
    head: dict[str, Any] = {stored: getattr(task, name) for name, stored in _HEAD.items()}
    head.update({name: value for name in _LATER if (value := getattr(task, name))})
    head["asks"], head["answers"] = [*task.input_requests], [*task.answers]
    head["has_outcome"] = task.outcome is not None
    head["sizes"] = [len(each) for each in parts]
    return b"".join([encode(head), b"\n", *parts])


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
        **{name: found[stored] for name, stored in _HEAD.items()},
        **{name: found[name] for name in _LATER if name in found},
        call=call,
        outcome=outcome if found["has_outcome"] else None,
        input_requests=dict(zip(asks, more, strict=False)),
        answers=dict(zip(found["answers"], more[len(asks) :], strict=True)),
    )
