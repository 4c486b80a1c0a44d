"""Types at the border: parameters → JSON Schema, arguments → values, results → content.

Built once per function at registration. JSON Schema 2020-12, written for a model to read: no
generated titles, no ``null`` for what is merely optional, references only where they save
something.
"""

from __future__ import annotations

import copy
import functools
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, cast, get_args, get_origin

import pydantic
from pydantic_core import PydanticSerializationError, ValidationError, from_json, to_json

from mcpkit.errors import InvalidArguments, RegistrationError
from mcpkit.functions.signature import Parameter, Signature, unalias
from mcpkit.types import (
    UNSET,
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    Media,
    Message,
    PromptResult,
    ResourceLink,
    ResourceResult,
    TextContent,
    TextResourceContents,
    ToolResult,
    is_array,
    is_binary,
    is_object,
    sniff,
)

__all__ = ["Arguments", "JsonSchema", "Output", "Rendered", "blocks_of"]

JsonSchema: TypeAlias = dict[str, Any]
Mode: TypeAlias = Literal["validation", "serialization"]

# --- one type -------------------------------------------------------------------------------------

_PLAIN: Final = frozenset({"int", "float", "bool", "str", "any"})
"""Core schema types that mean the same for a JSON value and for the Python value it became."""


class TypeForm:
    """A type, ready to validate, to dump, and to describe itself.

    Args:
        annotation: Anything pydantic can express.

    Raises:
        pydantic.errors.PydanticUserError: It cannot.
    """

    def __init__(self, annotation: Any) -> None:
        config = pydantic.ConfigDict(
            allow_inf_nan=False, ser_json_bytes="base64", val_json_bytes="base64"
        )
        try:
            self.adapter: pydantic.TypeAdapter[Any] = pydantic.TypeAdapter(
                annotation, config=config
            )
        except pydantic.PydanticUserError as error:
            if error.code != "type-adapter-config-unused":
                raise
            self.adapter = pydantic.TypeAdapter(annotation)  # a model has its own configuration
        self.validator = self.adapter.validator
        kind = self.adapter.core_schema.get("type")
        self._plain = kind in _PLAIN and kind != "any"
        self.validate: Callable[[Any], Any] = (
            self.validator.validate_python if kind in _PLAIN else self._validate_json
        )
        self._schemas: dict[Mode, JsonSchema] = {}

    def _validate_json(self, value: Any) -> Any:
        # What arrived is JSON, and JSON mode is what reads dates, bytes, sets and tuples from it.
        return self.validator.validate_json(to_json(value))

    def dump(self, value: Any) -> bytes:
        """The JSON text of a value, checked against the type.

        Raises:
            pydantic_core.ValidationError: The value does not fit.
            pydantic_core.PydanticSerializationError: Something inside it does not.
        """
        if self._plain:
            return to_json(self.validator.validate_python(value))
        checked = self.validator.validate_python(value, from_attributes=True)
        serializer = self.adapter.serializer
        text = serializer.to_json(checked, by_alias=True, warnings="error")
        # Inside models and `Any`, NaN and infinities would silently become null.
        if b"null" in text and self._has_floats and not _is_finite(serializer.to_python(checked)):
            raise PydanticSerializationError("NaN and infinities have no JSON")
        return text

    @functools.cached_property
    def _has_floats(self) -> bool:
        return any(map(_allows_floats, every_schema(self.schema("serialization"))))

    def schema(self, mode: Mode) -> JsonSchema:
        """The JSON Schema of the type alone, with ``$defs`` where it has any. Not to be changed."""
        found = self._schemas.get(mode)
        if found is None:
            found = self.adapter.json_schema(mode=mode, schema_generator=_generator())
            self._schemas[mode] = found
        return found


def _allows_floats(schema: JsonSchema) -> bool:
    """Whether a schema, itself and not below, lets a float through."""
    if schema.get("type") == "number" or schema.get("additionalProperties") is True:
        return True
    return _SHAPES.isdisjoint(schema)


_SHAPES: Final = frozenset({"type", "anyOf", "oneOf", "allOf", "$ref", "enum", "const"})


def _is_finite(value: Any) -> bool:
    """Whether a value made of built-in types is free of NaN and infinities."""
    if isinstance(value, float):
        return math.isfinite(value)
    if is_object(value):
        return all(map(_is_finite, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(_is_finite, cast("Iterable[Any]", value)))
    return True


_forms: dict[Any, TypeForm] = {}


def form_of(annotation: Any) -> TypeForm:
    """The form of a type, made once; building a validator is most of the cost of registration."""
    # ``int | str`` equals ``str | int``, but the first that fits wins, so the order matters.
    key = annotation, repr(annotation)
    try:
        found = _forms.get(key)
    except TypeError:  # metadata that cannot be hashed
        return TypeForm(annotation)
    if found is None:
        found = TypeForm(annotation)
        if len(_forms) < 4096:
            _forms[key] = found
    return found


@functools.cache
def _generator() -> Any:
    """The schema generator without the titles that only repeat a name. Made on first use."""
    from pydantic.json_schema import GenerateJsonSchema

    def without_name(schema: Mapping[str, Any], made: JsonSchema) -> JsonSchema:
        cls = schema.get("cls")
        if cls is not None and made.get("title") == getattr(cls, "__name__", None):
            del made["title"]
        return made

    class Untitled(GenerateJsonSchema):
        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

        depth = 0
        """How many models are around what is described at the moment."""

        enum_names: frozenset[str] = frozenset()
        """Of the Enum classes that have been described."""

        def model_schema(self, schema: Any) -> JsonSchema:
            return self._inside(schema, super().model_schema)

        def dataclass_schema(self, schema: Any) -> JsonSchema:
            return self._inside(schema, super().dataclass_schema)

        def typed_dict_schema(self, schema: Any) -> JsonSchema:
            return self._inside(schema, super().typed_dict_schema)

        def _inside(self, schema: Any, describe: Callable[[Any], JsonSchema]) -> JsonSchema:
            self.depth += 1
            try:
                return without_name(schema, describe(schema))
            finally:
                self.depth -= 1

        def p_arguments_schema(self, arguments: Any, var_args_schema: Any) -> JsonSchema:
            made = super().p_arguments_schema(arguments, var_args_schema)
            for argument, each in zip(arguments, made.get("prefixItems", ()), strict=False):
                if each.get("title") == self.get_title_from_name(self.get_argument_name(argument)):
                    del each["title"]
            return made

        def bytes_schema(self, schema: Any) -> JsonSchema:
            made = super().bytes_schema(schema)
            # Models decide on their own encoding; elsewhere it is always base64, though older
            # versions of pydantic do not say so.
            if made.get("format") == "base64url" or self.depth == 0:
                del made["format"]
                # Both alphabets are understood; what is sent has the one for URLs.
                made["contentEncoding"] = "base64" if self.mode == "validation" else "base64url"
            return made

        def tagged_union_schema(self, schema: Any) -> JsonSchema:
            made = super().tagged_union_schema(schema)
            # No word of JSON Schema, and its references would outlive what they refer to.
            made.pop("discriminator", None)
            return made

        def enum_schema(self, schema: Any) -> JsonSchema:
            made = super().enum_schema(schema)
            # The name of an Enum is added after this, so it is only noted here.
            self.enum_names |= {schema["cls"].__name__}
            # An Enum without a docstring of its own inherits one that describes nothing.
            if made.get("description") == "An enumeration.":
                del made["description"]
            return made

        def generate(self, schema: Any, mode: Any = "validation") -> JsonSchema:
            return self._without_enum_names(super().generate(schema, mode))

        def generate_definitions(self, inputs: Any) -> Any:
            schemas, definitions = super().generate_definitions(inputs)
            for each in (*schemas.values(), *definitions.values()):
                self._without_enum_names(each)
            return schemas, definitions

        def _without_enum_names(self, schema: JsonSchema) -> JsonSchema:
            for part in every_schema(schema):
                if "enum" in part and part.get("title") in self.enum_names:
                    del part["title"]
            return schema

    return Untitled


# --- tidying a schema -----------------------------------------------------------------------------

_MAPS: Final = ("properties", "patternProperties", "$defs", "dependentSchemas")
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLES: Final = (
    "items",
    "additionalProperties",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_REF: Final = "#/$defs/"


def subschemas(schema: JsonSchema) -> Iterator[JsonSchema]:
    """The schemas directly inside a schema, wherever 2020-12 allows one."""
    for key in _MAPS:
        named: JsonSchema = schema.get(key) or {}
        yield from filter(is_object, named.values())
    for key in _LISTS:
        listed: list[Any] = schema.get(key) or []
        yield from filter(is_object, listed)
    for key in _SINGLES:
        if key in schema and is_object(schema[key]):
            yield schema[key]


def every_schema(schema: JsonSchema) -> Iterator[JsonSchema]:
    """A schema and all below it."""
    yield schema
    for each in subschemas(schema):
        yield from every_schema(each)


def copy_schema(value: Any) -> Any:
    """A copy that may be changed."""
    if is_object(value):
        return {key: copy_schema(item) for key, item in value.items()}
    if is_array(value):
        return [copy_schema(item) for item in value]
    return value


def optional_instead_of_null(schema: JsonSchema) -> None:
    """``T | None = None`` becomes an optional ``T``: null is accepted, but not advertised."""
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
    """Inline what is referred to once; keep in ``$defs`` what is repeated or recursive.

    A root that is only a reference is replaced by a copy of what it refers to, because ``type``
    must stand at the root of a tool's schema; so is one beside the name of a header, because that
    must stand beside a ``type`` (HDR-2).
    """
    definitions: dict[str, JsonSchema] = schema.pop("$defs", {})
    if not definitions:
        return schema
    recursive = {name for name in definitions if name in _reached(definitions, name)}
    counts: dict[str, int] = dict.fromkeys(definitions, 0)
    for each in [schema, *definitions.values()]:
        for part in every_schema(each):
            name = _target(part)
            if name in counts:
                counts[name] += 1

    def settle(part: JsonSchema, root: bool = False) -> None:
        while (name := _target(part)) in definitions:
            shared = counts[name] > 1 and "x-mcp-header" not in part
            if not root and (shared or name in recursive):
                break
            del part["$ref"]
            for key, value in copy_schema(definitions[name]).items():
                part.setdefault(key, value)
        for inner in subschemas(part):
            settle(inner)

    settle(schema, root=True)
    kept = {
        name: each for name, each in definitions.items() if name in recursive or counts[name] > 1
    }
    for each in kept.values():
        settle(each)
    used: set[str] = set()
    waiting = [schema]
    while waiting:
        for part in every_schema(waiting.pop()):
            name = _target(part)
            if name in kept and name not in used:
                used.add(name)
                waiting.append(kept[name])
    if used:
        schema["$defs"] = {name: each for name, each in kept.items() if name in used}
    return schema


def _target(schema: JsonSchema) -> str:
    """The name in ``$defs`` that a schema refers to, or an empty string."""
    ref = schema.get("$ref")
    return ref[len(_REF) :] if isinstance(ref, str) and ref.startswith(_REF) else ""


def _reached(definitions: Mapping[str, JsonSchema], start: str) -> set[str]:
    """The definitions that one refers to, directly or through others."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for part in every_schema(definitions[waiting.pop()]):
            name = _target(part)
            if name in definitions and name not in seen:
                seen.add(name)
                waiting.append(name)
    return seen


# --- arguments ------------------------------------------------------------------------------------


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

    def __init__(self, parameter: Parameter, where: str) -> None:
        from pydantic.fields import FieldInfo

        annotation, default = parameter.annotation, parameter.default
        self.factory: Callable[[], Any] | None = None
        if isinstance(default, FieldInfo):
            annotation = Annotated[annotation, default]
            self.factory = cast("Callable[[], Any] | None", default.default_factory)
            default = UNSET if default.is_required() or self.factory else default.default
        self.parameter = parameter
        self.name = self.wire_name = parameter.name
        self.described = False
        for each in get_args(annotation)[1:] if get_origin(annotation) is Annotated else ():
            if isinstance(each, FieldInfo):
                alias = each.validation_alias if each.alias is None else each.alias
                self.wire_name = alias if isinstance(alias, str) else self.wire_name
                self.described = self.described or each.description is not None
                if default is UNSET and self.factory is None and not each.is_required():
                    self.factory = cast("Callable[[], Any] | None", each.default_factory)
                    default = UNSET if self.factory else each.default
        self.default = default
        self.required = default is UNSET and self.factory is None
        try:
            self.form = form_of(_without_aliases(annotation))
            self.form.schema("validation")
        except Exception as error:
            raise RegistrationError(
                f"{where}: the parameter {parameter.name} has a type that cannot come from JSON "
                f"({_first_line(error)}); use a model, a dataclass or a built-in type, or let the "
                f"server provide it: Annotated[..., Depends(...)]"
            ) from error

    def accept(self, raw: Any) -> Any:
        """The value of an argument.

        Raises:
            pydantic_core.ValidationError: It does not fit; of the value as it was sent.
        """
        try:
            return self.form.validate(raw)
        except ValidationError:
            # Models often send an array or object as text. Only what has failed is tried again,
            # so a string that is wanted as a string stays one. The arguments of prompts and the
            # variables of templates are always text, also those of ``Literal[1, 2]``.
            if not isinstance(raw, str) or raw.lstrip()[:1] not in _JSON_STARTS:
                raise
            try:
                return self.form.validate(from_json(raw, allow_inf_nan=False))
            except ValueError:
                pass
            raise


_JSON_STARTS: Final = frozenset("[{-0123456789")
"""What an array, an object and a number begin with."""


def _without_aliases(annotation: Any) -> Any:
    """The annotation without the names that pydantic knows only as those of a model's field."""
    from pydantic.fields import FieldInfo

    if get_origin(annotation) is not Annotated:
        return annotation
    metadata = annotation.__metadata__
    if not any(isinstance(each, FieldInfo) and each.validation_alias for each in metadata):
        return annotation
    made = annotation.__origin__
    for each in metadata:
        if isinstance(each, FieldInfo):
            each = copy.copy(each)
            each.alias = each.validation_alias = each.serialization_alias = None
        made = Annotated[made, each]
    return made


class Arguments:
    """What a function takes from the client.

    Args:
        signature: Its injected parameters are passed over.

    Raises:
        RegistrationError: A type cannot come from JSON, or has no JSON Schema.
    """

    __slots__ = ("_by_wire_name", "_fields", "_where", "fields")

    def __init__(self, signature: Signature) -> None:
        self._where = f"{signature.where}: {signature.name}()"
        self.fields = [Field(each, self._where) for each in signature.arguments]
        self._fields = [
            (each.wire_name, each.name, each.accept, each.required, each) for each in self.fields
        ]
        self._by_wire_name = {each.wire_name: each for each in self.fields}

    def validate(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """The keyword arguments for the function. Those left out keep their Python defaults.

        Raises:
            InvalidArguments: With every problem, not just the first.
        """
        values: dict[str, Any] = {}
        problems: list[str] | None = None
        known = 0
        for wire_name, name, accept, required, field in self._fields:
            if wire_name in raw:
                known += 1
                try:
                    values[name] = accept(raw[wire_name])
                except ValidationError as error:
                    problems = problems or []
                    problems += explain(error, raw[wire_name], wire_name)
            elif required:
                problems = problems or []
                problems.append(f"{wire_name}: required, but missing")
            elif field.factory is not None:
                values[name] = field.factory()
            elif field.default is not field.parameter.default:
                values[name] = field.default
        if known != len(raw):
            problems = problems or []
            problems += [self._unknown(name) for name in raw if name not in self._by_wire_name]
        if problems:
            raise InvalidArguments(problems)
        return values

    def _unknown(self, name: str) -> str:
        import difflib  # only for those who get it wrong

        close = difflib.get_close_matches(name, self._by_wire_name, n=1)
        if close:
            return f'{name}: unknown argument; did you mean "{close[0]}"?'
        known = ", ".join(self._by_wire_name) or "none"
        return f"{name}: unknown argument; known: {known}"

    def schema(self) -> JsonSchema:
        """The JSON Schema of the arguments: an object, without ``title`` noise.

        Raises:
            RegistrationError: A type has no JSON Schema.
        """
        properties: dict[str, JsonSchema] = {}
        definitions: dict[str, JsonSchema] = {}
        for field, described in zip(self.fields, self._described(definitions), strict=True):
            schema = dict(described)
            if field.parameter.description and not field.described:
                schema["description"] = field.parameter.description
            if not field.required and "default" not in schema:
                self._default(field, schema)
            properties[field.wire_name] = schema
        root: JsonSchema = {"type": "object", "properties": properties}
        required = [field.wire_name for field in self.fields if field.required]
        if required:
            root["required"] = required
        if not properties:
            del root["properties"]
        root["additionalProperties"] = False
        if definitions:
            root["$defs"] = definitions
            root = settle_references(root)
        for part in every_schema(root):
            optional_instead_of_null(part)
        return root

    def _described(self, definitions: dict[str, JsonSchema]) -> list[JsonSchema]:
        """The schema of each field; shared definitions are gathered in `definitions`."""
        try:
            alone = [field.form.schema("validation") for field in self.fields]
            if not any("$defs" in schema for schema in alone):
                return [copy_schema(schema) for schema in alone]
            together, shared = pydantic.TypeAdapter.json_schemas(
                [(field.wire_name, "validation", field.form.adapter) for field in self.fields],
                schema_generator=_generator(),
            )
        except Exception as error:
            raise RegistrationError(
                f"{self._where}: a parameter has no JSON Schema: {_first_line(error)}"
            ) from error
        definitions.update(shared.get("$defs", {}))
        return [together[field.wire_name, "validation"] for field in self.fields]

    @staticmethod
    def _default(field: Field, schema: JsonSchema) -> None:
        if field.factory is not None:
            return
        try:
            shown = field.form.adapter.dump_python(
                field.default, mode="json", by_alias=True, warnings="error"
            )
        except (PydanticSerializationError, ValueError):
            return  # a default that JSON cannot show is still a default
        if _is_finite(shown):
            schema["default"] = shown


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


# --- problems, for a model to read ----------------------------------------------------------------

_EXPECTED: Final[dict[str, str]] = {
    "int_type": "an integer",
    "int_parsing": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a string",
    "list_type": "an array",
    "tuple_type": "an array",
    "set_type": "an array",
    "frozen_set_type": "an array",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dataclass_type": "an object",
    "none_required": "null",
    "date_type": "a date (YYYY-MM-DD)",
    "date_parsing": "a date (YYYY-MM-DD)",
    "date_from_datetime_parsing": "a date (YYYY-MM-DD)",
    "date_from_datetime_inexact": "a date (YYYY-MM-DD)",
    "datetime_type": "a date and time (ISO 8601)",
    "datetime_parsing": "a date and time (ISO 8601)",
    "datetime_from_date_parsing": "a date and time (ISO 8601)",
    "time_type": "a time (HH:MM:SS)",
    "time_parsing": "a time (HH:MM:SS)",
    "time_delta_type": "a duration (ISO 8601)",
    "time_delta_parsing": "a duration (ISO 8601)",
    "uuid_type": "a UUID",
    "uuid_parsing": "a UUID",
    "decimal_type": "a decimal number",
    "decimal_parsing": "a decimal number",
    "bytes_type": "base64",
    "bytes_invalid_encoding": "base64",
    "path_type": "a path",
    "url_type": "a URL",
    "url_parsing": "a URL",
}

_SHOULD: Final = re.compile(r"^[A-Z][\w ]*? should (be |have )?")


def _to_expected(match: re.Match[str]) -> str:
    return "" if match[1] else "to "


def explain(error: ValidationError, raw: Any, name: str) -> list[str]:
    """The problems of one argument, a line for each place: ``path: expected …, got …``."""
    lines: dict[str, list[str]] = {}
    got: dict[str, str] = {}
    for problem in error.errors(include_url=False, include_context=True, include_input=True):
        path, value = _locate(problem["loc"], raw, name)
        kind = problem["type"]
        if kind == "missing":
            last = problem["loc"][-1]
            key = f"{path}[{last}]" if isinstance(last, int) else f"{path}.{last}"
            lines.setdefault(key, []).append("required, but missing")
        elif kind == "union_tag_not_found" and (tag := _quoted(problem)):
            lines.setdefault(f"{path}.{tag}", []).append("required, but missing")
        elif kind == "union_tag_invalid" and (tag := _quoted(problem)):
            key = f"{path}.{tag}"
            wanted = problem.get("ctx", {}).get("expected_tags", "").replace(", ", " or ")
            lines.setdefault(key, []).append(wanted)
            got[key] = shorten(value.get(tag) if is_object(value) else value)
        elif kind == "extra_forbidden":
            lines.setdefault(path, []).append("unknown member")
        elif kind in _EXPECTED or _SHOULD.match(problem["msg"]):
            wanted = _EXPECTED.get(kind) or _SHOULD.sub(_to_expected, problem["msg"])
            lines.setdefault(path, []).append(wanted)
            got[path] = shorten(value)
        else:
            lines.setdefault(path, []).append(problem["msg"].removeprefix("Value error, "))
    made: list[str] = []
    for path, found in lines.items():
        unique = list(dict.fromkeys(found))
        text = " or ".join(unique)
        made.append(
            f"{path}: expected {text}, got {got[path]}" if path in got else f"{path}: {text}"
        )
    return made


def _quoted(problem: Any) -> str:
    """The member that tells the types of a union apart, or an empty string."""
    found = re.fullmatch(r"'([^']+)'", str(problem.get("ctx", {}).get("discriminator", "")))
    return found[1] if found else ""


def _locate(loc: tuple[int | str, ...], raw: Any, name: str) -> tuple[str, Any]:
    """The path of a problem in what was sent; labels of union members are not part of it."""
    path, value = name, raw
    for step in loc:
        if isinstance(step, int) and is_array(value):
            if step < len(value):
                path, value = f"{path}[{step}]", value[step]
        elif isinstance(step, str) and is_object(value) and step in value:
            path, value = f"{path}.{step}", value[step]
    if loc[-1:] == ("[key]",):
        value = loc[-2]
    return path, value


def shorten(value: Any, limit: int = 60) -> str:
    """A JSON value as compact text, cut to a readable length."""
    text = to_json(value, fallback=str).decode()
    return text if len(text) <= limit else text[: limit - 1] + "…"


# --- results --------------------------------------------------------------------------------------

_BLOCK_TYPES: Final = (TextContent, ImageContent, AudioContent, EmbeddedResource, ResourceLink)
_CONTENT_TYPES: Final = (
    *_BLOCK_TYPES,
    Media,
    ToolResult,
    PromptResult,
    ResourceResult,
    Message,
    TextResourceContents,
    BlobResourceContents,
)
_UNSTRUCTURED: Final = (str, bytes, bytearray, type(None))


@dataclass(slots=True)
class Rendered:
    """A tool's result, ready for any revision.

    Args:
        content: The blocks for the model; a string stands for one block of text.
        structured: The JSON text of the structured content; None if there is none.
        is_error: Whether it reports a failure.
        meta: The result's ``_meta``.
    """

    content: Sequence[ContentBlock] | str
    structured: bytes | None = None
    is_error: bool = False
    meta: dict[str, Any] | None = None


class OutputMismatch(Exception):
    """A handler returned something that its own return annotation does not allow."""


class Output:
    """How the result of a tool leaves: as content, and as structured content if its type says so.

    Args:
        signature: For its return annotation.
        structured: True or False force or forbid structured content; None decides by the type:
            everything but text, nothing, and content blocks is structured.

    Raises:
        RegistrationError: The return type cannot be serialised or described.
    """

    __slots__ = ("_form", "is_object", "schema", "wrapped_schema")

    _WRAPPER: ClassVar = "result"

    def __init__(self, signature: Signature, structured: bool | None) -> None:
        self._form: TypeForm | None = None
        self.schema: JsonSchema | None = None
        self.wrapped_schema: JsonSchema | None = None
        self.is_object = False
        annotation = signature.returns
        if structured is False:
            return
        if structured is None and not is_structured(annotation):
            return
        where = f"{signature.where}: {signature.name}()"
        if annotation is UNSET:
            raise RegistrationError(f"{where}: structured output needs a return annotation")
        try:
            self._form = form_of(annotation)
            schema = settle_references(copy_schema(self._form.schema("serialization")))
        except Exception as error:
            raise RegistrationError(
                f"{where}: the return type cannot become JSON ({_first_line(error)}); return a "
                f"model, a dataclass or built-in types, or pass structured_output=False"
            ) from error
        self.schema = schema
        self.is_object = schema.get("type") == "object"
        if not self.is_object:
            inner = dict(schema)
            definitions = inner.pop("$defs", None)
            self.wrapped_schema = {
                "type": "object",
                "properties": {self._WRAPPER: inner},
                "required": [self._WRAPPER],
            }
            if definitions:
                self.wrapped_schema["$defs"] = definitions

    def render(self, value: Any) -> Rendered:
        """The result to send for what the function returned.

        Raises:
            OutputMismatch: It does not fit the return annotation, or cannot be serialised.
        """
        if type(value) is ToolResult:
            return self._whole(value)
        if self._form is None:
            return Rendered(value if type(value) is str else blocks_of(value))
        text = self._dump(value)
        return Rendered(_readable(text), text)

    def _whole(self, value: ToolResult) -> Rendered:
        structured = None
        if value.structured_content is not UNSET:
            if self._form is not None and not value.is_error:
                structured = self._dump(value.structured_content)
            else:
                structured = _any_json(value.structured_content)
        elif self._form is not None and not value.is_error:
            raise OutputMismatch(
                "a ToolResult without structured_content, which the schema promises"
            )
        content: Any = value.content
        blocks = blocks_of(content) if content != [] else []
        if not blocks and structured is not None:
            blocks = [TextContent(_readable(structured))]
        return Rendered(blocks, structured, value.is_error, value.meta)

    def _dump(self, value: Any) -> bytes:
        assert self._form is not None
        try:
            return self._form.dump(value)
        except (ValidationError, PydanticSerializationError) as error:
            raise OutputMismatch(str(error)) from error


def is_structured(annotation: Any) -> bool:
    """Whether a return annotation promises data rather than text or content."""
    annotation = _plainly(annotation)
    if annotation in (UNSET, Any, object, None) or annotation in _UNSTRUCTURED:
        return False
    if get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [_plainly(part) for part in get_args(annotation)]
        if all(part in _UNSTRUCTURED for part in parts):
            return False
    return not _mentions_content(annotation, [])


def _plainly(annotation: Any) -> Any:
    """What an alias, an ``Annotated`` or a ``NewType`` stands for."""
    while True:
        plain = unalias(annotation)
        if get_origin(plain) is Annotated:
            plain = get_args(plain)[0]
        plain = getattr(plain, "__supertype__", plain)
        if plain is annotation:
            return plain
        annotation = plain


def _mentions_content(annotation: Any, seen: list[Any]) -> bool:
    plain = _plainly(annotation)
    if isinstance(plain, type) and issubclass(plain, _CONTENT_TYPES):
        return True
    if plain in seen:  # a recursive alias
        return False
    return any(_mentions_content(part, [*seen, plain]) for part in get_args(plain))


def _readable(json_text: bytes) -> str:
    """JSON text for a model to read: a lone string without its quotes."""
    if json_text[:1] == b'"':
        return str(from_json(json_text))
    return json_text.decode()


def _any_json(value: Any) -> bytes:
    try:
        return to_json(value, by_alias=True, bytes_mode="base64", inf_nan_mode="null")
    except PydanticSerializationError as error:
        raise OutputMismatch(str(error)) from error


def blocks_of(value: Any) -> list[ContentBlock]:
    """Content blocks for whatever a handler returned.

    Text stays text; `Image`, `Audio`, `File` and bytes become blocks; a list that contains any of
    these becomes a block each; everything else becomes its JSON text; None is no block at all.

    Raises:
        OutputMismatch: Something in it cannot be serialised.
    """
    if isinstance(value, (list, tuple)):
        items = cast("Iterable[Any]", value)
        if any(isinstance(item, (*_BLOCK_TYPES, Media, bytes)) for item in items):
            return [block_of(item) for item in items]
    return [] if value is None else [block_of(value)]


def block_of(value: Any) -> ContentBlock:
    """One content block for one value.

    Raises:
        OutputMismatch: It cannot be serialised.
    """
    if isinstance(value, str):
        return TextContent(value)
    if isinstance(value, _BLOCK_TYPES):
        return value
    if isinstance(value, Media):
        return value.block()
    if isinstance(value, (TextResourceContents, BlobResourceContents)):
        return EmbeddedResource(value)
    if is_binary(value):
        return _block_of_bytes(bytes(value))
    return TextContent(_readable(_any_json(value)))


def _block_of_bytes(data: bytes) -> ContentBlock:
    mime_type = sniff(data) or "application/octet-stream"
    if mime_type.startswith("image/"):
        return ImageContent(data, mime_type)
    if mime_type.startswith("audio/"):
        return AudioContent(data, mime_type)
    return EmbeddedResource(BlobResourceContents("data:,", data, mime_type=mime_type))
