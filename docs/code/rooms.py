"""Books rooms, with progress."""

from anyio import sleep
from mcpkit import Context, MCPKit, ToolError

app = MCPKit("rooms")


@app.tool
async def book(city: str, nights: int, ctx: Context) -> str:
    """Book a room, after the user has agreed."""
    price = 80 * nights
    answer = await ctx.elicit(
        f"Book {nights} nights in {city} for {price} euros?"
    )
    if not answer.accepted:
        raise ToolError("The user does not want that room.")
    for night in range(1, nights + 1):
        ctx.progress(night, nights, f"night {night}")
        await sleep(0.7)
    ctx.info(f"the hotel in {city} has confirmed")
    return f"Booked {nights} nights in {city}."
