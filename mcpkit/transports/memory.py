"""Messages within one process: for tests, and for servers inside other programs."""

from __future__ import annotations

from collections.abc import Callable

from mcpkit._concurrency.loop import Loop
from mcpkit._protocol.connection import Request
from mcpkit._server.channel import Channel
from mcpkit._server.server import Server
from mcpkit._server.session import Session

__all__ = ["MemoryLink"]


class MemoryLink(Channel):
    """A client's way to a server in the same event loop, and the session's channel back.

    Args:
        server: To be served.
        loop: Runs its handlers.
        on_text: Called with each message of the server.
        on_exception: Called with the real exception behind a failed request.
    """

    def __init__(
        self,
        server: Server,
        loop: Loop,
        on_text: Callable[[bytes], None],
        on_exception: Callable[[Request, BaseException], None] | None = None,
    ) -> None:
        self._on_text = on_text
        self._open = True
        self.session = Session(server, self, loop)
        if on_exception is not None:
            self.session.on_exception = on_exception

    def send(self, text: bytes, about: Request | None = None) -> None:
        """Take a message of the session (its channel)."""
        if self._open:
            self._on_text(text)

    async def drain(self, about: Request | None = None) -> None:
        """Return at once, because every message has been taken by `send`."""

    async def send_text(self, text: bytes) -> None:
        """Take a message of the client."""
        self.session.receive(text)

    async def aclose(self) -> None:
        """Close the session, and cancel the requests that run."""
        self._open = False
        await self.session.aclose()
