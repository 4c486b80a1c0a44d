"""JSON texts, counted before they are parsed, and the walk through a JSON Schema."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._utils.json import (
    References,
    Step,
    count_values,
    every_schema,
    excess_of,
    excess_of_digits,
    has_more_values,
    walk,
)

INNER: Final[dict[str, Any]] = {"type": "string"}

ONE: Final = (
    *("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not"),
    *("propertyNames", "then", "unevaluatedItems", "unevaluatedProperties"),
)
LISTS: Final = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
TABLES: Final = (
    *("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties"),
    "properties",
)
DATA: Final = ("const", "default", "dependentRequired", "enum", "examples", "required")


def test_a_keyword_may_have_a_schema_a_list_or_a_table_of_schemas() -> None:
    """A name in a table is not a keyword, even if it looks like one."""
    for keyword in ONE:
        assert list(walk({keyword: INNER}))[1:] == [((Step(keyword, None),), INNER)]
    for keyword in LISTS:
        found = list(walk({keyword: [INNER, True, {}]}))[1:]
        assert found == [((Step(keyword, 0),), INNER), ((Step(keyword, 2),), {})]
    for keyword in TABLES:
        found = list(walk({keyword: {"enum": INNER, "b": False, "c": ["d"]}}))[1:]
        assert found == [((Step(keyword, "enum"),), INNER)]


@pytest.mark.parametrize("value", [INNER, [INNER]])
def test_data_is_not_walked_and_keywords_of_others_are_on_request(value: Any) -> None:
    for keyword in DATA:
        assert len(list(walk({keyword: value}))) == 1
        assert len(list(walk({keyword: value}, unknown=True))) == 1
    assert len(list(walk({"x-ours": value}))) == 1
    assert [place.schema for place in walk({"x-ours": value}, unknown=True)][1:] == [INNER]


def test_a_schema_may_change_contain_itself_or_be_deeper_than_python_may_recurse() -> None:
    schema: dict[str, Any] = {"anyOf": [{"items": INNER}, {"type": "null"}]}
    for each in every_schema(schema):
        for keyword, value in (each.pop("anyOf", None) or [{}])[0].items():
            each[keyword] = value
    assert schema == {"items": INNER}
    endless: dict[str, Any] = {}
    endless["not"] = endless
    assert len(list(walk(endless, deepest=7))) == 8
    schema = {}
    for _ in range(20_000):
        schema = {"not": schema}
    assert sum(1 for _ in every_schema(schema)) == 20_001


ROOT: Final[dict[str, Any]] = {
    "properties": {"a": {"anyOf": [{"type": "null"}, INNER]}, "b": True},
    "$defs": {
        "a/b": {"title": "slash"},
        "a~b": {"title": "tilde"},
        "a b": {"title": "blank"},
        "named": {"items": {"$anchor": "here", "title": "anchored"}},
    },
    "title": "root",
}


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", ROOT),
        ("#/$defs/a~1b", {"title": "slash"}),
        ("#/$defs/a~0b", {"title": "tilde"}),
        ("#/$defs/a%20b", {"title": "blank"}),
        ("#here", {"$anchor": "here", "title": "anchored"}),
        ("#/properties/a/anyOf/1", INNER),
        ("#/properties/b", True),
        *[(each, None) for each in ("#nowhere", "#/$defs/absent", "#/title", "#/title/x")],
        *[(f"#/properties/a/anyOf/{index}", None) for index in ("2", "²", "-1")],
        *[(each, None) for each in ("other.json#/$defs/named", "https://example.com/schema")],
    ],
)
def test_a_reference_names_a_schema_of_the_document_or_nothing(reference: str, found: Any) -> None:
    assert References(ROOT).resolve(reference) == found


# --- the size of a text ---------------------------------------------------------------------------

TEXTS = st.text(alphabet=' ,:"\\[]{}aé', max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


def count(value: Any) -> int:
    """The number of values in a JSON value, itself included."""
    if isinstance(value, dict):
        return 1 + sum(map(count, value.values()))
    return 1 + sum(map(count, value)) if isinstance(value, list) else 1


@given(JSON, st.booleans())
def test_the_number_is_right(value: Any, compact: bool) -> None:
    text = json.dumps(value, separators=(",", ":") if compact else None).encode()
    number = count(value)
    assert not has_more_values(text, number)
    assert has_more_values(text, number - 1)
    assert count_values(text, number) == number
    assert count_values(text, number - 1) > number - 1


@pytest.mark.parametrize(
    "text",
    [
        b'"' + b"," * 1000 + b'"',
        b'"' + b'\\",[' * 1000 + b'"',
        b'"' + b"\\\\" * 1000 + b'"',
        b'{"' + b"[{," * 1000 + b'": 1}',
        b'["\\\\", "' + b"," * 1000 + b'"]',
    ],
    ids=lambda each: str(each)[2:12],
)
def test_what_stands_in_strings_does_not_count(text: bytes) -> None:
    json.loads(text)
    assert not has_more_values(text, 4)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 1000,
        b"1," * 1000,
        b'"\\\\",' * 1000,
        b'"\\"",' * 1000,
        b'{"a":1,' * 1000,
        b'["",' + b"1," * 1000 + b'"',
        b'"",' * 1000 + b"\\",
    ],
    ids=lambda each: str(each)[2:12],
)
def test_what_stands_before_a_mistake_counts(text: bytes) -> None:
    assert has_more_values(text, 100)


LARGE = b" " * 64 * 1024


@pytest.mark.parametrize("number", [b"7" * 401, b"-" + b"7" * 401, b"1." + b"7" * 401])
@pytest.mark.parametrize("around", [(b"", b""), (b'["a",', b"]"), (b'{"a\\"b":', b"}")])
def test_a_long_number_is_found_in_a_large_text(number: bytes, around: tuple[bytes, bytes]) -> None:
    text = LARGE + number.join(around)
    assert excess_of(text, 10) == "a number of more than 400 digits"
    assert not excess_of_digits(number.join(around))


@pytest.mark.parametrize("digits", [20, 21, 40, 390])
def test_long_numbers_have_so_many_digits_together(digits: int) -> None:
    number = b"7" * digits
    at_most = 200_000 // (digits // 20 * 20)
    assert not excess_of_digits(LARGE + b",".join([number] * at_most))
    said = "numbers of 20 digits and more, of 200,000 digits in all"
    assert excess_of_digits(LARGE + b",".join([number] * (at_most + 1))) == said


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"7" * 400 + b"," + b"7" * 400 + b"]",
        b'"' + b"7" * 1000 + b'"',
        b'["\\"' + b"7" * 1000 + b'"]',
        b'{"' + b"7" * 1000 + b'": 1}',
        b"[" + b",".join([b"7" * 19] * 50_000) + b"]",
        b'["' + b"7" * 300_000 + b'"]',
    ],
)
def test_digits_that_are_no_long_number(text: bytes) -> None:
    json.loads(text)
    assert not excess_of_digits(LARGE + text)
