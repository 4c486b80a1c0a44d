"""A real uvicorn in a thread, on a loopback port, which begins and ends as soon as it can.

Uvicorn looks every tenth of a second whether it has to stop, and waits as long at every step of
stopping. A server does not mind, but hundreds of tests that each have one do: here it is told. What
is served, how, and in which order a server ends is as with uvicorn alone.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import uvicorn

_PATIENCE: Final = 20.0
"""Seconds to wait for the beginning and for the end."""

_SECOND: Final = 1.0
"""After which uvicorn says another time in its answers."""

_STEP: Final = 0.001
"""Seconds between two looks at connections, which do not announce that they are closed."""


class _Server(uvicorn.Server):
    """Says that it has begun, and is told to stop."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.decided = threading.Event()
        """Set when it listens, or never will."""
        self._loop: asyncio.AbstractEventLoop
        self._told: asyncio.Event

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            super().run(sockets)
        finally:
            self.decided.set()

    def stop(self) -> None:
        """End; in a thread that is not the server's."""
        self.should_exit = True
        if self.started:
            with suppress(RuntimeError):  # it has ended by itself, and its event loop is closed
                self._loop.call_soon_threadsafe(self._told.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop, self._told = asyncio.get_running_loop(), asyncio.Event()
        await super().startup(sockets)
        await self.on_tick(0)  # every response has a date
        self.decided.set()

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._told.wait(), _SECOND)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for each in sockets or []:
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            await asyncio.wait_for(self._rest(), self.config.timeout_graceful_shutdown)
        except asyncio.TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()
        await self.lifespan.shutdown()

    async def _rest(self) -> None:
        """Wait for connections to close and for tasks to end."""
        while self.server_state.connections or self.server_state.tasks:
            await asyncio.sleep(_STEP)
        for server in self.servers:
            await server.wait_closed()


def listen() -> socket.socket:
    """A socket on a port that was free."""
    return socket.create_server(("127.0.0.1", 0), backlog=128)


@contextmanager
def running(application: Any, listener: socket.socket, **options: Any) -> Iterator[None]:
    """Serve an ASGI application until the end of the block.

    Connections that clients leave open hold up the end, as they do elsewhere: close them before.

    Args:
        application: Of any kind.
        listener: The socket, which is closed at the end.
        options: Of uvicorn.
    """
    config = uvicorn.Config(application, ws="none", log_level="critical", **options)
    server = _Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        assert server.decided.wait(_PATIENCE), "it has not begun"
        assert server.started, "it cannot begin"
        yield
    finally:
        server.stop()
        thread.join(_PATIENCE)
        assert not thread.is_alive()
