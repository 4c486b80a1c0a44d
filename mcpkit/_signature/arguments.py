"""The arguments of a function: parameters → JSON Schema, JSON → values, and what was wrong.

Made once for a function, at registration.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from typing import Annotated, Any, Final, NamedTuple, TypeAlias

import pydantic
from pydantic_core import ValidationError, from_json

from mcpkit._signature.schema import (
    PydanticForm,
    first_line,
    form_of,
    optional_instead_of_null,
    schema_generator,
    settle_references,
)
from mcpkit._signature.signature import Parameter, Signature
from mcpkit._signature.validation import MAX_JSON_LENGTH, MAX_JSON_VALUES, Problems, too_deep
from mcpkit._utils.json import (
    UNSET,
    JsonSchema,
    copy_schema,
    count_values,
    every_schema,
    excess_of_digits,
    is_array,
    is_object,
    resolve,
    walk,
)
from mcpkit._utils.text import summarize
from mcpkit.errors import InvalidArguments, RegistrationError


class Field:
    """One argument: its name on the wire, its type, and what happens when it is absent."""

    __slots__ = (
        "default",
        "described",
        "factory",
        "form",
        "name",
        "parameter",
        "required",
        "wire_name",
    )

    def __init__(self, parameter: Parameter, signature: Signature) -> None:
        self.parameter = parameter
        self.name = self.wire_name = parameter.name
        self.described = False
        self.default = parameter.default
        self.factory: Callable[[], Any] | None = None
        annotation = parameter.annotation
        if type(annotation) is not type or type(self.default) not in _ORDINARY:
            annotation = self._read_fields(annotation)
        self.required = self.default is UNSET and self.factory is None
        try:
            self.form = form_of(annotation)
            self.form.schema("validation")
        except Exception as error:
            raise RegistrationError(
                f"{signature.place}: the parameter {parameter.name} has a type that cannot come "
                f"from JSON ({first_line(error)}); use a model, a dataclass or a built-in type, or "
                f"let the server provide it: Annotated[..., Depends(...)]"
            ) from error

    def _read_fields(self, annotation: Any) -> Any:
        """Take over what ``Field(...)`` says, and return the annotation without its names."""
        module = sys.modules.get("pydantic.fields")
        if module is None:
            return annotation  # so nobody has called it
        field_info: type[Any] = module.FieldInfo
        if isinstance(self.default, field_info):
            field, self.default = self.default, UNSET
            annotation = Annotated[annotation, field]
            self._take_default(field)
        if type(annotation) is not _ANNOTATED:
            return annotation
        has_names = False
        for each in annotation.__metadata__:
            if not isinstance(each, field_info):
                continue
            self._take_default(each)
            alias = each.validation_alias if each.alias is None else each.alias
            self.wire_name = alias if isinstance(alias, str) else self.wire_name
            self.described = self.described or each.description is not None
            has_names = has_names or bool(each.validation_alias)
        return _without_names(annotation, field_info) if has_names else annotation

    def _take_default(self, field: Any) -> None:
        if self.default is UNSET and self.factory is None and not field.is_required():
            self.factory = field.default_factory
            self.default = UNSET if self.factory else field.default
            if self.factory is None and type(self.default) not in _ORDINARY:
                self.factory = _copies_of(self.default)

    def show_default(self, schema: JsonSchema) -> None:
        """Add the default to a schema, unless JSON cannot show it."""
        if self.default is UNSET:
            return
        try:
            schema["default"] = self.form.shown(self.default)
        except ValueError:
            pass  # it is still the default


class _Texts:
    """The strings of one call that may be JSON.

    Models often send an array or object as text. Only what does not fit is read so, and a string
    that is wanted as a string stays one. The arguments of prompts and the variables of templates
    are always text, also those of ``Literal[1, 2]``.
    """

    def __init__(self) -> None:
        self._values = MAX_JSON_VALUES

    def check(self, check: Callable[[Any], Any], raw: Any) -> Any:
        """Return the value of an argument that is JSON inside of a string.

        Args:
            check: Checks a value of the argument.
            raw: The argument as it was sent.

        Raises:
            ValueError: It is not, or does not fit.
            RecursionError: It is nested too deeply.
        """
        if not isinstance(raw, str) or not self._is_worth_reading(raw):
            raise ValueError("no JSON")
        return check(from_json(raw, allow_inf_nan=False))

    def _is_worth_reading(self, text: str) -> bool:
        """Return True if a text begins like an array, an object or a number, and may be read."""
        first = text[:_MOST_BLANKS].lstrip()[:1]
        if first not in _CONTAINER_STARTS:
            return first in _NUMBER_STARTS and len(text) <= _LONGEST_NUMBER
        if self._values <= 0 or len(text) > MAX_JSON_LENGTH:
            return False
        written = text.encode()
        self._values -= count_values(written, self._values)
        return self._values >= 0 and not excess_of_digits(written)


_CONTAINER_STARTS: Final = frozenset("[{")
_NUMBER_STARTS: Final = frozenset("-0123456789")
_LONGEST_NUMBER: Final = 5000
_MOST_BLANKS: Final = 100
"""The first characters of a text, among which one that is no blank must be."""


_ANNOTATED: Final[Any] = type(Annotated[int, 0])
_ORDINARY: Final = frozenset({bool, float, int, str, type(None), type(UNSET)})
"""The classes of defaults that say nothing but themselves."""


def _copies_of(default: Any) -> Callable[[], Any] | None:
    """Return a maker of copies; None if there are none to be had.

    As in a model, a handler that changes the default of a ``Field(...)`` changes a copy, and not
    the value that the next call gets.
    """
    try:
        copy.deepcopy(default)
    except Exception:
        return None
    return functools.partial(copy.deepcopy, default)


def _without_names(annotation: Any, field_info: type) -> Any:
    """Return an annotation without the names that only a field of a model can have."""
    made = annotation.__origin__
    for each in annotation.__metadata__:
        kept: Any = each
        if isinstance(each, field_info):
            kept = copy.copy(each)
            kept.alias = kept.validation_alias = kept.serialization_alias = None
        made = Annotated[made, kept]
    return made


class Arguments:
    """The arguments that a function takes from the client.

    Args:
        signature: Its injected parameters are passed over.

    Raises:
        RegistrationError: A type cannot come from JSON, or has no JSON Schema.
    """

    __slots__ = ("_checks", "_signature", "fields")

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self._checks: list[tuple[str, str, Callable[[Any], Any], Field]] = []
        """The name of each field on the wire and in Python, its check, and itself."""
        self.fields = [Field(each, signature) for each in signature.arguments]

    def validate(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments for the function; those left out keep their Python defaults.

        Raises:
            InvalidArguments: With the first problems, not just one.
        """
        values: dict[str, Any] = {}
        problems: Problems | None = None
        texts: _Texts | None = None
        known = 0
        for wire_name, name, check, field in self._checks or self._prepare():
            if wire_name in raw:
                known += 1
                try:
                    values[name] = check(raw[wire_name])
                except (ValidationError, RecursionError) as error:
                    texts = texts or _Texts()
                    try:
                        values[name] = texts.check(check, raw[wire_name])
                    except (ValueError, RecursionError):
                        if isinstance(error, RecursionError):
                            error = too_deep(raw[wire_name])
                        problems = problems or Problems()
                        problems.explain(error, raw[wire_name], wire_name)
            elif field.required:
                problems = problems or Problems()
                problems.add(wire_name, "required, but missing")
            elif field.factory is not None:
                values[name] = field.factory()
            elif field.default is not field.parameter.default:
                values[name] = field.default
        if known != len(raw):
            names = frozenset([field.wire_name for field in self.fields])
            unknown = [name for name in raw if name not in names]
            added = is_host_argument(unknown)
            if len(added) < len(unknown):
                problems = problems or Problems()
                problems.add_unknown(
                    [name for name in unknown if name not in added],
                    [field.wire_name for field in self.fields],
                )
        if problems is not None:
            raise InvalidArguments(problems.lines())
        return values

    def _prepare(self) -> list[tuple[str, str, Callable[[Any], Any], Field]]:
        """Decide with the first call what is the same for all."""
        self._checks = [
            (each.wire_name, each.name, each.form.checker(), each) for each in self.fields
        ]
        return self._checks

    def schema(self) -> JsonSchema:
        """Return the JSON Schema of the arguments: an object, without ``title`` noise.

        Raises:
            RegistrationError: A type has no JSON Schema.
        """
        definitions: dict[str, JsonSchema] = {}
        properties: dict[str, JsonSchema] = {}
        required: list[str] = []
        has_models = False
        for field, shared in zip(self.fields, self._described(definitions), strict=True):
            schema = copy_schema(shared)
            if field.parameter.description and not field.described:
                schema["description"] = field.parameter.description
            if field.required:
                required.append(field.wire_name)
            else:
                if "default" not in schema:
                    field.show_default(schema)
                optional_instead_of_null(schema)
            has_models = has_models or not field.form.is_built_in
            properties[field.wire_name] = schema
        # Empty or not: some clients cannot do without it.
        root: JsonSchema = {"type": "object", "properties": properties}
        if required:
            root["required"] = required
        root["additionalProperties"] = False
        if definitions:
            root["$defs"] = definitions
            root = settle_references(root)
        if has_models:
            for part in every_schema(root):
                optional_instead_of_null(part)
        return root

    def _described(self, definitions: dict[str, JsonSchema]) -> list[JsonSchema]:
        """Return the schema of each field, and gather shared ones in `definitions`."""
        schemas = [field.form.schema("validation") for field in self.fields]
        for schema in schemas:
            if "$defs" in schema:
                return self._described_together(schemas, definitions)
        return schemas

    def _described_together(
        self, schemas: list[JsonSchema], definitions: dict[str, JsonSchema]
    ) -> list[JsonSchema]:
        forms = enumerate([field.form for field in self.fields])
        dependent = [(place, form) for place, form in forms if isinstance(form, PydanticForm)]
        try:
            together, shared = pydantic.TypeAdapter.json_schemas(
                [(place, "validation", form.adapter) for place, form in dependent],
                schema_generator=schema_generator(),
            )
        except Exception as error:
            raise RegistrationError(
                f"{self._signature.place}: a parameter has no JSON Schema: {first_line(error)}"
            ) from error
        definitions.update(shared.get("$defs", {}))
        for place, _ in dependent:
            schemas[place] = together[place, "validation"]
        return schemas


# --- hosts ---


class HostQuirk(NamedTuple):
    """The arguments that a host adds.

    Args:
        host: Who does it.
        mark: The one that is always among them.
        names: All of them.
        source: Where it is from.
    """

    host: str
    mark: str
    names: Set[str]
    source: str


HOST_QUIRKS: Final = (
    HostQuirk(
        "Gemini CLI",
        "wait_for_previous",
        frozenset({"wait_for_previous"}),
        "https://github.com/google-gemini/gemini-cli, packages/core/src/tools/tools.ts",
    ),
    HostQuirk(
        "n8n",
        "toolCallId",
        frozenset({"toolCallId", "sessionId", "chatInput", "action", "tool"}),
        "https://github.com/n8n-io/n8n/issues/21716, mpeirone/zabbix-mcp-server/pull/27",
    ),
)


def is_host_argument(unknown: Iterable[str]) -> frozenset[str]:
    """Return which of the arguments that a tool does not know a host has added by itself."""
    names = frozenset(unknown)
    found: set[str] = set()
    for quirk in HOST_QUIRKS:
        if quirk.mark in names:
            found |= names & quirk.names
    return frozenset(found)


# --- input_schema= ---

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
        told = problems.lines()
        if told:
            raise InvalidArguments(told)
        named = {field.wire_name for field in self.fields}
        values = super().validate({name: raw[name] for name in raw if name in named})
        return {**{name: raw[name] for name in raw if name not in named}, **values}


def check_input_schema(
    signature: Signature, arguments: Arguments, schema: JsonSchema, is_open: bool
) -> None:
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
        yield place, f"expected {words}, got {summarize(value)}"
        return
    if "enum" in found and not any(_same(value, each) for each in found["enum"]):
        words = " or ".join(summarize(each) for each in found["enum"])
        yield place, f"expected {words}, got {summarize(value)}"
        return
    if "const" in found and not _same(value, found["const"]):
        yield place, f"expected {summarize(found['const'])}, got {summarize(value)}"
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
        yield path, f"expected at least {schema['minLength']} characters, got {summarize(value)}"
    if len(value) > schema.get("maxLength", math.inf):
        yield path, f"expected at most {schema['maxLength']} characters, got {len(value)}"
    if "pattern" in schema and re.search(schema["pattern"], value) is None:
        yield path, f"expected a match of {schema['pattern']}, got {summarize(value)}"


def _number(schema: Mapping[str, Any], value: float, path: str) -> Iterator[tuple[str, str]]:
    for keyword, (words, holds) in _BOUNDS.items():
        limit = schema.get(keyword)
        if limit is not None and not holds(value, limit):
            yield path, f"expected {words} {limit}, got {summarize(value)}"


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
