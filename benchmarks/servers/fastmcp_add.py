"""`add(a, b)` on FastMCP, over stdio, without banner and log."""

from __future__ import annotations

from fastmcp import FastMCP  # type: ignore[import-not-found, unused-ignore]


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


app = FastMCP("bench", dereference_schemas=False)
app.tool(add)

if __name__ == "__main__":
    app.run(show_banner=False, log_level="ERROR")
