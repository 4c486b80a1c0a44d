"""Arguments validated against a JSON Schema that the author has written, for `input_schema=`.

mcpkit has a validator of its own because one message must not block the event loop: the library
`jsonschema` takes seconds for 2,000 unique objects, and has no limit on the time of a call.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from pydantic_core import SchemaError, SchemaValidator

from mcpkit._signature.arguments import Arguments
from mcpkit._signature.signature import Signature
from mcpkit._signature.validation import MAX_PROBLEMS, Problems
from mcpkit._utils.json import JsonSchema, References, is_array, is_object, walk
from mcpkit._utils.text import summarize
from mcpkit.errors import InvalidArguments, RegistrationError

_UNSUPPORTED: Final = frozenset(
    {"$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties"}
)
"""Keywords that are refused at registration, so that nothing is silently left unchecked."""

_MAX_CHECKS: Final = 60_000
"""Comparisons of a value with a schema in one call: about 100 ms."""

_MAX_DEPTH: Final = 100
"""Schemas inside of each other, through references too."""


class OpenArguments(Arguments):
    """The arguments of a function with ``**arguments``, validated against a JSON Schema.

    The parameters of the signature are validated by type as well.

    Raises:
        RegistrationError: The schema has keywords that cannot be checked.
    """

    def __init__(self, signature: Signature, schema: JsonSchema) -> None:
        super().__init__(signature)
        self._schema = schema
        self._injected = {each.name for each in signature.parameters if each.source != "argument"}
        references = References(schema)
        for part in (place.schema for place in walk(schema, unknown=True)):
            wrong = sorted(_UNSUPPORTED & part.keys())
            if wrong:
                raise RegistrationError(
                    f"{signature.place}: input_schema has {wrong[0]}, which mcpkit cannot check; "
                    f"write the properties out, or use additionalProperties"
                )
            reference = part.get("$ref")
            if isinstance(reference, str) and references.resolve(reference) is None:
                raise RegistrationError(
                    f"{signature.place}: input_schema has nothing at {reference!r}"
                )

    def validate(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments, validated by the schema, and those of the signature by type."""
        problems = Problems()
        for path, text in schema_errors(self._schema, dict(raw)):
            problems.add(path, text)
        for name in raw.keys() & self._injected:
            problems.add(name, "unknown argument")
        lines = problems.lines()
        if lines:
            raise InvalidArguments(lines)
        named = {field.wire_name for field in self.fields}
        values = super().validate({name: raw[name] for name in raw if name in named})
        return {**{name: raw[name] for name in raw if name not in named}, **values}


def arguments_of(signature: Signature, schema: JsonSchema) -> Arguments:
    """Return the arguments of a function that are described by a schema.

    Raises:
        RegistrationError: They do not fit together; the message has the fix.
    """
    is_open = signature.is_open
    arguments = OpenArguments(signature, schema) if is_open else Arguments(signature)
    at = f"{signature.place}: input_schema"
    if schema.get("type") != "object":
        raise RegistrationError(f'{at} is not of an object; begin it with "type": "object"')
    properties: Any = schema.get("properties", {})
    if not is_object(properties):
        raise RegistrationError(f"{at} has properties that are not an object")
    fields = {each.wire_name: each for each in arguments.fields}
    for name in () if is_open else properties:
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
    return arguments


def schema_errors(root: JsonSchema, value: Any) -> list[Problem]:
    """Return the first errors of a JSON value: the path, and what is wrong there."""
    try:
        found = islice(_SchemaCheck(root).errors(root, value), MAX_PROBLEMS + 1)
        return [(path or "arguments", text) for path, text in found]
    except _TooManyChecks:
        return [("arguments", "too much to check against the schema; send less at once")]


Problem: TypeAlias = tuple[str, str]
Schema: TypeAlias = "Mapping[str, Any] | bool"


class _TooManyChecks(Exception):
    """A value takes too long to check."""


class _SchemaCheck:
    """Checks one value, with a limit on the time that this takes."""

    def __init__(self, root: JsonSchema) -> None:
        self._references = References(root)
        self._left = _MAX_CHECKS

    def errors(
        self, schema: Schema, value: Any, path: str = "", depth: int = 0
    ) -> Iterator[Problem]:
        self._left -= 1
        if self._left < 0:
            raise _TooManyChecks
        if schema is True:
            return
        if schema is False or depth > _MAX_DEPTH:
            yield path, "nested too deeply" if schema else "unknown argument"
            return
        wanted = schema.get("type", ())
        kinds = [wanted] if isinstance(wanted, str) else wanted
        holds = [_KINDS[each][1](value) for each in kinds]
        choices: Sequence[str] = ()
        if holds and not any(holds):
            choices = [_KINDS[each][0] for each in kinds]
        elif "enum" in schema and _key(value) not in map(_key, schema["enum"]):
            choices = [*map(summarize, schema["enum"])]
        elif "const" in schema and _key(value) != _key(schema["const"]):
            choices = [summarize(schema["const"])]
        if choices:
            yield path, f"expected {' or '.join(choices)}, got {summarize(value)}"
            return
        for keyword, limit in schema.items():
            if keyword in _LIMITS:
                takes, measure, is_within, words = _LIMITS[keyword]
                if takes(value) and not is_within(measure(value), limit):
                    got = summarize(measure(value))
                    yield path, f"expected {words.format(limit)}, got {got}"
        if is_array(value):
            yield from self._in_items(schema, value, path, depth + 1)
        elif is_object(value) and not _MEMBERS.isdisjoint(schema):
            yield from self._in_members(schema, value, path, depth + 1)
        if not _COMBINING.isdisjoint(schema):
            yield from self._combined(schema, value, path, depth + 1)

    def _fits(self, schema: Schema, value: Any, depth: int) -> bool:
        return next(self.errors(schema, value, "", depth), None) is None

    def _combined(
        self, schema: Mapping[str, Any], value: Any, path: str, depth: int
    ) -> Iterator[Problem]:
        inner: list[Schema] = [*schema.get("allOf", ())]
        if "$ref" in schema:
            target = self._references.resolve(schema["$ref"])
            inner.append(False if target is None else target)
        if "if" in schema:
            inner.append(
                schema.get("then" if self._fits(schema["if"], value, depth) else "else", True)
            )
        for keyword, number in (("anyOf", "one"), ("oneOf", "exactly one")):
            choices = schema.get(keyword, ())
            if len(choices) == 1:
                inner.append(choices[0])
                continue
            count = sum(self._fits(each, value, depth) for each in choices)
            if choices and (count == 0 or (keyword == "oneOf" and count > 1)):
                yield path, f"fits not {number} of the {len(choices)} forms it may have"
        if "not" in schema and self._fits(schema["not"], value, depth):
            yield path, "has a form that is excluded"
        for each in inner:
            yield from self.errors(each, value, path, depth)

    def _in_items(
        self, schema: Mapping[str, Any], value: list[Any], path: str, depth: int
    ) -> Iterator[Problem]:
        if schema.get("uniqueItems") and len({*map(_key, value)}) < len(value):
            yield path, "has an item twice"
        first = schema.get("prefixItems", ())
        rest = schema.get("items", True)
        for index, each in enumerate(value if rest is not True else value[: len(first)]):
            inner = first[index] if index < len(first) else rest
            yield from self.errors(inner, each, f"{path}[{index}]", depth)
        if "contains" in schema:
            count = sum(self._fits(schema["contains"], each, depth) for each in value)
            if not schema.get("minContains", 1) <= count <= schema.get("maxContains", math.inf):
                yield path, f"has {count} items of the form that is looked for"

    def _in_members(
        self, schema: Mapping[str, Any], value: dict[str, Any], path: str, depth: int
    ) -> Iterator[Problem]:
        below = f"{path}." if path else ""
        properties: Mapping[str, Schema] = schema.get("properties", {})
        patterns: Mapping[str, Schema] = schema.get("patternProperties", {})
        others: Schema = schema.get("additionalProperties", True)
        for name in schema.get("required", ()):
            if name not in value:
                yield below + name, "required, but missing"
        for name in schema.get("dependentRequired", {}).keys() & value.keys():
            for other in schema["dependentRequired"][name]:
                if other not in value:
                    yield below + other, f"required with {name}, but missing"
        for name in schema.get("dependentSchemas", {}).keys() & value.keys():
            yield from self.errors(schema["dependentSchemas"][name], value, path, depth)
        for name, each in value.items():
            inner = [properties[name]] if name in properties else []
            inner += [patterns[pattern] for pattern in patterns if _pattern(pattern)(name)]
            for one in inner or (others,):
                yield from self.errors(one, each, below + name, depth)
            if "propertyNames" in schema and not self._fits(schema["propertyNames"], name, depth):
                yield below + name, "is not a name that a member may have"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_multiple(value: float, unit: float) -> bool:
    quotient = value / unit
    return math.isfinite(quotient) and abs(quotient - round(quotient)) < 1e-9


def _itself(value: Any) -> Any:
    return value


@functools.lru_cache(maxsize=256)
def _pattern(pattern: str) -> Callable[[str], bool]:
    """Return a search for a pattern: in linear time, unless it has look-around or references."""
    try:
        return SchemaValidator({"type": "str", "pattern": pattern}).isinstance_python
    except SchemaError:
        search = re.compile(pattern).search
        return lambda text: search(text) is not None


def _matches(text: str, pattern: str) -> bool:
    return _pattern(pattern)(text)


_MEMBERS: Final = frozenset(
    {
        *("additionalProperties", "dependentRequired", "dependentSchemas", "patternProperties"),
        *("properties", "propertyNames", "required"),
    }
)
_COMBINING: Final = frozenset({"$ref", "allOf", "anyOf", "if", "not", "oneOf"})

_KINDS: Final[Mapping[str, tuple[str, Callable[[Any], bool]]]] = {
    "null": ("null", lambda value: value is None),
    "boolean": ("true or false", lambda value: isinstance(value, bool)),
    "string": ("a string", _is_text),
    "array": ("an array", is_array),
    "object": ("an object", is_object),
    "number": ("a number", _is_number),
    "integer": ("an integer", lambda value: _is_number(value) and value == value // 1),
}

_LIMITS: Final[Mapping[str, tuple[Callable[[Any], bool], Callable[[Any], Any], Any, str]]] = {
    "exclusiveMaximum": (_is_number, _itself, operator.lt, "less than {}"),
    "exclusiveMinimum": (_is_number, _itself, operator.gt, "more than {}"),
    "maxItems": (is_array, len, operator.le, "at most {} items"),
    "maxLength": (_is_text, len, operator.le, "at most {} characters"),
    "maxProperties": (is_object, len, operator.le, "at most {} members"),
    "maximum": (_is_number, _itself, operator.le, "at most {}"),
    "minItems": (is_array, len, operator.ge, "at least {} items"),
    "minLength": (_is_text, len, operator.ge, "at least {} characters"),
    "minProperties": (is_object, len, operator.ge, "at least {} members"),
    "minimum": (_is_number, _itself, operator.ge, "at least {}"),
    "multipleOf": (_is_number, _itself, _is_multiple, "a multiple of {}"),
    "pattern": (_is_text, _itself, _matches, "a match of {}"),
}
"""The values that a keyword applies to, what it limits of them, the comparison, and words."""


def _key(value: Any) -> str:
    """Return a text that is the same for equal JSON values: 1 and 1.0 are equal, 1 and true not.

    Unlike the hash of a number, that of a text cannot be chosen by a client.
    """
    if is_array(value):
        return f"[{','.join(map(_key, value))}]"
    if is_object(value):
        if not value:
            return "{}"
        return f"{{{','.join(sorted(f'{name!r}:{_key(value[name])}' for name in value))}}}"
    whole = isinstance(value, float) and value.is_integer()
    return repr(int(value) if whole else value)
