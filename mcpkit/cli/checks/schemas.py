"""Walking through JSON Schemas, whatever is in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from mcpkit.types import is_array, is_object

__all__ = ["Node", "is_recursive", "listed", "resolve", "types_of", "unused", "walk"]

_ONE: Final = {
    "additionalProperties": "{}",
    "contains": "[]",
    "else": "(else)",
    "if": "(if)",
    "items": "[]",
    "not": "(not)",
    "propertyNames": "(names)",
    "then": "(then)",
    "unevaluatedItems": "[]",
    "unevaluatedProperties": "{}",
}
_LISTS: Final = {"allOf": "", "anyOf": "", "items": "[]", "oneOf": "", "prefixItems": "[]"}
_TABLES: Final = {
    "dependentSchemas": "",
    "patternProperties": "",
    "properties": "",
}
_DEPTH: Final = 64


class Node(NamedTuple):
    """A schema inside a schema.

    Args:
        path: Where values that it describes are, such as ``people[].age``.
        schema: An object; a schema ``true`` or ``false`` is not walked to.
        key: The property's name, where it is one.
        depth: Levels of objects and arrays above it.
    """

    path: str
    schema: Mapping[str, Any]
    key: str | None
    depth: int


def walk(root: Mapping[str, Any]) -> Iterator[Node]:
    """A schema and every schema in it, with the definitions that it refers to, each once."""
    reached: set[str] = set()
    waiting = [Node("", root, None, 0)]
    while waiting:
        for node in _inner(waiting.pop(0), 0):
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
    """The definitions that nothing in a schema refers to, by their paths."""
    used = {_definition(each) for each in _references(root)}
    return {path: each for path, each in _definitions(root).items() if path not in used}


def _definitions(root: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for keyword in _DEFINITIONS:
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
    """``$defs.Name`` for a reference that points there or below; empty for another."""
    parts = [_unescaped(each) for each in reference.split("/")]
    return ".".join(parts[1:3]) if parts[0] == "#" and parts[1:2] in _PARTS else ""


_DEFINITIONS: Final = ("$defs", "definitions")
_PARTS: Final = [[each] for each in _DEFINITIONS]


def _unescaped(part: str) -> str:
    """A part of a JSON pointer in a URI fragment, as the name that it stands for."""
    return unquote(part).replace("~1", "/").replace("~0", "~")


def _inner(node: Node, level: int) -> Iterator[Node]:
    yield node
    if level > _DEPTH:
        return
    schema, path = node.schema, node.path
    for keyword, value in schema.items():
        if keyword in _TABLES and is_object(value):
            below = _joined(path, _TABLES[keyword])
            for name, each in value.items():
                if is_object(each):
                    key = name if keyword == "properties" else None
                    yield from _inner(
                        Node(_joined(below, name), each, key, node.depth + 1), level + 1
                    )
        elif keyword in _ONE and is_object(value):
            below = path + _ONE[keyword]
            deeper = node.depth + (keyword in ("items", "additionalProperties"))
            yield from _inner(Node(below, value, None, deeper), level + 1)
        elif keyword in _LISTS and is_array(value):
            for each in value:
                if is_object(each):
                    below = path + _LISTS[keyword]
                    yield from _inner(Node(below, each, None, node.depth), level + 1)


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The types that a schema names."""
    found = schema.get("type")
    if isinstance(found, str):
        return (found,)
    return tuple(each for each in found if isinstance(each, str)) if is_array(found) else ()


def resolve(root: Mapping[str, Any], reference: str) -> Mapping[str, Any] | bool | None:
    """What a reference inside the same schema points to; None if there is nothing."""
    if not reference.startswith("#"):
        return None
    found: Any = root
    pointer = reference[1:]
    if pointer and not pointer.startswith("/"):  # an anchor
        tops = [root, *_definitions(root).values()]
        inner = (node for each in tops for node in _inner(Node("", each, None, 0), 0))
        return next((node.schema for node in inner if node.schema.get("$anchor") == pointer), None)
    for part in pointer.split("/")[1:]:
        name = _unescaped(part)
        if is_object(found) and name in found:
            found = found[name]
        elif is_array(found) and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found if is_object(found) or isinstance(found, bool) else None


def is_recursive(root: Mapping[str, Any]) -> bool:
    """Whether a schema, by its references, contains itself."""
    done: set[int] = set()

    def visit(schema: Mapping[str, Any], above: tuple[int, ...]) -> bool:
        if id(schema) in above:
            return True
        if id(schema) in done:
            return False
        above = (*above, id(schema))
        for node in _inner(Node("", schema, None, 0), 0):
            reference = node.schema.get("$ref")
            target = resolve(root, reference) if isinstance(reference, str) else None
            if is_object(target) and visit(target, above):
                return True
        done.add(id(schema))
        return False

    return visit(root, ())


def listed(names: list[str], limit: int = 3) -> str:
    """Names for a message: ``'a', 'b' and 2 more``."""
    shown = [repr(each) for each in names[:limit]]
    if len(names) > limit:
        return f"{', '.join(shown)} and {len(names) - limit} more"
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
