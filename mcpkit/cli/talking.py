"""A connection to a server that may ask, and tells what it does, while it is at work."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import anyio
import typer

from mcpkit.cli.asking import Asking
from mcpkit.cli.options import Reach, roots_from
from mcpkit.cli.telling import Telling, TimeLimit
from mcpkit.cli.terminal import BAD_NEWS, fail, note
from mcpkit.client import Client
from mcpkit.client_tasks import TaskHandle
from mcpkit.errors import MCPKitError, TaskCancelled
from mcpkit.results import CallResult

__all__ = ["Talk"]

_CANCEL_S: Final = 5.0
"""Seconds that the cancellation of a task may take."""

_CANCELLED: Final = "and has been cancelled"


class Talk:
    """A call under way: its client, its limit, and what is asked and told meanwhile.

    Args:
        reach: The server.
        answers, command, roots, quiet: As on the command line.

    Raises:
        typer.Exit: An option makes no sense; a message has said so.
    """

    def __init__(
        self,
        reach: Reach,
        answers: Sequence[str] | None,
        command: str | None,
        roots: Sequence[str] | None,
        quiet: bool,
    ) -> None:
        self._reach = reach
        self.telling = Telling(quiet)
        self._limit = TimeLimit(reach.timeout)
        self._asking = Asking(answers, command, self.telling, self._limit)
        self._roots = roots_from(roots)

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Client, None]:
        """Connect a client that answers the server's questions; see `Reach.connected`."""
        async with self._reach.connected(
            **self._asking.options, roots=self._roots, on_log=self.telling.log
        ) as client:
            yield client

    @contextmanager
    def waiting(self, what: str, left: str = _CANCELLED) -> Generator[None, None, None]:
        """Wait for an answer in here; the request itself must have no limit of its own.

        Args:
            what: The name of what is at work, for the message.
            left: What becomes of it if it takes too long, for the message.

        Raises:
            typer.Exit: It takes longer than it may; it was cancelled, and a message has said so.
        """
        try:
            with self.telling, self._limit.limited():
                yield
        except TimeoutError:
            if self._reach.timeout is None:
                raise
            fail(f"{what} did not answer within {self._reach.timeout:g} s, {left}")

    async def outcome(self, task: TaskHandle, *, is_ours: bool) -> CallResult:
        """Wait for a task, and show how it stands with it.

        Args:
            task: That is waited for.
            is_ours: True if this command has begun it. Then it is cancelled if nobody waits for it
                to the end, and a message says so.

        Raises:
            typer.Exit: Somebody has cancelled it; a message has said so.
        """
        try:
            async for status in task:
                self.telling.status(status.message)
            return await task
        except TaskCancelled as error:
            self.telling.close()
            note(f"{error} ({error.id})")
            raise typer.Exit(BAD_NEWS) from None
        except BaseException:
            if not task.is_over:
                self.telling.close()
                with anyio.CancelScope(shield=True):
                    await self._leave(task, is_ours=is_ours)
            raise

    async def _leave(self, task: TaskHandle, *, is_ours: bool) -> None:
        said = f"the task {task.id} goes on"
        if is_ours:
            said = f"the task {task.id} could not be cancelled"
            with anyio.move_on_after(_CANCEL_S):
                try:
                    await task.cancel()
                except (MCPKitError, TimeoutError, ValueError):
                    pass
                else:
                    if self._limit.is_reached:
                        return  # which is said elsewhere
                    said = f"the task {task.id} has been cancelled"
        note(said)
