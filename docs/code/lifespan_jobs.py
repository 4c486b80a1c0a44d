"""A server with a background job."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcpkit import MCPKit, SyncContext

RATES = {"USD": 0.0}


async def refresh() -> None:
    """Fetch the rates every hour."""
    while True:
        RATES["USD"] = 0.9
        await anyio.sleep(3600)


@asynccontextmanager
async def lifespan(app: MCPKit[Any]) -> AsyncGenerator[dict[str, float], None]:
    async with anyio.create_task_group() as jobs:
        jobs.start_soon(refresh)
        yield RATES
        jobs.cancel_scope.cancel()


app = MCPKit("rates", lifespan=lifespan)


@app.tool(read_only=True)
def euros(dollars: float, ctx: SyncContext[dict[str, float]]) -> float:
    """Convert dollars to euros."""
    return dollars * ctx.state["USD"]
