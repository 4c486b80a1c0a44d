"""Types at the border: what a client is told, what it may send, and what it gets back."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import NotRequired, TypeAliasType, TypedDict

from mcpkit.errors import InvalidArguments, RegistrationError
from mcpkit.functions.output import OutputMismatch, Rendered, blocks_of
from mcpkit.functions.schema import form_of
from mcpkit.types import (
    UNSET,
    Audio,
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    File,
    Image,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolResult,
)
from tests.authoring import (
    accepted,
    arguments_of,
    handler,
    output_of,
    schema_for,
    schema_of,
)

T = TypeVar("T")

PNG = b"\x89PNG\r\n\x1a\n"


class Color(enum.Enum):
    """A color."""

    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(BaseModel):
    x: int
    y: int = 0


class Described(BaseModel):
    """A point on the map."""

    x: int


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Box(BaseModel, Generic[T]):
    inside: T


class Titled(BaseModel):
    model_config = ConfigDict(title="Our title")
    x: int = Field(title="An x")


class Maybe(BaseModel):
    x: int | None = None
    y: int | None


class Guest(BaseModel):
    name: str
    age: int
    tags: dict[str, int] = {}

    @field_validator("name")
    @classmethod
    def known(cls, name: str) -> str:
        if name == "nobody":
            raise ValueError("nobody is not welcome")
        return name


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    x: int


class Renamed(BaseModel):
    x: int = Field(alias="theX")


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]


Pet = Annotated[Cat | Dog, Field(discriminator="kind")]


@dataclass
class Spot:
    x: int
    tags: list[str] = field(default_factory=list)


class Movie(TypedDict):
    name: str
    year: NotRequired[int]


class Pair(NamedTuple):
    x: int
    y: str = "q"


UserId = NewType("UserId", int)
Words = TypeAliasType("Words", list[str])
Json = TypeAliasType("Json", "dict[str, Json] | list[Json] | str | None")

INT = {"type": "integer"}
STR = {"type": "string"}
NULL = {"type": "null"}
BYTES = {"type": "string", "contentEncoding": "base64"}
COLOR = {"type": "string", "enum": ["red", "blue"], "description": "A color."}
POINT = {
    "type": "object",
    "properties": {"x": INT, "y": {"type": "integer", "default": 0}},
    "required": ["x"],
}
TREE = {
    "type": "object",
    "properties": {
        "value": INT,
        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "default": []},
    },
    "required": ["value"],
}
CAT = {
    "type": "object",
    "properties": {
        "kind": {"type": "string", "const": "cat"},
        "lives": {"type": "integer", "default": 9},
    },
    "required": ["kind"],
}
DOG = {
    "type": "object",
    "properties": {"kind": {"type": "string", "const": "dog"}},
    "required": ["kind"],
}


SCHEMAS: list[tuple[Any, dict[str, Any]]] = [
    (int, INT),
    (float, {"type": "number"}),
    (str, STR),
    (bool, {"type": "boolean"}),
    (None, NULL),
    (Any, {}),
    (object, {}),
    (bytes, BYTES),
    (dt.date, {"type": "string", "format": "date"}),
    (dt.datetime, {"type": "string", "format": "date-time"}),
    (dt.time, {"type": "string", "format": "time"}),
    (dt.timedelta, {"type": "string", "format": "duration"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (Path, {"type": "string", "format": "path"}),
    (list, {"type": "array", "items": {}}),
    (list[int], {"type": "array", "items": INT}),
    (list[bytes], {"type": "array", "items": BYTES}),
    (set[int], {"type": "array", "items": INT, "uniqueItems": True}),
    (frozenset[str], {"type": "array", "items": STR, "uniqueItems": True}),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [INT, STR], "minItems": 2, "maxItems": 2},
    ),
    (tuple[int, ...], {"type": "array", "items": INT}),
    (dict[str, int], {"type": "object", "additionalProperties": INT}),
    (dict[str, Any], {"type": "object", "additionalProperties": True}),
    (int | str, {"anyOf": [INT, STR]}),
    (str | int, {"anyOf": [STR, INT]}),
    (int | None, {"anyOf": [INT, NULL]}),
    (Optional[int], {"anyOf": [INT, NULL]}),  # noqa: UP045 - the old spelling is the point
    (Literal["a"], {"type": "string", "const": "a"}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a", 1], {"enum": ["a", 1]}),
    (Color, COLOR),
    (Level, {"type": "integer", "enum": [1, 2]}),
    (UserId, INT),
    (Words, {"type": "array", "items": STR}),
    (Annotated[int, Field(ge=1, lt=9)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 9}),
    (Annotated[str, Field(pattern="^a")], {"type": "string", "pattern": "^a"}),
    (Annotated[str, Field(max_length=3)], {"type": "string", "maxLength": 3}),
    (Annotated[list[int], Field(min_length=1)], {"type": "array", "items": INT, "minItems": 1}),
    (
        Annotated[int, Field(description="How many.")],
        {"type": "integer", "description": "How many."},
    ),
    (Annotated[int, Field(title="Count")], {"type": "integer", "title": "Count"}),
    (Annotated[int, Field(examples=[3])], {"type": "integer", "examples": [3]}),
    (Point, POINT),
    (list[Point], {"type": "array", "items": POINT}),
    (Point | None, {"anyOf": [POINT, NULL]}),
    (Described, {**POINT, "properties": {"x": INT}, "description": "A point on the map."}),
    (Box[int], {"type": "object", "properties": {"inside": INT}, "required": ["inside"]}),
    (Box[Point], {"type": "object", "properties": {"inside": POINT}, "required": ["inside"]}),
    (
        Titled,
        {
            "type": "object",
            "properties": {"x": {"type": "integer", "title": "An x"}},
            "required": ["x"],
            "title": "Our title",
        },
    ),
    (Renamed, {"type": "object", "properties": {"theX": INT}, "required": ["theX"]}),
    (Strict, {**POINT, "properties": {"x": INT}, "additionalProperties": False}),
    (
        Maybe,
        {
            "type": "object",
            "properties": {"x": INT, "y": {"anyOf": [INT, NULL]}},
            "required": ["y"],
        },
    ),
    (
        Spot,
        {
            "type": "object",
            "properties": {"x": INT, "tags": {"type": "array", "items": STR}},
            "required": ["x"],
        },
    ),
    (
        Movie,
        {"type": "object", "properties": {"name": STR, "year": INT}, "required": ["name"]},
    ),
    (
        Pair,
        {
            "type": "array",
            "prefixItems": [INT, {"type": "string", "default": "q"}],
            "minItems": 1,
            "maxItems": 2,
        },
    ),
    (Pet, {"oneOf": [CAT, DOG]}),
    (
        tuple[Point, Point],
        {
            "type": "array",
            "prefixItems": [{"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Point"}],
            "minItems": 2,
            "maxItems": 2,
            "$defs": {"Point": POINT},
        },
    ),
    (Tree, {"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}}),
    (list[Tree], {"type": "array", "items": {"$ref": "#/$defs/Tree"}, "$defs": {"Tree": TREE}}),
    (
        Json,
        {
            "$ref": "#/$defs/Json",
            "$defs": {
                "Json": {
                    "anyOf": [
                        {"type": "object", "additionalProperties": {"$ref": "#/$defs/Json"}},
                        {"type": "array", "items": {"$ref": "#/$defs/Json"}},
                        STR,
                        NULL,
                    ]
                }
            },
        },
    ),
]


@pytest.mark.parametrize(("annotation", "schema"), SCHEMAS, ids=lambda each: str(each)[:40])
class TestTypes:
    def test_schema(self, annotation: Any, schema: dict[str, Any]) -> None:
        assert schema_for(annotation) == schema

    def test_schema_is_a_schema(self, annotation: Any, schema: dict[str, Any]) -> None:
        Draft202012Validator.check_schema(schema_of(handler(annotation)))


DEFAULTS: list[tuple[Any, Any, dict[str, Any]]] = [
    (int, 3, {"type": "integer", "default": 3}),
    (int | None, None, INT),
    (int | None, 3, {"anyOf": [INT, NULL], "default": 3}),
    (int | str | None, None, {"anyOf": [INT, STR]}),
    (Point | None, None, POINT),
    (Tree | None, None, {"$ref": "#/$defs/Tree", "$defs": {"Tree": TREE}}),
    (int, None, INT),
    (Any, None, {}),
    (Color, Color.RED, {**COLOR, "default": "red"}),
    (dt.date, dt.date(2026, 7, 28), {"type": "string", "format": "date", "default": "2026-07-28"}),
    (bytes, b"hi", {**BYTES, "default": "aGk="}),
    (Point, Point(x=1), {**POINT, "default": {"x": 1, "y": 0}}),
    (set[int], {1}, {"type": "array", "items": INT, "uniqueItems": True, "default": [1]}),
    (int, Field(3, ge=1), {"type": "integer", "minimum": 1, "default": 3}),
    (int, Field(ge=1), {"type": "integer", "minimum": 1}),
    (list[int], Field(default_factory=list), {"type": "array", "items": INT}),
    (Annotated[int, Field(default=3)], UNSET, {"type": "integer", "default": 3}),
    (float, math.nan, {"type": "number"}),
    (float, math.inf, {"type": "number"}),
    (int, NotImplemented, INT),
]


@pytest.mark.parametrize(
    ("annotation", "default", "schema"), DEFAULTS, ids=lambda each: str(each)[:30]
)
def test_defaults(annotation: Any, default: Any, schema: dict[str, Any]) -> None:
    assert schema_for(annotation, default) == schema


class TestRoot:
    def test_no_parameters(self) -> None:
        assert schema_of(lambda: None) == {"type": "object", "additionalProperties": False}

    def test_required_parameters(self) -> None:
        def fn(a: int, b: int = 1, c: int = Field(2), *, d: int, e: int | None) -> None: ...

        assert schema_of(fn)["required"] == ["a", "d", "e"]

    def test_optional_parameters_only(self) -> None:
        assert "required" not in schema_of(handler(int, 1))

    def test_nothing_else_is_allowed(self) -> None:
        assert schema_of(handler(int))["additionalProperties"] is False

    def test_a_type_of_two_parameters_is_kept_once(self) -> None:
        def fn(a: Point, b: list[Point]) -> None: ...

        schema = schema_of(fn)
        assert schema["$defs"] == {"Point": POINT}
        assert schema["properties"]["a"] == {"$ref": "#/$defs/Point"}

    def test_a_type_inside_an_inlined_type_is_inlined(self) -> None:
        schema = schema_of(handler(list[Box[Box[Point]]]))
        assert "$ref" not in json.dumps(schema)

    def test_a_model_of_one_parameter_is_no_reference(self) -> None:
        assert schema_of(handler(Point))["properties"]["x"] == POINT

    def test_an_alias_is_the_name(self) -> None:
        assert schema_of(handler(Annotated[int, Field(alias="in")]))["required"] == ["in"]

    def test_an_alias_by_default_value_is_the_name(self) -> None:
        assert list(schema_of(handler(int, Field(alias="in")))["properties"]) == ["in"]

    def test_schemas_are_made_anew(self) -> None:
        arguments = arguments_of(handler(int))
        arguments.schema()["properties"]["x"]["type"] = "changed"
        assert arguments.schema()["properties"]["x"] == INT


class TestDescriptions:
    def test_from_the_docstring(self) -> None:
        def fn(a: int) -> None:
            """Do.

            Args:
                a: An a.
            """

        assert schema_of(fn)["properties"]["a"]["description"] == "An a."

    def test_from_the_annotation_first(self) -> None:
        def fn(a: Annotated[int, Field(description="The best.")]) -> None:
            """Do.

            Args:
                a: An a.
            """

        assert schema_of(fn)["properties"]["a"]["description"] == "The best."

    def test_from_the_default_first(self) -> None:
        def fn(a: int = Field(3, description="The best.")) -> None:
            """Do.

            Args:
                a: An a.
            """

        assert schema_of(fn)["properties"]["a"]["description"] == "The best."

    @pytest.mark.parametrize("annotation", [Described, Color, list[Described]])
    def test_of_a_parameter_before_that_of_its_type(self, annotation: Any) -> None:
        fn = handler(annotation)
        fn.__doc__ = "Do.\n\nArgs:\n    x: Where to go."
        assert schema_of(fn)["properties"]["x"]["description"] == "Where to go."

    def test_beside_a_reference(self) -> None:
        fn = handler(Tree)
        fn.__doc__ = "Do.\n\nArgs:\n    x: The root."
        assert schema_of(fn)["properties"]["x"] == {
            "$ref": "#/$defs/Tree",
            "description": "The root.",
        }


class Opaque:
    def __repr__(self) -> str:
        return "Opaque()"  # the same in every process that runs tests


class TestRefusals:
    @pytest.mark.parametrize(
        "annotation", [Opaque, list[Opaque], Callable[[int], int], Opaque | None], ids=str
    )
    def test_a_parameter_that_cannot_come_from_json(self, annotation: Any) -> None:
        fn = handler(annotation)
        with pytest.raises(RegistrationError) as caught:
            arguments_of(fn)
        message = str(caught.value)
        assert message.startswith(
            f"authoring.py:{fn.__code__.co_firstlineno}: fn(): the parameter x "
        )
        assert message.endswith(
            "use a model, a dataclass or a built-in type, or let the server "
            "provide it: Annotated[..., Depends(...)]"
        )

    @pytest.mark.parametrize(
        "annotation", [Opaque, list[Opaque], Callable[[int], int], Opaque | None], ids=str
    )
    def test_a_result_that_cannot_become_json(self, annotation: Any) -> None:
        with pytest.raises(
            RegistrationError, match=r"authoring\.py:\d+: fn\(\): the return type"
        ) as e:
            output_of(annotation)
        assert "return a model, a dataclass or built-in types" in str(e.value)

    def test_structure_without_a_type(self) -> None:
        with pytest.raises(RegistrationError, match="structured output needs a return annotation"):
            output_of(UNSET, structured=True)


ACCEPTED: list[tuple[Any, Any, Any]] = [
    (int, 3, 3),
    (int, 3.0, 3),
    (int, "3", 3),
    (float, 3, 3.0),
    (str, "3", "3"),
    (bool, True, True),
    (bool, "true", True),
    (Any, [1, {"a": None}], [1, {"a": None}]),
    (int | None, None, None),
    (bytes, "aGk=", b"hi"),
    (bytes, "-_8=", b"\xfb\xff"),
    (bytes, "+/8=", b"\xfb\xff"),
    (dt.date, "2026-07-28", dt.date(2026, 7, 28)),
    (dt.datetime, "2026-07-28T10:00:00Z", dt.datetime(2026, 7, 28, 10, tzinfo=dt.timezone.utc)),
    (dt.time, "10:30", dt.time(10, 30)),
    (dt.timedelta, "PT90S", dt.timedelta(seconds=90)),
    (
        uuid.UUID,
        "12345678123456781234567812345678",
        uuid.UUID(int=0x12345678123456781234567812345678),
    ),
    (Decimal, "0.10", Decimal("0.10")),
    (Path, "a/b", Path("a/b")),
    (set[int], [1, 1, 2], {1, 2}),
    (frozenset[str], ["a"], frozenset("a")),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2], (1, 2)),
    (dict[str, list[int]], {"a": [1]}, {"a": [1]}),
    (Literal["a", 1], 1, 1),
    (Color, "red", Color.RED),
    (Level, 2, Level.HIGH),
    (Point, {"x": 1}, Point(x=1)),
    (list[Point], [{"x": 1, "y": 2}], [Point(x=1, y=2)]),
    (Tree, {"value": 1, "children": [{"value": 2}]}, Tree(value=1, children=[Tree(value=2)])),
    (Box[int], {"inside": 1}, Box[int](inside=1)),
    (Spot, {"x": 1, "tags": ["a"]}, Spot(1, ["a"])),
    (Movie, {"name": "M", "year": 1931}, {"name": "M", "year": 1931}),
    (Pair, [1], Pair(1)),
    (Pet, {"kind": "dog"}, Dog(kind="dog")),
    (UserId, 3, 3),
    (Words, ["a"], ["a"]),
    (Json, {"a": ["b", None]}, {"a": ["b", None]}),
    (Renamed, {"theX": 1}, Renamed(theX=1)),
    (dt.date | str, "2026-07-28", dt.date(2026, 7, 28)),
    (str | dt.date, "2026-07-28", "2026-07-28"),
]


@pytest.mark.parametrize(("annotation", "raw", "value"), ACCEPTED, ids=lambda each: str(each)[:30])
def test_values(annotation: Any, raw: Any, value: Any) -> None:
    found = accepted(annotation, raw)
    assert found == value
    assert type(found) is type(value)


class TestTextWithJson:
    """Models send arrays and objects as text; only what has failed as text is read as JSON."""

    @pytest.mark.parametrize(
        ("annotation", "raw", "value"),
        [
            (list[int], "[1, 2]", [1, 2]),
            (list[int], " [1]", [1]),
            (dict[str, int], '{"a": 1}', {"a": 1}),
            (Point, '{"x": 1}', Point(x=1)),
            (list[Point], '[{"x": 1}]', [Point(x=1)]),
            (Point | None, '{"x": 1}', Point(x=1)),
            (set[int], "[1]", {1}),
            (Literal[1, 2], "2", 2),
        ],
        ids=str,
    )
    def test_is_read_where_it_belongs(self, annotation: Any, raw: str, value: Any) -> None:
        assert accepted(annotation, raw) == value

    @pytest.mark.parametrize("annotation", [str, str | dict[str, int], Any, str | None], ids=str)
    @pytest.mark.parametrize("raw", ['{"a": 1}', "[1]", "1", "null"])
    def test_stays_text_where_text_belongs(self, annotation: Any, raw: str) -> None:
        assert accepted(annotation, raw) == raw

    def test_inside_an_argument_stays_text(self) -> None:
        assert accepted(list[str], ["[1]"]) == ["[1]"]

    @pytest.mark.parametrize("raw", ["[1", '["a"]', "[NaN]", '{"a": 1}', "1"])
    def test_that_does_not_fit_is_reported_as_it_was_sent(self, raw: str) -> None:
        with pytest.raises(InvalidArguments) as caught:
            accepted(list[int], raw)
        assert str(caught.value) == f"x: expected an array, got {json.dumps(raw)}"

    def test_true_is_no_number(self) -> None:
        with pytest.raises(InvalidArguments):
            accepted(int, "true")


def problems(annotation: Any, raw: Any) -> str:
    with pytest.raises(InvalidArguments) as caught:
        accepted(annotation, raw)
    return str(caught.value)


PROBLEMS: list[tuple[Any, Any, str]] = [
    (int, "two", 'x: expected an integer, got "two"'),
    (int, 1.5, "x: expected an integer, got 1.5"),
    (int, None, "x: expected an integer, got null"),
    (int, [1], "x: expected an integer, got [1]"),
    (float, "a", 'x: expected a number, got "a"'),
    (float, "nan", 'x: expected a finite number, got "nan"'),
    (bool, 3, "x: expected true or false, got 3"),
    (str, 3, "x: expected a string, got 3"),
    (list[int], 3, "x: expected an array, got 3"),
    (set[int], 3, "x: expected an array, got 3"),
    (tuple[int, ...], 3, "x: expected an array, got 3"),
    (dict[str, int], 3, "x: expected an object, got 3"),
    (Point, 3, "x: expected an object, got 3"),
    (Spot, 3, "x: expected an object, got 3"),
    (Movie, 3, "x: expected an object, got 3"),
    (None, 3, "x: expected null, got 3"),
    (bytes, "!", 'x: expected base64, got "!"'),
    (dt.date, "soon", 'x: expected a date (YYYY-MM-DD), got "soon"'),
    (dt.date, "1", 'x: expected a date (YYYY-MM-DD), got "1"'),
    (dt.datetime, "soon", 'x: expected a date and time (ISO 8601), got "soon"'),
    (dt.time, "soon", 'x: expected a time (HH:MM:SS), got "soon"'),
    (dt.timedelta, "soon", 'x: expected a duration (ISO 8601), got "soon"'),
    (uuid.UUID, "me", 'x: expected a UUID, got "me"'),
    (Decimal, "a", 'x: expected a decimal number, got "a"'),
    (Literal["a", "b"], "c", "x: expected 'a' or 'b', got \"c\""),
    (Color, "green", "x: expected 'red' or 'blue', got \"green\""),
    (int | None, "two", 'x: expected an integer, got "two"'),
    (int | list[int], "two", 'x: expected an integer or an array, got "two"'),
    (Annotated[int, Field(ge=3)], 2, "x: expected greater than or equal to 3, got 2"),
    (Annotated[str, Field(min_length=2)], "a", 'x: expected at least 2 characters, got "a"'),
    (Annotated[str, Field(pattern="^b")], "a", "x: expected to match pattern '^b', got \"a\""),
    (list[int], [1, "two"], 'x[1]: expected an integer, got "two"'),
    (dict[str, int], {"a": "b"}, 'x.a: expected an integer, got "b"'),
    (dict[int, int], {"a": 1}, 'x.a: expected an integer, got "a"'),
    (tuple[int, int], [1], "x[1]: required, but missing"),
    (Guest, {"name": "Ann"}, "x.age: required, but missing"),
    (Guest, {"name": "nobody", "age": 1}, "x.name: nobody is not welcome"),
    (list[Guest], [{"name": "Ann", "age": "old"}], 'x[0].age: expected an integer, got "old"'),
    (
        Guest,
        {"name": "Ann", "age": 1, "tags": {"a": "b"}},
        'x.tags.a: expected an integer, got "b"',
    ),
    (Strict, {"x": 1, "z": 2}, "x.z: unknown member"),
    (Renamed, {"theX": "a"}, 'x.theX: expected an integer, got "a"'),
    (Pet, {"kind": "cat", "lives": "a"}, 'x.lives: expected an integer, got "a"'),
    (Pet, {"kind": "cow"}, "x.kind: expected 'cat' or 'dog', got \"cow\""),
    (Pet, {}, "x.kind: required, but missing"),
    (Guest | None, {"name": "Ann", "age": "old"}, 'x.age: expected an integer, got "old"'),
]


class TestProblems:
    @pytest.mark.parametrize(
        ("annotation", "raw", "text"), PROBLEMS, ids=lambda each: str(each)[:40]
    )
    def test_are_one_line(self, annotation: Any, raw: Any, text: str) -> None:
        assert problems(annotation, raw) == text

    def test_come_all_at_once(self) -> None:
        def fn(city: str, nights: int, guests: list[Guest]) -> None: ...

        with pytest.raises(InvalidArguments) as caught:
            arguments_of(fn).validate(
                {"nights": "two", "guests": [{"name": 1, "age": "old"}], "sity": "oslo"}
            )
        assert caught.value.problems == [
            "city: required, but missing",
            'nights: expected an integer, got "two"',
            "guests[0].name: expected a string, got 1",
            'guests[0].age: expected an integer, got "old"',
            'sity: unknown argument; did you mean "city"?',
        ]

    def test_an_unknown_argument_unlike_any_names_all(self) -> None:
        def fn(city: str, nights: int) -> None: ...

        with pytest.raises(InvalidArguments, match=r"^zzz: unknown argument; known: city, nights$"):
            arguments_of(fn).validate({"city": "oslo", "nights": 1, "zzz": 1})

    def test_an_unknown_argument_where_there_is_none(self) -> None:
        with pytest.raises(InvalidArguments, match=r"^a: unknown argument; known: none$"):
            arguments_of(lambda: None).validate({"a": 1})

    def test_use_the_name_on_the_wire(self) -> None:
        arguments = arguments_of(handler(Annotated[int, Field(alias="in")]))
        with pytest.raises(InvalidArguments, match=r'^in: expected an integer, got "a"$'):
            arguments.validate({"in": "a"})

    def test_cut_long_values(self) -> None:
        assert problems(int, "a" * 200).endswith("a…")
        assert len(problems(int, "a" * 200)) < 100

    @pytest.mark.parametrize(
        ("annotation", "raw", "text"), PROBLEMS, ids=lambda each: str(each)[:40]
    )
    def test_name_no_library(self, annotation: Any, raw: Any, text: str) -> None:
        assert "pydantic" not in problems(annotation, raw)


class TestAbsent:
    def test_python_keeps_its_defaults(self) -> None:
        assert arguments_of(handler(int, 3)).validate({}) == {}

    def test_a_default_of_a_field_is_filled_in(self) -> None:
        assert arguments_of(handler(int, Field(3))).validate({}) == {"x": 3}

    def test_a_default_of_the_annotation_is_filled_in(self) -> None:
        assert arguments_of(handler(Annotated[int, Field(default=3)])).validate({}) == {"x": 3}

    def test_a_factory_makes_a_new_value_each_time(self) -> None:
        arguments = arguments_of(handler(list[int], Field(default_factory=list)))
        first, second = arguments.validate({})["x"], arguments.validate({})["x"]
        assert first == []
        assert first is not second

    def test_null_is_accepted_though_it_is_not_advertised(self) -> None:
        assert arguments_of(handler(int | None, None)).validate({"x": None}) == {"x": None}

    def test_an_alias_becomes_the_parameters_name(self) -> None:
        arguments = arguments_of(handler(Annotated[int, Field(alias="in")]))
        assert arguments.validate({"in": 3}) == {"x": 3}


# --- results --------------------------------------------------------------------------------------


class Reading(BaseModel):
    value: float
    unit: str | None = None


class Secret(BaseModel):
    shown: int
    hidden: int = Field(default=1, exclude=True)


STRUCTURED: list[tuple[Any, Any, str]] = [
    (int, 3, "3"),
    (float, 0.5, "0.5"),
    (bool, True, "true"),
    (int | None, None, "null"),
    (list[int], [1, 2], "[1,2]"),
    (list[bytes], [b"\xfb\xff"], '["-_8="]'),
    (tuple[int, str], (1, "a"), '[1,"a"]'),
    (set[int], {1}, "[1]"),
    (dict[str, int], {"a": 1}, '{"a":1}'),
    (dict[str, Any], {"a": None}, '{"a":null}'),
    (dt.date, dt.date(2026, 7, 28), '"2026-07-28"'),
    (dt.timedelta, dt.timedelta(seconds=90), '"PT1M30S"'),
    (uuid.UUID, uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    (Decimal, Decimal("0.10"), '"0.10"'),
    (Path, Path("a"), '"a"'),
    (Color, Color.RED, '"red"'),
    (Literal["a", "b"], "a", '"a"'),
    (int | str, "a", '"a"'),
    (Point, Point(x=1), '{"x":1,"y":0}'),
    (Point | None, None, "null"),
    (Point | Cat, Cat(kind="cat"), '{"kind":"cat","lives":9}'),
    (Pet, Dog(kind="dog"), '{"kind":"dog"}'),
    (list[Point], [Point(x=1)], '[{"x":1,"y":0}]'),
    (
        Tree,
        Tree(value=1, children=[Tree(value=2)]),
        '{"value":1,"children":[{"value":2,"children":[]}]}',
    ),
    (list[Tree], [Tree(value=1)], '[{"value":1,"children":[]}]'),
    (Box[Point], Box[Point](inside=Point(x=1)), '{"inside":{"x":1,"y":0}}'),
    (Spot, Spot(1, ["a"]), '{"x":1,"tags":["a"]}'),
    (Movie, {"name": "M"}, '{"name":"M"}'),
    (Pair, Pair(1), '[1,"q"]'),
    (Maybe, Maybe(y=None), '{"x":null,"y":null}'),
    (Reading, Reading(value=1.5), '{"value":1.5,"unit":null}'),
    (Renamed, Renamed(theX=1), '{"theX":1}'),
    (Secret, Secret(shown=1), '{"shown":1}'),
    (Json, {"a": ["b", None]}, '{"a":["b",null]}'),
    (Words, ["a"], '["a"]'),
    (UserId, 3, "3"),
]


@pytest.mark.parametrize(
    ("annotation", "value", "text"), STRUCTURED, ids=lambda each: str(each)[:40]
)
class TestStructured:
    def test_it_is_the_json_of_the_value(self, annotation: Any, value: Any, text: str) -> None:
        assert output_of(annotation).render(value).structured == text.encode()

    def test_its_text_is_the_content(self, annotation: Any, value: Any, text: str) -> None:
        shown = json.loads(text) if text.startswith('"') else text
        assert output_of(annotation).render(value).content == shown

    def test_the_schema_fits_it(self, annotation: Any, value: Any, text: str) -> None:
        schema = output_of(annotation).schema
        assert schema is not None
        Draft202012Validator(schema).validate(json.loads(text))

    def test_only_objects_need_no_wrapper(self, annotation: Any, value: Any, text: str) -> None:
        output = output_of(annotation)
        assert (output.wrapped_schema is None) is output.is_object

    def test_the_wrapped_schema_fits_it(self, annotation: Any, value: Any, text: str) -> None:
        output = output_of(annotation)
        if output.is_object:
            assert text.startswith("{")
        else:
            assert output.wrapped_schema is not None
            Draft202012Validator.check_schema(output.wrapped_schema)
            assert output.wrapped_schema["type"] == "object"
            Draft202012Validator(output.wrapped_schema).validate({"result": json.loads(text)})

    def test_the_root_is_no_reference(self, annotation: Any, value: Any, text: str) -> None:
        assert "$ref" not in (output_of(annotation).schema or {})


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Any, Any]:
    """A type made of smaller ones, and a value of it."""
    leaves: list[tuple[Any, st.SearchStrategy[Any]]] = [
        (int, st.integers()),
        (float, st.floats(allow_nan=False, allow_infinity=False)),
        (bool, st.booleans()),
        (str, st.text()),
        (dt.date, st.dates()),
        (Color, st.sampled_from(Color)),
        (bytes, st.binary(max_size=9)),
        (uuid.UUID, st.uuids()),
        (Point, st.builds(Point, x=st.integers(), y=st.integers())),
        (Spot, st.builds(Spot, st.integers(), st.lists(st.text()))),
    ]

    def grown(kind: Any, values: st.SearchStrategy[Any], how: str) -> tuple[Any, Any]:
        if how == "list":
            return list[kind], st.lists(values, max_size=3)
        if how == "dict":
            return dict[str, kind], st.dictionaries(st.text(), values, max_size=3)
        if how == "tuple":
            return tuple[kind, int], st.tuples(values, st.integers())
        return kind | None, st.none() | values

    made: tuple[Any, Any] = draw(st.sampled_from(leaves))
    for how in draw(st.lists(st.sampled_from(["list", "dict", "tuple", "optional"]), max_size=3)):
        made = grown(made[0], made[1], how)
    return made[0], draw(made[1])


@given(typed_values())
def test_every_schema_fits_what_comes_with_it(case: tuple[Any, Any]) -> None:
    annotation, value = case
    output = output_of(annotation, structured=True)
    structured = output.render(value).structured
    assert structured is not None
    assert output.schema is not None
    Draft202012Validator(output.schema).validate(json.loads(structured))


@given(typed_values())
def test_what_is_dumped_can_be_sent_back(case: tuple[Any, Any]) -> None:
    annotation, value = case
    structured = output_of(annotation, structured=True).render(value).structured
    assert structured is not None
    assert accepted(annotation, json.loads(structured)) == value


class TestMismatch:
    @pytest.mark.parametrize(
        ("annotation", "value"),
        [
            (int, "two"),
            (int, None),
            (Point, {"y": 1}),
            (Point, 3),
            (list[int], [1, "two"]),
            (Literal["a"], "b"),
            (dict[str, Any], {"a": Opaque()}),
            (dict[str, Any], [1]),
            (float, math.nan),
            (float, -math.inf),
            (list[float], [math.nan]),
            (dict[str, Any], {"a": [math.nan]}),
            (Reading, Reading(value=math.nan)),
            (list[Reading], [Reading(value=math.inf)]),
        ],
        ids=str,
    )
    def test_is_raised(self, annotation: Any, value: Any) -> None:
        with pytest.raises(OutputMismatch):
            output_of(annotation).render(value)

    def test_a_model_changed_into_something_unfit(self) -> None:
        point = Point(x=1)
        point.x = "two"  # type: ignore[assignment]
        with pytest.raises(OutputMismatch):
            output_of(Point).render(point)

    def test_content_that_is_no_json(self) -> None:
        with pytest.raises(OutputMismatch):
            output_of(UNSET).render(Opaque())

    def test_null_is_no_trouble_where_it_belongs(self) -> None:
        assert (
            output_of(Reading).render(Reading(value=1.0)).structured == b'{"value":1.0,"unit":null}'
        )


class TestConversions:
    def test_a_dict_may_stand_for_a_model(self) -> None:
        assert output_of(Point).render({"x": 1}).structured == b'{"x":1,"y":0}'

    def test_an_object_with_the_attributes_may_stand_for_a_model(self) -> None:
        assert output_of(Point).render(Spot(1)).structured == b'{"x":1,"y":0}'


Text = TypeAliasType("Text", str)
Blocks = TypeAliasType("Blocks", TextContent | ImageContent)


@pytest.mark.parametrize(
    "annotation",
    [
        UNSET,
        Any,
        None,
        str,
        bytes,
        str | None,
        Annotated[str, "words"],
        Text,
        NewType("Name", str),
        Image,
        list[Image],
        ContentBlock,
        list[ContentBlock],
        list[Blocks],
        tuple[str, Image],
        Image | None,
        ResourceLink,
        EmbeddedResource,
        TextResourceContents,
        ToolResult,
    ],
    ids=str,
)
def test_text_and_content_have_no_schema(annotation: Any) -> None:
    assert output_of(annotation).schema is None


class TestOptions:
    def test_structure_may_be_turned_off(self) -> None:
        rendered = output_of(Point, structured=False).render(Point(x=1))
        assert (rendered.content, rendered.structured) == ([TextContent('{"x":1,"y":0}')], None)

    def test_an_unfit_type_is_no_trouble_then(self) -> None:
        assert output_of(Opaque, structured=False).schema is None

    def test_text_may_be_structured(self) -> None:
        rendered = output_of(str, structured=True).render("hi")
        assert (rendered.content, rendered.structured) == ("hi", b'"hi"')


PICTURE = ImageContent(PNG, "image/png")
LINK = ResourceLink("a:b", "b")

CONTENT: list[tuple[Any, list[ContentBlock]]] = [
    (None, []),
    ("", [TextContent("")]),
    ("hi", [TextContent("hi")]),
    (3, [TextContent("3")]),
    (True, [TextContent("true")]),
    ([], [TextContent("[]")]),
    (["a", 1], [TextContent('["a",1]')]),
    ({"a": None}, [TextContent('{"a":null}')]),
    (Point(x=1), [TextContent('{"x":1,"y":0}')]),
    (Spot(1), [TextContent('{"x":1,"tags":[]}')]),
    (Color.RED, [TextContent("red")]),
    (dt.date(2026, 7, 28), [TextContent("2026-07-28")]),
    (PNG, [PICTURE]),
    (b"RIFF\0\0\0\0WAVE", [AudioContent(b"RIFF\0\0\0\0WAVE", "audio/wav")]),
    (
        b"\0",
        [
            EmbeddedResource(
                BlobResourceContents("data:,", b"\0", mime_type="application/octet-stream")
            )
        ],
    ),
    (Image(PNG), [PICTURE]),
    (Audio(b"ID3"), [AudioContent(b"ID3", "audio/mpeg")]),
    (
        File(b"{}", "application/json", uri="a:b"),
        [EmbeddedResource(TextResourceContents("a:b", "{}", mime_type="application/json"))],
    ),
    (LINK, [LINK]),
    (TextContent("hi"), [TextContent("hi")]),
    (TextResourceContents("a:b", "x"), [EmbeddedResource(TextResourceContents("a:b", "x"))]),
    (["see", Image(PNG)], [TextContent("see"), PICTURE]),
    (("see", LINK, 3), [TextContent("see"), LINK, TextContent("3")]),
    ([PNG, {"a": 1}], [PICTURE, TextContent('{"a":1}')]),
]


@pytest.mark.parametrize(("value", "blocks"), CONTENT, ids=lambda each: str(each)[:30])
def test_content(value: Any, blocks: list[ContentBlock]) -> None:
    assert blocks_of(value) == blocks


class TestToolResult:
    def test_its_content_becomes_blocks(self) -> None:
        rendered = output_of(ToolResult).render(ToolResult(["see", Image(PNG)]))
        assert rendered == Rendered([TextContent("see"), PICTURE])

    def test_it_may_be_empty(self) -> None:
        assert output_of(ToolResult).render(ToolResult()) == Rendered([])

    def test_its_structure_is_sent(self) -> None:
        rendered = output_of(ToolResult).render(ToolResult("hi", structured_content={"a": 1}))
        assert (rendered.content, rendered.structured) == ([TextContent("hi")], b'{"a":1}')

    def test_its_structure_may_be_null(self) -> None:
        rendered = output_of(ToolResult).render(ToolResult("hi", structured_content=None))
        assert rendered.structured == b"null"

    def test_its_structure_is_its_content_if_there_is_no_other(self) -> None:
        rendered = output_of(ToolResult).render(ToolResult(structured_content={"a": 1}))
        assert rendered.content == [TextContent('{"a":1}')]

    def test_its_structure_has_to_fit_the_schema(self) -> None:
        with pytest.raises(OutputMismatch):
            output_of(Point).render(ToolResult(structured_content={"x": "two"}))

    def test_its_structure_is_owed_where_there_is_a_schema(self) -> None:
        with pytest.raises(OutputMismatch, match="which the schema promises"):
            output_of(Point).render(ToolResult("hi"))

    def test_a_failure_owes_no_structure(self) -> None:
        rendered = output_of(Point).render(ToolResult("no", is_error=True))
        assert (rendered.is_error, rendered.structured) == (True, None)

    def test_its_meta_is_sent(self) -> None:
        assert output_of(ToolResult).render(ToolResult("hi", meta={"a": 1})).meta == {"a": 1}


def test_a_title_that_is_also_the_name_of_an_enum_seen_before_stays() -> None:
    """What a schema says depends on its own types, and not on what was described earlier."""
    form_of(Color).schema("validation")

    class Wall(BaseModel):
        paint: Literal["red", "blue"] = Field(title="Color")

    properties = form_of(Wall).schema("validation")["properties"]
    assert properties["paint"]["title"] == "Color"
