"""Messages from a client, and connections that have come as far as a test needs."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, settings

from mcpkit.protocol.connection import (
    CAPABILITIES_KEY,
    VERSION_KEY,
    Connection,
    Event,
    Refused,
    Request,
    State,
)
from mcpkit.protocol.messages import Id
from mcpkit.protocol.revision import Revision
from mcpkit.protocol.revisions import BY_VERSION, HANDSHAKE, PER_REQUEST, REVISIONS

VERSIONS: Final = [each.version for each in REVISIONS]
LEGACY: Final = [each.version for each in HANDSHAKE]
MODERN: Final = [each.version for each in PER_REQUEST]
NEWEST_LEGACY: Final = LEGACY[-1]
WITHOUT_BATCHES: Final = [each.version for each in REVISIONS if not each.batching]
BATCHES: Final = "2025-03-26"
CLIENT: Final = {"name": "a client", "version": "1"}

calm: Final = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""For generated messages: a busy machine is no reason to fail."""

E_ = TypeVar("E_", bound=Event)


def text(value: object) -> bytes:
    return json.dumps(value).encode()


def request(id: object, method: str, params: object = None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    return message if params is None else message | {"params": params}


def notification(method: str, params: object = None) -> dict[str, Any]:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    return message if params is None else message | {"params": params}


def cancellation(id: object, **members: object) -> dict[str, Any]:
    return notification("notifications/cancelled", {"requestId": id, **members})


def initialize(id: object, version: object, **members: object) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
    return request(id, "initialize", params | members)


def meta(version: str = MODERN[-1], **members: object) -> dict[str, Any]:
    return {VERSION_KEY: version, CAPABILITIES_KEY: {}} | members


def announced(
    id: object, method: str, version: str = MODERN[-1], **params: object
) -> dict[str, Any]:
    """A request that carries its version and capabilities itself."""
    return request(id, method, {"_meta": meta(version), **params})


def ask(version: str, id: object, method: str = "tools/list", **params: object) -> dict[str, Any]:
    """A request in the manner of a revision."""
    if BY_VERSION[version].handshake:
        return request(id, method, params or None)
    return announced(id, method, version, **params)


def opened(version: str) -> Connection:
    """A connection ready for requests of a revision."""
    connection = Connection()
    if BY_VERSION[version].handshake:
        hello = one(connection, initialize("hello", version), Request)
        connection.send_result(hello, b"")
        connection.receive(text(notification("notifications/initialized")))
        assert connection.state is State.OPEN
    return connection


def one(connection: Connection, message: object, kind: type[E_]) -> E_:
    """The only event of a message: an object to be encoded, or its text."""
    (event,) = connection.receive(message if isinstance(message, bytes) else text(message))
    assert isinstance(event, kind), event
    return event


def started(connection: Connection, version: str, id: Id) -> Request:
    """A request that runs."""
    return one(connection, ask(version, id), Request)


def refusal(connection: Connection, message: object) -> tuple[int, Any]:
    """The code and the id of the error that answers a message; the id is None if there is none."""
    event = one(connection, message, Refused)
    assert event.text is not None
    sent = json.loads(event.text)
    assert sent["error"]["code"] == event.error.code
    assert sent.get("id") == (event.id if "id" in sent else None)
    return event.error.code, sent.get("id")


def revision(version: str) -> Revision:
    return BY_VERSION[version]
