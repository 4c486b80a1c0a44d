# region server
from contextlib import asynccontextmanager

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ResourceError, ToolError
from fastmcp.prompts import Message
from pydantic import BaseModel


@asynccontextmanager
async def lifespan(server):
    yield {"kilometres": {("Lisbon", "Porto"): 313}}


mcp = FastMCP("trips", lifespan=lifespan)


class Trip(BaseModel):
    start: str
    end: str
    kilometres: int


# endregion server
# region tool
@mcp.tool(annotations={"readOnlyHint": True})
async def trip(start: str, end: str, ctx: Context) -> Trip:
    """Return the distance."""
    known = ctx.lifespan_context["kilometres"]
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
        raise ResourceError("There is no such city.")
    return "Sunny."


# endregion resource
# region prompt
@mcp.prompt
def plan(city: str, days: int = 3) -> list[Message]:
    """Plan a trip."""
    return [
        Message(f"Plan {days} days in {city}."),
        Message("Gladly.", role="assistant"),
    ]


# endregion prompt
# region ask
@mcp.tool
async def book(city: str, ctx: Context) -> str:
    """Book a room. Clients before 2026-07-28 only."""
    answer = await ctx.elicit(
        "How many nights?", response_type=int
    )
    if answer.action != "accept":
        raise ToolError("The user declined.")
    return f"{answer.data} nights in {city}."


# endregion ask
# region run
if __name__ == "__main__":
    mcp.run()  # or mcp.run(transport="http", port=8000)
# endregion run
