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
from mcpkit.errors import InternalError, InvalidParams, ParseError, ProtocolError
from tests.messages import (
    BATCHES,
    CLIENT,
    LEGACY,
    NEWEST,
    VERSIONS,
    announced,
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
    refusal,
    revision,
    started,
    text,
)
from tests.protocol.test_messages import BAD, JSON, NO_IDS, NOT_JSON
from tests.schemas import check

HAS_SHAPE = [version for version in VERSIONS if revision(version).errors_without_id]
NO_SHAPE = [version for version in VERSIONS if not revision(version).errors_without_id]
IDS: list[int | str] = [0, 1, -1, 2**60, "", "1", "ü"]

# --- what cannot be read --------------------------------------------------------------------------


@pytest.mark.parametrize("broken", NOT_JSON.values(), ids=NOT_JSON)
@pytest.mark.parametrize("version", HAS_SHAPE)
def test_broken_json_is_answered_without_an_id(version: str, broken: bytes) -> None:
    """MSG-8, STDIO-6; -32700."""
    assert refusal(opened(version), broken) == (-32700, None)


@pytest.mark.parametrize("broken", NOT_JSON.values(), ids=NOT_JSON)
@pytest.mark.parametrize("version", NO_SHAPE)
def test_broken_json_is_dropped_where_no_error_lacks_an_id(version: str, broken: bytes) -> None:
    """MSG-8."""
    assert one(opened(version), broken, Ignored).reason


@pytest.mark.parametrize("value", [1, 1.5, "text", None, True, []], ids=repr)
@pytest.mark.parametrize("version", HAS_SHAPE)
def test_json_that_is_no_object_is_an_invalid_request(version: str, value: object) -> None:
    """-32600."""
    assert refusal(opened(version), value) == (-32600, None)


@pytest.mark.parametrize("version", WITHOUT_BATCHES)
def test_an_array_is_refused_where_batches_do_not_exist(version: str) -> None:
    """MSG-11; -32600."""
    connection = opened(version)
    batch = text([ask(version, 1), ask(version, 2)])
    if version in HAS_SHAPE:
        assert refusal(connection, batch) == (-32600, None)
    else:
        one(connection, batch, Ignored)


@pytest.mark.parametrize(
    ("value", "said"), [([], "Batches do not exist in this revision"), (7, "Not a message")]
)
def test_a_refusal_says_whether_it_was_a_batch(value: object, said: str) -> None:
    event = one(opened(NEWEST), value, Rejected)
    assert str(event.error) == said


@pytest.mark.parametrize(
    "message", [[], [request(1, "ping")], [initialize(BATCHES, 1)]], ids=["empty", "ping", "hello"]
)
def test_an_array_before_the_handshake_is_refused(message: object) -> None:
    """MSG-10, MSG-11; -32600."""
    assert refusal(Connection(), message) == (-32600, None)


REFUSED = {name: bad for name, (_, bad) in BAD.items() if not {"result", "error"} & set(bad)}
REFUSED["a request with a result"] = BAD["a request with a result"][1]


@pytest.mark.parametrize("message", REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("version", HAS_SHAPE)
def test_a_broken_envelope_is_an_invalid_request(version: str, message: dict[str, Any]) -> None:
    """MSG-1, MSG-2, ERR-5; -32600 with the id if it is one."""
    id = message["id"] if type(message["id"]) is int and abs(message["id"]) <= 2**64 else None
    assert refusal(opened(version), message) == (-32600, id)


@pytest.mark.parametrize("id", [None, 1.5, 1.0, True, [], {}], ids=repr)
@pytest.mark.parametrize("version", NO_SHAPE)
def test_a_request_whose_id_is_none_is_dropped_where_no_error_lacks_an_id(
    version: str, id: object
) -> None:
    """MSG-2, MSG-8."""
    one(opened(version), request(id, "tools/list"), Ignored)


@pytest.mark.parametrize("id", IDS, ids=repr)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_refusal_has_the_id_with_its_json_type(version: str, id: int | str) -> None:
    """MSG-2, MSG-7, ERR-5."""
    code, answered = refusal(opened(version), ask(version, id) | {"jsonrpc": "1.0"})
    assert code == -32600
    assert (answered, type(answered)) == (id, type(id))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "message",
    [b"{", b"1", b'{"id":1}', text(request(1, "a/b")), text(request(1, "ping", [])), b"[]"],
    ids=repr,
)
def test_a_refusal_fits_the_schema(message: bytes, version: str) -> None:
    """MSG-7, MSG-8."""
    for event in opened(version).receive(message):
        if isinstance(event, Rejected):
            assert event.text is not None
            check(event.text, version)


@pytest.mark.parametrize("version", HAS_SHAPE)
def test_a_transport_can_refuse_what_it_could_not_read(version: str) -> None:
    """STDIO-6."""
    sent = opened(version).send_refusal(ParseError("The line is too long"))
    assert sent is not None
    check(sent, version)


@pytest.mark.parametrize("version", NO_SHAPE)
def test_a_transport_stays_silent_where_no_error_lacks_an_id(version: str) -> None:
    """MSG-8."""
    assert opened(version).send_refusal(ParseError("The line is too long")) is None


@given(st.binary())
def test_no_bytes_make_receive_raise(line: bytes) -> None:
    assert len(Connection().receive(line)) == 1


@pytest.mark.parametrize("version", VERSIONS)
@given(value=JSON)
def test_no_json_value_makes_receive_raise(version: str, value: Any) -> None:
    assert opened(version).receive(text(value))


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


@pytest.mark.parametrize("version", VERSIONS)
@given(values=st.lists(NEARLY | st.lists(NEARLY, max_size=3), max_size=4))
def test_nothing_that_resembles_messages_makes_receive_raise(
    version: str, values: list[Any]
) -> None:
    """What is refused is JSON, and what is served can be answered."""
    connection = opened(version)
    for value in values:
        for event in connection.receive(text(value)):
            if isinstance(event, Rejected) and event.text is not None:
                json.loads(event.text)
            elif isinstance(event, Request):
                connection.send_result(event, b"")


# --- the handshake --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", LEGACY)
def test_a_version_that_is_supported_is_agreed_on(version: str) -> None:
    """LIFE-2."""
    connection = Connection()
    hello = one(connection, initialize(version, 1), Request)
    assert connection.revision is hello.revision is revision(version)


@pytest.mark.parametrize(
    "version", ["1999-01-01", "2099-01-01", "", "latest", "2025-06-18 ", "ü", *MODERN]
)
def test_any_other_version_yields_the_newest_with_a_handshake(version: str) -> None:
    """LIFE-3, LIFE-4."""
    hello = one(Connection(), initialize(version, 1), Request)
    assert hello.revision.version == NEWEST


def test_the_handshake_goes_through_three_states() -> None:
    """LIFE-1."""
    connection = Connection()
    states = [connection.state]
    hello = one(connection, initialize(NEWEST, 1), Request)
    states.append(connection.state)
    connection.send_result(hello, b"")
    states.append(connection.state)
    told = one(connection, notification("notifications/initialized"), Notification)
    states.append(connection.state)
    assert states == [State.NEW, State.OPENING, State.OPENING, State.OPEN]
    assert told.notice == "initialized"


def test_the_handshake_tells_who_the_client_is() -> None:
    capabilities = {"roots": {"listChanged": True}, "invented": {}}
    connection = Connection()
    hello = one(connection, initialize(NEWEST, 1, capabilities=capabilities), Request)
    assert hello.client == connection.client == ClientProfile(capabilities, CLIENT)
    assert started(connection, NEWEST, 2).client is connection.client


@pytest.mark.parametrize("version", LEGACY)
def test_a_request_between_the_answer_and_the_notification_is_served(version: str) -> None:
    """LIFE-7: clients race."""
    connection = Connection()
    one(connection, initialize(version, 1), Request)
    assert started(connection, version, 2).revision.version == version


@pytest.mark.parametrize("method", ["tools/list", "resources/subscribe", "a/b"])
def test_a_request_before_the_handshake_is_an_invalid_request(method: str) -> None:
    """LIFE-1, LIFE-7; -32600."""
    assert refusal(Connection(), request("early", method)) == (-32600, "early")


def test_ping_is_served_before_the_handshake() -> None:
    """PING-1, LIFE-7."""
    connection = Connection()
    ping = one(connection, request(1, "ping"), Request)
    assert connection.send_result(ping, b"") == b'{"jsonrpc":"2.0","id":1,"result":{}}'
    assert connection.state is State.NEW


@pytest.mark.parametrize("version", LEGACY)
def test_ping_is_served_during_and_after_the_handshake(version: str) -> None:
    """PING-1."""
    connection = Connection()
    hello = one(connection, initialize(version, 1), Request)
    assert one(connection, request(2, "ping"), Request).known.operation == "ping"
    connection.send_result(hello, b"")
    connection.receive(text(notification("notifications/initialized")))
    assert one(connection, request(3, "ping"), Request).revision.version == version


@pytest.mark.parametrize("version", LEGACY)
def test_a_session_that_was_taken_up_is_initialized_already(version: str) -> None:
    """LIFE-11; -32600."""
    connection = Connection(revision(version))
    assert refusal(connection, initialize("2024-11-05", "again")) == (-32600, "again")
    assert connection.revision is revision(version)
    assert connection.state is State.OPEN


@pytest.mark.parametrize("version", LEGACY)
def test_a_second_initialize_begins_anew(version: str) -> None:
    """Bridges put several clients behind one server's streams."""
    connection = opened(NEWEST)
    before = one(connection, request(1, "tools/list"), Request)
    again = one(connection, initialize(version, "again", capabilities={"roots": {}}), Request)
    assert connection.state.name == "OPENING"
    assert again.revision is revision(version)
    assert connection.send_result(again, b"")
    connection.receive(text(notification("notifications/initialized")))
    assert connection.state.name == "OPEN"
    after = one(connection, request(2, "tools/list"), Request)
    assert after.revision is revision(version)
    assert after.client.capabilities == {"roots": {}}
    assert before.revision is revision(NEWEST)
    assert connection.send_result(before, b"")


@pytest.mark.parametrize("version", LEGACY)
def test_a_handshake_may_follow_upon_a_probe(version: str) -> None:
    """ERA-1: the client has asked which versions there are, and takes one with a handshake."""
    connection = Connection()
    probe = one(connection, announced(1, "server/discover"), Request)
    assert connection.send_result(probe, b"")
    hello = one(connection, initialize(version, 2), Request)
    assert hello.revision is revision(version)


MALFORMED_HELLO: dict[str, dict[str, Any]] = {
    "no version": {"capabilities": {}, "clientInfo": {}},
    "a number as version": {"protocolVersion": 2, "capabilities": {}, "clientInfo": {}},
    "a list as version": {"protocolVersion": [], "capabilities": {}, "clientInfo": {}},
    "no capabilities": {"protocolVersion": NEWEST, "clientInfo": {}},
    "a list of capabilities": {
        "protocolVersion": NEWEST,
        "capabilities": [],
        "clientInfo": {},
    },
    "no client info": {"protocolVersion": NEWEST, "capabilities": {}},
    "a name as client info": {
        "protocolVersion": NEWEST,
        "capabilities": {},
        "clientInfo": "me",
    },
}


@pytest.mark.parametrize("params", MALFORMED_HELLO.values(), ids=MALFORMED_HELLO)
def test_a_malformed_initialize_may_be_tried_again(params: dict[str, Any]) -> None:
    """-32602."""
    connection = Connection()
    assert refusal(connection, request(1, "initialize", params)) == (-32602, 1)
    assert connection.state is State.NEW
    assert one(connection, initialize(NEWEST, 1), Request).method == "initialize"


# --- requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_every_method_of_a_revision_is_served(version: str) -> None:
    for method, known in revision(version).methods.items():
        connection = Connection() if method == "initialize" else opened(version)
        message = initialize(version, 1) if method == "initialize" else ask(version, 1, method)
        event = one(connection, message, Request)
        assert (event.method, event.known, event.revision) == (method, known, revision(version))


ALL_METHODS = sorted({method for version in VERSIONS for method in revision(version).methods})
EVERYWHERE_UNKNOWN = ["a/b", "", "tools/List", "notifications/cancelled", "tasks/new"]


@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("method", EVERYWHERE_UNKNOWN)
def test_an_unknown_method_is_not_found(method: str, version: str) -> None:
    """-32601."""
    assert refusal(opened(version), request("x", method)) == (-32601, "x")


@pytest.mark.parametrize("version", MODERN)
@pytest.mark.parametrize(
    "method",
    [*EVERYWHERE_UNKNOWN, *(m for m in ALL_METHODS if m not in revision(MODERN[-1]).methods)],
)
def test_a_method_that_a_modern_revision_lacks_is_not_found(method: str, version: str) -> None:
    """ERA-1; -32601."""
    assert refusal(opened(version), announced("x", method, version)) == (-32601, "x")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_carries_params_and_meta(version: str) -> None:
    message = ask(version, 1, "tools/call", name="t")
    message["params"].setdefault("_meta", {})["progressToken"] = 0
    event = one(opened(version), message, Request)
    assert event.params == message["params"]
    assert event.meta == message["params"]["_meta"]


@pytest.mark.parametrize(
    "params",
    [[], [1], "x", 0, False, 1.5, *({"_meta": wrong} for wrong in ("x", 0, False)), {"_meta": []}],
    ids=repr,
)
@pytest.mark.parametrize("version", VERSIONS)
def test_params_and_meta_must_be_objects(version: str, params: object) -> None:
    """-32602."""
    assert refusal(opened(version), request(1, "tools/list", params)) == (-32602, 1)


@pytest.mark.parametrize("token", [1.5, 1.0, True, [], {}], ids=repr)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_progress_token_must_be_a_string_or_an_integer(version: str, token: object) -> None:
    """-32602."""
    message = ask(version, 1, _meta={}) if version in LEGACY else announced(1, "tools/list")
    message["params"]["_meta"]["progressToken"] = token
    assert refusal(opened(version), message) == (-32602, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_members_nobody_knows_are_tolerated(version: str) -> None:
    """MSG-17."""
    message = ask(version, 1, "tools/list", invented=True) | {"extra": 1, "more": 2}
    assert one(opened(version), message, Request).params["invented"] is True


# --- answers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("id", IDS, ids=repr)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_has_the_id_with_its_json_type(version: str, id: int | str) -> None:
    """MSG-2."""
    connection = opened(version)
    sent = connection.send_result(started(connection, version, id), b'"a":1')
    assert sent is not None
    assert json.loads(sent) == {"jsonrpc": "2.0", "id": id, "result": {"a": 1}}
    assert type(json.loads(sent)["id"]) is type(id)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_has_the_id_code_and_data(version: str) -> None:
    """MSG-7, ERR-5."""
    connection = opened(version)
    error = InvalidParams("no", data={"a": 1})
    sent = connection.send_error(started(connection, version, "x"), error)
    assert sent is not None
    check(sent, version)
    body = {"code": -32602, "message": "no", "data": {"a": 1}}
    assert json.loads(sent) == {"jsonrpc": "2.0", "id": "x", "error": body}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_is_answered_once(version: str) -> None:
    connection = opened(version)
    asked = started(connection, version, 1)
    assert connection.is_in_flight(asked)
    assert connection.send_result(asked, b"") is not None
    assert not connection.is_in_flight(asked)
    assert connection.send_result(asked, b"") is None
    assert connection.send_error(asked, InternalError("no")) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_an_id_that_is_in_flight_cannot_be_used_again(version: str) -> None:
    """MSG-3, MSG-4; -32600. The first request is still answered."""
    connection = opened(version)
    asked = started(connection, version, 1)
    assert refusal(connection, ask(version, 1)) == (-32600, 1)
    assert connection.send_result(asked, b"") is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_an_id_can_be_used_again_after_its_answer(version: str) -> None:
    """MSG-4 (and tolerated before)."""
    connection = opened(version)
    connection.send_result(started(connection, version, 1), b"")
    connection.send_error(started(connection, version, 1), InternalError("no"))
    assert connection.send_result(started(connection, version, 1), b"") is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_number_and_its_text_are_two_ids(version: str) -> None:
    """MSG-2."""
    connection = opened(version)
    number, word = started(connection, version, 1), started(connection, version, "1")
    assert connection.send_result(word, b"") == b'{"jsonrpc":"2.0","id":"1","result":{}}'
    assert connection.send_result(number, b"") == b'{"jsonrpc":"2.0","id":1,"result":{}}'


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_that_was_refused_does_not_occupy_its_id(version: str) -> None:
    connection = opened(version)
    refusal(connection, ask(version, 1, "a/b"))
    assert started(connection, version, 1).id == 1


# --- cancellation ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_can_be_cancelled(version: str) -> None:
    """CANC-1."""
    connection = opened(version)
    asked = started(connection, version, 1)
    event = one(connection, cancelled(1, reason="late"), Cancelled)
    assert (event.request, event.reason) == (asked, "late")


@pytest.mark.parametrize("reason", [None, 1, [], {}], ids=repr)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_reason_that_is_no_text_is_ignored(version: str, reason: object) -> None:
    """CANC-2."""
    connection = opened(version)
    started(connection, version, 1)
    assert one(connection, cancelled(1, reason=reason), Cancelled).reason is None


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_never_follows_a_cancelled(version: str) -> None:
    """CANC-1, CANC-4."""
    connection = opened(version)
    asked = started(connection, version, 1)
    one(connection, cancelled(1), Cancelled)
    assert not connection.is_in_flight(asked)
    assert connection.send_result(asked, b"") is None
    assert connection.send_error(asked, InternalError("no")) is None
    assert connection.forget(asked) is None


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_never_follows_a_cancellation_even_if_its_id_is_used_again(version: str) -> None:
    """CANC-4, MSG-4."""
    connection = opened(version)
    asked = started(connection, version, 1)
    one(connection, cancelled(1), Cancelled)
    again = started(connection, version, 1)
    assert connection.send_result(asked, b'"old":1') is None
    assert connection.send_error(asked, InternalError("no")) is None
    assert connection.send_result(again, b"") is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_forgetting_a_cancelled_request_leaves_alone_who_uses_its_id_now(version: str) -> None:
    """MSG-4."""
    connection = opened(version)
    asked = started(connection, version, 1)
    one(connection, cancelled(1), Cancelled)
    again = started(connection, version, 1)
    connection.forget(asked)
    assert connection.is_in_flight(again)


@pytest.mark.parametrize("version", VERSIONS)
def test_cancelling_what_does_not_run_is_ignored(version: str) -> None:
    """CANC-2, CANC-3: unknown, finished, or an id of another type."""
    connection = opened(version)
    connection.send_result(started(connection, version, 1), b"")
    started(connection, version, 2)
    for id in (1, 3, "2"):
        one(connection, cancelled(id), Ignored)


@pytest.mark.parametrize(
    "params",
    [None, {}, [], "x", *({"requestId": wrong} for wrong in NO_IDS)],
    ids=repr,
)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_malformed_cancellation_is_ignored(version: str, params: object) -> None:
    """CANC-2."""
    connection = opened(version)
    asked = started(connection, version, 1)
    one(connection, notification("notifications/cancelled", params), Ignored)
    assert connection.is_in_flight(asked)


@pytest.mark.parametrize("version", LEGACY)
def test_initialize_cannot_be_cancelled(version: str) -> None:
    """LIFE-9."""
    connection = Connection()
    hello = one(connection, initialize(version, 1), Request)
    one(connection, cancelled(1), Ignored)
    assert connection.send_result(hello, b"") is not None


# --- notifications --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_every_notification_of_a_revision_arrives(version: str) -> None:
    for method, notice in revision(version).notices.items():
        if notice != "cancelled":
            event = one(opened(version), notification(method, {"a": 1}), Notification)
            assert (event.notice, event.params) == (notice, {"a": 1})


@pytest.mark.parametrize(
    "method", ["notifications/invented", "", "tools/list", "ping", "initialize", "a/b"]
)
@pytest.mark.parametrize("version", VERSIONS)
def test_an_unknown_notification_is_ignored(version: str, method: str) -> None:
    """MSG-5."""
    one(opened(version), notification(method), Ignored)


@pytest.mark.parametrize("params", [[], "x", 1, True], ids=repr)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_malformed_notification_is_ignored(version: str, params: object) -> None:
    """MSG-5."""
    one(opened(version), notification("notifications/progress", params), Ignored)


def test_a_notification_before_the_handshake_does_not_replace_it() -> None:
    """LIFE-1."""
    connection = Connection()
    one(connection, notification("notifications/initialized"), Ignored)
    assert connection.state is State.NEW


# --- asking the client ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", LEGACY)
def test_a_request_to_the_client_is_answered_under_its_own_id(version: str) -> None:
    connection = opened(version)
    first, sent = connection.send_request("roots/list")
    second, _ = connection.send_request("roots/list")
    check(sent, version)
    assert first != second
    assert json.loads(sent)["id"] == first
    answer = one(connection, {"jsonrpc": "2.0", "id": first, "result": {"roots": []}}, Response)
    assert answer == Response(first, {"roots": []}, None)


@pytest.mark.parametrize("version", LEGACY)
def test_the_client_may_use_the_ids_that_we_use(version: str) -> None:
    """Each side numbers its own requests."""
    connection = opened(version)
    ours, _ = connection.send_request("ping")
    theirs = started(connection, version, ours)
    one(connection, {"jsonrpc": "2.0", "id": ours, "result": {}}, Response)
    assert connection.send_result(theirs, b"") is not None


@pytest.mark.parametrize(
    ("code", "kind"), [(-1, ProtocolError), (-32602, InvalidParams), (-32603, InternalError)]
)
def test_an_error_from_the_client_is_an_exception(code: int, kind: type[ProtocolError]) -> None:
    body = {"code": code, "message": "User rejected", "data": [1]}
    connection = opened(NEWEST)
    answer = one(connection, {"jsonrpc": "2.0", "id": 1, "error": body}, Response)
    assert answer.result is None
    assert type(answer.error) is kind
    assert (answer.error.code, str(answer.error), answer.error.data) == (
        code,
        "User rejected",
        [1],
    )


BROKEN_ANSWERS: dict[str, dict[str, Any]] = {
    "no id": {"jsonrpc": "2.0", "result": {}},
    "an error without an id": {"jsonrpc": "2.0", "error": {"code": 1, "message": ""}},
    "a null id": {"jsonrpc": "2.0", "id": None, "result": {}},
    "an error with a null id": {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32700, "message": ""},
    },
    "a float id": {"jsonrpc": "2.0", "id": 1.0, "result": {}},
    "no jsonrpc": {"id": 1, "result": {}},
    "jsonrpc 1.0": {"jsonrpc": "1.0", "id": 1, "error": {"code": 1, "message": ""}},
    "result and error (MSG-6)": {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}},
    "a result and a null error (MSG-6)": {"jsonrpc": "2.0", "id": 1, "result": {}, "error": None},
    "a list as the result": {"jsonrpc": "2.0", "id": 1, "result": []},
    "a null result": {"jsonrpc": "2.0", "id": 1, "result": None},
    "text as the error": {"jsonrpc": "2.0", "id": 1, "error": "no"},
    "a null error": {"jsonrpc": "2.0", "id": 1, "error": None},
}


@pytest.mark.parametrize("message", BROKEN_ANSWERS.values(), ids=BROKEN_ANSWERS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_broken_answer_is_ignored_since_an_answer_is_never_answered(
    version: str, message: dict[str, Any]
) -> None:
    """Its id is one of ours: under it, the client would look for a request of its own."""
    one(opened(version), message, Ignored)


@pytest.mark.parametrize("version", LEGACY)
def test_a_notification_to_the_client_fits_the_schema(version: str) -> None:
    connection = opened(version)
    check(connection.send_notification("notifications/tools/list_changed"), version)
    params = {"progressToken": 0, "progress": 1}
    check(connection.send_notification("notifications/progress", params), version)
