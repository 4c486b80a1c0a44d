"""The server that frameworks, bridges and hosts are pointed at.

It writes down who asks for what: clients rarely say which revision they have agreed on.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import anyio
from pydantic import BaseModel

from mcpkit import CallNext, Context, Image, MCPKit, ToolError

app = MCPKit("frameworks", version="1.2.3")

PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2kUIOwAAAABJRU5ErkJggg=="
)
"""One grey pixel: a real image, because some clients look at it."""


class Place(BaseModel):
    """Where a city is."""

    city: str
    latitude: float


class Guest(BaseModel):
    """Who comes."""

    name: str
    age: int | None = None


@app.middleware
async def write_down(ctx: Context, call_next: CallNext) -> Any:
    info = ctx.client.info
    line = {
        "method": ctx.method,
        "revision": ctx.revision,
        "client": None if info is None else info.name,
    }
    with Path(os.environ["SEEN"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return await call_next()


@app.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@app.tool
def ready() -> str:
    """Tell whether it works."""
    return "ready"


@app.tool
def book(guests: list[Guest], nights: int = 1) -> str:
    """Book a room."""
    return f"{', '.join(guest.name for guest in guests)}: {nights}"


@app.tool
def locate(city: str) -> Place:
    """Find a city."""
    return Place(city=city, latitude=38.7)


@app.tool
def picture() -> Image:
    """Draw something very small."""
    return Image(base64.b64decode(PICTURE), mime_type="image/png")


@app.tool
def refuse(reason: str) -> str:
    """Never do it."""
    raise ToolError(reason)


@app.tool
async def count(to: int, *, ctx: Context) -> str:
    """Count, and tell how far it is."""
    for number in range(1, to + 1):
        ctx.progress(number, to, f"number {number}")
        # Some clients lose progress that they read together with the result.
        await anyio.sleep(0.2)
    return "counted"
