"""A server with views, and beside its endpoint the page of a host; ``VIEWS`` is their folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from mcpkit import Html, MCPKit, ToolResult

views = Path(os.environ["VIEWS"])
sys.path.insert(0, str(views / "project" / "src"))

from my_views import server  # type: ignore[import-not-found, unused-ignore]  # noqa: E402

from examples import dice  # noqa: E402

app: MCPKit[Any] = server.app  # pyright: ignore[reportUnknownMemberType]
app.include(dice.app)
app.routes.append(Mount("/host", StaticFiles(directory=views / "host", html=True)))


@app.tool(ui=Html(views / "plain" / "counter.html", permissions=["clipboardWrite"]))
@app.tool(name="count_built", ui=Html(views / "built" / "index.html", prefers_border=False))
def count(start: int) -> ToolResult:
    """Show a counter."""
    return ToolResult(f"The counter is at {start}.", structured_content={"count": start})


@app.tool(visibility="app")
def add_one(count: int) -> ToolResult:
    """Add one to a counter."""
    return ToolResult("Added.", structured_content={"count": count + 1})
