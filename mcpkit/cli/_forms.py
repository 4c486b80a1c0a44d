"""The fields of a form that a server wants filled in: texts → values that fit."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from urllib.parse import urlsplit

from mcpkit._utils.json import is_array, is_object
from mcpkit.cli._schema_text import a_kind, compact, number_or_none, required_of


def fields_of(schema: Mapping[str, Any]) -> list[Field]:
    """Return the fields of a requested schema, in their order."""
    properties = schema.get("properties")
    needed = required_of(schema)
    return [
        Field(name, each if is_object(each) else {}, name in needed)
        for name, each in (properties if is_object(properties) else {}).items()
    ]


class Field:
    """A field of a form.

    Args:
        name: Of the member in the answer.
        schema: Of the values that the server wants there.
        required: True if it must be filled in.

    Attributes:
        kind: ``string``, ``integer``, ``number``, ``boolean`` or ``array``.
        choices: Values with titles, if it is a choice.
    """

    def __init__(self, name: str, schema: Mapping[str, Any], required: bool) -> None:
        self.name = name
        self.required = required
        self._schema = schema
        kind = schema.get("type")
        self.kind = kind if isinstance(kind, str) else "string"
        items = schema.get("items")
        self.choices = _choices(items if self.kind == "array" and is_object(items) else schema)

    @property
    def title(self) -> str | None:
        """The name of the field for people; None if it has none."""
        return self._text("title")

    @property
    def description(self) -> str | None:
        """The server's explanation of the field; None if it has none."""
        return self._text("description")

    def _text(self, member: str) -> str | None:
        found = self._schema.get(member)
        return found if isinstance(found, str) else None

    @property
    def has_default(self) -> bool:
        """True if the server has suggested a value."""
        return "default" in self._schema

    @property
    def default(self) -> Any:
        """The value that the server has suggested; None if it has not."""
        return self._schema.get("default")

    @property
    def about(self) -> list[str]:
        """The values that fit, in a few words each."""
        schema, found = self._schema, list[str]()
        if self.kind == "array":
            found.append("numbers or values, with commas between them")
            found += _limits(schema.get("minItems"), schema.get("maxItems"), " of them")
        elif self.choices:
            found.append("a number or value")
        elif self.kind == "boolean":
            found.append("yes or no")
        elif self.kind in ("integer", "number"):
            found.append({"integer": "whole number", "number": "number"}[self.kind])
            found += _limits(schema.get("minimum"), schema.get("maximum"), "")
        else:
            named = schema.get("format")
            if isinstance(named, str):
                found.append(_FORMATS.get(named, named))
            found += _limits(schema.get("minLength"), schema.get("maxLength"), " characters")
        return found

    def shown(self, value: Any) -> str:
        """Return a value as it would be typed."""
        if isinstance(value, bool):
            return "yes" if value else "no"
        if is_array(value):
            return ", ".join(map(str, value))
        return value if isinstance(value, str) else compact(value)

    def read(self, text: str) -> Any:
        """Return the value that a text stands for.

        Raises:
            ValueError: The text does not fit; the message says what would.
        """
        word = text.strip()
        if self.kind == "array":
            if word.startswith("["):
                return self.checked(json.loads(word))
            return self.checked([self._chosen(each) for each in word.split(",") if each.strip()])
        if self.choices:
            return self._chosen(word)
        if self.kind == "boolean":
            if word.lower() in ("yes", "y", "true", "on", "1"):
                return True
            if word.lower() in ("no", "n", "false", "off", "0"):
                return False
            raise ValueError("expected yes or no")
        if self.kind == "integer":
            try:
                return self.checked(int(word))
            except ValueError as error:
                raise ValueError(str(error) if word.lstrip("-").isdigit() else _WHOLE) from None
        if self.kind == "number":
            try:
                number = float(word)
            except ValueError:
                raise ValueError("expected a number, such as 2.5") from None
            return self.checked(int(number) if number.is_integer() else number)
        return self.checked(text)

    def _chosen(self, text: str) -> str:
        word = text.strip()
        values = [value for value, _ in self.choices]
        if word in values or not self.choices:
            return word
        if word.isdigit() and 1 <= int(word) <= len(values):
            return values[int(word) - 1]
        for value, title in self.choices:
            if word.lower() in (value.lower(), title.lower()):
                return value
        raise ValueError(f"expected one of {', '.join(values)}")

    def checked(self, value: Any) -> Any:
        """Return a value, if it fits.

        Raises:
            ValueError: The value does not fit; the message says what would.
        """
        schema = self._schema
        types: dict[str, Any] = {
            "integer": int,
            "number": (int, float),
            "boolean": bool,
            "array": list,
        }
        wanted = types.get(self.kind, str)
        if not isinstance(value, wanted) or (isinstance(value, bool) and self.kind != "boolean"):
            raise ValueError(f"expected {a_kind({self.kind})}")
        if is_array(value):
            allowed = [each for each, _ in self.choices]
            for each in value:
                if allowed and each not in allowed:
                    raise ValueError(f"expected each to be one of {', '.join(allowed)}")
            _within(len(value), schema, "minItems", "maxItems", " of them")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            _within(value, schema, "minimum", "maximum", "")
        elif isinstance(value, str):
            if self.choices and value not in [each for each, _ in self.choices]:
                raise ValueError(f"expected one of {', '.join(each for each, _ in self.choices)}")
            _within(len(value), schema, "minLength", "maxLength", " characters")
            named = schema.get("format")
            if isinstance(named, str) and named in _FORMATS and not _has_format(value, named):
                raise ValueError(f"expected {_FORMATS[named]}")
        return value


_WHOLE = "expected a whole number"

_FORMATS: Mapping[str, str] = {
    "email": "a mail address",
    "uri": "a URL, such as https://example.com",
    "date": "a date, YYYY-MM-DD",
    "date-time": "a date and time, YYYY-MM-DDThh:mm:ssZ",
}


def _has_format(text: str, named: str) -> bool:
    try:
        if named == "date":
            return len(text) == 10 and date.fromisoformat(text) is not None
        if named == "date-time":
            return "T" in text.upper() and _moment(text) is not None
        if named == "uri":
            return bool(urlsplit(text).scheme) and " " not in text
    except ValueError:
        return False
    before, at, after = text.partition("@")
    return bool(before and at and after) and " " not in text and "@" not in after


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in "zZ" else text)


def _choices(schema: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return values with their titles, from every dialect that there is."""
    for member in ("oneOf", "anyOf"):
        titled = schema.get(member)
        if is_array(titled):
            return [
                (str(each["const"]), str(each.get("title", each["const"])))
                for each in titled
                if is_object(each) and "const" in each
            ]
    values = schema.get("enum")
    if not is_array(values):
        return []
    names = schema.get("enumNames")
    titles = names if is_array(names) and len(names) == len(values) else values
    return [(str(value), str(title)) for value, title in zip(values, titles, strict=True)]


def _within(value: float, schema: Mapping[str, Any], least: str, most: str, unit: str) -> None:
    low, high = number_or_none(schema.get(least)), number_or_none(schema.get(most))
    if (low is not None and value < low) or (high is not None and value > high):
        raise ValueError(f"expected {_limits(low, high, unit)[0]}")


def _limits(least: object, most: object, unit: str) -> list[str]:
    least, most = number_or_none(least), number_or_none(most)
    if least is not None and most is not None:
        return [f"{least} to {most}{unit}"]
    if least is not None:
        return [f"at least {least}{unit}"]
    return [f"at most {most}{unit}"] if most is not None else []
