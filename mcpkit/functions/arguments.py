"""The arguments of a function: parameters → JSON Schema, JSON → values, and what was wrong.

Made once for a function, at registration.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, cast, get_args, get_origin

import pydantic
from pydantic_core import PydanticSerializationError, ValidationError, from_json, to_json

from mcpkit._json_schema import JsonSchema, copy_schema, every_schema
from mcpkit.errors import InvalidArguments, RegistrationError
from mcpkit.functions.schema import (
    first_line,
    form_of,
    is_finite,
    optional_instead_of_null,
    schema_generator,
    settle_references,
)
from mcpkit.functions.signature import Parameter, Signature
from mcpkit.types import UNSET, is_array, is_object

__all__ = ["Arguments", "Field", "explain", "shorten"]


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
                f"({first_line(error)}); use a model, a dataclass or a built-in type, or let the "
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
                schema_generator=schema_generator(),
            )
        except Exception as error:
            raise RegistrationError(
                f"{self._where}: a parameter has no JSON Schema: {first_line(error)}"
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
        if is_finite(shown):
            schema["default"] = shown


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
