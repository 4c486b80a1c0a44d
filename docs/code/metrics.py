from mcpkit import MCPKit

app = MCPKit("shop", http={"metrics": True})


@app.tool
def order(item: str, count: int = 1) -> str:
    """Order something."""
    return f"Ordered {count} × {item}."
