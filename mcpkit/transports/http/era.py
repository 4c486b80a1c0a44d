"""The era of a message: revisions with sessions, which begin with a handshake, or without.

It is decided here for all of HTTP, once for each request. All that follows relies on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from mcpkit._protocol.connection import CAPABILITIES_KEY, VERSION_KEY, announces_itself
from mcpkit._protocol.messages import readable_id
from mcpkit._protocol.revisions import HANDSHAKE, PER_REQUEST
from mcpkit._utils.text import quote
from mcpkit.transports.http.http_error import HttpError

__all__ = ["Era", "era_of", "has_session_version", "is_announced"]

Era: TypeAlias = Literal["legacy", "modern"]
"""``legacy``: revisions with a handshake, and so with sessions. ``modern``: those without."""

_LEGACY: Final = frozenset(each.version.encode() for each in HANDSHAKE)
_MODERN: Final = frozenset(each.version.encode() for each in PER_REQUEST)
_VERSION: Final = b"mcp-protocol-version"
_NO_META: Final[Mapping[str, Any]] = {}


def era_of(message: dict[str, Any] | list[Any], raw: Mapping[bytes, bytes]) -> Era:
    """Return the era of a POST: the table of PROTOCOL §3.3, first match wins.

    Args:
        message: The message in its body, or a batch of them.
        raw: Its headers by lower-case name.

    Raises:
        HttpError: A session is asked for in a version that is unknown (HTTPL-18).
    """
    if isinstance(message, list):
        return "legacy" if has_session_version(raw) else "modern"
    if is_announced(message):
        return "modern"
    method: Any = message.get("method")
    if method == "initialize":
        return "legacy"
    version = raw.get(_VERSION)
    if version is not None and version not in _LEGACY and not has_session_version(raw):
        _check_version(raw, message)
        return "modern"
    if isinstance(method, str) and announces_itself(method, _NO_META):
        return "modern"
    return "legacy"


def is_announced(message: Mapping[str, Any]) -> bool:
    """True if the ``_meta`` of a message says that it belongs to no session (META-1)."""
    params: dict[str, Any] | None = message.get("params")
    meta: dict[str, Any] | None = params.get("_meta") if type(params) is dict else None
    return type(meta) is dict and (VERSION_KEY in meta or CAPABILITIES_KEY in meta)


def has_session_version(raw: Mapping[bytes, bytes]) -> bool:
    """True if ``MCP-Protocol-Version`` names a revision with sessions, or is missing (HTTPL-18)."""
    version = raw.get(_VERSION)
    return version is None or version in _LEGACY or version.strip(b" \t") in _LEGACY


def _check_version(raw: Mapping[bytes, bytes], message: dict[str, Any]) -> None:
    """Refuse to continue a session in a version that is no version of ours."""
    version = raw[_VERSION].strip(b" \t")
    if b"mcp-session-id" in raw and version not in _MODERN:
        raise HttpError(
            400,
            # Some clients look for these three words.
            f"Unsupported protocol version in MCP-Protocol-Version: "
            f"{quote(version.decode('latin-1'))}",
            readable_id(message),
        )
