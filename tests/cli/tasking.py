"""A server whose tools run as tasks, for the tests of the command line."""

from __future__ import annotations

import os

import anyio

from mcpkit import Context, MCPKit, ToolError

app = MCPKit("tasking", tasks={"poll_interval": 0.1})


@app.tool(task="optional")
async def count(ctx: Context, to: int = 2) -> str:
    """Tell how far it is."""
    for number in range(1, to + 1):
        ctx.progress(number, to, "counting")
    return f"counted to {to}"


@app.tool(task="required")
async def book(ctx: Context) -> str:
    """Ask, and book."""
    answer = await ctx.elicit("How many?", int)
    if not answer.accepted:
        raise ToolError("not booked")
    return f"booked {answer.data}"


@app.tool(task="optional")
async def hang(ctx: Context) -> None:
    """Work for ever, and write it down when it may stop."""
    ctx.progress(1, 2, "hanging")
    try:
        await anyio.sleep(600)
    finally:
        with open(os.environ.get("CANCELLED", os.devnull), "a") as file:
            file.write("stopped")


@app.tool
def plain() -> str:
    """Never a task."""
    return "plain"
