"""The Lambda function that the tests invoke, with a handler for each way to configure it."""

from __future__ import annotations

from typing import Any

import anyio
from mangum import Mangum

from mcpkit import Context, Limits, MCPKit, ToolError

app: MCPKit[Any] = MCPKit("function", limits=Limits(request_timeout=5))


@app.tool
async def add(a: int, b: int) -> int:
    return a + b


@app.tool
def add_in_thread(a: int, b: int) -> int:
    return a + b


@app.tool
async def tell(text: str, ctx: Context) -> str:
    ctx.info(text)
    await ctx.progress(1, 2)
    return text


@app.tool
async def fail() -> None:
    raise ToolError("There is none left.")


@app.tool
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Go on?")
    return f"accepted: {answer.accepted}"


@app.tool
async def leave(ctx: Context) -> str:
    """Let the client reconnect, where it can."""
    ctx.close_stream()
    return "here"


@app.tool
async def a_while(ctx: Context) -> str:
    await ctx.progress(1, 2)
    await anyio.sleep(0.5)
    return "done"


@app.tool
async def wait() -> None:
    await anyio.sleep_forever()


@app.tool(task="optional")
async def work(ctx: Context) -> str:
    for _ in range(3):
        await anyio.sleep(0.01)
    return "worked"


@app.tool
async def client(ctx: Context) -> str:
    assert ctx.http is not None
    assert ctx.http.client is not None
    return ctx.http.client[0]


@app.resource("trips://rooms")
def rooms() -> str:
    return "three"


handler = Mangum(app, lifespan="off")
each_time = Mangum(app)
"""Enters and leaves the app's lifespan in each invocation."""
staged = Mangum(app, lifespan="off", api_gateway_base_path="/prod")
at_stage = Mangum(app.asgi(path="/prod/mcp"), lifespan="off")
for_pages = Mangum(app.asgi(cors=True, allowed_origins=["https://app.example.com"]), lifespan="off")
impatient = Mangum(app.asgi(limits=Limits(request_timeout=0.3)), lifespan="off")
