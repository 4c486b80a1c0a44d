"""The event loop of a session: asyncio or trio, with one interface.

On asyncio a task is created directly, which is several times cheaper than in a task group; on trio
it is started in a nursery. Other threads can schedule functions on both.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import anyio

if sys.version_info < (3, 12):
    from mcpkit._concurrency.eager_start import SpareTask

if TYPE_CHECKING:
    import trio
    from anyio.abc import TaskGroup

T = TypeVar("T")

_STUBBORN: Final = 2.0
"""Seconds to wait for tasks that were cancelled."""


class AsyncioLoop:
    """An asyncio loop, and the tasks on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_ending = False
        """True once all tasks are cancelled; they may still clean up."""
        self._loop = loop
        self._thread = threading.get_ident()
        self._kept: set[asyncio.Task[None]] = set()
        self._spare: SpareTask | None = None

    def start(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
        """Run a coroutine, which must not raise; the result cancels it.

        On Python 3.11 and later, it runs up to its first wait at once. Most handlers never wait, or
        once: this saves a task, or a turn of the event loop.
        """
        if sys.version_info >= (3, 12):
            task = asyncio.Task(work, loop=self._loop, eager_start=True)
            if task.done():
                return _nothing_to_cancel
        elif sys.version_info >= (3, 11):
            spare, self._spare = self._spare, None
            if spare is not None and not spare.fits():
                spare.resume()  # it ends: its context variables differ from those of this caller
                spare = None
            spare = spare or SpareTask(self._loop)
            if spare.take_first_step(work):
                if self._spare is None:
                    self._spare = spare
                else:  # the work itself has started work
                    self._keep(spare.task)()
                return _nothing_to_cancel
            task = spare.task
        else:
            task = self._loop.create_task(work)
        cancel = self._keep(task)
        if sys.version_info >= (3, 11):
            return cancel
        # A task that is cancelled before its first step would neither begin nor clean up.
        return lambda: self._loop.call_soon(cancel)

    def _keep(self, task: asyncio.Task[None]) -> Callable[[], object]:
        # The loop itself holds tasks only weakly.
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)
        return task.cancel

    def soon(self, function: Callable[[], object]) -> bool:
        """Call a function on the loop in its next turn; return False if the loop has ended.

        From any thread.
        """
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
        """Call a function after `delay` seconds; the result cancels that. On the loop only."""
        return self._loop.call_later(delay, function).cancel

    def future(self) -> Future:
        """Create an event that one task awaits. On the loop only."""
        return self._loop.create_future()

    def on_loop(self) -> bool:
        """Return True in the loop's own thread."""
        return threading.get_ident() == self._thread

    async def aclose(self) -> None:
        """Cancel all tasks, and wait for their end."""
        self.is_ending = True
        current = asyncio.current_task()
        waiting = [task for task in self._kept if task is not current]
        spare, self._spare = self._spare, None  # work that starts later finds it ended
        if spare is not None:
            waiting.append(spare.task)
        for task in waiting:
            self._loop.call_soon(task.cancel)  # once it has begun
        if waiting:
            # One may wait for a thread, which cannot be cancelled.
            await asyncio.wait(waiting, timeout=_STUBBORN)


def _nothing_to_cancel() -> None:
    """Cancel a coroutine that has already ended."""


class TrioFuture:
    """A future on trio; methods as of `asyncio.Future`."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    def done(self) -> bool:
        return self._event.is_set()

    def set_result(self, result: None, /) -> None:
        self._event.set()

    def __await__(self) -> Generator[Any, Any, None]:
        return self._event.wait().__await__()


class TrioLoop:
    """A trio loop, and the tasks in a nursery of it; methods as of `AsyncioLoop`."""

    def __init__(self, group: TaskGroup, token: trio.lowlevel.TrioToken) -> None:
        self.is_ending = False
        self._group = group
        self._token = token
        self._thread = threading.get_ident()

    def start(self, work: Coroutine[Any, Any, None]) -> Callable[[], object]:
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
        import trio

        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    def before_waiting(self, function: Callable[[], object]) -> None:
        # Now, since trio wakes itself up for what is to be called soon.
        function()

    def later(self, delay: float, function: Callable[[], object]) -> Callable[[], object]:

        async def wait() -> None:
            await anyio.sleep(delay)
            function()

        return self.start(wait())

    def future(self) -> Future:
        return TrioFuture()

    def on_loop(self) -> bool:
        return threading.get_ident() == self._thread


Loop: TypeAlias = "AsyncioLoop | TrioLoop"
Future: TypeAlias = "asyncio.Future[None] | TrioFuture"


@asynccontextmanager
async def open_loop() -> AsyncGenerator[Loop, None]:
    """Open the running event loop for tasks, which are cancelled at the end.

    On asyncio there is no task group and so no cancel scope, which means that a fixture may enter
    in one task and leave in another.
    """
    trio: Any = sys.modules.get("trio")
    if trio is not None and trio.lowlevel.in_trio_run():
        async with anyio.create_task_group() as group:
            on_trio = TrioLoop(group, trio.lowlevel.current_trio_token())
            yield on_trio
            on_trio.is_ending = True
            group.cancel_scope.cancel()
        return
    opened = AsyncioLoop(asyncio.get_running_loop())
    try:
        yield opened
    finally:
        await opened.aclose()


def current_loop() -> object:
    """Return the running asyncio loop, or the token of the running trio loop."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        import trio

        return trio.lowlevel.current_trio_token()


def soon_on(loop: Any, function: Callable[[], object]) -> None:
    """Call a function on a `current_loop`, from any thread; not if that has ended."""
    on_asyncio = isinstance(loop, asyncio.AbstractEventLoop)
    with suppress(RuntimeError):
        (loop.call_soon_threadsafe if on_asyncio else loop.run_sync_soon)(function)


def spawn(function: Callable[[], Coroutine[Any, Any, None]]) -> object:
    """Run a coroutine function on the running loop; its end cancels it. Keep the returned task.

    It does not have the context variables of the caller, as it lives longer than that.
    """
    context = contextvars.Context()
    loop = current_loop()
    if isinstance(loop, asyncio.AbstractEventLoop):
        return context.run(loop.create_task, function())
    import trio

    return trio.lowlevel.spawn_system_task(function, context=context)


def run_loop(main: Callable[..., Awaitable[T]], *args: object, backend: str = "asyncio") -> T:
    """Run a coroutine function in a new event loop, and return its result.

    Args:
        main: The function.
        args: Its arguments.
        backend: ``"asyncio"`` or ``"trio"``.

    Raises:
        KeyboardInterrupt: Ctrl-C was pressed. Before Python 3.11, asyncio raises `CancelledError`
            instead, from a task that was not cancelled.
    """
    try:
        return anyio.run(main, *args, backend=backend)
    except asyncio.CancelledError:
        if sys.version_info >= (3, 11):
            raise
        raise KeyboardInterrupt from None
