"""JSON Schemas in words."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from mcpkit._utils.json import References
from mcpkit.cli._schema_text import Effort, in_words, kinds_of, resolved

NODE: dict[str, Any] = {
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
    "$ref": "#/$defs/Node",
}

WORDS: list[tuple[Any, str]] = [
    ({}, "anything"),
    (True, "anything"),
    (False, "nothing"),
    ({"type": "string"}, "string"),
    ({"type": "string", "format": "date"}, "string, date"),
    ({"type": "string", "minLength": 2}, "string, at least 2 characters"),
    ({"type": "string", "pattern": "^a"}, "string, like ^a"),
    ({"type": "integer", "minimum": 1, "maximum": 7}, "integer, 1 to 7"),
    ({"type": "number", "exclusiveMinimum": 0}, "number, more than 0"),
    ({"type": ["integer", "null"]}, "integer | null"),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "integer | string"),
    ({"enum": ["a", 1, None]}, '"a" | 1 | null'),
    ({"enum": list(range(14))}, " | ".join(map(str, range(12))) + " | … (2 more)"),
    ({"const": "a"}, '"a"'),
    ({"type": "array"}, "list of anything"),
    ({"type": "array", "items": {"type": "string"}}, "list of strings"),
    ({"type": "array", "items": {"enum": ["a", "b"]}}, 'list of ("a" | "b")'),
    (
        {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "list of strings, at least 1 item",
    ),
    ({"type": "object"}, "object"),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, "object of integers"),
    (
        {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
        "{a: string, b?: anything}",
    ),
    (NODE, "{next?: {next?: {next?: object}}}"),
    ({"$ref": "#/missing"}, "anything"),
    ({"$ref": "#"}, "anything"),
]


@pytest.mark.parametrize(("schema", "words"), WORDS, ids=[words for _, words in WORDS])
def test_in_words(schema: Any, words: str) -> None:
    assert in_words(schema, schema if isinstance(schema, dict) else {}) == words


# --- schemas that are made to take long -----------------------------------------------------------


def doubling(keyword: str, levels: int = 8) -> dict[str, Any]:
    """A few hundred bytes that are ten to the eighth of schemas, once references are followed."""
    defs = {
        f"a{level}": {keyword: [{"$ref": f"#/$defs/a{level + 1}"}] * 10} for level in range(levels)
    }
    return {"$defs": {**defs, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


def members(levels: int = 3) -> dict[str, Any]:
    """The same with members of objects."""
    names = [f"n{number}" for number in range(1000)]
    defs = {
        f"a{level}": {"properties": {name: {"$ref": f"#/$defs/a{level + 1}"} for name in names}}
        for level in range(levels)
    }
    return {"$defs": {**defs, f"a{levels}": {"const": "x" * 100_000}}, "$ref": "#/$defs/a0"}


WIDE: Final = {"$defs": {"a": {f"x{n}": 1 for n in range(20_000)}}}
HUGE: Final = {
    "anyOf": doubling("anyOf"),
    "oneOf": doubling("oneOf"),
    "allOf": doubling("allOf"),
    "anyOf itself": {"anyOf": [{"$ref": "#"}] * 30},
    "members": members(),
    "many keywords": {
        **WIDE,
        "anyOf": [{"$ref": "#/$defs/a", "description": str(n)} for n in range(20_000)],
    },
    "types": {"type": ["string"] * 1_000_000, "pattern": "x" * 1_000_000},
    "a long name": {"properties": {"x" * 1_000_000: {}}},
    "long values": {"enum": [["x" * 100] * 10_000, {"x" * 100_000: 1}]},
    "limits": {"type": "integer", "minimum": ["x" * 100_000], "multipleOf": {"x": "x" * 100_000}},
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("schema", HUGE.values(), ids=HUGE.keys())
def test_no_schema_takes_long_to_describe(schema: Any) -> None:
    assert len(in_words(schema, schema)) < 20_000
    kinds_of(schema, schema)


def test_what_is_left_out_is_said() -> None:
    schema = {"anyOf": [{"const": number} for number in range(10_000)]}
    said = in_words(schema, schema)
    assert said.startswith("0 | 1 | 2 | ")
    assert said.endswith(" | …")


@pytest.mark.timeout(10)
def test_many_descriptions_have_one_end() -> None:
    schema = doubling("anyOf")
    effort = Effort(10_000)
    words = [in_words(schema, schema, effort) for _ in range(100_000)]
    assert set(words[100:]) == {"…"}


NONSENSE: list[Any] = [None, 1, "x", [], [[]], {}, {"a": []}, True]


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_keywords_may_have_any_value(value: Any) -> None:
    keywords = (
        "$ref enum anyOf oneOf allOf type properties required items additionalProperties format "
        "minimum exclusiveMinimum multipleOf minLength minItems pattern"
    )
    for keyword in keywords.split():
        for kind in ("integer", "string", "array", "object", None):
            schema = {"type": kind, "properties": {"a": {}}, keyword: value}
            json.dumps([in_words(schema, schema), sorted(kinds_of(schema, schema))])


def test_a_reference_to_a_place_with_too_many_digits_leads_nowhere() -> None:
    schema = {"anyOf": [{"type": "string"}], "$ref": "#/anyOf/" + "0" * 5000}
    assert resolved(schema, schema) == {"anyOf": [{"type": "string"}]}
    assert References(schema).resolve("#/anyOf/0") == {"type": "string"}
