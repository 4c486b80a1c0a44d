"""Serving an app on an event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from mcpkit._concurrency.loop import Loop
from mcpkit._server.encoding import encode_result
from mcpkit._server.operations import Reading
from mcpkit._server.server import Server, Services
from mcpkit._server.suspended import SuspendedRuns

_QUEUE: Final = "mcpkit.queue.length"
_QUEUE_NAME: Final = "queue"


@asynccontextmanager
async def serving(server: Server, loop: Loop) -> AsyncGenerator[tuple[Server, Services], None]:
    """Serve an app on the running event loop; yields the server, and what extensions run there."""
    lifetime = server.settings.ask_timeout
    suspended = SuspendedRuns(loop, lifetime, partial(encode_result, private=True))
    services = Services(server.replace(suspended=suspended), loop)
    stop_reading = server.observers.read(partial(_read, services))
    server.all_services.append(services)
    try:
        for each in server.extensions:
            each.start(services)
        yield services.server, services
    finally:
        stop_reading()
        server.all_services.remove(services)
        await suspended.aclose()
        await services.aclose()


def _read(services: Services) -> Iterator[Reading]:
    """Yield what is held on an event loop, whatever the transport."""
    server, registry = services.server, services.server.registry
    yield Reading("mcpkit.runs.suspended", server.suspended.count.used)
    if server.all_services[:1] == [services]:  # all event loops share the gates
        tables = (registry.tools, registry.resources, registry.templates, registry.prompts)
        plans = [each.plan for table in tables for each in table.values()]
        gates = {gate for plan in plans for gate in getattr(plan, "gates", ())}
        yield Reading(_QUEUE, sum(each.waiting for each in gates), {_QUEUE_NAME: "call limits"})
    running = list(services.running.values())
    pools = [*services.threads, *(each.threads for each in (*services.sessions, *running))]
    in_flight = sum(each.in_flight for each in services.sessions)
    yield Reading("mcpkit.requests.in_flight", in_flight)
    for each in pools:
        yield Reading("mcpkit.threads", each.busy, {"state": "busy"})
        yield Reading("mcpkit.threads", max(each.size - each.busy, 0), {"state": "idle"})
        yield Reading(_QUEUE, each.waiting, {_QUEUE_NAME: "threads"})
    for service in running:
        yield from service.read()
