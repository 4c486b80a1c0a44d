"""A server that works, but is hard for models to use."""

from mcpkit import MCPKit

app = MCPKit(
    "careless", version="1.0", instructions="Finds and deletes orders."
)


@app.tool
def search(q: str) -> list[str]:
    return [q]


@app.tool(name="delete.order", destructive=True)
def delete_order(order_id: int, force: bool = False) -> str:
    """Delete an order."""
    return f"{order_id} is gone."
