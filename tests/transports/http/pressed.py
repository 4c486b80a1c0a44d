"""The server that hostile clients attack. It reports what it holds, so that leaks show.

``PRESSED`` in the environment has the endpoint's settings, as JSON, and ``ask_timeout``.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
import time
from collections import Counter
from dataclasses import fields
from types import CoroutineType
from typing import Any, Final

import anyio

from mcpkit import Context, Limits, MCPKit, SyncContext, ToolError
from mcpkit._protocol.connection import Request
from mcpkit._server.session import Session
from mcpkit._utils.quota import Quota
from mcpkit.transports.http.exchange import Exchange
from mcpkit.transports.http.requests import OpenRequests
from mcpkit.transports.http.sessions import LiveSession, LocalStore, SessionTable
from mcpkit.transports.http.sse import SseSessions
from mcpkit.transports.http.streams import Stream, StreamResponse

settings = json.loads(os.environ.get("PRESSED", "{}"))
_NAMES: Final = {each.name for each in fields(Limits)}
limits = Limits(**{name: settings.pop(name) for name in [*settings] if name in _NAMES})
ask_timeout = settings.pop("ask_timeout", 5)
app = MCPKit("pressed", ask_timeout=ask_timeout, limits=limits, http=settings)

_COUNTED: Final = (Exchange, LiveSession, Stream, StreamResponse, Session, Request)


@app.tool
async def add(a: int, b: int) -> int:
    return a + b


@app.tool
async def large(size: int) -> str:
    return "x" * size


@app.tool
async def length(value: Any) -> int:
    return len(value)


@app.tool
async def wait(seconds: float) -> str:
    await anyio.sleep(seconds)
    return "waited"


class Gate:
    """Where calls wait for others."""

    opened = asyncio.Event()
    passed = 0


@app.tool
async def hold() -> None:
    await Gate.opened.wait()
    Gate.passed += 1


@app.tool
async def release() -> None:
    Gate.opened.set()


@app.tool
async def advance(steps: int, ctx: Context, pause: float = 0, size: int = 1) -> str:
    """Report progress and log, without ever waiting for the client to read."""
    for step in range(1, steps + 1):
        ctx.progress(step, steps)
        ctx.info("x" * size)
        if pause:
            await anyio.sleep(pause)
    return "advanced"


@app.tool
def work(steps: int, pause: float, ctx: SyncContext) -> str:
    """Work in a thread."""
    for step in range(1, steps + 1):
        if ctx.cancelled:
            break
        ctx.progress(step, steps)
        time.sleep(pause)
    return "worked"


@app.tool
async def leave(seconds: float, ctx: Context) -> str:
    """Let the client come back for the answer."""
    ctx.close_stream(0)
    await anyio.sleep(seconds)
    return "left"


@app.tool
async def user(ctx: Context) -> str:
    answer = await ctx.elicit("What?", str, key="what")
    return str(answer.data) if answer.accepted else "nothing"


@app.tool
async def model(ctx: Context) -> str:
    return (await ctx.sample("Say something")).text


@app.tool
async def fail() -> str:
    raise ToolError("on purpose")


@app.tool
async def touch(name: str) -> str:
    app.notify_resource_updated(f"pressed://{name}")
    return name


@app.resource("pressed://{name}")
async def part(name: str) -> str:
    return name


@app.tool
async def state(objects: bool = False) -> dict[str, int]:
    """What this process holds."""
    found: dict[str, int] = {
        "tasks": len(asyncio.all_tasks()),
        "threads": threading.active_count(),
        "passed": Gate.passed,
    }
    gc.collect()
    everything = gc.get_objects()
    if objects:
        counts = Counter(type(each) for each in everything)
        found |= {kind.__qualname__: counts[kind] for kind in _COUNTED}
    for each in everything:
        if type(each) is CoroutineType and each.__qualname__ == "Threads._host" and each.cr_frame:
            found["tasks"] -= 1  # it lasts as long as its thread is kept for the next call
        if type(each) is SessionTable:
            found |= {
                "live": len(each._known),
                "spare": len(each._idle),
                "kept": each.buffer.quota.used,
                "kept streams": sum(map(len, each.buffer._streams.values())),
            }
        elif type(each) is LocalStore:
            found |= {"ended": len(each.ends), "put away": len(each._states)}
        elif type(each) is OpenRequests:
            found |= {
                "exchanges": len(each.requests),
                "streams": len(each.responses),
                **{
                    name: quota.used
                    for name, quota in vars(each.quotas).items()
                    if isinstance(quota, Quota)
                },
            }
        elif type(each) is SseSessions:
            found["old sessions"] = len(each._sessions)
    return found
