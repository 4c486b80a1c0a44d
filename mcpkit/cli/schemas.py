"""JSON Schemas for people: the values that they allow, in a few words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from mcpkit.support.json_schema import resolve
from mcpkit.types import is_array, is_object

__all__ = ["a_kind", "compact", "in_words", "kinds_of", "properties_of", "resolved"]

Schema = Mapping[str, Any]

_MAX_DEPTH: Final = 8
"""Steps for which references are followed, and levels to which schemas are described."""

_MAX_OBJECT_DEPTH: Final = 3
"""Levels of objects whose members are described."""

_MAX_CHOICES_SHOWN: Final = 12
"""Values of a choice that are named."""

_UNIONS: Final = ("anyOf", "oneOf", "allOf")


def compact(value: Any) -> str:
    """Return JSON on one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def resolved(schema: object, root: Schema) -> Schema:
    """Return a schema with its reference into the same document followed.

    Args:
        schema: Any value; one that is no schema is taken for one that allows everything.
        root: The whole document.
    """
    for _ in range(_MAX_DEPTH):
        if not is_object(schema):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        found = resolve(root, reference)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**found, **beside} if is_object(found) else beside
    return {}


def properties_of(schema: Schema, root: Schema) -> Mapping[str, Any]:
    """Return the members that a schema describes, with their schemas."""
    found = resolved(schema, root).get("properties")
    return found if is_object(found) else {}


def kinds_of(schema: object, root: Schema, depth: int = 0) -> set[str]:
    """Return the JSON types that a schema allows, as ``integer``; empty if it does not say."""
    shape = resolved(schema, root)
    kind = shape.get("type")
    if isinstance(kind, str):
        return {kind}
    if is_array(kind):
        return {each for each in kind if isinstance(each, str)}
    if is_array(shape.get("enum")):
        return {_kind_of_value(each) for each in shape["enum"]}
    if "const" in shape:
        return {_kind_of_value(shape["const"])}
    found: set[str] = set()
    for union in _UNIONS:
        branches = shape.get(union)
        if is_array(branches) and depth < _MAX_DEPTH:
            each = [kinds_of(branch, root, depth + 1) for branch in branches]
            if union != "allOf" and not all(each):
                return set()  # one of them allows anything
            found = found.union(*each)
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


def in_words(schema: object, root: Schema, depth: int = 0) -> str:
    """Describe the values of a schema, as ``integer, 1 to 7`` or ``list of strings``.

    Args:
        schema: Of the value.
        root: The document that it is part of, for its references.
        depth: Levels of schemas above it.
    """
    if schema is False:
        return "nothing"
    shape = resolved(schema, root)
    values = shape.get("enum")
    if "const" in shape:
        return compact(shape["const"])
    if is_array(values):
        named = [compact(each) for each in values[:_MAX_CHOICES_SHOWN]]
        rest = [f"… ({len(values) - _MAX_CHOICES_SHOWN} more)"] * (len(values) > _MAX_CHOICES_SHOWN)
        return " | ".join([*named, *rest])
    for union in _UNIONS[:2]:
        branches = shape.get(union)
        if is_array(branches) and depth < _MAX_DEPTH:
            described = [in_words(branch, root, depth + 1) for branch in branches]
            return " | ".join(dict.fromkeys(described))
    parts = shape.get("allOf")
    if is_array(parts) and parts and depth < _MAX_DEPTH:
        return " and ".join(in_words(part, root, depth + 1) for part in parts)
    kind = shape.get("type")
    if is_array(kind):
        return " | ".join(in_words({**shape, "type": each}, root, depth) for each in kind)
    if kind == "array":
        return _list_in_words(shape, root, depth)
    if kind == "object" or "properties" in shape:
        return _object_in_words(shape, root, depth)
    if not isinstance(kind, str):
        return "anything"
    return ", ".join([kind, *_limits(shape)])


def _list_in_words(shape: Schema, root: Schema, depth: int) -> str:
    items = shape.get("items")
    inner = in_words(items, root, depth + 1) if items and depth < _MAX_DEPTH else "anything"
    limits = _range(shape.get("minItems"), shape.get("maxItems"), " items")
    return ", ".join([f"list of {_several(inner)}", *limits])


def _several(inner: str) -> str:
    if inner == "anything":
        return inner
    return f"{inner}s" if inner.isalpha() else f"({inner})"


def _object_in_words(shape: Schema, root: Schema, depth: int) -> str:
    properties = properties_of(shape, root)
    if depth >= _MAX_OBJECT_DEPTH or not properties:
        more = shape.get("additionalProperties")
        if is_object(more) and more and depth < _MAX_DEPTH:
            return f"object of {_several(in_words(more, root, depth + 1))}"
        return "object"
    required = shape.get("required")
    needed = set(required) if is_array(required) else set[Any]()
    members = [
        f"{name}{'' if name in needed else '?'}: {in_words(each, root, depth + 1)}"
        for name, each in properties.items()
    ]
    return "{" + ", ".join(members) + "}"


def _limits(shape: Schema) -> list[str]:
    found: list[str] = []
    if isinstance(shape.get("format"), str):
        found.append(shape["format"])
    found += _range(shape.get("minimum"), shape.get("maximum"), "")
    for member, sign in (("exclusiveMinimum", "more than"), ("exclusiveMaximum", "less than")):
        if member in shape:
            found.append(f"{sign} {shape[member]}")
    if "multipleOf" in shape:
        found.append(f"multiple of {shape['multipleOf']}")
    found += _range(shape.get("minLength"), shape.get("maxLength"), " characters")
    if isinstance(shape.get("pattern"), str):
        found.append(f"like {shape['pattern']}")
    return found


def _range(least: object, most: object, unit: str) -> list[str]:
    if least is None and most is None:
        return []
    if most is None:
        return [f"at least {least}{unit.rstrip('s') if least == 1 else unit}"]
    if least is None:
        return [f"at most {most}{unit.rstrip('s') if most == 1 else unit}"]
    return [f"{least} to {most}{unit}" if least != most else f"exactly {least}{unit}"]
