"""Functions and options become tools, resources and prompts, or are refused."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypeAliasType

from mcpkit._entries import mark, marked_in
from mcpkit._protocol.headers import HeaderParameter
from mcpkit._signature.converters import NotSerializable
from mcpkit.completion import choices_of
from mcpkit.context import Context
from mcpkit.dependencies import Complete, Depends, Header
from mcpkit.errors import RegistrationError
from mcpkit.prompts import Prompt, make_prompt
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
from tests.authoring import LATEST, context_with, handler, run, schema_for, wait


def greet(name: str = "you") -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


def still() -> str:
    return ""


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Point(BaseModel):
    x: int


MAKERS: list[Callable[..., Any]] = [
    make_tool,
    make_prompt,
    lambda fn, **options: make_resource("a://{?name}" if fn is greet else "a://b", fn, **options),
]


@pytest.mark.parametrize("make", MAKERS, ids=["tool", "prompt", "resource"])
class TestCommonOptions:
    def test_name_and_description_are_the_functions(self, make: Callable[..., Any]) -> None:
        made = make(greet)
        assert (made.name, made.description, made.title) == ("greet", "Greet somebody.", None)

    @pytest.mark.parametrize(
        ("option", "value"),
        [
            ("name", "hello"),
            ("title", "Say hello"),
            ("description", "Says hello."),
            ("icons", [Icon("https://example.com/a.png")]),
            ("meta", {"example.com/a": 1}),
        ],
    )
    def test_may_be_given(self, make: Callable[..., Any], option: str, value: Any) -> None:
        assert getattr(make(greet, **{option: value}), option) == value

    def test_tags_are_a_set(self, make: Callable[..., Any]) -> None:
        assert make(greet, tags=["a", "b", "a"]).tags == {"a", "b"}

    def test_a_prefix_goes_before_the_name(self, make: Callable[..., Any]) -> None:
        assert make(greet, prefix="en").name == "en_greet"

    def test_a_prefix_goes_before_a_given_name(self, make: Callable[..., Any]) -> None:
        assert make(greet, prefix="en", name="hello").name == "en_hello"

    def test_a_lambda_needs_a_name(self, make: Callable[..., Any]) -> None:
        with pytest.raises(RegistrationError, match=r"a lambda has no name; pass name=\.\.\."):
            make(lambda: "x")

    def test_a_lambda_with_a_name_is_fine(self, make: Callable[..., Any]) -> None:
        assert make(lambda: "x", name="short").name == "short"

    def test_it_runs_inline_when_told_to(self, make: Callable[..., Any]) -> None:
        assert (make(greet).plan.inline, make(greet, inline=True).plan.inline) == (False, True)

    def test_it_reaches_the_wire(self, make: Callable[..., Any]) -> None:
        wire = make(greet, title="T", icons=[Icon("data:,")], meta={"a": 1}).to_wire(LATEST)
        assert (wire["title"], wire["icons"], wire["_meta"]) == ("T", [{"src": "data:,"}], {"a": 1})


class TestToolOptions:
    @pytest.mark.parametrize("hint", ["read_only", "destructive", "idempotent", "open_world"])
    @pytest.mark.parametrize("value", [True, False])
    def test_a_hint_by_itself(self, hint: Any, value: bool) -> None:
        options: Any = {hint: value}
        assert make_tool(greet, **options).annotations == ToolAnnotations(**options)

    def test_no_hints(self) -> None:
        assert make_tool(greet).annotations is None

    def test_all_hints_together(self) -> None:
        hints = ToolAnnotations(title="Hello", read_only=True)
        assert make_tool(greet, annotations=hints).annotations == hints

    def test_a_hint_beside_others(self) -> None:
        hints = ToolAnnotations(open_world=False)
        made = make_tool(greet, annotations=hints, read_only=True)
        assert made.annotations == ToolAnnotations(open_world=False, read_only=True)

    def test_hints_may_be_shared_between_tools(self) -> None:
        shared = ToolAnnotations(open_world=False)
        make_tool(greet, annotations=shared, read_only=True)
        assert shared == ToolAnnotations(open_world=False)

    def test_the_output_schema_is_that_of_the_annotation(self) -> None:
        def fn() -> Point: ...  # type: ignore[empty-body]

        assert make_tool(fn).to_wire(LATEST)["outputSchema"] == {
            "type": "object",
            "properties": {"x": {"type": "integer"}},
            "required": ["x"],
        }

    def test_structured_output_may_be_turned_off(self) -> None:
        def fn() -> Point: ...  # type: ignore[empty-body]

        assert "outputSchema" not in make_tool(fn, structured_output=False).to_wire(LATEST)

    def test_structured_output_may_be_insisted_on(self) -> None:
        wire = make_tool(greet, structured_output=True).to_wire(LATEST)
        assert wire["outputSchema"]["properties"] == {"result": {"type": "string"}}
        raw = make_tool(greet, structured_output="raw").to_wire(LATEST)
        assert raw["outputSchema"] == {"type": "string"}

    def test_another_input_schema_may_be_advertised(self) -> None:
        schema = {"type": "object", "properties": {"name": {"enum": ["you"]}}}
        assert make_tool(greet, input_schema=schema).to_wire(LATEST)["inputSchema"] == schema


class Place(BaseModel):
    region: Annotated[str, Header("Region")]


def text_header(default: Any) -> Callable[..., str]:
    def fn(name: Annotated[str, Header("Name")] = default) -> str:
        return name

    return fn


class TestHeaders:
    """`Header` in the annotation of a tool's parameter (PROTOCOL.md §8.4)."""

    def test_most_tools_have_none(self) -> None:
        assert make_tool(greet).headers == ()

    def test_the_schema_and_the_tool_know_it(self) -> None:
        def fn(region: Annotated[str, Header("Region")]) -> None: ...

        made = make_tool(fn)
        schema = made.to_wire(LATEST)["inputSchema"]
        assert schema["properties"] == {"region": {"type": "string", "x-mcp-header": "Region"}}
        assert made.headers == (
            HeaderParameter(b"mcp-param-region", "Mcp-Param-Region", ("region",), "string"),
        )

    @pytest.mark.parametrize(
        "annotation",
        [
            Annotated[str, Header("A"), Field(description="Where", min_length=2)],
            Annotated[str, Field(description="Where", min_length=2), Header("A")],
        ],
    )
    def test_beside_what_pydantic_knows(self, annotation: Any) -> None:
        assert schema_for(annotation) == {
            "type": "string",
            "description": "Where",
            "minLength": 2,
            "x-mcp-header": "A",
        }

    def test_with_a_default(self) -> None:
        assert schema_for(Annotated[int, Header("A")], 2) == {
            "type": "integer",
            "default": 2,
            "x-mcp-header": "A",
        }

    @pytest.mark.parametrize(
        "annotation",
        [Annotated[bool | None, Header("A")], Annotated[bool, Header("A")] | None],
    )
    def test_with_a_default_of_none(self, annotation: Any) -> None:
        """HDR-2: the type that is advertised is the plain one."""
        made = make_tool(handler(annotation, None))
        assert made.input_schema["properties"]["x"] == {"type": "boolean", "x-mcp-header": "A"}
        assert [each.type for each in made.headers] == ["boolean"]

    def test_with_another_name_on_the_wire(self) -> None:
        made = make_tool(handler(Annotated[str, Field(alias="area"), Header("A")]))
        assert [each.path for each in made.headers] == [("area",)]

    def test_of_a_choice(self) -> None:
        made = make_tool(handler(Annotated[Color, Header("Color")]))
        assert [each.type for each in made.headers] == ["string"]

    def test_of_a_choice_that_is_used_twice(self) -> None:
        """HDR-2: the type stands beside the name of the header, not behind a reference."""

        def fn(a: Annotated[Color, Header("A")], b: Color) -> None: ...

        schema = make_tool(fn).input_schema
        assert schema["properties"] == {
            "a": {"type": "string", "enum": ["red", "blue"], "x-mcp-header": "A"},
            "b": {"$ref": "#/$defs/Color"},
        }

    def test_inside_a_model(self) -> None:
        """HDR-2."""

        def fn(place: Place) -> None: ...

        assert [each.path for each in make_tool(fn).headers] == [("place", "region")]

    def test_what_a_tool_returns_has_no_headers(self) -> None:
        def fn() -> Place: ...  # type: ignore[empty-body]

        assert "x-mcp-header" not in str(make_tool(fn).to_wire(LATEST))

    def test_the_value_is_validated_as_ever(self) -> None:
        made = make_tool(handler(Annotated[int, Header("A")]))
        assert made.accepts.validate({"x": 3}) == {"x": 3}

    def test_in_a_schema_that_is_given(self) -> None:
        schema = {"type": "object", "properties": {"name": {"type": "string", "x-mcp-header": "N"}}}
        assert [each.name for each in make_tool(greet, input_schema=schema).headers] == [
            "Mcp-Param-N"
        ]

    @pytest.mark.parametrize(
        ("annotation", "fix"),
        [
            (Annotated[str, Header("")], "use letters, digits and hyphens"),
            (Annotated[str, Header("My Region")], "use letters, digits and hyphens"),
            (Annotated[float, Header("A")], "change the type, or remove the header"),
            (Annotated[int | str, Header("A")], "change the type, or remove the header"),
            (Annotated[list[str], Header("A")], "change the type, or remove the header"),
            (Annotated[str | None, Header("A")], "= None in Python"),
            (list[Annotated[str, Header("A")]], "declare it on a property"),
            (list[Place], "declare it on a property"),
        ],
    )
    def test_what_breaks_the_rules_is_refused(self, annotation: Any, fix: str) -> None:
        """HDR-1, HDR-2, HDR-3."""
        with pytest.raises(RegistrationError, match=rf"\w+\(\): .* at x.*{fix}"):
            make_tool(handler(annotation))

    def test_two_parameters_with_one_header_are_refused(self) -> None:
        """HDR-1, HDR-3."""

        def fn(a: Annotated[int, Header("Id")], b: Annotated[int, Header("ID")]) -> None: ...

        with pytest.raises(RegistrationError, match=r"fn\(\): .* at b .* taken by a, .* another"):
            make_tool(fn)

    def test_a_schema_that_is_given_follows_the_rules_too(self) -> None:
        """HDR-3."""
        schema = {"type": "object", "properties": {"name": {"x-mcp-header": "N"}}}
        with pytest.raises(RegistrationError, match=r"greet\(\): "):
            make_tool(greet, input_schema=schema)

    def test_prompts_have_none(self) -> None:
        with pytest.raises(RegistrationError, match=r"fn\(\): name has a Header.*; remove it"):
            make_prompt(text_header("a"))

    @pytest.mark.parametrize("uri", ["a://{name}", "a://b{?name}"])
    def test_resources_have_none(self, uri: str) -> None:
        with pytest.raises(RegistrationError, match=r"fn\(\): name has a Header.*; remove it"):
            make_resource(uri, text_header("a"))


class TestResource:
    @pytest.mark.parametrize("wanted", [str, str | None])
    def test_a_list_in_a_uri_is_one_text_if_text_is_wanted(self, wanted: Any) -> None:
        def fn(path: Any) -> str:
            return str(path)

        fn.__annotations__["path"] = wanted
        made = make_resource("a://{path*}", fn)
        assert isinstance(made, ResourceTemplate)
        assert made.template.match("a://x/y") == {"path": "x/y"}

    def test_a_uri_without_variables_is_a_resource(self) -> None:
        assert isinstance(make_resource("a://b", still), Resource)

    def test_a_uri_with_variables_is_a_template(self) -> None:
        assert isinstance(make_resource("a://{name}", greet), ResourceTemplate)

    def test_the_uri_is_the_functions_name_if_none_is_given(self) -> None:
        made = make_resource(None, still)
        assert made.key == "resource://still"

    def test_its_arguments_are_segments_of_that(self) -> None:
        def fn(city: str, day: str) -> str:
            return city + day

        assert make_resource(None, fn).key == "resource://fn/{city}/{day}"

    @pytest.mark.parametrize(
        ("uri", "prefixed"), [("a://b/c", "a://en/b/c"), ("a://{name}", "a://en/{name}")]
    )
    def test_a_prefix_follows_the_scheme(self, uri: str, prefixed: str) -> None:
        assert make_resource(uri, greet if "{" in uri else still, prefix="en").key == prefixed

    @pytest.mark.parametrize("uri", ["urn:isbn:123", "mailto:me@example.com", "a+b:c", "data:,x"])
    def test_a_uri_needs_no_slashes(self, uri: str) -> None:
        assert make_resource(uri, still).key == uri

    def test_its_size_is_sent(self) -> None:
        assert make_resource("a://b", still, size=3).to_wire(LATEST)["size"] == 3

    @pytest.mark.parametrize(
        ("options", "annotations"),
        [
            ({}, None),
            ({"audience": ["user"]}, Annotations(audience=["user"])),
            ({"priority": 0.0}, Annotations(priority=0.0)),
            ({"annotations": Annotations(priority=1.0)}, Annotations(priority=1.0)),
            (
                {"annotations": Annotations(audience=["user"]), "priority": 1.0},
                Annotations(audience=["user"], priority=1.0),
            ),
        ],
    )
    def test_annotations(self, options: Any, annotations: Annotations | None) -> None:
        assert make_resource("a://b", still, **options).annotations == annotations

    def test_annotations_may_be_shared(self) -> None:
        shared = Annotations(audience=["user"])
        make_resource("a://b", still, annotations=shared, priority=1.0)
        assert shared == Annotations(audience=["user"])

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
        def fn() -> Any: ...

        fn.__annotations__["return"] = returns
        assert make_resource("a://b", fn).mime_type == mime_type

    def test_its_mime_type_may_be_given(self) -> None:
        assert make_resource("a://b", still, mime_type="text/html").mime_type == "text/html"


def named(name: str) -> str:
    return name


def optional(name: str = "x") -> str:
    return name


def required_field(name: str = Field(description="Who.")) -> str:
    return name


def aliased(kind: Annotated[str, Field(alias="sort")]) -> str:
    return kind


class TestVariables:
    @pytest.mark.parametrize(
        ("uri", "fn"),
        [
            ("a://{name}", named),
            ("a://{+name}", named),
            ("a://b{/name}", optional),
            ("a://b{?name}", optional),
            ("a://{sort}", aliased),
        ],
    )
    def test_fit(self, uri: str, fn: Callable[..., Any]) -> None:
        assert make_resource(uri, fn).key == uri

    def test_an_alias_reaches_its_parameter(self) -> None:
        made = make_resource("a://{sort}", aliased)
        assert isinstance(made, ResourceTemplate)
        assert run(aliased, made.accepts.validate({"sort": "b"})) == "b"

    @pytest.mark.parametrize(
        ("uri", "fn", "message"),
        [
            (
                "a://b",
                named,
                "has no variables, so nothing fills name; write them into the URI as {name}",
            ),
            ("a://{nome}", named, "has a variable {nome}, but no parameter takes it"),
            ("a://{x}", still, "has a variable {x}, but no parameter takes it"),
            (
                "a://b{?name}",
                named,
                "{name} may be missing from a URI; give the parameter a default",
            ),
            ("a://b{?name}", required_field, "give the parameter a default"),
            ("a://{name", named, "never closed"),
            ("b", still, "'b' has no scheme; write \"resource://b\""),
            ("b/{name}", named, "has no scheme"),
            ("/b", still, "has no scheme"),
            ("1a:b", still, "has no scheme"),
        ],
    )
    def test_that_do_not_fit(self, uri: str, fn: Callable[..., Any], message: str) -> None:
        with pytest.raises(RegistrationError) as caught:
            make_resource(uri, fn)
        line = fn.__code__.co_firstlineno
        assert str(caught.value).startswith(f"test_define.py:{line}: {fn.__name__}(): ")
        assert message in str(caught.value)

    def test_that_are_not_all_filled(self) -> None:
        def fn(city: str, day: str) -> str:
            return city + day

        with pytest.raises(
            RegistrationError, match=r"nothing in the URI fills day; add {day} to it"
        ):
            make_resource("a://{city}", fn)

    def test_dependencies_are_none(self) -> None:
        def fn(city: str, more: Annotated[str, Depends(still)]) -> str:
            return city + more

        assert make_resource("a://{city}", fn).key == "a://{city}"


PROMPT_ARGUMENTS: list[tuple[Any, str, Any]] = [
    (str, "3", "3"),
    (int, "3", 3),
    (float, "1.5", 1.5),
    (bool, "true", True),
    (int | None, "3", 3),
    (list[int], "[1, 2]", [1, 2]),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (Point, '{"x": 1}', Point(x=1)),
    (Literal["a", "b"], "a", "a"),
    (Literal[1, 2], "2", 2),
    (Color, "red", Color.RED),
    (Level, "1", Level.LOW),
]


def test_a_prompt_argument_has_its_title() -> None:
    def fn(x: Annotated[str, Field(title="The X")]) -> str:
        return x

    (argument,) = make_prompt(fn).to_wire(LATEST)["arguments"]
    assert argument == {"name": "x", "title": "The X", "required": True}


@pytest.mark.parametrize(("annotation", "text", "value"), PROMPT_ARGUMENTS, ids=str)
def test_prompt_arguments_are_made_from_text(annotation: Any, text: str, value: Any) -> None:
    """PROMPT-3"""

    def fn(x: Any) -> Any:
        return x

    fn.__annotations__ = {"x": annotation}
    assert make_prompt(fn).accepts.validate({"x": text}) == {"x": value}


CHOICES: list[tuple[Any, list[str]]] = [
    (Literal["a", "b"], ["a", "b"]),
    (Literal[1, 2], ["1", "2"]),
    (Literal[Color.RED], ["red"]),
    (Color, ["red", "blue"]),
    (Level, ["1"]),
    (bool, ["true", "false"]),
    (Annotated[bool, Field(description="x")], ["true", "false"]),
    (Optional[Color], ["red", "blue"]),  # noqa: UP045 - the old spelling is the point
    (Color | None, ["red", "blue"]),
    (int | Literal["auto"], ["auto"]),
    (Annotated[Literal["a"], "x"] | None, ["a"]),
    (TypeAliasType("Mode", Literal["a"]), ["a"]),
    (str, []),
    (int, []),
    (list[Color], []),
    (dict[Literal["a"], int], []),
    (Any, []),
]


@pytest.mark.parametrize(("annotation", "choices"), CHOICES, ids=str)
def test_choices_of_a_type(annotation: Any, choices: list[str]) -> None:
    assert choices_of(annotation) == choices


def suggestions(
    annotation: Any,
    typed: str = "",
    others: dict[str, str] | None = None,
    context: Context[Any] | None = None,
) -> list[str] | None:
    """What is suggested for ``city``; None if nobody is asked."""

    def fn(city: Any, country: str = "") -> str:
        return f"{city}{country}"

    fn.__annotations__["city"] = annotation
    completer = make_prompt(fn).completers.get("city")
    if completer is None:
        return None
    found = wait(lambda: completer(typed, others, context or context_with()))
    return list(found)


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
        def fn() -> Any: ...

        fn.__annotations__["return"] = returns
        fn.__doc__ = f"Do.\n\nReturns:\n    {said}"
        assert make_tool(fn).description == (f"Do.\n\nReturns: {said}" if kept else "Do.")

    def test_of_the_result_stay_without_an_annotation(self) -> None:
        def fn():  # type: ignore[no-untyped-def]
            """Do.

            Returns:
                dict
            """

        assert make_tool(fn).description == "Do.\n\nReturns: dict"

    def test_of_members_stay_unless_the_schema_says_them(self) -> None:
        class Stay(BaseModel):
            nights: int = Field(description="How many.")
            city: str

        def fn() -> Stay: ...  # type: ignore[empty-body]

        fn.__doc__ = "Do.\n\nReturns:\n    nights: How many."
        assert make_tool(fn).description == "Do."
        fn.__doc__ += "\n    city: The nearest one."
        assert "city: The nearest one." in (make_tool(fn).description or "")

    def test_of_what_the_server_fills_are_not_shown(self) -> None:
        def fn(city: str, ctx: Context) -> None:
            """Do.

            Args:
                city: Where.
                ctx: The context.
            """

        made = make_tool(fn)
        assert made.description == "Do."
        assert made.input_schema["properties"]["city"]["description"] == "Where."

    def test_of_the_variables_of_a_template_stay(self) -> None:
        def fn(city: str, ctx: Context) -> str:
            """Do.

            Args:
                city: Where.
                ctx: The context.
            """
            return city

        assert make_resource("a://{city}", fn).description == "Do.\n\nArgs:\n- city: Where."
        assert make_resource("a://{city}", fn, description="Its own.").description == "Its own."


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

    def test_with_more_members_are_refused(self) -> None:
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

    def test_a_generator_may_be_asked_again(self) -> None:
        def fn(city: Any) -> str:
            return str(city)

        fn.__annotations__["city"] = Annotated[str, Complete(each for each in CITIES)]
        completer = make_prompt(fn).completers["city"]
        for _ in range(2):
            assert list(wait(lambda: completer("", None, context_with()))) == CITIES

    @pytest.mark.parametrize("annotation", [Color, Color | None, Literal["red", "blue"]], ids=str)
    def test_a_type_with_choices_needs_none(self, annotation: Any) -> None:
        assert suggestions(annotation, "b") == ["blue"]

    def test_others_have_none(self) -> None:
        assert suggestions(str) is None

    def test_a_function_gets_what_was_typed(self) -> None:
        def find(typed: str) -> list[str]:
            return [typed + "!"]

        assert suggestions(Annotated[str, Complete(find)], "os") == ["os!"]

    def test_a_function_may_be_async(self) -> None:
        async def find(typed: str) -> Iterable[str]:
            return (typed + end for end in "ab")

        assert suggestions(Annotated[str, Complete(find)], "x") == ["xa", "xb"]

    def test_a_function_gets_other_arguments_by_name(self) -> None:
        def find(typed: str, country: str) -> list[str]:
            return [f"{typed}/{country}"]

        found = suggestions(Annotated[str, Complete(find)], "os", {"country": "no", "odd": "x"})
        assert found == ["os/no"]

    @pytest.mark.parametrize("others", [None, {}])
    def test_what_is_not_known_is_none(self, others: dict[str, str] | None) -> None:
        def find(typed: str, country: str | None) -> list[str]:
            return [repr(country)]

        assert suggestions(Annotated[str, Complete(find)], "", others) == ["None"]

    def test_what_is_not_known_has_its_default(self) -> None:
        def find(typed: str, country: str = "no") -> list[str]:
            return [country]

        assert suggestions(Annotated[str, Complete(find)]) == ["no"]

    def test_a_function_gets_the_context(self) -> None:
        async def find(typed: str, ctx: Context) -> list[str]:
            return [ctx.state]

        found = suggestions(Annotated[str, Complete(find)], context=context_with(state="s"))
        assert found == ["s"]

    def test_a_function_that_takes_nothing_is_refused(self) -> None:
        def find() -> list[str]:
            return CITIES

        with pytest.raises(RegistrationError, match="takes the text so far as its first argument"):
            suggestions(Annotated[str, Complete(find)])

    def test_a_function_that_wants_a_stranger_is_refused(self) -> None:
        def find(typed: str, planet: str) -> list[str]:
            return [typed, planet]

        with pytest.raises(
            RegistrationError, match=r"find\(\): planet is not an argument of fn\(\)"
        ):
            suggestions(Annotated[str, Complete(find)])

    def test_template_variables_have_suggestions_too(self) -> None:
        def fn(on: bool) -> str:
            return str(on)

        made = make_resource("a://{on}", fn)
        assert isinstance(made, ResourceTemplate)
        assert list(made.completers) == ["on"]

    def test_the_name_on_the_wire_counts(self) -> None:
        def fn(kind: Annotated[Color, Field(alias="class")]) -> str:
            return kind.value

        assert list(make_prompt(fn).completers) == ["class"]


class TestMarks:
    def test_are_found_in_order(self) -> None:
        module = ModuleType("some")
        for name in ("b", "a"):

            def fn() -> str:
                return ""

            mark(fn, "tool", name=name)
            setattr(module, name, fn)
        assert [options["name"] for _, _, _, options in marked_in(module)] == ["b", "a"]

    def test_one_function_may_have_several(self) -> None:
        def fn() -> str:
            return ""

        mark(fn, "tool")
        mark(fn, "resource", "a://b")
        module = ModuleType("some")
        vars(module)["fn"] = fn
        assert [(kind, uri) for _, kind, uri, _ in marked_in(module)] == [
            ("tool", None),
            ("resource", "a://b"),
        ]

    def test_one_function_with_two_names_is_found_once(self) -> None:
        def fn() -> str:
            return ""

        mark(fn, "tool")
        module = ModuleType("some")
        vars(module).update(a=fn, b=fn)
        assert len(marked_in(module)) == 1

    def test_what_cannot_be_marked(self) -> None:
        with pytest.raises(RegistrationError, match=r"len cannot be marked; use app\.tool"):
            mark(len, "tool")


def test_a_prompt_is_a_prompt() -> None:
    assert isinstance(make_prompt(greet), Prompt)
