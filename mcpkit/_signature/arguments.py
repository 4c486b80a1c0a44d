"""The arguments of a function: parameters → JSON Schema, JSON → values.

Prepared once for a function, at registration.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from types import UnionType
from typing import Annotated, Any, Final, Protocol, Union, cast, get_args, get_origin

import pydantic
from pydantic_core import ValidationError, from_json

from mcpkit._signature.forms import ANNOTATED
from mcpkit._signature.schema import (
    PydanticForm,
    form_of,
    optional_instead_of_null,
    reason_in,
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
)
from mcpkit.errors import InvalidArguments, RegistrationError

_BUFFERS: Final = (bytearray, memoryview)
"""Types that JSON has no values of."""


class Takes(Protocol):
    """What an entry takes from its client: of a function, its `Arguments`."""

    @property
    def fields(self) -> Sequence[Any]:
        """The arguments, each with ``name``, ``wire_name``, ``required``, ``default``, ``mark``."""
        ...

    def schema(self) -> JsonSchema:
        """Return the schema of all arguments."""
        ...

    def validate(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments as the plan of the entry takes them; raises `InvalidArguments`."""
        ...


class Field:
    """One argument: its name on the wire, its type and its default."""

    def __init__(self, parameter: Parameter, signature: Signature) -> None:
        self.parameter = parameter
        self.name = self.wire_name = parameter.name
        self.mark = parameter.mark
        self.described = False
        self.default = parameter.default
        self.factory: Callable[[], Any] | None = None
        annotation = parameter.annotation
        if type(annotation) is not type or type(self.default) not in _ORDINARY:
            annotation = self._read_fields(annotation)
            if self.factory is None and not _is_hashable(self.default):
                self._take_copies(self.default)
        self.required = self.default is UNSET and self.factory is None
        try:
            self.form = form_of(_without_buffers(annotation))
            self.form.schema("validation")
        except Exception as error:
            raise RegistrationError(
                f"{signature.place}: the parameter {parameter.name} has a type that cannot come "
                f"from JSON ({reason_in(error)}); use a model, a dataclass or a built-in type, or "
                f"let the server provide it: Annotated[..., Depends(...)]"
            ) from error

    def _read_fields(self, annotation: Any) -> Any:
        """Read the names and the default in ``Field(...)``; return the annotation without names."""
        module = sys.modules.get("pydantic.fields")
        if module is None:
            return annotation  # without the module there are no fields
        field_info: type[Any] = module.FieldInfo
        if isinstance(self.default, field_info):
            field, self.default = self.default, UNSET
            annotation = Annotated[annotation, field]
            self._take_default(field)
        if type(annotation) is not ANNOTATED:
            return annotation
        parts = [annotation.__origin__, *annotation.__metadata__]
        has_names = False
        for place, each in enumerate(parts):
            if not isinstance(each, field_info):
                continue
            self._take_default(each)
            self.described = self.described or each.description is not None
            alias = each.validation_alias if each.alias is None else each.alias
            self.wire_name = alias if isinstance(alias, str) else self.wire_name
            if each.validation_alias:  # only fields of models can have aliases
                has_names = True
                parts[place] = field = copy.copy(each)
                field.alias = field.validation_alias = field.serialization_alias = None
        generic: Any = Annotated
        return generic[tuple(parts)] if has_names else annotation

    def _take_default(self, field: Any) -> None:
        if self.default is UNSET and self.factory is None and not field.is_required():
            self.factory = field.default_factory
            self.default = UNSET if self.factory else field.default
            if self.factory is None and type(self.default) not in _ORDINARY:
                self._take_copies(self.default)

    def _take_copies(self, default: Any) -> None:
        """Give each call a copy of a default that it may change, as models do."""
        with suppress(Exception):
            copy.deepcopy(default)
            self.factory = functools.partial(copy.deepcopy, default)


def _without_buffers(annotation: Any) -> Any:
    """Return a type without the members of a union that JSON has no values of.

    Text that happens to be Base64 must stay text, so ``bytes`` beside ``str`` has none either.
    """
    parts: tuple[Any, ...] = get_args(annotation)
    if type(annotation) is ANNOTATED:
        parts = (_without_buffers(parts[0]), *parts[1:])
        return cast("Any", Annotated)[parts]
    excluded = (*_BUFFERS, bytes) if str in parts else _BUFFERS
    kept = tuple(each for each in parts if each not in excluded)
    is_union = get_origin(annotation) in (Union, UnionType)
    return Union[kept] if is_union and 0 < len(kept) < len(parts) else annotation  # noqa: UP007


def _is_hashable(value: object) -> bool:
    """Return False for a value that may change, such as a list; True for a sentinel."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


class Texts:
    """Parses strings that contain JSON, with a limit for each call.

    Models often send an array or an object as text. Only arguments that fail validation are parsed,
    so a string for a string parameter is never changed. Arguments of prompts and variables of
    templates are always text, also those of ``Literal[1, 2]``.
    """

    def __init__(self) -> None:
        self._values = MAX_JSON_VALUES

    def parsed(self, raw: Any) -> Any:
        """Return the JSON value in a string; raises `ValueError` if there is none."""
        first = raw.lstrip()[:1] if isinstance(raw, str) else ""
        if first in ("[", "{"):
            if self._values <= 0 or len(raw) > MAX_JSON_LENGTH:
                raise ValueError("too long")
            written = raw.encode()
            self._values -= count_values(written, self._values)
            if self._values < 0 or excess_of_digits(written):
                raise ValueError("too much")
        elif first not in _NUMBER_STARTS or len(raw) > _MAX_NUMBER:
            raise ValueError("neither an array, nor an object, nor a number")
        return from_json(raw, allow_inf_nan=False)


_NUMBER_STARTS: Final = frozenset("-0123456789")
_MAX_NUMBER: Final = 5000


_ORDINARY: Final = frozenset({bool, float, int, str, type(None), type(UNSET)})
"""The classes of immutable defaults."""


class Arguments:
    """The arguments that a function takes from the client.

    Raises:
        RegistrationError: A type cannot come from JSON, or has no JSON Schema.
    """

    def __init__(self, signature: Signature) -> None:
        self._signature = signature
        self.fields = [Field(each, signature) for each in signature.arguments]

    @functools.cached_property
    def _checks(self) -> list[tuple[str, str, Callable[[Any], Any], Field]]:
        """The name on the wire, the name in Python, the validator, and the field."""
        return [(each.wire_name, each.name, each.form.validate, each) for each in self.fields]

    def validate(self, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keyword arguments for the function, without those that keep their defaults.

        Raises:
            InvalidArguments: With the first problems, not just one.
        """
        values: dict[str, Any] = {}
        problems: Problems | None = None
        texts: Texts | None = None
        known = 0
        for wire_name, name, check, field in self._checks:
            if wire_name in raw:
                known += 1
                try:
                    values[name] = check(raw[wire_name])
                except (ValidationError, RecursionError) as first:
                    error, texts, value = first, texts or Texts(), raw[wire_name]
                    try:
                        value = texts.parsed(value)
                        values[name] = check(value)
                    except (ValueError, RecursionError) as last:
                        if not isinstance(value, (dict, list)):
                            value = raw[wire_name]
                        elif isinstance(last, (ValidationError, RecursionError)):
                            error = last  # what is wrong inside of the text
                        if isinstance(error, RecursionError):
                            error = too_deep(value)
                        problems = problems or Problems()
                        problems.explain(error, value, wire_name)
            elif field.required:
                problems = problems or Problems()
                problems.add(wire_name, "required, but missing")
            elif field.factory is not None:
                values[name] = field.factory()
            elif field.default is not field.parameter.default:
                values[name] = field.default
        if known != len(raw):
            names = dict.fromkeys(field.wire_name for field in self.fields)
            unknown = dict.fromkeys(name for name in raw if name not in names)
            for mark, added in HOST_ARGUMENTS.items():
                for name in added if mark in unknown else ():
                    unknown.pop(name, None)
            if unknown:
                problems = problems or Problems()
                problems.add_unknown([*unknown], [*names])
        if problems is not None:
            raise InvalidArguments(problems.lines())
        return values

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
                if "default" not in schema and field.default is not UNSET:
                    with suppress(ValueError):  # JSON cannot represent it, or it is not accepted
                        shown = field.form.shown(field.default)
                        if field.form.is_built_in:  # else that might call functions of the author
                            field.form.validate(shown)
                        schema["default"] = shown
                optional_instead_of_null(schema)
            has_models = has_models or not field.form.is_built_in
            properties[field.wire_name] = schema
        # Even if empty: some clients require it.
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
        """Return the schema of each field, and add shared ones to `definitions`."""
        schemas = [field.form.schema("validation") for field in self.fields]
        if not any("$defs" in schema for schema in schemas):
            return schemas
        forms = {at: each.form for at, each in enumerate(self.fields)}
        dependent = {at: each for at, each in forms.items() if isinstance(each, PydanticForm)}
        try:
            together, shared = pydantic.TypeAdapter.json_schemas(
                [(at, "validation", each.adapter) for at, each in dependent.items()],
                schema_generator=schema_generator(),
            )
        except Exception as error:
            raise RegistrationError(
                f"{self._signature.place}: a parameter has no JSON Schema: {reason_in(error)}"
            ) from error
        definitions.update(shared.get("$defs", {}))
        for at in dependent:
            schemas[at] = together[at, "validation"]
        return schemas


# --- arguments that hosts add ---------------------------------------------------------------------

HOST_ARGUMENTS: Final[Mapping[str, Set[str]]] = {
    # Gemini CLI: packages/core/src/tools/tools.ts
    "wait_for_previous": {"wait_for_previous"},
    # n8n: https://github.com/n8n-io/n8n/issues/21716, mpeirone/zabbix-mcp-server/pull/27
    "toolCallId": {"toolCallId", "sessionId", "chatInput", "action", "tool"},
}
"""The arguments that hosts add to every call, by the one that is always among them.

They are dropped unless the function has them.
"""
