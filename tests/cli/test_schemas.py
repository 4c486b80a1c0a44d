"""JSON Schemas in words."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.cli.schemas import in_words

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
