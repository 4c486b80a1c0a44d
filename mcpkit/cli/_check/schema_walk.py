"""The walk through a JSON Schema, with a readable path to each schema in it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, NamedTuple

from mcpkit._utils import json as json_schema
from mcpkit._utils.json import DEFINITIONS, References, Step, is_object, unescaped
from mcpkit._utils.text import truncate
from mcpkit.cli._schema_text import array_or_empty

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
"""Keyword → its text in a path; other keywords are not shown."""

MAX_DEPTH: Final = 64
"""Levels of schemas that are walked."""

MAX_PATH_CHARS: Final = 200


def path_to(path: str, name: str) -> str:
    """Return the path of a member, truncated at its start."""
    name = truncate(name)
    found = f"{path}.{name}" if path and name else path or name
    return found if len(found) <= MAX_PATH_CHARS else f"…{found[-MAX_PATH_CHARS:]}"


class Node(NamedTuple):
    """A schema inside a schema."""

    base: str  # the path of the root, or of the definition that the walk went through
    way: tuple[Step, ...]  # from there to the schema
    schema: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The path of the values that it describes, such as ``people[].age``."""
        path = self.base
        for step in self.way:
            path += _KEYWORD_IN_PATH.get(step.keyword, "")
            if isinstance(step.key, str):
                path = path_to(path, step.key)
        return path

    @property
    def key(self) -> str | None:
        """The name of the property that it describes; None if it does not describe one."""
        last = self.way[-1] if self.way else None
        name = last.key if last is not None and last.keyword == "properties" else None
        return name if isinstance(name, str) else None


def walk(root: Mapping[str, Any]) -> Iterator[Node]:
    """Yield a schema, every schema in it, and the definitions it refers to, each once."""
    reached: set[str] = set()
    seen: set[int] = set()
    references = References(root)
    waiting = deque([Node("", (), root)])
    while waiting:
        base, _, top = waiting.popleft()
        here: list[int] = []
        for found in json_schema.walk(top, without=DEFINITIONS, deepest=MAX_DEPTH, seen=seen):
            here.append(id(found.schema))
            yield Node(base, *found)
            reference = found.schema.get("$ref")
            if not isinstance(reference, str) or reference in reached:
                continue
            reached.add(reference)
            name = _definition(reference)
            target = references.resolve(reference) if name else None
            if name and is_object(target):
                waiting.append(Node(truncate(name), (), target))
        seen.update(here)


def _definition(reference: str) -> str:
    parts = [unescaped(each) for each in reference.split("/", 3)[:3]]
    is_local = parts[0] == "#" and len(parts) == 3 and parts[1] in DEFINITIONS
    return ".".join(parts[1:]) if is_local else ""


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types that a schema names."""
    found = schema.get("type")
    types = [found] if isinstance(found, str) else array_or_empty(found)
    return tuple(each for each in types if isinstance(each, str))


def is_recursive(root: Mapping[str, Any]) -> bool:
    """Return True if a schema contains itself through its references."""
    references = References(root)
    graph: dict[int, list[int]] = {}
    waiting: list[Mapping[str, Any]] = [root]
    while waiting:
        schema = waiting.pop()
        if id(schema) in graph:
            continue
        steps = json_schema.subschemas(schema)
        below: list[Any] = [each for step, each in steps if step.keyword not in DEFINITIONS]
        reference = schema.get("$ref")
        target = references.resolve(reference) if isinstance(reference, str) else None
        if is_object(target):
            below.append(target)
        graph[id(schema)] = [id(each) for each in below]
        waiting += below
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return True
    return False


def listed(names: Sequence[str]) -> str:
    """Return names for a message: ``'a', 'b' and 2 more``."""
    shown = [repr(truncate(each, MAX_PATH_CHARS)) for each in names[:3]]
    if len(names) > 3:
        return f"{', '.join(shown)} and {len(names) - 3} more"
    return enumerated(shown)


def enumerated(parts: Sequence[str]) -> str:
    """Return parts as a list in prose: ``a, b and c``."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
