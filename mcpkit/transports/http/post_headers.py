"""What the headers of a POST say: found out once for all requests that have the same.

A client repeats its headers with every call. What follows from them alone is remembered: whether
the request is let in, its session, its era.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from mcpkit.errors import InvalidRequest
from mcpkit.protocol import headers
from mcpkit.protocol.connection import CAPABILITIES_KEY, VERSION_KEY
from mcpkit.protocol.headers import HeaderParameter
from mcpkit.protocol.messages import check_envelope
from mcpkit.protocol.revisions import BY_VERSION, HANDSHAKE, PER_REQUEST
from mcpkit.transports.http.access import Guard
from mcpkit.transports.http.http_error import Refusal
from mcpkit.types import is_object
from mcpkit.web import HttpSettings, Scope, by_name

__all__ = [
    "LEGACY",
    "TOO_LONG",
    "Head",
    "Heads",
    "accepts",
    "check_repeated",
    "is_too_long",
    "session_token",
]

LEGACY: Final = frozenset(each.version.encode() for each in HANDSHAKE)
_MODERN: Final = frozenset(each.version.encode() for each in PER_REQUEST)
TOO_LONG: Final = "The body is longer than %d bytes (the server's setting is max_body)"

_MOST_REMEMBERED: Final = 256
_LONGEST_REMEMBERED: Final = 4096
"""Bytes of the values; most have a few hundred."""

_DIGITS: Final = 18
"""Of a length that is worth reading."""

_BOTH: Final = (b"application/json", b"text/event-stream")


class Head:
    """What the headers of a POST say.

    Args:
        raw: The headers by lower-case name.
        server: The address that the request has arrived at, as the ASGI scope has it.
        refusal: Status and reason, if no such request is served.
    """

    __slots__ = ("is_legacy", "is_modern", "raw", "refusal", "server", "token", "version")

    def __init__(
        self,
        raw: Mapping[bytes, bytes],
        server: object,
        refusal: tuple[int, str] | None,
    ) -> None:
        self.raw = raw
        self.server = server
        self.refusal = refusal
        version = raw.get(b"mcp-protocol-version")
        self.version = None if version is None else version.strip(b" \t")
        """The protocol version, as it was sent."""
        self.is_legacy = self.version is None or self.version in LEGACY
        """Whether the version is one with a handshake, or missing."""
        self.is_modern = self.version in _MODERN
        self.token = session_token(raw)
        """The session id; empty if there is none."""


class Heads:
    """Judges headers, and remembers those that come again.

    Args:
        guard: Says who may call at all.
        settings: Of the endpoint.
    """

    def __init__(self, guard: Guard, settings: HttpSettings) -> None:
        self._guard = guard
        self._max_body = settings.max_body
        self._known: dict[tuple[tuple[bytes, bytes], ...], Head] = {}

    def of(self, scope: Scope) -> Head:
        """What the headers of a request say.

        Raises:
            Refusal: Its sender may not call at all (SEC-1, SEC-3).
        """
        pairs: Sequence[tuple[bytes, bytes]] = scope["headers"]
        key = tuple(pairs)
        try:
            found = self._known.get(key)
        except TypeError:  # ASGI allows pairs that are lists
            key = tuple((bytes(name), bytes(value)) for name, value in pairs)
            found = self._known.get(key)
        if found is not None and found.server == scope.get("server"):
            return found
        raw = by_name(key)
        why = self._guard.refusal(raw, scope.get("server"))
        if why is not None:
            raise Refusal(403, why)
        head = Head(raw, scope.get("server"), self._judge(raw))
        if sum(map(len, raw)) + sum(map(len, raw.values())) < _LONGEST_REMEMBERED:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = head
        return head

    def _judge(self, raw: Mapping[bytes, bytes]) -> tuple[int, str] | None:
        if not _is_json(raw.get(b"content-type", b"")):
            return 415, "The Content-Type must be application/json"
        if not accepts(raw.get(b"accept"), *_BOTH):
            return 406, "The Accept header must list application/json and text/event-stream"
        if is_too_long(raw, self._max_body):
            return 413, TOO_LONG % self._max_body
        return None


def check_repeated(
    raw: Mapping[bytes, bytes],
    message: Mapping[str, Any],
    declared_by: Callable[[str], Sequence[HeaderParameter]],
) -> None:
    """Hold the headers of a request of 2026-07-28 against its body (HTTPM-2, SEC-14).

    What is wrong with the body alone is left to whoever serves it. Which of several flaws is told
    does not depend on who finds it: the order is that of §8.4.

    Args:
        raw: The headers by lower-case name.
        message: The request.
        declared_by: The headers that the schema of the tool of this name declares.

    Raises:
        HeaderMismatch: They disagree, or a header is missing.
    """
    try:
        check_envelope(message)
    except InvalidRequest:
        return
    method: Any = message.get("method")
    if "id" not in message or method is None:
        return
    headers.require_version(raw)
    params = message.get("params")
    meta = params.get("_meta") if is_object(params) else None
    if not is_object(params) or not is_object(meta):
        return
    version = meta.get(VERSION_KEY)
    if not isinstance(version, str) or not is_object(meta.get(CAPABILITIES_KEY)):
        return
    headers.check_version(raw, version)  # HTTPM-6: before its support
    revision = BY_VERSION.get(version)
    if revision is None or revision.handshake:
        return
    headers.check_method(raw, method)
    known = revision.methods.get(method)
    name = None if known is None or known.mirrored is None else params.get(known.mirrored)
    if known is None or not isinstance(name, str):
        return
    headers.check_name(raw, name)
    if known.operation == "call_tool" and (declared := declared_by(name)):
        arguments = params.get("arguments", {})
        if is_object(arguments):
            headers.check_parameters(raw, declared, arguments)


def is_too_long(raw: Mapping[bytes, bytes], limit: int) -> bool:
    """Whether a body will be longer than it may, as its headers say."""
    length = raw.get(b"content-length", b"0")
    return not length.isdigit() or len(length) > _DIGITS or int(length) > limit


def session_token(raw: Mapping[bytes, bytes]) -> str:
    """The session id in the headers of a request; empty if there is none."""
    return raw.get(b"mcp-session-id", b"").decode("latin-1").strip(" \t")


def _is_json(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() == b"application/json"


def accepts(accept: bytes | None, *wanted: bytes) -> bool:
    """Whether a client takes all of some media types (RFC 9110, 12.5.1)."""
    if accept is None:
        return True
    listed: set[bytes] = set()
    for part in accept.lower().split(b","):
        media, *parameters = (each.strip() for each in part.split(b";"))
        if not any(each.replace(b" ", b"") in (b"q=0", b"q=0.0") for each in parameters):
            listed.add(media)
    return all(
        not listed.isdisjoint((each, each.partition(b"/")[0] + b"/*", b"*/*")) for each in wanted
    )
