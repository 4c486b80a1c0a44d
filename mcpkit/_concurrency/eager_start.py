"""Tasks on Python 3.11, which has no ``eager_start``.

Nothing else needs this file: it goes when Python 3.11 does, in October 2027.
"""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections.abc import Coroutine, Generator
from typing import Any, Final

_MISSING: Final = object()

_current_task = asyncio.current_task
_enter_task = asyncio.tasks._enter_task
_leave_task = asyncio.tasks._leave_task


class SpareTask:
    """An idle task, in whose name the first steps of coroutines run.

    It does what ``eager_start`` does from Python 3.12 on, by the means that asyncio documents for
    extending it. A coroutine that ends in its first step leaves the task idle for the next one; one
    that waits is continued by the task, with which it has been all along: the same current task,
    the same context.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = contextvars.copy_context()
        self._untouched = self._context.copy()
        self._idle: asyncio.Future[None] | None = None
        self._is_resumed = False
        self._work: Coroutine[Any, Any, None] | None = None
        self._first: Any = None  # the future that the work waits for first
        steps: Any = self._steps()
        next(steps)  # so that the task may be cancelled before it begins
        create_task: Any = loop.create_task  # `context` is new in Python 3.11
        self.task: Any = create_task(steps, context=self._context)

    @types.coroutine
    def _steps(self) -> Generator[Any, Any, None]:
        """Wait for work that has taken its first step, and take the others."""
        error: BaseException | None = None
        try:
            yield
            if not self._is_resumed:
                self._idle = self._loop.create_future()
                yield from self._idle
        except asyncio.CancelledError as cancelled:
            if self._work is None:
                raise
            error = cancelled
        work, first = self._work, self._first
        if work is None:
            return
        # Task.cancel() cancels what a task waits for; of this wait the task does not know yet.
        if error is not None and first is not None and first.cancel(*error.args[:1]):
            error = None
        try:
            while True:
                if error is not None:
                    first, error = work.throw(error), None
                try:
                    yield first
                    break
                except BaseException as raised:
                    error = raised
        except StopIteration:
            return
        first = self._first = None  # its result may be large
        yield from work

    def fits(self) -> bool:
        """Return True if a new task would start with the same context variables."""
        return _same(contextvars.copy_context(), self._untouched)

    def resume(self) -> None:
        """Resume the task: it continues the work, or ends if there is none."""
        self._is_resumed = True
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def take_first_step(self, work: Coroutine[Any, Any, None]) -> bool:
        """Run a coroutine up to its first wait; return True if the task stays idle."""
        loop, task = self._loop, self.task
        outer = _current_task(loop)
        if outer is not None:
            _leave_task(loop, outer)
        _enter_task(loop, task)
        try:
            self._first = self._context.run(work.send, None)
        except StopIteration:
            # What was set or cancelled must not reach the next request.
            if (
                not task.cancelling()
                and _same(self._context, self._untouched)
                and (self._idle is None or not self._idle.done())
            ):
                return True
        else:
            self._work = work
        finally:
            _leave_task(loop, task)
            if outer is not None:
                _enter_task(loop, outer)
        self.resume()
        return False


def _same(one: contextvars.Context, other: contextvars.Context) -> bool:
    """Whether two contexts hold the same objects; equal ones are not enough."""
    if len(one) != len(other):
        return False
    for variable in one:  # noqa: SIM110 - for every call, and a generator costs as much as the rest
        if other.get(variable, _MISSING) is not one[variable]:
            return False
    return True
