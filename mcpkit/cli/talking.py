"""A connection to a server that may ask, and tells what it does, while it is at work."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager

from mcpkit.cli.asking import Asking
from mcpkit.cli.options import Reach, roots_from
from mcpkit.cli.telling import Telling, TimeLimit
from mcpkit.cli.terminal import fail
from mcpkit.client import Client

__all__ = ["Talk"]


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
    def waiting(self, what: str) -> Generator[None, None, None]:
        """Wait for an answer in here; the request itself must have no limit of its own.

        Args:
            what: The name of what is at work, for the message.

        Raises:
            typer.Exit: It takes longer than it may; it was cancelled, and a message has said so.
        """
        try:
            with self.telling, self._limit.limited():
                yield
        except TimeoutError:
            if self._reach.timeout is None:
                raise
            fail(f"{what} did not answer within {self._reach.timeout:g} s, and has been cancelled")
