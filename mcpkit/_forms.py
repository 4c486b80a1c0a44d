"""Forms: Python types → the restricted schemas that a client can show, answers → values.

A requested schema is a flat object of strings, numbers, booleans and choices (PROTOCOL: section
"elicitation/create"). What a revision cannot show is left out where that is safe, and refused where
it is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, cast

from pydantic_core import ValidationError
from typing_extensions import TypeVar

from mcpkit._protocol.revisions import Revision
from mcpkit._signature.schema import TypeForm, form_of, optional_instead_of_null, settle_references
from mcpkit._signature.validation import explain
from mcpkit._utils.json import JsonSchema, copy_schema, every_schema, is_object
from mcpkit._utils.text import summarize
from mcpkit.errors import ElicitationError, InvalidInputResponse

__all__ = ["Choices", "Form"]

T = TypeVar("T", default=Any)


@dataclass(slots=True)
class Choices:
    """A choice among values, for `Context.elicit` or as metadata of a field.

    ``ctx.elicit("Where?", Choices({"lis": "Lisbon", "osl": "Oslo"}))``
    ``city: Annotated[str, Choices(["Lisbon", "Oslo"])]``

    Args:
        values: The values, or values with the titles that the user sees.
        multiple: Whether several may be chosen (2025-11-25 and later); the answer is a list.
        least, most: How many.
    """

    values: Sequence[str] | Mapping[str, str]
    multiple: bool = False
    least: int | None = None
    most: int | None = None

    def annotation(self) -> Any:
        """The type of the answer."""
        one: Any = Literal[tuple(self.values)]
        return list[one] if self.multiple else one

    def schema(self) -> JsonSchema:
        """The requested schema of the answer, in the richest dialect."""
        if isinstance(self.values, Mapping):
            titled = [{"const": value, "title": title} for value, title in self.values.items()]
            one: JsonSchema = {"type": "string", "oneOf": titled}
            many: JsonSchema = {"anyOf": titled}
        else:
            one = {"type": "string", "enum": list(self.values)}
            many = one
        if not self.multiple:
            return one
        schema: JsonSchema = {"type": "array", "items": many}
        if self.least is not None:
            schema["minItems"] = self.least
        if self.most is not None:
            schema["maxItems"] = self.most
        return schema


_LONE: Final = "value"
"""The field that carries an answer which is no object."""

_SHARED: Final = ("title", "description", "default")
_KEPT: Final[dict[str, tuple[str, ...]]] = {
    "string": (*_SHARED, "type", "minLength", "maxLength", "format"),
    "integer": (*_SHARED, "type", "minimum", "maximum"),
    "number": (*_SHARED, "type", "minimum", "maximum"),
    "boolean": (*_SHARED, "type"),
}
_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})


class Form(Generic[T]):
    """A question's fields: what is requested of each revision, and how an answer is read.

    Args:
        wanted: A model, dataclass or TypedDict with flat fields; a scalar type, Literal or Enum; a
            list of choices, a mapping of choices to titles, or `Choices`; None for a confirmation.

    Raises:
        ElicitationError: A field does not fit into a form.
    """

    __slots__ = ("_form", "_lone", "_properties", "_required")

    def __init__(self, wanted: Any) -> None:
        self._lone = False
        self._form: TypeForm | None = None
        self._properties: dict[str, JsonSchema] = {}
        self._required: list[str] = []
        if wanted is None or wanted is type(None):
            return
        choices = _as_choices(wanted)
        annotation = wanted if choices is None else choices.annotation()
        try:
            self._form = form_of(annotation)
            schema = settle_references(copy_schema(self._form.schema("validation")))
        except Exception as error:
            raise ElicitationError(f"{wanted!r} cannot be asked for: {error}") from error
        if choices is not None:
            schema = choices.schema()
        if "$defs" in schema:
            raise ElicitationError("a form is flat: a field cannot refer to its own type")
        for part in every_schema(schema):
            optional_instead_of_null(part)
        if schema.get("type") == "object" and "properties" in schema:
            self._properties = schema["properties"]
            self._required = schema.get("required", [])
        else:
            self._lone = True
            self._properties = {_LONE: schema}
            self._required = [_LONE]
        markers = _choices_of_fields(annotation)
        for name, field in self._properties.items():
            if name in markers:
                field.update(markers[name].schema())
                if "oneOf" in field:
                    field.pop("enum", None)
            _check(name, field)

    def requested(self, revision: Revision) -> JsonSchema:
        """The ``requestedSchema`` in the dialect of a revision (ELIC-11).

        Raises:
            ElicitationError: The revision cannot show a field that must be answered.
        """
        properties: dict[str, JsonSchema] = {}
        for name, field in self._properties.items():
            shown = _shown(field, revision)
            if shown is not None:
                properties[name] = shown
            elif name in self._required:
                raise ElicitationError(
                    f"{name}: revision {revision.version} has no choice of several values; "
                    f"give the field a default, or ask for one value"
                )
        schema: JsonSchema = {"type": "object", "properties": properties}
        if self._required:
            schema["required"] = self._required
        return schema

    def read(self, content: Mapping[str, Any] | None) -> Any:
        """The value of an accepted answer.

        Raises:
            InvalidInputResponse: It does not fit; says where.
        """
        if self._form is None:
            return None
        value: Any = content
        if not is_object(content):
            raise InvalidInputResponse("the answer has no content")
        if self._lone:
            if _LONE not in content:
                raise InvalidInputResponse(f"{_LONE}: required, but missing")
            value = content[_LONE]
        for name, field in self._properties.items():
            if name in content and not _has_type(content[name], field["type"]):
                raise InvalidInputResponse(
                    f"{name}: expected {field['type']}, got {summarize(content[name])}"
                )
        try:
            return self._form.validate(value)
        except ValidationError as error:
            raise InvalidInputResponse("; ".join(explain(error, value, "answer"))) from error


def _has_type(value: Any, kind: str) -> bool:
    """Return True if an answer has the requested type; `Form.read` is more lenient (ELIC-4)."""
    if value is None:
        return True  # for the type to judge: some clients send null for a field left empty
    if kind == "integer":
        return _is_number(value) and value == value // 1
    if kind == "number":
        return _is_number(value)
    return isinstance(value, {"string": str, "boolean": bool, "array": list}[kind])


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _as_choices(wanted: Any) -> Choices | None:
    if isinstance(wanted, Choices):
        return wanted
    if isinstance(wanted, (list, tuple, Mapping)):
        return Choices(cast("Sequence[str] | Mapping[str, str]", wanted))
    return None


def _choices_of_fields(annotation: Any) -> dict[str, Choices]:
    """The `Choices` in the metadata of a model's fields, by the names that a form shows."""
    from typing_extensions import get_type_hints

    if not isinstance(annotation, type):
        return {}
    try:
        hints = get_type_hints(annotation, include_extras=True)
    except (TypeError, NameError):
        return {}
    found: dict[str, Choices] = {}
    model_fields: Mapping[str, Any] = getattr(annotation, "model_fields", {})
    for name, hint in hints.items():
        alias = getattr(model_fields.get(name), "validation_alias", None)
        for each in getattr(hint, "__metadata__", ()):
            if isinstance(each, Choices):
                found[alias if isinstance(alias, str) else name] = each
    return found


def _check(name: str, field: JsonSchema) -> None:
    """Refuse what no form can show, and leave out constraints that only the answer is held to."""
    kind = field.get("type")
    if kind == "array":
        items = field.get("items", {})
        if is_object(items) and "const" in items and "enum" not in items:
            items["enum"] = [items.pop("const")]
        if not is_object(items) or not ({"enum", "anyOf", "oneOf"} & items.keys()):
            raise ElicitationError(f"{name}: a form has lists of choices only, list[Literal[...]]")
        if "oneOf" in items:
            items["anyOf"] = items.pop("oneOf")
        if "anyOf" in items:
            items.pop("type", None)
            items.pop("enum", None)
        _keep(field, (*_SHARED, "type", "items", "minItems", "maxItems"))
        return
    if "const" in field and "enum" not in field:
        field["enum"] = [field.pop("const")]
    if "enum" in field or "oneOf" in field:
        values = field.get("enum") or [each.get("const") for each in field["oneOf"]]
        if not all(isinstance(value, str) for value in values):
            raise ElicitationError(f"{name}: the values of a choice must be strings")
        field["type"] = "string"
        _keep(field, (*_SHARED, "type", "enum", "oneOf", "enumNames"))
        return
    if not isinstance(kind, str) or kind not in _KEPT:
        raise ElicitationError(
            f"{name}: a form has strings, numbers, booleans, dates and choices, nothing nested"
        )
    _keep(field, _KEPT[kind])
    if field.get("format") not in _FORMATS:
        field.pop("format", None)


def _keep(field: JsonSchema, names: tuple[str, ...]) -> None:
    for name in [each for each in field if each not in names]:
        del field[name]


def _shown(field: JsonSchema, revision: Revision) -> JsonSchema | None:
    """A field as a revision shows it; None if it cannot."""
    if revision.elicitation_rich:
        return field
    if field["type"] == "array":
        return None
    shown = dict(field)
    if field["type"] != "boolean":
        shown.pop("default", None)
    titled = shown.pop("oneOf", None)
    if titled is not None:
        shown["enum"] = [each["const"] for each in titled]
        shown["enumNames"] = [each["title"] for each in titled]
    return shown
