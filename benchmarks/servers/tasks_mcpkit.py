"""Tools that run as tasks, made with mcpkit, on stdio."""

import time

import anyio

from mcpkit import Context, MCPKit

app = MCPKit(
    "tasks", tasks={"max_tasks_each": 10_000, "max_running": 10_000, "poll_interval": 0.01}
)
stopped: list[float] = []


@app.tool(task="optional")
async def small(number: int) -> int:
    """As little as there can be."""
    return number


@app.tool
async def plain(number: int) -> int:
    """The same, and never a task."""
    return number


@app.tool(task="optional")
async def sleep(seconds: float) -> float:
    """Wait, and say when it was stopped."""
    try:
        await anyio.sleep(seconds)
    except BaseException:
        stopped.append(time.time())
        raise
    return seconds


@app.tool(task="optional")
async def ask(ctx: Context) -> float:
    """Say when the work goes on after a question."""
    await ctx.elicit("Go on?", bool)
    return time.time()


@app.tool
async def last_stopped() -> float:
    """When a task was stopped last; 0 if none was."""
    return stopped[-1] if stopped else 0.0


if __name__ == "__main__":
    app.run()
