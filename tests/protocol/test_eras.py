"""Requests that announce themselves, and both eras on one connection (ERA, VER, META)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpkit._protocol.connection import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    LOG_LEVEL_KEY,
    VERSION_KEY,
    Cancelled,
    Connection,
    Event,
    Ignored,
    Notification,
    Rejected,
    Request,
    State,
)
from mcpkit._protocol.revisions import ClientProfile
from mcpkit.types import LOG_LEVELS
from tests.messages import (
    LAST_HANDSHAKE,
    LEGACY,
    VERSIONS,
    announced,
    cancelled,
    initialize,
    meta,
    notification,
    request,
)
from tests.protocol.talk import MODERN, one, opened, receive, refusal, revision, started
from tests.schemas import check

NEW = "no handshake"
STARTS = [NEW, *LEGACY]
REMOVED = [
    *("initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"),
    *("tasks/list", "tasks/result"),
]
ONLY_MODERN = ["server/discover", "subscriptions/listen"]


def start(where: str) -> Connection:
    return Connection() if where == NEW else opened(where)


def with_meta(method: str, members: dict[str, Any]) -> dict[str, Any]:
    return request("m", method, {"_meta": members})


pytestmark = pytest.mark.parametrize("where", STARTS)


# --- a request announces itself -------------------------------------------------------------------


@pytest.mark.parametrize("version", MODERN)
def test_a_request_is_served_by_the_version_it_names(where: str, version: str) -> None:
    """VER-1, ERA-4."""
    event = one(start(where), announced(1, "tools/list", version), Request)
    assert event.revision is revision(version)


def test_a_request_has_its_own_client_and_no_other(where: str) -> None:
    """META-2…4, MSG-17, ERA-4: as it says, known or not; the handshake's stays as it is."""
    connection = start(where)
    before = (connection.state, connection.revision, connection.client)
    able = {"roots": {"listChanged": True}, "invented": {}}
    for info in ({"name": "x"}, {}, {"name": 1, "invented": []}):
        members = meta() | {CLIENT_INFO_KEY: info, CAPABILITIES_KEY: able}
        first = one(connection, with_meta("tools/list", members), Request)
        connection.send_result(first, b"")
        second = one(connection, announced("m", "tools/list"), Request)
        connection.send_result(second, b"")
        assert first.client == ClientProfile(able, info)
        assert second.client == ClientProfile({}, None)
    assert (connection.state, connection.revision, connection.client) == before


@pytest.mark.parametrize("level", [None, *LOG_LEVELS])
def test_a_request_may_ask_for_log_messages(where: str, level: str | None) -> None:
    """LOG-4."""
    members = meta() if level is None else meta() | {LOG_LEVEL_KEY: level}
    assert one(start(where), with_meta("tools/list", members), Request).log_level == level


# --- missing and malformed members ----------------------------------------------------------------


def test_half_an_announcement_is_invalid(where: str) -> None:
    """META-1, META-3; -32602. A method of the modern era has to announce itself."""
    for method in ("tools/list", "ping", "initialize", "a/b", *ONLY_MODERN):
        for key in (VERSION_KEY, CAPABILITIES_KEY):
            half = {name: value for name, value in meta().items() if name != key}
            assert refusal(start(where), with_meta(method, half)) == (-32602, "m")
    missing: list[object] = [None, {}, {"_meta": None}, {"_meta": {}}]
    for method in ONLY_MODERN:
        for params in missing:
            assert refusal(start(where), request("m", method, params)) == (-32602, "m")


WRONG: dict[str, list[object]] = {
    VERSION_KEY: [None, 1, [], {}, True],
    CAPABILITIES_KEY: [None, 1, [], "x", True],
    CLIENT_INFO_KEY: [1, [], "x", True],
    LOG_LEVEL_KEY: ["", "warn", "INFO", 1, True, [], {}],
}


@pytest.mark.parametrize(("key", "values"), WRONG.items(), ids=WRONG)
def test_a_member_of_the_wrong_type_is_invalid(where: str, key: str, values: list[object]) -> None:
    """META-1; -32602."""
    for wrong in values:
        message = with_meta("tools/list", meta() | {key: wrong})
        assert refusal(start(where), message) == (-32602, "m")


@pytest.mark.parametrize("key", [CLIENT_INFO_KEY, LOG_LEVEL_KEY, "io.modelcontextprotocol/other"])
def test_other_keys_do_not_make_a_request_modern(where: str, key: str) -> None:
    """The first line of the table of eras names two keys."""
    if where == NEW:
        assert refusal(start(where), with_meta("tools/list", {key: "x"})) == (-32600, "m")
    else:
        event = one(start(where), with_meta("tools/list", {key: "x"}), Request)
        assert (event.revision.version, event.log_level) == (where, None)


# --- versions -------------------------------------------------------------------------------------

UNKNOWN = ["1900-01-01", "2099-01-01", "", "latest", "2026-07-28 ", "ü"]


@pytest.mark.parametrize("version", UNKNOWN)
def test_an_unknown_version_is_refused_with_those_that_are_known(where: str, version: str) -> None:
    """VER-1, ERR-4, DISC-3; -32022, whatever the method."""
    for method in ("a/b", "initialize", "ping", *ONLY_MODERN):
        assert refusal(start(where), announced("m", method, version)) == (-32022, "m")
    event = one(start(where), announced("m", "tools/list", version), Rejected)
    assert event.text is not None
    check(event.text, "2026-07-28")
    error = json.loads(event.text)["error"]
    assert error["code"] == -32022
    assert error["data"] == {"supported": VERSIONS, "requested": version}


@pytest.mark.parametrize("version", LEGACY)
def test_a_version_with_a_handshake_cannot_be_announced(where: str, version: str) -> None:
    """ERA-2; -32602, since the list of -32022 would send the client round in circles."""
    for method in ("tools/list", "initialize", "ping", *ONLY_MODERN):
        event = one(start(where), announced("m", method, version), Rejected)
        assert (event.error.code, event.id) == (-32602, "m")
        assert "initialize" in event.error.message


@pytest.mark.parametrize("method", ["a/b", *REMOVED])
def test_methods_of_the_handshake_are_gone_from_the_modern_era(where: str, method: str) -> None:
    """ERA-1, ERR-5; -32601."""
    connection = start(where)
    before = connection.state
    event = one(connection, announced("m", method), Rejected)
    assert (event.error.code, event.id) == (-32601, "m")
    assert event.text is not None
    check(event.text, MODERN[-1])
    assert connection.state is before


# --- both eras at once ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["2026-07-28", "2099-01-01"])
def test_a_probe_may_come_before_a_handshake(where: str, version: str) -> None:
    """ERA-1, ERA-10, VER-2: also one that is rejected."""
    connection = start(where)
    receive(connection, announced("probe", "server/discover", version))
    if where == NEW:
        one(connection, initialize(LAST_HANDSHAKE, 1), Request)
        assert connection.state is State.OPENING
    assert connection.revision is not None


def test_an_announced_request_does_not_open_a_session(where: str) -> None:
    """META-3: nothing is inferred from an earlier request; MSG-4: both eras share their ids."""
    connection = start(where)
    asked = started(connection, MODERN[-1], 1)
    assert refusal(connection, request(1, "ping")) == (-32600, 1)
    assert connection.send_result(asked, b"") is not None
    if where == NEW:
        assert refusal(connection, request(2, "tools/list")) == (-32600, 2)
    else:
        assert started(connection, where, 2).revision.version == where


def test_each_era_sees_the_capabilities_of_its_own(where: str) -> None:
    """ERA-4, META-3: also during the handshake."""
    connection = Connection()
    version = where if where in LEGACY else LAST_HANDSHAKE
    hello = one(connection, initialize(version, 1, capabilities={"sampling": {}}), Request)
    modern = started(connection, MODERN[-1], 2)
    connection.send_result(hello, b"")
    legacy = started(connection, version, 3)
    assert (modern.client.capabilities, legacy.client.capabilities) == ({}, {"sampling": {}})
    assert (modern.revision.version, legacy.revision.version) == (MODERN[-1], version)


@pytest.mark.parametrize("cancelled_id", ["modern", "legacy"])
def test_a_cancellation_finds_a_request_of_either_era(where: str, cancelled_id: str) -> None:
    """ERA-3, CANC-4."""
    connection = start(where)
    running = {
        "modern": started(connection, MODERN[-1], "modern"),
        "legacy": one(connection, request("legacy", "ping"), Request),
    }
    assert one(connection, cancelled(cancelled_id), Cancelled).request is running[cancelled_id]
    for id, asked in running.items():
        assert (connection.send_result(asked, b"") is None) == (id == cancelled_id)


def test_a_notification_of_the_handshake_needs_one(where: str) -> None:
    """MSG-5."""
    kind: type[Event] = Ignored if where == NEW else Notification
    one(start(where), notification("notifications/roots/list_changed"), kind)
