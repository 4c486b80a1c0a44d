"""Names of other libraries, and unknown names: refused at once, with the right one."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import is_dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

import mcpkit.auth
from mcpkit import Audio, File, Image, MCPKit
from mcpkit._signature.input_schema import schema_errors
from mcpkit._utils.names import GUIDES, peer_names
from mcpkit.context import Context, SyncContext
from mcpkit.errors import RegistrationError
from mcpkit.testing import TestClient
from mcpkit.transports import load
from mcpkit.transports.http.options import HttpSettings
from tests.authoring import context_with
from tests.docs.pages import ROOT

HERE: Final = rf"^{Path(__file__).name}:\d+: "
"""What a sentence begins with: the line that has to be changed."""


def refusal(call: Callable[[], object], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    said = str(caught.value)
    assert re.search(HERE, said), said
    return re.sub(HERE, "", said)


def ctx() -> Any:
    return context_with()


def app() -> Any:
    return MCPKit("shop")


# --- refusals, and their messages -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("report_progress", "there is no ctx.report_progress; write ctx.progress(1, 2)"),
        ("lifespan_context", "there is no ctx.lifespan_context; write ctx.state"),
        ("progres", "there is no ctx.progres; did you mean 'progress'?"),
        ("elicitt", "there is no ctx.elicitt; did you mean 'elicit'?"),
        ("mount", "there is no app.mount; write app.include(other, prefix=…)"),
        ("custom_route", "there is no app.custom_route; append a starlette Route to app.routes"),
        ("toool", "there is no app.toool; did you mean 'tool'?"),
    ],
)
def test_attributes(name: str, said: str) -> None:
    for owner in [app()] if " app." in said else [ctx(), SyncContext(ctx())]:
        assert refusal(partial(getattr, owner, name), AttributeError) == said


def test_a_property_and_a_transport_that_fail() -> None:
    class Broken(Context[Any]):
        @property
        def state(self) -> Any:
            return {}.nothing  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'dict' object has no attribute 'nothing'"):
        _ = Broken(ctx().backend).state
    with pytest.raises(ValueError, match="unknown transport 'smtp'; known: stdio, http, sse"):
        app().run("smtp")
    assert load("streamable-http") == load("http"), "as other libraries, and clients, call it"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: MCPKit("shop", dependencies=["httpx"]),  # type: ignore[call-arg]
            (
                "MCPKit() has no option 'dependencies'; "
                "name them in pyproject.toml, or in the host's command"
            ),
        ),
        (
            lambda: MCPKit("shop", versoin="1"),  # type: ignore[call-arg]
            "MCPKit() has no option 'versoin'; did you mean 'version'?",
        ),
        (
            lambda: Image(data=b""),  # type: ignore[call-arg]
            "Image() has no option 'data'; write the bytes first: Image(png_bytes)",
        ),
        (
            lambda: ctx().elicit("How many?", shema=int),
            "elicit() has no option 'shema'; did you mean 'schema'?",
        ),
        (
            lambda: asyncio.run(_serving(prot=1)),
            "serve() has no option 'prot'; did you mean 'port'?",
        ),
    ],
)
def test_keywords(call: Callable[[], object], said: str) -> None:
    assert refusal(call, TypeError) == said


async def _serving(**options: Any) -> None:
    await app().serve("http", **options)


def test_wrong_keywords_of_auth_classes() -> None:
    having: list[type] = []
    for name in mcpkit.auth.__all__:
        kind = getattr(mcpkit.auth, name)
        if isinstance(kind, type) and "__init__" in vars(kind) and not is_dataclass(kind):
            options = inspect.signature(kind).parameters.values()
            having += [kind] * any(each.kind is each.KEYWORD_ONLY for each in options)
    assert {mcpkit.auth.AuthorizationServer, mcpkit.auth.UpstreamLogin} <= {*having}
    for kind in having:
        option = [*inspect.signature(kind).parameters][-1]
        wrong: Any = {f"{option}_": None}
        said = refusal(partial(kind, **wrong), TypeError)
        assert said == f"{kind.__name__}() has no option '{option}_'; did you mean '{option}'?"


def marked(**options: Any) -> Callable[[Any], None]:
    """As the module's decorator, with the module included."""

    def include(fn: Any) -> None:
        module = ModuleType("tools")
        vars(module)["fn"] = mcpkit.tool(**options)(fn)
        MCPKit("a").include(module)

    return include


@pytest.mark.parametrize(
    ("decorate", "said"),
    [
        (
            lambda: app().resource(uri="notes://today"),
            "there is no option 'uri'; write the URI first: resource(\"notes://…\")",
        ),
        (
            lambda: app().tool(output_schema={}),
            (
                "there is no option 'output_schema'; "
                "annotate what the function returns, or pass structured_output=False"
            ),
        ),
        (lambda: app().prompt(titel="x"), "there is no option 'titel'; did you mean 'title'?"),
        (
            lambda: app().tool(annotations={"readonly": True}),
            "annotations has no member 'readonly'; did you mean 'readOnlyHint'?",
        ),
        (
            lambda: app().tool(annotations=3),
            "annotations is a int; write a mcpkit.ToolAnnotations, or a dict",
        ),
        # Names of parameters of the functions behind the decorators.
        *(
            (partial(decorate, **{name: None}), f"there is no option {name!r}; ")
            for decorate in (MCPKit("a").tool, marked)
            for name in ("prefix", "defaults", "fn", "add")
        ),
    ],
)
def test_options_of_decorators(decorate: Callable[[], Any], said: str) -> None:
    def fn() -> str:
        return ""

    assert said in refusal(lambda: decorate()(fn), RegistrationError)


# --- contexts of other libraries ------------------------------------------------------------------


def context_of(module: str) -> Any:
    return type("Context", (), {"__module__": module, "__class_getitem__": lambda *_: None})


@pytest.mark.parametrize(
    ("module", "library"),
    [
        ("fastmcp.server.context", "FastMCP"),
        ("mcp.server.fastmcp.server", "the official SDK"),
        ("mcp.server.mcpserver.context", "the official SDK"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda kind: kind, Optional.__getitem__])
def test_a_context_of_another_library(module: str, library: str, wrap: Any) -> None:
    async def fn(ctx: Any) -> None: ...

    fn.__annotations__ = {"ctx": wrap(context_of(module))}
    assert refusal(lambda: app().tool(fn), RegistrationError) == (
        f"fn(): ctx is a Context of {library}, which mcpkit does not fill; "
        f"write from mcpkit import Context, and ctx: mcpkit.Context"
    )


# --- lifespans ------------------------------------------------------------------------------------


async def raw(app: Any) -> AsyncGenerator[int, None]:
    yield 1


async def no_generator(app: Any) -> int:
    return 1


@contextmanager
def sync(app: Any) -> Generator[int, None, None]:
    yield 1


async def without_app() -> AsyncGenerator[int, None]:
    yield 1


NO_MANAGER: Final = (
    "does not return an async context manager; make it an async def that yields once, "
    "under @contextlib.asynccontextmanager"
)


@pytest.mark.parametrize(
    ("lifespan", "said"),
    [
        (raw, f"raw() {NO_MANAGER}"),
        (no_generator, f"no_generator() {NO_MANAGER}"),
        (sync, f"sync() {NO_MANAGER}"),
        (
            asynccontextmanager(without_app),
            (
                "without_app() is called with the app when serving starts; "
                "give it one parameter, app: MCPKit"
            ),
        ),
        (
            asynccontextmanager(raw)(None),
            "pass the function under @asynccontextmanager, not called",
        ),
    ],
)
def test_a_lifespan_is_an_uncalled_context_manager_that_takes_the_app(
    lifespan: Any, said: str
) -> None:
    assert refusal(lambda: MCPKit("a", lifespan=lifespan), RegistrationError).endswith(said)


# --- schemas of one's own -------------------------------------------------------------------------


def known(city: str, nights: int = 1) -> str:
    return f"{city} {nights}"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"properties": {}}, 'is not of an object; begin it with "type": "object"'),
        (
            {"type": "object", "properties": {"city": {}, "guests": {}}},
            (
                "has a property 'guests', which the function does not take; add a parameter, "
                "or write **arguments to take whatever the schema allows"
            ),
        ),
        (
            {"type": "object", "properties": {"nights": {}}},
            (
                "has no property 'city', which the function needs; add it, "
                "or give the parameter a default"
            ),
        ),
    ],
)
def test_a_schema_fits_its_function(schema: Any, said: str) -> None:
    refused = refusal(lambda: app().add_tool(known, input_schema=schema), RegistrationError)
    assert refused == f"known(): input_schema {said}"


SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "nights": {"type": "integer", "minimum": 1},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}, "maxItems": 2},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"tag": {"enum": ["quiet", "late"]}},
}


def test_a_function_takes_whatever_its_schema_allows() -> None:
    shop = MCPKit("shop")

    @shop.tool(input_schema=SCHEMA)
    async def book(ctx: Context[Any], **arguments: Any) -> dict[str, Any]:
        return arguments

    with TestClient(shop) as client:
        (tool,) = client.list_tools()
        assert tool.input_schema == SCHEMA
        sent = {"city": "Oslo", "nights": 2, "tags": ["late"]}
        assert client.call_tool("book", sent).data == sent
        wrong = client.call_tool("book", {"nights": 0, "tags": ["loud"], "ctx": 1})
    assert wrong.is_error
    assert wrong.text.splitlines() == [
        "city: required, but missing",
        "nights: expected at least 1, got 0",
        'tags[0]: expected "quiet" or "late", got "loud"',
        "ctx: unknown argument",
        "ctx: unknown argument",
    ]


def test_what_the_signature_names_is_validated_by_it_too() -> None:
    shop = MCPKit("shop")
    schema = {"type": "object", "properties": {"city": {}}}

    @shop.tool(input_schema=schema)
    def book(city: str, **others: int) -> list[Any]:
        return [city, others]

    with TestClient(shop) as client:
        assert client.call_tool("book", {"city": "Oslo", "a": 1}).data == ["Oslo", {"a": 1}]
        assert client.call_tool("book", {"city": 1}).text == "city: expected a string, got 1"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (
            {"type": "object", "unevaluatedProperties": False},
            "input_schema has unevaluatedProperties, which mcpkit cannot check",
        ),
        ({"type": "object", "properties": {"a": {"$ref": "#/x"}}}, "has nothing at '#/x'"),
    ],
)
def test_a_schema_that_cannot_be_checked_is_refused(schema: Any, said: str) -> None:
    def fn(**arguments: Any) -> None: ...

    assert said in refusal(lambda: app().add_tool(fn, input_schema=schema), RegistrationError)


@pytest.mark.parametrize(
    ("property_", "said"),
    [
        ({"type": "any"}, 'properties.a.type: expected "null" or "boolean"'),
        ({"type": ["string", 3]}, "properties.a.type[1]: expected"),
        ({"minimum": "1"}, 'properties.a.minimum: expected a number, got "1"'),
        ({"maxLength": -1}, "properties.a.maxLength: expected at least 0, got -1"),
        ({"required": "b"}, 'properties.a.required: expected an array, got "b"'),
        ({"anyOf": []}, "properties.a.anyOf: expected at least 1 items, got 0"),
        ({"items": [{"type": "string"}]}, "properties.a.items: expected an object or true or"),
        ("string", 'properties.a: expected an object or true or false, got "string"'),
        ({"exclusiveMinimum": True}, "properties.a.exclusiveMinimum: expected a number, got true"),
        ({"pattern": "("}, "input_schema has a pattern '(' that is not a regular expression"),
        ({"patternProperties": {"[": {}}}, "input_schema has a pattern '['"),
        ({"enum": []}, "properties.a.enum: expected at least 1 items, got 0"),
        ({"$ref": "#/definitions/b"}, "definitions.type: expected an object or true or false"),
        ({"$ref": "#/x-y"}, '#/x-y: type: expected "null" or'),
        ({"description": "\ud800"}, "input_schema is not JSON"),
    ],
)
def test_an_invalid_schema_is_refused(property_: Any, said: str) -> None:
    """TOOL-5: where it is written, and not with each call."""

    def typed(a: Any) -> None: ...

    def open_(**arguments: Any) -> None: ...

    schema = {"type": "object", "properties": {"a": property_}}
    if "$ref" in property_:
        place = "x-y" if property_["$ref"] == "#/x-y" else "definitions"
        schema[place] = {"type": "nope", "b": {"type": "nope"}}
    fn: Callable[..., None]
    for fn in (typed, open_):
        refused = refusal(partial(app().add_tool, fn, input_schema=schema), RegistrationError)
        assert refused.startswith(f"{fn.__name__}(): input_schema ")
        assert said in refused


LIMITED: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "amount": {"type": "integer", "maximum": 100},
        "to": {"enum": ["anna", "ben"]},
        "tags": {"type": "array", "maxItems": 1},
    },
    "required": ["amount", "to"],
}


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        ({"amount": 100, "to": "anna"}, "100 to anna []"),
        ({"amount": 100, "to": "anna", "tags": '["gift"]'}, "100 to anna ['gift']"),
        ({"amount": "7", "to": "ben", "wait_for_previous": True}, "7 to ben []"),
        (
            {"amount": 100_000, "to": "mallory"},
            'amount: expected at most 100, got 100000\nto: expected "anna" or "ben", got "mallory"',
        ),
        ({"to": "anna"}, "amount: required, but missing"),
        ({"amount": 1, "to": "anna", "tags": [1, 2]}, "tags: expected at most 1 items, got 2"),
        ({"amount": 1, "to": "anna", "tags": [1]}, "tags[0]: expected a string, got 1"),
        ({"amount": 1, "to": "anna", "fee": 3}, "fee: unknown argument; known: amount, to, tags"),
    ],
    ids=str,
)
def test_a_schema_beside_a_typed_signature_is_enforced(sent: Any, answer: str) -> None:
    """TOOL-16: first the schema that clients see, then the types."""
    shop = MCPKit("shop")

    @shop.tool(input_schema=LIMITED)
    def pay(amount: int, to: str, tags: list[str] = []) -> str:  # noqa: B006
        return f"{amount} to {to} {tags}"

    with TestClient(shop) as client:
        assert client.call_tool("pay", sent).text == answer


def given_schema(property_: dict[str, Any], **more: Any) -> MCPKit[None]:
    shop = MCPKit("shop")

    @shop.tool(input_schema={"type": "object", "properties": {"a": property_}, **more})
    def fn(a: Any) -> str:
        return repr(a)[:20]

    return shop


HIDDEN: Final[dict[str, Any]] = {
    "anyOf": [{"const": "X"}, {"type": "array", "contains": {"$ref": "#/$defs/h"}}]
}


@pytest.mark.parametrize("depth", [1, 5, 30, 60, 90])
def test_nesting_does_not_lead_past_a_schema(depth: int) -> None:
    """What is too deep to check is refused, also inside of ``not``."""
    value: Any = "X"
    for _ in range(depth):
        value = [value]
    with TestClient(
        given_schema({"not": {"$ref": "#/$defs/h"}}, **{"$defs": {"h": HIDDEN}})
    ) as client:
        assert client.call_tool("fn", {"a": value}).is_error
        assert not client.call_tool("fn", {"a": ["Y"]}).is_error


@pytest.mark.parametrize(
    ("property_", "value", "fits"),
    [
        ({"type": "integer", "multipleOf": 2}, 10**400, True),
        ({"type": "integer", "multipleOf": 2}, 9007199254740993, False),
        ({"type": "integer", "multipleOf": 10}, 10**17 + 1, False),
        ({"type": "number", "multipleOf": 0.5}, 10**400, True),
        ({"type": "number", "multipleOf": 0.1}, 0.3, True),
    ],
)
def test_multiples_of_large_integers(property_: Any, value: Any, fits: bool) -> None:
    found = schema_errors(property_, value)
    assert (found == []) is fits


@pytest.mark.parametrize(
    ("property_", "sent", "got"),
    [
        ({"type": ["string", "array"]}, "[1,2]", "'[1,2]'"),
        ({"type": "array"}, "[1,2]", "[1, 2]"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "7", "7"),
        ({"$ref": "#/$defs/n"}, "7", "7"),
        ({"type": "string", "maxLength": 3}, "[1,2]", "a: expected at most 3 characters, got 5"),
        ({"pattern": "^x"}, "123", 'a: expected a match of ^x, got "123"'),
        ({"not": {"type": "string"}}, '["a"]', "a: has a form that is excluded"),
    ],
    ids=str,
)
def test_only_what_may_not_be_text_is_parsed(property_: Any, sent: str, got: str) -> None:
    with TestClient(given_schema(property_, **{"$defs": {"n": {"type": "integer"}}})) as client:
        assert client.call_tool("fn", {"a": sent}).text == got


@pytest.mark.parametrize(
    ("property_", "value"),
    [
        ({"type": "array", "items": {"enum": [f"C{i}" for i in range(250)]}}, ["C249"] * 50_000),
        ({"anyOf": [{"const": i} for i in range(250)]}, [1] * 50_000),
        (
            {"patternProperties": {f"^{i}": {} for i in range(50)}},
            {f"x{i}": 1 for i in range(50_000)},
        ),
    ],
    ids=["enum", "const", "patterns"],
)
def test_the_work_of_a_check_is_bounded(property_: Any, value: Any) -> None:
    """Values are compared once, not with each choice."""
    counted = Counter[str]()
    with counting_calls(counted):
        schema_errors(property_, value)
    assert sum(counted.values()) < 400_000, "of 12,500,000 pairs"


@contextmanager
def counting_calls(counted: Counter[str]) -> Generator[None]:
    def count(frame: Any, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_filename.endswith("input_schema.py"):
            counted[frame.f_code.co_name] += 1

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("keyword", ["example", "x-example", "default", "examples"])
def test_data_in_a_schema_is_not_read_as_a_schema(keyword: str) -> None:
    data: Any = {"name": "x", "dependencies": {}, "$ref": "#/no", "pattern": {"type": "string"}}
    with TestClient(given_schema({"type": "object", keyword: [data]})) as client:
        assert not client.call_tool("fn", {"a": {}}).is_error


@pytest.mark.parametrize("keyword", ["x-a", "default", "properties", "not"])
def test_a_schema_that_contains_itself_is_refused(keyword: str) -> None:
    schema: dict[str, Any] = {"type": "object"}
    schema[keyword] = {"a": schema} if keyword == "properties" else schema
    with pytest.raises(RegistrationError, match="input_schema is not JSON"):
        app().add_tool(known, input_schema=schema)


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.text("ab1", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner),
    max_leaves=8,
)


def schemas(inner: Any) -> Any:
    keywords: dict[str, Any] = {
        "type": st.sampled_from(["null", "boolean", "integer", "number", "string", "object"])
        | st.lists(st.sampled_from(["array", "string", "number"]), min_size=1, unique=True),
        "enum": st.lists(JSON, min_size=1, max_size=3),
        "const": JSON,
        "minimum": st.integers(-5, 5),
        "exclusiveMaximum": st.integers(-5, 5),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "pattern": st.sampled_from(["a", "^b", "[0-9]$"]),
        "uniqueItems": st.booleans(),
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), st.integers(0, 3)),
        **dict.fromkeys(("items", "contains", "additionalProperties", "propertyNames"), inner),
        **dict.fromkeys(("not", "if", "then", "else"), inner),
        **dict.fromkeys(
            ("prefixItems", "allOf", "anyOf", "oneOf"), st.lists(inner, min_size=1, max_size=2)
        ),
        "properties": st.dictionaries(st.text("abc", max_size=2), inner, max_size=3),
        "patternProperties": st.dictionaries(st.sampled_from(["a", "^b"]), inner, max_size=2),
        "required": st.lists(st.text("abc", max_size=2), max_size=2, unique=True),
        "minProperties": st.integers(0, 2),
        "maxProperties": st.integers(0, 2),
        "dependentRequired": st.dictionaries(
            st.text("ab", max_size=1), st.lists(st.text("abc", max_size=1), unique=True), max_size=1
        ),
        "dependentSchemas": st.dictionaries(st.text("ab", max_size=1), inner, max_size=1),
    }
    return st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: keywords[name] for name in names})
    )


SCHEMAS: Final[Any] = st.recursive(st.booleans() | st.just({}), schemas, max_leaves=5)


@given(SCHEMAS, JSON)
def test_a_schema_means_the_same_to_another_validator(schema: Any, value: Any) -> None:
    found = schema_errors(schema, value)
    assert (not found) == Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"uniqueItems": True}, [each * (2**61 - 1) for each in range(20_000)]),
        ({"uniqueItems": True}, [{"k": each} for each in range(20_000)]),
        ({"items": {"type": "integer"}}, ["x"] * 50_000),
        ({"pattern": "^(a|a)*$"}, "a" * 10_000 + "b"),
    ],
    ids=["colliding", "objects", "wrong", "pattern"],
)
def test_a_check_takes_time_in_proportion_to_the_value(schema: Any, value: Any) -> None:
    assert len(schema_errors(schema, value)) < 25


def test_a_circular_or_explosive_schema_is_abandoned() -> None:
    circle: dict[str, Any] = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert schema_errors(circle, 1) == [("arguments", "nested too deeply")]
    choices = {
        "anyOf": [{"properties": {"i": {"$ref": "#"}}}, {"properties": {"i": {"$ref": "#"}}}]
    }
    value: Any = {"i": 1}
    for _ in range(40):
        value = {"i": value}
    assert schema_errors({**choices, "type": "object"}, value) == [
        ("arguments", "too much to check against the schema; send less at once")
    ]


# --- the table ------------------------------------------------------------------------------------


def ours_on(on: str) -> set[str]:
    from mcpkit.prompts import PromptOptions
    from mcpkit.resources import ResourceOptions
    from mcpkit.sampling import SampleOptions
    from mcpkit.tools import ToolOptions

    options: dict[str, Any] = {
        "sample(…)": SampleOptions,
        "tool(…)": ToolOptions,
        "resource(…)": ResourceOptions,
        "prompt(…)": PromptOptions,
    }
    if on in options:
        return {*options[on].__optional_keys__}
    return {
        "ctx": {*dir(Context)},
        "app": {*dir(MCPKit)},
        "answer": {"data", "accepted", "action"},
        "MCPKit(…)": {*inspect.signature(MCPKit.__init__).parameters},
        "Image(…)": {*inspect.signature(Image.__init__).parameters},
        "Audio(…)": {*inspect.signature(Audio.__init__).parameters},
        "File(…)": {*inspect.signature(File.__init__).parameters},
        "elicit(…)": {*inspect.signature(Context.elicit).parameters},
        "enable(…)": {*inspect.signature(MCPKit.enable).parameters},
        "log(…)": {*inspect.signature(Context.log).parameters},
        "run(…)": {"host", "port", "http", *HttpSettings._fields},
        "annotations": {"read_only", "destructive", "idempotent", "open_world"},
    }[on]


@pytest.mark.parametrize(
    "on", sorted({each.on for each in peer_names().values()} - {"import", "module"})
)
def test_a_name_of_another_library_is_not_ours_and_leads_to_one(on: str) -> None:
    rows = [each for each in peer_names().values() if each.on == on]
    same = {"auth"}  # takes other values there: `mcpkit migrate` has to say so
    assert [each.theirs for each in rows if each.theirs in ours_on(on) - same] == []
    renamed = [each.ours for each in rows if each.how == "rename"]
    assert [each for each in renamed if each not in ours_on(on)] == []


def test_what_is_imported_instead_is_there() -> None:
    for each in peer_names().values():
        if each.on == "import" and each.ours:
            module, name = each.home
            assert hasattr(importlib.import_module(module), name), each


def test_everything_has_advice_and_a_place_in_both_guides() -> None:
    pages = [(ROOT / page).read_text(encoding="utf-8") for page in GUIDES.values()]
    headings = [
        {
            "#" + re.sub(r"[^\w\- ]", "", line.lstrip("# ").lower()).replace(" ", "-")
            for line in page.splitlines()
            if line.startswith("## ")
        }
        for page in pages
    ]

    for each in peer_names().values():
        assert each.advice, each
        assert all(each.guide in found for found in headings), each
