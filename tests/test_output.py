"""The content and the structured content that results become."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
import re
import sys
import typing
import uuid
from collections import deque
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NewType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import (
    BaseModel,
    Field,
    PlainSerializer,
    RootModel,
    SerializeAsAny,
    WrapSerializer,
    computed_field,
    create_model,
    field_serializer,
    model_serializer,
)
from typing_extensions import TypeAliasType

from mcpkit._protocol import wire
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import REVISIONS
from mcpkit._signature.converters import NotSerializable, blocks_of
from mcpkit._signature.output import OutputMismatch, Rendered, wrapped_schema
from mcpkit._utils.json import UNSET
from mcpkit.errors import RegistrationError
from mcpkit.types import (
    Annotations,
    Audio,
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    File,
    Icon,
    Image,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolResult,
)
from tests.authoring import accepted, arguments_of, handler, output_of
from tests.models import (
    Box,
    Cat,
    Color,
    Dog,
    Json,
    Maybe,
    Movie,
    Opaque,
    Pair,
    Pet,
    Point,
    Renamed,
    Spot,
    Tree,
    UserId,
    Words,
)
from tests.schemas import check_value

PNG = b"\x89PNG\r\n\x1a\n"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


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
    (list[bytes], [b"\xfb\xff"], '["-_8="]'),
    (tuple[int, str], (1, "a"), '[1,"a"]'),
    (set[int], {1}, "[1]"),
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
    (Point | Cat, Cat(kind="cat"), '{"kind":"cat","lives":9}'),
    (Pet, Dog(kind="dog"), '{"kind":"dog"}'),
    (
        Tree,
        Tree(value=1, children=[Tree(value=2)]),
        '{"value":1,"children":[{"value":2,"children":[]}]}',
    ),
    (dict[str, list[Spot | None]], {"a": [None, Spot(1)]}, '{"a":[null,{"x":1,"tags":[]}]}'),
    (tuple[float, str | None], (1e300, "é\n"), '[1e+300,"é\\n"]'),
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
def test_structured_content_fits_its_schema(annotation: Any, value: Any, text: str) -> None:
    output = output_of(annotation)
    rendered = output.render(value)
    assert rendered.structured == text.encode()
    shown = json.loads(text) if text.startswith('"') else text
    assert rendered.blocks() == [TextContent(shown)]
    # TOOL-11: only objects need no wrapper.
    assert rendered.is_object is output.is_object
    assert text.startswith("{") or not output.is_object
    assert output.schema is not None
    assert "$ref" not in output.schema
    Draft202012Validator(output.schema).validate(json.loads(text))
    assert accepted(annotation, json.loads(text)) == value
    wrapped = wrapped_schema(output.schema)
    Draft202012Validator.check_schema(wrapped)
    assert wrapped["type"] == "object"
    Draft202012Validator(wrapped).validate({"result": json.loads(text)})


# --- serializers ----------------------------------------------------------------------------------


class Shape(Enum):
    ROUND = (1, 2)
    FLAT = "flat"


class Serialized(BaseModel):
    when: dt.date
    cents: int = Field(serialization_alias="price")
    hidden: int = Field(1, exclude=True)
    items: list[int] = []

    @field_serializer("when")
    def _when(self, when: dt.date):  # type: ignore[no-untyped-def]
        return when.year

    @field_serializer("items", mode="wrap")
    def _items(self, items: list[int], handler: Any):  # type: ignore[no-untyped-def]
        return {"n": len(handler(items))}

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> Annotated[int, PlainSerializer(str, return_type=str)]:
        return 2 * self.cents


class Whole(BaseModel):
    x: int

    @model_serializer
    def _whole(self):  # type: ignore[no-untyped-def]
        return [self.x]


class Wide(Whole):
    y: int = 0


LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (dt.timedelta, st.timedeltas()),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=2)),
    (list[bytes], st.lists(TEXTS.map(str.encode))),
    (Shape, st.sampled_from(Shape)),
    (deque[int], st.builds(deque, st.lists(st.integers()))),
    (Annotated[int, PlainSerializer(lambda c: f"{c} EUR", return_type=str)], st.integers()),
    (Annotated[int, PlainSerializer(lambda c: f"{c} EUR")], st.integers()),
    (Annotated[int, WrapSerializer(lambda value, handler: [handler(value)])], st.integers()),
    (Annotated[str, PlainSerializer(len, when_used="json")], TEXTS),
    (
        Annotated[int | None, PlainSerializer(str, return_type=str, when_used="unless-none")],
        st.none() | st.integers(),
    ),
    (Serialized, st.builds(Serialized, cents=st.integers())),
    (Whole, st.builds(Whole)),
    (SerializeAsAny[Whole], st.builds(Wide)),
]


def combined(inner: tuple[Any, st.SearchStrategy[Any]]) -> list[tuple[Any, st.SearchStrategy[Any]]]:
    kind: Any
    kind, values = inner
    model = create_model(
        "Outer", a=(kind, Field(alias="A")), b=(kind, Field(serialization_alias="B"))
    )
    return [
        (list[kind], st.lists(values, max_size=3)),
        (dict[str, kind], st.dictionaries(TEXTS, values, max_size=3)),
        (kind | None, st.none() | values),
        (tuple[kind, str], st.tuples(values, TEXTS)),
        (RootModel[kind], values.map(RootModel[kind])),
        (model, st.builds(lambda a, b: model(A=a, b=b), values, values)),
    ]


TYPES = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: inner.flatmap(lambda found: st.sampled_from(combined(found))),
    max_leaves=3,
)


@given(data=st.data())
def test_what_is_sent_fits_the_schema_that_is_listed(data: st.DataObject) -> None:
    """TOOL-9: whatever serializers make of a value."""
    annotation, values = data.draw(TYPES)
    output = output_of(annotation, structured=True)
    assert output.schema is not None
    sent = output.render(data.draw(values)).structured
    assert sent is not None
    Draft202012Validator(output.schema).validate(json.loads(sent))


def test_a_serializer_of_an_unknown_type_opens_only_its_own_place() -> None:
    schema = output_of(Serialized).schema
    assert schema is not None
    assert schema["properties"] | {"double": {}} == {
        "when": {},
        "price": {"type": "integer"},
        "items": {},
        "double": {},
    }
    assert output_of(deque[int]).schema == {"type": "array", "items": {"type": "integer"}}


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
        ],
        ids=str,
    )
    def test_is_raised(self, annotation: Any, value: Any) -> None:
        with pytest.raises((OutputMismatch, NotSerializable)):
            output_of(annotation).render(value)

    def test_a_model_may_be_a_dict_or_another_object_and_is_checked_again(self) -> None:
        for value in ({"x": 1}, Spot(1)):
            assert output_of(Point).render(value).structured == b'{"x":1,"y":0}'
        point = Point(x=1)
        point.x = "two"  # type: ignore[assignment]
        with pytest.raises(OutputMismatch):
            output_of(Point).render(point)
        with pytest.raises(NotSerializable, match=r"result\.a is NaN"):
            output_of(Any, structured=True).render({"a": math.nan})


class Undefined(BaseModel):
    other: Missing  # type: ignore[name-defined]  # noqa: F821


WRONG: dict[str, tuple[Any, str]] = {
    "a discriminator that one lacks": (
        Annotated[Cat | Point, Field(discriminator="kind")],
        "Model 'Point' needs a discriminator field for key 'kind'",
    ),
    "a tag of two": (
        Annotated[Cat | type("Lion", (Cat,), {}), Field(discriminator="kind")],
        "Value 'cat' for discriminator 'kind' mapped to multiple choices",
    ),
    "a name that is missing": (Undefined, "not fully defined"),
    "look-around": (list[Annotated[str, Field(pattern="(?=a)b")]], "(look-around, including"),
    "no pattern": (list[Annotated[str, Field(pattern="(a")]], "(unclosed group)"),
}
if sys.version_info < (3, 12):
    PLAIN = typing.TypedDict("PLAIN", {"x": int})  # noqa: UP013 - not a class of typing_extensions
    WRONG["TypedDict of typing"] = (PLAIN, "use `typing_extensions.TypedDict` instead")
    WRONG["TypedDict of typing inside"] = (list[PLAIN], "use `typing_extensions.TypedDict`")


@pytest.mark.parametrize(("annotation", "reason"), WRONG.values(), ids=WRONG)
def test_a_type_that_is_known_but_wrong_is_refused_with_the_reason(
    annotation: Any, reason: str
) -> None:
    """It must not lose its schema and its validation silently."""
    with pytest.raises(RegistrationError, match="the return type cannot become JSON") as caught:
        output_of(annotation)
    assert reason in str(caught.value)
    with pytest.raises(RegistrationError) as caught:
        arguments_of(handler(annotation))
    assert reason in str(caught.value)
    assert output_of(annotation, structured=False).schema is None


Text = TypeAliasType("Text", str)
Blocks = TypeAliasType("Blocks", TextContent | ImageContent)


@pytest.mark.parametrize(
    "annotation",
    [
        *(UNSET, Any, None, str, bytes, str | None, Annotated[str, "words"], Text),
        *(NewType("Name", str), Image, list[Image], tuple[str, Image], Image | None),
        *(ContentBlock, list[ContentBlock], list[Blocks]),
        *(ResourceLink, EmbeddedResource, TextResourceContents, ToolResult),
    ],
    ids=str,
)
def test_text_and_content_have_no_schema(annotation: Any) -> None:
    assert output_of(annotation).schema is None


def test_structure_may_be_turned_off_and_on() -> None:
    rendered = output_of(Point, structured=False).render(Point(x=1))
    assert (rendered.content, rendered.structured) == ([TextContent('{"x":1,"y":0}')], None)
    assert output_of(Opaque, structured=False).schema is None
    rendered = output_of(str, structured=True).render("hi")
    assert rendered.structured == b'"hi"'
    assert rendered.blocks() == [TextContent("hi")]


PICTURE = ImageContent(PNG, "image/png")
LINK = ResourceLink("a:b", "b")
HI = TextContent("hi")
BLOB = BlobResourceContents("data:,", b"\0", mime_type="application/octet-stream")

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
    (b"\0", [EmbeddedResource(BLOB)]),
    (Image(PNG), [PICTURE]),
    (Audio(b"ID3"), [AudioContent(b"ID3", "audio/mpeg")]),
    (
        File(b"{}", "application/json", uri="a:b"),
        [EmbeddedResource(TextResourceContents("a:b", "{}", mime_type="application/json"))],
    ),
    (LINK, [LINK]),
    (HI, [HI]),
    (TextResourceContents("a:b", "x"), [EmbeddedResource(TextResourceContents("a:b", "x"))]),
    (["see", Image(PNG)], [TextContent("see"), PICTURE]),
    (("see", LINK, 3), [TextContent("see"), LINK, TextContent("3")]),
    ([PNG, {"a": 1}], [PICTURE, TextContent('{"a":1}')]),
]


@pytest.mark.parametrize(("value", "blocks"), CONTENT, ids=lambda each: str(each)[:30])
def test_content(value: Any, blocks: list[ContentBlock]) -> None:
    assert blocks_of(value) == blocks


SAMPLES: list[ContentBlock] = [
    *(HI, PICTURE, LINK),
    AudioContent(b"ID3", "audio/mpeg"),
    EmbeddedResource(BLOB),
    EmbeddedResource(TextResourceContents("a:b", "x")),
]
ANNOTATED = Annotations(audience=["user"], priority=1, last_modified="2026-07-28")
VALUES: list[Any] = [
    *(None, True, 5, 0.5, "a:b", b"bytes", bytearray(b"b"), [], (), {}, {"a": 1}, object()),
    *(ANNOTATED, LINK, BLOB, TextResourceContents("a:b", "x"), [Icon("a:b", sizes=["any"])]),
]


@pytest.mark.parametrize("block", SAMPLES, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("value", VALUES, ids=lambda each: type(each).__name__)
def test_any_value_in_any_field_of_a_block_is_sent_validly_or_named(
    block: ContentBlock, value: Any
) -> None:
    """CONT-1."""
    refused: set[str] = set()
    named = r"the {} of an? {} is an? {}, not "
    inner = [block.resource] if isinstance(block, EmbeddedResource) else []
    for part in (block, *inner):
        for field in dataclasses.fields(part):
            changed: Any = dataclasses.replace(part, **{field.name: value})
            whole = EmbeddedResource(changed) if part in inner else changed
            try:
                sent = blocks_of([whole])
            except NotSerializable as error:
                refused.add(field.name)
                wanted = named.format(field.name, type(part).__name__, type(value).__name__)
                sent = [TextContent("refused")] if re.match(wanted, str(error)) else []
            wired = [json.loads(encode(wire.block_to_wire(each, REVISIONS[-1]))) for each in sent]
            assert len(wired) == 1
            check_value(wired[0], REVISIONS[-1].version, "ContentBlock")
    assert refused or value is None


def test_the_data_of_a_picture_are_raw_bytes() -> None:
    with pytest.raises(NotSerializable) as caught:
        output_of(ImageContent).render(ImageContent("iVBORw0=", "image/png"))  # type: ignore[arg-type]
    assert str(caught.value) == (
        "the data of an ImageContent is a str, not bytes; pass the raw bytes, not their Base64"
    )


class TestToolResult:
    @pytest.mark.parametrize(
        ("result", "rendered"),
        [
            (ToolResult(["see", Image(PNG)]), Rendered([TextContent("see"), PICTURE])),
            (ToolResult(), Rendered([])),
            (ToolResult("hi", structured_content={"a": 1}), Rendered([HI], b'{"a":1}')),
            (
                ToolResult("hi", structured_content=None),
                Rendered([HI], b"null", is_object=False),
            ),
            (ToolResult(structured_content={"a": 1}), Rendered(None, b'{"a":1}')),
            (ToolResult("hi", meta={"a": 1}), Rendered([HI], meta={"a": 1})),
        ],
        ids=["blocks", "empty", "structure", "null", "structure alone", "meta"],
    )
    def test_is_sent_as_it_is(self, result: Any, rendered: Rendered) -> None:
        assert output_of(ToolResult).render(result) == rendered

    def test_its_structure_has_to_fit_the_schema_unless_it_is_an_error(self) -> None:
        failed = output_of(Point).render(ToolResult("hi", is_error=True))
        assert failed == Rendered([HI], is_error=True)
        with pytest.raises(OutputMismatch):
            output_of(Point).render(ToolResult(structured_content={"x": "two"}))
        with pytest.raises(OutputMismatch, match="which the schema promises"):
            output_of(Point).render(ToolResult("hi"))


def test_a_subclass_of_a_result_is_a_result() -> None:
    class Failure(ToolResult):
        def __init__(self, why: str) -> None:
            super().__init__(why, is_error=True)

    rendered = output_of(ToolResult).render(Failure("closed"))
    assert (rendered.blocks(), rendered.is_error) == ([TextContent("closed")], True)
