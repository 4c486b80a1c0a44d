"""Tasks on Python 3.10 and 3.11, which have no ``eager_start``.

Nothing else needs this file: it goes when Python 3.11 does, in October 2027.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine, Generator
from typing import Any, Final


class Steps(Coroutine[Any, Any, None]):
    """Work, as the task sees it that carries it on: from its start, or from its first step on.

    A bare coroutine that is cancelled before its first step never begins, and so neither answers
    nor cleans up. This one begins, and is cancelled where it first waits, as on trio.
    """

    __slots__ = ("_first", "_work", "parked")

    def __init__(self, work: Coroutine[Any, Any, None] | None = None) -> None:
        self._work = work
        self._first: Any = _NOT_TAKEN
        self.parked: asyncio.Future[None] | None = None
        """The future that a task without work awaits; done if the task was cancelled."""

    def carry_on(self, work: Coroutine[Any, Any, None], first: Any) -> None:
        """Go on with work that has taken its first step, and now waits for something."""
        self._work = work
        self._first = first
        self.leave()

    def leave(self) -> None:
        """Be parked no longer: carry on, or end if there is no work."""
        if self.parked is None:
            self.parked = _NEVER_PARKED
        elif not self.parked.done():
            self.parked.set_result(None)

    def send(self, value: Any) -> Any:
        """Take the next step."""
        work = self._work
        if work is None:
            if self.parked is not None:
                raise StopIteration
            self.parked = asyncio.get_running_loop().create_future()
            return next(self.parked.__await__())
        if self._first is _TAKEN:
            return work.send(value)
        first, self._first = self._first, _TAKEN
        return work.send(None) if first is _NOT_TAKEN else first

    def throw(self, error: Any, value: Any = None, traceback: Any = None, /) -> Any:
        """Be cancelled."""
        del value, traceback
        work = self._work
        if work is None:
            raise error
        if self._first is _TAKEN:
            return work.throw(error)
        first, self._first = self._first, _TAKEN
        if first is _NOT_TAKEN:
            first = work.send(None)
        # Task.cancel() cancels what a task waits for; of this wait the task does not know yet.
        if first is not None and first.cancel(*error.args[:1]):
            return first
        return work.throw(error)

    def close(self) -> None:
        """Give up."""
        if self._work is not None:
            self._work.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise TypeError("driven by a task")


_NOT_TAKEN: Final = object()
_TAKEN: Final = object()
_NEVER_PARKED: Final[Any] = object()

_current_task = asyncio.current_task
_enter_task = asyncio.tasks._enter_task
_leave_task = asyncio.tasks._leave_task


class SpareTask:
    """A parked task, in whose name the first steps of coroutines run (Python 3.11 only).

    It does what ``eager_start`` does from Python 3.12 on, by the means that asyncio documents for
    extending it. A coroutine that ends in its first step leaves the task parked for the next one;
    one that waits is carried on by the task, with which it has been all along: the same current
    task, the same context.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = contextvars.copy_context()
        self._untouched = self._context.copy()
        self._steps = Steps()
        create_task: Any = loop.create_task  # `context` is new in Python 3.11
        self.task: Any = create_task(self._steps, context=self._context)

    def fits(self) -> bool:
        """Return True if a new task would start with the same context variables."""
        return _same(contextvars.copy_context(), self._untouched)

    def leave(self) -> None:
        """End the task."""
        self._steps.leave()

    def take_first_step(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run a coroutine up to its first wait; return True if the task stays parked."""
        loop, task = self._loop, self.task
        outer = _current_task(loop)
        if outer is not None:
            _leave_task(loop, outer)
        _enter_task(loop, task)
        try:
            first = self._context.run(work.send, None)
        except StopIteration:
            # What was set or cancelled must not reach the next request.
            parked = self._steps.parked
            if (
                not self.task.cancelling()
                and _same(self._context, self._untouched)
                and (parked is None or not parked.done())
            ):
                return True
            self._steps.leave()
        else:
            self._steps.carry_on(work, first)
        finally:
            _leave_task(loop, task)
            if outer is not None:
                _enter_task(loop, outer)
        return False


def _same(one: contextvars.Context, other: contextvars.Context) -> bool:
    """Whether two contexts hold the same objects; equal ones are not enough."""
    if len(one) != len(other):
        return False
    for variable in one:  # noqa: SIM110 - for every call, and a generator costs as much as the rest
        if other.get(variable, _NOT_TAKEN) is not one[variable]:
            return False
    return True
