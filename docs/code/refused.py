"""A tool that is refused when its module is imported."""

from mcpkit import MCPKit

app = MCPKit("refused")


@app.tool
def total(*numbers: int) -> int:
    """Add numbers."""
    return sum(numbers)
