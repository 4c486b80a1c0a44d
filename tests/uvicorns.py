"""A real uvicorn in a thread, on a loopback port."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

from tests.kit import PATIENCE, eventually


class _Server(uvicorn.Server):
    """Notices sooner that it has to stop: hundreds of tests have a server of their own."""

    async def main_loop(self) -> None:
        while not await self.on_tick(0):
            await asyncio.sleep(0.02)


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
        eventually(lambda: server.started or not thread.is_alive())
        assert server.started, "it cannot begin"
        yield
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()
