from starlette.applications import Starlette
from starlette.routing import Mount

from fastmcp_server import mcp

sub = mcp.http_app(path="/")
host = Starlette(
    routes=[Mount("/mcp", sub)],
    lifespan=sub.lifespan,  # fails without
)
