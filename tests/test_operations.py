"""What each method does, apart from any connection: parameters in, members of a result out."""

from __future__ import annotations

import math
from typing import Any

import anyio
import pytest

from mcpkit import (
    Context,
    Image,
    MCPKit,
    ResourceResult,
    TextResourceContents,
    ToolError,
    ToolResult,
)
from mcpkit._protocol.revisions import REVISIONS, Revision
from mcpkit._server.handlers import HANDLERS, capabilities
from mcpkit._server.session import SESSION_HANDLERS
from mcpkit.errors import InternalError, InvalidParams, ProtocolError
from mcpkit.tasks.handlers import TASK_HANDLERS
from mcpkit.testing import AsyncTestClient
from tests.authoring import context_with

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
    assert used == {*HANDLERS, *SESSION_HANDLERS, *TASK_HANDLERS}


# --- capabilities ---------------------------------------------------------------------------------


@every_revision
async def test_a_capability_needs_an_entry_that_uses_it(revision: Revision) -> None:
    """RES-1, COMP-1, LOG-1: a template alone is a resource."""
    served = app()

    def advertised() -> set[str]:
        return {*capabilities(served.server, context_with(revision=revision))}

    served.add_resource(lambda name: "a", "a://{name}", name="a")
    assert advertised() == {"resources"}

    @served.prompt
    def plain(name: str) -> str:
        return name

    assert advertised() == {"resources", "prompts"}

    @served.prompt
    def flagged(loud: bool) -> str:
        return str(loud)

    completions = {"completions"} & {*revision.server_capabilities}
    assert advertised() == {"resources", "prompts", *completions}

    @served.tool
    async def speak(ctx: Context) -> str:
        return "said"

    assert advertised() == {"resources", "prompts", "tools", "logging", *completions}


# --- lists ----------------------------------------------------------------------------------------


@every_revision
async def test_lists_do_not_depend_on_the_connection(revision: Revision) -> None:
    """TOOL-2, VER-3."""
    served = app()
    for name in ("a", "b"):
        served.add_tool(lambda: "a", name=name)
    found: list[Any] = []
    for _ in range(2):
        async with AsyncTestClient(served, revision=revision.version) as client:
            found.append([each.raw for each in await client.list_tools()])
    assert found[0] == found[1]
    assert [each["name"] for each in found[0]] == ["a", "b"]


# --- tools ----------------------------------------------------------------------------------------


async def test_arguments_may_be_left_out_and_a_result_may_be_an_error() -> None:
    """TOOL-8."""
    served = app()
    served.add_tool(lambda: ToolResult("went wrong", is_error=True), name="a")
    async with AsyncTestClient(served) as client:
        for params in ({"name": "a"}, {"name": "a", "arguments": None}):
            result = await client.request("tools/call", params)
            assert result["content"] == [{"type": "text", "text": "went wrong"}]
            assert result["isError"]


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


async def test_a_number_that_json_does_not_have_is_named() -> None:
    """TOOL-9: to the model, or to the client."""
    served = app()
    served.add_tool(lambda: {"rows": [{"celsius": math.inf}]}, name="a")
    result = await call(served, "a")
    assert result.is_error
    assert "result.rows[0].celsius is Infinity" in result.text
    with pytest.raises(ProtocolError, match=r"result\.celsius is NaN"):
        await read({"celsius": math.nan})


async def test_where_a_handler_returns_none_there_is_no_resource() -> None:
    """RES-5."""
    with pytest.raises(ProtocolError, match="Resource not found: a://b"):
        await read(None)


async def test_each_list_has_a_time_to_live() -> None:
    """CACHE-1: a number is for all of them; what is not named is not cached."""

    async def times(app: MCPKit[Any]) -> list[int]:
        app.add_resource(lambda: "one", "a://b", name="a")
        methods = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
        async with AsyncTestClient(app) as client:
            results = [await client.request(each) for each in (*methods, "server/discover")]
            results.append(await client.request("resources/read", {"uri": "a://b"}))
            return [each["ttlMs"] for each in results]

    kinds: Any = ("tools", "prompts")
    each: Any = {"tools": 30, "resources": 1.5}
    assert await times(MCPKit("one", offers=kinds, cache_ttl=7)) == [7000] * 6
    assert await times(MCPKit("each", offers=kinds, cache_ttl=each)) == [
        30000,
        0,
        1500,
        1500,
        0,
        1500,
    ]
    wrong: Any = {"tool": 1}
    with pytest.raises(ValueError, match="cache_ttl: unknown tool; known: tools, resources"):
        MCPKit("wrong", cache_ttl=wrong)


async def test_a_whole_result_decides_how_long_it_is_kept() -> None:
    """CACHE-1."""
    contents = [TextResourceContents("a://b", "one")]
    result = await read(ResourceResult(contents, cache_ttl=1.5, cache_scope="public"))
    assert (result["ttlMs"], result["cacheScope"]) == (1500, "public")


# --- prompts --------------------------------------------------------------------------------------


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


MEMBERS = ("name", "uri", "ref", "argument", "cursor")
NO_TEXTS: tuple[Any, ...] = (1, [], {})
WRONG: list[dict[str, Any]] = [
    *(dict.fromkeys(MEMBERS, value) for value in NO_TEXTS),
    {"name": "?", "uri": "?", "ref": {"type": []}, "argument": {"name": []}, "cursor": "?"},
    {"ref": {"type": "ref/resource", "uri": []}, "argument": {"name": "a", "value": ""}},
]


@pytest.mark.parametrize(
    "method",
    [
        *("tools/list", "tools/call", "resources/list", "resources/templates/list"),
        *("resources/read", "prompts/list", "prompts/get", "completion/complete"),
    ],
)
@pytest.mark.parametrize("params", WRONG, ids=["number", "array", "object", "text", "mixed"])
async def test_a_wrong_parameter_is_never_an_internal_error(
    method: str, params: dict[str, Any]
) -> None:
    """TOOL-16, RES-9, PROMPT-6, COMP-4: what arrives is checked before it is used."""
    params = {"cursor": 0, **params}
    served = app()
    served.add_tool(lambda: "a", name="a")
    served.add_resource(lambda: "a", "a://b", name="a")

    @served.prompt
    def p(loud: bool) -> str:
        return "p"

    async with AsyncTestClient(served) as client:
        with pytest.raises(InvalidParams):
            await client.request(method, params)
