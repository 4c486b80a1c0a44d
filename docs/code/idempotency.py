"""A server whose calls can be repeated."""

from typing import Annotated

from mcpkit import Idempotent, MCPKit

app = MCPKit("shop", tasks={"store": "shop.db"})


@app.tool
async def pay(key: Annotated[str, Idempotent()], order: str, cents: int) -> str:
    """Pay an order."""
    return f"paid {cents} cents for {order}"


@app.tool(once=lambda order: f"cancel {order}")
async def cancel(order: str, reason: str = "") -> str:
    """Cancel an order."""
    return f"cancelled {order}"


@app.tool(single_flight=True, read_only=True)
async def report(year: int) -> dict[str, int]:
    """Add up the orders of a year, which takes a while."""
    return {"year": year, "cents": 123_400}
