"""`add(a, b)` and `count(steps)` on the official SDK, over HTTP, logging only warnings."""

from __future__ import annotations

from mcp.server import MCPServer  # type: ignore[import-not-found, unused-ignore]
from mcp.server.mcpserver import Context  # type: ignore[import-not-found, unused-ignore]

from benchmarks.servers.options import HttpOptions
from benchmarks.servers.sampling import tell_memory

app = MCPServer("bench", log_level="WARNING")


@app.tool()  # type: ignore[untyped-decorator, unused-ignore]
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@app.tool()  # type: ignore[untyped-decorator, unused-ignore]
async def count(steps: int, ctx: Context) -> int:
    """Report that many steps of progress."""
    for step in range(1, steps + 1):
        await ctx.report_progress(step)
    return steps


if __name__ == "__main__":
    options = HttpOptions.parse()
    if options.memory:
        tell_memory()
    app.run(
        "streamable-http",
        port=options.port,
        json_response=options.json,
        stateless_http=options.stateless,
    )
