"""A tool that cannot be served, and says so when its file is read."""

from mcpkit import MCPKit

app = MCPKit("refused")


@app.tool
def total(*numbers: int) -> int:
    """Add numbers."""
    return sum(numbers)
