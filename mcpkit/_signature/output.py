"""The result of a function: JSON Schema, structured content, and content for a model.

Prepared once for a function, at registration.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import pydantic
from pydantic_core import PydanticSerializationError, ValidationError, from_json

from mcpkit._signature.converters import DEFAULT, Converters, NoConverter, blocks_of, readable
from mcpkit._signature.forms import ANNOTATED, UNIONS
from mcpkit._signature.hints import unalias
from mcpkit._signature.schema import TypeForm, form_of, reason_in, settle_references
from mcpkit._signature.signature import Signature
from mcpkit._utils.json import UNSET, JsonSchema, copy_schema, every_schema
from mcpkit.errors import RegistrationError
from mcpkit.types import (
    BLOCK_TYPES,
    BlobResourceContents,
    ContentBlock,
    Media,
    Message,
    PromptResult,
    ResourceResult,
    TextContent,
    TextResourceContents,
    ToolResult,
)

_CONTENT_TYPES: Final = (
    *BLOCK_TYPES,
    Media,
    ToolResult,
    PromptResult,
    ResourceResult,
    Message,
    TextResourceContents,
    BlobResourceContents,
)
_UNSTRUCTURED: Final = (UNSET, str, bytes, bytearray, None, type(None))


@dataclass(slots=True)
class Rendered:
    """A tool's result, ready for any revision."""

    content: Sequence[ContentBlock] | str | None
    """The blocks for the model; a string is one block of text, None the structured content."""
    structured: bytes | None = None
    """The JSON text of the structured content."""
    is_error: bool = False
    meta: dict[str, Any] | None = None
    is_object: bool = True
    """True if the schema promises an object. Anything else is wrapped in one (TOOL-11), because
    many clients accept objects only."""
    is_raw: bool = False
    """True to send it unwrapped to clients of newer revisions (TOOL-12)."""

    def blocks(self) -> Sequence[ContentBlock]:
        """Return the blocks for the model."""
        content = self.content
        if content is None:
            content = readable(self.structured or b"")
        return [TextContent(content)] if isinstance(content, str) else content


def wrapped_schema(schema: JsonSchema) -> JsonSchema:
    """Return the schema of an object with the single member ``result``, which has a schema."""
    inner = dict(schema)
    leads = [str(each["$ref"]) for each in every_schema(inner) if "$ref" in each]
    if "$id" in inner:  # references are relative to it
        return _result_of(inner)
    if not all(each.startswith("#/$defs/") for each in leads):
        # Some lead elsewhere than into the definitions, which are moved otherwise.
        inner = copy_schema(schema)
        for each in every_schema(inner):
            target = str(each.get("$ref", ""))
            if target == "#" or target.startswith("#/"):
                each["$ref"] = f"#/properties/result{target[1:]}"
        return _result_of(inner)
    definitions = inner.pop("$defs", None)
    wrapped = _result_of(inner)
    return {**wrapped, "$defs": definitions} if definitions else wrapped


def _result_of(schema: JsonSchema) -> JsonSchema:
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}


class OutputMismatch(Exception):
    """A handler returned a value that its return annotation does not allow."""


class Output:
    """Renders the values of a tool as content, and as structured content if the type has it.

    Args:
        signature: For its return annotation.
        structured: True or False force or forbid structured content; None decides by the type:
            everything except text, None and content blocks is structured. ``"raw"`` forces it, and
            wraps other values than objects only for revisions that require objects.
        converters: For values that are not JSON.

    Raises:
        RegistrationError: The return type cannot be serialized or described.
    """

    def __init__(
        self,
        signature: Signature,
        structured: bool | Literal["raw"] | None,
        converters: Converters = DEFAULT,
    ) -> None:
        self._converters = converters
        self._is_converted = False
        self._form: TypeForm | None = None
        self.schema: JsonSchema | None = None
        self.is_object = False
        self.is_raw = structured == "raw"
        if structured is False:
            return
        annotation = signature.returns
        if converters.own and annotation is not UNSET:
            annotation = converters.returned(annotation, own=True)
        if structured is None and not is_structured(annotation):
            return
        if annotation is UNSET:
            raise RegistrationError(
                f"{signature.place}: structured output needs a return annotation"
            )
        try:
            if not self._describe(annotation):
                annotation = converters.returned(annotation)
                if (structured or is_structured(annotation)) and not self._describe(annotation):
                    raise NoConverter(annotation)
        except Exception as error:
            is_unknown = isinstance(error, NoConverter)
            why = f"{error} is unknown to pydantic" if is_unknown else reason_in(error)
            raise RegistrationError(
                f"{signature.place}: the return type cannot become JSON ({why}); return a model, "
                f"a dataclass or built-in types, give the app a converter, or pass "
                f"structured_output=False"
            ) from None
        self._is_converted = annotation is not signature.returns

    def _describe(self, annotation: Any) -> bool:
        """Set the form and the schema of a type; False if a class is unknown to pydantic.

        Raises any exception if the type is known, but wrong.
        """
        try:
            form = form_of(annotation)
            schema = settle_references(copy_schema(form.schema("serialization")))
        except pydantic.PydanticUserError as error:
            if error.code not in ("schema-for-unknown-type", "invalid-for-json-schema"):
                raise
            return False
        self._form = form
        self.schema = schema
        self.is_object = schema.get("type") == "object"
        return True

    def render(self, value: Any) -> Rendered:
        """Return the result to send for a value that the function returned.

        Raises:
            OutputMismatch: The value does not match the return annotation.
            NotSerializable: A part of the value cannot become JSON.
        """
        if isinstance(value, ToolResult):
            return self._whole(value)
        if self.schema is None:
            # Some hosts refuse a result without content, and models one with an empty text.
            value = "null" if value is None else value
            is_text = type(value) is str
            return Rendered(value if is_text else blocks_of(value, self._converters))
        return Rendered(None, self._json_of(value), False, None, self.is_object, self.is_raw)

    def _whole(self, value: ToolResult) -> Rendered:
        if self.schema is None or value.is_error:
            rendered = render_whole(value, self._converters)
        elif value.structured_content is UNSET:
            raise OutputMismatch(
                "a ToolResult without structured_content, which the schema promises"
            )
        else:
            rendered = render_whole(value, self._converters, self._json_of)
        if self.schema is not None:
            rendered.is_object = self.is_object
        rendered.is_raw = self.is_raw
        return rendered

    def _json_of(self, value: Any) -> bytes:
        form = self._form
        assert form is not None
        mismatch: Exception | None = None
        if not self._is_converted:
            try:
                return form.dump(value)
            except (ValidationError, PydanticSerializationError) as error:
                mismatch = error
        # Try again after converting the values inside that are not JSON.
        text, was_converted = self._converters.json_if_converted(value)
        if was_converted or self._is_converted:
            try:
                return form.dump(form.validate(from_json(text)))
            except (ValidationError, PydanticSerializationError) as error:
                mismatch = error
        raise OutputMismatch(str(mismatch)) from mismatch


def render_whole(
    value: ToolResult, converters: Converters, dump: Callable[[Any], bytes] | None = None
) -> Rendered:
    """Return the result to send for a `ToolResult`, without a look at an output schema."""
    given = value.structured_content
    structured = None if given is UNSET else (dump or converters.json)(given)
    blocks = content_of(value, converters) or (None if structured is not None else [])
    is_object = structured is None or structured[:1] == b"{"
    return Rendered(blocks, structured, value.is_error, value.meta, is_object)


def content_of(value: ToolResult, converters: Converters) -> list[ContentBlock]:
    """Return the blocks of a `ToolResult`; none for an empty list."""
    content: Any = value.content
    is_empty = type(content) is list and not content
    return [] if is_empty else blocks_of(content, converters)


def is_structured(annotation: Any) -> bool:
    """Return True if a return annotation promises data rather than text or content."""
    plain = _plainly(annotation)
    choices = [*map(_plainly, get_args(plain))] if type(plain) in UNIONS else [plain]
    if plain in (Any, object) or all(each in _UNSTRUCTURED for each in choices):
        return False
    return not _mentions_content(plain, [])


def _plainly(annotation: Any) -> Any:
    """Return the type that an alias, an ``Annotated`` or a ``NewType`` stands for."""
    while True:
        plain = unalias(annotation)
        if type(plain) is ANNOTATED:
            plain = plain.__origin__
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
    parts = get_args(plain)
    return bool(parts) and any(_mentions_content(part, [*seen, plain]) for part in parts)
