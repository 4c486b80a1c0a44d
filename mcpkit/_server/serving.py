"""Serving an app on an event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from mcpkit._concurrency.loop import Loop
from mcpkit._server.encoding import encode_result
from mcpkit._server.server import Server, Services
from mcpkit._server.suspended import SuspendedRuns


@asynccontextmanager
async def serving(server: Server, loop: Loop) -> AsyncGenerator[tuple[Server, Services], None]:
    """Serve an app on the running event loop; yields the server, and what extensions run there."""
    lifetime = server.settings.ask_timeout
    suspended = SuspendedRuns(loop, lifetime, partial(encode_result, private=True))
    services = Services(server.replace(suspended=suspended), loop)
    server.all_services.append(services)
    server.all_suspended.append(suspended)
    try:
        for each in server.extensions:
            each.start(services)
        yield services.server, services
    finally:
        server.all_services.remove(services)
        server.all_suspended.remove(suspended)
        await suspended.aclose()
        await services.aclose()
