"""JSON Schemas for people: the values that they allow, in a few words.

A schema of a few hundred bytes may be any number of them once its references are followed, so
following them takes an `Effort`, which ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mcpkit._utils.json import References, is_array, is_object
from mcpkit._utils.text import summarize, truncate

Schema = Mapping[str, Any]

_MAX_DEPTH: Final = 8
"""Steps for which references are followed, and levels to which schemas are described."""

_MAX_OBJECT_DEPTH: Final = 3
"""Levels of objects whose members are described."""

_MAX_CHOICES_SHOWN: Final = 12
"""Values of a choice that are named."""

_MAX_CHARS: Final = 4000
"""Characters that describe one schema; there are no more steps on the way to them."""

_MAX_VALUE_CHARS: Final = 200
"""Characters of a single value that a schema names."""

_MORE: Final = "…"
"""Stands for what is not described any more."""

_UNIONS: Final = ("anyOf", "oneOf", "allOf")


class Effort:
    """The number of steps through foreign schemas.

    Args:
        steps: Schemas that are looked at, and references that are followed.
    """

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
    """Return the value of a keyword that wants a number; None if it has another."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def required_of(schema: Schema) -> set[str]:
    """Return the names of the members that a schema demands."""
    names = schema.get("required")
    return {each for each in names if isinstance(each, str)} if is_array(names) else set()


def compact(value: Any) -> str:
    """Return JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def resolved(schema: object, root: Schema, effort: Effort | None = None) -> Schema:
    """Return a schema with its reference into the same document followed.

    Args:
        schema: Any value; one that is not a schema allows everything.
        root: The whole document.
        effort: For the references; nothing is known of a schema that it does not reach.
    """
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
    """Return the members that a schema describes, with their schemas."""
    found = resolved(schema, root, effort).get("properties")
    return found if is_object(found) else {}


def kinds_of(schema: object, root: Schema) -> set[str]:
    """Return the JSON types that a schema allows, as ``integer``; empty if it does not say."""
    return _kinds_of(schema, root, Effort(), 0)


def _kinds_of(schema: object, root: Schema, effort: Effort, depth: int) -> set[str]:
    if not effort.take():
        return set()
    shape = resolved(schema, root, effort)
    kind = shape.get("type")
    if isinstance(kind, str):
        return {kind}
    if is_array(kind):
        return {each for each in kind if isinstance(each, str)}
    if is_array(shape.get("enum")):
        return {_kind_of_value(each) for each in shape["enum"] if effort.take()}
    if "const" in shape:
        return {_kind_of_value(shape["const"])}
    found: set[str] = set()
    for union in _UNIONS:
        branches = shape.get(union)
        if is_array(branches) and depth < _MAX_DEPTH:
            for branch in branches:
                kinds = _kinds_of(branch, root, effort, depth + 1)
                if not kinds and union != "allOf":
                    return set()  # it allows anything, or is too much to look at
                found |= kinds
                if not effort.take(0):
                    return set()
    return found


def _kind_of_value(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((int, "integer"), (float, "number"), (str, "string"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "object"


def a_kind(kinds: set[str]) -> str:
    """Return types as part of a sentence: ``an integer or null``."""
    named = [("null" if each == "null" else _with_article(each)) for each in sorted(kinds)]
    return " or ".join(named) or "a value"


def _with_article(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def in_words(schema: object, root: Schema, effort: Effort | None = None) -> str:
    """Describe the values of a schema, as ``integer, 1 to 7`` or ``list of strings``.

    Args:
        schema: Of the value.
        root: The document that it is part of, for its references.
        effort: Of describing this one and others; what is beyond is ``…``.
    """
    return _Words(root, effort or Effort()).of(schema, 0)


class _Words:
    """The description of one schema.

    Args:
        root: The document that it is part of.
        effort: The steps that may be taken for it.
    """

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
        values = shape.get("enum")
        if "const" in shape:
            return self._said(summarize(shape["const"], _MAX_VALUE_CHARS))
        if is_array(values):
            named = [summarize(each, _MAX_VALUE_CHARS) for each in values[:_MAX_CHOICES_SHOWN]]
            more = len(values) - _MAX_CHOICES_SHOWN
            return self._said(" | ".join([*named, *[f"… ({more} more)"] * (more > 0)]))
        for union in _UNIONS[:2]:
            branches = shape.get(union)
            if is_array(branches) and depth < _MAX_DEPTH:
                return " | ".join(dict.fromkeys(self._each(branches, depth + 1)))
        parts = shape.get("allOf")
        if is_array(parts) and parts and depth < _MAX_DEPTH:
            return " and ".join(self._each(parts, depth + 1))
        kind = shape.get("type")
        if is_array(kind):
            kinds = [each for each in kind[:_MAX_CHOICES_SHOWN] if isinstance(each, str)]
            return " | ".join(self._of_kind(each, shape, depth) for each in kinds) or "anything"
        return self._of_kind(kind, shape, depth)

    def _said(self, text: str) -> str:
        said = truncate(text, max(self._room, _MAX_VALUE_CHARS))
        self._room -= len(said)
        return said

    def _each(self, schemas: Sequence[object], depth: int) -> Iterator[str]:
        for each in schemas:
            yield self.of(each, depth)
            if self._room <= 0:
                yield _MORE
                return

    def _of_kind(self, kind: object, shape: Schema, depth: int) -> str:
        if kind == "array":
            return self._list(shape, depth)
        if kind == "object" or "properties" in shape:
            return self._object(shape, depth)
        if not isinstance(kind, str):
            return "anything"
        return self._said(", ".join([kind, *_limits(shape)]))

    def _list(self, shape: Schema, depth: int) -> str:
        items = shape.get("items")
        inner = self.of(items, depth + 1) if items and depth < _MAX_DEPTH else "anything"
        limits = _range(shape.get("minItems"), shape.get("maxItems"), " items")
        return ", ".join([f"list of {_several(inner)}", *limits])

    def _object(self, shape: Schema, depth: int) -> str:
        properties = properties_of(shape, self._root, self._effort)
        if depth >= _MAX_OBJECT_DEPTH or not properties:
            more = shape.get("additionalProperties")
            if is_object(more) and more and depth < _MAX_DEPTH:
                return f"object of {_several(self.of(more, depth + 1))}"
            return "object"
        needed = required_of(shape)
        members: list[str] = []
        for name, each in properties.items():
            said = self._said(truncate(name, _MAX_VALUE_CHARS))
            mark = "" if name in needed else "?"
            members.append(f"{said}{mark}: {self.of(each, depth + 1)}")
            if self._room <= 0:
                members.append(_MORE)
                break
        return "{" + ", ".join(members) + "}"


def _several(inner: str) -> str:
    if inner == "anything":
        return inner
    return f"{inner}s" if inner.isalpha() else f"({inner})"


def _limits(shape: Schema) -> list[str]:
    found: list[str] = []
    if isinstance(shape.get("format"), str):
        found.append(shape["format"])
    found += _range(shape.get("minimum"), shape.get("maximum"), "")
    for member, words in (
        ("exclusiveMinimum", "more than"),
        ("exclusiveMaximum", "less than"),
        ("multipleOf", "multiple of"),
    ):
        number = number_or_none(shape.get(member))
        if number is not None:
            found.append(f"{words} {number}")
    found += _range(shape.get("minLength"), shape.get("maxLength"), " characters")
    if isinstance(shape.get("pattern"), str):
        found.append(f"like {shape['pattern']}")
    return found


def _range(at_least: object, at_most: object, unit: str) -> list[str]:
    least, most = number_or_none(at_least), number_or_none(at_most)
    if most is None:
        if least is None:
            return []
        return [f"at least {least}{unit.rstrip('s') if least == 1 else unit}"]
    if least is None:
        return [f"at most {most}{unit.rstrip('s') if most == 1 else unit}"]
    return [f"{least} to {most}{unit}" if least != most else f"exactly {least}{unit}"]
