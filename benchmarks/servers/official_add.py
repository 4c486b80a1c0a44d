"""`add(a, b)` on the official SDK, over stdio, logging only warnings."""

from __future__ import annotations

from mcp.server import MCPServer  # type: ignore[import-not-found, unused-ignore]


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


app = MCPServer("bench", log_level="WARNING")
app.add_tool(add)

if __name__ == "__main__":
    app.run()
