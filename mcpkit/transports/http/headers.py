"""Checks of the headers of a POST: before its body is read, and against its body.

Only judgements on values that all clients share are remembered, each by itself and within bounds:
media types here, hosts and origins in `access`. Most headers differ from request to request, and
some are secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mcpkit._protocol import headers
from mcpkit._protocol.connection import CAPABILITIES_KEY, VERSION_KEY, Request
from mcpkit._protocol.messages import check_envelope, readable_id
from mcpkit._protocol.revisions import BY_VERSION, Method
from mcpkit._server.registry import Catalog
from mcpkit._utils.json import is_object
from mcpkit.errors import HeaderMismatch, InvalidRequest
from mcpkit.transports.http.http_error import HttpError

__all__ = [
    "TOO_LONG",
    "accepts",
    "check_coding",
    "check_media",
    "check_repeated",
    "check_request",
    "is_too_long",
    "read_token",
]

TOO_LONG: Final = "The body is longer than %d bytes (the server's setting is max_body)"

_MOST_REMEMBERED: Final = 64
_LONGEST_REMEMBERED: Final = 256
"""Bytes of a value; honest ones have a few dozen."""

_DIGITS: Final = 18
"""Digits of a length that is worth reading."""


class HeaderCheckCache(dict[bytes, bool]):
    """HeaderCheckCache on values of one header, remembered within bounds.

    Args:
        judge: Judges a value by nothing but itself.
    """

    def __init__(self, judge: Callable[[bytes], bool]) -> None:
        super().__init__()
        self._judge = judge

    def __missing__(self, value: bytes) -> bool:
        found = self._judge(value)
        if len(value) <= _LONGEST_REMEMBERED:
            if len(self) >= _MOST_REMEMBERED:
                self.clear()
            self[value] = found
        return found


def accepts(accept: bytes | None, *wanted: bytes) -> bool:
    """True if a client takes all of some media types (RFC 9110, 12.5.1)."""
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


def _is_json(content_type: bytes) -> bool:
    return content_type.partition(b";")[0].strip().lower() == b"application/json"


def _accepts_both(accept: bytes) -> bool:
    return accepts(accept, b"application/json", b"text/event-stream")


IS_JSON: Final = HeaderCheckCache(_is_json)
"""True for each Content-Type that is JSON."""

ACCEPTS_BOTH: Final = HeaderCheckCache(_accepts_both)
"""True for each Accept that lists JSON and event streams."""


def check_media(raw: Mapping[bytes, bytes]) -> None:
    """Refuse a POST that is no JSON, or whose client does not accept what may be answered.

    Args:
        raw: The headers by lower-case name.

    Raises:
        HttpError: One of them is wrong.
    """
    if b"transfer-encoding" in raw:
        check_coding(raw)
    if not IS_JSON[raw.get(b"content-type", b"")]:
        raise HttpError(415, "The Content-Type must be application/json")
    accept = raw.get(b"accept")
    if accept is not None and not ACCEPTS_BOTH[accept]:
        raise HttpError(406, "The Accept header must list application/json and text/event-stream")


def check_coding(raw: Mapping[bytes, bytes]) -> None:
    """Refuse a body in a transfer coding that nobody undoes here (RFC 9112, 6.1).

    Args:
        raw: The headers by lower-case name.

    Raises:
        HttpError: It has one.
    """
    coding = raw.get(b"transfer-encoding")
    if coding is not None and coding.lower() != b"chunked":
        raise HttpError(501, "The only Transfer-Encoding that is understood is chunked")


def is_too_long(raw: Mapping[bytes, bytes], limit: int) -> bool:
    """True if the headers say that a body is longer than the limit, in bytes."""
    length = raw.get(b"content-length", b"0")
    return not length.isdigit() or len(length) > _DIGITS or int(length) > limit


def read_token(sent: bytes | None) -> str:
    """Return a session id as it was sent in a header; empty if there is none."""
    return "" if sent is None else sent.decode("latin-1").strip(" \t")


def check_request(raw: Mapping[bytes, bytes], request: Request, catalog: Catalog) -> None:
    """Hold the headers of a request of 2026-07-28 against what it says (HTTPM-2, SEC-14).

    Args:
        raw: The headers by lower-case name.
        request: As its session has read it.
        catalog: The catalog of the tools, whose schemas declare headers.

    Raises:
        HttpError: They disagree, or a header is missing.
    """
    try:
        headers.check_version(raw, request.revision.version)
        _compare(raw, request.method, request.known, request.params, catalog)
    except HeaderMismatch as error:
        raise HttpError(400, error, request.id) from None


def check_repeated(
    raw: Mapping[bytes, bytes], message: Mapping[str, Any], catalog: Catalog
) -> None:
    """Hold the headers of a message against its body, that is no request to serve, or not yet.

    Flaws of the body alone are left to the session that serves it. Which of several flaws is told
    does not depend on who finds it: the order is that of §8.4.

    Args:
        raw: The headers by lower-case name.
        message: The message.
        catalog: The catalog of the tools, whose schemas declare headers.

    Raises:
        HttpError: They disagree, or a header is missing.
    """
    method: Any = message.get("method")
    if type(method) is not str or "id" not in message:
        return
    try:
        _compare_unread(raw, message, method, catalog)
    except HeaderMismatch as error:
        try:
            # A broken envelope is told before headers that differ. The session looks at every
            # envelope anyway; here that is done for the few messages that do not agree.
            check_envelope(message)
        except InvalidRequest:
            return
        raise HttpError(400, error, readable_id(message)) from None


def _compare_unread(
    raw: Mapping[bytes, bytes],
    message: Mapping[str, Any],
    method: str,
    catalog: Catalog,
) -> None:
    params: dict[str, Any] | None = message.get("params")
    meta: dict[str, Any] | None = params.get("_meta") if type(params) is dict else None
    version: Any = meta.get(VERSION_KEY) if type(meta) is dict else None
    if (
        params is None
        or meta is None
        or type(version) is not str
        or type(meta.get(CAPABILITIES_KEY)) is not dict
    ):
        headers.require_version(raw)
        return
    headers.check_version(raw, version)  # HTTPM-6: before its support
    revision = BY_VERSION.get(version)
    if revision is None or revision.handshake:
        return
    _compare(raw, method, revision.methods.get(method), params, catalog)


def _compare(
    raw: Mapping[bytes, bytes],
    method: str,
    known: Method | None,
    params: Mapping[str, Any],
    catalog: Catalog,
) -> None:
    headers.check_method(raw, method)
    if known is None or known.mirrored is None:
        return
    name: Any = params.get(known.mirrored)
    if type(name) is not str:
        return
    headers.check_name(raw, name)
    tool = catalog.tools.get(name) if known.operation == "call_tool" else None
    if tool is not None and tool.headers:
        arguments: Any = params.get("arguments", {})
        if is_object(arguments):
            headers.check_parameters(raw, tool.headers, arguments)
