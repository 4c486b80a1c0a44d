"""A server that cannot be imported, on purpose."""

from mcpkit import MCPKit

app = MCPKit("kitchen")
OVEN = {"celsius": 180}
DEGREES = OVEN["fahrenheit"]


@app.tool
def bake() -> str:
    """Bake the bread."""
    return f"At {DEGREES} degrees."
