"""An AWS Lambda function, whose handler is ``function.handler``."""

from mangum import Mangum
from mcpkit import Context, Limits, MCPKit, ToolError

app = MCPKit("trips", limits=Limits(request_timeout=25))


@app.tool(open_world=False, destructive=False)
async def book(city: str, nights: int = 2, *, ctx: Context) -> str:
    """Book a room.

    Args:
        city: The city to stay in.
        nights: The number of nights.
    """
    ctx.info(f"looking for a room in {city}")
    answer = await ctx.elicit(f"Book {nights} nights in {city}?")
    if not answer.accepted:
        raise ToolError("The user declined.")
    return f"Booked {nights} nights in {city}."


@app.tool(read_only=True)
def distance(start: str, end: str) -> float:
    """Return the distance of two towns in kilometres."""
    return 12.5 if start != end else 0.0


handler = Mangum(app, lifespan="off")
