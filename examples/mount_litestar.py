"""An app in a Litestar application, behind its guards: ``uvicorn mount_litestar:host``."""

from typing import Any

from litestar import Litestar, asgi, get
from litestar.connection import ASGIConnection
from litestar.exceptions import NotAuthorizedException
from litestar.handlers import BaseRouteHandler
from litestar.types import Receive, Scope, Send

from mcpkit import Context, MCPKit

KEYS = {"k-ada": "Ada", "k-bob": "Bob"}

app = MCPKit("greeter", http={"principal": lambda http: KEYS.get(http.headers.get("x-key", ""))})
endpoint = app.asgi(path="/mcp")


@app.tool
async def greet(ctx: Context) -> str:
    """Greet the user."""
    name = ctx.principal.id if ctx.principal else "you"
    return f"Hello, {name}!"


async def has_key(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
    """Reject requests without a key."""
    if connection.headers.get("x-key") not in KEYS:
        raise NotAuthorizedException("a key is required")


@asgi("/mcp", guards=[has_key], copy_scope=True)
async def mcp(scope: Scope, receive: Receive, send: Send) -> None:
    """The app; Litestar passes ``/mcp/`` on as well."""
    await endpoint(scope, receive, send)


@get("/")
async def home() -> str:
    """An ordinary page of the application."""
    return "Greetings are given at /mcp."


host = Litestar([mcp, home])
