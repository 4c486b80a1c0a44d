"""Where a session's work runs: tasks of the event loop it was started on.

On asyncio a task is made directly, which is several times cheaper than a task group's; on trio it
goes into a nursery. Both may be told to do something from another thread.
"""

from __future__ import annotations

import contextvars
import functools
import sys
import threading
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol

import anyio

if TYPE_CHECKING:
    import asyncio

    import trio
    from anyio.abc import TaskGroup

__all__ = ["AsyncioTasks", "Tasks", "TrioTasks", "open_tasks"]

Work = Coroutine[Any, Any, None]


class Tasks(Protocol):
    """The event loop, as a session needs it."""

    def start(self, work: Work) -> Callable[[], object]:
        """Run a coroutine, which must not raise; the result cancels it."""
        ...

    def soon(self, function: Callable[[], object]) -> None:
        """Call a function on the loop in its next turn. From any thread."""
        ...

    def on_loop(self) -> bool:
        """Whether this is the loop's own thread."""
        ...


class AsyncioTasks:
    """Tasks of an asyncio loop."""

    __slots__ = ("_kept", "_loop", "_spare", "_thread")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._kept: set[asyncio.Task[None]] = set()
        self._spare: _SpareTask | None = None

    def start(self, work: Work) -> Callable[[], object]:
        """Run a coroutine; what it does before it first waits is done on return (Python 3.11+).

        Most handlers never wait, or once: this saves them a task, or a turn of the event loop.
        """
        if sys.version_info >= (3, 12):
            import asyncio

            task = asyncio.Task(work, loop=self._loop, eager_start=True)
            if task.done():
                return _nothing_to_cancel
        elif sys.version_info >= (3, 11):
            spare, self._spare = self._spare or _SpareTask(self._loop), None
            if spare.take_first_step(work):
                self._spare = spare
                return _nothing_to_cancel
            task = spare.task
        else:
            task = self._loop.create_task(work)
        # The loop itself holds tasks only weakly.
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        return task.cancel

    def soon(self, function: Callable[[], object]) -> None:
        """Call a function on the loop in its next turn. From any thread."""
        if self.on_loop():
            self._loop.call_soon(function)
            return
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop is closed: nobody is left to be told
            return

    def on_loop(self) -> bool:
        """Whether this is the loop's own thread."""
        return threading.get_ident() == self._thread

    async def aclose(self) -> None:
        """Cancel what still runs, and wait until it has ended."""
        import asyncio

        current = asyncio.current_task()
        waiting = [task for task in self._kept if task is not current]
        if self._spare is not None:
            waiting.append(self._spare.task)
        for task in waiting:
            task.cancel()
        if waiting:
            await asyncio.wait(waiting)


class _SpareTask:
    """A parked task, in whose name the first steps of coroutines run (Python 3.11 only).

    It does what ``eager_start`` does from Python 3.12 on, by the means that asyncio documents for
    extending it. A coroutine that ends in its first step leaves the task parked for the next one;
    one that waits is carried on by the task, with which it has been all along: the same current
    task, the same context.
    """

    __slots__ = ("_carried", "_context", "_loop", "_untouched", "_wake", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._carried: tuple[Work, Any] | None = None
        self._wake: asyncio.Future[None] | None = None
        self._context = contextvars.copy_context()
        self._untouched = self._context.copy()
        self.task = self._make()

    if sys.version_info >= (3, 11):

        def _make(self) -> asyncio.Task[None]:
            return self._loop.create_task(self._park(), context=self._context)

    else:

        def _make(self) -> asyncio.Task[None]:
            raise RuntimeError("needs Python 3.11")

    async def _park(self) -> None:
        if self._carried is None:
            self._wake = self._loop.create_future()
            await self._wake
        if self._carried is not None:
            work, yielded = self._carried
            await _resume(work, yielded)

    def take_first_step(self, work: Work) -> bool:
        """Run a coroutine until it first waits; whether the task is parked again."""
        import asyncio

        loop, task = self._loop, self.task
        outer = asyncio.current_task(loop)
        if outer is not None:
            asyncio.tasks._leave_task(loop, outer)
        asyncio.tasks._enter_task(loop, task)
        try:
            yielded = self._context.run(work.send, None)
        except StopIteration:
            # A context variable that was set must not reach the next request.
            if self._context == self._untouched:
                return True
        else:
            self._carried = (work, yielded)
        finally:
            asyncio.tasks._leave_task(loop, task)
            if outer is not None:
                asyncio.tasks._enter_task(loop, outer)
        if self._wake is not None:
            self._wake.set_result(None)
        return False


@types.coroutine
def _resume(work: Work, yielded: Any) -> Generator[Any, Any, None]:
    """What ``await work`` does, for a coroutine that has already yielded once."""
    while True:
        try:
            sent = yield yielded
        except GeneratorExit:
            work.close()
            raise
        except BaseException as error:
            step: Callable[[], Any] = functools.partial(work.throw, error)
        else:
            step = functools.partial(work.send, sent)
        try:
            yielded = step()
        except StopIteration:
            return


def _nothing_to_cancel() -> None:
    """Cancel what has already ended."""


class TrioTasks:
    """Tasks of a trio run, in a nursery of their own."""

    __slots__ = ("_group", "_thread", "_token")

    def __init__(self, group: TaskGroup, token: trio.lowlevel.TrioToken) -> None:
        self._group = group
        self._token = token
        self._thread = threading.get_ident()

    def start(self, work: Work) -> Callable[[], object]:
        """Run a coroutine, from the next turn of the loop on."""
        scope = anyio.CancelScope()

        async def run() -> None:
            with scope:
                await work

        self._group.start_soon(run)
        return scope.cancel

    def soon(self, function: Callable[[], object]) -> None:
        """Call a function on the loop in its next turn. From any thread."""
        import trio

        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return

    def on_loop(self) -> bool:
        """Whether this is the loop's own thread."""
        return threading.get_ident() == self._thread


def _on_trio() -> bool:
    """Whether the running event loop is trio's; without importing trio to find out."""
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


@asynccontextmanager
async def open_tasks() -> AsyncIterator[Tasks]:
    """Tasks of the running event loop; whatever still runs at the end is cancelled.

    On asyncio there is no task group and so no cancel scope, which means that a fixture may enter
    in one task and leave in another.
    """
    if _on_trio():
        import trio

        async with anyio.create_task_group() as group:
            yield TrioTasks(group, trio.lowlevel.current_trio_token())
            group.cancel_scope.cancel()
        return
    import asyncio

    tasks = AsyncioTasks(asyncio.get_running_loop())
    try:
        yield tasks
    finally:
        await tasks.aclose()
