import logging

from mcpkit import MCPKit
from mcpkit.audit import JsonLinesHandler

app = MCPKit("shop", audit=True)

audit = logging.getLogger("mcpkit.audit")
audit.addHandler(JsonLinesHandler("audit.jsonl"))
audit.setLevel(logging.INFO)
audit.propagate = False


@app.tool
def order(item: str, count: int = 1) -> str:
    """Order something."""
    return f"Ordered {count} × {item}."
