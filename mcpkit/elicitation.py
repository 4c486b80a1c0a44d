"""Elicitation: a form for the user to fill in, or a URL to open; and the answers.

A requested schema is a flat object of strings, numbers, booleans and choices. What a revision
cannot show is omitted where that is safe, and refused where it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, Literal, NoReturn, TypeAlias, cast

from pydantic_core import ValidationError
from typing_extensions import TypeVar

from mcpkit._protocol.input_request import InputRequest, digest
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import ClientProfile, Revision
from mcpkit._protocol.wire import some
from mcpkit._signature.schema import TypeForm, form_of, optional_instead_of_null, settle_references
from mcpkit._signature.validation import explain
from mcpkit._utils.json import UNSET, JsonSchema, copy_schema, every_schema, is_object
from mcpkit._utils.text import quote, summarize
from mcpkit.errors import ElicitationError, InvalidInputResponse, MissingClientCapability, ToolError
from mcpkit.limits import check_several

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

T = TypeVar("T", default=Any)

ChoiceValues: TypeAlias = Sequence[str] | Mapping[str, str]
"""Choices: a list of values, or a mapping of values to the titles that the user sees."""


# --- answers --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Accepted(Generic[T]):
    """The user answered.

    Args:
        data: The validated answer, of the type that was asked for; None for a confirmation.
    """

    data: T
    accepted: Literal[True] = True
    action: Literal["accept"] = "accept"


class _Unanswered:
    __slots__ = ()

    # Pyright does not narrow an answer by whether its `accepted` is true. NoReturn does not add to
    # the type of ``answer.data``, so that this is right anyway.
    @property
    def data(self) -> NoReturn:
        """There is no data; check ``accepted`` first.

        Raises:
            ToolError: Always: the user did not answer.
        """
        did = "declined" if isinstance(self, Declined) else "dismissed the question"
        raise ToolError(f"The user {did}.")


@dataclass(slots=True)
class Declined(_Unanswered):
    """The user said no."""

    accepted: Literal[False] = False
    action: Literal["decline"] = "decline"


@dataclass(slots=True)
class Dismissed(_Unanswered):
    """The user closed the question without an answer (``cancel`` on the wire)."""

    accepted: Literal[False] = False
    action: Literal["cancel"] = "cancel"


Elicitation: TypeAlias = Accepted[T] | Declined | Dismissed
"""The answer that `Context.elicit` returns: check ``accepted`` or ``action``, or ``match`` on the
class."""


def _unaccepted(result: Mapping[str, Any]) -> Declined | Dismissed | None:
    """Return the answer of a result without data; None if the user accepted."""
    action = result.get("action")
    if action not in ("accept", "decline", "cancel"):
        raise InvalidInputResponse(
            f'"action" must be accept, decline or cancel, got {quote(action)}'
        )
    return None if action == "accept" else Declined() if action == "decline" else Dismissed()


# --- forms ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Choices:
    """A choice among values, for `Context.elicit` or as metadata of a field.

    ``ctx.elicit("Where?", Choices({"lis": "Lisbon", "osl": "Oslo"}))``
    ``city: Annotated[str, Choices(["Lisbon", "Oslo"])]``

    Args:
        values: The values, or a mapping of values to the titles that the user sees.
        multiple: True if several may be chosen (2025-11-25 and later); the answer is a list.
        least: The minimum number of chosen values.
        most: The maximum number of chosen values.
    """

    values: ChoiceValues
    multiple: bool = False
    least: int | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        check_several("the values of Choices(...)", self.values)

    def annotation(self) -> Any:
        """Return the type of the answer."""
        one: Any = Literal[tuple(self.values)]
        return Annotated[list[one] if self.multiple else one, self]

    def schema(self) -> JsonSchema:
        """Return the requested schema of the answer, in the dialect of the newest revision."""
        if isinstance(self.values, Mapping):
            titled = [{"const": value, "title": title} for value, title in self.values.items()]
            one: JsonSchema = {"type": "string", "oneOf": titled}
            many: JsonSchema = {"anyOf": titled}
        else:
            one = many = {"type": "string", "enum": list(self.values)}
        if not self.multiple:
            return one
        return {"type": "array", "items": many, **some(minItems=self.least, maxItems=self.most)}

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchema:
        schema = {**handler(core_schema), **self.schema()}
        if "oneOf" in schema:
            schema.pop("enum", None)
        return schema


_LONE: Final = "value"
"""The field of an answer that is not an object."""

_CONFIRM: Final = "confirm"
_CONFIRMATION: Final = {_CONFIRM: {"type": "boolean", "title": "Confirm", "default": True}}
"""The field of a form that has no other, because some clients cannot show a form without fields."""

_SHARED: Final = ("title", "description", "default")
_KEPT: Final[dict[str, tuple[str, ...]]] = {
    "string": (*_SHARED, "type", "minLength", "maxLength", "format"),
    "integer": (*_SHARED, "type", "minimum", "maximum"),
    "number": (*_SHARED, "type", "minimum", "maximum"),
    "boolean": (*_SHARED, "type"),
    "array": (*_SHARED, "type", "items", "minItems", "maxItems"),
    "choice": (*_SHARED, "type", "enum", "oneOf", "enumNames"),
}
"""Kind of field → the members that a form may have."""

_FORMATS: Final = frozenset({"email", "uri", "date", "date-time"})


class Form(Generic[T]):
    """The fields of a form: the schema that each revision requests, and the value of an answer.

    `wanted` is as for `Elicit`; raises `ElicitationError` if a form cannot show one of the fields.
    """

    __slots__ = ("_form", "_lone", "_properties", "_required")

    def __init__(self, wanted: Any) -> None:
        self._lone = False
        self._form: TypeForm | None = None
        self._properties: dict[str, JsonSchema] = {}
        self._required: list[str] = []
        if wanted is None or wanted is type(None):
            return
        if isinstance(wanted, (list, tuple, Mapping)):
            wanted = Choices(cast("ChoiceValues", wanted))
        annotation = wanted.annotation() if isinstance(wanted, Choices) else wanted
        try:
            self._form = form_of(annotation)
            schema = settle_references(copy_schema(self._form.schema("validation")))
        except Exception as error:
            raise ElicitationError(f"{wanted!r} cannot be asked for: {error}") from error
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
        for name, field in self._properties.items():
            _check_field(name, field)

    def requested(self, revision: Revision) -> JsonSchema:
        """Return the ``requestedSchema`` of a revision (ELIC-11); raises `ElicitationError`."""
        properties: dict[str, JsonSchema] = {}
        for name, field in self._properties.items():
            shown = _shown(field, revision)
            if shown is not None:
                properties[name] = shown
            elif name in self._required:
                raise ElicitationError(
                    f"{name}: revision {revision.version} cannot ask for several values; "
                    f"give the field a default, or ask for one value"
                )
        schema: JsonSchema = {"type": "object", "properties": properties or _CONFIRMATION}
        if self._required:
            schema["required"] = self._required
        return schema

    def read(self, content: Mapping[str, Any] | None) -> Accepted[T] | Declined:
        """Return `Accepted`, or `Declined` if the user left the box of a confirmation unchecked.

        Raises:
            InvalidInputResponse: The answer does not match the form.
        """
        # Without a field to show, `requested` has sent the box alone.
        if is_object(content) and content.keys() == {_CONFIRM} - self._properties.keys():
            if content[_CONFIRM] is False:
                return Declined()
            if content[_CONFIRM] not in (True, None):
                raise InvalidInputResponse(f"{_CONFIRM}: expected true or false")
            content = {}
        return Accepted(self._value(content))

    def _value(self, content: Mapping[str, Any] | None) -> Any:
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
    """Return True if a value has the requested type; the validator is more lenient (ELIC-4)."""
    if value is None:
        return True  # the validator decides: some clients send null for an empty field
    if kind in ("integer", "number"):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return is_number and (kind == "number" or value == value // 1)
    return isinstance(value, {"string": str, "boolean": bool, "array": list}[kind])


def _check_field(name: str, field: JsonSchema) -> None:
    """Refuse a field that no form can show, and remove constraints that clients do not know.

    The validator still applies those to the answer.
    """
    kind = field.get("type")
    _write_as_enum(field)
    if kind == "array":
        items = field.get("items", {})
        _write_as_enum(items)
        if "oneOf" in items:
            items["anyOf"] = items.pop("oneOf")
        titled = items.get("anyOf", ())
        if not (titled or "enum" in items) or any("const" not in each for each in titled):
            raise ElicitationError(f"{name}: a form has lists of choices only, list[Literal[...]]")
        _check_values(name, items, titled)
        if titled:
            items.pop("type", None)
            items.pop("enum", None)
    elif field.keys() & {"enum", "oneOf"}:
        _check_values(name, field, field.get("oneOf", ()))
        kind, field["type"] = "choice", "string"
    elif field.get("format") not in _FORMATS:
        field.pop("format", None)
    if not isinstance(kind, str) or kind not in _KEPT:
        raise ElicitationError(
            f"{name}: a form has strings, numbers, booleans, dates and choices, nothing nested"
        )
    for each in field.keys() - set(_KEPT[kind]):
        del field[each]


def _check_values(name: str, choice: JsonSchema, titled: Sequence[JsonSchema]) -> None:
    values = choice.get("enum") or [each.get("const") for each in titled]
    if not all(isinstance(value, str) for value in values):
        raise ElicitationError(f"{name}: the values of a choice must be strings")


def _write_as_enum(schema: JsonSchema) -> None:
    if "const" in schema:
        schema.setdefault("enum", [schema.pop("const")])


def _shown(field: JsonSchema, revision: Revision) -> JsonSchema | None:
    """Return a field as a revision shows it; None if it cannot."""
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


# --- requests -------------------------------------------------------------------------------------


class Elicit(InputRequest[Elicitation[T]]):
    """A form for the user; inside ``Annotated`` it fills a parameter.

    Args:
        message: The question; for a parameter also a function of the handler's arguments.
        schema: As for `Context.elicit`.
        key, timeout: See `InputRequest`.

    Raises:
        ElicitationError: A form cannot show the schema.
    """

    METHOD = "elicitation/create"

    def __init__(
        self,
        message: str | Callable[..., str],
        schema: Any = UNSET,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self.message = message
        self.schema = schema
        super().__init__(key=key, timeout=timeout)
        self.form: Form[T] = Form(None if schema is UNSET else schema)

    def params(self, revision: Revision) -> dict[str, Any]:
        """Return the ``params`` of the request."""
        if "form" not in revision.elicitation_modes:
            raise ElicitationError(f"revision {revision.version} has no elicitation")
        if not isinstance(self.message, str):
            raise ElicitationError("only a parameter may have a function for its message")
        params: dict[str, Any] = {}
        if "url" in revision.elicitation_modes:
            params["mode"] = "form"
        params["message"] = self.message
        params["requestedSchema"] = self.form.requested(revision)
        return params

    def required_capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return the capability for forms, which an empty ``elicitation`` declares as well."""
        return {"elicitation": {}}

    def check(self, revision: Revision, client: ClientProfile) -> None:
        """Refuse a client that has not declared forms."""
        if not client.supports("elicitation", "form"):
            raise MissingClientCapability({"elicitation": {}})

    def parse_result(self, result: Mapping[str, Any]) -> Elicitation[T]:
        """Return the answer: accepted with validated data, declined, or dismissed."""
        return _unaccepted(result) or self.form.read(result.get("content"))


class ElicitUrl(InputRequest[Elicitation[None]]):
    """A URL for the user to open: for data that must not pass through the client (credentials).

    Args:
        message: The reason, for the user.
        url: The URL; without personal data or credentials (ELIC-6).
        elicitation_id: Identifies the request to the client (2025-11-25).
        key, timeout: See `InputRequest`.
    """

    METHOD = "elicitation/create"

    def __init__(
        self,
        message: str,
        url: str,
        elicitation_id: str,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self.message = message
        self.url = url
        self.elicitation_id = elicitation_id
        super().__init__(key=key, timeout=timeout)

    def params(self, revision: Revision) -> dict[str, Any]:
        """Return the ``params`` of the request."""
        if "url" not in revision.elicitation_modes:
            raise ElicitationError(f"revision {revision.version} cannot ask to open a URL")
        params = {"mode": "url", "message": self.message, "url": self.url}
        if revision.elicitation_ids:
            params["elicitationId"] = self.elicitation_id
        return params

    def required_capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return the capability for URLs, which must be declared by name."""
        return {"elicitation": {"url": {}}}

    def parse_result(self, result: Mapping[str, Any]) -> Elicitation[None]:
        """Return the answer; accepted means consent to open the URL, not completion (ELIC-10)."""
        return _unaccepted(result) or Accepted(None)

    def fingerprint(self, revision: Revision) -> str:
        """Return a fingerprint without the id, because the id differs each time."""
        return digest(encode([self.METHOD, self.message, self.url]))
