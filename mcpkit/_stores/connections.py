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
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, Generic, TypeVar

import anyio

from mcpkit._stores.base import StoreUnavailable
from mcpkit._utils.logs import log

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
        await _end_all(each for each in asyncio.all_tasks() if each is not asyncio.current_task())
        self.loop.stop()


async def _end_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they end; `asyncio.wait_for` forgets a cancellation before Python 3.12."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_PAUSE_S)


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
        self._waiting: asyncio.Queue[_Job] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._thread: LoopThread | None = None
        self._error: Exception | None = None

    def check_version(self, version: int, known: int) -> None:
        """Raise `StoreUnavailable` if the records are those of a newer mcpkit."""
        if version > known:
            raise StoreUnavailable(
                f"{self.server} was written by a newer mcpkit, with schema version {version}; "
                "upgrade mcpkit"
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
        self._thread = LoopThread("mcpkit-store")
        self._waiting = asyncio.Queue()
        try:
            await self.stay_connected(self.connect, partial(self._work, []))
            for _ in range(1, self.size):
                self.in_background(self._stay_connected(self.connect, partial(self._work, [])))
        except BaseException:
            await self.aclose()
            raise

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

    async def _work(self, jobs: list[_Job], connection: C) -> None:
        """Do `jobs`, which another connection may have left, and those that wait."""
        while True:
            await self._take(jobs)
            outcomes = await self.carry_out(connection, [each.work for each in jobs])
            self._error = None
            for job, outcome in zip(jobs, outcomes, strict=True):
                job.settle(outcome)

    async def _take(self, jobs: list[_Job]) -> None:
        """Drop the jobs that are settled or cancelled, and wait until there are others."""
        taken, jobs[:] = len(jobs), [each for each in jobs if not each.done.done()]
        for _ in range(taken - len(jobs)):
            self._waiting.task_done()
        while not jobs or (len(jobs) < self.batch and not self._waiting.empty()):
            job = await self._waiting.get()
            if job.done.done():
                self._waiting.task_done()
            else:
                jobs.append(job)

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until the connections are closed."""
        assert self._thread is not None
        loop, keep = self._thread.loop, self._tasks.append
        loop.call_soon_threadsafe(lambda: keep(loop.create_task(work, name="mcpkit-store")))

    async def stay_connected(
        self,
        connect: Callable[[], Awaitable[C]],
        use: Callable[[C], Awaitable[None]],
        reconnected: Callable[[], object] = lambda: None,
    ) -> None:
        """Use another connection in the background, and reconnect when it is lost.

        `use` does not return; `reconnected` is called after each reconnection. Raises
        `StoreUnavailable` if the first attempt to connect fails.
        """
        opened: Future[None] = Future()
        opened.set_running_or_notify_cancel()  # a caller that is cancelled does not cancel it
        self.in_background(self._stay_connected(connect, use, reconnected, opened))
        await asyncio.wrap_future(opened)

    async def _stay_connected(
        self,
        connect: Callable[[], Awaitable[C]],
        use: Callable[[C], Awaitable[None]],
        reconnected: Callable[[], object] = lambda: None,
        opened: Future[None] | None = None,
    ) -> None:
        while True:
            connection: C | None = None
            try:
                # `wait_for` would lose a connection that is made in spite of a cancellation.
                with anyio.fail_after(TIMEOUT_S):
                    connection = await connect()
                if opened is None or opened.done():
                    reconnected()
                else:
                    opened.set_result(None)
                await use(connection)
            except Exception as error:
                # Whatever it is: handlers wait for answers, and event loops raise their own.
                self._error = error
                if opened is not None and not opened.done():
                    opened.set_exception(self._unavailable(error))
                    return
                if connection is not None and not isinstance(error, self.lost):
                    log.exception("%s: reconnecting", self.server)
            finally:
                if connection is not None:
                    await self.disconnect(connection)
            await asyncio.sleep(_PAUSE_S)

    async def aclose(self) -> None:
        """Finish the jobs that wait, and disconnect."""
        thread, self._thread = self._thread, None
        if thread is not None:
            with anyio.CancelScope(shield=True):
                await asyncio.wrap_future(thread.start(self._end()))
                thread.stop()

    async def _end(self) -> None:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._waiting.join(), TIMEOUT_S)
        await _end_all(self._tasks)
        self._tasks = []
        while not self._waiting.empty():
            self._waiting.get_nowait().settle(StoreUnavailable(f"{self.server}: it is closed"))
