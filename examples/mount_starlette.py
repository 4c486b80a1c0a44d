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
    """Return the user that the middleware below has found."""
    return ctx.http.state["name"] if ctx.http else "you"


@app.tool
async def note(text: str, ctx: Context) -> str:
    """Store a note."""
    notes.setdefault(owner(ctx), []).append(text)
    return f"Noted for {owner(ctx)}."


@app.tool
async def read(ctx: Context) -> list[str]:
    """List the notes."""
    return notes.get(owner(ctx), [])


class Names:
    """Finds the user of every request to this application."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            name = Request(scope).headers.get("x-name", "guest")
            scope.setdefault("state", {})["name"] = name
        await self.inner(scope, receive, send)


async def home(request: Request) -> PlainTextResponse:
    """An ordinary page of the application."""
    return PlainTextResponse("Notes are taken at /mcp.")


host = Starlette(routes=[Route("/", home)], middleware=[Middleware(Names)])
app.attach(host, "/mcp")
