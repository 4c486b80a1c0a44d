from mcpkit import Context, MCPKit, ToolError

app = MCPKit("trips", version="1.0", instructions="Books rooms.")


@app.tool(open_world=False, destructive=False)
async def book(city: str, nights: int = 2, *, ctx: Context) -> str:
    """Book a room.

    Args:
        city: The city to stay in.
        nights: The number of nights.
    """
    ctx.info(f"looking for a room in {city}")  # a log message to the client
    answer = await ctx.elicit(f"Book {nights} nights in {city}?")
    if not answer.accepted:
        raise ToolError("The user declined.")
    return f"Booked {nights} nights in {city}."


@app.resource("trips://{city}/rooms")
def rooms(city: str) -> dict[str, int]:
    """The number of free rooms."""
    return {"single": 3, "double": 1}


@app.prompt
def plan(city: str, days: int = 3) -> str:
    """Plan a trip.

    Args:
        city: The city to go to.
        days: The length of the trip.
    """
    return f"Plan {days} days in {city}, one paragraph a day."
