"""The walk through a JSON Schema, for everybody who looks into one.

A keyword of JSON Schema 2020-12 or of an older draft has either schemas in it or data. The tables
below say which, and nobody else does.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from mcpkit.types import is_array, is_object

__all__ = [
    "DEFINITIONS",
    "JsonSchema",
    "Place",
    "References",
    "Step",
    "copy_schema",
    "every_schema",
    "resolve",
    "subschemas",
    "unescaped",
    "walk",
]

JsonSchema: TypeAlias = dict[str, Any]

DEFINITIONS: Final = ("$defs", "definitions")
"""Keywords whose schemas describe nothing until a reference names them."""

_TABLES: Final = frozenset(
    {*DEFINITIONS, "properties", "patternProperties", "dependentSchemas", "dependencies"}
)
"""Keywords whose value is an object of schemas by names that are no keywords."""

_HOLDERS: Final = _TABLES | {
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
}
"""Keywords whose value is a schema, a list of schemas, or a table of schemas."""

_DATA: Final = frozenset(
    {
        "const",
        "default",
        "dependentRequired",
        "description",
        "enum",
        "examples",
        "required",
        "title",
        "type",
    }
)
"""Keywords whose value has no schemas, even if it looks like one."""


class Step(NamedTuple):
    """The way from a schema to one directly inside it.

    Args:
        keyword: Whose value has the inner schema.
        key: The name in a table of schemas, the index in a list of schemas, or None if the value
            is the inner schema itself.
    """

    keyword: str
    key: str | int | None


class Place(NamedTuple):
    """A schema somewhere inside another.

    Args:
        way: The steps that lead to it; none for the outermost schema.
        schema: An object. The schemas ``true`` and ``false`` have no place.
    """

    way: tuple[Step, ...]
    schema: Mapping[str, Any]


def subschemas(
    schema: Mapping[str, Any], *, unknown: bool = False
) -> list[tuple[Step, JsonSchema]]:
    """Return the schemas directly inside a schema, in the order of its keywords.

    Args:
        schema: Any.
        unknown: Also take the objects in keywords that no draft defines for schemas.
    """
    found: list[tuple[Step, JsonSchema]] = []
    for keyword, value in schema.items():
        if keyword in _DATA or not (unknown or keyword in _HOLDERS):
            continue
        if is_object(value):
            if keyword not in _TABLES:
                found.append((Step(keyword, None), value))
                continue
            for name, each in value.items():
                if is_object(each):
                    found.append((Step(keyword, name), each))
        elif is_array(value):
            for index, each in enumerate(value):
                if is_object(each):
                    found.append((Step(keyword, index), each))
    return found


def walk(
    schema: Mapping[str, Any],
    *,
    unknown: bool = False,
    without: Collection[str] = (),
    deepest: int | None = None,
    seen: Container[int] = (),
) -> Iterator[Place]:
    """Yield a schema and all schemas below it, each before those inside it.

    References are not followed. A schema may be changed once it has been yielded: the walk goes on
    in the changed one.

    Args:
        schema: The outermost schema.
        unknown: As in `subschemas`.
        without: Keywords that the walk leaves out.
        deepest: The most steps that a way has; None for any number. A schema that contains itself
            as a Python object has no end without it.
        seen: The identities of schemas that are left out, with all below them.
    """
    waiting = [Place((), schema)]
    while waiting:
        place = waiting.pop()
        way, found = place
        if id(found) in seen:
            continue
        yield place
        if deepest is not None and len(way) >= deepest:
            continue
        inner = subschemas(found, unknown=unknown)
        if without:
            inner = [each for each in inner if each[0].keyword not in without]
        waiting += [Place((*way, step), each) for step, each in reversed(inner)]


def every_schema(schema: JsonSchema) -> Iterator[JsonSchema]:
    """Yield a schema and all schemas below it, to be read or to be changed; see `walk`."""
    return cast("Iterator[JsonSchema]", (place.schema for place in walk(schema)))


def resolve(root: Mapping[str, Any], reference: str) -> Mapping[str, Any] | bool | None:
    """Return the schema that a reference inside the same document names; None if there is none.

    Args:
        root: The whole document.
        reference: A URI fragment: ``#``, a JSON pointer such as ``#/$defs/Name``, or an anchor.
    """
    return References(root).resolve(reference)


class References:
    """The references inside one document, each of which is followed once.

    Args:
        root: The whole document, which must not change meanwhile.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._found: dict[str, Mapping[str, Any] | bool | None] = {}
        self._anchors: dict[str, Mapping[str, Any]] | None = None

    def resolve(self, reference: str) -> Mapping[str, Any] | bool | None:
        """Return the schema that a reference names, as the function `resolve` does."""
        if reference not in self._found:
            self._found[reference] = self._look_for(reference)
        return self._found[reference]

    def _look_for(self, reference: str) -> Mapping[str, Any] | bool | None:
        if not reference.startswith("#"):
            return None
        pointer = reference[1:]
        if pointer and not pointer.startswith("/"):
            if self._anchors is None:
                self._anchors = _anchors_in(self._root)
            return self._anchors.get(pointer)
        found: Any = self._root
        for part in pointer.split("/")[1:]:
            name = unescaped(part)
            if is_object(found) and name in found:
                found = found[name]
            elif is_array(found) and _is_index(name) and int(name) < len(found):
                found = found[int(name)]
            else:
                return None
        return found if is_object(found) or isinstance(found, bool) else None


_DEEPEST: Final = 100
"""How many steps away an anchor is looked for; nobody writes schemas that deep."""

_MAX_INDEX_DIGITS: Final = 9
"""Digits of the index of an array: Python refuses to read some thousands of them."""


def _anchors_in(root: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found: dict[str, Mapping[str, Any]] = {}
    for place in walk(root, deepest=_DEEPEST):
        anchor = place.schema.get("$anchor")
        if isinstance(anchor, str):
            found.setdefault(anchor, place.schema)
    return found


def _is_index(name: str) -> bool:
    return name.isdecimal() and len(name) <= _MAX_INDEX_DIGITS


def unescaped(part: str) -> str:
    """Return the name that a part of a JSON pointer in a URI fragment stands for."""
    if "%" not in part and "~" not in part:
        return part
    from urllib.parse import unquote  # only those who follow references pay for it

    return unquote(part).replace("~1", "/").replace("~0", "~")


def copy_schema(value: JsonSchema) -> JsonSchema:
    """Return a copy of a schema that may be changed, down to its innermost arrays."""
    made = value.copy()
    for key, each in value.items():
        if isinstance(each, (dict, list)):
            made[key] = _copy(each)
    return made


def _copy(value: Any) -> Any:
    if is_object(value):
        return copy_schema(value)
    return [_copy(each) for each in value] if is_array(value) else value
