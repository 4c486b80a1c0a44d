"""Fields of forms: texts → values that fit."""

from __future__ import annotations

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
    assert not any("None" in each or "True" in each for each in field.about)


@pytest.mark.parametrize(
    ("schema", "text", "message"),
    [
        ({**TEXT, "minLength": 2}, "a", "expected at least 2 characters"),
        ({**TEXT, "minLength": 2, "maxLength": 3}, "abcd", "expected 2 to 3 characters"),
        ({**TEXT, "format": "email"}, "a.b", "expected a mail address"),
        ({**TEXT, "format": "uri"}, "a b", "expected a URL"),
        ({**TEXT, "format": "date"}, "1999-2-3", "expected a date, YYYY-MM-DD"),
        ({**TEXT, "format": "date-time"}, "1999-02-01", "expected a date and time"),
        ({"type": "integer"}, "2.5", 'expected an integer, got "2.5"'),
        ({"type": "integer", "minimum": 1, "maximum": 4}, "5", "expected 1 to 4"),
        ({"type": "number"}, "two", 'expected a number, got "two"'),
        ({"type": "number", "maximum": 1}, "1.5", "expected at most 1"),
        ({"type": "boolean"}, "perhaps", 'expected a boolean, got "perhaps"'),
        (CHOICE, "3", "expected one of x, y"),
        (MANY, "1, 7", "expected one of b, p"),
        (MANY, '["z"]', "expected one of b, p"),
        (MANY, ",", "expected at least 1 of them"),
    ],
    ids=str,
)
def test_what_does_not_fit(schema: dict[str, Any], text: str, message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.")):
        Field("field", schema, True).read(text)


@pytest.mark.parametrize(
    ("schema", "value"),
    [({"type": "integer"}, True), ({"type": "boolean"}, 1), (TEXT, 1), (MANY, "b")],
    ids=str,
)
def test_json_of_another_type(schema: dict[str, Any], value: Any) -> None:
    with pytest.raises(ValueError, match=r"^expected an? "):
        Field("field", schema, True).checked(value)


def test_the_fields_of_a_form() -> None:
    found = fields_of({"properties": {"a": {"default": 1}, "b": {}}, "required": ["b"]})
    assert [(each.name, each.required, each.has_default) for each in found] == [
        ("a", False, True),
        ("b", True, False),
    ]
