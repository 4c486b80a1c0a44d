"""The result of a function: its JSON Schema, its JSON text, and content for a model.

Made once for a function, at registration.
"""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast, get_args, get_origin

from pydantic_core import PydanticSerializationError, ValidationError, from_json, to_json

from mcpkit.errors import RegistrationError
from mcpkit.functions.hints import unalias
from mcpkit.functions.schema import TypeForm, first_line, form_of, settle_references
from mcpkit.functions.signature import Signature
from mcpkit.support.json_schema import JsonSchema, copy_schema
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
    is_binary,
    sniff,
)

__all__ = [
    "Output",
    "OutputMismatch",
    "Rendered",
    "block_of",
    "blocks_of",
    "is_structured",
    "wrapped_schema",
]

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
        content: The blocks for the model; a string stands for one block of text, None for the text
            of the structured content.
        structured: The JSON text of the structured content; None if there is none.
        is_error: Whether it reports a failure.
        meta: The result's ``_meta``.
        is_object: True if the structured content is promised to be an object; anything else is
            wrapped in one for revisions that know objects only (TOOL-11).
    """

    content: Sequence[ContentBlock] | str | None
    structured: bytes | None = None
    is_error: bool = False
    meta: dict[str, Any] | None = None
    is_object: bool = True

    def blocks(self) -> Sequence[ContentBlock]:
        """Return the blocks for the model."""
        content = self.content
        if content is None:
            content = _readable(self.structured or b"")
        return [TextContent(content)] if isinstance(content, str) else content


def wrapped_schema(schema: JsonSchema) -> JsonSchema:
    """Return the schema of an object whose only member ``result`` is what a schema describes."""
    inner = dict(schema)
    definitions = inner.pop("$defs", None)
    wrapped = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return {**wrapped, "$defs": definitions} if definitions else wrapped


class OutputMismatch(Exception):
    """A handler returned something that its own return annotation does not allow."""


class Output:
    """The way from a tool's value to content, and to structured content if the type has it.

    Args:
        signature: For its return annotation.
        structured: True or False force or forbid structured content; None decides by the type:
            everything but text, nothing, and content blocks is structured.

    Raises:
        RegistrationError: The return type cannot be serialised or described.
    """

    __slots__ = ("_dump", "_form", "is_object", "schema")

    def __init__(self, signature: Signature, structured: bool | None) -> None:
        self._form: TypeForm | None = None
        self._dump: Callable[[Any], bytes] | None = None
        self.schema: JsonSchema | None = None
        self.is_object = False
        annotation = signature.returns
        if structured is False:
            return
        if structured is None and not is_structured(annotation):
            return
        if annotation is UNSET:
            raise RegistrationError(
                f"{signature.place}: structured output needs a return annotation"
            )
        try:
            self._form = form_of(annotation)
            schema = settle_references(copy_schema(self._form.schema("serialization")))
        except Exception as error:
            raise RegistrationError(
                f"{signature.place}: the return type cannot become JSON ({first_line(error)}); "
                f"return a model, a dataclass or built-in types, or pass structured_output=False"
            ) from error
        self.schema = schema
        self.is_object = schema.get("type") == "object"

    def render(self, value: Any) -> Rendered:
        """Return the result to send for a value that the function returned.

        Raises:
            OutputMismatch: It does not fit the return annotation, or cannot be serialised.
        """
        if type(value) is ToolResult:
            return self._whole(value)
        if self._form is None:
            return Rendered(value if type(value) is str else blocks_of(value))
        return Rendered(None, self._json_of(value), False, None, self.is_object)

    def _whole(self, value: ToolResult) -> Rendered:
        structured = None
        if value.structured_content is not UNSET:
            if self._form is not None and not value.is_error:
                structured = self._json_of(value.structured_content)
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
        is_object = self.is_object
        if self.schema is None:
            is_object = structured is None or structured[:1] == b"{"
        return Rendered(blocks, structured, value.is_error, value.meta, is_object)

    def _json_of(self, value: Any) -> bytes:
        dump = self._dump
        if dump is None:
            assert self._form is not None
            dump = self._dump = self._form.dumper()
        try:
            return dump(value)
        except (ValidationError, PydanticSerializationError) as error:
            raise OutputMismatch(str(error)) from error


def is_structured(annotation: Any) -> bool:
    """Return whether a return annotation promises data rather than text or content."""
    try:
        return _is_structured(annotation)
    except TypeError:  # metadata that cannot be hashed
        return _is_structured.__wrapped__(annotation)


@functools.lru_cache(maxsize=1024)
def _is_structured(annotation: Any) -> bool:
    annotation = _plainly(annotation)
    if annotation in (UNSET, Any, object, None) or annotation in _UNSTRUCTURED:
        return False
    if get_origin(annotation) in (typing.Union, types.UnionType):
        parts = [_plainly(part) for part in get_args(annotation)]
        if all(part in _UNSTRUCTURED for part in parts):
            return False
    return not _mentions_content(annotation, [])


def _plainly(annotation: Any) -> Any:
    """Return the type that an alias, an ``Annotated`` or a ``NewType`` stands for."""
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
    """Return JSON text for a model to read: a lone string without its quotes."""
    if json_text[:1] == b'"':
        return str(from_json(json_text))
    return json_text.decode()


def _any_json(value: Any) -> bytes:
    try:
        return to_json(value, by_alias=True, bytes_mode="base64", inf_nan_mode="null")
    except PydanticSerializationError as error:
        raise OutputMismatch(str(error)) from error


def blocks_of(value: Any) -> list[ContentBlock]:
    """Return the content blocks for a value of any type.

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
    """Return one content block for one value.

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
