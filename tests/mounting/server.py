"""The app that the tests of servers start; it tells on stderr what a client cannot see."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import sniffio

from mcpkit import Context, MCPKit

MARK = "app: "
"""Begins each line of the app among those of its server."""


def tell(text: str) -> None:
    os.write(2, f"{MARK}{text}\n".encode())


@asynccontextmanager
async def lifespan(app: Any) -> AsyncGenerator[None, None]:
    tell(f"entered on {sniffio.current_async_library()}")
    yield
    await anyio.sleep(0)
    tell("left")


app: MCPKit[None] = MCPKit("served", lifespan=lifespan)


@app.tool
async def add(a: int, b: int) -> int:
    return a + b


@app.tool
def add_in_thread(a: int, b: int) -> int:
    return a + b


@app.tool
async def count(to: int, ctx: Context) -> str:
    """Stream."""
    for number in range(to):
        await ctx.progress(number, to)
    return "counted"


@app.tool
async def wait() -> None:
    """Never end."""
    tell("begun")
    try:
        await anyio.sleep_forever()
    finally:
        tell("cancelled")


@app.tool
async def a_while() -> str:
    """Take longer than a server to hear of its end, but not forever."""
    tell("begun")
    await anyio.sleep(0.3)
    tell("done")
    return "done"
