"""Functions and options become tools, resources and prompts, or are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from mcpkit._entries import mark, marked_in
from mcpkit._protocol.revisions import REVISIONS, Revision
from mcpkit._signature.converters import NotSerializable
from mcpkit._utils.json import UNSET
from mcpkit.context import Context
from mcpkit.dependencies import Complete, Depends, MirroredHeader
from mcpkit.errors import RegistrationError
from mcpkit.prompts import make_prompt
from mcpkit.resources import Resource, ResourceTemplate, make_resource
from mcpkit.tools import make_tool
from mcpkit.types import (
    Annotations,
    Icon,
    Image,
    Message,
    PromptResult,
    TextContent,
    ToolAnnotations,
    ToolResult,
)
from tests.authoring import LATEST, context_with, handler, run, wait
from tests.models import Color, Level, Point


def greet(name: str = "you") -> str:
    """Greet a guest."""
    return f"Hello, {name}!"


def still() -> str:
    return ""


def returning(annotation: Any) -> Callable[..., Any]:
    """A function with a return annotation."""

    def fn() -> Any: ...

    fn.__annotations__["return"] = annotation
    return fn


MAKERS: list[Callable[..., Any]] = [
    make_tool,
    make_prompt,
    lambda fn, *args, **options: make_resource(
        fn, "a://{?name}" if fn is greet else "a://b", *args, **options
    ),
]


@pytest.mark.parametrize("make", MAKERS, ids=["tool", "prompt", "resource"])
class TestCommonOptions:
    def test_have_defaults(self, make: Callable[..., Any]) -> None:
        made = make(greet)
        assert (made.name, made.description, made.title) == ("greet", "Greet a guest.", None)
        assert (made.plan.inline, make(greet, inline=True).plan.inline) == (False, True)
        assert make(greet).prefixed("en").name == "en_greet"
        assert make(greet, name="hello").prefixed("en").name == "en_hello"

    def test_a_lambda_needs_a_name(self, make: Callable[..., Any]) -> None:
        with pytest.raises(RegistrationError, match=r"a lambda has no name; pass name=\.\.\."):
            make(lambda: "x")
        assert make(lambda: "x", name="short").name == "short"

    def test_they_reach_the_wire(self, make: Callable[..., Any]) -> None:
        options = {"name": "hello", "title": "Say hello", "description": "Says hello."}
        wire = make(greet, icons=[Icon("data:,")], meta={"a": 1}, **options).to_wire(LATEST)
        assert options.items() <= wire.items()
        assert (wire["icons"], wire["_meta"]) == ([{"src": "data:,"}], {"a": 1})


SHARED = ToolAnnotations(open_world=False)
HINTS: list[dict[str, Any]] = [
    {hint: value}
    for hint in ("read_only", "destructive", "idempotent", "open_world")
    for value in (True, False)
]


class TestToolOptions:
    @pytest.mark.parametrize(
        ("options", "hints"),
        [
            ({}, None),
            *[(hint, ToolAnnotations(**hint)) for hint in HINTS],
            (
                {"annotations": ToolAnnotations(title="Hello", read_only=True)},
                ToolAnnotations(title="Hello", read_only=True),
            ),
            (
                {"annotations": SHARED, "read_only": True},
                ToolAnnotations(open_world=False, read_only=True),
            ),
            (
                {"annotations": {"title": "Hello", "openWorldHint": False}},
                ToolAnnotations(title="Hello", open_world=False),
            ),
        ],
        ids=str,
    )
    def test_hints(self, options: Any, hints: ToolAnnotations | None) -> None:
        assert make_tool(greet, **options).annotations == hints
        assert ToolAnnotations(open_world=False) == SHARED

    def test_the_output_schema_is_that_of_the_annotation_and_that_of_the_input_may_be_given(
        self,
    ) -> None:
        fn = returning(Point)
        assert make_tool(fn).to_wire(LATEST)["outputSchema"] == {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
            "required": ["x"],
        }
        assert "outputSchema" not in make_tool(fn, structured_output=False).to_wire(LATEST)

        wire = make_tool(greet, structured_output=True).to_wire(LATEST)
        assert wire["outputSchema"]["properties"] == {"result": {"type": "string"}}
        raw = make_tool(greet, structured_output="raw").to_wire(LATEST)
        assert raw["outputSchema"] == {"type": "string"}

        schema = {"type": "object", "properties": {"name": {"enum": ["you"]}}}
        assert make_tool(greet, input_schema=schema).to_wire(LATEST)["inputSchema"] == schema

    @pytest.mark.parametrize("revision", REVISIONS, ids=str)
    @pytest.mark.parametrize(
        ("options", "meta"),
        [
            ({"always_load": True}, {"anthropic/alwaysLoad": True}),
            ({"always_ask": True}, {"anthropic/requiresUserInteraction": True}),
            ({"host_max_result": 200_000}, {"anthropic/maxResultSizeChars": 200_000}),
            ({"search_hint": "hello hi"}, {"anthropic/searchHint": "hello hi"}),
            ({"always_load": False, "always_ask": False, "search_hint": ""}, None),
            (
                {"always_load": True, "meta": {"anthropic/alwaysLoad": False, "a/b": 1}},
                {"anthropic/alwaysLoad": False, "a/b": 1},
            ),
        ],
        ids=str,
    )
    def test_host_hints(self, options: Any, meta: Any, revision: Revision) -> None:
        """HOST-1…4, HOST-20, HOST-21: for every client, unless the revision has no ``_meta``."""
        wire = make_tool(greet, **options).to_wire(revision)
        assert wire.get("_meta") == (meta if "_meta" in revision.tool_members else None)

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("always_load", 1),
            ("host_max_result", 0),
            ("host_max_result", 500_001),
            ("host_max_result", True),
            ("search_hint", ["hello"]),
        ],
    )
    def test_a_host_hint_of_another_type_is_refused(self, option: str, value: Any) -> None:
        options: Any = {option: value}
        with pytest.raises(RegistrationError, match=rf"test_define\.py:\d+.*{option}= is a"):
            make_tool(greet, **options)


class Place(BaseModel):
    region: Annotated[str, MirroredHeader("Region")]


SHORT = {"type": "string", "maxLength": 2}


class TestHeaders:
    """`MirroredHeader` in the annotation of a tool's parameter (PROTOCOL.md §8.4)."""

    @pytest.mark.parametrize(
        ("annotation", "default", "schema", "path"),
        [
            (Annotated[str, MirroredHeader("A"), Field(max_length=2)], UNSET, SHORT, "x"),
            (Annotated[str, Field(max_length=2), MirroredHeader("A")], UNSET, SHORT, "x"),
            (
                Annotated[str, Field(alias="area", max_length=2), MirroredHeader("A")],
                UNSET,
                SHORT,
                "area",
            ),
            (Annotated[int, MirroredHeader("A")], 2, {"type": "integer", "default": 2}, "x"),
            (Annotated[bool | None, MirroredHeader("A")], None, {"type": "boolean"}, "x"),
            (Annotated[bool, MirroredHeader("A")] | None, None, {"type": "boolean"}, "x"),
        ],
        ids=str,
    )
    def test_what_is_declared(self, annotation: Any, default: Any, schema: Any, path: str) -> None:
        """HDR-2: the type that is advertised is the plain one."""
        made = make_tool(handler(annotation, default))
        assert made.input_schema["properties"][path] == {**schema, "x-mcp-header": "A"}
        assert [each.path for each in made.headers] == [(path,)]

    def test_of_a_choice_that_is_used_twice(self) -> None:
        """HDR-2: the type stands beside the name of the header, not behind a reference."""

        def fn(a: Annotated[Color, MirroredHeader("A")], b: Color) -> None: ...

        assert make_tool(fn).input_schema["properties"] == {
            "a": {
                "type": "string",
                "enum": ["red", "blue"],
                "description": "A color.",
                "x-mcp-header": "A",
            },
            "b": {"$ref": "#/$defs/Color"},
        }

    def test_in_other_schemas(self) -> None:
        """HDR-2: of members, and of a schema that is given; not of results."""
        assert [each.path for each in make_tool(handler(Place)).headers] == [("x", "region")]
        assert make_tool(greet).headers == ()
        assert "x-mcp-header" not in str(make_tool(returning(Place)).to_wire(LATEST))
        named = {"type": "string", "x-mcp-header": "N"}
        schema = {"type": "object", "properties": {"name": named}}
        (header,) = make_tool(greet, input_schema=schema).headers
        assert header.name == "Mcp-Param-N"
        del named["type"]
        with pytest.raises(RegistrationError, match=r"greet\(\): "):
            make_tool(greet, input_schema=schema)

    @pytest.mark.parametrize(
        ("annotation", "fix"),
        [
            (Annotated[str, MirroredHeader("")], "use letters, digits and hyphens"),
            (Annotated[float, MirroredHeader("A")], "needs the type string, integer or boolean"),
            (Annotated[str | None, MirroredHeader("A")], "= None in Python"),
            (list[Annotated[str, MirroredHeader("A")]], "declare it on a property"),
            (list[Place], "declare it on a property"),
        ],
    )
    def test_what_breaks_the_rules_is_refused(self, annotation: Any, fix: str) -> None:
        """HDR-1, HDR-2, HDR-3."""
        with pytest.raises(RegistrationError, match=rf"\w+\(\): .* at x.*{fix}"):
            make_tool(handler(annotation))

    @pytest.mark.parametrize("uri", [None, "a://{x}", "a://b{?x}"])
    def test_prompts_and_resources_have_none(self, uri: str | None) -> None:
        fn = handler(Annotated[str, MirroredHeader("Name")], "a")
        with pytest.raises(RegistrationError, match=r"fn\(\): x has a MirroredHeader.*; remove it"):
            make_resource(fn, uri) if uri else make_prompt(fn)


class TestResource:
    def test_variables_make_it_a_template_and_a_list_is_one_text_if_that_is_wanted(self) -> None:
        assert isinstance(make_resource(still, "a://b"), Resource)
        for wanted in (str, str | None):
            made = make_resource(handler(wanted), "a://{x*}")
            assert isinstance(made, ResourceTemplate)
            assert made.template.match("a://x/y") == {"x": "x/y"}

    def test_its_uri(self) -> None:
        def fn(city: str, day: str) -> str:
            return city + day

        assert make_resource(still, None).key == "resource://still"
        assert make_resource(fn, None).key == "resource://fn/{city}/{day}"
        assert make_resource(still, "a://b/c").prefixed("en").key == "a://en/b/c"
        assert make_resource(greet, "a://{name}").prefixed("en").key == "a://en/{name}"
        for uri in ("urn:isbn:123", "mailto:me@example.com", "a+b:c", "data:,x"):
            assert make_resource(still, uri).key == uri

    @pytest.mark.parametrize(
        ("options", "annotations"),
        [
            ({}, None),
            ({"priority": 0.0}, Annotations(priority=0.0)),
            ({"annotations": Annotations(priority=1.0)}, Annotations(priority=1.0)),
            (
                {"annotations": Annotations(audience=["user"]), "priority": 1.0},
                Annotations(audience=["user"], priority=1.0),
            ),
            ({"annotations": {"lastModified": "2026"}}, Annotations(last_modified="2026")),
        ],
    )
    def test_annotations(self, options: Any, annotations: Annotations | None) -> None:
        assert make_resource(still, "a://b", **options).annotations == annotations

    @pytest.mark.parametrize(
        ("returns", "mime_type"),
        [
            (str, "text/plain"),
            (Annotated[str, "x"], "text/plain"),
            (bytes, "application/octet-stream"),
            (dict[str, int], "application/json"),
            (list[Point], "application/json"),
            (Point, "application/json"),
            (int, "application/json"),
            (Any, None),
            (None, None),
            (Image, None),
            (ToolResult, None),
        ],
        ids=str,
    )
    def test_its_mime_type_is_that_of_the_annotation(
        self, returns: Any, mime_type: str | None
    ) -> None:
        fn = returning(returns)
        assert make_resource(fn, "a://b").mime_type == mime_type
        given = make_resource(fn, "a://b", mime_type="text/html", size=3)
        assert given.mime_type == "text/html"
        assert given.to_wire(LATEST)["size"] == 3


GIVEN = handler(str)
OPTIONAL = handler(str, "x")


class TestVariables:
    @pytest.mark.parametrize(
        ("uri", "fn"),
        [
            ("a://{x}", GIVEN),
            ("a://{+x}", GIVEN),
            ("a://b{/x}", OPTIONAL),
            ("a://b{?x}", OPTIONAL),
            ("a://{sort}", handler(Annotated[str, Field(alias="sort")])),
        ],
    )
    def test_fit(self, uri: str, fn: Callable[..., Any]) -> None:
        made: Any = make_resource(fn, uri)
        assert made.key == uri
        (name,) = (each.name for each in made.template.variables)
        assert run(fn, made.accepts.validate({name: "b"})) == "b"

    @pytest.mark.parametrize(
        ("uri", "fn", "message"),
        [
            ("a://b", GIVEN, "so nothing fills x; write them into the URI as {x}"),
            ("a://{nome}", GIVEN, "has a variable {nome}, but no parameter takes it"),
            ("a://{x}", still, "has a variable {x}, but no parameter takes it"),
            ("a://b{?x}", GIVEN, "{x} may be missing from a URI; give the parameter a"),
            ("a://b{?x}", handler(str, Field(title="X")), "give the parameter a default"),
            ("a://b{?x}", handler(list[str], []), "{x} is one text and never a list; write x*"),
            ("a://{x}", handler(set[int] | None), "{x} is one text and never a list; write x*"),
            ("a://{x", GIVEN, "never closed"),
            ("b", still, "'b' has no scheme; write \"resource://b\""),
            ("b/{x}", GIVEN, "has no scheme"),
            ("/b", still, "has no scheme"),
            ("1a:b", still, "has no scheme"),
        ],
    )
    def test_that_do_not_fit(self, uri: str, fn: Callable[..., Any], message: str) -> None:
        with pytest.raises(RegistrationError) as caught:
            make_resource(fn, uri)
        file, line = Path(fn.__code__.co_filename).name, fn.__code__.co_firstlineno
        assert str(caught.value).startswith(f"{file}:{line}: {fn.__name__}(): ")
        assert message in str(caught.value)

    def test_must_all_be_filled_except_dependencies(self) -> None:
        def fn(city: str, day: str, more: Annotated[str, Depends(still)]) -> str:
            return city + day + more

        assert make_resource(fn, "a://{city}/{day}").key == "a://{city}/{day}"
        with pytest.raises(RegistrationError, match=r"nothing in the URI fills day; add {day} to"):
            make_resource(fn, "a://{city}")


PROMPT_ARGUMENTS: list[tuple[Any, str, Any]] = [
    (str, "3", "3"),
    (int, "3", 3),
    (bool, "true", True),
    (int | None, "3", 3),
    (list[int], "[1, 2]", [1, 2]),
    (Point, '{"x": 1}', Point(x=1)),
    (Literal["a", "b"], "a", "a"),
    (Literal[1, 2], "2", 2),
    (Color, "red", Color.RED),
    (Level, "1", Level.LOW),
]


@pytest.mark.parametrize(("annotation", "text", "value"), PROMPT_ARGUMENTS, ids=str)
def test_prompt_arguments_are_made_from_text(annotation: Any, text: str, value: Any) -> None:
    """PROMPT-3"""
    made = make_prompt(handler(Annotated[annotation, Field(title="The X")]))
    assert made.accepts.validate({"x": text}) == {"x": value}
    (argument,) = made.to_wire(LATEST)["arguments"]
    assert (argument["name"], argument["title"], argument["required"]) == ("x", "The X", True)


class Named(str, Enum):
    RED = "red"


CHOICES: list[tuple[Any, list[str]]] = [
    (Literal["a", "b"], ["a", "b"]),
    (Literal[1, 2], ["1", "2"]),
    (Literal["a", True], ["a", "true"]),
    (Literal[Named.RED], ["red"]),
    (Color, ["red", "blue"]),
    (Level, ["1", "2"]),
    (bool, ["true", "false"]),
    (Optional[Color], ["red", "blue"]),  # noqa: UP045 - the old spelling is the point
    (Color | None, ["red", "blue"]),
    (int | Literal["auto"], ["auto"]),
    (Annotated[Literal["a"], "x"] | None, ["a"]),
    (TypeAliasType("Mode", Literal["a"]), ["a"]),
    (str, []),
    (int, []),
    (dict[Literal["a"], int], []),
    (Any, []),
]


@pytest.mark.parametrize(("annotation", "choices"), CHOICES, ids=str)
def test_choices_of_a_type(annotation: Any, choices: list[str]) -> None:
    assert suggestions(annotation) == (choices or None)


def suggestions(
    annotation: Any,
    typed: str = "",
    others: dict[str, str] | None = None,
    context: Context[Any] | None = None,
) -> list[str] | None:
    """Return the completions of ``city``; None if it has none."""

    def fn(city: Any, country: str = "") -> None: ...

    fn.__annotations__["city"] = annotation
    completer = make_prompt(fn).completers.get("city")
    if completer is None:
        return None
    return [*wait(lambda: completer(typed, others, context or context_with()))]


CITIES = ["Oslo", "Lisbon", "Rome"]


class TestDescriptions:
    """What a docstring says, and no schema does, stays where a model reads it."""

    @pytest.mark.parametrize(
        ("returns", "said", "kept"),
        [
            (str, "The price, in cents.", True),
            (int, "The price, in cents.", True),
            (int, "int: The price, in cents.", True),
            (int, "int", False),
            (dict[str, Any], "A dict of str", False),
            (Point, "Point", False),
            (Point, "A Point object.", False),
            (Point, "Point: Where it is.", True),
            (
                Annotated[int, Field(description="The price, in cents.")],
                "The price, in cents.",
                False,
            ),
            (None, "None", False),
        ],
        ids=str,
    )
    def test_of_the_result_stay_unless_the_schema_says_it(
        self, returns: Any, said: str, kept: bool
    ) -> None:
        fn = returning(returns)
        fn.__doc__ = f"Do.\n\nReturns:\n    {said}"
        assert make_tool(fn).description == (f"Do.\n\nReturns: {said}" if kept else "Do.")
        fn.__annotations__.clear()
        assert make_tool(fn).description == f"Do.\n\nReturns: {said}"

    def test_of_members_stay_unless_the_schema_says_them(self) -> None:
        class Stay(BaseModel):
            nights: int = Field(description="How many.")
            city: str

        fn = returning(Stay)
        fn.__doc__ = "Do.\n\nReturns:\n    nights: How many."
        assert make_tool(fn).description == "Do."
        fn.__doc__ += "\n    city: The nearest one."
        assert "city: The nearest one." in (make_tool(fn).description or "")

    def test_of_parameters_stay_where_no_schema_says_them(self) -> None:
        def fn(city: str, ctx: Context) -> str:
            """Do.

            Args:
                city: Where.
                ctx: The context.
            """
            return city

        made = make_tool(fn)
        assert made.description == "Do."
        assert made.input_schema["properties"]["city"]["description"] == "Where."
        assert make_resource(fn, "a://{city}").description == "Do.\n\nArgs:\n- city: Where."
        assert make_resource(fn, "a://{city}", description="Its own.").description == "Its own."


def messages_of(value: Any) -> list[Message]:
    """The messages that a prompt makes of what its function returns."""
    made = make_prompt(lambda: value, name="a")
    found: PromptResult = wait(lambda: made.get({}, context_with()))
    return list(found.messages)  # type: ignore[arg-type]


class TestMessages:
    @pytest.mark.parametrize(
        ("value", "messages"),
        [
            ("hi", [Message("hi")]),
            ({"role": "user", "content": "hi"}, [Message("hi")]),
            ({"role": "assistant", "content": "hi"}, [Message("hi", "assistant")]),
            ([{"role": "user", "content": "a"}, "b"], [Message("a"), Message("b")]),
            (
                {"role": "assistant", "content": {"type": "text", "text": "a"}},
                [Message(TextContent("a"), "assistant")],
            ),
            (
                {"role": "user", "content": ["a", {"type": "text", "text": "b"}]},
                [Message("a"), Message(TextContent("b"))],
            ),
            ({"role": "user", "content": {"a": 1}}, [Message(TextContent('{"a":1}'))]),
            ({"role": "user"}, [Message(TextContent('{"role":"user"}'))]),
            ({"type": "text", "text": "a"}, [Message(TextContent("a"))]),
            ({"type": "odd", "text": "a"}, [Message(TextContent('{"type":"odd","text":"a"}'))]),
            (PromptResult([{"role": "user", "content": "hi"}]), [Message("hi")]),
            ([], []),
        ],
        ids=str,
    )
    def test_may_be_text_or_dicts(self, value: Any, messages: list[Message]) -> None:
        assert messages_of(value) == messages

    @pytest.mark.parametrize("role", ["system", "tool", "User", "", None, 7])
    def test_of_another_role_are_refused(self, role: Any) -> None:
        with pytest.raises(NotSerializable, match='has the role "user" or "assistant", not'):
            messages_of([{"role": role, "content": "hi"}])
        with pytest.raises(ValueError, match='has the role "user" or "assistant", not'):
            Message("hi", role)

        with pytest.raises(NotSerializable, match="has a role and a content, but no name"):
            messages_of({"role": "user", "content": "hi", "name": "Ada"})


class TestComplete:
    @pytest.mark.parametrize(
        ("typed", "found"),
        [
            ("", CITIES),
            ("o", ["Oslo", "Lisbon", "Rome"]),
            ("L", ["Lisbon", "Oslo"]),
            ("ROME", ["Rome"]),
            ("x", []),
        ],
    )
    def test_a_list_is_searched_from_the_start_first(self, typed: str, found: list[str]) -> None:
        assert suggestions(Annotated[str, Complete(CITIES)], typed) == found

    def test_a_generator_may_be_asked_again_and_a_type_with_choices_needs_none(self) -> None:
        generated = Annotated[str, Complete(each for each in CITIES)]
        completer = make_prompt(handler(generated)).completers["x"]
        for _ in range(2):
            assert list(wait(lambda: completer("", None, context_with()))) == CITIES
        for annotation in (Color, Color | None, Literal["red", "blue"]):
            assert suggestions(annotation, "b") == ["blue"]
        assert suggestions(str) is None

    @pytest.mark.parametrize("others", [None, {}, {"country": "no", "odd": "x"}])
    def test_a_function_gets_the_text_other_arguments_and_the_context(self, others: Any) -> None:
        def find(typed: str, country: str | None) -> list[str]:
            return [f"{typed}/{country}"]

        async def later(typed: str, country: str | None = "dk") -> Iterable[str]:
            return (f"{typed}/{country}" for _ in range(2))

        country = "no" if others else None
        assert suggestions(Annotated[str, Complete(find)], "os", others) == [f"os/{country}"]
        found = suggestions(Annotated[str, Complete(later)], "os", others)
        assert found == [f"os/{country or 'dk'}"] * 2

        async def stateful(typed: str, ctx: Context) -> list[str]:
            return [ctx.state]

        found = suggestions(Annotated[str, Complete(stateful)], context=context_with(state="s"))
        assert found == ["s"]

    @pytest.mark.parametrize(
        ("find", "said"),
        [
            (lambda: CITIES, "takes the text so far as its first argument"),
            (lambda typed, planet: CITIES, r"planet is not an argument of fn\(\)"),
        ],
    )
    def test_a_function_with_another_signature_is_refused(self, find: Any, said: str) -> None:
        with pytest.raises(RegistrationError, match=said):
            suggestions(Annotated[str, Complete(find)])

    def test_the_name_on_the_wire_counts_and_templates_have_them_too(self) -> None:
        fn = handler(Annotated[Color, Field(alias="class")])
        assert list(make_prompt(fn).completers) == ["class"]
        made = make_resource(handler(bool), "a://{x}")
        assert isinstance(made, ResourceTemplate)
        assert list(made.completers) == ["x"]


def test_marks_are_found_once_and_in_order() -> None:
    first, second = returning(str), returning(str)
    mark(first, make_tool, name="b")
    mark(first, make_resource, "a://b")
    mark(second, make_tool, name="a")
    module = ModuleType("some")
    vars(module).update(first=first, plain=greet, second=second, again=first)
    found = marked_in(module)
    assert found == [
        (first, make_tool, (), {"name": "b"}),
        (first, make_resource, ("a://b",), {}),
        (second, make_tool, (), {"name": "a"}),
    ]
    with pytest.raises(RegistrationError, match=r"len cannot be marked; use a decorator of"):
        mark(len, make_tool)
