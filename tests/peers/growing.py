"""A server that starts with a prompt alone, which adds and removes the only tool."""

from __future__ import annotations

from mcpkit import MCPKit

app = MCPKit("growing", offers=["tools", "resources"])


@app.prompt
def grow() -> str:
    """Add a tool."""
    app.add_tool(lambda: "grown", name="grown")
    return "grown"


@app.prompt
def shrink() -> str:
    """Remove it."""
    app.remove_tool("grown")
    return "shrunk"
