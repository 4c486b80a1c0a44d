"""Messages within one process: for tests, and for servers inside other programs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from mcpkit._concurrency.loop import Loop
from mcpkit._protocol.client_connection import IsAnswered, OutgoingMessage
from mcpkit._protocol.connection import Request, RequestSource
from mcpkit._server.channel import Channel
from mcpkit._server.server import Server
from mcpkit._server.serving import serving
from mcpkit._server.session import Session


class MemoryLink(Channel):
    """Connects a client and a server in the same event loop, in both directions."""

    def __init__(
        self,
        server: Server,
        loop: Loop,
        on_text: Callable[[bytes], None],
        origin: RequestSource | None = None,
    ) -> None:
        self._on_text = on_text
        self._origin = origin
        self._open = True
        self.session = Session(server, self, loop)

    def send(self, text: bytes, request: Request | None = None) -> None:
        """Hand a message of the session to the client."""
        if self._open:
            self._on_text(text)

    async def exchange(self, sent: OutgoingMessage, answered: IsAnswered | None = None) -> None:
        """Hand a message of the client to the session."""
        self.session.receive(sent.text, self._origin)

    async def aclose(self) -> None:
        """Close the session, and cancel the requests that run."""
        self._open = False
        await self.session.aclose()


@asynccontextmanager
async def connect(
    running: AbstractAsyncContextManager[Server],
    loop: Loop,
    on_text: Callable[[bytes], None],
    on_exception: Callable[[Request, BaseException], None] | None = None,
    origin: RequestSource | None = None,
) -> AsyncGenerator[MemoryLink, None]:
    """Serve one client in this process.

    Args:
        running: The app's lifespan (`MCPKit.running`), entered and left here.
        loop: Runs its handlers.
        on_text: Called with each message of the server.
        on_exception: Called with the exception of a handler behind a failed request.
        origin: The source of all requests; None: the only client, for whom scopes do not apply.

    Yields:
        The client's way to the server.
    """
    async with running as server, serving(server, loop) as (served, services):
        link = MemoryLink(served, loop, on_text, origin)
        link.session.on_exception = on_exception
        services.sessions.append(link.session)
        try:
            yield link
        finally:
            # Also when the client itself is cancelled: its handlers must end before the lifespan.
            with anyio.CancelScope(shield=True):
                await link.aclose()
