"""Where a session's work runs: tasks of the event loop it was started on.

On asyncio a task is made directly, which is several times cheaper than a task group's; on trio it
goes into a nursery. Both may be told to do something from another thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

import anyio

if TYPE_CHECKING:
    import trio
    from anyio.abc import TaskGroup

__all__ = ["AsyncioTasks", "Future", "Tasks", "TrioTasks", "open_tasks"]

Work = Coroutine[Any, Any, None]

_STUBBORN: Final = 2.0
"""Seconds to wait for work that has been cancelled."""


class Future(Protocol):
    """Something that one task waits for. On the loop only."""

    def done(self) -> bool:
        """Return True if it has happened, or the task does not wait for it any more."""
        ...

    def set_result(self, result: None, /) -> None:
        """Let the task go on."""
        ...

    def __await__(self) -> Generator[Any, Any, None]: ...


class Tasks(Protocol):
    """The event loop, as a session needs it."""

    is_ending: bool
    """True once everything that runs is cancelled; it may still clean up."""

    def start(self, work: Work) -> Callable[[], object]:
        """Run a coroutine, which must not raise; the result cancels it."""
        ...

    def soon(self, function: Callable[[], object]) -> bool:
        """Call a function on the loop in its next turn. From any thread.

        Returns:
            False if the loop has ended, so that nobody is left to be told.
        """
        ...

    def before_waiting(self, function: Callable[[], object]) -> None:
        """Call a function before the loop waits for anything again. On the loop only."""
        ...

    def later(self, delay: float, function: Callable[[], object]) -> Callable[[], object]:
        """Call a function after some seconds; the result takes that back. On the loop only."""
        ...

    def future(self) -> Future:
        """Make something to wait for. On the loop only."""
        ...

    def on_loop(self) -> bool:
        """Whether this is the loop's own thread."""
        ...


class AsyncioTasks:
    """Tasks of an asyncio loop."""

    __slots__ = ("_kept", "_loop", "_spare", "_thread", "is_ending")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_ending = False
        self._loop = loop
        self._thread = threading.get_ident()
        self._kept: set[asyncio.Task[None]] = set()
        self._spare: _SpareTask | None = None

    def start(self, work: Work) -> Callable[[], object]:
        """Run a coroutine; what it does before it first waits is done on return (Python 3.11+).

        Most handlers never wait, or once: this saves them a task, or a turn of the event loop.
        """
        if sys.version_info >= (3, 12):
            task = asyncio.Task(work, loop=self._loop, eager_start=True)
            if task.done():
                return _nothing_to_cancel
        elif sys.version_info >= (3, 11):
            spare, self._spare = self._spare or _SpareTask(self._loop), None
            if not spare.fits():
                self._spare = spare
                task = self._loop.create_task(_Steps(work))
            elif not spare.take_first_step(work):
                task = spare.task
            elif self._spare is None:
                self._spare = spare
                return _nothing_to_cancel
            else:  # the work itself has started work
                self._keep(spare.task)()
                return _nothing_to_cancel
        else:
            task = self._loop.create_task(_Steps(work))
        return self._keep(task)

    def _keep(self, task: asyncio.Task[None]) -> Callable[[], object]:
        # The loop itself holds tasks only weakly.
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        return task.cancel

    def soon(self, function: Callable[[], object]) -> bool:
        """Call a function on the loop in its next turn. From any thread."""
        if self.on_loop():
            self._loop.call_soon(function)
            return True
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def before_waiting(self, function: Callable[[], object]) -> None:
        """Call a function before the loop waits for anything again. On the loop only."""
        self._loop.call_soon(function)

    def later(self, delay: float, function: Callable[[], object]) -> Callable[[], object]:
        """Call a function after some seconds; the result takes that back. On the loop only."""
        return self._loop.call_later(delay, function).cancel

    def future(self) -> Future:
        """Make something to wait for. On the loop only."""
        return self._loop.create_future()

    def on_loop(self) -> bool:
        """Whether this is the loop's own thread."""
        return threading.get_ident() == self._thread

    async def aclose(self) -> None:
        """Cancel what still runs, and wait until it has ended."""
        self.is_ending = True
        current = asyncio.current_task()
        waiting = [task for task in self._kept if task is not current]
        spare, self._spare = self._spare, None  # whoever starts something later finds it ended
        if spare is not None:
            waiting.append(spare.task)
        for task in waiting:
            task.cancel()
        if waiting:
            # One may wait for a thread, which nothing can cancel.
            await asyncio.wait(waiting, timeout=_STUBBORN)


class _Steps(Coroutine[Any, Any, None]):
    """Work, as the task sees it that carries it on: from its start, or from its first step on.

    A bare coroutine that is cancelled before its first step never begins, and so neither answers
    nor cleans up. This one begins, and is cancelled where it first waits, as on trio.
    """

    __slots__ = ("_first", "_parked", "_work")

    def __init__(self, work: Work | None = None) -> None:
        self._work = work
        self._first: Any = _NOT_TAKEN
        self._parked: asyncio.Future[None] | None = None

    def carry_on(self, work: Work, first: Any) -> None:
        """Go on with work that has taken its first step, and now waits for something."""
        self._work = work
        self._first = first
        self.leave()

    def leave(self) -> None:
        """Be parked no longer: carry on, or end if there is no work."""
        if self._parked is None:
            self._parked = _NEVER_PARKED
        elif not self._parked.done():
            self._parked.set_result(None)

    @property
    def can_wait(self) -> bool:
        """Whether the task may stay parked: nobody has cancelled it."""
        return self._parked is None or not self._parked.done()

    def send(self, value: Any) -> Any:
        """Take the next step."""
        work = self._work
        if work is None:
            return self._park()
        if self._first is _TAKEN:
            return work.send(value)
        first, self._first = self._first, _TAKEN
        return work.send(None) if first is _NOT_TAKEN else first

    def _park(self) -> Any:
        if self._parked is not None:
            raise StopIteration
        self._parked = asyncio.get_running_loop().create_future()
        return next(self._parked.__await__())

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


class _SpareTask:
    """A parked task, in whose name the first steps of coroutines run (Python 3.11 only).

    It does what ``eager_start`` does from Python 3.12 on, by the means that asyncio documents for
    extending it. A coroutine that ends in its first step leaves the task parked for the next one;
    one that waits is carried on by the task, with which it has been all along: the same current
    task, the same context.
    """

    __slots__ = ("_context", "_loop", "_steps", "_untouched", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._context = contextvars.copy_context()
        self._untouched = self._context.copy()
        self._steps = _Steps()
        self.task = self._make()

    if sys.version_info >= (3, 11):

        def _make(self) -> asyncio.Task[None]:
            return self._loop.create_task(self._steps, context=self._context)

        def _may_stay(self) -> bool:
            # What was set or cancelled must not reach the next request.
            return (
                not self.task.cancelling()
                and _same(self._context, self._untouched)
                and self._steps.can_wait
            )

    else:

        def _make(self) -> asyncio.Task[None]:
            raise RuntimeError("needs Python 3.11")

        def _may_stay(self) -> bool:
            return False

    def fits(self) -> bool:
        """Whether a task that is made here and now would start with the same context variables."""
        return _same(contextvars.copy_context(), self._untouched)

    def take_first_step(self, work: Work) -> bool:
        """Run a coroutine until it first waits; whether the task stays parked."""
        loop, task = self._loop, self.task
        outer = _current_task(loop)
        if outer is not None:
            _leave_task(loop, outer)
        _enter_task(loop, task)
        try:
            first = self._context.run(work.send, None)
        except StopIteration:
            if self._may_stay():
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
    if not one:
        return True
    for variable in one:  # noqa: SIM110 - for every call, and a generator costs as much as the rest
        if other.get(variable, _NOT_TAKEN) is not one[variable]:
            return False
    return True


def _nothing_to_cancel() -> None:
    """Cancel what has already ended."""


class _TrioFuture:
    """A future on trio."""

    __slots__ = ("_event",)

    def __init__(self, event: trio.Event) -> None:
        self._event = event

    def done(self) -> bool:
        """Return True if it has happened."""
        return self._event.is_set()

    def set_result(self, result: None, /) -> None:
        """Let the task go on."""
        self._event.set()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._event.wait().__await__()


class TrioTasks:
    """Tasks of a trio run, in a nursery of their own."""

    __slots__ = ("_event", "_group", "_thread", "_token", "is_ending")

    def __init__(self, group: TaskGroup, token: trio.lowlevel.TrioToken) -> None:
        import trio

        self.is_ending = False
        self._event = trio.Event
        self._group = group
        self._token = token
        self._thread = threading.get_ident()

    def start(self, work: Work) -> Callable[[], object]:
        """Run a coroutine, from the next turn of the loop on."""
        scope = anyio.CancelScope()

        async def run() -> None:
            with scope:
                await work

        try:
            self._group.start_soon(run)
        except RuntimeError:  # the end has come: a thread has outlived it
            import trio

            trio.lowlevel.spawn_system_task(run)
        return scope.cancel

    def soon(self, function: Callable[[], object]) -> bool:
        """Call a function on the loop in its next turn. From any thread."""
        import trio

        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def before_waiting(self, function: Callable[[], object]) -> None:
        """Call a function before the loop waits for anything again. On the loop only."""
        # Now, since trio wakes itself up for what is to be called soon.
        function()

    def later(self, delay: float, function: Callable[[], object]) -> Callable[[], object]:
        """Call a function after some seconds; the result takes that back. On the loop only."""

        async def wait() -> None:
            await anyio.sleep(delay)
            function()

        return self.start(wait())

    def future(self) -> Future:
        """Make something to wait for. On the loop only."""
        return _TrioFuture(self._event())

    def on_loop(self) -> bool:
        """Whether this is the loop's own thread."""
        return threading.get_ident() == self._thread


def _on_trio() -> bool:
    """Whether the running event loop is trio's; without importing trio to find out."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


@asynccontextmanager
async def open_tasks() -> AsyncGenerator[Tasks, None]:
    """Tasks of the running event loop; whatever still runs at the end is cancelled.

    On asyncio there is no task group and so no cancel scope, which means that a fixture may enter
    in one task and leave in another.
    """
    if _on_trio():
        import trio

        async with anyio.create_task_group() as group:
            on_trio = TrioTasks(group, trio.lowlevel.current_trio_token())
            yield on_trio
            on_trio.is_ending = True
            group.cancel_scope.cancel()
        return
    tasks = AsyncioTasks(asyncio.get_running_loop())
    try:
        yield tasks
    finally:
        await tasks.aclose()
