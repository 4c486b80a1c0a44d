"""Values held against a JSON Schema that an author has written, for tools without a signature.

JSON Schema 2020-12 without what depends on the order of evaluation: a schema with such a keyword is
refused when the tool is registered, so that nothing is left unchecked in silence.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from mcpkit._signature.arguments import Arguments, Problems
from mcpkit._signature.signature import Signature
from mcpkit._utils.json import JsonSchema, resolve, walk
from mcpkit._utils.text import shorten
from mcpkit.errors import InvalidArguments, RegistrationError
from mcpkit.types import is_array, is_object

__all__ = ["OpenArguments", "schema_errors", "unfit"]

Schema: TypeAlias = "Mapping[str, Any] | bool"

_DEEPEST: Final = 100
"""Schemas inside of each other, by references too; no value of a client needs as many."""

_UNSUPPORTED: Final = frozenset(
    {"$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"}
)

_KINDS: Final[dict[str, tuple[str, Callable[[Any], bool]]]] = {
    "null": ("null", lambda value: value is None),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "string": ("a string", lambda value: isinstance(value, str)),
    "array": ("an array", is_array),
    "object": ("an object", is_object),
    "number": ("a number", lambda value: _is_number(value)),
    "integer": ("an integer", lambda value: _is_number(value) and value == value // 1),
}


class OpenArguments(Arguments):
    """The arguments of a function that takes whatever a JSON Schema allows, as ``**arguments``.

    Args:
        signature: Without its ``**arguments``; what it names is validated by its types as well.
        schema: Of all arguments together.

    Raises:
        RegistrationError: The schema has keywords that cannot be checked.
    """

    __slots__ = ("_injected", "_root")

    def __init__(self, signature: Signature, schema: JsonSchema) -> None:
        super().__init__(signature)
        self._root = schema
        self._injected = {each.name for each in signature.parameters if each.source != "argument"}
        for place in walk(schema, unknown=True):
            wrong = sorted(_UNSUPPORTED & place.schema.keys())
            if wrong:
                raise RegistrationError(
                    f"{signature.place}: nothing checks {wrong[0]} of input_schema; write the "
                    f"properties out, or use additionalProperties"
                )
            reference = place.schema.get("$ref")
            if isinstance(reference, str) and resolve(schema, reference) is None:
                raise RegistrationError(
                    f"{signature.place}: input_schema has nothing at {reference!r}"
                )

    def validate(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments, validated by the schema, and those of the signature by its types.

        Raises:
            InvalidArguments: With the first problems, not just one.
        """
        problems = Problems()
        for path, text in schema_errors(self._root, dict(raw)):
            problems.add(path, text)
        for name in raw.keys() & self._injected:
            problems.add(name, "unknown argument")
        told = problems.told()
        if told:
            raise InvalidArguments(told)
        named = {field.wire_name for field in self.fields}
        values = super().validate({name: raw[name] for name in raw if name in named})
        return {**{name: raw[name] for name in raw if name not in named}, **values}


def unfit(signature: Signature, arguments: Arguments, schema: JsonSchema, is_open: bool) -> None:
    """Refuse a schema whose arguments the function does not take, or that lacks one it needs.

    Args:
        signature: For messages.
        arguments: What the function takes.
        schema: What is advertised.
        is_open: Whether the function takes others as well.

    Raises:
        RegistrationError: They do not fit together; the message has the fix.
    """
    at = f"{signature.place}: input_schema"
    if schema.get("type") != "object":
        raise RegistrationError(f'{at} is not of an object; begin it with "type": "object"')
    properties: Any = schema.get("properties", {})
    if not is_object(properties):
        raise RegistrationError(f"{at} has properties that are no object")
    fields = {each.wire_name: each for each in arguments.fields}
    if not is_open:
        for name in properties:
            if name not in fields:
                raise RegistrationError(
                    f"{at} has a property {name!r}, which the function does not take; add a "
                    f"parameter, or write **arguments to take whatever the schema allows"
                )
    for name, field in fields.items():
        if name not in properties and field.required:
            raise RegistrationError(
                f"{at} has no property {name!r}, which the function needs; add it, or give the "
                f"parameter a default"
            )


def schema_errors(
    root: JsonSchema, value: Any, schema: Schema | None = None, path: str = "", depth: int = 0
) -> Iterator[tuple[str, str]]:
    """Yield what does not fit: its path, and what is wrong with it.

    Args:
        root: The whole schema, for references.
        value: A JSON value.
        schema: The part of the schema that is for the value; all of it if None.
        path: Of the value.
        depth: Of the schema, counted through references.
    """
    found: Schema = root if schema is None else schema
    place = path or "arguments"
    if found is True:
        return
    if found is False or depth > _DEEPEST:
        yield place, "unknown argument" if found is False else "is nested too deeply"
        return

    def below(inner: Schema, each: Any = value, at: str = path) -> Iterator[tuple[str, str]]:
        return schema_errors(root, each, inner, at, depth + 1)

    def fits(inner: Schema, each: Any = value) -> bool:
        return next(below(inner, each), None) is None

    if "$ref" in found:
        target = resolve(root, found["$ref"])
        yield from below(False if target is None else target)
    wanted = found.get("type")
    kinds = [wanted] if isinstance(wanted, str) else wanted or []
    if kinds and not any(_KINDS[kind][1](value) for kind in kinds if kind in _KINDS):
        words = " or ".join(_KINDS[kind][0] for kind in kinds if kind in _KINDS)
        yield place, f"expected {words}, got {shorten(value)}"
        return
    if "enum" in found and not any(_same(value, each) for each in found["enum"]):
        words = " or ".join(shorten(each) for each in found["enum"])
        yield place, f"expected {words}, got {shorten(value)}"
        return
    if "const" in found and not _same(value, found["const"]):
        yield place, f"expected {shorten(found['const'])}, got {shorten(value)}"
        return
    if isinstance(value, str):
        yield from _text(found, value, place)
    elif _is_number(value):
        yield from _number(found, value, place)
    elif is_array(value):
        yield from _array(found, value, path, below, fits)
    elif is_object(value):
        yield from _object(found, value, path, below, fits)
    for inner in found.get("allOf", ()):
        yield from below(inner)
    for keyword in ("anyOf", "oneOf"):
        choices = found.get(keyword, ())
        count = sum(fits(inner) for inner in choices)
        if choices and (count == 0 or (keyword == "oneOf" and count > 1)):
            if len(choices) == 1:
                yield from below(choices[0])
            else:
                what = "one" if keyword == "anyOf" else "exactly one"
                yield place, f"fits not {what} of the {len(choices)} forms it may have"
    if "not" in found and fits(found["not"]):
        yield place, "has a form that is excluded"
    if "if" in found:
        then = found.get("then" if fits(found["if"]) else "else")
        if then is not None:
            yield from below(then)


def _text(schema: Mapping[str, Any], value: str, path: str) -> Iterator[tuple[str, str]]:
    if len(value) < schema.get("minLength", 0):
        yield path, f"expected at least {schema['minLength']} characters, got {shorten(value)}"
    if len(value) > schema.get("maxLength", math.inf):
        yield path, f"expected at most {schema['maxLength']} characters, got {len(value)}"
    if "pattern" in schema and re.search(schema["pattern"], value) is None:
        yield path, f"expected a match of {schema['pattern']}, got {shorten(value)}"


def _number(schema: Mapping[str, Any], value: float, path: str) -> Iterator[tuple[str, str]]:
    for keyword, (words, holds) in _BOUNDS.items():
        limit = schema.get(keyword)
        if limit is not None and not holds(value, limit):
            yield path, f"expected {words} {limit}, got {shorten(value)}"


def _array(
    schema: Mapping[str, Any], value: list[Any], path: str, below: Any, fits: Any
) -> Iterator[tuple[str, str]]:
    place = path or "arguments"
    if len(value) < schema.get("minItems", 0):
        yield place, f"expected at least {schema['minItems']} items, got {len(value)}"
    if len(value) > schema.get("maxItems", math.inf):
        yield place, f"expected at most {schema['maxItems']} items, got {len(value)}"
        return
    if schema.get("uniqueItems") and len({_key(each) for each in value}) < len(value):
        yield place, "has an item twice"
    first = schema.get("prefixItems", ())
    rest = schema.get("items")
    for index, each in enumerate(value):
        inner = first[index] if index < len(first) else rest
        if inner is not None:
            yield from below(inner, each, f"{path}[{index}]")
    if "contains" in schema:
        count = sum(fits(schema["contains"], each) for each in value)
        if not schema.get("minContains", 1) <= count <= schema.get("maxContains", math.inf):
            yield place, f"has {count} items of the form that is looked for"


def _object(
    schema: Mapping[str, Any], value: dict[str, Any], path: str, below: Any, fits: Any
) -> Iterator[tuple[str, str]]:
    def at(name: str) -> str:
        return f"{path}.{name}" if path else name

    properties: Mapping[str, Schema] = schema.get("properties", {})
    patterns: Mapping[str, Schema] = schema.get("patternProperties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield at(name), "required, but missing"
    for name, others in schema.get("dependentRequired", {}).items():
        for other in others if name in value else ():
            if other not in value:
                yield at(other), f"required with {name}, but missing"
    for name, inner in schema.get("dependentSchemas", {}).items():
        if name in value:
            yield from below(inner)
    if len(value) < schema.get("minProperties", 0):
        yield path or "arguments", f"expected at least {schema['minProperties']} members"
    if len(value) > schema.get("maxProperties", math.inf):
        yield path or "arguments", f"expected at most {schema['maxProperties']} members"
    for name, each in value.items():
        known = False
        if name in properties:
            known = True
            yield from below(properties[name], each, at(name))
        for pattern, inner in patterns.items():
            if re.search(pattern, name):
                known = True
                yield from below(inner, each, at(name))
        if not known and "additionalProperties" in schema:
            yield from below(schema["additionalProperties"], each, at(name))
        if "propertyNames" in schema and not fits(schema["propertyNames"], name):
            yield at(name), "is no name that a member may have"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_multiple(value: float, unit: float) -> bool:
    quotient = value / unit
    return math.isfinite(quotient) and abs(quotient - round(quotient)) < 1e-9


_BOUNDS: Final[dict[str, tuple[str, Callable[[float, float], bool]]]] = {
    "minimum": ("at least", operator.ge),
    "maximum": ("at most", operator.le),
    "exclusiveMinimum": ("more than", operator.gt),
    "exclusiveMaximum": ("less than", operator.lt),
    "multipleOf": ("a multiple of", _is_multiple),
}


def _same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    return bool(_key(one) == _key(other))


def _key(value: Any) -> Any:
    if is_array(value):
        return ("array", *map(_key, value))
    if is_object(value):
        return ("object", frozenset((name, _key(each)) for name, each in value.items()))
    return (isinstance(value, bool), value)
