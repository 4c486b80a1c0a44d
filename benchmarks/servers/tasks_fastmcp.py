"""The tools of tasks_mcpkit.py, made with FastMCP 3, on stdio."""

import asyncio
import time

from fastmcp import Context, FastMCP

app = FastMCP("tasks")
stopped: list[float] = []


@app.tool(task=True)
async def small(number: int) -> int:
    """As little as there can be."""
    return number


@app.tool
async def plain(number: int) -> int:
    """The same, and never a task."""
    return number


@app.tool(task=True)
async def sleep(seconds: float) -> float:
    """Wait, and say when it was stopped."""
    try:
        await asyncio.sleep(seconds)
    except BaseException:
        stopped.append(time.time())
        raise
    return seconds


@app.tool(task=True)
async def ask(ctx: Context) -> float:
    """Say when the work goes on after a question."""
    await ctx.elicit("Go on?", bool)
    return time.time()


@app.tool
async def last_stopped() -> float:
    """When a task was stopped last; 0 if none was."""
    return stopped[-1] if stopped else 0.0


if __name__ == "__main__":
    app.run(show_banner=False)
