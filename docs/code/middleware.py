"""Middleware that measures, refuses, and changes results."""

# region first
from time import perf_counter
from typing import Any

from mcpkit import (
    CallNext,
    Context,
    MCPKit,
    ProtocolError,
    TextContent,
    ToolResult,
)

app = MCPKit("measured")
slowest: dict[str, float] = {}


@app.middleware
async def measure(ctx: Context, call_next: CallNext) -> Any:
    """Keep the longest time that each method took, in seconds."""
    began = perf_counter()
    try:
        return await call_next()
    finally:
        took = perf_counter() - began
        slowest[ctx.method] = max(slowest.get(ctx.method, 0), took)


@app.tool
def greet(name: str) -> str:
    """Greet a person."""
    return f"Hello, {name}!"
    # endregion first


# region refuse
CLOSED = False


@app.middleware
async def opening_hours(ctx: Context, call_next: CallNext) -> Any:
    """Refuse calls while the shop is closed; lists are always answered."""
    if CLOSED and ctx.method == "tools/call":
        raise ProtocolError("The shop is closed.", code=4001)
    return await call_next()
    # endregion refuse


# region change
@app.middleware
async def sign(ctx: Context, call_next: CallNext) -> Any:
    """Add a line to each result that is text."""
    result = await call_next()
    if isinstance(result, ToolResult) and not result.is_error:
        result.content = [*result.content, TextContent("Sent by the shop.")]
    return result
    # endregion change
