"""Streamable HTTP: every revision at one endpoint, as an ASGI application or served by uvicorn.

The README of this folder says what is in which file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from typing_extensions import Unpack

from mcpkit.http import HttpOptions, HttpSettings
from mcpkit.transports import Served
from mcpkit.transports.http.app import (
    Application,
    attach,
    make_metadata_route,
    make_route,
)
from mcpkit.transports.http.lifespan import Lifespans

if TYPE_CHECKING:
    from mcpkit._server.server import Server

__all__ = [
    "Application",
    "Lifespans",
    "attach",
    "make_application",
    "make_metadata_route",
    "make_route",
    "run",
    "serve_here",
]


def make_application(
    lifespans: Lifespans,
    routes: list[Any],
    options: HttpOptions,
    *,
    loopback: bool | None = None,
    prefix: str | None = None,
    server: Server | None = None,
) -> Application:
    """Return an app as an ASGI application.

    Args:
        lifespans: The lifespans of the app, which all its applications share.
        routes: Routes beside the endpoint.
        options: The options of the endpoint.
        loopback: True if the server listens on loopback addresses only; None if that is not known.
        prefix: The path that a host has put it at; None if it stands alone.
        server: The app's name and entries.
    """
    unknown = options.keys() - set(HttpSettings._fields)
    if unknown:
        raise TypeError(
            f"unknown HTTP options: {', '.join(sorted(unknown))}; "
            f"there are {', '.join(HttpSettings._fields)}"
        )
    path = options.get("path", "/")
    if not path.startswith("/") or not path.isprintable() or not set("?#%{} ").isdisjoint(path):
        raise ValueError(f"path must be like /mcp, without query or escapes, not {path!r}")
    settings = HttpSettings(**options)
    settings.check()
    return Application(lifespans, settings, routes, loopback=loopback, prefix=prefix, server=server)


def run(
    served: Served, *, host: str = "127.0.0.1", port: int = 8000, **options: Unpack[HttpOptions]
) -> None:
    """Serve an app over HTTP, with uvicorn, until SIGTERM or SIGINT.

    Args:
        served: The app.
        host: The address to listen on; loopback addresses answer to loopback names only.
        port: The port; 0 takes any that is free.
        options: The options of the endpoint.

    Raises:
        OSError: The address is taken or not ours; the message says which.
        SystemExit: With 130 after SIGINT.
    """
    from mcpkit.transports.http.server import serve

    serve(served, host, port, options)


async def serve_here(
    served: Served, *, host: str = "127.0.0.1", port: int = 8000, **options: Unpack[HttpOptions]
) -> None:
    """Serve an app over HTTP in the event loop that runs, until the task is cancelled.

    Args:
        served: The app.
        host, port, options: As for `run`.

    Raises:
        OSError: The address is taken or not ours; the message says which.
        RuntimeError: The app could not be begun; the log says why.
    """
    from mcpkit.transports.http.server import serve_here

    await serve_here(served, host, port, options)
