"""`add(a, b)` and `count(steps)` on FastMCP, over HTTP, without banner and log."""

from __future__ import annotations

from fastmcp import Context, FastMCP  # type: ignore[import-not-found, unused-ignore]

from benchmarks.servers.options import HttpOptions
from benchmarks.servers.sampling import tell_memory

app = FastMCP("bench", dereference_schemas=False)


@app.tool  # type: ignore[untyped-decorator, unused-ignore]
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@app.tool  # type: ignore[untyped-decorator, unused-ignore]
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
        transport="http",
        port=options.port,
        json_response=options.json,
        stateless_http=options.stateless,
        show_banner=False,
        log_level="ERROR",
    )
