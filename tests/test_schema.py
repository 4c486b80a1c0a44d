"""The JSON Schema of a type and of a function."""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import BaseModel, Field

from mcpkit._signature.schema import form_of
from mcpkit._utils.json import UNSET
from mcpkit.errors import RegistrationError
from tests.authoring import arguments_of, handler, output_of, schema_for, schema_of
from tests.models import (
    Box,
    Color,
    Described,
    Json,
    Level,
    Maybe,
    Movie,
    Opaque,
    Pair,
    Pet,
    Point,
    Renamed,
    Spot,
    Strict,
    Titled,
    Tree,
    UserId,
    Words,
)

INT = {"type": "integer"}
STR = {"type": "string"}
NULL = {"type": "null"}
BYTES = {"type": "string", "contentEncoding": "base64"}
COLOR = {"type": "string", "enum": ["red", "blue"], "description": "A color."}


def array(items: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **members}


def tuple_of(*items: dict[str, Any], at_least: int = 2) -> dict[str, Any]:
    length = {"minItems": at_least, "maxItems": len(items)}
    return {"type": "array", "prefixItems": list(items), **length}


def object_of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def reference(name: str, definition: dict[str, Any]) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{name}", "$defs": {name: definition}}


POINT = object_of("x", x=INT, y={**INT, "default": 0})
CHILDREN = array({"$ref": "#/$defs/Tree"}, default=[])
TO_POINT = {"$ref": "#/$defs/Point"}
TREE = reference("Tree", object_of("value", value=INT, children=CHILDREN))
CAT = object_of("kind", kind={**STR, "const": "cat"}, lives={**INT, "default": 9})
DOG = object_of("kind", kind={**STR, "const": "dog"})
JSON = [
    {"type": "object", "additionalProperties": {"$ref": "#/$defs/Json"}},
    array({"$ref": "#/$defs/Json"}),
    STR,
    NULL,
]


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
    (list, array({})),
    (list[int], array(INT)),
    (list[bytes], array(BYTES)),
    (set[int], array(INT, uniqueItems=True)),
    (frozenset[str], array(STR, uniqueItems=True)),
    (tuple[int, str], tuple_of(INT, STR)),
    (tuple[int, ...], array(INT)),
    (dict[str, int], {"type": "object", "additionalProperties": INT}),
    (dict[str, Any], {"type": "object", "additionalProperties": True}),
    (int | str, {"anyOf": [INT, STR]}),
    (str | int, {"anyOf": [STR, INT]}),
    (int | None, {"anyOf": [INT, NULL]}),
    (Optional[int], {"anyOf": [INT, NULL]}),  # noqa: UP045 - the old spelling is the point
    (Literal["a"], {"type": "string", "const": "a"}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["a", 1], {"enum": ["a", 1]}),
    (Literal["a"] | Literal["b", "a"], {"type": "string", "enum": ["a", "b"]}),
    (
        Literal["a"] | int | Literal["b"] | Literal[1] | None,
        {"anyOf": [{**STR, "enum": ["a", "b"]}, INT, {**INT, "const": 1}, NULL]},
    ),
    (Color, COLOR),
    (Level, {"type": "integer", "enum": [1, 2]}),
    (UserId, INT),
    (Words, array(STR)),
    (Annotated[int, Field(ge=1, lt=9)], {"type": "integer", "minimum": 1, "exclusiveMaximum": 9}),
    (Annotated[str, Field(pattern="^a")], {"type": "string", "pattern": "^a"}),
    (Annotated[str, Field(max_length=3)], {"type": "string", "maxLength": 3}),
    (Annotated[list[int], Field(min_length=1)], array(INT, minItems=1)),
    (Annotated[int, Field(description="How many.")], {**INT, "description": "How many."}),
    (Annotated[int, Field(title="Count")], {"type": "integer", "title": "Count"}),
    (Annotated[int, Field(examples=[3])], {"type": "integer", "examples": [3]}),
    (Point, POINT),
    (list[Point], array(POINT)),
    (Point | None, {"anyOf": [POINT, NULL]}),
    (Described, {**POINT, "properties": {"x": INT}, "description": "A point on the map."}),
    (Box[int], object_of("inside", inside=INT)),
    (Box[Point], object_of("inside", inside=POINT)),
    (Titled, {**object_of("x", x={**INT, "title": "An x"}), "title": "Our title"}),
    (Renamed, object_of("theX", theX=INT)),
    (Strict, {**POINT, "properties": {"x": INT}, "additionalProperties": False}),
    (Maybe, object_of("y", x=INT, y={"anyOf": [INT, NULL]})),
    (Spot, object_of("x", x=INT, tags=array(STR))),
    (Movie, object_of("name", name=STR, year=INT)),
    (Pair, tuple_of(INT, {**STR, "default": "q"}, at_least=1)),
    (Pet, {"oneOf": [CAT, DOG]}),
    (tuple[Point, Point], {**tuple_of(TO_POINT, TO_POINT), "$defs": {"Point": POINT}}),
    (Tree, TREE),
    (list[Tree], {**array({"$ref": "#/$defs/Tree"}), "$defs": TREE["$defs"]}),
    (Json, reference("Json", {"anyOf": JSON})),
]


@pytest.mark.parametrize(("annotation", "schema"), SCHEMAS, ids=lambda each: str(each)[:40])
def test_types(annotation: Any, schema: dict[str, Any]) -> None:
    assert schema_for(annotation) == schema
    Draft202012Validator.check_schema(schema_of(handler(annotation)))


DEFAULTS: list[tuple[Any, Any, dict[str, Any]]] = [
    (int, 3, {"type": "integer", "default": 3}),
    (int | None, None, INT),
    (int | None, 3, {"anyOf": [INT, NULL], "default": 3}),
    (int | str | None, None, {"anyOf": [INT, STR]}),
    (Point | None, None, POINT),
    (Tree | None, None, TREE),
    (int, None, INT),
    (Any, None, {}),
    (Color, Color.RED, {**COLOR, "default": "red"}),
    (dt.date, dt.date(2026, 7, 28), {"type": "string", "format": "date", "default": "2026-07-28"}),
    (bytes, b"hi", {**BYTES, "default": "aGk="}),
    (Point, Point(x=1), {**POINT, "default": {"x": 1, "y": 0}}),
    (set[int], {1}, {"type": "array", "items": INT, "uniqueItems": True, "default": [1]}),
    (int, Field(3, ge=1), {"type": "integer", "minimum": 1, "default": 3}),
    (int, Field(ge=1), {"type": "integer", "minimum": 1}),
    (list[int], Field(default_factory=list), array(INT)),
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
    def test_names_required_parameters_and_has_all_members_without_any(self) -> None:
        """Some clients look for them."""
        assert schema_of(lambda: None) == {
            "type": "object",
            "properties": {},
            "additionalProperties": False,
        }

        def fn(a: int, b: int = 1, c: int = Field(2), *, d: int, e: int | None) -> None: ...

        assert schema_of(fn)["required"] == ["a", "d", "e"]
        schema = schema_of(handler(int, 1))
        assert ("required" in schema, schema["additionalProperties"]) == (False, False)

    def test_keeps_types_that_are_used_twice_and_inlines_others(self) -> None:
        class Line(BaseModel):
            start: Point
            end: Point

        def fn(a: Point, b: list[Point]) -> None: ...

        schema = schema_of(fn)
        assert schema["$defs"] == {"Point": POINT}
        assert schema["properties"]["a"] == {"$ref": "#/$defs/Point"}
        assert set(schema_of(handler(tuple[Line, Line]))["$defs"]) == {"Line", "Point"}
        assert "$ref" not in json.dumps(schema_of(handler(list[Box[Box[Point]]])))
        assert schema_of(handler(Point))["properties"]["x"] == POINT

    def test_an_alias_is_the_name(self) -> None:
        assert schema_of(handler(Annotated[int, Field(alias="in")]))["required"] == ["in"]
        assert list(schema_of(handler(int, Field(alias="in")))["properties"]) == ["in"]

    def test_each_schema_is_a_copy(self) -> None:
        arguments = arguments_of(handler(int))
        arguments.schema()["properties"]["x"]["type"] = "changed"
        assert arguments.schema()["properties"]["x"] == INT


@pytest.mark.parametrize("annotation", [Described, Color, list[Described], Tree])
def test_a_parameter_has_the_description_of_its_field_else_of_the_docstring(
    annotation: Any,
) -> None:
    """Before that of its type."""
    field = Field(description="Of the field.")
    for fn, description in (
        (handler(annotation), "Of the docstring."),
        (handler(Annotated[annotation, field]), "Of the field."),
        (handler(annotation, field), "Of the field."),
    ):
        fn.__doc__ = "Do.\n\nArgs:\n    x: Of the docstring."
        found = schema_of(fn)["properties"]["x"]
        assert found["description"] == description
        assert annotation is not Tree or found["$ref"] == "#/$defs/Tree"


class TestRefusals:
    @pytest.mark.parametrize(
        "annotation", [Opaque, list[Opaque], Callable[[int], int], Opaque | None], ids=str
    )
    def test_a_type_that_json_does_not_have(self, annotation: Any) -> None:
        fn = handler(annotation)
        place = rf"^authoring\.py:{fn.__code__.co_firstlineno}: fn\(\): the parameter x .*"
        advice = (
            r"use a model, a dataclass or a built-in type, or let the server "
            r"provide it: Annotated\[\.\.\., Depends\(\.\.\.\)\]$"
        )
        with pytest.raises(RegistrationError, match=place + advice):
            arguments_of(fn)
        advice = "return a model, a dataclass or built-in types"
        with pytest.raises(RegistrationError, match=rf"fn\(\): the return type .*{advice}"):
            output_of(annotation)

    def test_structure_without_a_type(self) -> None:
        with pytest.raises(RegistrationError, match="structured output needs a return annotation"):
            output_of(UNSET, structured=True)


def test_a_title_that_is_also_the_name_of_an_enum_seen_before_stays() -> None:
    """What a schema says depends on its own types, and not on what was described earlier."""
    form_of(Color).schema("validation")

    class Wall(BaseModel):
        paint: Literal["red", "blue"] = Field(title="Color")

    properties = form_of(Wall).schema("validation")["properties"]
    assert properties["paint"]["title"] == "Color"
