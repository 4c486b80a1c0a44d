"""A server for a public network."""

import os

from mcpkit import Limits, MCPKit

app = MCPKit(
    "trips",
    version="1.4.0",
    limits=Limits(
        rate_limit=20, max_body=256 * 1024, request_timeout=120, grace=10
    ),
    http={
        "health": True,
        "ready": True,
        "allowed_origins": os.environ.get("ORIGINS", "").split(),
    },
)


@app.tool(read_only=True)
def distance(start: str, end: str) -> float:
    """Return the distance of two towns in kilometres."""
    return 12.5 if start != end else 0.0
