"""Version-free values: content, descriptions and results, as Python sees them.

Nothing here knows a protocol revision. `mcpkit._protocol.wire` turns these values into the members
of a message, and back.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from mcpkit._utils.json import UNSET, is_binary
from mcpkit._utils.names import with_suggestions

if TYPE_CHECKING:
    from pathlib import Path

Role: TypeAlias = Literal["user", "assistant"]
CacheScope: TypeAlias = Literal["public", "private"]
LogLevel: TypeAlias = Literal[
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"
]
Meta: TypeAlias = dict[str, Any]
"""A ``_meta`` object: string keys, JSON values."""

LOG_LEVELS: Final[tuple[LogLevel, ...]] = get_args(LogLevel)
"""Ascending severity, RFC 5424."""

LOG_RANK: Final[dict[str, int]] = {level: rank for rank, level in enumerate(LOG_LEVELS)}


@dataclass(slots=True)
class Annotations:
    """Hints for the client about a content block or a resource.

    Args:
        audience: The roles it is meant for.
        priority: From 0, entirely optional, to 1, effectively required.
        last_modified: An ISO 8601 date and time (2025-06-18 and later).
    """

    _: KW_ONLY
    audience: Sequence[Role] | None = None
    priority: float | None = None
    last_modified: str | None = None


@dataclass(slots=True)
class Icon:
    """A picture a client may show (2025-11-25 and later).

    Args:
        src: An ``https:`` or ``data:`` URI, such as ``Image("icon.png").to_data_uri()``.
        mime_type: Of the picture, when the URI does not tell.
        sizes: Such as ``"48x48"``, or ``"any"``.
        theme: The background it was drawn for.
    """

    src: str
    _: KW_ONLY
    mime_type: str | None = None
    sizes: Sequence[str] | None = None
    theme: Literal["light", "dark"] | None = None


@dataclass(slots=True)
class Implementation:
    """The name and version of a client or a server."""

    name: str
    version: str
    _: KW_ONLY
    title: str | None = None
    description: str | None = None
    website_url: str | None = None
    icons: Sequence[Icon] | None = None


@dataclass(slots=True)
class ToolAnnotations:
    """The effects of a tool on the world, as hints for the client (2025-03-26 and later).

    None leaves the protocol's default: not read-only, destructive, not idempotent, open world.
    `extra` holds members that the protocol does not define, such as those of a host.
    """

    _: KW_ONLY
    title: str | None = None
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    extra: Mapping[str, Any] | None = None


# --- content blocks -------------------------------------------------------------------------------


@dataclass(slots=True)
class TextContent:
    """A block of text."""

    text: str
    _: KW_ONLY
    annotations: Annotations | None = None
    meta: Meta | None = None


@dataclass(slots=True)
class ImageContent:
    """A picture: its raw bytes and its MIME type."""

    data: bytes
    mime_type: str
    _: KW_ONLY
    annotations: Annotations | None = None
    meta: Meta | None = None


@dataclass(slots=True)
class AudioContent:
    """A sound: its raw bytes and its MIME type (an embedded resource for 2024-11-05)."""

    data: bytes
    mime_type: str
    _: KW_ONLY
    annotations: Annotations | None = None
    meta: Meta | None = None


@dataclass(slots=True)
class TextResourceContents:
    """The contents of a resource that is text."""

    uri: str
    text: str
    _: KW_ONLY
    mime_type: str | None = None
    meta: Meta | None = None


@dataclass(slots=True)
class BlobResourceContents:
    """The contents of a resource that is binary: raw bytes here, base64 on the wire."""

    uri: str
    blob: bytes
    _: KW_ONLY
    mime_type: str | None = None
    meta: Meta | None = None


ResourceContents: TypeAlias = TextResourceContents | BlobResourceContents


@dataclass(slots=True)
class EmbeddedResource:
    """A resource that travels inside a message."""

    resource: ResourceContents
    _: KW_ONLY
    annotations: Annotations | None = None
    meta: Meta | None = None


@dataclass(slots=True)
class ResourceLink:
    """A pointer to a resource (text with its URI before 2025-06-18)."""

    uri: str
    name: str
    _: KW_ONLY
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    icons: Sequence[Icon] | None = None
    annotations: Annotations | None = None
    meta: Meta | None = None


ContentBlock: TypeAlias = (
    TextContent | ImageContent | AudioContent | EmbeddedResource | ResourceLink
)
BLOCK_TYPES: Final[tuple[type[ContentBlock], ...]] = get_args(ContentBlock)


# --- helpers that make blocks ---------------------------------------------------------------------


class Media:
    """Bytes with a MIME type, from memory or from a file that is read when it is sent.

    Args:
        source: The bytes themselves, or the path of a file.
        mime_type: Guessed from the file's name, then from the first bytes, if None.
        annotations: Passed on to the content block.

    Raises:
        ValueError: The MIME type is not given and cannot be guessed.
    """

    __slots__ = ("_source", "annotations", "mime_type")

    _KIND: str = ""
    _FALLBACK: str | None = None

    @with_suggestions()
    def __init__(
        self,
        source: bytes | str | os.PathLike[str],
        mime_type: str | None = None,
        *,
        annotations: Annotations | None = None,
    ) -> None:
        if isinstance(source, (bytes, bytearray, memoryview)):
            self._source: bytes | Path = bytes(source)
        else:
            from pathlib import Path  # only those who send files pay for it

            self._source = Path(source)
        self.annotations = annotations
        guess = mime_type or self._guess()
        if guess is None:
            kind = type(self).__name__
            raise ValueError(f'{kind}: pass mime_type=, for example {kind}(data, "{self._KIND}")')
        self.mime_type: str = guess

    @property
    def data(self) -> bytes:
        """The bytes; reading them opens the file, if there is one."""
        source = self._source
        return source if isinstance(source, bytes) else source.read_bytes()

    def to_data_uri(self) -> str:
        """Return the bytes as a ``data:`` URI, such as for an `Icon`.

        Raises:
            OSError: The file cannot be read.
        """
        from binascii import b2a_base64  # only those who need a URI pay for it

        return f"data:{self.mime_type};base64,{b2a_base64(self.data, newline=False).decode()}"

    def block(self) -> ContentBlock:
        """Return the content block with the bytes in it; each kind of media has its own.

        Raises:
            OSError: The file cannot be read.
        """
        raise NotImplementedError

    def _guess(self) -> str | None:
        source = self._source
        if isinstance(source, bytes):
            return sniff(source) or self._FALLBACK
        import mimetypes  # only those who send files pay for it

        by_name = mimetypes.guess_type(source.name)[0]
        if by_name is not None:
            return by_name
        with source.open("rb") as file:
            return sniff(file.read(32)) or self._FALLBACK


class Image(Media):
    """A picture to return from a tool or prompt: ``Image("plot.png")`` or ``Image(png_bytes)``."""

    __slots__ = ()
    _KIND = "image/png"

    def block(self) -> ImageContent:
        """Return the content block with the bytes in it."""
        return ImageContent(self.data, self.mime_type, annotations=self.annotations)


class Audio(Media):
    """A sound to return from a tool or a prompt: ``Audio("note.wav")`` or ``Audio(wav_bytes)``."""

    __slots__ = ()
    _KIND = "audio/wav"

    def block(self) -> AudioContent:
        """Return the content block with the bytes in it."""
        return AudioContent(self.data, self.mime_type, annotations=self.annotations)


class File(Media):
    """Any file to return as an embedded resource: text when it is text, a blob otherwise.

    Args:
        source: The bytes themselves, or the path of a file.
        mime_type: Guessed from the name and the first bytes if None.
        uri: The URI of the embedded resource; ``file://`` and the path, or ``data:,`` by default.
    """

    __slots__ = ("_uri",)
    _KIND = "application/octet-stream"
    _FALLBACK = "application/octet-stream"

    @with_suggestions()
    def __init__(
        self,
        source: bytes | str | os.PathLike[str],
        mime_type: str | None = None,
        *,
        uri: str | None = None,
        annotations: Annotations | None = None,
    ) -> None:
        super().__init__(source, mime_type, annotations=annotations)
        self._uri = uri

    def block(self) -> EmbeddedResource:
        """Return the content block with the text or the bytes in it."""
        source = self._source
        uri = self._uri or ("data:," if isinstance(source, bytes) else source.absolute().as_uri())
        return EmbeddedResource(
            contents_of(uri, self.data, self.mime_type), annotations=self.annotations
        )


_SIGNATURES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"BM", "image/bmp"),
    (b"<svg", "image/svg+xml"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\xff\xfb", "audio/mpeg"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
)


def sniff(start: bytes) -> str | None:
    """Return the MIME type that the first 32 bytes of a file give away, or None."""
    if start[:4] == b"RIFF":
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(start[8:12])
    return next((mime for magic, mime in _SIGNATURES if start.startswith(magic)), None)


_TEXT_TYPES: Final = frozenset(
    {
        "image/svg+xml",
        *("application/json", "application/javascript", "application/xml", "application/yaml"),
        *("application/x-yaml", "application/toml", "application/x-sh", "application/sql"),
    }
)


def is_text_type(mime_type: str) -> bool:
    """Return True if content of this MIME type is text that a model can read."""
    essence = mime_type.partition(";")[0].strip().lower()
    return (
        essence.startswith("text/") or essence in _TEXT_TYPES or essence.endswith(("+json", "+xml"))
    )


def contents_of(uri: str, data: bytes, mime_type: str | None) -> ResourceContents:
    """Return resource contents: text if the MIME type allows text and the bytes are UTF-8."""
    if mime_type is None or is_text_type(mime_type):
        try:
            return TextResourceContents(uri, data.decode(), mime_type=mime_type)
        except UnicodeDecodeError:
            pass
    return BlobResourceContents(uri, data, mime_type=mime_type)


def content_block(value: object) -> ContentBlock | None:
    """Return the content block for text, bytes, media, resource contents or a block.

    None if the value is something else.
    """
    if isinstance(value, str):
        return TextContent(value)
    if isinstance(value, BLOCK_TYPES):
        return value
    if isinstance(value, Media):
        return value.block()
    if isinstance(value, (TextResourceContents, BlobResourceContents)):
        return EmbeddedResource(value)
    if is_binary(value):
        data = bytes(value)
        mime_type = sniff(data) or "application/octet-stream"
        if mime_type.startswith("image/"):
            return ImageContent(data, mime_type)
        if mime_type.startswith("audio/"):
            return AudioContent(data, mime_type)
        return EmbeddedResource(BlobResourceContents("data:,", data, mime_type=mime_type))
    return None


# --- messages and results -------------------------------------------------------------------------


@dataclass(slots=True)
class Message:
    """One message of a prompt.

    Args:
        content: Text, an `Image`, `Audio` or `File`, or a content block: exactly one.
        role: The one that says it, ``"user"`` or ``"assistant"``.

    Raises:
        ValueError: It is another role.
    """

    content: str | Media | ContentBlock
    role: Role = "user"

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            raise ValueError(
                f'a message of a prompt has the role "user" or "assistant", not {self.role!r}'
            )


def UserMessage(content: str | Media | ContentBlock) -> Message:  # noqa: N802 - reads as a type
    """Return a message that the user says."""
    return Message(content, "user")


def AssistantMessage(content: str | Media | ContentBlock) -> Message:  # noqa: N802 - as above
    """Return a message that the model says."""
    return Message(content, "assistant")


@dataclass(slots=True)
class ToolResult:
    """A whole tool result, for handlers that decide every part of it.

    Args:
        content: Text, `Image`, `Audio`, `File` or content blocks; one, or a list of them.
        structured_content: Any JSON value; `UNSET` leaves it out (None is the JSON ``null``).
            It is validated against the tool's output schema if there is one.
        is_error: True to report a failure to the model.
        meta: The result's ``_meta`` (2025-06-18 and later).
    """

    content: Any = field(default_factory=list[Any])
    _: KW_ONLY
    structured_content: Any = UNSET
    is_error: bool = False
    meta: Meta | None = None


@dataclass(slots=True)
class PromptResult:
    """A whole prompt result.

    Args:
        messages: Strings (said by the user), `Message` values, `Image` and the like, and dicts with
            ``role`` and ``content``.
        description: Replaces the prompt's own description in this answer.
    """

    messages: Sequence[str | Message | Media | ContentBlock | Mapping[str, Any]]
    _: KW_ONLY
    description: str | None = None
    meta: Meta | None = None


@with_suggestions()
@dataclass(slots=True)
class ResourceResult:
    """A whole answer to reading a resource.

    Args:
        contents: One or several contents, each with its own URI.
        cache_ttl: Seconds for which a client may keep the answer (2026-07-28); None is the
            resource's own setting.
        cache_scope: ``"public"`` if principals may share the answer, else ``"private"``; None is
            the resource's own setting.
    """

    contents: Sequence[ResourceContents]
    _: KW_ONLY
    cache_ttl: float | None = None
    cache_scope: CacheScope | None = None
    meta: Meta | None = None


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated caller of a request.

    Args:
        id: A name that is theirs alone: sessions, the state of questions and rate limits belong to
            it.
        scopes: The permissions that they have been given.
        expires_at: When their authentication ends, in seconds since the epoch; None: never.
        claims: Facts about them beside these. They are not shown by ``repr``: some are secrets.
        issuer: The issuer of the token.
        client_id: The OAuth client that acts for them.
        upstream: What the provider has issued that they have logged in at, with an async `token()`,
            if the app is their authorization server (`mcpkit.auth.AuthorizationServer`).
    """

    id: str
    scopes: frozenset[str] = frozenset()
    expires_at: float | None = None
    claims: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False, hash=False)
    _: KW_ONLY
    issuer: str | None = None
    client_id: str | None = None
    upstream: Any = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return self.id
