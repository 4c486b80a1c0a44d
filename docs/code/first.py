"""The smallest server."""

from mcpkit import MCPKit

app = MCPKit("first")


@app.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
