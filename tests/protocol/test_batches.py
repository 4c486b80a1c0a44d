"""Arrays of messages: they exist in 2025-03-26 alone (MSG-9 to MSG-12)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from mcpkit._protocol.connection import (
    Cancelled,
    Connection,
    Event,
    Ignored,
    Notification,
    Rejected,
    Request,
    Response,
)
from mcpkit.errors import InternalError
from tests.messages import BATCHES, announced, cancelled, initialize, notification, request
from tests.protocol.talk import opened, receive
from tests.schemas import check

PROGRESS = notification("notifications/progress", {"progressToken": 1, "progress": 1})
ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.fixture
def connection() -> Connection:
    return opened(BATCHES)


def pings(connection: Connection, *ids: int) -> list[Request]:
    """The requests of a batch of pings."""
    events = receive(connection, [request(id, "ping") for id in ids])
    assert all(isinstance(event, Request) for event in events)
    return [event for event in events if isinstance(event, Request)]


def texts(events: Sequence[Event]) -> list[bytes]:
    """The responses that are sent at once."""
    found = (event.text for event in events if isinstance(event, Rejected))
    return [each for each in found if each is not None]


def ids(sent: bytes | None) -> list[Any]:
    """The ids in a batch of responses, which must fit the schema."""
    assert sent is not None
    check(sent, BATCHES)
    return [answer["id"] for answer in json.loads(sent)]


# --- responses ------------------------------------------------------------------------------------


def test_a_batch_is_one_event_for_each_part_in_order(connection: Connection) -> None:
    """MSG-9, VER-1, ERA-4: each part is served by its own version."""
    error = {"jsonrpc": "2.0", "id": 2, "error": {"code": -1, "message": "no"}}
    modern = announced("2", "server/discover")
    parts = [request(1, "ping"), PROGRESS, modern, ANSWER, error, cancelled(1)]
    first, progress, second, result, failure, cancellation = receive(connection, parts)
    assert isinstance(first, Request)
    assert isinstance(progress, Notification)
    assert isinstance(second, Request)
    assert isinstance(result, Response)
    assert isinstance(failure, Response)
    assert isinstance(cancellation, Cancelled)
    assert (first.id, second.id, second.method) == (1, "2", "server/discover")
    assert (first.revision.version, second.revision.version) == (BATCHES, "2026-07-28")
    assert (result.result, failure.error is not None) == ({}, True)
    assert cancellation.request is first


def test_the_responses_of_a_batch_are_sent_together_with_the_last(connection: Connection) -> None:
    """MSG-12: in the order in which they were given."""
    first, second, third = pings(connection, 1, 2, 3)
    assert connection.send_result(third, b'"tools":[]') is None
    assert connection.send_error(first, InternalError("no")) is None
    sent = connection.send_result(second, b"")
    assert ids(sent) == [3, 1, 2]
    assert sent is not None
    assert sent.startswith(b'[{"jsonrpc":"2.0","id":3,"result":{"tools":[]}},{"jsonrpc":"2.0","id"')


def test_batches_and_requests_are_answered_apart(connection: Connection) -> None:
    """MSG-12: a batch of one with a batch of one."""
    first, second = pings(connection, 1, 2)
    (only,) = pings(connection, 3)
    (beside,) = receive(connection, request(4, "ping"))
    assert isinstance(beside, Request)
    assert connection.send_result(first, b"") is None
    assert connection.send_result(beside, b"") == b'{"jsonrpc":"2.0","id":4,"result":{}}'
    assert ids(connection.send_result(only, b"")) == [3]
    assert ids(connection.send_result(second, b"")) == [1, 2]


def test_a_batch_without_requests_is_not_answered(connection: Connection) -> None:
    """MSG-5, MSG-9, MSG-10, MSG-12."""
    for parts in (
        [PROGRESS, notification("notifications/invented"), cancelled(9)],
        [ANSWER, ANSWER],
        [PROGRESS, ANSWER],
        [notification("initialize")],
    ):
        events = receive(connection, parts)
        assert not any(isinstance(event, Request) for event in events)
        assert texts(events) == []


# --- broken parts ---------------------------------------------------------------------------------

BROKEN: dict[str, Any] = {
    "an unknown method": request(1, "a/b"),
    "params of the wrong type": request(1, "ping", []),
    "another jsonrpc": request(1, "ping") | {"jsonrpc": "1.0"},
    "no method": {"jsonrpc": "2.0", "id": 1},
    "a request with a result": request(1, "ping") | {"result": {}},
}
SILENT: dict[str, Any] = {
    "a number": 1,
    "null": None,
    "a batch in a batch": [request(1, "ping")],
    "an empty object": {},
    "a null id": request(None, "ping"),
    "a float id": request(1.5, "ping"),
    "a notification of another jsonrpc": PROGRESS | {"jsonrpc": "1.0"},
    "a response of another jsonrpc": ANSWER | {"jsonrpc": "1.0"},
    "a response with a null id": ANSWER | {"id": None},
    "a response with result and error": ANSWER | {"error": {}},
    "a response with a null result": ANSWER | {"result": None},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_part_is_rejected_beside_the_others(connection: Connection, broken: Any) -> None:
    """ERR-5, MSG-12: at once if there are no others."""
    rejected, asked = receive(connection, [broken, request(2, "ping")])
    assert isinstance(rejected, Rejected)
    assert isinstance(asked, Request)
    assert rejected.text is None
    assert ids(connection.send_result(asked, b"")) == [1, 2]
    (sent,) = texts(receive(connection, [broken, PROGRESS, broken]))
    assert ids(sent) == [1, 1]


@pytest.mark.parametrize("broken", SILENT.values(), ids=SILENT)
@pytest.mark.parametrize("step", [1, -1], ids=["first", "last"])
def test_a_part_without_an_id_has_no_response_and_holds_up_no_other(
    connection: Connection, broken: Any, step: int
) -> None:
    """ERR-5, MSG-8."""
    events = receive(connection, [broken, request(2, "ping")][::step])
    (asked,) = (event for event in events if isinstance(event, Request))
    assert texts(events) == []
    assert ids(connection.send_result(asked, b"")) == [2]
    (sent,) = texts(receive(connection, [broken, request(3, "a/b")][::step]))
    assert ids(sent) == [3]
    assert texts(receive(connection, [broken, broken])) == []


def test_an_empty_batch_is_dropped_and_an_id_twice_served_once(connection: Connection) -> None:
    """MSG-8, MSG-11: without an id there is no response; MSG-3."""
    (event,) = receive(connection, [])
    assert isinstance(event, Ignored)
    first, second = receive(connection, [request(1, "ping"), request(1, "ping")])
    assert isinstance(first, Request)
    assert isinstance(second, Rejected)
    assert second.error.code == -32600
    assert ids(connection.send_result(first, b"")) == [1, 1]


def test_initialize_in_a_batch_rejects_every_request_in_it(connection: Connection) -> None:
    """MSG-10, ERR-5; -32600."""
    parts = [request(1, "ping"), PROGRESS, initialize(BATCHES, 2), request(None, "ping")]
    events = receive(connection, parts)
    assert not any(isinstance(event, Request) for event in events)
    (sent,) = texts(events)
    assert ids(sent) == [1, 2]
    assert {answer["error"]["code"] for answer in json.loads(sent)} == {-32600}


# --- cancellation (CANC-4, MSG-12) ----------------------------------------------------------------


def test_a_cancelled_part_is_missing_from_the_responses(connection: Connection) -> None:
    """It counts once, even if a late result follows; a batch of such parts has no response."""
    first, second, third = pings(connection, 1, 2, 3)
    receive(connection, cancelled(1))
    for _ in range(3):
        assert connection.forget(first) is None
        assert connection.send_result(first, b"") is None
    assert connection.forget(second) is None  # without a cancellation
    assert ids(connection.send_result(third, b"")) == [3]
    for part in pings(connection, 1, 2):
        receive(connection, cancelled(part.id))
        assert connection.forget(part) is None


@pytest.mark.parametrize("is_late", [False, True])
def test_cancelling_the_last_part_sends_the_other_responses(
    connection: Connection, is_late: bool
) -> None:
    """Even if the handler has missed the cancellation, and answers."""
    first, second = pings(connection, 1, 2)
    assert connection.send_result(first, b"") is None
    receive(connection, cancelled(2))
    sent = connection.send_result(second, b"") if is_late else connection.forget(second)
    assert ids(sent) == [1]
