"""Lifespans of an app: entered by lifespan events, else by the first request in an event loop.

A host needs no configuration: without lifespan events, the app's lifespan is entered in a task of
its own. It is left when the event loop ends, which cancels that task, or when the process was told
to stop and no call is running any more: some servers do not end their loop, but the process.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anyio

from mcpkit._concurrency.loop import Loop, current_loop, open_loop, spawn
from mcpkit._concurrency.threads import Threads
from mcpkit._server.server import Server
from mcpkit._server.serving import serving
from mcpkit._utils.logs import log

_CHECK: Final = 0.02
"""Seconds between two checks for running calls, while the server stops."""


class Lifespan:
    """An app that is being served, from entering its lifespan until leaving it.

    `token` is the event loop that it belongs to, or a token of it.
    """

    def __init__(self, token: object, lifespans: Lifespans) -> None:
        self.token = token
        self.server: Server
        self.loop: Loop
        self.threads: Threads
        self.started = False
        self.over = False
        self.failure: BaseException | None = None
        self.is_leaving = False
        """True once the server is asked to stop."""
        self.draining = False
        self.grace = 0.0
        """Seconds that requests may continue when the server is asked to stop."""
        self.drain_delay = lifespans.drain_delay
        """Seconds of normal service, but not ready, before it drains."""
        self._delayed: list[int] = []
        """The signals that the server is to handle after that."""
        self._drained_at = 0.0
        self.on_drain: list[Callable[[], object]] = []
        """Functions to call once when the server is asked to stop."""
        self.busy: list[Callable[[], bool]] = []
        """Functions that return True while calls are running."""
        self.on_end = [*lifespans.on_end]
        """Functions to call and await before the app's lifespan is left, the last one first."""
        self._lifespans = lifespans
        self.task: object = None
        """The task that holds it without lifespan events; loops hold tasks only weakly."""
        self._decided = anyio.Event()
        self._stopping = anyio.Event()
        self._previous: dict[int, Any] = {}
        """The server's own handlers of signals, which run after ours."""

    async def wait(self) -> None:
        """Wait until it has started; a `RuntimeError` has the exception of the app's lifespan."""
        await self._decided.wait()
        if self.failure is not None:
            raise RuntimeError("the app's lifespan failed") from self.failure

    @asynccontextmanager
    async def entered(self) -> AsyncGenerator[Lifespan, None]:
        """Enter the app's lifespan."""
        try:
            async with (
                self._lifespans.running() as server,
                open_loop() as loop,
                serving(server, loop) as (served, services),
            ):
                self.server, self.loop = served, loop
                self.threads = Threads(loop, served.settings.limits.max_threads)
                services.threads.append(self.threads)
                self.on_drain.append(served.suspended.evict_all)
                self.started = True
                self._decided.set()
                self._chain_signals()
                if self._lifespans.watch is not None:
                    self.on_end.append(self._lifespans.watch(loop).aclose)
                try:
                    yield self
                finally:
                    self.is_leaving = self.over = True
                    for number, found in self._previous.items():
                        if signal.getsignal(number) == self._heard:
                            signal.signal(number, found)
                    with anyio.move_on_after(5, shield=True):
                        for end in reversed(self.on_end):
                            await end()
                    since = time.monotonic() - self._drained_at if self.draining else self.grace
                    await services.aclose(self.grace - since)
        except BaseException as error:
            if not self.started:
                self.failure = error
                self._decided.set()
            raise

    def _chain_signals(self) -> None:
        """Hear of SIGTERM, SIGINT and SIGHUP before the server does.

        A server that is asked to stop waits for its connections, and only then sends lifespan
        events: too late for streams that only the app can end.
        """
        if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
            return
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            found = signal.getsignal(number)
            if callable(found) and found is not signal.default_int_handler:
                self._previous[number] = found
                signal.signal(number, self._heard)

    def _heard(self, number: int, frame: Any) -> None:
        delay, is_first = self.drain_delay, not self.is_leaving
        self.is_leaving = True
        # First, because a server may stop at once if Ctrl-C is not the first signal.
        self._delayed.insert(0, number)
        if not delay or number == signal.SIGINT:
            self._stop(frame)
        elif is_first:
            self.loop.soon(lambda: self.loop.later(delay, self._stop))

    def _stop(self, frame: Any = None) -> None:
        self.drain_delay = 0
        numbers, self._delayed = self._delayed, []
        self.loop.soon(self.drain)
        for each in numbers:
            self._previous[each](each, frame)

    def drain(self) -> None:
        """Start to stop: end streams that only wait, let calls finish."""
        if not self.draining:
            self.is_leaving = self.draining = True
            self.drain_delay = 0
            self._drained_at = time.monotonic()
            self._stopping.set()
            for each in self.on_drain:
                each()

    async def until_over(self) -> bool:
        """Wait for the end, of the event loop or of the last call when the server has to stop.

        Returns:
            True if the loop ends: the running task was cancelled, which is not raised.
        """
        try:
            await self._stopping.wait()
            while any(each() for each in self.busy):
                await anyio.sleep(_CHECK)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if sys.version_info >= (3, 11) and task is not None:
                task.uncancel()
            return True
        except anyio.get_cancelled_exc_class():
            return True  # trio cancels again at each wait that is not shielded
        return False


class Lifespans:
    """The lifespans of an app, one for each event loop that asks for it: usually one."""

    def __init__(self, running: Callable[[], AbstractAsyncContextManager[Server]]) -> None:
        self.on_end: list[Callable[[], Any]] = []
        """Functions to call and await when each of them ends."""
        self.drain_delay = 0.0
        """The longest that an endpoint asks for."""
        self.watch: Callable[[Loop], Any] | None = None
        """Makes what watches an event loop, and has an ``aclose``."""
        self.on_alive: list[Callable[[], object]] = []
        """Functions that `watch` calls while the event loop runs."""
        self.running = running
        self._by_loop: dict[object, Lifespan] = {}

    async def current(self) -> Lifespan:
        """Return the lifespan of this event loop; start it if need be.

        Raises:
            RuntimeError: The app's lifespan failed; the next request tries again.
        """
        loop = current_loop()
        lifespan = self._by_loop.get(loop) or self._start(loop)
        if not lifespan.started:
            await lifespan.wait()
        return lifespan

    def _start(self, loop: object) -> Lifespan:
        lifespan = self._by_loop[loop] = Lifespan(loop, self)

        async def live() -> None:
            loop_ended = True
            try:
                with anyio.CancelScope() as scope:
                    async with lifespan.entered():
                        loop_ended = await lifespan.until_over()
                        # The rest is as with lifespan events, and may take as long.
                        scope.shield = True
                        lifespan.drain()
            except Exception:
                # Those in `wait` get it; this is for the log.
                log.exception("the app's lifespan failed")
            finally:
                if loop_ended:
                    del self._by_loop[loop]
                # Else it stays, and refuses further requests: nothing starts again now.

        lifespan.task = spawn(live)
        return lifespan

    @asynccontextmanager
    async def hold(self) -> AsyncGenerator[Lifespan, None]:
        """Keep the lifespan of this event loop inside the ``async with``, for lifespan events."""
        loop = current_loop()
        found = self._by_loop.get(loop)
        if found is not None:
            await found.wait()
            yield found
            return
        lifespan = self._by_loop[loop] = Lifespan(loop, self)
        try:
            async with lifespan.entered():
                yield lifespan
        finally:
            del self._by_loop[loop]
