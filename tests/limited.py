"""A server whose calls have limits, for `test_call_limits`."""

from __future__ import annotations

import anyio

from mcpkit import CallLimits, MCPKit


def make_app() -> MCPKit[None]:
    app: MCPKit[None] = MCPKit("limited", call_limits=CallLimits(concurrency=50))

    @app.tool(rate="20/h")
    async def rated() -> str:
        return "done"

    @app.tool(timeout=0.2)
    async def endless() -> str:
        await anyio.sleep_forever()
        raise AssertionError

    @app.resource("limited://page", rate="1/h")
    async def page() -> str:
        return "page"

    @app.prompt(rate="1/h")
    async def greet() -> str:
        return "hello"

    return app


app = make_app()
