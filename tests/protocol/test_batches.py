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
from tests.messages import (
    BATCHES,
    announced,
    cancelled,
    initialize,
    notification,
    request,
)
from tests.protocol.talk import (
    opened,
    text,
)
from tests.schemas import check

PROGRESS = notification("notifications/progress", {"progressToken": 1, "progress": 1})
ANSWER = {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.fixture
def connection() -> Connection:
    return opened(BATCHES)


def requests(events: Sequence[Event]) -> list[Request]:
    return [event for event in events if isinstance(event, Request)]


def texts(events: Sequence[Event]) -> list[bytes]:
    """What is sent at once."""
    found = (event.text for event in events if isinstance(event, Rejected))
    return [each for each in found if each is not None]


def ids(sent: bytes | None) -> list[Any]:
    """The ids in a batch of answers, which must fit the schema."""
    assert sent is not None
    check(sent, BATCHES)
    return [answer["id"] for answer in json.loads(sent)]


# --- answers --------------------------------------------------------------------------------------


def test_a_batch_is_one_event_for_each_part_in_order(connection: Connection) -> None:
    """MSG-9."""
    parts = [request(1, "ping"), PROGRESS, request("2", "tools/list")]
    first, told, second = connection.receive(text(parts))
    assert isinstance(first, Request)
    assert isinstance(told, Notification)
    assert isinstance(second, Request)
    assert (first.id, second.id, second.method) == (1, "2", "tools/list")


def test_the_answers_of_a_batch_are_sent_together_with_the_last(connection: Connection) -> None:
    """MSG-12."""
    first, second = requests(
        connection.receive(text([request(1, "ping"), request(2, "tools/list")]))
    )
    assert connection.send_result(first, b"") is None
    assert connection.send_result(second, b'"tools":[]') == (
        b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}]'
    )


def test_the_answers_of_a_batch_are_in_the_order_in_which_they_were_given(
    connection: Connection,
) -> None:
    """MSG-12."""
    first, second, third = requests(
        connection.receive(text([request(id, "ping") for id in (1, 2, 3)]))
    )
    assert connection.send_result(third, b"") is None
    assert connection.send_error(first, InternalError("no")) is None
    assert ids(connection.send_result(second, b"")) == [3, 1, 2]


def test_a_batch_of_one_is_answered_with_a_batch_of_one(connection: Connection) -> None:
    """MSG-12."""
    (only,) = requests(connection.receive(text([request(1, "ping")])))
    assert ids(connection.send_result(only, b"")) == [1]


def test_two_batches_are_answered_apart(connection: Connection) -> None:
    first, second = requests(connection.receive(text([request(1, "ping"), request(2, "ping")])))
    (other,) = requests(connection.receive(text([request(3, "ping")])))
    assert connection.send_result(first, b"") is None
    assert ids(connection.send_result(other, b"")) == [3]
    assert ids(connection.send_result(second, b"")) == [1, 2]


def test_a_request_beside_a_batch_is_answered_alone(connection: Connection) -> None:
    (inside,) = requests(connection.receive(text([request(1, "ping")])))
    (beside,) = requests(connection.receive(text(request(2, "ping"))))
    assert connection.send_result(beside, b"") == b'{"jsonrpc":"2.0","id":2,"result":{}}'
    assert ids(connection.send_result(inside, b"")) == [1]


@pytest.mark.parametrize(
    "parts",
    [
        [PROGRESS],
        [PROGRESS, notification("notifications/invented"), cancelled(9)],
        [ANSWER, ANSWER],
        [PROGRESS, ANSWER],
    ],
    ids=["a notification", "notifications", "answers", "both"],
)
def test_a_batch_without_requests_is_not_answered(connection: Connection, parts: list[Any]) -> None:
    """MSG-5, MSG-9, MSG-12."""
    events = connection.receive(text(parts))
    assert len(events) == len(parts)
    assert not any(isinstance(event, (Request, Rejected)) for event in events)


def test_answers_may_come_in_a_batch(connection: Connection) -> None:
    """MSG-9."""
    error = {"jsonrpc": "2.0", "id": 2, "error": {"code": -1, "message": "no"}}
    first, second = connection.receive(text([ANSWER, error]))
    assert isinstance(first, Response)
    assert isinstance(second, Response)
    assert (first.result, second.error is not None) == ({}, True)


# --- broken parts ---------------------------------------------------------------------------------

BROKEN: dict[str, Any] = {
    "a method that does not exist": request(1, "a/b"),
    "params that are no object": request(1, "ping", []),
    "another jsonrpc": request(1, "ping") | {"jsonrpc": "1.0"},
    "no method": {"jsonrpc": "2.0", "id": 1},
    "a request with a result": request(1, "ping") | {"result": {}},
}
UNREADABLE: dict[str, Any] = {
    "a number": 1,
    "null": None,
    "a batch in a batch": [request(1, "ping")],
    "an empty object": {},
    "a null id": request(None, "ping"),
    "a float id": request(1.5, "ping"),
    "a notification of another jsonrpc": PROGRESS | {"jsonrpc": "1.0"},
}
SILENT: dict[str, Any] = UNREADABLE | {
    "an answer of another jsonrpc": ANSWER | {"jsonrpc": "1.0"},
    "an answer with a null id": ANSWER | {"id": None},
    "an answer with result and error": ANSWER | {"error": {}},
    "an answer with a null result": ANSWER | {"result": None},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_broken_part_is_refused_beside_the_others(connection: Connection, broken: Any) -> None:
    """ERR-5, MSG-12."""
    refused, asked = connection.receive(text([broken, request(2, "ping")]))
    assert isinstance(refused, Rejected)
    assert isinstance(asked, Request)
    assert refused.text is None
    assert ids(connection.send_result(asked, b"")) == [1, 2]


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_batch_of_broken_parts_is_answered_at_once(connection: Connection, broken: Any) -> None:
    """ERR-5, MSG-12."""
    (sent,) = texts(connection.receive(text([broken, PROGRESS, broken])))
    assert ids(sent) == [1, 1]


@pytest.mark.parametrize("broken", SILENT.values(), ids=SILENT)
@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
def test_a_part_without_an_id_has_no_answer_and_holds_up_no_other(
    connection: Connection, broken: Any, last: bool
) -> None:
    """MSG-8."""
    parts = [request(2, "ping"), broken] if last else [broken, request(2, "ping")]
    events = connection.receive(text(parts))
    (asked,) = requests(events)
    assert texts(events) == []
    assert ids(connection.send_result(asked, b"")) == [2]


@pytest.mark.parametrize("broken", SILENT.values(), ids=SILENT)
@pytest.mark.parametrize("last", [True, False], ids=["last", "first"])
def test_a_part_without_an_id_does_not_swallow_refusals(
    connection: Connection, broken: Any, last: bool
) -> None:
    """ERR-5, MSG-8."""
    parts = [request(2, "a/b"), broken] if last else [broken, request(2, "a/b")]
    (sent,) = texts(connection.receive(text(parts)))
    assert ids(sent) == [2]


@pytest.mark.parametrize("broken", SILENT.values(), ids=SILENT)
def test_a_batch_in_which_nothing_has_an_id_is_not_answered(
    connection: Connection, broken: Any
) -> None:
    """MSG-8."""
    assert texts(connection.receive(text([broken, broken]))) == []


def test_an_empty_batch_is_dropped(connection: Connection) -> None:
    """MSG-8, MSG-11: invalid, and without an id there is no answer."""
    (event,) = connection.receive(b"[]")
    assert isinstance(event, Ignored)


def test_an_id_twice_in_a_batch_is_served_once(connection: Connection) -> None:
    """MSG-3."""
    first, second = connection.receive(text([request(1, "ping"), request(1, "ping")]))
    assert isinstance(first, Request)
    assert isinstance(second, Rejected)
    assert second.error.code == -32600
    assert ids(connection.send_result(first, b"")) == [1, 1]


# --- initialize -----------------------------------------------------------------------------------


def test_initialize_in_a_batch_refuses_every_request_in_it(connection: Connection) -> None:
    """MSG-10, ERR-5; -32600."""
    parts = [request(1, "ping"), PROGRESS, initialize(BATCHES, 2), request(None, "ping")]
    events = connection.receive(text(parts))
    assert requests(events) == []
    (sent,) = texts(events)
    assert ids(sent) == [1, 2]
    assert {answer["error"]["code"] for answer in json.loads(sent)} == {-32600}


def test_initialize_without_an_id_in_a_batch_is_not_answered(connection: Connection) -> None:
    """MSG-5, MSG-10."""
    assert texts(connection.receive(text([notification("initialize")]))) == []


# --- cancellation ---------------------------------------------------------------------------------


def test_a_cancelled_part_is_missing_from_the_answers(connection: Connection) -> None:
    """CANC-4, MSG-12."""
    first, second = requests(connection.receive(text([request(1, "ping"), request(2, "ping")])))
    connection.receive(text(cancelled(1)))
    assert connection.forget(first) is None
    assert ids(connection.send_result(second, b"")) == [2]


def test_cancelling_the_last_part_sends_the_other_answers(connection: Connection) -> None:
    """CANC-4, MSG-12."""
    first, second = requests(connection.receive(text([request(1, "ping"), request(2, "ping")])))
    assert connection.send_result(first, b"") is None
    connection.receive(text(cancelled(2)))
    assert ids(connection.forget(second)) == [1]


def test_a_late_result_of_a_cancelled_part_sends_the_other_answers(
    connection: Connection,
) -> None:
    """CANC-4, MSG-12: whoever missed the cancellation completes the batch all the same."""
    first, second = requests(connection.receive(text([request(1, "ping"), request(2, "ping")])))
    assert connection.send_result(first, b"") is None
    connection.receive(text(cancelled(2)))
    assert ids(connection.send_result(second, b"")) == [1]


def test_a_cancelled_part_counts_once(connection: Connection) -> None:
    """CANC-4, MSG-12."""
    first, second, third = requests(
        connection.receive(text([request(id, "ping") for id in (1, 2, 3)]))
    )
    connection.receive(text(cancelled(1)))
    for _ in range(3):
        assert connection.forget(first) is None
        assert connection.send_result(first, b"") is None
    assert connection.send_result(second, b"") is None
    assert ids(connection.send_result(third, b"")) == [2, 3]


def test_a_batch_of_which_every_part_is_cancelled_is_not_answered(
    connection: Connection,
) -> None:
    """CANC-4, MSG-12."""
    parts = requests(connection.receive(text([request(1, "ping"), request(2, "ping")])))
    for part in parts:
        connection.receive(text(cancelled(part.id)))
        assert connection.forget(part) is None


def test_a_part_may_be_cancelled_within_its_batch(connection: Connection) -> None:
    """CANC-4, MSG-12."""
    first, second, gone = connection.receive(
        text([request(1, "ping"), request(2, "ping"), cancelled(1)])
    )
    assert isinstance(first, Request)
    assert isinstance(second, Request)
    assert isinstance(gone, Cancelled)
    assert gone.request is first
    connection.forget(first)
    assert ids(connection.send_result(second, b"")) == [2]


def test_a_forgotten_part_is_missing_from_the_answers(connection: Connection) -> None:
    first, second = requests(connection.receive(text([request(1, "ping"), request(2, "ping")])))
    assert connection.forget(first) is None
    assert ids(connection.send_result(second, b"")) == [2]


# --- eras -----------------------------------------------------------------------------------------


def test_a_part_that_announces_itself_is_served_by_its_own_version(
    connection: Connection,
) -> None:
    """VER-1, ERA-4."""
    first, second = requests(
        connection.receive(text([request(1, "ping"), announced(2, "server/discover")]))
    )
    assert (first.revision.version, second.revision.version) == (BATCHES, "2026-07-28")
