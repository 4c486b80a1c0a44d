"""How stores talk to a server: in tasks of their own.

Requests are cancelled at any moment, and a connection on which a conversation was cut off gives the
next one the answers of the last. So no request touches a connection: it hands over work, waits for
a future, and may stop waiting. What was handed over is carried out to its end.

A connection that is lost takes the answers with it, and nobody knows what was done of the work. It
is handed over again, so all of it has to come to the same if it is done twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Generic, TypeVar

import anyio

from mcpkit._utils.logs import get_logger
from mcpkit.tasks.store import StoreUnavailable

__all__ = ["PATIENCE_S", "Connections", "Line", "need_asyncio"]

_log: Final = get_logger("mcpkit")

C = TypeVar("C")
W = TypeVar("W")

PATIENCE_S: Final = 5.0
"""Seconds for a server to do something; also within which it may come back without anybody
noticing."""

_PAUSE_S: Final = 0.1
"""Seconds between two attempts to reach a server."""


@dataclass(frozen=True)  # which may be generic on every Python
class Line(Generic[C, W]):
    """How one kind of server is talked to.

    Args:
        server: Its name in messages.
        connect: Opens a connection.
        disconnect: Closes one, however broken it is.
        carry_out: Does work over a connection, and returns the outcome of each; an exception is one
            too.
        lost: What `connect` and `carry_out` raise if a connection is of no use.
    """

    server: str
    connect: Callable[[], Awaitable[C]]
    disconnect: Callable[[C], Awaitable[None]]
    carry_out: Callable[[C, Sequence[W]], Awaitable[Sequence[Any]]]
    lost: tuple[type[Exception], ...]


@dataclass(frozen=True)
class _Piece(Generic[W]):
    work: W
    done: asyncio.Future[Any]


class Connections(Generic[C, W]):
    """Connections to a server, each in a task of its own.

    Args:
        line: How the server is talked to.
        size: The connections.
        at_once: The pieces of work that one connection takes together.
    """

    def __init__(self, line: Line[C, W], *, size: int = 1, at_once: int = 1) -> None:
        self._line = line
        self._lost: tuple[type[Exception], ...] = (*line.lost, asyncio.TimeoutError)
        self._size = size
        self._at_once = at_once
        self._name = secrets.token_hex(8)
        self._numbers = count()
        self._waiting: asyncio.Queue[_Piece[W] | None] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._asides: list[asyncio.Task[None]] = []
        self._trouble: Exception | None = None

    @property
    def is_open(self) -> bool:
        """True if work can be handed over."""
        return bool(self._tasks)

    def new_name(self) -> str:
        """Return a name for a write, which no other write has."""
        return f"{self._name}{next(self._numbers)}"

    async def open(self) -> None:
        """Connect.

        Raises:
            StoreUnavailable: The server cannot be reached, or used; the message says why.
        """
        first = await self._once(self._line.connect)
        self._waiting = asyncio.Queue()
        for number in range(self._size):
            work = self._work(None if number else first)
            self._tasks.append(asyncio.create_task(work, name="mcpkit-tasks"))

    async def _once(self, connect: Callable[[], Awaitable[C]]) -> C:
        try:
            return await asyncio.wait_for(connect(), PATIENCE_S)
        except self._lost as error:
            raise self._away(error) from error

    def _away(self, error: Exception | None) -> StoreUnavailable:
        what = "no answer" if error is None else str(error) or type(error).__name__
        return StoreUnavailable(f"{self._line.server}: {what}")

    async def do(self, work: W) -> Any:
        """Have something done, once or more than once.

        Raises:
            StoreUnavailable: The server did not answer for a while. It may have done the work.
        """
        if not self.is_open:
            raise StoreUnavailable(f"{self._line.server}: not in use")
        loop = asyncio.get_running_loop()
        piece = _Piece(work, loop.create_future())
        bell = loop.call_later(PATIENCE_S, self._give_up, piece)
        self._waiting.put_nowait(piece)
        try:
            return await piece.done
        finally:
            bell.cancel()

    def _give_up(self, piece: _Piece[W]) -> None:
        if not piece.done.done():
            piece.done.set_exception(self._away(self._trouble))

    async def _work(self, connection: C | None) -> None:
        """Do what waits, until nothing will come any more."""
        pieces: list[_Piece[W]] = []
        try:
            while pieces or (pieces := await self._next()):
                try:
                    if connection is None:
                        connection = await asyncio.wait_for(self._line.connect(), PATIENCE_S)
                    works = [each.work for each in pieces]
                    outcomes = await self._line.carry_out(connection, works)
                    self._trouble = None
                except Exception as error:
                    if connection is not None:
                        await self._line.disconnect(connection)
                        connection = None
                    if isinstance(error, self._lost):
                        self._trouble = error
                        await asyncio.sleep(_PAUSE_S)
                        pieces = [each for each in pieces if not each.done.done()]
                        continue
                    outcomes = [error] * len(pieces)  # a mistake, which must not end it for ever
                for piece, outcome in zip(pieces, outcomes, strict=True):
                    _settle(piece.done, outcome)
                pieces = []
        finally:
            if connection is not None:
                await self._line.disconnect(connection)

    async def _next(self) -> list[_Piece[W]]:
        """Wait for work; none if there will be none."""
        pieces: list[_Piece[W]] = []
        while not pieces or (len(pieces) < self._at_once and not self._waiting.empty()):
            piece = await self._waiting.get()
            if piece is None:
                self._waiting.put_nowait(None)  # for all others
                break
            if not piece.done.done():
                pieces.append(piece)
        return pieces

    def aside(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the work, until this is closed."""
        self._asides.append(asyncio.create_task(work, name="mcpkit-tasks"))

    async def stay(
        self,
        connect: Callable[[], Awaitable[C]],
        use: Callable[[C], Awaitable[None]],
        again: Callable[[], object],
    ) -> None:
        """Use a connection of its own for ever, and another one when it is lost.

        Args:
            connect: Opens one, and prepares it. The first time it has to succeed; what comes after
                that is done beside the work.
            use: Does not return.
            again: Called when another one is open.

        Raises:
            StoreUnavailable: The first one cannot be opened.
        """
        first = await self._once(connect)

        async def staying(connection: C | None) -> None:
            while True:
                try:
                    if connection is None:
                        connection = await asyncio.wait_for(connect(), PATIENCE_S)
                        again()
                    await use(connection)
                except self._lost:
                    pass
                except Exception:  # a mistake, which must not end it for ever
                    _log.exception("%s: begun anew", self._line.server)
                finally:
                    if connection is not None:
                        await self._line.disconnect(connection)
                        connection = None
                await asyncio.sleep(_PAUSE_S)

        self.aside(staying(first))

    async def aclose(self) -> None:
        """Finish the work that waits, and disconnect."""
        for task in self._asides:
            task.cancel()
        self._waiting.put_nowait(None)
        ending, self._tasks, self._asides = [*self._tasks, *self._asides], [], []
        if ending:
            with anyio.CancelScope(shield=True):
                _, stuck = await asyncio.wait(ending, timeout=PATIENCE_S)
                for task in stuck:
                    task.cancel()
                    with suppress(asyncio.CancelledError):
                        await task


def _settle(done: asyncio.Future[Any], outcome: Any) -> None:
    if done.done():
        return
    if isinstance(outcome, Exception):
        done.set_exception(outcome)
    else:
        done.set_result(outcome)


def need_asyncio(store: object) -> None:
    """Raise `RuntimeError` if this is not asyncio.

    Args:
        store: What needs it, because the library that it uses does.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            f"{type(store).__name__} needs asyncio; on trio, keep tasks in a file or in memory"
        ) from None
