"""The walk through a JSON Schema, for everybody who looks into one.

A keyword of JSON Schema 2020-12 or of an older draft has either schemas in it or data. The tables
below say which, and nobody else does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from mcpkit.types import is_array, is_object

__all__ = [
    "DEFINITIONS",
    "JsonSchema",
    "Place",
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

_DATA: Final = frozenset({"default", "const", "enum", "examples", "required", "dependentRequired"})
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
) -> Iterator[tuple[Step, JsonSchema]]:
    """Yield the schemas directly inside a schema, in the order of its keywords.

    Args:
        schema: Not to be changed before the last one has been taken; those that are yielded may be.
        unknown: Also take the objects in keywords that no draft defines for schemas.
    """
    for keyword, value in schema.items():
        if is_object(value):
            if keyword in _TABLES:
                for name, each in value.items():
                    if is_object(each):
                        yield Step(keyword, name), each
            elif keyword in _HOLDERS or (unknown and keyword not in _DATA):
                yield Step(keyword, None), value
        elif is_array(value) and (keyword in _HOLDERS or (unknown and keyword not in _DATA)):
            for index, each in enumerate(value):
                if is_object(each):
                    yield Step(keyword, index), each


def walk(
    schema: Mapping[str, Any],
    *,
    unknown: bool = False,
    without: Collection[str] = (),
    deepest: int | None = None,
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
    """
    waiting = [Place((), schema)]
    while waiting:
        place = waiting.pop()
        yield place
        way = place.way
        if deepest is not None and len(way) >= deepest:
            continue
        inner = [
            Place((*way, step), each)
            for step, each in subschemas(place.schema, unknown=unknown)
            if step.keyword not in without
        ]
        waiting += reversed(inner)


def every_schema(schema: JsonSchema) -> Iterator[JsonSchema]:
    """Yield a schema and all schemas below it, to be read or to be changed; see `walk`."""
    return cast("Iterator[JsonSchema]", (place.schema for place in walk(schema)))


def resolve(root: Mapping[str, Any], reference: str) -> Mapping[str, Any] | bool | None:
    """Return the schema that a reference inside the same document names; None if there is none.

    Args:
        root: The whole document.
        reference: A URI fragment: ``#``, a JSON pointer such as ``#/$defs/Name``, or an anchor.
    """
    if not reference.startswith("#"):
        return None
    pointer = reference[1:]
    if pointer and not pointer.startswith("/"):
        anchored = (place.schema for place in walk(root, deepest=_DEEPEST))
        return next((each for each in anchored if each.get("$anchor") == pointer), None)
    found: Any = root
    for part in pointer.split("/")[1:]:
        name = unescaped(part)
        if is_object(found) and name in found:
            found = found[name]
        elif is_array(found) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found if is_object(found) or isinstance(found, bool) else None


_DEEPEST: Final = 100
"""How many steps away an anchor is looked for; nobody writes schemas that deep."""


def unescaped(part: str) -> str:
    """Return the name that a part of a JSON pointer in a URI fragment stands for."""
    from urllib.parse import unquote  # only those who follow references pay for it

    return unquote(part).replace("~1", "/").replace("~0", "~")


def copy_schema(value: Any) -> Any:
    """Return a copy of a JSON value that may be changed, down to its innermost arrays."""
    if is_object(value):
        return {key: copy_schema(item) for key, item in value.items()}
    if is_array(value):
        return [copy_schema(item) for item in value]
    return value
