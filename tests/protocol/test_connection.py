"""One conversation: what arrives, the handshake, ids in flight, cancellation."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._protocol.connection import (
    Cancelled,
    Connection,
    Ignored,
    Notification,
    Rejected,
    Request,
    Response,
    State,
)
from mcpkit._protocol.revisions import ClientProfile
from mcpkit.errors import InternalError, InvalidParams
from tests.messages import (
    BATCHES,
    CLIENT,
    LAST_HANDSHAKE,
    LEGACY,
    VERSIONS,
    cancelled,
    initialize,
    meta,
    notification,
    request,
)
from tests.protocol.talk import (
    MODERN,
    WITHOUT_BATCHES,
    ask,
    one,
    opened,
    receive,
    refusal,
    revision,
    started,
)
from tests.protocol.test_messages import BAD, JSON, NO_IDS
from tests.schemas import check

HAS_SHAPE = [version for version in VERSIONS if revision(version).errors_without_id]
NO_SHAPE = [version for version in VERSIONS if not revision(version).errors_without_id]

every_version = pytest.mark.parametrize("version", VERSIONS)
every_handshake = pytest.mark.parametrize("version", LEGACY)

# --- invalid messages -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", WITHOUT_BATCHES)
def test_an_error_without_an_id_is_sent_where_it_has_a_shape(version: str) -> None:
    """MSG-8, MSG-11, STDIO-6."""
    for message in (b"{", [request(1, "tools/list")], [], 1.5, "text", None, True):
        if version in HAS_SHAPE:
            code = -32700 if message == b"{" else -32600
            assert refusal(opened(version), message) == (code, None)
        else:
            assert one(opened(version), message, Ignored).reason
    for value, said in (([], "Batches do not exist in this revision"), (7, "Not a message")):
        assert str(one(opened(LAST_HANDSHAKE), value, Rejected).error) == said


NEARLY_JSON: dict[str, tuple[bytes, bytes]] = {
    "half a surrogate pair": (b'"cut"', b'"a\\ud83d"'),
    "a byte that is not UTF-8": (b'"cut"', b'"caf\xe9"'),
    "NaN": (b'"cut"', b"NaN"),
    "a control character": (b'"cut"', b'"\x1b"'),
}
nearly_json = pytest.mark.parametrize(("right", "wrong"), NEARLY_JSON.values(), ids=NEARLY_JSON)


@nearly_json
@every_version
def test_a_request_that_is_nearly_json_is_answered_with_its_id(
    version: str, right: bytes, wrong: bytes
) -> None:
    """ERR-5, in every revision: its client waits for the answer."""
    for id in (7, "seven"):
        message = ask(version, id, "tools/call", name="echo", arguments={"text": "cut"})
        text = json.dumps(message).encode().replace(right, wrong)
        assert refusal(opened(version), text) == (-32700, id)
    answer = {"jsonrpc": "2.0", "id": 7, "result": {"action": "cut"}}
    event = one(opened(version), json.dumps(answer).encode().replace(right, wrong), Ignored)
    assert event.answers == 7  # the handler that asked must not wait


def test_before_the_handshake_arrays_and_requests_are_invalid() -> None:
    """MSG-10, MSG-11, LIFE-1, LIFE-7; -32600."""
    for array in ([], [request(1, "ping")], [initialize(BATCHES, 1)]):
        assert refusal(Connection(), array) == (-32600, None)
    for method in ("tools/list", "resources/subscribe", "a/b"):
        assert refusal(Connection(), request("early", method)) == (-32600, "early")


REJECTED = {name: bad for name, (_, bad) in BAD.items() if not {"result", "error"} & set(bad)}
REJECTED["a request with a result"] = BAD["a request with a result"][1]


@pytest.mark.parametrize("message", REJECTED.values(), ids=REJECTED)
@pytest.mark.parametrize("version", HAS_SHAPE)
def test_a_broken_envelope_is_an_invalid_request(version: str, message: dict[str, Any]) -> None:
    """MSG-1, MSG-2, ERR-5; -32600 with the id if it is one."""
    id = message["id"] if type(message["id"]) is int and abs(message["id"]) <= 2**64 else None
    assert refusal(opened(version), message) == (-32600, id)


@pytest.mark.parametrize("version", NO_SHAPE)
def test_what_has_no_valid_id_is_dropped_where_every_error_has_an_id(version: str) -> None:
    """MSG-2, MSG-8."""
    malformed: list[object] = [None, 1.5, 1.0, True, [], {}]
    for message in (b"{", *(request(id, "tools/list") for id in malformed)):
        one(opened(version), message, Ignored)


@every_version
def test_every_response_has_the_id_with_its_json_type(version: str) -> None:
    """MSG-2, MSG-7, ERR-5."""
    connection = opened(version)
    ids: list[int | str] = [0, 1, -1, 2**60, "", "1", "ü"]
    for id in ids:
        code, answered = refusal(connection, ask(version, id) | {"jsonrpc": "1.0"})
        assert (code, answered, type(answered)) == (-32600, id, type(id))
        sent = connection.send_result(started(connection, version, id), b'"a":1')
        assert sent is not None
        assert json.loads(sent) == {"jsonrpc": "2.0", "id": id, "result": {"a": 1}}
        assert type(json.loads(sent)["id"]) is type(id)


@given(st.binary())
def test_any_bytes_are_one_event(line: bytes) -> None:
    assert len(receive(Connection(), line)) == 1


NAMES = st.sampled_from(
    [
        *("initialize", "ping", "tools/call", "server/discover", "a/b"),
        *("notifications/cancelled", "notifications/initialized", "notifications/progress"),
    ]
)
ODD = JSON | st.sampled_from([1, "1", "2.0", *VERSIONS, [], {}])
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "_meta": ODD
        | st.fixed_dictionaries(
            {},
            optional=dict.fromkeys([*meta(), "progressToken"], ODD)
            | {f"io.modelcontextprotocol/{key}": ODD for key in ("clientInfo", "logLevel")},
        ),
        "protocolVersion": ODD,
        "capabilities": ODD,
        "clientInfo": ODD,
        "requestId": ODD,
        "reason": ODD,
    },
)
NEARLY = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | ODD},
    optional={
        "id": ODD,
        "method": NAMES | ODD,
        "params": PARAMS | ODD,
        "result": ODD,
        "error": ODD | st.fixed_dictionaries({}, optional={"code": ODD, "message": ODD}),
    },
)


@every_version
@given(values=st.lists(NEARLY | st.lists(NEARLY, max_size=3), max_size=4))
def test_anything_that_resembles_messages_is_events(version: str, values: list[Any]) -> None:
    """Errors are JSON, and requests can be answered."""
    connection = opened(version)
    for value in values:
        for event in receive(connection, value):
            if isinstance(event, Rejected) and event.text is not None:
                json.loads(event.text)
            elif isinstance(event, Request):
                connection.send_result(event, b"")


# --- the handshake --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "version"),
    [
        *((version, version) for version in LEGACY),
        *(
            (version, LAST_HANDSHAKE)
            for version in ("1999-01-01", "2099-01-01", "", "latest", *MODERN)
        ),
        ("2025-06-18 ", LAST_HANDSHAKE),
    ],
)
def test_the_handshake_negotiates_a_version(wanted: str, version: str) -> None:
    """LIFE-2: the one that is wanted; LIFE-3, LIFE-4: else the newest with a handshake."""
    connection = Connection()
    hello = one(connection, initialize(wanted, 1), Request)
    assert connection.revision is hello.revision is revision(version)


def test_the_handshake_has_three_states() -> None:
    """LIFE-1, LIFE-7."""
    connection = Connection()
    one(connection, notification("notifications/initialized"), Ignored)
    states = [connection.state]
    capabilities = {"roots": {"listChanged": True}, "invented": {}}
    hello = one(connection, initialize(LAST_HANDSHAKE, 1, capabilities=capabilities), Request)
    states.append(connection.state)
    assert started(connection, LAST_HANDSHAKE, 0).client is connection.client  # clients race
    connection.send_result(hello, b"")
    states.append(connection.state)
    notice = one(connection, notification("notifications/initialized"), Notification).notice
    states.append(connection.state)
    assert states == [State.NEW, State.OPENING, State.OPENING, State.OPEN]
    assert notice == "initialized"
    assert hello.client == connection.client == ClientProfile(capabilities, CLIENT)
    assert started(connection, LAST_HANDSHAKE, 2).client is connection.client


@every_handshake
def test_ping_is_served_before_during_and_after_the_handshake(version: str) -> None:
    """PING-1, LIFE-7; LIFE-9: the handshake cannot be cancelled."""
    connection = Connection()
    ping = one(connection, request(0, "ping"), Request)
    assert connection.send_result(ping, b"") == b'{"jsonrpc":"2.0","id":0,"result":{}}'
    assert connection.state is State.NEW
    hello = one(connection, initialize(version, 1), Request)
    assert one(connection, request(2, "ping"), Request).known.operation == "ping"
    one(connection, cancelled(1), Ignored)
    assert connection.send_result(hello, b"") is not None
    receive(connection, notification("notifications/initialized"))
    assert one(connection, request(3, "ping"), Request).revision.version == version


@every_handshake
def test_a_resumed_session_is_initialized_already(version: str) -> None:
    """LIFE-11; -32600."""
    connection = Connection(revision(version))
    assert refusal(connection, initialize("2024-11-05", "again")) == (-32600, "again")
    assert connection.revision is revision(version)
    assert connection.state is State.OPEN


@every_handshake
def test_a_second_initialize_starts_again(version: str) -> None:
    """Bridges put several clients behind one server's streams."""
    connection = opened(LAST_HANDSHAKE)
    before = one(connection, request(1, "tools/list"), Request)
    again = one(connection, initialize(version, "again", capabilities={"roots": {}}), Request)
    assert connection.state.name == "OPENING"
    assert again.revision is revision(version)
    assert connection.send_result(again, b"")
    receive(connection, notification("notifications/initialized"))
    assert connection.state.name == "OPEN"
    after = one(connection, request(2, "tools/list"), Request)
    assert after.revision is revision(version)
    assert after.client.capabilities == {"roots": {}}
    assert before.revision is revision(LAST_HANDSHAKE)
    assert connection.send_result(before, b"")


def test_a_malformed_initialize_may_be_tried_again() -> None:
    """-32602."""
    connection = Connection()
    wrong: dict[str, list[object]] = {
        "protocolVersion": [None, 2, []],
        "capabilities": [None, []],
        "clientInfo": [None, ""],
    }
    for member, values in wrong.items():
        for value in values:
            assert refusal(connection, initialize(LAST_HANDSHAKE, 1, **{member: value})) == (
                -32602,
                1,
            )
            assert connection.state is State.NEW
    assert one(connection, initialize(LAST_HANDSHAKE, 1), Request).method == "initialize"


# --- requests -------------------------------------------------------------------------------------


@every_version
def test_every_method_of_a_revision_is_served(version: str) -> None:
    for method, known in revision(version).methods.items():
        connection = Connection() if method == "initialize" else opened(version)
        message = initialize(version, 1) if method == "initialize" else ask(version, 1, method)
        event = one(connection, message, Request)
        assert (event.method, event.known, event.revision) == (method, known, revision(version))


@every_version
@pytest.mark.parametrize("method", ["a/b", "", "tools/List", "notifications/cancelled"])
def test_an_unknown_method_is_not_found(method: str, version: str) -> None:
    """-32601."""
    assert refusal(opened(version), ask(version, "x", method)) == (-32601, "x")


@every_version
def test_a_request_carries_params_and_meta(version: str) -> None:
    """MSG-17: unknown members are tolerated."""
    message = ask(version, 1, "tools/call", name="t", invented=True) | {"extra": 1}
    message["params"].setdefault("_meta", {})["progressToken"] = 0
    event = one(opened(version), message, Request)
    assert event.params == message["params"]
    assert event.meta == message["params"]["_meta"]


@every_version
def test_params_and_meta_are_objects_and_a_token_a_string_or_an_integer(version: str) -> None:
    """-32602."""
    connection = opened(version)
    wrong_params: list[object] = [[], [1], "x", 0, False, 1.5]
    wrong_params += [{"_meta": "x"}, {"_meta": 0}, {"_meta": False}, {"_meta": []}]
    for params in wrong_params:
        assert refusal(connection, request(1, "tools/list", params)) == (-32602, 1)
    wrong_tokens: list[object] = [1.5, 1.0, True, [], {}]
    for token in wrong_tokens:
        message = ask(version, 1, _meta={"progressToken": token})
        assert refusal(connection, message) == (-32602, 1)


# --- responses ------------------------------------------------------------------------------------


@every_version
def test_an_error_has_the_id_code_and_data(version: str) -> None:
    """MSG-7, ERR-5."""
    connection = opened(version)
    error = InvalidParams("no", data={"a": 1})
    sent = connection.send_error(started(connection, version, "x"), error)
    assert sent is not None
    check(sent, version)
    body = {"code": -32602, "message": "no", "data": {"a": 1}}
    assert json.loads(sent) == {"jsonrpc": "2.0", "id": "x", "error": body}


def assert_unanswered(connection: Connection, asked: Request) -> None:
    """Nothing can be sent for a request any more."""
    assert connection.send_result(asked, b'"old":1') is None
    assert connection.send_error(asked, InternalError("no")) is None
    assert connection.forget(asked) is None


@every_version
def test_a_request_is_answered_once_and_its_id_is_free_again(version: str) -> None:
    """MSG-2, MSG-3, MSG-4; -32600 while it is in flight. A number and its text are two ids."""
    connection = opened(version)
    refusal(connection, ask(version, 1, "a/b"))
    asked = started(connection, version, 1)
    word = started(connection, version, "1")
    assert connection.is_in_flight(asked)
    assert refusal(connection, ask(version, 1)) == (-32600, 1)
    assert connection.send_result(word, b"") == b'{"jsonrpc":"2.0","id":"1","result":{}}'
    assert connection.send_result(asked, b"") == b'{"jsonrpc":"2.0","id":1,"result":{}}'
    assert not connection.is_in_flight(asked)
    assert_unanswered(connection, asked)
    connection.send_error(started(connection, version, 1), InternalError("no"))
    assert connection.send_result(started(connection, version, 1), b"") is not None


# --- cancellation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["late", None, 1, [], {}], ids=repr)
@every_version
def test_a_request_can_be_cancelled(version: str, reason: object) -> None:
    """CANC-1, CANC-2, CANC-4, MSG-4: no response follows, not even under the id of a new request.

    A malformed reason is ignored.
    """
    connection = opened(version)
    asked = started(connection, version, 1)
    assert one(connection, cancelled(1, reason=reason), Cancelled).request is asked
    assert not connection.is_in_flight(asked)
    assert_unanswered(connection, asked)
    again = started(connection, version, 1)
    assert_unanswered(connection, asked)
    assert connection.is_in_flight(again)
    assert connection.send_result(again, b"") is not None


@every_version
def test_cancelling_another_id_and_a_malformed_cancellation_are_ignored(version: str) -> None:
    """CANC-2, CANC-3: unknown, finished, or an id of another type."""
    connection = opened(version)
    connection.send_result(started(connection, version, 1), b"")
    asked = started(connection, version, 2)
    ignored: list[object] = [None, {}, [], "x"]
    ignored += ({"requestId": id} for id in (1, 3, "2", *NO_IDS))
    for params in ignored:
        one(connection, notification("notifications/cancelled", params), Ignored)
    assert connection.is_in_flight(asked)


# --- notifications --------------------------------------------------------------------------------


@every_version
def test_every_notification_of_a_revision_arrives(version: str) -> None:
    for method, notice in revision(version).notices.items():
        if notice != "cancelled":
            event = one(opened(version), notification(method, {"a": 1}), Notification)
            assert event.notice == notice


@pytest.mark.parametrize(
    "message",
    [
        *map(notification, ("notifications/invented", "", "tools/list", "initialize", "a/b")),
        *(notification("notifications/progress", params) for params in ("x", 1, True)),
        notification("notifications/progress", []),
    ],
    ids=repr,
)
@every_version
def test_any_other_notification_is_ignored(version: str, message: dict[str, Any]) -> None:
    """MSG-5."""
    one(opened(version), message, Ignored)


# --- asking the client ----------------------------------------------------------------------------


@every_handshake
def test_a_request_to_the_client_is_answered_under_its_own_id(version: str) -> None:
    """Each side numbers its own requests: the client may use the same ids."""
    connection = opened(version)
    first, sent = connection.send_request("roots/list")
    second, _ = connection.send_request("roots/list")
    check(sent, version)
    assert first != second
    assert json.loads(sent)["id"] == first
    theirs = started(connection, version, first)
    answer = one(connection, {"jsonrpc": "2.0", "id": first, "result": {"roots": []}}, Response)
    assert answer == Response(first, {"roots": []}, None)
    assert connection.send_result(theirs, b"") is not None


RESULT = {"jsonrpc": "2.0", "id": 1, "result": {}}
ERROR = {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": ""}}
BROKEN_RESPONSES: dict[str, dict[str, Any]] = {
    "no id": {"jsonrpc": "2.0", "result": {}},
    "an error without an id": {"jsonrpc": "2.0", "error": {"code": 1, "message": ""}},
    "a null id": RESULT | {"id": None},
    "an error with a null id": ERROR | {"id": None},
    "a float id": RESULT | {"id": 1.0},
    "no jsonrpc": {"id": 1, "result": {}},
    "jsonrpc 1.0": ERROR | {"jsonrpc": "1.0"},
    "result and error (MSG-6)": RESULT | {"error": {}},
    "a result and a null error (MSG-6)": RESULT | {"error": None},
    "a list as the result": RESULT | {"result": []},
    "a null result": RESULT | {"result": None},
    "text as the error": ERROR | {"error": "no"},
    "a null error": ERROR | {"error": None},
}


@pytest.mark.parametrize("message", BROKEN_RESPONSES.values(), ids=BROKEN_RESPONSES)
@every_version
def test_a_broken_response_is_ignored_since_a_response_is_never_answered(
    version: str, message: dict[str, Any]
) -> None:
    """Its id is one of ours: under it, the client would look for a request of its own."""
    event = one(opened(version), message, Ignored)
    assert event.answers == (message["id"] if type(message.get("id")) is int else None)
    assert event.error is not None
