"""A server that opens something once, and closes it when it stops."""

# region first
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from mcpkit import Context, MCPKit


@dataclass
class State:
    """The state that lives as long as the server."""

    visits: list[str] = field(default_factory=list[str])


@asynccontextmanager
async def lifespan(app: MCPKit[Any]) -> AsyncGenerator[State, None]:
    state = State()  # open a pool, load a model, start a background job
    yield state
    state.visits.clear()  # close it


app = MCPKit("visits", lifespan=lifespan)


@app.tool
async def visit(ctx: Context[State]) -> int:
    """Count a visit."""
    client = ctx.client.info
    ctx.state.visits.append(client.name if client else "unknown")
    return len(ctx.state.visits)
    # endregion first
