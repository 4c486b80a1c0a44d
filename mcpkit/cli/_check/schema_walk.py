"""Walking through JSON Schemas, whatever is in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mcpkit._utils import json as json_schema
from mcpkit._utils.json import DEFINITIONS, References, Step, is_array, is_object, unescaped
from mcpkit._utils.text import truncate

__all__ = ["Node", "enumerated", "is_recursive", "listed", "path_to", "types_of", "unused", "walk"]

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


_MAX_PATH_CHARS: Final = 200
"""Characters of a path, from its end."""


def path_to(path: str, name: str) -> str:
    """Return the path of a member; of a long one, the end."""
    name = truncate(name)
    found = f"{path}.{name}" if path and name else path or name
    return found if len(found) <= _MAX_PATH_CHARS else f"…{found[-_MAX_PATH_CHARS:]}"


class Node(NamedTuple):
    """A schema inside a schema.

    Args:
        base: The path of what is walked.
        way: The steps from there to the schema.
        schema: An object; a schema ``true`` or ``false`` is not walked to.
    """

    base: str
    way: tuple[Step, ...]
    schema: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The place of the values that it describes, such as ``people[].age``."""
        path = self.base
        for step in self.way:
            path += _KEYWORD_IN_PATH.get(step.keyword, "")
            if isinstance(step.key, str):
                path = path_to(path, step.key)
        return path

    @property
    def key(self) -> str | None:
        """The name of the property that it describes; None if it describes none."""
        last = self.way[-1] if self.way else None
        named = last.key if last is not None and last.keyword == "properties" else None
        return named if isinstance(named, str) else None

    @property
    def depth(self) -> int:
        """The levels of objects and arrays above it."""
        return sum(map(_is_deeper, self.way))


def walk(root: Mapping[str, Any]) -> Iterator[Node]:
    """Yield a schema and every schema in it, with the definitions it refers to, each once."""
    reached: set[str] = set()
    seen: set[int] = set()
    references = References(root)
    waiting = deque([Node("", (), root)])
    while waiting:
        name, _, top = waiting.popleft()
        here: list[int] = []
        for place in json_schema.walk(top, without=DEFINITIONS, deepest=_MAX_DEPTH, seen=seen):
            here.append(id(place.schema))
            yield Node(name, *place)
            reference = place.schema.get("$ref")
            if not isinstance(reference, str) or reference in reached:
                continue
            reached.add(reference)
            named = _definition(reference)
            target = references.resolve(reference) if named else None
            if named and is_object(target):
                waiting.append(Node(truncate(named), (), target))
        seen.update(here)


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
    parts = [unescaped(each) for each in reference.split("/", 3)[:3]]
    return ".".join(parts[1:3]) if parts[0] == "#" and parts[1:2] in _PARTS else ""


_PARTS: Final = [[each] for each in DEFINITIONS]


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
    references = References(root)

    def below(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        for step, each in json_schema.subschemas(schema):
            if step.keyword not in DEFINITIONS:
                yield each
        reference = schema.get("$ref")
        target = references.resolve(reference) if isinstance(reference, str) else None
        if is_object(target):
            yield target

    # References may make a chain of any length, so there are no calls inside calls.
    above, done = {id(root)}, set[int]()
    stack = [(id(root), below(root))]
    while stack:
        own, rest = stack[-1]
        each = next(rest, None)
        if each is None:
            stack.pop()
            above.remove(own)
            done.add(own)
        elif id(each) in above:
            return True
        elif id(each) not in done:
            above.add(id(each))
            stack.append((id(each), below(each)))
    return False


def listed(names: list[str], limit: int = 3) -> str:
    """Return names for a message: ``'a', 'b' and 2 more``."""
    shown = [repr(truncate(each, _MAX_PATH_CHARS)) for each in names[:limit]]
    if len(names) > limit:
        return f"{', '.join(shown)} and {len(names) - limit} more"
    return enumerated(shown)


def enumerated(parts: Sequence[str]) -> str:
    """Return parts as a list in prose: ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
