"""Python's own types: JSON Schema and core schema without pydantic's generators.

The generators take a hundred times as long, and most parameters of tools have such a type: a
scalar, ``None``, `Any`, a list, a dict with text keys, a ``Literal``, a union of these, and each of
them in ``Annotated`` with a description, limits or a default. Pydantic reads all other types. The
schemas equal those of pydantic, down to the order of the keywords.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from mcpkit._signature.forms import ANNOTATED, GENERICS, LITERAL, UNIONS
from mcpkit._utils.json import JsonSchema
from mcpkit.dependencies import Complete

Core: TypeAlias = dict[str, Any]
BuiltIn: TypeAlias = tuple[dict[str, Any], JsonSchema]
"""A type of this module's grammar: its core schema, and its JSON Schema.

Pydantic-core makes a validator and a serializer from the core schema, which has no defaults. The
JSON Schema is the same for validation and for serialization. The caller may change both.
"""


def read_built_in(annotation: Any) -> BuiltIn | None:
    """Return the schemas of a type of this grammar; None for any other type."""
    # Not `isinstance`, which in Python 3.10 is true for some generic types.
    scalar = _SCALARS.get(annotation) if type(annotation) is type else None
    if scalar is not None:
        return {"type": scalar[0]}, {"type": scalar[1]}
    read = _READERS.get(type(annotation))
    return None if read is None else read(annotation)


_SCALARS: Final[dict[Any, tuple[str, str]]] = {
    bool: ("bool", "boolean"),
    float: ("float", "number"),
    int: ("int", "integer"),
    str: ("str", "string"),
    type(None): ("none", "null"),
}


def _named(annotation: Any) -> BuiltIn | None:
    """Read a type that is a class or a name of `typing`."""
    if annotation is list:
        return _list(_any())
    if annotation is dict:
        return _dict(_any(), _any())
    return _any() if annotation is object or annotation is Any else None


def _any() -> BuiltIn:
    return {"type": "any"}, {}


def _list(items: BuiltIn) -> BuiltIn:
    core, schema = items
    return {"type": "list", "items_schema": core}, {"items": schema, "type": "array"}


def _dict(keys: BuiltIn, values: BuiltIn) -> BuiltIn:
    core = {"type": "dict", "keys_schema": keys[0], "values_schema": values[0]}
    return core, {"additionalProperties": values[1] or True, "type": "object"}


def _inner(annotation: Any) -> BuiltIn | None:
    """Read a type inside another, where a default has no meaning for a caller."""
    found = read_built_in(annotation)
    return None if found is None or "default" in found[1] else found


def _generic(annotation: Any) -> BuiltIn | None:
    """Read a type with arguments in brackets."""
    origin: Any = annotation.__origin__
    arguments: tuple[Any, ...] = annotation.__args__
    if origin is list and len(arguments) == 1:
        items = _inner(arguments[0])
        return None if items is None else _list(items)
    if origin is dict and len(arguments) == 2 and arguments[0] is str:
        # Other keys have patterns.
        keys, values = read_built_in(str), _inner(arguments[1])
        return None if keys is None or values is None else _dict(keys, values)
    return _literal(arguments) if origin is Literal else None


def _literal(values: tuple[Any, ...]) -> BuiltIn | None:
    kinds: set[Any] = {type(each) for each in values}
    if not kinds <= _LITERAL:
        return None
    schema: JsonSchema = {"const": values[0]} if len(values) == 1 else {"enum": list(values)}
    if len(kinds) == 1:
        schema["type"] = _SCALARS[kinds.pop()][1]
    return {"type": "literal", "expected": list(values)}, schema


_LITERAL: Final = frozenset({bool, int, str, type(None)})
"""The classes of values in a ``Literal``; pydantic reads members of an Enum and bytes."""


def _union(annotation: Any) -> BuiltIn | None:
    members: tuple[Any, ...] = annotation.__args__
    found = [_inner(each) for each in members if each is not type(None)]
    choices = [each for each in found if each is not None]
    if len(choices) < len(found):
        return None
    core, schema = choices[0]
    if len(choices) > 1:
        core = {"type": "union", "choices": [core for core, _ in choices]}
        schema = _any_of(schema for _, schema in choices)
    if len(choices) < len(members):
        core = {"type": "nullable", "schema": core}
        schema = _any_of([schema, {"type": "null"}])
    return core, schema


def _any_of(schemas: Iterable[JsonSchema]) -> JsonSchema:
    """Return a schema of alternatives, without duplicates."""
    members: list[JsonSchema] = []
    for each in schemas:
        inner: list[JsonSchema] = each["anyOf"] if each.keys() == {"anyOf"} else [each]
        for one in inner:
            if one in members:
                members[members.index(one)] = one  # in Python 1 equals True; the last one is kept
            else:
                members.append(one)
    members = with_one_enum(members)
    return members[0] if len(members) == 1 else {"anyOf": members}


def with_one_enum(schemas: Sequence[JsonSchema]) -> list[JsonSchema]:
    """Merge the alternatives that are single values of one type into one ``enum``.

    Models understand an ``enum`` more reliably than alternatives of constants.
    """
    made: list[JsonSchema] = []
    places: dict[str, int] = {}
    for each in schemas:
        values = [each["const"]] if "const" in each else each.get("enum")
        if values is None or "type" not in each or len(each) > 2 or each["type"] == "null":
            made.append(each)
        elif each["type"] in places:
            before = made[places[each["type"]]]
            known = [before.pop("const")] if "const" in before else before["enum"]
            distinct = [*known, *(value for value in values if value not in known)]
            made[places[each["type"]]] = {"enum": distinct, "type": each["type"]}
        else:
            places[each["type"]] = len(made)
            made.append(dict(each))
    return made


# --- Annotated ------------------------------------------------------------------------------------


def _annotated(annotation: Any) -> BuiltIn | None:
    found = _inner(annotation.__origin__)
    if found is None:
        return None
    core, schema = found
    for each in annotation.__metadata__:
        if type(each) is str or type(each) is Complete:
            continue  # pydantic ignores them
        if "default" in schema:
            return None
        field, others, blank, limits = _known()
        if type(each) is not field:
            fits = _limit(each, core, schema, limits)
        else:
            fits = others(each) == blank and _field(each, core, schema, limits)
        if not fits:
            return None
    return core, dict(sorted(schema.items()))


def _field(field: Any, core: Core, schema: JsonSchema, limits: Mapping[type, str]) -> bool:
    """Add the facts of a field to a type; False if pydantic has to read one of them."""
    for each in field.metadata:
        if not _limit(each, core, schema, limits):
            return False
    if field.description is not None:
        schema["description"] = field.description
    if field.is_required():
        return True
    schema["default"] = field.default
    return _is_written(field.default)


def _is_written(value: object) -> bool:
    """Return True if a value is the same in JSON."""
    return type(value) in _LITERAL or (type(value) is float and math.isfinite(value))


@functools.cache
def _known() -> tuple[type, Callable[[Any], Any], Any, dict[type, str]]:
    """Return the class of fields, their facts that are not read here, and the names of limits."""
    import annotated_types as limits  # pydantic loads both, but later
    from pydantic.fields import FieldInfo

    read = {"annotation", "default", "description", "metadata"}
    names = [each for each in FieldInfo.__slots__ if each[0] != "_" and each not in read]
    others = operator.attrgetter(*names)
    limited = {
        getattr(limits, name.title().replace("_", "").replace("Length", "Len")): name
        for name in (*_NUMBER, "max_length", "min_length")
    }
    return FieldInfo, others, others(FieldInfo()), limited


def _limit(metadata: object, core: Core, schema: JsonSchema, limits: Mapping[type, str]) -> bool:
    """Add a limit to a type; False if pydantic has to read it."""
    keywords = _KEYWORDS.get(core["type"])
    name = limits.get(type(metadata))
    if keywords is None or name not in keywords:
        return False
    value: Any = getattr(metadata, name)
    whole = type(value) is int and abs(value) < _MAX_WHOLE
    if not whole and not (core["type"] == "float" and type(value) is float and _is_written(value)):
        return False  # invalid, or checked by a function
    if (value < 0 and name not in _SIGNED) or (value == 0 and name == "multiple_of"):
        return False
    core[name] = schema[keywords[name]] = value
    return True


_MAX_WHOLE: Final = 2**53
_SIGNED: Final = frozenset({"ge", "gt", "le", "lt"})
_NUMBER: Final = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
}
_KEYWORDS: Final[dict[str, dict[str, str]]] = {
    "dict": {"max_length": "maxProperties", "min_length": "minProperties"},
    "float": _NUMBER,
    "int": _NUMBER,
    "list": {"max_length": "maxItems", "min_length": "minItems"},
    "str": {"max_length": "maxLength", "min_length": "minLength"},
}
"""The keyword of JSON Schema for a limit, by the type in a core schema."""

_READERS: Final[dict[Any, Callable[[Any], BuiltIn | None]]] = {
    type: _named,
    type(Any): _named,
    type(None): lambda annotation: read_built_in(type(annotation)),
    ANNOTATED: _annotated,
    LITERAL: _generic,
    **dict.fromkeys(GENERICS, _generic),
    **dict.fromkeys(UNIONS, _union),
}
"""The reader of an annotation, by the annotation's class."""
