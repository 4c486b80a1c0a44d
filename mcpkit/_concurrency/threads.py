"""Worker threads for functions that block.

Calls wait in one queue, and any free worker takes the next. Waking a worker or the event loop costs
more than most functions do, so both are woken for everything there is by then, not for each call.
A long call does not hold up those behind it: a worker that takes a call and leaves others in the
queue notifies the loop, which wakes or starts another worker if they are still there.

Owners take turns, and one owner cannot have all workers.
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

from mcpkit._utils.quota import ANONYMOUS, Quota, largest_share
from mcpkit.errors import ConnectionClosed

if TYPE_CHECKING:
    from mcpkit._concurrency.loop import Future, Loop

T = TypeVar("T")

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


class _Outcome(Generic[T]):
    """The result of a function, or the exception that it raised."""

    _error: BaseException | None
    _result: T

    def outcome(self) -> T:
        error, self._error = self._error, None
        if error is None:
            return self._result
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame


class ThreadCall(_Outcome[T]):
    """A function for a worker thread, which may continue after its caller was cancelled."""

    _context: contextvars.Context
    _future: Future
    _is_nested: bool
    _lends = False
    """True while another call may have its place."""

    def __init__(self, function: Callable[[], T]) -> None:
        self.returned = False
        """True if the function has returned; False if it has not ended, or has raised."""
        self.owner = ANONYMOUS
        """The owner that the call counts for."""
        self._function: Callable[[], Any] = function
        self._after: Callable[[], object] | None = None
        self._error = None
        self._is_awaited = True
        self._state: Literal["waiting", "running", "followed", "ended"] = "waiting"
        self._threads: Threads | None = None

    def __call__(self) -> T:
        """Call the function here and now."""
        result: T = self._function()
        return result

    def then(self, after: Callable[[], object]) -> bool:
        """Call another function in the thread when this one ends, and ignore its exceptions.

        For calls whose caller was cancelled. False if this function does not run, and never will.
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
            if self.then(lambda: loop.soon(lambda: _resolve(future))):
                await future

    def perform(self, library: contextvars.ContextVar[Any] | None) -> None:
        """Call the function in a worker, where there is no event loop's library."""
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


class _Wait(_Outcome[Any]):
    """A thread's wait for a coroutine that runs on the loop."""

    def __init__(
        self, function: Callable[[], Coroutine[Any, Any, Any]], call: ThreadCall[Any] | None
    ) -> None:
        self.is_open = True
        self.call = call
        """The call whose thread waits; None if that is a thread of others."""
        self._function = function
        self._result = None
        self._error = ConnectionClosed("The server has ended")
        self._over = threading.Lock()
        self._over.acquire()

    async def run(self) -> None:
        """Run the coroutine. On the loop."""
        from anyio import get_cancelled_exc_class

        try:
            self._result = await self._function()
            self._error = None
        except (GeneratorExit, get_cancelled_exc_class()):
            raise
        except BaseException as error:
            self._error = error
        finally:
            self.is_open = False
            self._over.release()

    def outcome(self) -> Any:
        """Wait for the coroutine, and return its result or raise its exception."""
        self._over.acquire()
        return super().outcome()


_here: Final = threading.local()
"""Has the `call` that a worker thread runs."""

_wait: contextvars.ContextVar[_Wait | None] = contextvars.ContextVar("mcpkit_wait", default=None)
"""The wait of the thread whose coroutine runs in this context."""


class _Queue:
    """Calls that wait for a worker: nested ones first, then those of each owner in turn."""

    def __init__(self, quota: Quota) -> None:
        self._quota = quota
        self._nested: deque[ThreadCall[Any]] = deque()
        self._calls: OrderedDict[str, deque[ThreadCall[Any]]] = OrderedDict()

    def __iter__(self) -> Iterator[ThreadCall[Any]]:
        return chain(self._nested, *self._calls.values())

    def append(self, call: ThreadCall[Any]) -> None:
        if call._is_nested:
            self._nested.append(call)
        else:
            self._calls.setdefault(call.owner, deque()).append(call)

    def first(self) -> ThreadCall[Any] | None:
        """Return the next call; None if none may run now."""
        if self._nested:
            return self._nested[0]
        if self._quota.used >= self._quota.total:
            return None
        # Garbage collection may cancel a call at any moment, and so change the dict.
        for owner, calls in list(self._calls.items()):
            # Calls without an owner need not leave a worker for other owners.
            if calls and (owner == ANONYMOUS or self._quota.has_room(owner)):
                return calls[0]
        return None

    def remove(self, call: ThreadCall[Any]) -> None:
        """Remove a call that runs or was cancelled; the turn passes to the next owner."""
        if call._is_nested:
            self._nested.remove(call)
            return
        calls = self._calls[call.owner]
        calls.remove(call)
        if calls:
            self._calls.move_to_end(call.owner)
        else:
            del self._calls[call.owner]


class _Worker:
    """A thread that runs calls."""

    def __init__(self) -> None:
        self.is_over = False
        self.wake = threading.Lock()
        self.wake.acquire()


class Threads:
    """The worker threads of a server in one event loop.

    Args:
        loop: The event loop.
        max_threads: Functions that run at once. One whose caller was cancelled counts until it
            ends, because the threads of cancelled calls could otherwise pile up without limit.
    """

    def __init__(self, loop: Loop, max_threads: int) -> None:
        self.loop = loop
        # Reentrant, because garbage collection may cancel a call at any point.
        self.lock = threading.RLock()
        self.busy = 0
        """The number of functions that run, including those whose caller was cancelled."""
        self.size = 0
        """The number of workers."""
        self._quota = Quota(max_threads, largest_share(max_threads))
        self._lent = Quota(max_threads, largest_share(max_threads))
        """The calls whose place another call may have."""
        self._queue = _Queue(self._quota)
        self._done: list[ThreadCall[Any]] = []
        self._idle: list[_Worker] = []
        # The worker that was woken or started, and has not looked at the queue yet.
        self._summoned: _Worker | None = None
        self._collecting = False  # `_collect` is scheduled on the loop
        self._is_closing = False
        # Workers outlive the request that they are started for.
        self._context = contextvars.copy_context()
        sniffio: Any = sys.modules.get("sniffio")
        self._library = getattr(sniffio, "current_async_library_cvar", None)

    @property
    def waiting(self) -> int:
        """The number of functions that wait for a worker."""
        with self.lock:
            return sum(1 for _ in self._queue)

    # --- on the loop ------------------------------------------------------------------------------

    async def run(self, function: Callable[[], T], owner: str = ANONYMOUS) -> T:
        """Run a function in a worker thread, and wait for it.

        If the caller is cancelled, a function that waits in the queue never runs, and one that runs
        continues. If another thread waits for the caller, the function does not count, because that
        thread counts already, and both could wait for each other for ever. A `ThreadCall` has its
        state afterwards.
        """
        call = cast("ThreadCall[T]", function)
        if not isinstance(function, ThreadCall):
            call = ThreadCall(function)
        wait = _wait.get()
        call.owner = owner
        call._threads = self
        call._is_nested = wait is not None and wait.is_open
        call._context = contextvars.copy_context()
        future = call._future = self.loop.future()
        with self.lock:
            self._queue.append(call)
            summon = self._summon()
        if summon is not None:
            # More calls may arrive until then, and the loop holds the interpreter's lock anyway.
            self.loop.before_waiting(summon)
        try:
            await future
        except BaseException:
            with self.lock:
                call._is_awaited = False
                call._error = None
                if call._state == "waiting":
                    call._state = "ended"
                    self._queue.remove(call)
            raise
        return call.outcome()

    def lend_place(self) -> Callable[[], object] | None:
        """Let another call have the place of the one whose thread waits for this coroutine.

        For waits that may be long. Returns the function that ends it, so that there may be as many
        threads again; None if that many wait already. On the loop.
        """
        wait = _wait.get()
        call = wait.call if wait is not None and wait.is_open else None
        while call is not None and call._is_nested:  # the thread that waits for it has the place
            outer = call._context.get(_wait)
            call = None if outer is None else outer.call
        if call is None or call._lends:
            return lambda: None
        with self.lock:
            if not self._lent.has_room(call.owner):
                return None
            summon = self._lend(call, 1)
        if summon is not None:
            self.loop.before_waiting(summon)

        def end() -> None:
            with self.lock:
                self._lend(call, -1)

        return end

    def _lend(self, call: ThreadCall[Any], change: int) -> Callable[[], object] | None:
        call._lends = change > 0
        self._lent.add(call.owner, change)
        self._quota.add(call.owner, -change)
        return self._summon() if call._lends else None

    def _summon(self) -> Callable[[], object] | None:
        """Return the function that wakes or starts a worker; None if none is needed."""
        if self._summoned is not None or self._queue.first() is None:
            return None
        if self._idle:
            worker = self._summoned = self._idle.pop()
            return worker.wake.release
        worker = self._summoned = _Worker()
        self.size += 1
        return partial(self._start, worker)

    def _collect(self) -> None:
        """Deliver results, and get a worker for the calls that are left in the queue."""
        with self.lock:
            self._collecting = False
            done, self._done = self._done, []
            summon = self._summon()
        if summon is not None:
            summon()
        for call in done:
            _resolve(call._future)

    # --- the workers, from the loop ---------------------------------------------------------------

    def _start(self, worker: _Worker) -> None:
        self._is_closing |= self.loop.is_ending
        self._context.run(self.loop.start, self._host(worker))

    async def _host(self, worker: _Worker) -> None:
        """Run a worker in a thread of anyio, so that handlers can use `anyio.from_thread`."""
        from anyio import CancelScope, CapacityLimiter, to_thread

        limiter = CapacityLimiter(1)
        try:
            # At the end, calls that clean up may still need a thread.
            with CancelScope(shield=self._is_closing):
                await to_thread.run_sync(
                    self._work, worker, limiter=limiter, abandon_on_cancel=True
                )
        except Exception as error:  # no thread can be started
            with self.lock:
                self._remove(worker)
                failed = [] if self.size else list(self._queue)
                for call in failed:
                    call._state = "ended"
                    call._error = error
                    self._queue.remove(call)
            for call in failed:
                _resolve(call._future)
        except BaseException:  # the loop ends
            with self.lock:
                self._is_closing = True
                self._remove(worker)
                summon = self._summon()
            if summon is not None:
                summon()
            raise

    def _remove(self, worker: _Worker) -> None:
        if not worker.is_over:
            worker.is_over = True
            self.size -= 1
        if self._summoned is worker:
            self._summoned = None
        if worker in self._idle:
            self._idle.remove(worker)
            worker.wake.release()

    # --- in a worker ------------------------------------------------------------------------------

    def _work(self, worker: _Worker) -> None:
        call: ThreadCall[Any] | None = None
        while True:
            with self.lock:
                notify = False
                if call is not None and call._after is not None:
                    call._function, call._after = call._after, None
                    call._state = "followed"
                else:
                    call = self._next(worker, call)
                    if not self._collecting and (
                        self._done or (not self._summoned and self._queue.first())
                    ):
                        self._collecting = notify = True
            if notify:
                self.loop.soon(self._collect)
            if call is not None:
                _here.call = call
                call.perform(self._library)
                _here.call = None
            elif worker.is_over:
                return
            else:
                self._wait_for_calls(worker)

    def _next(self, worker: _Worker, ended: ThreadCall[Any] | None) -> ThreadCall[Any] | None:
        """Finish the call that has ended, if one has, and take the next, if there is one."""
        if ended is not None:
            ended._state = "ended"
            self.busy -= 1
            if not ended._is_nested:
                self._quota.add(ended.owner, -1)
            if ended._is_awaited:
                self._done.append(ended)
            else:
                ended._error = None
        elif self._summoned is worker:
            self._summoned = None
        call = None if worker.is_over else self._queue.first()
        if call is not None:
            call._state = "running"
            self._queue.remove(call)
            self.busy += 1
            if not call._is_nested:
                self._quota.add(call.owner)
        elif self._is_closing:
            self._remove(worker)
        elif not worker.is_over:
            self._idle.append(worker)
        return call

    def _wait_for_calls(self, worker: _Worker) -> None:
        """Wait to be woken, or end after `_IDLE` seconds."""
        if not worker.wake.acquire(timeout=_IDLE):
            with self.lock:
                if worker in self._idle:
                    self._remove(worker)
            worker.wake.acquire()  # by now, also if another thread did that at the last moment

    # --- in a call --------------------------------------------------------------------------------

    def run_on_loop(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run an async function on the event loop, and wait for it. In any thread but the loop's.

        Raises:
            ConnectionClosed: The event loop ends, or has ended.
        """
        if self.loop.on_loop():
            raise RuntimeError("This blocks, and may not be called on the event loop's own thread")
        wait = _Wait(partial(function, *args), getattr(_here, "call", None))
        context = contextvars.copy_context()
        context.run(_wait.set, wait)
        if not self.loop.soon(lambda: context.run(self.loop.start, wait.run())):
            raise ConnectionClosed("The server has ended")
        result: T = wait.outcome()
        return result


def _resolve(future: Future) -> None:
    if not future.done():
        future.set_result(None)
