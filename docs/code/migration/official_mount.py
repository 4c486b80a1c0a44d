from contextlib import asynccontextmanager

from mcp.server.transport_security import (
    TransportSecuritySettings,
)
from starlette.applications import Starlette
from starlette.routing import Mount

from official_server import mcp

sub = mcp.streamable_http_app(
    streamable_http_path="/",
    transport_security=TransportSecuritySettings(
        allowed_hosts=["example.com"]
    ),
)


@asynccontextmanager
async def lifespan(app):
    async with mcp.session_manager.run():
        yield


host = Starlette(routes=[Mount("/mcp", sub)], lifespan=lifespan)
