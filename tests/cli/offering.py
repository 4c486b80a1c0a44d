"""A server with every kind of tool, resource and prompt, for the tests of the command line."""

from __future__ import annotations

import os
from typing import Annotated, Literal

import anyio
from pydantic import BaseModel, Field

from mcpkit import (
    Accepted,
    AssistantMessage,
    Audio,
    Choices,
    Context,
    File,
    Image,
    MCPKit,
    Message,
    ProtocolError,
    ToolError,
    ToolResult,
    UserMessage,
)

app = MCPKit(
    "offering",
    version="1.2",
    title="All there is",
    instructions="Ask before you book.",
)

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"


class Guest(BaseModel):
    name: str
    age: int = 30


class Booking(BaseModel):
    city: str
    nights: int
    guest: Guest | None = None


class Details(BaseModel):
    name: Annotated[str, Field(min_length=2, description="As in the passport")]
    room: Annotated[str, Choices(["single", "double"])]
    nights: Annotated[int, Field(ge=1, le=14)] = 2
    quiet: bool = False


class More(BaseModel):
    extras: Annotated[list[str], Choices({"b": "Breakfast", "p": "Parking"}, multiple=True)] = ["b"]
    note: str | None = None


@app.tool(read_only=True)
def search(
    city: str,
    nights: Annotated[int, Field(ge=1, le=30)] = 2,
    tags: list[str] = [],  # noqa: B006 - it is only read
    kind: Literal["hotel", "flat"] = "hotel",
    guest: Guest | None = None,
    pool: bool = False,
    budget: float | None = None,
) -> Booking:
    """Search for a place to stay.

    Args:
        city: Where to stay.
        nights: How many nights.
        tags: What the place must have.
        kind: What sort of place.
        guest: Who travels.
        pool: Whether there must be a pool.
        budget: Euros.
    """
    found = f"{city} {kind} {tags} {pool} {budget}"
    return Booking(city=found, nights=nights, guest=guest)


@app.tool(destructive=True)
async def book(ctx: Context) -> str:
    """Book a room, after asking."""
    answer = await ctx.elicit("Who travels?", Details)
    if not isinstance(answer, Accepted):
        raise ToolError(f"not booked: {type(answer).__name__}")
    return f"booked: {answer.data!r}"


@app.tool
async def extend(ctx: Context) -> str:
    """Ask for what newer forms have."""
    answer = await ctx.elicit("What else?", More)
    return repr(answer.data) if answer.accepted else type(answer).__name__


@app.tool
async def confirm(ctx: Context) -> str:
    """Ask twice whether it is all right."""
    first = await ctx.elicit("Really?")
    second = await ctx.elicit("Colour?", ["red", "blue"]) if first.accepted else None
    return f"{type(first).__name__} {second.data if second and second.accepted else None}"


@app.tool
async def sign_in(ctx: Context) -> str:
    """Ask to open a page."""
    answer = await ctx.elicit_url("Please sign in", "https://example.com/login")
    return type(answer).__name__


@app.tool
async def haiku(ctx: Context) -> str:
    """Ask the model."""
    answer = await ctx.sample("A haiku about tea", system="Be brief.")
    return f"the model said: {answer.text}"


@app.tool
async def where(ctx: Context) -> str:
    """Ask for the roots."""
    return " ".join(root.uri for root in await ctx.roots())


@app.tool
async def steps(ctx: Context) -> str:
    """Tell what happens."""
    ctx.info("starting")
    for number in (1, 2):
        ctx.progress(number, 2, f"step [{number}]")
    ctx.progress(3)
    ctx.warning({"left": 0})
    return "done"


@app.tool
async def hang(ctx: Context) -> None:
    """Work for ever, and write it down when it may stop."""
    ctx.progress(1, 2, "hanging")
    try:
        await anyio.sleep(600)
    finally:
        with open(os.environ["CANCELLED"], "w") as file:
            file.write("stopped")


@app.tool
def plot() -> Image:
    """Draw."""
    return Image(PNG)


@app.tool
def album() -> ToolResult:
    """Answer with every kind of content."""
    return ToolResult(
        [
            "Here:",
            Image(PNG),
            Audio(b"RIFF0000WAVE", "audio/wav"),
            File(b"%PDF-1.4", uri="file:///docs/../../report.pdf"),
            File(b"words", "text/plain", uri="file:///words.txt"),
        ]
    )


@app.tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@app.tool
def summary() -> ToolResult:
    """Answer with data, and with better words."""
    return ToolResult("It is warm.", structured_content={"celsius": 24})


@app.tool
def echo(text: str) -> str:
    """Say it again."""
    return text


@app.tool
def fail(how: str = "tool") -> str:
    """Fail."""
    if how == "protocol":
        raise ProtocolError("No\nsuch \x1b[31mluck", code=-32050)
    raise ToolError("The oven is off.")


@app.tool
def nothing() -> ToolResult:
    """Say nothing."""
    return ToolResult()


@app.tool
def evil() -> str:
    """Steer the \x1b[31mterminal."""
    return "a\x1b]0;title\x07b\x1b[2Jc\x9b[bold]d"


@app.tool
def variable(name: str) -> str:
    """Tell a variable of the environment."""
    return os.environ.get(name, "none")


@app.resource("offering://text")
def text() -> str:
    """Words."""
    return "words"


@app.resource("offering://logo.png", mime_type="image/png")
def logo() -> bytes:
    return PNG


@app.resource("offering://{city}/weather")
def weather(city: str) -> str:
    """The weather in a city."""
    return f"Sunny in {city}"


@app.prompt
def plan(city: str, days: int = 3) -> list[Message]:
    """Plan a trip.

    Args:
        city: Where to go.
        days: How long.
    """
    return [
        UserMessage(f"{days} days in {city}."),
        AssistantMessage("Here is a map:"),
        UserMessage(Image(PNG)),
    ]
