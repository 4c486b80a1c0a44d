"""Ways of moving messages: one file each, found by name in one table."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from importlib import import_module
from typing import Any, Final, Protocol

from mcpkit.engine.server import Server

__all__ = ["TRANSPORTS", "Served", "load"]

TRANSPORTS: Final[dict[str, str]] = {
    "stdio": "mcpkit.transports.stdio.serve",
    "http": "mcpkit.transports.http",
    "sse": "mcpkit.transports.http.sse",
}
"""Name → module. A module has ``run(served, **options)``, which serves until it is over."""


class Served(Protocol):
    """What a transport serves: an app."""

    @property
    def name(self) -> str:
        """Of the server."""
        ...

    def running(self) -> AbstractAsyncContextManager[Server]:
        """Enter the app's lifespan, for as long as something serves it."""
        ...

    def asgi(self, *, loopback: bool | None = None, **options: Any) -> Any:
        """The app as an ASGI application."""
        ...


def load(name: str) -> Any:
    """The module of a transport, imported only now.

    Raises:
        ValueError: There is none of this name.
    """
    module = TRANSPORTS.get(name)
    if module is None:
        raise ValueError(f"unknown transport {name!r}; known: {', '.join(TRANSPORTS)}")
    return import_module(module)
