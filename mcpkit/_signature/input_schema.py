"""Arguments and results that are described by a JSON Schema, which the author has written.

mcpkit has a validator of its own because one message must not block the event loop: the library
`jsonschema` takes seconds for 2,000 unique objects, and has no limit on the time of a call.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any, ClassVar, Final, TypeAlias

from pydantic_core import SchemaError, SchemaValidator, from_json, to_json

from mcpkit._signature.arguments import Arguments, Texts
from mcpkit._signature.converters import Converters
from mcpkit._signature.output import Output, OutputMismatch
from mcpkit._signature.signature import Signature
from mcpkit._signature.validation import MAX_PROBLEMS, Problems
from mcpkit._utils.json import UNSET, JsonSchema, References, is_array, is_object, walk
from mcpkit._utils.text import summarize
from mcpkit.errors import InvalidArguments, RegistrationError

_UNSUPPORTED: Final = frozenset(
    {
        *("$dynamicRef", "$recursiveRef", "additionalItems", "dependencies"),
        *("unevaluatedItems", "unevaluatedProperties"),
    }
)
"""Keywords that are refused at registration, so that nothing is silently left unchecked."""

_MAX_CHECKS: Final = 60_000
"""Comparisons of a value with a schema in one call: about 100 ms."""

_MAX_DEPTH: Final = 200
"""Schemas inside of each other, through references too."""


@dataclass(frozen=True)
class Argument:
    """An argument that is described, not derived from a parameter.

    Args:
        name: Its name.
        title, description: For people, and for the model.
        required: True if it may not be missing.
    """

    name: str
    title: str | None = None
    description: str | None = None
    required: bool = False

    # As those of a `Field`.
    default: ClassVar[Any] = UNSET
    mark: ClassVar[Any] = None

    @property
    def wire_name(self) -> str:
        """The name."""
        return self.name


class GivenArguments:
    """Arguments that a schema describes, as the client sends them.

    Args:
        schema: Of an object.
        at: The place of the schema in the code, for messages.

    Raises:
        RegistrationError: It is not a schema, not of an object, or has keywords that cannot be
            checked.
    """

    def __init__(self, schema: JsonSchema, at: str) -> None:
        self._schema = schema
        if not is_object(schema) or schema.get("type") != "object":
            raise RegistrationError(f'{at} is not of an object; begin it with "type": "object"')
        check_schema(schema, at)
        required = schema.get("required", ())
        properties: Mapping[str, Any] = schema.get("properties", {})
        self.fields = [Argument(name, required=name in required) for name in properties]

    def schema(self) -> JsonSchema:
        """Return the schema."""
        return self._schema

    def validate(self, raw: Mapping[str, Any], taken: Set[str] = frozenset()) -> dict[str, Any]:
        """Return the arguments; raises `InvalidArguments`, also for names that are taken.

        What a model sends as JSON text, for an argument that may not be text, is parsed.
        """
        values = dict(raw)
        found = schema_errors(self._schema, values)
        if found and (parsed := self._parsed(values)):
            values |= parsed
            found = schema_errors(self._schema, values)
        found += [(name, "unknown argument") for name in raw.keys() & taken]
        if found:
            problems = Problems()
            for path, text in found:
                problems.add(path, text)
            raise InvalidArguments(problems.lines())
        return values

    def _parsed(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that are JSON texts, and may not be text, parsed."""
        texts, found = Texts(), dict[str, Any]()
        properties, references = self._schema.get("properties", {}), References(self._schema)
        for name in properties.keys() & values.keys():
            if isinstance(values[name], str) and _excludes_text(properties[name], references):
                with suppress(ValueError, RecursionError):
                    found[name] = texts.parsed(values[name])
        return found


def _excludes_text(schema: Any, references: References, depth: int = 9) -> bool:
    """Return True if the types of a schema say that no value is a text."""
    if not is_object(schema) or not depth:
        return False
    kinds = schema.get("type")
    if kinds is not None:
        return "string" not in ([kinds] if isinstance(kinds, str) else kinds)
    if "$ref" in schema:
        return _excludes_text(references.resolve(schema["$ref"]), references, depth - 1)
    choices: Any = schema.get("anyOf") or schema.get("oneOf") or ()
    return bool(choices) and all(_excludes_text(e, references, depth - 1) for e in choices)


class BothArguments(Arguments):
    """The arguments of a function with a given schema: validated against it, then by their types.

    With ``**arguments`` the function takes all that the schema allows, otherwise what it names.

    Raises:
        RegistrationError: The schema and the function do not fit together; the message has the fix.
    """

    def __init__(self, signature: Signature, schema: JsonSchema) -> None:
        super().__init__(signature)
        at = f"{signature.place}: input_schema"
        self._given = GivenArguments(schema, at)
        self._is_open = signature.is_open
        self._injected = {each.name for each in signature.parameters if each.source != "argument"}
        self._named = {each.wire_name for each in self.fields}
        properties: Any = schema.get("properties", {})
        for name in () if self._is_open else properties:
            if name not in self._named:
                raise RegistrationError(
                    f"{at} has a property {name!r}, which the function does not take; add a "
                    f"parameter, or write **arguments to take whatever the schema allows"
                )
        for field in self.fields:
            if field.wire_name not in properties and field.required:
                raise RegistrationError(
                    f"{at} has no property {field.wire_name!r}, which the function needs; add it, "
                    f"or give the parameter a default"
                )

    def schema(self) -> JsonSchema:
        """Return the given schema."""
        return self._given.schema()

    def validate(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments, validated by the schema, and those of the signature by type."""
        if not self._is_open:
            # `Arguments` has the word on others: some hosts add arguments of their own.
            known = {name: raw[name] for name in raw if name in self._named}
            return super().validate({**raw, **self._given.validate(known)})
        given = self._given.validate(raw, self._injected)
        values = super().validate({name: given[name] for name in given if name in self._named})
        return {**{name: given[name] for name in given if name not in self._named}, **values}


class GivenOutput(Output):
    """Renders the values of a described tool: as structured content if there is a schema.

    Raises:
        RegistrationError: It is not a schema, or has keywords that cannot be checked.
    """

    def __init__(self, schema: JsonSchema | None, at: str, converters: Converters) -> None:
        if schema is not None:
            check_schema(schema, at)
        self._converters = converters
        self.schema = schema
        self.is_raw = True
        self.is_object = schema is not None and schema.get("type") == "object"

    def _json_of(self, value: Any) -> bytes:
        assert self.schema is not None
        text = self._converters.json(value)
        for path, wrong in schema_errors(self.schema, from_json(text), "result", math.inf):
            raise OutputMismatch(f"{path}: {wrong}")
        return text


# --- schemas --------------------------------------------------------------------------------------


def check_schema(schema: JsonSchema, at: str) -> None:
    """Raise `RegistrationError` if values cannot be checked against a schema."""
    if not is_object(schema):
        raise RegistrationError(f"{at} is not an object, but {schema!r:.50}")
    try:
        to_json(schema)
    except ValueError as error:
        raise RegistrationError(f"{at} is not JSON: {error}") from None
    references = References(schema)
    waiting: list[tuple[str, Any]] = [("the schema", schema)]
    seen: set[int] = set()
    while waiting:
        name, found = waiting.pop()
        for path, text in schema_errors(_METASCHEMA, found, name, math.inf):
            place = path if found is schema else f"{name}: {path}"
            raise RegistrationError(f"{at} is not a JSON Schema (2020-12): {place}: {text}")
        for part in (place.schema for place in walk(found, seen=seen) if is_object(found)):
            seen.add(id(part))
            _check_part(part, at)
            reference = part.get("$ref")
            if reference is not None:
                target = references.resolve(reference)
                if target is None:
                    raise RegistrationError(f"{at} has nothing at {reference!r}")
                if id(target) not in seen:  # it may be outside of the places where schemas are
                    waiting.append((reference, target))


def _check_part(part: Mapping[str, Any], at: str) -> None:
    wrong = sorted(_UNSUPPORTED & part.keys())
    if wrong:
        raise RegistrationError(
            f"{at} has {wrong[0]}, which mcpkit cannot check; "
            f"write the properties out, or use additionalProperties"
        )
    for pattern in filter(None, (part.get("pattern"), *part.get("patternProperties", ()))):
        try:
            _pattern(pattern)
        except re.error as error:
            raise RegistrationError(
                f"{at} has a pattern {pattern!r} that is not a regular expression: {error}"
            ) from None


def schema_errors(
    root: JsonSchema, value: Any, name: str = "arguments", most: float = _MAX_CHECKS
) -> list[Problem]:
    """Return the first errors of a JSON value: the path, and what is wrong there.

    Args:
        root: The schema.
        value: The value.
        name: The path of the whole value.
        most: The maximum number of comparisons.
    """
    try:
        found = islice(_SchemaCheck(root, most).errors(root, value), MAX_PROBLEMS + 1)
        return [(path or name, text) for path, text in found]
    except (_Unchecked, RecursionError) as error:
        return [(name, str(error) if isinstance(error, _Unchecked) else _TOO_DEEP)]


_TOO_DEEP: Final = "nested too deeply"
Problem: TypeAlias = tuple[str, str]
Schema: TypeAlias = "Mapping[str, Any] | bool"


class _Unchecked(Exception):
    """A value takes too long to check, or is too deep: no error that ``not`` may turn around."""


class _SchemaCheck:
    """Checks one value, with a limit on the time that this takes."""

    def __init__(self, root: JsonSchema, most: float) -> None:
        self._references = References(root)
        self._left = most
        self._keys: dict[int, str] = {}
        self._choices: dict[int, Set[str]] = {}

    def errors(
        self, schema: Schema, value: Any, path: str = "", depth: int = 0
    ) -> Iterator[Problem]:
        self._spend(1)
        if schema is True:
            return
        if schema is False:
            yield path, "unknown argument"
            return
        if depth > _MAX_DEPTH:
            raise _Unchecked(_TOO_DEEP)
        wanted = schema.get("type", ())
        kinds = [wanted] if isinstance(wanted, str) else wanted
        holds = [_KINDS[each][1](value) for each in kinds]
        choices: Sequence[str] = ()
        if holds and not any(holds):
            choices = [_KINDS[each][0] for each in kinds]
        elif "enum" in schema and self._key(value) not in self._enum(schema):
            choices = [*map(summarize, schema["enum"])]
        elif "const" in schema and self._key(value) != self._key(schema["const"]):
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

    def _spend(self, checks: float) -> None:
        self._left -= checks
        if self._left < 0:
            raise _Unchecked("too much to check against the schema; send less at once")

    def _key(self, value: Any) -> str:
        if not is_array(value) and not is_object(value):
            return _key(value)
        found = self._keys.get(id(value))
        if found is None:
            found = self._keys[id(value)] = _key(value)
            self._spend(len(found) / 16)
        return found

    def _enum(self, schema: Mapping[str, Any]) -> Set[str]:
        found = self._choices.get(id(schema))
        if found is None:
            found = self._choices[id(schema)] = {*map(_key, schema["enum"])}
        return found

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
        if schema.get("uniqueItems") and len({*map(self._key, value)}) < len(value):
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
            self._spend(len(patterns) / 4)
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
    if isinstance(value, int) and isinstance(unit, int):
        return value % unit == 0
    try:
        quotient = value / unit
    except OverflowError:  # an integer beyond all floats
        return Fraction(value) % Fraction(unit) == 0
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


def _metaschema() -> JsonSchema:
    """Return the schema of the schemas that can be checked, as far as calls depend on it."""
    inner: JsonSchema = {"$ref": "#"}
    table = {"type": "object", "additionalProperties": inner}
    several = {"type": "array", "items": inner, "minItems": 1}
    names = {"type": "array", "items": {"type": "string"}}
    kind = {"enum": [*_KINDS]}
    forms: dict[str, JsonSchema] = {
        "$defs definitions dependentSchemas patternProperties properties": table,
        "additionalProperties contains else if items not propertyNames then": inner,
        "allOf anyOf oneOf prefixItems": several,
        "exclusiveMaximum exclusiveMinimum maximum minimum": {"type": "number"},
        "maxContains maxItems maxLength maxProperties": {"type": "integer", "minimum": 0},
        "minContains minItems minLength minProperties": {"type": "integer", "minimum": 0},
        "multipleOf": {"type": "number", "exclusiveMinimum": 0},
        "type": {"if": {"type": "array"}, "then": {"items": kind, "minItems": 1}, "else": kind},
        "enum": {"type": "array", "minItems": 1},
        "required": names,
        "dependentRequired": {"type": "object", "additionalProperties": names},
        "uniqueItems": {"type": "boolean"},
        "$anchor $ref description pattern title": {"type": "string"},
    }
    properties = {name: form for names, form in forms.items() for name in names.split()}
    return {"type": ["object", "boolean"], "properties": properties}


_METASCHEMA: Final = _metaschema()
