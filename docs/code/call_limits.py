"""A server whose calls have limits."""

import time

from mcpkit import CallLimits, MCPKit

app = MCPKit(
    "reports",
    call_limits=CallLimits(concurrency=50, concurrency_each=10, timeout=60),
)


@app.tool(timeout=30, concurrency=4, rate="10/s")
def search(words: str) -> list[str]:
    """Search all reports."""
    time.sleep(0.1)
    return [f"report on {words}"]


@app.tool(call_limits=CallLimits(rate="100/h", rate_each="10/h"))
async def export(year: int) -> str:
    """Export the reports of a year."""
    return f"https://example.com/{year}.zip"
