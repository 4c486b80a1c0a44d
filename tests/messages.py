"""Messages as clients send them, for tests that speak the protocol themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from mcpkit._protocol.connection import CAPABILITIES_KEY, VERSION_KEY
from mcpkit._protocol.revisions import HANDSHAKE, PER_REQUEST, REVISIONS

VERSIONS: Final = [each.version for each in REVISIONS]
LEGACY: Final = [each.version for each in HANDSHAKE]
MODERN: Final = PER_REQUEST[-1].version
LAST_HANDSHAKE: Final = LEGACY[-1]
"""The newest revision that has a handshake."""

BATCHES: Final = "2025-03-26"
"""The only one that has batches, and the last before there was a header with the version."""

CLIENT: Final = {"name": "tests", "version": "1"}

Message: TypeAlias = dict[str, Any]


def request(id: object, method: str, params: object = None, /, **members: Any) -> Message:
    """A request, with the params as a whole or member by member."""
    message: Message = {"jsonrpc": "2.0", "id": id, "method": method}
    if members:
        params = {**(params if isinstance(params, Mapping) else {}), **members}
    return message if params is None else message | {"params": params}


def notification(method: str, params: object = None, /, **members: Any) -> Message:
    """A notification, with the params as a whole or member by member."""
    message = request(None, method, params, **members)
    del message["id"]
    return message


def initialize(version: object = LAST_HANDSHAKE, id: object = 0, **members: Any) -> Message:
    """The first request of a session; members are of its params."""
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    return request(id, "initialize", params | members)


def cancelled(id: object, **members: Any) -> Message:
    """The notification that a client gives up on a request."""
    return notification("notifications/cancelled", requestId=id, **members)


def meta(_version: str = MODERN, **members: object) -> Message:
    """What a request that announces itself has in ``_meta`` (META-1)."""
    return {VERSION_KEY: _version, CAPABILITIES_KEY: {}, **members}


def announced(id: object, method: str, _version: str = MODERN, /, **params: Any) -> Message:
    """A request that announces itself; what is given as ``_meta`` is added to its own."""
    own = meta(_version) | params.pop("_meta", {})
    return request(id, method, {**params, "_meta": own})


def called(tool: str, arguments: Mapping[str, Any]) -> Message:
    """The params of a call of a tool."""
    return {"name": tool, "arguments": dict(arguments)}
