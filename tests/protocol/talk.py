"""Messages from a client, and connections that have come as far as a test needs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from mcpkit._protocol.connection import Connection, Event, Rejected, Request, State
from mcpkit._protocol.messages import Id, parse
from mcpkit._protocol.revisions import BY_VERSION, PER_REQUEST, REVISIONS
from mcpkit.errors import ParseError
from tests.messages import Message, announced, initialize, notification, request

MODERN: Final = [each.version for each in PER_REQUEST]
WITHOUT_BATCHES: Final = [each.version for each in REVISIONS if not each.batching]

E_ = TypeVar("E_", bound=Event)
revision: Final = BY_VERSION.__getitem__


def ask(version: str, id: object, method: str = "tools/list", **params: object) -> Message:
    """A request in the manner of a revision."""
    if revision(version).handshake:
        return request(id, method, params or None)
    return announced(id, method, version, **params)


def receive(connection: Connection, message: object) -> Sequence[Event]:
    """The events of a message: an object to be encoded, or its text."""
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    try:
        parsed = parse(text)
    except ParseError as error:
        return (connection.take_unreadable(text, error),)
    return connection.take(parsed)


def opened(version: str) -> Connection:
    """A connection ready for requests of a revision."""
    connection = Connection()
    if revision(version).handshake:
        hello = one(connection, initialize(version, "hello"), Request)
        connection.send_result(hello, b"")
        receive(connection, notification("notifications/initialized"))
        assert connection.state is State.OPEN
    return connection


def one(connection: Connection, message: object, kind: type[E_]) -> E_:
    """The only event of a message."""
    (event,) = receive(connection, message)
    assert isinstance(event, kind), event
    return event


def started(connection: Connection, version: str, id: Id) -> Request:
    """A request that runs."""
    return one(connection, ask(version, id), Request)


def refusal(connection: Connection, message: object) -> tuple[int, Any]:
    """The code and the id of the error that answers a message; the id is None if there is none."""
    event = one(connection, message, Rejected)
    assert event.text is not None
    sent = json.loads(event.text)
    assert sent["error"]["code"] == event.error.code
    assert sent.get("id") == (event.id if "id" in sent else None)
    return event.error.code, sent.get("id")
