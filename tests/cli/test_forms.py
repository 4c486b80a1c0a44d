"""Fields of forms: texts → values that fit."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.cli._forms import Field, fields_of

TITLED = [{"const": "b", "title": "Breakfast"}, {"const": "p", "title": "Parking"}]
MANY = {"type": "array", "items": {"anyOf": TITLED}, "minItems": 1}

FITS: list[tuple[dict[str, Any], str, Any]] = [
    ({"type": "string"}, " a b ", " a b "),
    ({"type": "string", "format": "email"}, "a@b.c", "a@b.c"),
    ({"type": "string", "format": "uri"}, "https://a.b", "https://a.b"),
    ({"type": "string", "format": "date"}, "1999-12-31", "1999-12-31"),
    ({"type": "string", "format": "date-time"}, "1999-12-31T10:00:00Z", "1999-12-31T10:00:00Z"),
    ({"type": "integer", "minimum": 1}, " 3 ", 3),
    ({"type": "integer"}, "-3", -3),
    ({"type": "number"}, "2.5", 2.5),
    ({"type": "number"}, "2", 2),
    ({"type": "boolean"}, "Y", True),
    ({"type": "boolean"}, "no", False),
    ({"type": "string", "enum": ["x", "y"]}, "y", "y"),
    ({"type": "string", "enum": ["x", "y"]}, "2", "y"),
    ({"type": "string", "enum": ["x", "y"], "enumNames": ["Ex", "Why"]}, "why", "y"),
    ({"type": "string", "enum": ["2", "1"]}, "1", "1"),
    ({"type": "string", "oneOf": TITLED}, "parking", "p"),
    (MANY, "1, parking", ["b", "p"]),
    (MANY, '["p"]', ["p"]),
    ({"type": "array", "items": {"type": "string", "enum": ["x"]}}, "x", ["x"]),
]


@pytest.mark.parametrize(("schema", "text", "value"), FITS, ids=str)
def test_what_fits(schema: dict[str, Any], text: str, value: Any) -> None:
    assert Field("field", schema, True).read(text) == value


WRONG: list[Any] = ["x", None, [], {}, [[]], True]
"""Values of keywords that say something else, or nothing."""

KINDS: dict[str, str] = {"string": "a", "integer": "1", "number": "1.5", "array": "a", "x": "a"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_limit_that_makes_no_sense_is_none(kind: str, wrong: Any) -> None:
    keywords = (
        "minimum maximum minLength maxLength minItems maxItems format enum enumNames oneOf anyOf "
        "items title description"
    )
    schema: dict[str, Any] = {**dict.fromkeys(keywords.split(), wrong), "type": kind}
    (field,) = fields_of({"properties": {"a": schema}, "required": wrong})
    assert field.read(KINDS[kind]) is not None
    assert not any("None" in each or "True" in each for each in field.about)


MISFITS: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "string", "minLength": 2}, "a", "expected at least 2 characters"),
    ({"type": "string", "minLength": 2, "maxLength": 3}, "abcd", "expected 2 to 3 characters"),
    ({"type": "string", "format": "email"}, "a.b", "expected a mail address"),
    ({"type": "string", "format": "uri"}, "a b", "expected a URL"),
    ({"type": "string", "format": "date"}, "1999-02-30", "expected a date, YYYY-MM-DD"),
    ({"type": "string", "format": "date-time"}, "1999-02-01", "expected a date and time"),
    ({"type": "integer"}, "two", "expected a whole number"),
    ({"type": "integer"}, "2.5", "expected a whole number"),
    ({"type": "integer", "minimum": 1, "maximum": 4}, "5", "expected 1 to 4"),
    ({"type": "number"}, "two", "expected a number, such as 2.5"),
    ({"type": "number", "maximum": 1}, "1.5", "expected at most 1"),
    ({"type": "boolean"}, "perhaps", "expected yes or no"),
    ({"type": "string", "enum": ["x", "y"]}, "3", "expected one of x, y"),
    (MANY, "1, 7", "expected one of b, p"),
    (MANY, '["z"]', "expected each to be one of b, p"),
    (MANY, ",", "expected at least 1 of them"),
]


@pytest.mark.parametrize(("schema", "text", "message"), MISFITS, ids=str)
def test_what_does_not_fit(schema: dict[str, Any], text: str, message: str) -> None:
    with pytest.raises(ValueError, match="^" + message.replace(".", r"\.")):
        Field("field", schema, True).read(text)


@pytest.mark.parametrize(
    ("schema", "value"),
    [({"type": "integer"}, True), ({"type": "boolean"}, 1), ({"type": "string"}, 1), (MANY, "b")],
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


def test_a_confirmation_has_no_fields() -> None:
    assert fields_of({}) == []
