"""Entries that are described: sent as they are, and used as those of functions are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import anyio
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from mcpkit import (
    CallLimits,
    Context,
    MCPKit,
    ProtocolError,
    ResourceResult,
    TextContent,
    TextResourceContents,
    ToolResult,
    described,
)
from mcpkit._utils.json import UNSET
from mcpkit.errors import RegistrationError, ToolError
from mcpkit.testing import REVISIONS, AsyncTestClient, TestClient

SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "ctx": {"type": "string", "maxLength": 5},
        "self": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["ctx"],
    "additionalProperties": False,
    "x-origin": "elsewhere",
}
COUNTED: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"count": {"type": "integer"}},
    "required": ["count"],
}
every_revision = pytest.mark.parametrize("revision", REVISIONS)


async def echo(arguments: dict[str, Any], ctx: Context[Any]) -> Any:
    return arguments


async def read(uri: str, ctx: Context[Any]) -> Any:
    contents = [TextResourceContents(uri, uri), TextResourceContents("other://x", "x")]
    return ResourceResult(contents)


def made(call: Any = echo, **options: Any) -> MCPKit[None]:
    app = MCPKit("shop")
    app.add(described.tool(call, **{"name": "echo", "input_schema": SCHEMA, **options}))
    return app


# --- tools ----------------------------------------------------------------------------------------


@every_revision
def test_a_tool_is_listed_as_it_is_described_and_gets_what_was_sent(revision: str) -> None:
    """TOOL-5, TOOL-16: names that a function could not take are as good as others."""
    app = made(title="Echo", description="Says it again.", meta={"com.example/a": 1})
    with TestClient(app, revision=revision) as client:
        (listed,) = client.list_tools()
        assert listed.input_schema == SCHEMA
        assert (listed.name, listed.description) == ("echo", "Says it again.")
        sent = {"ctx": "hello", "self": 3, "tags": '["a"]'}
        assert client.call_tool("echo", sent).text == '{"ctx":"hello","self":3,"tags":["a"]}'
        wrong = client.call_tool("echo", {"ctx": "too long", "b": 1})
    assert wrong.is_error
    assert wrong.text.splitlines() == [
        "ctx: expected at most 5 characters, got 8",
        "b: unknown argument",
    ]


@every_revision
@pytest.mark.parametrize(
    ("schema", "value", "data"),
    [
        (COUNTED, {"count": 3}, {"count": 3}),
        (COUNTED, ToolResult("three", structured_content={"count": 3}), {"count": 3}),
        ({"type": "array", "items": {"type": "integer"}}, [1, 2], [1, 2]),
        ({"type": ["string", "null"]}, None, None),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"enum": ["x"]}}}, "x", "x"),
    ],
    ids=str,
)
def test_results_fit_the_schema_that_is_listed(
    schema: dict[str, Any], value: Any, data: Any, revision: str
) -> None:
    """TOOL-9, TOOL-11, TOOL-12: the client checks them against what it was told."""

    async def call(arguments: dict[str, Any], ctx: Context[Any]) -> Any:
        return value

    with TestClient(made(call, output_schema=schema), revision=revision) as client:
        client.list_tools()
        result = client.call_tool("echo", {"ctx": ""})
        assert not result.is_error
        if revision >= "2025-06-18":
            assert result.data == data


REFERRING: Final[dict[str, tuple[Any, Any]]] = {
    "itself": (
        {"type": ["object", "null"], "properties": {"next": {"$ref": "#"}}},
        {"next": {"next": None}},
    ),
    "definitions": (
        {
            "type": "array",
            "items": {"$ref": "#/definitions/a"},
            "definitions": {"a": {"type": "integer"}},
        },
        [1],
    ),
    "an item": (
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}],
            "items": {"$ref": "#/prefixItems/0"},
        },
        [1, 2],
    ),
    "its $id": (
        {"$id": "https://example.com/x", "$ref": "#/$defs/a", "$defs": {"a": {"type": "integer"}}},
        3,
    ),
    "both": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#"}}}},
        [[], [[]]],
    ),
}


@every_revision
@pytest.mark.parametrize("schema", REFERRING)
def test_references_lead_to_the_same_place_in_a_wrapped_schema(schema: str, revision: str) -> None:
    """TOOL-11: by an independent validator."""
    given, value = REFERRING[schema]

    async def call(arguments: dict[str, Any], ctx: Context[Any]) -> Any:
        return value

    with TestClient(made(call, output_schema=given), revision=revision) as client:
        (listed,) = client.list_tools()
        result = client.call_tool("echo", {"ctx": ""})
    assert not result.is_error
    if listed.output_schema is not None:
        Draft202012Validator.check_schema(listed.output_schema)
        Draft202012Validator(listed.output_schema).validate(result.raw["structuredContent"])


@pytest.mark.parametrize(
    "value",
    [{"count": "3"}, {}, 3, None, ToolResult("no data"), object()],
    ids=["type", "missing", "number", "null", "text", "object"],
)
def test_a_result_that_does_not_fit_its_schema_is_a_failure(value: Any) -> None:
    """TOOL-9: the connection lives on."""

    async def call(arguments: dict[str, Any], ctx: Context[Any]) -> Any:
        return value if arguments["ctx"] else {"count": 1}

    with TestClient(made(call, output_schema=COUNTED)) as client:
        assert client.call_tool("echo", {"ctx": "a"}).is_error
        assert client.call_tool("echo", {"ctx": ""}).data == {"count": 1}


@pytest.mark.parametrize(
    ("value", "text"), [("hi", "hi"), (None, "null"), ([1], "[1]"), (TextContent("t"), "t")]
)
def test_without_a_schema_there_is_text_only(value: Any, text: str) -> None:
    async def call(arguments: dict[str, Any], ctx: Context[Any]) -> Any:
        return value

    with TestClient(made(call)) as client:
        result = client.call_tool("echo", {"ctx": ""})
    assert (result.text, result.is_error) == (text, False)
    assert result.structured_content is UNSET


def test_errors_are_shown_as_the_app_says_unless_the_entry_does() -> None:
    async def call(arguments: dict[str, Any], ctx: Context[Any]) -> Any:
        raise KeyError(arguments["ctx"]) if arguments["ctx"] else ToolError("known")

    app = MCPKit("shop", expose_errors=KeyError)
    for name, options in {"a": {}, "b": {"expose_errors": ()}}.items():
        app.add(described.tool(call, name=name, input_schema=SCHEMA, **options))  # type: ignore[arg-type]
    with TestClient(app) as client:
        assert client.call_tool("a", {"ctx": ""}).text == "known"
        assert "secre" in client.call_tool("a", {"ctx": "secre"}).text
        assert "secre" not in client.call_tool("b", {"ctx": "secre"}).text


def test_the_converters_of_the_app_apply() -> None:
    class Money:
        amount = 3

    async def call(arguments: dict[str, Any], ctx: Context[Any]) -> Any:
        return {"count": Money()}

    app = MCPKit("shop")

    @app.converter(Money)
    def amount(value: Money) -> int:
        return value.amount

    app.add(described.tool(call, name="a", input_schema=SCHEMA, output_schema=COUNTED))
    with TestClient(app) as client:
        assert client.call_tool("a", {"ctx": ""}).data == {"count": 3}


async def test_its_calls_have_limits() -> None:
    running = most = 0

    async def call(arguments: dict[str, Any], ctx: Context[Any]) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.lowlevel.checkpoint()
        running -= 1
        return arguments["ctx"]

    async def forever(arguments: dict[str, Any], ctx: Context[Any]) -> Any:
        await anyio.sleep_forever()

    app = MCPKit("shop", call_limits=CallLimits(concurrency=2))
    app.add(described.tool(call, name="a", input_schema=SCHEMA, concurrency=1))
    app.add(described.tool(forever, name="b", input_schema=SCHEMA, timeout=0.01))
    async with AsyncTestClient(app) as client:
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(client.call_tool, "a", {"ctx": str(number)})
        assert most == 1
        assert (await client.call_tool("b", {"ctx": ""})).is_error


@pytest.mark.parametrize("revision", ["2025-11-25", REVISIONS[-1]])
def test_a_call_becomes_a_task(revision: str) -> None:
    app = made(task="optional")
    with TestClient(app, revision=revision) as client:
        task = client.start("echo", {"ctx": "a"})
        assert task.result().text == '{"ctx":"a"}'


def test_a_key_is_made_of_arguments_by_name() -> None:
    calls = []

    async def call(arguments: dict[str, Any], ctx: Context[Any]) -> Any:
        calls.append(arguments)
        return len(calls)

    with TestClient(made(call, once=lambda ctx: ctx)) as client:
        found = [client.call_tool("echo", {"ctx": each}).text for each in ("a", "a", "b")]
    assert found == ["1", "1", "2"]


def test_scopes_and_permissions_apply() -> None:
    """AUTH: a caller without the scope does not see it; one may be refused by its arguments."""
    app = made(scopes=["read"], allow=lambda principal, arguments: arguments["ctx"] == principal.id)
    with TestClient(app, principal="ann", scopes=[]) as client:
        assert client.list_tools() == []
    with TestClient(app, principal="ann", scopes=["read"]) as client:
        assert not client.call_tool("echo", {"ctx": "ann"}).is_error
        with pytest.raises(ProtocolError, match="with these arguments"):
            client.call_tool("echo", {"ctx": "bob"})


# --- resources, templates and prompts -------------------------------------------------------------


def library() -> MCPKit[None]:
    async def complete(name: str, typed: str, others: Any, ctx: Context[Any]) -> list[str]:
        return [f"{name}:{typed}:{sorted(others.items())}"]

    async def greet(arguments: dict[str, str], ctx: Context[Any]) -> str:
        return f"Hello {arguments}"

    arguments = [described.Argument("who", "Who", "A name.", required=True)]
    arguments += [described.Argument("how")]
    app = MCPKit("library")
    app.add(described.resource(read, "notes://a/b", name="b", mime_type="text/x", size=3))
    app.add(described.template(read, "notes://{x}/of/{y}", name="of", complete=complete))
    app.add(described.prompt(greet, name="hi", arguments=arguments, complete=complete))
    return app


def included(*prefixes: str) -> MCPKit[None]:
    app = library()
    for prefix in prefixes:
        outer = MCPKit("outer")
        outer.include(app, prefix=prefix)
        app = outer
    return app


@every_revision
@pytest.mark.parametrize("prefixes", [(), ("in",), ("in", "out")], ids=str)
def test_the_uri_is_the_owners_in_its_code_and_the_clients_on_the_wire(
    prefixes: tuple[str, ...], revision: str
) -> None:
    before = "".join(f"{each}/" for each in reversed(prefixes))
    with TestClient(included(*prefixes), revision=revision) as client:
        (listed,) = client.list_resources()
        (template,) = client.list_resource_templates()
        assert listed.uri == f"notes://{before}a/b"
        assert (listed.mime_type, listed.size) == ("text/x", 3)
        assert template.uri_template == f"notes://{before}{{x}}/of/{{y}}"
        for rest in ("a/b", "1/of/2"):
            uri = f"notes://{before}{rest}"
            assert client.read_resource(uri) == [
                TextResourceContents(uri, f"notes://{rest}"),
                TextResourceContents("other://x", "x"),
            ]


def test_a_prefix_before_a_uri_that_holds_another() -> None:
    inner = MCPKit("inner")
    inner.add(described.template(read, "fetch:{+u}", name="fetch", unchecked=["u"]))
    app = MCPKit("outer")
    app.include(inner, prefix="in")
    with TestClient(app) as client:
        own, _ = client.read_resource("in/fetch:http://h/p")
    assert own == TextResourceContents("in/fetch:http://h/p", "fetch:http://h/p")


def test_variables_that_lead_elsewhere_are_refused_unless_they_are_unchecked() -> None:
    """SEC-11: a URI that arrives whole is often a path."""
    app = library()
    app.add(described.template(read, "raw://{+x}", name="raw", unchecked=["x"]))
    with TestClient(app) as client:
        with pytest.raises(ProtocolError, match="Resource not found"):
            client.read_resource("notes://1/of/%2e%2e")
        assert client.read_resource("raw://a/../b")[0] == TextResourceContents(
            "raw://a/../b", "raw://a/../b"
        )


@every_revision
def test_prompts_and_completions(revision: str) -> None:
    """PROMPT-3, COMP-1."""
    with TestClient(included("in"), revision=revision) as client:
        (prompt,) = client.list_prompts()
        assert [(each.name, each.required) for each in prompt.arguments] == [
            ("who", True),
            ("how", False),
        ]
        assert prompt.arguments[0].description == "A name."
        (message,) = client.get_prompt("in_hi", {"who": "Ann"}).messages
        assert message.content == TextContent("Hello {'who': 'Ann'}")
        for wrong, said in (({}, "who: required"), ({"who": "a", "whom": "b"}, "whom: unknown")):
            with pytest.raises(ProtocolError, match=said):
                client.get_prompt("in_hi", wrong)
        found = client.complete("who", "A", prompt="in_hi", known={"how": "x"}).values
        assert found == [f"who:A:{[('how', 'x')] if revision >= '2025-06-18' else []}"]
        of = client.complete("y", "1", template="notes://in/{x}/of/{y}")
        assert of.values == ["y:1:[]"]


@every_revision
def test_a_question_of_another_server_is_passed_on(revision: str) -> None:
    """S2C-1: as it was written, if the client has declared that it answers such questions."""
    wanted = {"type": "object", "properties": {"name": {"type": "string"}}}

    async def call(arguments: dict[str, Any], ctx: Context[Any]) -> Any:
        params = {"message": "Who?", "requestedSchema": wanted}
        [answer] = await ctx.gather(described.Question("elicitation/create", params, key="who"))
        return answer["content"]["name"]

    def answer(question: Any) -> Any:
        assert question == {"message": "Who?", "requestedSchema": wanted}
        return {"action": "accept", "content": {"name": "Ann"}}

    if revision >= "2025-06-18":
        with TestClient(made(call), revision=revision, elicitation=answer) as client:
            assert client.call_tool("echo", {"ctx": ""}).text == "Ann"
    with TestClient(made(call), revision=revision) as client:
        if revision < "2026":
            assert client.call_tool("echo", {"ctx": ""}).is_error
        else:
            with pytest.raises(ProtocolError, match="elicitation"):
                client.call_tool("echo", {"ctx": ""})
        assert client.list_tools()


# --- registration ---------------------------------------------------------------------------------

TWICE: Final = described.Argument("a")
TOOL: Final[Any] = partial(described.tool, name="a", input_schema=SCHEMA)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: described.tool(echo, name="a"), "it needs an input_schema="),
        (lambda: described.tool(echo, input_schema=SCHEMA), "it needs a name="),
        (lambda: TOOL(echo, name="a b"), "'a b' is not a tool name"),
        (lambda: TOOL(lambda a, b: 1), "is not an async function of what the client sends"),
        (lambda: TOOL(echo.__get__(1)), "is not an async function of what the client sends"),
        (lambda: TOOL(echo, titel="A"), "did you mean 'title'"),
        (lambda: TOOL(echo, structured_output=True), "use output_schema="),
        (lambda: TOOL(echo, output_schema={"type": "any"}), "output_schema is not a JSON Schema"),
        (lambda: TOOL(echo, input_schema={"type": "array"}), "input_schema is not of an object"),
        (lambda: TOOL(echo, timeout=-1), "timeout"),
        (lambda: TOOL(echo, once=lambda nothing: ""), "once= is a function of arguments"),
        (lambda: TOOL(echo, task="always"), "write one of"),
        (lambda: described.resource(read, "notes://{x}", name="a"), "use described.template"),
        (lambda: described.resource(read, "notes", name="a"), "it has no scheme"),
        (lambda: described.template(read, "notes://x", name="a"), "use described.resource"),
        (lambda: described.template(read, "notes://{x", name="a"), "notes://{x"),
        (lambda: described.template(read, "n://{x}", name="a", unchecked=["y"]), "unchecked must"),
        (lambda: TOOL(echo, output_schema=True), "output_schema is not an object"),
        (lambda: described.prompt(echo), "it needs a name="),
        (lambda: described.prompt(echo, name="a", arguments=["a"]), "described.Argument"),  # type: ignore[list-item]
        (lambda: described.prompt(echo, name="a", arguments=[TWICE, TWICE]), "different names"),
        (lambda: described.prompt(echo, name="a", complete=print), "complete= is an async"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_is_reported_where_it_is_written(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(RegistrationError) as found:
        make()
    assert said in str(found.value)
    assert str(found.value).startswith("test_described.py:") or "'a b'" in said


def test_what_is_not_described_cannot_be_added() -> None:
    app = made()
    with pytest.raises(RegistrationError, match=r"mcpkit\.described, not a function"):
        app.add(echo)  # type: ignore[arg-type]
    with pytest.raises(RegistrationError, match="is registered already"):
        app.add(TOOL(echo, name="echo"))


def test_what_is_added_may_be_removed_and_disabled() -> None:
    app = made()
    with TestClient(app) as client:
        app.disable(["echo"])
        assert client.list_tools() == []
        app.enable(["echo"])
        app.remove_tool("echo")
        assert client.list_tools() == []
