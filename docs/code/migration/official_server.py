# region server
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import (
    AssistantMessage,
    Context,
    Elicit,
    Resolve,
    UserMessage,
)
from mcp.server.mcpserver.exceptions import (
    ResourceNotFoundError,
    ToolError,
)
from mcp_types import ToolAnnotations
from pydantic import BaseModel


@dataclass
class State:
    kilometres: dict


@asynccontextmanager
async def lifespan(server):
    yield State({("Lisbon", "Porto"): 313})


mcp = MCPServer("trips", lifespan=lifespan)


class Trip(BaseModel):
    start: str
    end: str
    kilometres: int


# endregion server
# region tool
@mcp.tool(annotations=ToolAnnotations(read_only_hint=True))
async def trip(
    start: str, end: str, ctx: Context[State, Any]
) -> Trip:
    """Return the distance."""
    known = ctx.request_context.lifespan_context.kilometres
    await ctx.info(f"from {start} to {end}")
    await ctx.report_progress(1, total=1)
    if (start, end) not in known:
        raise ToolError("I do not know that trip.")
    return Trip(
        start=start, end=end, kilometres=known[start, end]
    )


# endregion tool
# region resource
@mcp.resource("trips://{city}/weather")
def weather(city: str) -> str:
    """The weather in a city."""
    if city != "Lisbon":
        raise ResourceNotFoundError("There is no such city.")
    return "Sunny."


# endregion resource
# region prompt
@mcp.prompt()
def plan(city: str, days: int = 3) -> list:
    """Plan a trip."""
    return [
        UserMessage(f"Plan {days} days in {city}."),
        AssistantMessage("Gladly."),
    ]


# endregion prompt
# region ask
class Nights(BaseModel):
    nights: int


def how_many(city: str) -> Elicit[Nights]:
    return Elicit(f"How many nights in {city}?", Nights)


@mcp.tool()
async def book(
    city: str, answer: Annotated[Nights, Resolve(how_many)]
) -> str:
    """Book a room."""
    return f"{answer.nights} nights in {city}."


# endregion ask
# region run
if __name__ == "__main__":
    mcp.run()  # or mcp.run("streamable-http", port=8000)
# endregion run
