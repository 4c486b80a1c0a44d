"""The headers of a POST: checked before its body is read, and compared with its body.

They also decide the era of a request: revisions with sessions, which begin with a handshake, or
those without. It is decided here for all of HTTP, once for each request.

Only verdicts on values that all clients share are cached, and few of them, since a value may be as
long as a head. Most headers differ from request to request, and some are secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from mcpkit._protocol import headers
from mcpkit._protocol.connection import CAPABILITIES_KEY, VERSION_KEY, Request, announces_itself
from mcpkit._protocol.messages import check_envelope
from mcpkit._protocol.revisions import BY_VERSION, HANDSHAKE, PER_REQUEST, Method
from mcpkit._server.registry import Catalog
from mcpkit._utils.json import is_object
from mcpkit._utils.text import quote
from mcpkit.errors import HeaderMismatch, InvalidRequest
from mcpkit.transports.http.http_error import HttpError

TOO_LONG: Final = "The body is longer than %d bytes (the server's limit is max_body)"

MAX_VERDICTS: Final = 16

MAX_LENGTH_DIGITS: Final = 18
"""Digits of a Content-Length that is worth reading."""

_BLANKS: Final = b" \t"
"""May be around the value of a header (RFC 9110, 5.6.3)."""

_VERSION: Final = b"mcp-protocol-version"
_LEGACY: Final = frozenset(each.version.encode() for each in HANDSHAKE)
_MODERN: Final = {each.version.encode(): each.version for each in PER_REQUEST}
_NO_META: Final[Mapping[str, Any]] = {}


def strip_values(pairs: list[tuple[bytes, bytes]]) -> bool:
    """Remove the blanks around the values of headers; return True if there were some."""
    for _, value in pairs:
        if value.strip(_BLANKS) is not value:
            pairs[:] = [(name, value.strip(_BLANKS)) for name, value in pairs]
            return True
    return False


# --- before the body is read ----------------------------------------------------------------------


@lru_cache(maxsize=MAX_VERDICTS)
def is_json(media: bytes) -> bool:
    """Return True if a Content-Type is JSON."""
    return media.partition(b";")[0].strip().lower() == b"application/json"


@lru_cache(maxsize=MAX_VERDICTS)
def accepts(accept: bytes | None, *wanted: bytes) -> bool:
    """Return True if a client lists all of some media types, with any weight (RFC 9110, 12.5.1).

    A weight of zero counts as well: a client that speaks MCP reads both kinds of response.
    """
    if accept is None:
        return True
    listed = {part.partition(b";")[0].strip() for part in accept.lower().split(b",")}
    return all(
        not listed.isdisjoint((each, each.partition(b"/")[0] + b"/*", b"*/*")) for each in wanted
    )


def check_media(raw: Mapping[bytes, bytes]) -> None:
    """Refuse a POST that is not JSON, or whose client does not accept every kind of response."""
    if b"transfer-encoding" in raw:
        check_coding(raw)
    if not is_json(raw.get(b"content-type", b"")):
        raise HttpError(415, "The Content-Type must be application/json")
    if not accepts(raw.get(b"accept"), b"application/json", b"text/event-stream"):
        raise HttpError(406, "The Accept header must list application/json and text/event-stream")


def check_coding(raw: Mapping[bytes, bytes]) -> None:
    """Refuse a body in a transfer coding that is not decoded here (RFC 9112, 6.1)."""
    if raw.get(b"transfer-encoding", b"chunked").lower() != b"chunked":
        raise HttpError(501, "The only Transfer-Encoding that is understood is chunked")


def check_length(raw: Mapping[bytes, bytes], limit: int) -> None:
    """Refuse a body that is longer than the limit, in bytes, if its headers say so."""
    length = raw.get(b"content-length", b"0")
    if not length.isdigit() or len(length) > MAX_LENGTH_DIGITS or int(length) > limit:
        raise HttpError(413, TOO_LONG % limit)


# --- the era --------------------------------------------------------------------------------------


def is_announced(message: Mapping[str, Any]) -> bool:
    """Return True if the ``_meta`` of a message says that it belongs to no session (META-1)."""
    params: dict[str, Any] | None = message.get("params")
    meta: dict[str, Any] | None = params.get("_meta") if type(params) is dict else None
    return type(meta) is dict and (VERSION_KEY in meta or CAPABILITIES_KEY in meta)


def is_modern(message: dict[str, Any] | list[Any], raw: Mapping[bytes, bytes]) -> bool:
    """Return True if a POST belongs to a revision without sessions (PROTOCOL §3.3).

    A message that is announced does: it does not come here.

    Raises:
        HttpError: A session is asked for in a version that is unknown (HTTPL-18).
    """
    if isinstance(message, list):
        return not has_session_version(raw)
    method: Any = message.get("method")
    if method == "initialize":
        return False
    version = raw.get(_VERSION)
    if version is not None and version not in _LEGACY:
        if b"mcp-session-id" in raw and version not in _MODERN:
            raise HttpError(
                400,
                # Some clients look for these three words.
                f"Unsupported protocol version in MCP-Protocol-Version: "
                f"{quote(version.decode('latin-1'))}",
            )
        return True
    return isinstance(method, str) and announces_itself(method, _NO_META)


def has_session_version(raw: Mapping[bytes, bytes]) -> bool:
    """Return True if ``MCP-Protocol-Version`` names a revision with sessions, or is missing."""
    version = raw.get(_VERSION)
    return version is None or version in _LEGACY


# --- against the body -----------------------------------------------------------------------------


def agrees(raw: Mapping[bytes, bytes], request: Request, catalog: Catalog) -> bool:
    """Return True if the headers of a request of 2026-07-28 are those of its body, to the byte.

    Otherwise `check_repeated` decides. The schemas of the tools, which are in the catalog, declare
    headers.
    """
    known, params = request.known, request.params
    name: Any = None if known.mirrored is None else params.get(known.mirrored)
    tool = catalog.tools.get(name) if known.operation == "call_tool" else None
    # Nearly every client writes the values as they are, so that their bytes can be compared.
    return (
        _MODERN.get(raw.get(_VERSION, b"")) == request.revision.version
        and raw.get(b"mcp-method") == request.method.encode()
        and (
            type(name) is not str
            or (
                name.isascii()
                and raw.get(b"mcp-name") == name.encode()
                and name == name.strip(" \t")
                and not name.startswith("=?")
            )
        )
        and (tool is None or not tool.headers)
    )


def check_repeated(
    raw: Mapping[bytes, bytes],
    message: Mapping[str, Any],
    catalog: Catalog,
    *,
    is_served: bool = True,
) -> None:
    """Compare the headers of a request of 2026-07-28 with its body (HTTPM-2, SEC-14).

    Faults of the body alone are left to the session that serves it. The fault that is reported does
    not depend on who finds it: the order is that of §8.4. Notifications that no extension serves
    need not agree.

    Raises:
        HttpError: They disagree, or a header is missing.
    """
    method: Any = message.get("method")
    if type(method) is not str or not ("id" in message or is_served):
        return
    params: dict[str, Any] | None = message.get("params")
    meta: dict[str, Any] | None = params.get("_meta") if type(params) is dict else None
    version: Any = meta.get(VERSION_KEY) if type(meta) is dict else None
    try:
        if (
            params is None
            or meta is None
            or type(version) is not str
            or type(meta.get(CAPABILITIES_KEY)) is not dict
        ):
            headers.require_version(raw)
            if "id" not in message:  # a notification is served without those members
                headers.check_method(raw, method)
            return
        headers.check_version(raw, version)  # HTTPM-6: before its support
        revision = BY_VERSION.get(version)
        if revision is not None and not revision.handshake:
            _compare(raw, method, revision.methods.get(method), params, catalog)
    except HeaderMismatch as error:
        try:
            # A broken envelope is reported before headers that differ. The session checks every
            # envelope anyway; here that is done for the few messages that do not agree.
            check_envelope(message)
        except InvalidRequest:
            return
        raise HttpError(400, error).about(message) from None  # it may be in a batch


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
    # Some clients do not repeat the id of a task. No proxy can have routed on a missing header.
    if known.capability != "tasks" or b"mcp-name" in raw:
        headers.check_name(raw, name)
    tool = catalog.tools.get(name) if known.operation == "call_tool" else None
    if tool is not None and tool.headers:
        arguments: Any = params.get("arguments", {})
        if is_object(arguments):
            headers.check_parameters(raw, tool.headers, arguments)
