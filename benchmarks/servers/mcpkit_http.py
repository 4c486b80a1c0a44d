"""`add(a, b)` and `count(steps)` on mcpkit, for `mcpkit run --http`."""

from __future__ import annotations

from mcpkit import Context, MCPKit

app = MCPKit("bench")


@app.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@app.tool
async def count(steps: int, ctx: Context) -> int:
    """Report that many steps of progress."""
    for step in range(1, steps + 1):
        await ctx.progress(step)
    return steps
