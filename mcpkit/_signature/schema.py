"""One type: its validator, its serializer and its JSON Schema.

JSON Schema 2020-12, written for a model to read: no generated titles, no ``null`` for a member that
is merely optional, references only where they save something.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast

import pydantic
from pydantic_core import (
    CoreConfig,
    CoreSchema,
    PydanticSerializationError,
    SchemaSerializer,
    SchemaValidator,
    ValidationError,
    from_json,
    to_json,
)

from mcpkit._signature.builtin_types import BuiltIn, read_built_in, with_one_enum
from mcpkit._signature.forms import ANNOTATED
from mcpkit._signature.hints import function_name, location, resolve_hints, underlying
from mcpkit._signature.validation import (
    is_large,
    limit_of_depth,
    make_validator,
    too_deep,
    types_of,
    validate_limited,
    within,
)
from mcpkit._utils.json import (
    UNSET,
    CollectorPause,
    JsonSchema,
    copy_schema,
    every_schema,
    is_array,
    is_object,
    subschemas,
)

Mode: TypeAlias = Literal["validation", "serialization"]

_PLAIN: Final = frozenset({"int", "float", "bool", "str", "any"})
"""Core schema types that mean the same for a JSON value and for the Python value it became."""

_CORE_CONFIG: Final = CoreConfig(
    allow_inf_nan=False, ser_json_bytes="base64", val_json_bytes="base64"
)
_FINITE_CONFIG: Final = CoreConfig(allow_inf_nan=False)


class TypeForm:
    """A type with its JSON Schema, and with a validator and a serializer made on first use.

    Making a validator takes longer than the rest of a registration, and most tools of a large
    server are never called.
    """

    is_built_in: ClassVar[bool] = True
    """True if `read_built_in` made the type; then no schema inside its schema has a default."""

    _config: CoreConfig | None = _CORE_CONFIG

    def __init__(self, read: BuiltIn) -> None:
        self._core, self._schema = cast("tuple[CoreSchema, JsonSchema]", read)

    @functools.cached_property
    def validator(self) -> SchemaValidator:
        """The validator of pydantic-core."""
        return SchemaValidator(self._core, _CORE_CONFIG)

    @functools.cached_property
    def serializer(self) -> SchemaSerializer:
        """The serializer of pydantic-core."""
        return SchemaSerializer(self._core, _CORE_CONFIG)

    def schema(self, mode: Mode) -> JsonSchema:
        """Return the JSON Schema of the type alone, with ``$defs`` where it has any.

        The schema is shared and must not be changed.
        """
        return self._schema

    @functools.cached_property
    def validate(self) -> Callable[[Any], Any]:
        """A function from a JSON value to the value that it becomes.

        It raises `pydantic_core.ValidationError` if the JSON value does not fit.
        """
        if self._core["type"] == "any":
            return _check_any
        if self._core["type"] in _PLAIN:
            return self.validator.validate_python
        # Only JSON mode accepts dates, bytes, sets and tuples as JSON has them.
        validator = self.validator
        # The configuration of a model may accept text such as "inf" as a number.
        if not self.is_built_in and "float" in types_of(self._core):
            validator = make_validator(self._core, self._config)
        validate_json = validator.validate_json
        is_too_deep = None if self.is_built_in else limit_of_depth(self._core)

        def check(value: Any) -> Any:
            if is_too_deep is not None and is_too_deep(value):
                raise too_deep(value, _AMBIGUOUS)
            text = to_json(value)
            if _INFINITY in text:
                _check_finite(value, text)
            if not is_large(text):
                return validate_json(text)
            with CollectorPause():  # a hundred thousand models would start it again and again
                return validate_limited(self._limited_validator, text)

        return check

    @functools.cached_property
    def _limited_validator(self) -> SchemaValidator:
        return make_validator(self._core, self._config, limited=True)

    @functools.cached_property
    def dump(self) -> Callable[[Any], bytes]:
        """A function from a value to its JSON text, checked against the type.

        It raises `pydantic_core.ValidationError` if the value does not fit, and
        `pydantic_core.PydanticSerializationError` if something inside it does not.
        """
        validate, serializer = self.validator.validate_python, self.serializer
        if self._core["type"] in _PLAIN - {"any"} and "serialization" not in self._core:
            return lambda value: to_json(validate(value))
        has_floats = any(map(_allows_floats, every_schema(self.schema("serialization"))))

        def dump(value: Any) -> bytes:
            checked = validate(value, from_attributes=True)
            text = serializer.to_json(checked, by_alias=True, warnings="error")
            # Inside models and `Any`, NaN and infinities become null or what their author chose.
            is_doubtful = has_floats and any(each in text for each in _NOT_FINITE)
            if is_doubtful and not is_finite(serializer.to_python(checked)):
                raise PydanticSerializationError("NaN and infinities have no JSON")
            return text

        return dump

    def shown(self, value: Any) -> Any:
        """Return the JSON value of a value of the type.

        Raises:
            ValueError: The value is not of the type, or JSON cannot represent it.
        """
        shown = self.serializer.to_python(value, mode="json", by_alias=True, warnings="error")
        if not is_finite(shown):
            raise ValueError("NaN and infinities have no JSON")
        return shown


class PydanticForm(TypeForm):
    """The form of a type that pydantic reads, or refuses with a `PydanticUserError`."""

    is_built_in = False

    def __init__(self, annotation: Any) -> None:
        self.adapter: pydantic.TypeAdapter[Any]
        try:
            self.adapter = pydantic.TypeAdapter(annotation, config=cast("Any", _CORE_CONFIG))
        except pydantic.PydanticUserError as error:
            if error.code != "type-adapter-config-unused":
                raise
            self.adapter = pydantic.TypeAdapter(annotation)  # a model has its own configuration
            self._config = _FINITE_CONFIG
        self.validator = cast("SchemaValidator", self.adapter.validator)
        self.serializer = self.adapter.serializer
        self._schemas: dict[Mode, JsonSchema] = {}
        # That of a model whose class is not complete yet is made when it is read.
        self._core = cast("CoreSchema", dict(self.adapter.core_schema))

    def schema(self, mode: Mode) -> JsonSchema:
        """Return the JSON Schema of the type alone; `ValueError` if no client can send a value."""
        if mode not in self._schemas:
            if mode == "validation":
                self._check_values()
            generator = schema_generator()
            self._schemas[mode] = self.adapter.json_schema(mode=mode, schema_generator=generator)
        return self._schemas[mode]

    def _check_values(self) -> None:
        for part in within(self._core):
            if part.get("type") in ("enum", "literal"):
                several: Any = {"type": "list", "items_schema": part}
                values = part.get("members") or part.get("expected")
                try:
                    SchemaValidator(several, self._config).validate_json(to_json(values))
                except ValidationError:
                    raise ValueError(
                        f"no client can send one of {values}; a member of class Kind(str, Enum) can"
                    ) from None


# --- NaN and infinities --------------------------------------------------------------------------

_INFINITY: Final = b"Infinity"
_NOT_FINITE: Final = (b"null", b"NaN", _INFINITY)
_AMBIGUOUS: Final = "nested too deeply to find out which of the types fits at each level"


def _check_any(value: Any) -> Any:
    if type(value) not in _FINITE:
        text = to_json(value, fallback=str)
        if _INFINITY in text:
            _check_finite(value, text)
    return value


_FINITE: Final = frozenset({bool, int, str, type(None)})


def _check_finite(value: Any, text: bytes) -> None:
    """Reject a JSON value with a number that was too large for a float."""
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError:
        pass
    else:
        return
    for loc, each in infinities(value):
        problem: Any = {"type": "finite_number", "loc": loc, "input": each}
        raise ValidationError.from_exception_data("number", [problem])


def infinities(
    value: Any, loc: tuple[int | str, ...] = ()
) -> Iterator[tuple[tuple[int | str, ...], float]]:
    """Yield the numbers in a value that are not finite, with their paths."""
    if isinstance(value, float):
        if not math.isfinite(value):
            yield loc, value
    elif is_object(value):
        for name, each in value.items():
            yield from infinities(each, (*loc, name))
    elif isinstance(value, (list, tuple, set, frozenset)):
        for place, each in enumerate(cast("Iterable[Any]", value)):
            yield from infinities(each, (*loc, place))


def _allows_floats(schema: JsonSchema) -> bool:
    """Return True if a schema allows floats; schemas inside it do not count."""
    if schema.get("type") == "number" or schema.get("additionalProperties") is True:
        return True
    return _SHAPES.isdisjoint(schema)


_SHAPES: Final = frozenset({"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"})


def is_finite(value: Any) -> bool:
    """Return True if a value made of built-in types has no NaN and no infinities."""
    return next(infinities(value), None) is None


def form_of(annotation: Any) -> TypeForm:
    """Return the form of a type, cached if the type is hashable.

    Raises:
        pydantic.errors.PydanticUserError: Pydantic cannot express the type.
    """
    if type(annotation) is ANNOTATED:
        # Hashing one takes as long as reading it, and most are unique.
        read = read_built_in(annotation)
        if read is not None:
            return TypeForm(read)
    try:
        return _cached_form(annotation, None if type(annotation) is type else _key(annotation))
    except TypeError:  # metadata that cannot be hashed
        return _make_form(annotation)


def _make_form(annotation: Any, key: Any = None) -> TypeForm:
    read = read_built_in(annotation)
    return PydanticForm(annotation) if read is None else TypeForm(read)


_cached_form: Final = functools.lru_cache(maxsize=4096)(_make_form)


def _key(annotation: Any) -> Any:
    # ``int | str`` equals ``str | int``, but the order matters: the first match wins.
    parts: tuple[Any, ...] = getattr(annotation, "__args__", ())
    return (annotation, *map(_key, parts)) if parts else annotation


@functools.cache
def schema_generator() -> Any:
    """Return the schema generator, which omits titles that repeat a name."""
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        names: frozenset[str] = frozenset({""})
        """The titles to omit: generated ones, which are empty, and the names of classes."""

        depth = 0
        """The number of classes around the current type."""

        def get_title_from_name(self, name: str) -> str:
            return ""

        def generate_inner(self, schema: Any) -> JsonSchema:
            if "cls" not in schema:
                return super().generate_inner(schema)
            self.names |= {schema["cls"].__name__}
            self.depth += 1
            try:
                return super().generate_inner(schema)
            finally:
                self.depth -= 1

        def bytes_schema(self, schema: Any) -> JsonSchema:
            made = super().bytes_schema(schema)
            # Models choose their encoding; elsewhere it is always base64, although older versions
            # of pydantic omit it.
            if made.get("format") == "base64url" or self.depth == 0:
                del made["format"]
                # Both alphabets are accepted; pydantic writes the one for URLs.
                made["contentEncoding"] = "base64" if self.mode == "validation" else "base64url"
            return made

        def ser_schema(self, schema: Any) -> JsonSchema | None:
            # Without a return annotation, a serializer of the author may return anything, and so
            # may the class of a value. Those of pydantic itself keep the type.
            is_own = getattr(schema.get("function"), "__module__", "").startswith("pydantic.")
            is_open = schema["type"] in ("any", "function-plain", "function-wrap") and not is_own
            if is_open and schema.get("return_schema") is None:
                return {}
            return super().ser_schema(schema)

        def union_schema(self, schema: Any) -> JsonSchema:
            made = super().union_schema(schema)
            if made.keys() != {"anyOf"}:
                return made
            options = with_one_enum(made["anyOf"])
            return options[0] if len(options) == 1 else {"anyOf": options}

        def generate(self, schema: Any, mode: Any = "validation") -> JsonSchema:
            made = super().generate(schema, mode)
            self._tidy(made)
            return made

        def generate_definitions(self, inputs: Any) -> Any:
            schemas, definitions = super().generate_definitions(inputs)
            for each in (*schemas.values(), *definitions.values()):
                self._tidy(each)
            return schemas, definitions

        def _tidy(self, schema: JsonSchema) -> None:
            for part in every_schema(schema):
                if part.get("title") in self.names:
                    del part["title"]
                # Not a keyword of JSON Schema, and its references would become invalid.
                part.pop("discriminator", None)

    return Untitled


# --- tidying a schema -----------------------------------------------------------------------------


def optional_instead_of_null(schema: JsonSchema) -> None:
    """Turn ``T | None = None`` into an optional ``T``: null is accepted, but not advertised."""
    if schema.get("default", UNSET) is not None:
        return
    del schema["default"]
    options = schema.get("anyOf")
    if not is_array(options):
        return
    others = [each for each in options if each != {"type": "null"}]
    if len(others) == 1:
        del schema["anyOf"]
        for key, value in others[0].items():
            schema.setdefault(key, value)
    else:
        schema["anyOf"] = others


def settle_references(schema: JsonSchema) -> JsonSchema:
    """Inline definitions that are used once; keep repeated and recursive ones in ``$defs``.

    A reference at the root is replaced by a copy of its target, because the root of a tool's schema
    must have a ``type``; so is a reference beside the name of a header (HDR-2).
    """
    definitions: dict[str, JsonSchema] = schema.pop("$defs", {})
    if not definitions:
        return schema
    every = [schema, *definitions.values()]
    counts = Counter(_target(part) for each in every for part in every_schema(each))
    recursive = {name for name, each in definitions.items() if name in _used(definitions, each)}
    kept = {
        name: each for name, each in definitions.items() if name in recursive or counts[name] > 1
    }

    def settle(part: JsonSchema, root: bool = False) -> None:
        while (name := _target(part)) in definitions:
            is_shared = name in recursive or (name in kept and "x-mcp-header" not in part)
            if is_shared and not root:
                break
            del part["$ref"]
            for key, value in copy_schema(definitions[name]).items():
                part.setdefault(key, value)
        for _, inner in subschemas(part):
            settle(inner)

    settle(schema, root=True)
    for each in kept.values():
        settle(each)
    used = _used(kept, schema)
    if used:
        schema["$defs"] = {name: each for name, each in kept.items() if name in used}
    return schema


def _target(schema: JsonSchema) -> str:
    """Return the name in ``$defs`` that a schema refers to, or an empty string."""
    ref = schema.get("$ref")
    return ref.removeprefix("#/$defs/") if isinstance(ref, str) else ""


def _used(definitions: Mapping[str, JsonSchema], schema: JsonSchema) -> set[str]:
    """Return the names of definitions that a schema refers to, directly or through others."""
    found: set[str] = set()
    waiting = [schema]
    while waiting:
        for part in every_schema(waiting.pop()):
            name = _target(part)
            if name in definitions and name not in found:
                found.add(name)
                waiting.append(definitions[name])
    return found


def reason_in(error: BaseException) -> str:
    """Return the line of an exception's message that says why, or its class if it has none."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    # Pydantic-core begins with what it was making, and ends with the reason.
    return lines[-1].removeprefix("error: ") if lines[0].endswith(":") else lines[0]


def typed(function: Callable[..., Any], value: Any) -> Any:
    """Return a JSON value as the type that a function returns; unchanged if none is declared."""
    name = function_name(function)
    try:
        returns = resolve_hints(underlying(function), location(function)).get("return")
        if returns in (None, Any):
            return value
        form = form_of(returns)
    except Exception:  # the annotation cannot be resolved, or is not a type for JSON
        return value
    try:
        return form.validate(value)
    except ValidationError as error:
        raise ValueError(
            f"the function {name}() of the step is annotated to return {returns}, but its result "
            f"does not match after a round trip through JSON: {error}"
        ) from error
