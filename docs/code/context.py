"""The context: facts about the request, progress, resources."""

# region state
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from mcpkit import CallNext, Context, MCPKit, SyncContext


@dataclass
class State:
    """The state that lives as long as the server."""

    visits: list[str] = field(default_factory=list[str])


@asynccontextmanager
async def opened(app: MCPKit[Any]) -> AsyncGenerator[State, None]:
    state = State()
    yield state
    state.visits.clear()


app = MCPKit("context", lifespan=opened)


@app.tool
async def visit(ctx: Context[State]) -> int:
    """Count a visit."""
    client = ctx.client.info
    ctx.state.visits.append(client.name if client else "unknown")
    return len(ctx.state.visits)


# endregion state
# region facts
@app.tool
async def about(ctx: Context) -> dict[str, Any]:
    """Describe this request."""
    return {
        "revision": ctx.revision,
        "method": ctx.method,
        "can ask for forms": ctx.client.supports("elicitation", "form"),
        "over HTTP": ctx.http is not None,
    }


# endregion facts
# region progress
@app.tool
def crunch(rows: int, ctx: SyncContext) -> int:
    """Go through rows, in a thread."""
    done = 0
    for number in range(1, rows + 1):
        if ctx.cancelled:
            break
        done += 1
        ctx.progress(number, rows, f"row {number}")
    ctx.info(f"went through {done} rows")
    return done


# endregion progress
# region read
@app.resource("context://motto")
def motto() -> str:
    """A few words."""
    return "Say it once."


@app.tool
async def shout(ctx: Context) -> str:
    """Return the motto in capitals."""
    (contents,) = await ctx.read_resource("context://motto")
    return getattr(contents, "text", "").upper()


# endregion read
# region around
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


# endregion around
if __name__ == "__main__":
    app.run()
