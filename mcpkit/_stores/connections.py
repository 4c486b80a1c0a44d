"""Connections to a database server, each owned by a task of its own.

Requests are cancelled at any moment, and a connection on which a command was cut off gives the next
one the answer of the last. So no request uses a connection: it submits work, waits for a future,
and may stop waiting. Submitted work is always carried out.

The answers are lost with their connection, and then it is unknown which work was done. The work is
repeated, so all work must be idempotent.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Generic, TypeVar

import anyio

from mcpkit._stores.base import StoreUnavailable
from mcpkit._utils.logs import get_logger

_log: Final = get_logger("mcpkit")

C = TypeVar("C")
W = TypeVar("W")
T = TypeVar("T")

TIMEOUT_S: Final = 5.0
"""Seconds for work, and to connect; a server that restarts within them is not noticed."""

_PAUSE_S: Final = 0.1
"""Seconds between two attempts to connect."""


class LoopThread:
    """An asyncio loop in a thread of its own, which handlers cannot block."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        self.loop.run_forever()
        self.loop.close()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine in the thread. From any thread."""
        # Not in the context of the caller, which may be that of another library's loop.
        return Context().run(asyncio.run_coroutine_threadsafe, work, self.loop)

    def stop(self) -> None:
        """Cancel what runs, and end the thread. From any other thread."""
        self.start(self._stop())

    async def _stop(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=1)
        self.loop.stop()


@dataclass(slots=True, eq=False)
class _Job:
    work: Any
    done: Future[Any] = field(default_factory=Future[Any])
    timer: asyncio.TimerHandle | None = None

    def settle(self, outcome: Any) -> None:
        """Give the result or exception to the caller, if it still waits."""
        if self.timer is not None:
            self.timer.cancel()
        with suppress(InvalidStateError):
            if isinstance(outcome, Exception):
                self.done.set_exception(outcome)
            else:
                self.done.set_result(outcome)


@dataclass(eq=False, repr=False)
class Connections(Generic[C, W]):
    """Connections to a server, whose name is `server` in messages.

    `connect` opens one, and `disconnect` closes one, however broken it is. `carry_out` does work
    over a connection, at most `batch` together, and returns the result or exception of each. After
    any exception of these functions the connection is unusable; those in `lost` are expected.

    All three run in a thread of their own, so that the connections do not depend on what handlers
    do to the event loop.
    """

    server: str
    connect: Callable[[], Awaitable[C]]
    disconnect: Callable[[C], Awaitable[None]]
    carry_out: Callable[[C, Sequence[W]], Awaitable[Sequence[Any]]]
    lost: tuple[type[Exception], ...]
    size: int = 1
    batch: int = 1

    def __post_init__(self) -> None:
        self._name = secrets.token_hex(8)
        self._numbers = count()
        self._waiting: asyncio.Queue[_Job | None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._background: list[asyncio.Task[None]] = []
        self._thread: LoopThread | None = None
        self._error: Exception | None = None

    def check_version(self, version: int, known: int) -> None:
        """Raise `StoreUnavailable` if the records are those of a newer mcpkit."""
        if version > known:
            raise StoreUnavailable(
                f"{self.server}: written by a newer mcpkit, in the layout of version {version}"
            )

    def new_name(self) -> str:
        """Return a unique name for a write, by which its repetition is recognized."""
        return f"{self._name}{next(self._numbers)}"

    async def open(self) -> None:
        """Connect; `StoreUnavailable` says why that fails."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                f"{self.server} needs asyncio; on trio, store tasks in a file or in memory"
            ) from None
        thread = LoopThread("mcpkit-store")
        try:
            await asyncio.wrap_future(thread.start(self._begin()))
        except BaseException:
            thread.stop()
            raise
        self._thread = thread

    async def _begin(self) -> None:
        try:
            first = await asyncio.wait_for(self.connect(), TIMEOUT_S)
        except Exception as error:  # event loops have exceptions of their own
            raise self._unavailable(error) from error
        self._waiting = asyncio.Queue()
        for number in range(self.size):
            work = self._work(None if number else first)
            self._tasks.append(asyncio.create_task(work, name="mcpkit-store"))

    def _unavailable(self, error: Exception | None) -> StoreUnavailable:
        if isinstance(error, StoreUnavailable):
            return error
        reason = "no answer" if error is None else str(error) or type(error).__name__
        return StoreUnavailable(f"{self.server}: {reason}")

    async def do(self, work: W) -> Any:
        """Do work, once or more than once, and return its result.

        Raises `StoreUnavailable` if the server does not answer in time; it may have done the work.
        """
        if self._thread is None:
            raise StoreUnavailable(f"{self.server}: it is closed")
        job = _Job(work)
        self._thread.loop.call_soon_threadsafe(self._submit, job)
        return await asyncio.wrap_future(job.done)

    def _submit(self, job: _Job) -> None:
        loop = asyncio.get_running_loop()
        job.timer = loop.call_later(TIMEOUT_S, lambda: job.settle(self._unavailable(self._error)))
        self._waiting.put_nowait(job)

    async def _work(self, connection: C | None) -> None:
        """Do the jobs that wait, until the connections are closed."""
        jobs: list[_Job] = []
        try:
            while jobs or (jobs := await self._next()):
                try:
                    if connection is None:
                        connection = await asyncio.wait_for(self.connect(), TIMEOUT_S)
                    outcomes = await self.carry_out(connection, [each.work for each in jobs])
                    self._error = None
                except Exception as error:
                    # Whatever it is: a handler waits for the answer, and cannot handle it.
                    if connection is not None:
                        await self.disconnect(connection)
                        connection = None
                        if self._error is None and not isinstance(error, self.lost):
                            _log.exception("%s: reconnecting", self.server)
                    self._error = error
                    await asyncio.sleep(_PAUSE_S)
                    jobs = [each for each in jobs if not each.done.done()]
                    continue
                for job, outcome in zip(jobs, outcomes, strict=True):
                    job.settle(outcome)
                jobs = []
        finally:
            if connection is not None:
                await self.disconnect(connection)

    async def _next(self) -> list[_Job]:
        """Wait for jobs; none if the connections are closed."""
        jobs: list[_Job] = []
        while not jobs or (len(jobs) < self.batch and not self._waiting.empty()):
            job = await self._waiting.get()
            if job is None:
                self._waiting.put_nowait(None)  # for the other connections
                break
            if not job.done.done():
                jobs.append(job)
        return jobs

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until the connections are closed."""
        assert self._thread is not None
        loop, keep = self._thread.loop, self._background.append
        loop.call_soon_threadsafe(lambda: keep(loop.create_task(work, name="mcpkit-store")))

    async def stay_connected(
        self,
        connect: Callable[[], Awaitable[C]],
        use: Callable[[C], Awaitable[None]],
        reconnected: Callable[[], object],
    ) -> None:
        """Use another connection in the background, and reconnect when it is lost.

        `use` does not return; `reconnected` is called after each reconnection. Raises
        `StoreUnavailable` if the first attempt to connect fails.
        """
        opened: Future[None] = Future()
        opened.set_running_or_notify_cancel()  # a caller that is cancelled does not cancel it

        async def stay() -> None:
            while True:
                connection: C | None = None
                try:
                    connection = await asyncio.wait_for(connect(), TIMEOUT_S)
                    if opened.done():
                        reconnected()
                    else:
                        opened.set_result(None)
                    await use(connection)
                except Exception as error:  # whatever it is, it must not end the task later
                    if not opened.done():
                        opened.set_exception(self._unavailable(error))
                        return
                    if connection is not None and not isinstance(error, self.lost):
                        _log.exception("%s: reconnecting", self.server)
                finally:
                    if connection is not None:
                        await self.disconnect(connection)
                await asyncio.sleep(_PAUSE_S)

        self.in_background(stay())
        await asyncio.wrap_future(opened)

    async def aclose(self) -> None:
        """Finish the jobs that wait, and disconnect."""
        thread, self._thread = self._thread, None
        if thread is not None:
            with anyio.CancelScope(shield=True):
                await asyncio.wrap_future(thread.start(self._end()))
                thread.stop()

    async def _end(self) -> None:
        for task in self._background:
            task.cancel()
        self._waiting.put_nowait(None)
        ending, self._tasks, self._background = [*self._tasks, *self._background], [], []
        if ending:
            _, stuck = await asyncio.wait(ending, timeout=TIMEOUT_S)
            for task in stuck:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
        while not self._waiting.empty():
            job = self._waiting.get_nowait()
            if job is not None:
                job.settle(StoreUnavailable(f"{self.server}: it is closed"))
