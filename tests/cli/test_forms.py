"""Fields of forms: texts → values that fit."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mcpkit.cli._answers import Field, fields_of

TITLED = [{"const": "b", "title": "Breakfast"}, {"const": "p", "title": "Parking"}]
MANY = {"type": "array", "items": {"anyOf": TITLED}, "minItems": 1}
TEXT = {"type": "string"}
CHOICE = {"type": "string", "enum": ["x", "y"]}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (TEXT, " a b ", " a b "),
        ({**TEXT, "format": "email"}, "a@b.c", "a@b.c"),
        ({**TEXT, "format": "uri"}, "https://a.b", "https://a.b"),
        ({**TEXT, "format": "date"}, "1999-12-31", "1999-12-31"),
        ({**TEXT, "format": "date-time"}, "1999-12-31T10:00:00Z", "1999-12-31T10:00:00Z"),
        ({"type": "integer", "minimum": 1}, " 3 ", 3),
        ({"type": "integer"}, "-3", -3),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "2", 2),
        ({"type": "boolean"}, "Y", True),
        ({"type": "boolean"}, "no", False),
        (CHOICE, "y", "y"),
        (CHOICE, "2", "y"),
        ({**CHOICE, "enumNames": ["Ex", "Why"]}, "why", "y"),
        ({**TEXT, "enum": ["2", "1"]}, "1", "1"),
        ({**TEXT, "oneOf": TITLED}, "parking", "p"),
        (MANY, "1, parking", ["b", "p"]),
        (MANY, '["p"]', ["p"]),
        ({"type": "array", "items": CHOICE}, "x", ["x"]),
    ],
    ids=str,
)
def test_what_fits(schema: dict[str, Any], text: str, value: Any) -> None:
    assert Field("field", schema, True).read(text) == value


KINDS: dict[str, str] = {"string": "a", "integer": "1", "number": "1.5", "array": "a", "x": "a"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", ["x", None, [], {}, [[]], True], ids=repr)
def test_a_malformed_limit_is_ignored(kind: str, wrong: Any) -> None:
    keywords = (
        "minimum maximum minLength maxLength minItems maxItems format enum enumNames oneOf anyOf "
        "items title description"
    )
    schema: dict[str, Any] = {**dict.fromkeys(keywords.split(), wrong), "type": kind}
    (field,) = fields_of({"properties": {"a": schema}, "required": wrong})
    assert field.read(KINDS[kind]) is not None
    assert "None" not in field.about
    assert "True" not in field.about


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        ({**TEXT, "minLength": 2}, "a", "string, at least 2 characters"),
        ({**TEXT, "minLength": 2, "maxLength": 3}, "abcd", "string, 2 to 3 characters"),
        ({**TEXT, "format": "email"}, "a.b", "string, email, as ada@example.com"),
        ({**TEXT, "format": "uri"}, "a b", "string, uri, as https://example.com"),
        ({**TEXT, "format": "date"}, "1999-2-3", "string, date, as YYYY-MM-DD"),
        ({**TEXT, "format": "date-time"}, "1999-02-01", "string, date-time, as YYYY-MM-DDT"),
        ({"type": "integer"}, "2.5", 'integer, got "2.5"'),
        ({"type": "integer", "minimum": 1, "maximum": 4}, "5", "integer, 1 to 4"),
        ({"type": "number"}, "two", 'number, got "two"'),
        ({"type": "number", "maximum": 1}, "1.5", "number, at most 1"),
        ({"type": "boolean"}, "perhaps", 'boolean, got "perhaps"'),
        (CHOICE, "3", '"x" | "y"'),
        (MANY, "1, 7", 'list of ("b" | "p"), at least 1 item'),
        (MANY, '["z"]', 'list of ("b" | "p"), at least 1 item'),
        (MANY, ",", 'list of ("b" | "p"), at least 1 item'),
    ],
    ids=str,
)
def test_what_does_not_fit(schema: dict[str, Any], text: str, message: str) -> None:
    with pytest.raises(ValueError, match="^expected " + re.escape(message)):
        Field("field", schema, True).read(text)


@pytest.mark.parametrize(
    ("schema", "value"),
    [({"type": "integer"}, True), ({"type": "boolean"}, 1), (TEXT, 1), (MANY, "b")],
    ids=str,
)
def test_json_of_another_type(schema: dict[str, Any], value: Any) -> None:
    with pytest.raises(ValueError, match=r"^expected "):
        Field("field", schema, True).checked(value)


def test_the_fields_of_a_form() -> None:
    found = fields_of({"properties": {"a": {"default": 1}, "b": {}}, "required": ["b"]})
    assert [(each.name, each.required, each.has_default) for each in found] == [
        ("a", False, True),
        ("b", True, False),
    ]
