"""Worker threads for functions that block.

Calls wait in one queue, and any free worker takes the next. Waking a worker or the event loop costs
more than most functions do, so both are woken for everything there is by then, not for each call:
a worker goes on until the queue is empty, and the loop collects all results at once.

A long call does not hold up those behind it, because a worker that takes a call and leaves others
in the queue tells the loop. If they are still there when the loop looks, it wakes or starts another
worker, which does the same.

Calls of several owners are run in turn, and one owner cannot have all workers, so the calls of
others need not wait for hers.
"""

from __future__ import annotations

import contextvars
import signal
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeVar, cast

from mcpkit._utils.quota import ANONYMOUS, Quota
from mcpkit.errors import ConnectionClosed

if TYPE_CHECKING:
    from mcpkit._concurrency.loop import Future, Loop

T = TypeVar("T")

_SHARE: Final = 0.75
"""The part of all workers that one owner may have."""

_SHARED: Final = 4
"""The minimum number of workers for `_SHARE` to apply."""

_RAISE_INTERRUPTS: Final = ("_signal", "asyncio.runners", "trio._core._ki")
"""Modules whose handlers of SIGINT raise `KeyboardInterrupt`."""

_IDLE: Final = 10.0
"""Seconds that a worker waits for a call before it ends."""


def is_interrupt(error: BaseException) -> bool:
    """Return True if Ctrl-C may have raised an exception, False if a handler has.

    Ctrl-C raises in the main thread only, and not if the server handles SIGINT itself.
    """
    if not isinstance(error, KeyboardInterrupt):
        return False
    handler = signal.getsignal(signal.SIGINT)
    module = getattr(getattr(handler, "func", handler), "__module__", None)
    return module in _RAISE_INTERRUPTS and (threading.current_thread() is threading.main_thread())


class ThreadCall(Generic[T]):
    """A function for a worker thread, which may continue after its caller was cancelled.

    Args:
        function: Called once, in a copy of the caller's context.
    """

    __slots__ = (
        "_after",
        "_context",
        "_error",
        "_function",
        "_future",
        "_is_awaited",
        "_is_nested",
        "_result",
        "_state",
        "_threads",
        "owner",
        "returned",
    )

    _context: contextvars.Context
    _future: Future
    _is_nested: bool
    _result: T

    def __init__(self, function: Callable[[], T]) -> None:
        self.returned = False
        """True if the function has returned; False if it has not ended, or has raised."""
        self.owner = ANONYMOUS
        """The owner that the call counts for."""
        self._function: Callable[[], Any] = function
        self._after: Callable[[], object] | None = None
        self._error: BaseException | None = None
        self._is_awaited = True
        self._state: Literal["waiting", "running", "followed", "ended"] = "waiting"
        self._threads: Threads | None = None

    def __call__(self) -> T:
        """Call the function here and now."""
        result: T = self._function()
        return result

    def then(self, after: Callable[[], object]) -> bool:
        """Call another function in the thread when this one ends, before the worker is free.

        Args:
            after: Its exceptions are ignored.

        Returns:
            False if this function does not run, and never will. Then `after` is not called.
        """
        threads = self._threads
        if threads is None:
            return False
        with threads.lock:
            if self._state == "running":
                self._after = after
                return True
        return False

    async def ended(self) -> None:
        """Wait until the function has ended, even if the caller is cancelled."""
        from anyio import CancelScope  # importing an app should not load an event loop

        threads = self._threads
        if threads is None:
            return
        loop = threads.loop
        future = loop.future()
        with CancelScope(shield=True):
            if self.then(lambda: loop.soon(lambda: _settle(future))):
                await future

    # --- for `Threads` ----------------------------------------------------------------------------

    def prepare(self, threads: Threads) -> Future:
        """Return the future that the caller awaits. On the loop."""
        wait = _wait.get()
        self._threads = threads
        self._is_nested = wait is not None and wait.is_open
        self._context = contextvars.copy_context()
        future = self._future = threads.loop.future()
        return future

    def perform(self, library: contextvars.ContextVar[Any] | None) -> None:
        """Call the function, and keep its outcome. In the thread.

        Args:
            library: Names the event loop's library, which is none in a thread.
        """
        context = self._context
        try:
            if library is not None and context.get(library) is not None:
                context.run(library.set, None)
            result = context.run(self._function)
        except KeyboardInterrupt as error:
            # No Ctrl-C, which raises in the main thread; there, it would end the server.
            self._error = RuntimeError("KeyboardInterrupt was raised in a worker thread")
            self._error.__cause__ = error
        except BaseException as error:
            self._error = error
        else:
            if self._state == "running":
                self._result = result
                self.returned = True

    def follow(self) -> bool:
        """Switch to the function given to `then`; False if there is none."""
        if self._after is None:
            return False
        self._function, self._after = self._after, None
        self._state = "followed"
        return True

    def outcome(self) -> T:
        """Return the function's result, or raise its exception."""
        error, self._error = self._error, None
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame


class _Wait:
    """A thread's wait for a coroutine that runs on the loop."""

    def __init__(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.is_open = True
        self._function = function
        self._result: Any = None
        self._error: BaseException | None = ConnectionClosed("The server has ended")
        self._over = threading.Lock()
        self._over.acquire()

    async def run(self) -> None:
        """Run the coroutine. On the loop."""
        from anyio import get_cancelled_exc_class

        try:
            self._result = await self._function()
            self._error = None
        except GeneratorExit:
            raise
        except BaseException as error:
            if isinstance(error, get_cancelled_exc_class()):
                raise
            self._error = error
        finally:
            self.is_open = False
            self._over.release()

    def outcome(self) -> Any:
        """Wait for the coroutine, and return its result or raise its exception."""
        self._over.acquire()
        result, self._result = self._result, None
        error, self._error = self._error, None
        if error is None:
            return result
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame


_wait: contextvars.ContextVar[_Wait | None] = contextvars.ContextVar("mcpkit_wait", default=None)
"""The wait of the thread whose coroutine runs in this context."""


class _Queue:
    """Calls that wait for a worker, of each owner in turn.

    Args:
        places: The places for calls that run.
    """

    __slots__ = ("_calls", "_places", "_size")

    def __init__(self, places: Quota) -> None:
        self._places = places
        self._calls: OrderedDict[str, deque[ThreadCall[Any]]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[ThreadCall[Any]]:
        return chain.from_iterable(self._calls.values())

    def append(self, call: ThreadCall[Any]) -> None:
        """Add a call, behind all others of its owner."""
        calls = self._calls.get(call.owner)
        if calls is None:
            calls = self._calls[call.owner] = deque()
        calls.append(call)
        self._size += 1

    def remove(self, call: ThreadCall[Any]) -> None:
        """Remove a call that was cancelled."""
        self._calls[call.owner].remove(call)
        self._took_from(call.owner)

    def first(self) -> ThreadCall[Any] | None:
        """Return the next call; None if none may run now."""
        # Garbage collection may cancel a call at any moment, and so change the dict.
        for owner, calls in list(self._calls.items()):
            # Calls without an owner need not leave a worker for other owners.
            has_room = self._places.used < self._places.total and (
                owner == ANONYMOUS or self._places.has_room(owner)
            )
            if has_room and calls:
                return calls[0]
        return None

    def pop(self, call: ThreadCall[Any]) -> None:
        """Remove the next call; the turn passes to the next owner."""
        self._calls[call.owner].popleft()
        self._calls.move_to_end(call.owner)
        self._took_from(call.owner)

    def clear(self) -> None:
        """Remove all calls."""
        self._calls.clear()
        self._size = 0

    def _took_from(self, owner: str) -> None:
        self._size -= 1
        if not self._calls[owner]:
            del self._calls[owner]


class _Worker:
    """A thread that runs calls."""

    __slots__ = ("has_begun", "is_coming", "is_over", "wake")

    def __init__(self) -> None:
        self.has_begun = False
        self.is_coming = False
        self.is_over = False
        self.wake = threading.Lock()
        self.wake.acquire()


class Threads:
    """The worker threads of a server in one event loop.

    Args:
        loop: The event loop.
        most: Functions that run at once. One whose caller was cancelled counts until it ends,
            because the threads of cancelled calls could otherwise pile up without limit.
    """

    __slots__ = (
        "_coming",
        "_context",
        "_done",
        "_idle",
        "_is_closing",
        "_library",
        "_nested",
        "_places",
        "_queue",
        "_told",
        "_workers",
        "busy",
        "lock",
        "loop",
    )

    def __init__(self, loop: Loop, most: int) -> None:
        if most < 1:
            raise ValueError(f"max_threads must be at least 1, not {most}")
        self.loop = loop
        # Reentrant, because garbage collection may cancel a call at any point.
        self.lock = threading.RLock()
        self.busy = 0
        """The number of functions that run, including those whose caller was cancelled."""
        self._places = Quota(most, int(most * _SHARE) if most >= _SHARED else most)
        self._queue = _Queue(self._places)
        self._nested: deque[ThreadCall[Any]] = deque()
        self._done: list[ThreadCall[Any]] = []
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []
        self._coming = 0  # workers that were woken or started, and have not looked at the queue yet
        self._told = False  # `_collect` is scheduled on the loop
        self._is_closing = False
        # Workers outlive the request that they are started for.
        self._context = contextvars.copy_context()
        sniffio: Any = sys.modules.get("sniffio")
        self._library = getattr(sniffio, "current_async_library_cvar", None)

    @property
    def size(self) -> int:
        """The number of workers."""
        return len(self._workers)

    # --- on the loop ------------------------------------------------------------------------------

    async def run(self, function: Callable[[], T], owner: str = ANONYMOUS) -> T:
        """Run a function in a worker thread, and wait for it.

        If the caller is cancelled, a function that waits in the queue never runs, and one that runs
        continues. If another thread waits for the caller, the function does not count, because that
        thread counts already, and both could wait for each other for ever.

        Args:
            function: Blocks. A `ThreadCall` has its state afterwards.
            owner: Who the call counts for.
        """
        call: ThreadCall[T]
        if isinstance(function, ThreadCall):
            call = cast("ThreadCall[T]", function)
        else:
            call = ThreadCall(function)
        call.owner = owner
        future = call.prepare(self)
        with self.lock:
            self._queue_of(call).append(call)
            summon = self._summon()
        if summon is not None:
            # More calls may arrive until then, and the loop holds the interpreter's lock anyway.
            self.loop.before_waiting(summon)
        try:
            await future
        except BaseException:
            self._give_up(call)
            raise
        return call.outcome()

    def _queue_of(self, call: ThreadCall[Any]) -> deque[ThreadCall[Any]] | _Queue:
        return self._nested if call._is_nested else self._queue

    def _give_up(self, call: ThreadCall[Any]) -> None:
        with self.lock:
            call._is_awaited = False
            call._error = None
            if call._state == "waiting":
                call._state = "ended"
                self._queue_of(call).remove(call)

    def _can_take(self) -> bool:
        return bool(self._nested) or self._queue.first() is not None

    def _summon(self) -> Callable[[], object] | None:
        """Return the function that wakes or starts workers; None if none is needed."""
        if self._coming or not self._can_take():
            return None
        if self._idle:
            worker = self._idle.pop()
            self._expect(worker)
            return worker.wake.release
        # Threads are slow to start, so their number doubles each time.
        free = self._places.total - self._places.used
        wanted = len(self._nested) + min(len(self._queue), free)
        new = [_Worker() for _ in range(max(1, min(len(self._workers), wanted)))]
        for worker in new:
            self._workers.add(worker)
            self._expect(worker)
        return partial(self._start, new)

    def _expect(self, worker: _Worker) -> None:
        worker.is_coming = True
        self._coming += 1

    def _stop_expecting(self, worker: _Worker) -> None:
        if worker.is_coming:
            worker.is_coming = False
            self._coming -= 1

    def _collect(self) -> None:
        """Deliver results, and get workers for the calls that are left in the queue."""
        with self.lock:
            self._told = False
            done, self._done = self._done, []
            summon = self._summon()
        if summon is not None:
            summon()
        for call in done:
            _settle(call._future)

    # --- the workers, from the loop ---------------------------------------------------------------

    def _start(self, workers: list[_Worker]) -> None:
        self._is_closing |= self.loop.is_ending
        for worker in workers:
            self._context.run(self.loop.start, self._host(worker))

    async def _host(self, worker: _Worker) -> None:
        """Run a worker in a thread of anyio, so that handlers can use `anyio.from_thread`."""
        from anyio import CancelScope, CapacityLimiter, sleep, to_thread

        in_thread = partial(to_thread.run_sync, limiter=CapacityLimiter(1), abandon_on_cancel=True)
        try:
            # At the end, calls that clean up may still need a thread.
            with CancelScope(shield=self._is_closing):
                await in_thread(self._work, worker)
        except Exception as error:
            self._has_no_thread(worker, error)
        except BaseException:
            self._close(worker)
            raise
        else:
            if self.loop.keeps_threads and not self._is_closing:
                await sleep(_IDLE)
                await in_thread(_do_nothing)

    def _close(self, worker: _Worker) -> None:
        """End the workers as soon as the queue is empty, because the host of one was cancelled."""
        with self.lock:
            self._is_closing = True
            idle, self._idle = self._idle, []
            if not worker.has_begun:
                self._strike_off(worker)
            summon = self._summon()
        for each in idle:
            each.wake.release()
        if summon is not None:
            summon()

    def _has_no_thread(self, worker: _Worker, error: Exception) -> None:
        """Fail all waiting calls if there is no other worker."""
        with self.lock:
            self._strike_off(worker)
            failed = [] if self._workers else [*self._nested, *self._queue]
            for call in failed:
                call._state = "ended"
                call._error = error
            if failed:
                self._nested.clear()
                self._queue.clear()
        for call in failed:
            _settle(call._future)

    def _strike_off(self, worker: _Worker) -> None:
        worker.is_over = True
        self._workers.discard(worker)
        self._stop_expecting(worker)

    # --- in a worker ------------------------------------------------------------------------------

    def _work(self, worker: _Worker) -> None:
        """Run one call after the other."""
        with self.lock:
            worker.has_begun = True
        call: ThreadCall[Any] | None = None
        while not worker.is_over:
            call = self._next(worker, call)
            if call is not None:
                call.perform(self._library)
            else:
                self._rest(worker)

    def _next(self, worker: _Worker, ended: ThreadCall[Any] | None) -> ThreadCall[Any] | None:
        """Finish the call that has ended, and return the next; None if there is none.

        Args:
            worker: The worker of this thread.
            ended: None if the worker was just woken or started.
        """
        with self.lock:
            if ended is None:
                self._stop_expecting(worker)
            elif ended.follow():
                return ended
            else:
                self._end(ended)
            call = self._take()
            if call is None:
                self._dismiss(worker)
            tell = not self._told and bool(self._done or (self._can_take() and not self._coming))
            if tell:
                self._told = True
        if tell:
            self.loop.soon(self._collect)
        return call

    def _take(self) -> ThreadCall[Any] | None:
        if self._nested:
            call = self._nested[0]
            call._state = "running"
            self._nested.popleft()
        else:
            first = self._queue.first()
            if first is None:
                return None
            call = first
            call._state = "running"
            self._queue.pop(call)
            self._places.add(call.owner)
        self.busy += 1
        return call

    def _end(self, call: ThreadCall[Any]) -> None:
        call._state = "ended"
        self.busy -= 1
        if not call._is_nested:
            self._places.add(call.owner, -1)
        if call._is_awaited:
            self._done.append(call)
        else:
            call._error = None

    def _dismiss(self, worker: _Worker) -> None:
        if self._is_closing:
            self._strike_off(worker)
        else:
            self._idle.append(worker)

    def _rest(self, worker: _Worker) -> None:
        """Wait to be woken, or end after `_IDLE` seconds."""
        if worker.is_over or worker.wake.acquire(timeout=_IDLE):
            return
        with self.lock:
            if worker in self._idle:
                self._idle.remove(worker)
                self._strike_off(worker)
                return
        worker.wake.acquire()  # it was woken at the last moment

    # --- in a call --------------------------------------------------------------------------------

    def run_on_loop(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run an async function on the event loop, and wait for it. In any thread but the loop's.

        Raises:
            ConnectionClosed: The event loop ends, or has ended.
        """
        if self.loop.on_loop():
            raise RuntimeError("This blocks, and may not be called on the event loop's own thread")
        wait = _Wait(partial(function, *args))
        context = contextvars.copy_context()
        context.run(_wait.set, wait)
        if not self.loop.soon(lambda: context.run(self.loop.start, wait.run())):
            raise ConnectionClosed("The server has ended")
        result: T = wait.outcome()
        return result

    def start_on_loop(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run an async function on the event loop, without waiting. In any thread."""
        self.loop.soon(lambda: self.loop.start(function()))


def _settle(future: Future) -> None:
    if not future.done():
        future.set_result(None)


def _do_nothing() -> None:
    """Use a thread."""
