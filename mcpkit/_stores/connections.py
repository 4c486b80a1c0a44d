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
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from itertools import count
from typing import Any, Final, Generic, NamedTuple, TypeVar

import anyio

from mcpkit._stores.base import StoreUnavailable
from mcpkit._utils.logs import get_logger

_log: Final = get_logger("mcpkit")

C = TypeVar("C")
W = TypeVar("W")

TIMEOUT_S: Final = 5.0
"""Seconds for work, and to connect; a server that restarts within them is not noticed."""

_PAUSE_S: Final = 0.1
"""Seconds between two attempts to connect."""


class _Job(NamedTuple):
    work: Any
    done: asyncio.Future[Any]


class Connections(Generic[C, W]):
    """Connections to a server, whose name is `server` in messages.

    `connect` opens one, and `disconnect` closes one, however broken it is. `carry_out` does work
    over a connection, at most `batch` together, and returns the result or exception of each. After
    the exceptions in `lost` a connection is unusable.
    """

    def __init__(
        self,
        server: str,
        connect: Callable[[], Awaitable[C]],
        disconnect: Callable[[C], Awaitable[None]],
        carry_out: Callable[[C, Sequence[W]], Awaitable[Sequence[Any]]],
        lost: tuple[type[Exception], ...],
        *,
        size: int = 1,
        batch: int = 1,
    ) -> None:
        self.server = server
        self._connect = connect
        self._disconnect = disconnect
        self._carry_out = carry_out
        self._lost: tuple[type[Exception], ...] = (*lost, asyncio.TimeoutError)
        self._size = size
        self._batch = batch
        self._name = secrets.token_hex(8)
        self._numbers = count()
        self._waiting: asyncio.Queue[_Job | None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._background: list[asyncio.Task[None]] = []
        self._error: Exception | None = None

    @property
    def is_open(self) -> bool:
        """True between `open` and `aclose`."""
        return bool(self._tasks)

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
        first = await self._once(self._connect)
        self._waiting = asyncio.Queue()
        for number in range(self._size):
            work = self._work(None if number else first)
            self._tasks.append(asyncio.create_task(work, name="mcpkit-store"))

    async def _once(self, connect: Callable[[], Awaitable[C]]) -> C:
        try:
            return await asyncio.wait_for(connect(), TIMEOUT_S)
        except self._lost as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception | None) -> StoreUnavailable:
        reason = "no answer" if error is None else str(error) or type(error).__name__
        return StoreUnavailable(f"{self.server}: {reason}")

    async def do(self, work: W) -> Any:
        """Do work, once or more than once, and return its result.

        Raises `StoreUnavailable` if the server does not answer in time; it may have done the work.
        """
        if not self.is_open:
            raise StoreUnavailable(f"{self.server}: it is closed")
        loop = asyncio.get_running_loop()
        job = _Job(work, loop.create_future())
        timer = loop.call_later(TIMEOUT_S, self._time_out, job)
        self._waiting.put_nowait(job)
        try:
            return await job.done
        finally:
            timer.cancel()

    def _time_out(self, job: _Job) -> None:
        if not job.done.done():
            job.done.set_exception(self._unavailable(self._error))

    async def _work(self, connection: C | None) -> None:
        """Do the jobs that wait, until the connections are closed."""
        jobs: list[_Job] = []
        try:
            while jobs or (jobs := await self._next()):
                try:
                    if connection is None:
                        connection = await asyncio.wait_for(self._connect(), TIMEOUT_S)
                    outcomes = await self._carry_out(connection, [each.work for each in jobs])
                    self._error = None
                except Exception as error:
                    if connection is not None:
                        await self._disconnect(connection)
                        connection = None
                    if isinstance(error, self._lost):
                        self._error = error
                        await asyncio.sleep(_PAUSE_S)
                        jobs = [each for each in jobs if not each.done.done()]
                        continue
                    outcomes = [error] * len(jobs)  # a bug, which must not end the task
                for job, outcome in zip(jobs, outcomes, strict=True):
                    if job.done.done():
                        continue
                    if isinstance(outcome, Exception):
                        job.done.set_exception(outcome)
                    else:
                        job.done.set_result(outcome)
                jobs = []
        finally:
            if connection is not None:
                await self._disconnect(connection)

    async def _next(self) -> list[_Job]:
        """Wait for jobs; none if the connections are closed."""
        jobs: list[_Job] = []
        while not jobs or (len(jobs) < self._batch and not self._waiting.empty()):
            job = await self._waiting.get()
            if job is None:
                self._waiting.put_nowait(None)  # for the other connections
                break
            if not job.done.done():
                jobs.append(job)
        return jobs

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine until the connections are closed."""
        self._background.append(asyncio.create_task(work, name="mcpkit-store"))

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
        first = await self._once(connect)

        async def stay(connection: C | None) -> None:
            while True:
                try:
                    if connection is None:
                        connection = await asyncio.wait_for(connect(), TIMEOUT_S)
                        reconnected()
                    await use(connection)
                except self._lost:
                    pass
                except Exception:  # a bug, which must not end the task
                    _log.exception("%s: reconnecting", self.server)
                finally:
                    if connection is not None:
                        await self._disconnect(connection)
                        connection = None
                await asyncio.sleep(_PAUSE_S)

        self.in_background(stay(first))

    async def aclose(self) -> None:
        """Finish the jobs that wait, and disconnect."""
        for task in self._background:
            task.cancel()
        self._waiting.put_nowait(None)
        ending, self._tasks, self._background = [*self._tasks, *self._background], [], []
        if ending:
            with anyio.CancelScope(shield=True):
                _, stuck = await asyncio.wait(ending, timeout=TIMEOUT_S)
                for task in stuck:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task
