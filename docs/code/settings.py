"""A server whose settings are outside of its code."""

from mcpkit import MCPKit

app = MCPKit("shop", cache_ttl=60)


@app.tool
def price(article: str) -> float:
    """Return the price of an article."""
    return 9.5
