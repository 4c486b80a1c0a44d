"""Walking through JSON Schemas, whatever is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mcpkit.support import json_schema
from mcpkit.support.json_schema import DEFINITIONS, Place, Step, resolve, unescaped
from mcpkit.types import is_array, is_object

__all__ = ["Node", "enumerated", "is_recursive", "listed", "resolve", "types_of", "unused", "walk"]

_KEYWORD_IN_PATH: Final = {
    "additionalItems": "[]",
    "additionalProperties": "{}",
    "contains": "[]",
    "else": "(else)",
    "if": "(if)",
    "items": "[]",
    "not": "(not)",
    "prefixItems": "[]",
    "propertyNames": "(names)",
    "then": "(then)",
    "unevaluatedItems": "[]",
    "unevaluatedProperties": "{}",
}
"""Keyword → its text in the path of a schema; the others are not shown."""

_MAX_DEPTH: Final = 64
"""Levels of schemas that are walked; those below are passed over."""


class Node(NamedTuple):
    """A schema inside a schema.

    Args:
        path: The place of the values that it describes, such as ``people[].age``.
        schema: An object; a schema ``true`` or ``false`` is not walked to.
        key: The name of the property that it describes; None if it describes none.
        depth: Levels of objects and arrays above it.
    """

    path: str
    schema: Mapping[str, Any]
    key: str | None
    depth: int


def walk(root: Mapping[str, Any]) -> Iterator[Node]:
    """Yield a schema and every schema in it, with the definitions it refers to, each once."""
    reached: set[str] = set()
    waiting = [Node("", root, None, 0)]
    while waiting:
        top = waiting.pop(0)
        for node in _inner(top.path, top.schema):
            yield node
            reference = node.schema.get("$ref")
            if not isinstance(reference, str) or reference in reached:
                continue
            reached.add(reference)
            name = _definition(reference)
            target = resolve(root, reference) if name else None
            if name and is_object(target):
                waiting.append(Node(name, target, None, 0))


def unused(root: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the definitions that nothing in a schema refers to, by their paths."""
    used = {_definition(each) for each in _references(root)}
    return {path: each for path, each in _definitions(root).items() if path not in used}


def _definitions(root: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for keyword in DEFINITIONS:
        table = root.get(keyword)
        for name, each in table.items() if is_object(table) else ():
            if is_object(each):
                found[f"{keyword}.{name}"] = each
    return found


def _references(root: Mapping[str, Any]) -> Iterator[str]:
    for node in walk(root):
        for keyword in ("$ref", "$dynamicRef"):
            reference = node.schema.get(keyword)
            if isinstance(reference, str):
                yield reference


def _definition(reference: str) -> str:
    """Return ``$defs.Name`` for a reference that points there or below; empty for another."""
    parts = [unescaped(each) for each in reference.split("/")]
    return ".".join(parts[1:3]) if parts[0] == "#" and parts[1:2] in _PARTS else ""


_PARTS: Final = [[each] for each in DEFINITIONS]


def _inner(name: str, top: Mapping[str, Any]) -> Iterator[Node]:
    """Yield a schema and those in it, without definitions and without following references."""
    for place in json_schema.walk(top, without=DEFINITIONS, deepest=_MAX_DEPTH):
        yield _node(name, place)


def _node(path: str, place: Place) -> Node:
    depth = 0
    for step in place.way:
        path += _KEYWORD_IN_PATH.get(step.keyword, "")
        if isinstance(step.key, str):
            path = f"{path}.{step.key}" if path and step.key else path or step.key
        depth += _is_deeper(step)
    last = place.way[-1] if place.way else None
    named = last.key if last is not None and last.keyword == "properties" else None
    return Node(path, place.schema, named if isinstance(named, str) else None, depth)


def _is_deeper(step: Step) -> bool:
    """Return True if a step leads from an object or an array to what is in it."""
    if step.key is None:
        return step.keyword in ("items", "additionalProperties")
    return isinstance(step.key, str)


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types that a schema names."""
    found = schema.get("type")
    if isinstance(found, str):
        return (found,)
    return tuple(each for each in found if isinstance(each, str)) if is_array(found) else ()


def is_recursive(root: Mapping[str, Any]) -> bool:
    """Return True if a schema, by its references, contains itself."""
    done: set[int] = set()

    def visit(schema: Mapping[str, Any], above: tuple[int, ...]) -> bool:
        if id(schema) in above:
            return True
        if id(schema) in done:
            return False
        above = (*above, id(schema))
        for node in _inner("", schema):
            reference = node.schema.get("$ref")
            target = resolve(root, reference) if isinstance(reference, str) else None
            if is_object(target) and visit(target, above):
                return True
        done.add(id(schema))
        return False

    return visit(root, ())


def listed(names: list[str], limit: int = 3) -> str:
    """Return names for a message: ``'a', 'b' and 2 more``."""
    shown = [repr(each) for each in names[:limit]]
    if len(names) > limit:
        return f"{', '.join(shown)} and {len(names) - limit} more"
    return enumerated(shown)


def enumerated(parts: Sequence[str]) -> str:
    """Return parts as a list in prose: ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
