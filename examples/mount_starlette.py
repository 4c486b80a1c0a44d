"""An app in a Starlette application, which knows its users: ``uvicorn mount_starlette:host``."""

from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mcpkit import Context, MCPKit

app = MCPKit("notes")
notes: dict[str, list[str]] = {}


def owner(ctx: Context) -> str:
    """Whom the middleware below has found."""
    return ctx.http.state["name"] if ctx.http else "you"


@app.tool
async def note(text: str, ctx: Context) -> str:
    """Write something down."""
    notes.setdefault(owner(ctx), []).append(text)
    return f"Noted for {owner(ctx)}."


@app.tool
async def read(ctx: Context) -> list[str]:
    """Read what was written down."""
    return notes.get(owner(ctx), [])


class Names:
    """Finds out who asks, for every request to this application."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            name = Request(scope).headers.get("x-name", "guest")
            scope.setdefault("state", {})["name"] = name
        await self.inner(scope, receive, send)


async def home(request: Request) -> PlainTextResponse:
    """A page of the application, as ever."""
    return PlainTextResponse("Notes are taken at /mcp.")


host = Starlette(routes=[Route("/", home)], middleware=[Middleware(Names)])
app.attach(host, "/mcp")
