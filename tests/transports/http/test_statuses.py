"""Every status of PROTOCOL.md §2.4, in its columns for handshake revisions and for 2026-07-28."""

from __future__ import annotations

from typing import Any

import pytest

from tests.messages import MODERN, initialize, notification
from tests.transports.http.wire import EVENTS, JSON, Site, Talk

# --- handshake revisions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        notification("notifications/initialized"),
        notification("notifications/unheard_of"),
        notification("notifications/cancelled", {"requestId": 99}),
        notification("notifications/cancelled", {}),
    ],
    ids=["known", "unknown", "of nothing", "malformed"],
)
def test_a_notification_is_202_without_a_body(legacy: Talk, message: Any) -> None:
    """HTTPL-2, MSG-5, CANC-2."""
    answer = legacy.post(message)
    assert (answer.status, answer.body) == (202, b"")


BROKEN = [
    *((body, -32700) for body in (b"", b"{", b"\xff", b"NaN")),
    *((body, -32600) for body in (b"1", b"null", b"{}", b'{"id": "x", "method": "ping"}')),
    (b'{"jsonrpc": "2.0", "id": "x", "method": 7}', -32600),
    (b'{"jsonrpc": "2.0", "id": "x", "method": "ping", "params": {"a": "\\ud83d"}}', -32700),
    (b'{"jsonrpc": "2.0", "id": "x", "result": {"a": "\\ud83d"}}', -32700),
]


@pytest.mark.parametrize(("body", "code"), BROKEN, ids=repr)
def test_what_is_no_message_is_400(legacy: Talk, body: bytes, code: int) -> None:
    """MSG-1, MSG-7, MSG-8, ERR-5: the error has the id if there was one to read.

    It is sent even where the revision has no errors without an id, because HTTP needs a response.
    """
    answer = legacy.post(body)
    assert answer.refusal == (400, code)
    assert answer.json.get("id") == ("x" if b"method" in body else None)


def test_initialize_without_an_id_is_400(site: Site) -> None:
    """LIFE-1: as a notification it could not be answered."""
    answer = site.post(notification("initialize", initialize()["params"]))
    assert answer.refusal == (400, -32600)
    assert "needs an id" in answer.error


# --- both -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "version", "allowed"),
    [
        *((each, MODERN, "POST") for each in ("GET", "DELETE")),
        *((each, None, "GET, POST, DELETE") for each in ("PUT", "PATCH", "OPTIONS", "HEAD")),
    ],
)
def test_other_verbs_are_405(site: Site, verb: str, version: str | None, allowed: str) -> None:
    """HTTPM-14: a modern revision has neither GET nor DELETE."""
    answer = site.send(verb, {"Accept": EVENTS, "MCP-Protocol-Version": version})
    assert (answer.status, answer.header("allow")) == (405, allowed)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        *((each, 415) for each in (None, "text/plain", "application/jsonp", "text/json")),
        ("application/json; charset=utf-8", 200),
        ("Application/JSON", 200),
        ("application/json ;x=y", 200),
    ],
)
def test_a_content_type_that_is_not_json_is_415(site: Site, kind: str | None, status: int) -> None:
    """Its parameters and its case do not matter."""
    assert site.post(initialize(), {"Content-Type": kind}).status == status


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        *((each, 406) for each in ("text/html", JSON, EVENTS, "image/*")),
        *((each, 200) for each in (None, "*/*", f"{EVENTS};q=0.5,{JSON}", f"{JSON}, text/*")),
        *((each, 200) for each in (f"application/*, {EVENTS}", f"{JSON};q=0, {EVENTS}")),
    ],
)
def test_a_client_that_does_not_take_both_kinds_of_answer_is_406(
    site: Site, accept: str | None, status: int
) -> None:
    """HTTPL-1."""
    assert site.post(initialize(), {"Accept": accept}).status == status


def test_a_get_that_does_not_take_a_stream_is_406(site: Site) -> None:
    talk = site.begin()
    assert talk.get(headers={"Accept": JSON}).status == 406
    assert talk.get(headers={"Accept": None}).status == 200


def test_the_rest_of_the_server_is_404(site: Site) -> None:
    answer = site.post(initialize(), path=f"{site.path}/elsewhere")
    assert answer.status == 404
    assert site.path in answer.error
