"""What each method does, apart from any connection: parameters in, members of a result out."""

from __future__ import annotations

import inspect
import logging
from typing import Any, cast

import anyio
import pytest

from mcpkit import (
    BlobResourceContents,
    Context,
    Image,
    MCPKit,
    PromptResult,
    ResourceResult,
    TextResourceContents,
    ToolError,
    ToolResult,
)
from mcpkit._protocol.revisions import BY_VERSION, REVISIONS, Revision
from mcpkit._server.handlers import HANDLERS, capabilities
from mcpkit._server.session import SESSION_HANDLERS
from mcpkit.errors import InternalError, InvalidParams, ProtocolError
from mcpkit.testing import AsyncTestClient

pytestmark = pytest.mark.anyio

MODERN = REVISIONS[-1]
every_revision = pytest.mark.parametrize("revision", REVISIONS, ids=lambda each: each.version)


def app() -> MCPKit[Any]:
    return MCPKit("operated")


async def call(
    served: MCPKit[Any], name: str, arguments: dict[str, Any] | None = None, **options: Any
) -> Any:
    async with AsyncTestClient(served, **options) as client:
        return await client.call_tool(name, arguments)


# --- the table ------------------------------------------------------------------------------------


async def test_every_method_has_its_operation_and_every_operation_a_method() -> None:
    """VER-2: server/discover among them."""
    used = {each.operation for revision in REVISIONS for each in revision.methods.values()}
    assert used == {*HANDLERS, *SESSION_HANDLERS}


# --- capabilities ---------------------------------------------------------------------------------


async def test_a_template_alone_is_a_resource() -> None:
    """RES-1."""
    served = app()
    served.add_resource(lambda name: "a", "a://{name}", name="a")
    assert "resources" in capabilities(served.server.registry, MODERN)


@every_revision
async def test_completions_need_something_to_complete(revision: Revision) -> None:
    """COMP-1."""
    served = app()

    @served.prompt
    def plain(name: str) -> str:
        return name

    assert "completions" not in capabilities(served.server.registry, revision)

    @served.prompt
    def flagged(loud: bool) -> str:
        return str(loud)

    found = "completions" in capabilities(served.server.registry, revision)
    assert found == ("completions" in revision.server_capabilities)


@every_revision
async def test_logging_needs_a_handler_that_can_log(revision: Revision) -> None:
    """LOG-1."""
    served = app()
    served.add_tool(lambda: "a", name="a")
    assert "logging" not in capabilities(served.server.registry, revision)

    @served.tool
    async def speak(ctx: Context) -> str:
        return "said"

    assert "logging" in capabilities(served.server.registry, revision)


# --- lists ----------------------------------------------------------------------------------------


@every_revision
async def test_a_list_is_answered(revision: Revision) -> None:
    """TOOL-2."""
    served = app()
    served.add_tool(lambda: "a", name="a")
    async with AsyncTestClient(served, revision=revision.version) as client:
        assert [each.name for each in await client.list_tools()] == ["a"]


async def test_lists_do_not_depend_on_the_connection() -> None:
    """VER-3."""
    served = app()
    served.add_tool(lambda: "a", name="a")
    served.add_tool(lambda: "b", name="b")
    found: list[Any] = []
    for _ in range(2):
        async with AsyncTestClient(served) as client:
            found.append([each.raw for each in await client.list_tools()])
    assert found[0] == found[1]


# --- tools ----------------------------------------------------------------------------------------


async def test_arguments_may_be_left_out() -> None:
    served = app()
    served.add_tool(lambda: "a", name="a")
    async with AsyncTestClient(served) as client:
        for params in ({"name": "a"}, {"name": "a", "arguments": None}):
            result = await client.request("tools/call", params)
            assert result["content"] == [{"type": "text", "text": "a"}]


async def test_a_tool_may_report_an_error_by_its_result() -> None:
    """TOOL-8."""
    served = app()
    served.add_tool(lambda: ToolResult("went wrong", is_error=True), name="a")
    result = await call(served, "a")
    assert (result.is_error, result.text) == (True, "went wrong")


@every_revision
@pytest.mark.parametrize("value", [1, "text", [1], None, {"a": 1}], ids=str)
async def test_structured_content_of_a_whole_result(revision: Revision, value: object) -> None:
    """TOOL-11, TOOL-12: wrapped unless it is an object, where that is needed."""
    served = app()
    served.add_tool(lambda: ToolResult("a", structured_content=value), name="a")
    raw = (await call(served, "a", revision=revision.version)).raw
    if revision.structured_output == "none":
        assert "structuredContent" not in raw
    elif isinstance(value, dict):
        assert raw["structuredContent"] == value
    else:
        assert raw["structuredContent"] == {"result": value}


async def test_output_that_cannot_be_serialised_is_an_error() -> None:
    served = app()

    @served.tool
    def odd() -> Any:
        return object()

    result = await call(served, "odd")
    assert result.is_error
    assert "object at" not in result.text


async def test_a_mismatch_is_logged_with_its_reference(caplog: pytest.LogCaptureFixture) -> None:
    """ERR-6, TOOL-9."""
    served = app()

    @served.tool
    def number() -> int:
        return cast("int", "many")

    with caplog.at_level(logging.ERROR, logger="mcpkit"):
        result = await call(served, "number")
    reference = result.text.rpartition("reference ")[2][:8]
    assert reference in caplog.text
    assert "many" not in result.text


# --- resources ------------------------------------------------------------------------------------


async def read(returns: Any, **options: Any) -> dict[str, Any]:
    served = app()
    served.add_resource(lambda: returns, "a://b", name="a", **options)
    async with AsyncTestClient(served) as client:
        return dict(await client.request("resources/read", {"uri": "a://b"}))


@pytest.mark.parametrize(
    ("returns", "contents"),
    [
        ("text", {"mimeType": "text/plain", "text": "text"}),
        (b"\0", {"mimeType": "application/octet-stream", "blob": "AA=="}),
        ({"a": 1}, {"mimeType": "application/json", "text": '{"a":1}'}),
        ([1, 2], {"mimeType": "application/json", "text": "[1,2]"}),
        ([], {"mimeType": "application/json", "text": "[]"}),
        (Image(b"\x89PNG\r\n\x1a\n"), {"mimeType": "image/png", "blob": "iVBORw0KGgo="}),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_what_a_handler_returns_becomes_contents(
    returns: object, contents: dict[str, str]
) -> None:
    """CONT-4, RES-5: in the given type, or that of the value."""
    assert (await read(returns))["contents"] == [{"uri": "a://b", **contents}]
    given = (await read(returns, mime_type="text/csv"))["contents"][0]["mimeType"]
    assert given == "text/csv"


async def test_where_a_handler_returns_none_there_is_no_resource() -> None:
    """RES-5."""
    with pytest.raises(ProtocolError, match="Resource not found: a://b"):
        await read(None)


async def test_contents_have_uris_of_their_own() -> None:
    """RES-6."""
    parts = [TextResourceContents("a://1", "one"), BlobResourceContents("a://2", b"\0")]
    assert (await read(parts))["contents"] == [
        {"uri": "a://1", "text": "one"},
        {"uri": "a://2", "blob": "AA=="},
    ]


async def test_a_whole_result_decides_how_long_it_is_kept() -> None:
    """CACHE-1."""
    contents = [TextResourceContents("a://b", "one")]
    result = await read(ResourceResult(contents, ttl=1.5, cache_scope="public"))
    assert (result["ttlMs"], result["cacheScope"]) == (1500, "public")


async def test_a_handler_may_read_another_resource() -> None:
    served = app()
    served.add_resource(lambda: "inner", "a://inner", name="inner")

    @served.tool
    async def outer(ctx: Context) -> str:
        [contents] = await ctx.read_resource("a://inner")
        assert isinstance(contents, TextResourceContents)
        return contents.text

    assert (await call(served, "outer")).text == "inner"


# --- prompts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("returns", "texts"),
    [
        ("one", ["one"]),
        (["one", "two"], ["one", "two"]),
        (PromptResult(["one"], description="d"), ["one"]),
        ([], []),
    ],
    ids=["text", "list", "whole", "nothing"],
)
async def test_what_a_prompt_returns_becomes_messages(returns: object, texts: list[str]) -> None:
    """PROMPT-4."""
    served = app()
    served.add_prompt(lambda: returns, name="p")
    async with AsyncTestClient(served) as client:
        assert [each.text for each in (await client.get_prompt("p")).messages] == texts


async def test_a_prompt_that_returns_nothing_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    served = app()
    served.add_prompt(lambda: None, name="p")
    async with AsyncTestClient(served) as client:
        with pytest.raises(InternalError):
            await client.get_prompt("p")
    assert "the prompt 'p' returned None; return text or messages" in caplog.text


# --- exceptions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "text"), [(1, "a secret"), (2, "The tool failed (reference")])
async def test_a_group_of_one_exception_is_that_one(count: int, text: str) -> None:
    """ERR-6: several failures of a task group are hidden."""
    served = app()

    @served.tool
    async def crash() -> str:
        async def fail() -> None:
            raise ToolError("a secret")

        async with anyio.create_task_group() as outer, anyio.create_task_group() as group:
            outer.start_soon(anyio.sleep, 0)
            for _ in range(count):
                group.start_soon(fail)
        return "unreachable"

    result = await call(served, "crash")
    assert result.is_error
    assert result.text.startswith(text)


# --- every method, every kind of wrong parameter --------------------------------------------------

WRONG: list[dict[str, Any]] = [
    {"name": 1, "uri": 1, "ref": 1, "argument": 1, "cursor": 1},
    {"name": [], "uri": [], "ref": [], "argument": [], "cursor": []},
    {"name": {}, "uri": {}, "ref": {}, "argument": {}, "cursor": {}},
    {"name": "?", "uri": "?", "ref": {"type": []}, "argument": {"name": []}, "cursor": "?"},
    {
        "ref": {"type": "ref/resource", "uri": []},
        "argument": {"name": "a", "value": ""},
        "cursor": 0,
    },
]

METHODS = [
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "prompts/list",
    "prompts/get",
    "completion/complete",
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("params", WRONG, ids=["number", "array", "object", "text", "mixed"])
async def test_a_wrong_parameter_is_never_an_internal_error(
    method: str, params: dict[str, Any]
) -> None:
    """TOOL-16, RES-9, PROMPT-6, COMP-4: what arrives is checked before it is used."""
    served = app()
    served.add_tool(lambda: "a", name="a")
    served.add_resource(lambda: "a", "a://b", name="a")

    @served.prompt
    def p(loud: bool) -> str:
        return "p"

    async with AsyncTestClient(served) as client:
        with pytest.raises(InvalidParams):
            await client.request(method, params)


async def test_versions_are_listed_in_discovery() -> None:
    """DISC-3."""
    async with AsyncTestClient(app()) as client:
        found = await client.request("server/discover")
    assert found["supportedVersions"] == list(BY_VERSION)


async def test_handlers_may_be_called_as_the_functions_they_are() -> None:
    served = app()

    @served.tool
    async def add(a: int, b: int) -> int:
        return a + b

    assert inspect.iscoroutinefunction(add)
    assert await add(1, 2) == 3
