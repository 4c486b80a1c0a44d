"""A server to test: it asks before it books."""

from mcpkit import Accepted, Context, MCPKit, ToolError

app = MCPKit("rooms")


@app.tool
async def book(room: str, nights: int, *, ctx: Context) -> dict[str, int]:
    """Book a room, after the user has agreed."""
    ctx.progress(0, nights)
    answer = await ctx.elicit(f"Book {room} for {nights} nights?")
    if not isinstance(answer, Accepted):
        raise ToolError("The user declined.")
    ctx.progress(nights, nights)
    return {"price": 80 * nights}
