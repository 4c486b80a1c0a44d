"""The server of the migration guides."""

# region server
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from mcpkit import (
    AssistantMessage,
    Context,
    Elicit,
    MCPKit,
    Message,
    ResourceNotFound,
    ToolError,
    UserMessage,
)
from pydantic import BaseModel


@dataclass
class State:
    """The state that lives as long as the server."""

    kilometres: dict[tuple[str, str], int]


@asynccontextmanager
async def lifespan(
    app: MCPKit[Any],
) -> AsyncGenerator[State, None]:
    yield State({("Lisbon", "Porto"): 313})


app = MCPKit("trips", lifespan=lifespan)


class Trip(BaseModel):
    """A way to go."""

    start: str
    end: str
    kilometres: int


# endregion server
# region tool
@app.tool(read_only=True)
async def trip(
    start: str, end: str, ctx: Context[State]
) -> Trip:
    """Return the distance."""
    known = ctx.state.kilometres
    ctx.info(f"from {start} to {end}")
    ctx.progress(1, 1)
    if (start, end) not in known:
        raise ToolError("I do not know that trip.")
    return Trip(
        start=start, end=end, kilometres=known[start, end]
    )


# endregion tool
# region resource
@app.resource("trips://{city}/weather")
def weather(city: str) -> str:
    """The weather in a city."""
    if city != "Lisbon":
        raise ResourceNotFound()
    return "Sunny."


# endregion resource
# region prompt
@app.prompt
def plan(city: str, days: int = 3) -> list[Message]:
    """Plan a trip."""
    return [
        UserMessage(f"Plan {days} days in {city}."),
        AssistantMessage("Gladly."),
    ]


# endregion prompt
# region ask
@app.tool
async def book(city: str, ctx: Context) -> str:
    """Book a room."""
    answer = await ctx.elicit("How many nights?", int)
    if not answer.accepted:
        raise ToolError("The user declined.")
    return f"{answer.data} nights in {city}."


# endregion ask
# region declared
class Nights(BaseModel):
    """The form for the user."""

    nights: int


def how_many(city: str) -> str:
    """The question; it may use the tool's arguments."""
    return f"How many nights in {city}?"


@app.tool
async def reserve(
    city: str, answer: Annotated[Nights, Elicit(how_many)]
) -> str:
    """Reserve a room."""
    return f"{answer.nights} nights in {city}."


# endregion declared
# region run
if __name__ == "__main__":
    app.run()  # or app.run("http", port=8000)
# endregion run
