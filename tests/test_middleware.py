"""Middleware around every operation, and views of what a request may see."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import (
    CallNext,
    Context,
    MCPKit,
    RegistrationError,
    TextContent,
    ToolError,
    ToolResult,
)
from mcpkit._protocol.revisions import REVISIONS
from mcpkit._server.handlers import call_tool
from mcpkit._signature.converters import Converters
from mcpkit._utils.json import UNSET
from mcpkit.client.results import CallResult
from mcpkit.errors import ProtocolError
from mcpkit.middleware import compose
from mcpkit.testing import AsyncTestClient

every_version = pytest.mark.parametrize("version", [each.version for each in REVISIONS])


def an_app() -> MCPKit[Any]:
    app = MCPKit("around")

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    def shout(text: str) -> str:
        return text.upper()

    @app.tool(tags=["secret"])
    async def fail() -> str:
        raise ToolError("not today")

    @app.resource("notes://all")
    async def notes() -> str:
        return "notes"

    @app.prompt(tags=["secret"])
    async def greet(name: str) -> str:
        return f"Hello {name}"

    return app


# --- middleware -----------------------------------------------------------------------------------


@every_version
async def test_every_operation_passes_through_it(version: str) -> None:
    """TOOL-7: a tool that failed has a result, and middleware sees that it says so."""
    app = an_app()
    seen: list[str] = []
    failures: list[bool] = []

    async def note(ctx: Context, call_next: CallNext) -> Any:
        seen.append(ctx.method)
        value = await call_next()
        if ctx.method == "tools/call":
            failures.append(value.is_error)
        return value

    app.middleware(note)
    async with AsyncTestClient(app, revision=version) as client:
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        assert (await client.call_tool("shout", {"text": "a"})).text == "A"
        assert (await client.call_tool("fail")).is_error
        assert [each.name for each in await client.list_tools()] == ["add", "shout", "fail"]
        assert await client.read_resource("notes://all")
        await client.get_prompt("greet", {"name": "Ann"})
    opening = [method for method in seen if method in ("initialize", "server/discover")]
    assert failures == [False, False, True]
    later = ["tools/call"] * 3 + ["tools/list", "resources/read", "prompts/get"]
    assert seen == [*opening, *later]


@every_version
async def test_one_that_forgets_to_return_is_an_error_of_the_server(version: str) -> None:
    app = an_app()

    async def forget(ctx: Context, call_next: CallNext) -> Any:
        value = await call_next()
        return None if ctx.method == "prompts/get" else value

    app.middleware(forget)
    async with AsyncTestClient(app, revision=version) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.get_prompt("greet", {"name": "Ann"})
    assert caught.value.code == -32603


@every_version
async def test_it_may_change_the_result_of_a_tool(version: str) -> None:
    """TOOL-11: middleware sees other values wrapped in an object, as clients do."""
    app = an_app()
    changes: list[Any] = []

    async def change(ctx: Context, call_next: CallNext) -> Any:
        value = await call_next()
        if ctx.method == "tools/call" and changes:
            assert isinstance(value, ToolResult)
            return changes[-1](value) or value
        return value

    def append(value: ToolResult) -> None:
        assert value.structured_content == {"result": 3}
        value.content.append("more")
        value.meta = {"a/b": 1}

    def fail(value: ToolResult) -> None:
        value.is_error = True

    def without(value: ToolResult) -> None:
        value.structured_content = UNSET

    def other(value: ToolResult) -> ToolResult:
        return ToolResult(structured_content={"n": value.structured_content["result"]})

    app.middleware(change)
    async with AsyncTestClient(app, revision=version) as client:

        async def changed(*by: Any) -> CallResult:
            changes[:] = by
            return await client.call_tool("add", {"a": 1, "b": 2})

        plain = await changed()
        appended = await changed(append)
        assert appended.content == [TextContent("3"), TextContent("more")]
        assert appended.structured_content == plain.structured_content
        failed = await changed(fail)
        assert (failed.is_error, failed.text) == (True, plain.text)
        bare = await changed(without)
        assert (bare.text, bare.structured_content) == (plain.text, UNSET)
        replaced = await changed(other)
        assert replaced.text == '{"n":3}'
        assert replaced.structured_content == (
            UNSET if plain.structured_content is UNSET else {"n": 3}
        )
        changes[:] = [lambda value: ToolResult()]
        assert not (await client.call_tool("shout", {"text": "a"})).content


@every_version
async def test_the_first_is_outermost_and_any_may_refuse(version: str) -> None:
    app = an_app()
    order: list[str] = []

    async def outer(ctx: Context, call_next: CallNext) -> Any:
        order.append("outer before")
        try:
            return await call_next()
        finally:
            order.append("outer after")

    async def refuse(ctx: Context, call_next: CallNext) -> Any:
        order.append("inner")
        if ctx.method == "tools/call":
            raise ProtocolError("Closed", code=-32050)
        return await call_next()

    app.middleware(outer)
    app.middleware(refuse)
    async with AsyncTestClient(app, revision=version) as client:
        order.clear()
        with pytest.raises(ProtocolError, match="Closed") as caught:
            await client.call_tool("add", {"a": 1, "b": 2})
        assert caught.value.code == -32050
        assert order == ["outer before", "inner", "outer after"]
        assert len(await client.list_tools()) == 3, "the connection lives on"


def test_other_objects_are_refused_and_without_middleware_the_handler_is_called_itself() -> None:
    assert compose(call_tool, [], Converters()) is call_tool

    def wrong(ctx: Context, call_next: CallNext) -> Any:
        return call_next()

    kind = type("Timing", (), {"__module__": "fastmcp.server.middleware"})
    with pytest.raises(RegistrationError, match=r"Timing is middleware of FastMCP, .* write @app"):
        an_app().middleware(kind())
    with pytest.raises(RegistrationError, match=r"wrong\(\) is not async; write async def"):
        an_app().middleware(wrong)
