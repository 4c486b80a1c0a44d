from mcpkit import Context, MCPKit, ToolError

app = MCPKit("trips", version="1.0", instructions="Books rooms.")


@app.tool(open_world=False, destructive=False)
async def book(city: str, nights: int = 2, *, ctx: Context) -> str:
    """Book a room.

    Args:
        city: Where to stay.
        nights: How many nights.
    """
    ctx.info(f"looking for a room in {city}")  # a log message to the client
    answer = await ctx.elicit(f"Book {nights} nights in {city}?")
    if not answer.accepted:
        raise ToolError("The user declined.")
    return f"Booked {nights} nights in {city}."


@app.resource("trips://{city}/rooms")
def rooms(city: str) -> dict[str, int]:
    """How many rooms are free."""
    return {"single": 3, "double": 1}


@app.prompt
def plan(city: str, days: int = 3) -> str:
    """Plan a trip.

    Args:
        city: Where to go.
        days: For how long.
    """
    return f"Plan {days} days in {city}, one paragraph a day."
