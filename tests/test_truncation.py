"""Values and texts, truncated so that they fit their schema, and what is missing of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import reduce
from operator import getitem
from typing import Annotated, Any, Final, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from pydantic import BaseModel, Field

from mcpkit._signature.truncation import Truncation, end_of_piece, pieces, size_of
from tests.authoring import output_of
from tests.models import Json, Tree

Typed = tuple[dict[str, Any], st.SearchStrategy[Any]]
"""A schema, and the values that fit it."""

ROOM: Final = 300
LONG: Final = "word " * 400


# --- generated values -----------------------------------------------------------------------------


def texts(least: int = 0) -> st.SearchStrategy[str]:
    """Texts of up to some thousand characters, also such as JSON escapes or UTF-8 has more of."""
    short = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
    long = st.builds(lambda text, times: text * times, short, st.integers(1, 200))
    return st.one_of(short, long, st.just("")).filter(lambda text: len(text) >= least)


FREE: Final = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts(),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(texts(), inner, max_size=8),
    max_leaves=40,
)
"""Any JSON value."""

NAMES: Final = st.sampled_from(["a", "b", "log", "items", "a name", "é", ""])

LEAVES: Final[list[Typed]] = [
    ({"type": "string"}, texts()),
    ({"type": "string", "minLength": 40}, st.builds(lambda text: text + "-" * 40, texts())),
    ({"type": "string", "pattern": "^x*$"}, st.integers(0, 60).map(lambda times: "x" * times)),
    ({"enum": [LONG[:60], "b"]}, st.sampled_from([LONG[:60], "b"])),
    ({"type": "integer"}, st.integers()),
    ({"type": ["string", "null"], "maxLength": 5000}, st.none() | texts().map(lambda t: t[:5000])),
    ({}, FREE),
]


def lists_of(inner: Typed, least: int, *, unique: bool = False) -> Typed:
    schema: dict[str, Any] = {"type": "array", "items": inner[0], "minItems": least}
    if unique:
        schema["uniqueItems"] = True
    key = (lambda each: json.dumps(each, sort_keys=True)) if unique else None
    # 1 and True are the same to jsonschema.
    return schema, st.lists(inner[1], min_size=least, max_size=least + 12, unique_by=key)


def objects_of(members: dict[str, Typed], more: Typed | None) -> Typed:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: each[0] for name, each in members.items()},
        "required": sorted(members)[:1],
        "additionalProperties": False if more is None else more[0],
    }
    known = st.fixed_dictionaries(
        {name: members[name][1] for name in sorted(members)[:1]},
        optional={name: members[name][1] for name in sorted(members)[1:]},
    )
    if more is None:
        return schema, known
    others = st.dictionaries(texts().map(lambda text: f"x {text}"), more[1], max_size=12)
    return schema, st.builds(lambda one, two: {**two, **one}, known, others)


def maps_of(inner: Typed, least: int) -> Typed:
    schema = {"type": "object", "additionalProperties": inner[0], "minProperties": least}
    return schema, st.dictionaries(texts(), inner[1], min_size=least, max_size=least + 15)


def unions_of(one: Typed, two: Typed) -> Typed:
    return {"anyOf": [one[0], two[0]]}, one[1] | two[1]


def tuples_of(*parts: Typed) -> Typed:
    schemas = [each[0] for each in parts]
    schema = {"type": "array", "prefixItems": schemas, "minItems": 2, "maxItems": 2}
    return schema, st.tuples(*(each[1] for each in parts)).map(list)


def tagged_of(*parts: Typed) -> Typed:
    tagged = [
        objects_of({"tag": ({"const": number}, st.just(number)), "value": each}, None)
        for number, each in enumerate(parts)
    ]
    return {"oneOf": [each[0] for each in tagged]}, st.one_of(*(each[1] for each in tagged))


def both_of(inner: Typed) -> Typed:
    return {"allOf": [inner[0], {}], "$comment": "either"}, inner[1]


TYPED: Final[st.SearchStrategy[Typed]] = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: st.one_of(
        st.builds(lists_of, inner, st.integers(0, 2), unique=st.booleans()),
        st.builds(
            objects_of, st.dictionaries(NAMES, inner, min_size=1, max_size=3), st.none() | inner
        ),
        st.builds(maps_of, inner, st.integers(0, 2)),
        st.builds(unions_of, inner, inner),
        st.builds(both_of, inner),
        st.builds(tuples_of, inner, inner),
        st.builds(tagged_of, inner, inner),
    ),
    max_leaves=6,
)


@st.composite
def schemas_with_values(draw: st.DrawFn) -> tuple[dict[str, Any], Any]:
    schema, values = draw(TYPED)
    return schema, draw(values)


# --- putting the parts together -------------------------------------------------------------------

STEP: Final = re.compile(r'\[(\d+):\]|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?(\w+)')
READ: Final[list[Callable[[str], Any]]] = [int, int, json.loads, str]
"""The reader of each group: the end of a text, an index, and a name in quotes or without."""


def restored(kept: Any, lines: list[str]) -> Any:
    """The whole value, from what was kept and the lines with the rest."""
    root: Any = {"result": json.loads(json.dumps(kept))}
    for line in lines:
        if isinstance(kept, dict):
            line = f"result{line}" if line.startswith("[") else f"result.{line}"
        at, group, steps = 0, 0, list[Any]()
        while not line.startswith(" = ", at):
            found = STEP.match(line, at)
            assert found is not None, line[at:]
            group, at = found.lastindex or 0, found.end()
            steps.append(READ[group - 1](found[group]))
        value = json.loads(line[at + 3 :])
        place = reduce(getitem, steps[: -2 if group == 1 else -1], root)
        if group == 1:  # the end of a text
            assert len(place[steps[-2]]) == steps[-1]
            place[steps[-2]] += value
        elif isinstance(place, list):
            assert steps[-1] == len(place)
            place.append(value)
        else:
            assert steps[-1] not in place
            place[steps[-1]] = value
    return root["result"]


def rest_of(found: Truncation) -> list[str]:
    return [line for cut in found.cuts for line in cut.lines()]


@given(schemas_with_values(), st.integers(200, 2000))
def test_the_truncated_value_fits_the_schema_and_the_parts_add_up_to_the_whole(
    typed: tuple[dict[str, Any], Any], room: int
) -> None:
    schema, value = typed
    found = Truncation(value, schema, room)
    Draft202012Validator(schema).validate(found.value)
    assert found.fits == (size_of(found.value) <= room)
    whole = restored(found.value, rest_of(found))
    assert whole == value
    assert list(found.cuts) or found.value == value


@given(FREE, st.integers(200, 2000))
def test_without_a_schema_everything_fits_but_long_names(value: Any, room: int) -> None:
    found = Truncation({"value": value}, None, room)
    assert found.fits
    assert restored(found.value, rest_of(found)) == {"value": value}


@given(schemas_with_values(), st.integers(200, 2000), st.integers(0, 500))
def test_more_room_shows_no_less(typed: tuple[dict[str, Any], Any], room: int, more: int) -> None:
    schema, value = typed
    less, greater = Truncation(value, schema, room), Truncation(value, schema, room + more)
    assert greater.fits or not less.fits


@given(texts(), st.integers(1, 300))
def test_the_pieces_of_a_text_add_up_to_it(text: str, limit: int) -> None:
    found = list(pieces(text, limit))
    assert "".join(found) == text
    assert all(0 < len(each) <= limit for each in found)


def test_a_piece_ends_after_a_line_or_else_after_a_word() -> None:
    assert list(pieces("one two\nthree four", 12)) == ["one two\n", "three four"]
    assert list(pieces("one two three", 10)) == ["one two ", "three"]
    assert list(pieces("a line\nof many words in it", 20)) == ["a line\nof many ", "words in it"]
    assert list(pieces("x" * 25, 10)) == ["x" * 10, "x" * 10, "x" * 5]
    assert end_of_piece("short", 0, 10) == 5


# --- values as authors have them ------------------------------------------------------------------


class Entry(BaseModel):
    id: int
    text: str = ""


class Note(BaseModel):
    kind: Literal["note"] = "note"
    text: str


class Table(BaseModel):
    kind: Literal["table"] = "table"
    rows: list[int]


class Report(BaseModel):
    items: list[Entry]
    log: str
    state: Literal["done", "failed"] = "done"
    day: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")] = "2026-11-28"
    notes: str | None = None


def truncated(annotation: Any, value: Any, room: int = ROOM) -> Truncation:
    output = output_of(annotation, True)
    rendered = output.render(value)
    assert rendered.structured is not None
    found = Truncation(json.loads(rendered.structured), output.schema, room)
    assert output.schema is not None
    Draft202012Validator(output.schema).validate(found.value)
    return found


def said(found: Truncation) -> list[str]:
    return [str(cut) for cut in found.cuts]


def test_the_longest_parts_lose_their_ends_and_the_others_stay() -> None:
    items = [Entry(id=number) for number in range(1000)]
    found = truncated(Report, Report(items=items, log=LONG, notes="short"))
    assert said(found) == ["items: 6 of 1,000", "log: 115 of 2,000 characters"]
    assert found.value["items"] == [{"id": number, "text": ""} for number in range(6)]
    assert found.value["log"] == LONG[:115]
    assert (found.value["notes"], found.value["day"]) == ("short", "2026-11-28")
    first, *_, last = rest_of(found)
    assert first == 'items[6] = {"id":6,"text":""}\n'
    assert last == f'log[115:] = "{LONG[115:]}"\n'


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (list[int], [*range(1000)], ["result: 102 of 1,000"]),
        (str, LONG, ["result: 295 of 2,000 characters"]),
        (list[str], [LONG, LONG], ["result[0]: 295 of 2,000 characters", "result: 1 of 2"]),
        (dict[str, int], {f"k{n}": n for n in range(1000)}, ["result: 35 of 1,000 members"]),
        (dict[str, str], {"a b": LONG}, ['["a b"]: 290 of 2,000 characters']),
        (str | None, LONG, ["result: 295 of 2,000 characters"]),
        (list[int] | str, [*range(1000)], ["result: 102 of 1,000"]),
        (Tree, Tree(value=1, children=[Tree(value=n) for n in range(99)]), ["children: 10 of 99"]),
        (Json, {"a": ["x"] * 1000}, ["a: 73 of 1,000"]),
        (Any, {"meta": {"n": 1}, "rows": [[LONG]]}, ["rows[0][0]: 270 of 2,000 characters"]),
        (set[int], {*range(1000)}, ["result: 102 of 1,000"]),
        (
            Annotated[Note | Table, Field(discriminator="kind")],
            Table(rows=[1] * 1000),
            ["rows: 137 of 1,000"],
        ),
        (Annotated[set[str], Field(min_length=2)], {LONG + "a", LONG + "b"}, None),
        (Annotated[list[int], Field(min_length=80)], [10**6] * 1000, None),
        (tuple[str, int], (LONG, 1), ["result[0]: 290 of 2,000 characters"]),
        (Annotated[str, Field(pattern="^w")], LONG, None),
        (bytes, b"x" * 1000, None),
        (list[Annotated[str, Field(pattern="^w")]], [LONG], ["result: 0 of 1"]),
    ],
)
def test_what_a_type_allows(annotation: Any, value: Any, expected: list[str] | None) -> None:
    """None: no value of this type is short enough."""
    found = truncated(annotation, value)
    assert found.fits == (expected is not None)
    if expected is not None:
        assert said(found) == expected
