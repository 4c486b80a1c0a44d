"""JSON Schemas for people: their values in a few words.

A schema of a few hundred bytes can describe billions of schemas once its references are followed,
so the number of steps is limited by an `Effort`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mcpkit._utils.json import References, is_array, is_object
from mcpkit._utils.text import summarize, truncate

Schema = Mapping[str, Any]

_MAX_DEPTH: Final = 8
"""Consecutive references that are followed, and levels of schemas that are described."""

_MAX_OBJECT_DEPTH: Final = 3
"""Levels of objects whose members are described."""

_MAX_CHOICES_SHOWN: Final = 12
_MAX_VALUE_CHARS: Final = 200
_MAX_CHARS: Final = 4000
"""Characters that describe one schema, and steps to find them."""

_MORE: Final = "…"
_BOUNDS: Final = {
    "exclusiveMinimum": "more than",
    "exclusiveMaximum": "less than",
    "multipleOf": "multiple of",
}
_UNIONS: Final = ("anyOf", "oneOf", "allOf")


class Effort:
    """A budget of steps: schemas to look at, and references to follow."""

    def __init__(self, steps: int = 10_000) -> None:
        self._left = steps
        self._root: Schema | None = None
        self._references: References | None = None

    def take(self, steps: int = 1) -> bool:
        """Take some steps; return False if they are not left."""
        self._left -= steps
        return self._left >= 0

    def references(self, root: Schema) -> References:
        """Return the references of a document."""
        if self._references is None or self._root is not root:
            self._root, self._references = root, References(root)
        return self._references


def number_or_none(value: object) -> float | None:
    """Return the value of a numeric keyword; None if it is not a number."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def object_or_empty(value: object) -> dict[str, Any]:
    """Return a value if it is an object, or else an empty one."""
    return value if is_object(value) else {}


def array_or_empty(value: object) -> list[Any]:
    """Return a value if it is an array, or else an empty one."""
    return value if is_array(value) else []


def required_of(schema: Schema) -> set[str]:
    """Return the names of the required members of a schema."""
    return {each for each in array_or_empty(schema.get("required")) if isinstance(each, str)}


def compact(value: Any) -> str:
    """Return JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def resolved(schema: object, root: Schema, effort: Effort | None = None) -> Schema:
    """Return a schema after following its reference into the document `root`."""
    effort = effort or Effort()
    for _ in range(_MAX_DEPTH):
        if not is_object(schema):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        found = effort.references(root).resolve(reference)
        size = len(schema) + (len(found) if is_object(found) else 0)
        if not effort.take(1 + (size + len(reference)) // _MAX_VALUE_CHARS):
            return {}
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**found, **beside} if is_object(found) else beside
    return {}


def properties_of(schema: Schema, root: Schema, effort: Effort | None = None) -> Mapping[str, Any]:
    """Return the members of an object schema, with their schemas."""
    return object_or_empty(resolved(schema, root, effort).get("properties"))


def kinds_of(
    schema: object, root: Schema, effort: Effort | None = None, depth: int = 0
) -> set[str]:
    """Return the JSON types that a schema allows, such as ``integer``; empty if it does not say."""
    effort = effort or Effort()
    if not effort.take():
        return set()
    shape = resolved(schema, root, effort)
    kind = shape.get("type")
    if isinstance(kind, str):
        return {kind}
    if is_array(kind):
        return {each for each in kind if isinstance(each, str)}
    if is_array(shape.get("enum")):
        return {KINDS[type(each)] for each in shape["enum"] if effort.take()}
    if "const" in shape:
        return {KINDS[type(shape["const"])]}
    found: set[str] = set()
    for union in _UNIONS if depth < _MAX_DEPTH else ():
        for branch in array_or_empty(shape.get(union)):
            kinds = kinds_of(branch, root, effort, depth + 1)
            if (not kinds and union != "allOf") or not effort.take(0):
                return set()  # it allows anything, or is too large
            found |= kinds
    return found


KINDS: Final[dict[type, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def in_words(schema: object, root: Schema, effort: Effort | None = None) -> str:
    """Describe the values of a schema, as ``integer, 1 to 7`` or ``list of strings``."""
    return _Words(root, effort or Effort()).of(schema, 0)


class _Words:
    """The description of one schema, within a budget of steps and characters."""

    def __init__(self, root: Schema, effort: Effort) -> None:
        self._root = root
        self._effort = effort
        self._room = _MAX_CHARS

    def of(self, schema: object, depth: int) -> str:
        """Describe a schema at a depth below the root."""
        if self._room <= 0 or not self._effort.take():
            self._room = 0
            return _MORE
        self._room -= 1
        if schema is False:
            return "nothing"
        shape = resolved(schema, self._root, self._effort)
        values = [shape["const"]] if "const" in shape else shape.get("enum")
        if is_array(values):
            named = [summarize(each, _MAX_VALUE_CHARS) for each in values[:_MAX_CHOICES_SHOWN]]
            more = len(values) - _MAX_CHOICES_SHOWN
            return self._cut(" | ".join([*named, *[f"… ({more} more)"] * (more > 0)]))
        for union in _UNIONS if depth < _MAX_DEPTH else ():
            branches = shape.get(union)
            if is_array(branches) and (branches or union != "allOf"):
                words = dict.fromkeys(self._each(branches, depth + 1))
                return (" and " if union == "allOf" else " | ").join(words)
        kind = shape.get("type")
        if is_array(kind):
            kinds = [each for each in kind[:_MAX_CHOICES_SHOWN] if isinstance(each, str)]
            return " | ".join(self._of_kind(each, shape, depth) for each in kinds) or "anything"
        return self._of_kind(kind, shape, depth)

    def _cut(self, text: str) -> str:
        text = truncate(text, max(self._room, _MAX_VALUE_CHARS))
        self._room -= len(text)
        return text

    def _each(self, schemas: Sequence[object], depth: int) -> Iterator[str]:
        for each in schemas:
            yield self.of(each, depth)
            if self._room <= 0:
                yield _MORE
                return

    def _of_kind(self, kind: object, shape: Schema, depth: int) -> str:
        if kind == "array":
            items = shape.get("items")
            inner = self.of(items, depth + 1) if items and depth < _MAX_DEPTH else "anything"
            limits = _range(shape.get("minItems"), shape.get("maxItems"), " items")
            return ", ".join([f"list of {_plural(inner)}", *limits])
        if kind == "object" or "properties" in shape:
            return self._object(shape, depth)
        if not isinstance(kind, str):
            return "anything"
        parts = [kind]
        if isinstance(shape.get("format"), str):
            parts.append(shape["format"])
        parts += _range(shape.get("minimum"), shape.get("maximum"), "")
        for member, words in _BOUNDS.items():
            if (number := number_or_none(shape.get(member))) is not None:
                parts.append(f"{words} {number}")
        parts += _range(shape.get("minLength"), shape.get("maxLength"), " characters")
        if isinstance(shape.get("pattern"), str):
            parts.append(f"like {shape['pattern']}")
        return self._cut(", ".join(parts))

    def _object(self, shape: Schema, depth: int) -> str:
        properties = properties_of(shape, self._root, self._effort)
        if depth >= _MAX_OBJECT_DEPTH or not properties:
            more = shape.get("additionalProperties")
            if is_object(more) and more and depth < _MAX_DEPTH:
                return f"object of {_plural(self.of(more, depth + 1))}"
            return "object"
        needed = required_of(shape)
        members: list[str] = []
        for name, each in properties.items():
            shown = self._cut(truncate(name, _MAX_VALUE_CHARS))
            mark = "" if name in needed else "?"
            members.append(f"{shown}{mark}: {self.of(each, depth + 1)}")
            if self._room <= 0:
                members.append(_MORE)
                break
        return "{" + ", ".join(members) + "}"


def _plural(inner: str) -> str:
    if inner == "anything":
        return inner
    return f"{inner}s" if inner.isalpha() else f"({inner})"


def _range(lower: object, upper: object, unit: str) -> list[str]:
    """Return the words for two limits, such as ``1 to 7 items``; empty if both are missing."""
    minimum, maximum = number_or_none(lower), number_or_none(upper)
    if minimum is not None and minimum == maximum:
        return [f"exactly {minimum}{unit}"]
    if minimum is not None and maximum is not None:
        return [f"{minimum} to {maximum}{unit}"]
    for words, number in (("at least", minimum), ("at most", maximum)):
        if number is not None:
            return [f"{words} {number}{unit.rstrip('s') if number == 1 else unit}"]
    return []
