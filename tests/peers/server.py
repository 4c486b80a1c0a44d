"""The server that other people's clients are pointed at: a little of everything."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import anyio
import anyio.lowlevel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel, Field

from mcpkit import Complete, Context, Image, MCPKit, SyncContext, ToolError
from mcpkit.telemetry import Telemetry

sys.path.append(str(Path(__file__).parents[2] / "examples"))
from glossary import glossary

exported = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exported))

app = MCPKit(
    "peers",
    version="1.2.3",
    title="Peers",
    instructions="Try everything.",
    telemetry=Telemetry(tracer_provider=provider),
)
app.extend(glossary)

TODAY = "notes://today"
PIXEL = bytes.fromhex("89504e470d0a1a0a")

notes = {"today": "buy milk", "tomorrow": "sell milk"}
told_to_go_on = anyio.Event()


class Place(BaseModel):
    """Where a city is."""

    city: str
    latitude: float


@app.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@app.tool
async def shout(text: Annotated[str, Field(min_length=1)]) -> str:
    """Say it louder."""
    await anyio.lowlevel.checkpoint()
    return text.upper()


@app.tool(read_only=True)
def locate(city: str) -> Place:
    """Find a city."""
    return Place(city=city, latitude=38.7)


@app.tool
def everywhere() -> list[Place]:
    """Find every city."""
    return [Place(city="Lisbon", latitude=38.7), Place(city="Oslo", latitude=59.9)]


@app.tool
def picture() -> Image:
    """Draw something very small."""
    return Image(PIXEL, mime_type="image/png")


@app.tool
def refuse(reason: str) -> str:
    """Never do it."""
    raise ToolError(reason)


@app.tool
def explode() -> str:
    """Fail unexpectedly."""
    raise RuntimeError("a secret")


@app.tool
async def count(to: int, *, ctx: Context) -> str:
    """Count, tell how far it is, and wait for `go_on`."""
    ctx.info("counting", logger="counter")
    ctx.debug("below the level of the client")
    for number in range(1, to + 1):
        ctx.progress(number, to, f"number {number}")
    # The TypeScript clients lose progress that is read together with the result.
    await told_to_go_on.wait()
    return "counted"


@app.tool
async def go_on() -> str:
    """Let `count` end."""
    told_to_go_on.set()
    return "gone on"


@app.tool
async def hang_up(*, ctx: Context) -> str:
    """Close the connection, and answer when the client has come back."""
    ctx.close_stream(retry=0.05)
    await anyio.sleep(0.3)
    return "still here"


@app.tool
def write(text: str, *, ctx: SyncContext) -> str:
    """Write the note of today."""
    notes["today"] = text
    ctx.notify_resource_updated(TODAY)
    return "written"


@app.tool
def learn(name: str) -> str:
    """Offer one more tool."""
    app.add_tool(lambda: "new", name=name, description="Learned.")
    return "learned"


@app.tool
async def decide(*, ctx: Context) -> str:
    """Ask the user two things, one after the other."""
    color = await ctx.elicit("Which color?", ["red", "green"])
    place = await ctx.elicit("Where?", Place)
    if not (color.accepted and place.accepted):
        raise ToolError("Then not.")
    return f"{color.data} in {place.data.city}"


@app.tool
async def think(*, ctx: Context) -> str:
    """Ask the model."""
    return (await ctx.sample("What is tea?", max_tokens=20)).text


@app.tool
async def look(*, ctx: Context) -> str:
    """Ask for the roots."""
    return " ".join(root.uri for root in await ctx.roots())


@app.tool
def traced() -> str:
    """Tell which tools have been called, by the spans of their calls."""
    spans = exported.get_finished_spans()
    return ", ".join(sorted({each.name for each in spans if each.name.startswith("tools/call ")}))


@app.resource(TODAY, mime_type="text/plain")
def today() -> str:
    """The note of today."""
    return notes["today"]


@app.resource("notes://pixel")
def pixel() -> bytes:
    """Eight bytes."""
    return PIXEL


@app.resource("notes://{day}/text")
def note(day: Annotated[str, Complete(list(notes))]) -> str:
    """The note of some day."""
    return notes[day]


def cities(typed: str, country: str | None) -> list[str]:
    known = {"Norway": ["Oslo", "Odda"], "Portugal": ["Lisbon"]}
    found = (
        known.get(country, []) if country else [city for each in known.values() for city in each]
    )
    return [city for city in found if city.startswith(typed)]


@app.prompt
def travel(
    country: Literal["Norway", "Portugal"], city: Annotated[str, Complete(cities)], days: int = 3
) -> str:
    """Plan a trip."""
    return f"Plan {days} days in {city}, {country}."
