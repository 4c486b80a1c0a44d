"""The server that the tests of stdio start. It tells on stderr what a client cannot see."""

from __future__ import annotations

import contextvars
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcpkit import Context, MCPKit, SyncContext
from mcpkit.transports.stdio import server as serve

settings = os.environ
variable = contextvars.ContextVar("variable", default="unset")


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@asynccontextmanager
async def lifespan(_: MCPKit) -> AsyncIterator[None]:
    try:
        yield
    finally:
        tell("the lifespan is left")


app = MCPKit("served", lifespan=lifespan, max_in_flight=int(settings.get("MAX_IN_FLIGHT", "1000")))


@app.tool
async def echo(text: str) -> str:
    return text


@app.tool
async def length(text: str) -> int:
    return len(text)


@app.tool
async def large(size: int) -> str:
    return "x" * size


@app.tool
def large_in_thread(size: int) -> str:
    return "x" * size


@app.tool
async def large_later(size: int) -> str:
    await anyio.sleep(0)
    return "x" * size


@app.tool
async def wait(name: str) -> str:
    tell(f"{name} waits")
    await anyio.sleep_forever()
    return name


@app.tool
async def forever(name: str) -> None:
    """Never answer; clean up, with an await, when stopped."""
    tell(f"{name} waits")
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0)
        tell(f"{name} has cleaned up after {sys.exc_info()[0]}")


@app.tool
async def stubborn() -> None:
    """Refuse to be stopped."""
    tell("stubborn waits")
    while True:
        with anyio.CancelScope(shield=True):
            try:
                await anyio.sleep_forever()
            except BaseException:
                continue


@app.tool
async def soon(seconds: float) -> str:
    tell("soon waits")
    await anyio.sleep(seconds)
    return "done"


@app.tool
def block() -> None:
    """Block a thread for good."""
    tell("a thread blocks")
    threading.Event().wait()


@app.tool
async def flood(count: int, ctx: Context) -> str:
    """Log without ever waiting."""
    for _ in range(count):
        ctx.info("x" * 1000)
    return "flooded"


@app.tool
def flood_from_thread(count: int, ctx: SyncContext) -> str:
    for _ in range(count):
        ctx.info("x" * 1000)
    return "flooded"


@app.tool
async def exchange_variable(value: str) -> str:
    """Set a context variable; what it was before."""
    before = variable.get()
    variable.set(value)
    return before


@app.tool
async def typed(
    number: int, ratio: float, flag: bool, names: list[str], table: dict[str, int]
) -> dict[str, Any]:
    return {"number": number, "ratio": ratio, "flag": flag, "names": names, "table": table}


@app.resource("served://fixed")
def fixed() -> str:
    return "fixed"


@app.resource("served://{name}/part")
def part(name: str) -> str:
    return name


@app.prompt
def ask(question: str, tone: str = "kind") -> str:
    return f"{question} ({tone})"


if __name__ == "__main__":
    # Limits that a test is about.
    for name in ("_CLEAN_UP_S", "_STALL_S"):
        if name in settings:
            assert hasattr(serve, name), f"{name} is not a limit"
            setattr(serve, name, float(settings[name]))
    app.run(
        backend=settings.get("BACKEND", "asyncio"),
        max_line=int(settings.get("MAX_LINE", str(64 * 1024 * 1024))),
        grace=float(settings.get("GRACE", "0.25")),
    )
