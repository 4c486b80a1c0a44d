"""`add(a, b)` on mcpkit, over stdio."""

from __future__ import annotations

from mcpkit import MCPKit

app = MCPKit("bench")


@app.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


if __name__ == "__main__":
    app.run()
