"""HTTP+SSE of 2024-11-05, beside the endpoint of today (SSE-1…9)."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.messages import LEGACY, NEWEST, called, initialize, notification, request
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import EVENTS, JSON, Exchange, Site


class Old:
    """A client of the two endpoints."""

    def __init__(self, site: Site, headers: dict[str, str] | None = None) -> None:
        self.site = site
        self.headers = headers or {}
        self.stream = site.get(headers, path=place(site, "sse"))
        self.first = self.stream.event()
        self.address = self.first.fields["data"]

    def post(self, message: Any, headers: dict[str, str] | None = None) -> Exchange:
        sent = {"Content-Type": JSON, **(self.headers if headers is None else headers)}
        body = message if isinstance(message, bytes) else None
        if body is None:
            return self.site.post(message, sent, self.address)
        return self.site.send("POST", sent, body, self.address)

    def ask(self, message: Any) -> Any:
        """Send a message and wait for the next one of the server."""
        taken = self.post(message)
        assert (taken.status, taken.body) == (202, b"")
        return self.next()

    def next(self) -> Any:
        event = self.stream.event()
        assert event.fields["event"] == "message"
        assert "id" not in event.fields
        return event.message

    def begin(self, version: str = "2024-11-05", **members: Any) -> Any:
        result = self.ask(initialize(version, **members))["result"]
        assert self.post(notification("notifications/initialized")).status == 202
        return result

    def call(self, tool: str, _id: Any = 1, /, **arguments: Any) -> None:
        assert self.post(request(_id, "tools/call", called(tool, arguments))).status == 202


def place(site: Site, name: str) -> str:
    """An endpoint beside the one of a site."""
    return site.path.replace("mcp", name)


@pytest.fixture
def old_site(serve: Serve) -> Site:
    return serve(sse=True)


@pytest.fixture
def old(old_site: Site) -> Old:
    return Old(old_site)


# --- two endpoints --------------------------------------------------------------------------------


def test_the_first_event_says_where_to_send_messages(old: Old) -> None:
    """SSE-1, SSE-2: at the same origin, with an id that nobody can guess."""
    assert set(old.first.fields) == {"event", "data"}
    assert old.first.fields["event"] == "endpoint"
    parts = urlsplit(old.address)
    assert (parts.scheme, parts.netloc, parts.path) == ("", "", place(old.site, "messages"))
    [[id]] = parse_qs(parts.query).values()
    assert len(id) >= 30


def test_the_stream_is_marked_for_proxies(old: Old) -> None:
    """SSE-7."""
    assert old.stream.kind == EVENTS
    assert old.stream.header("x-accel-buffering") == "no"
    assert old.stream.header("cache-control") == "no-cache, no-transform"


def test_answers_come_on_the_stream(old: Old) -> None:
    """SSE-3, SSE-4: a POST is answered with 202, and nothing else."""
    assert old.begin()["protocolVersion"] == "2024-11-05"
    answer = old.ask(request("mine", "tools/call", called("add", {"a": 1, "b": 2})))
    assert answer["id"] == "mine"
    assert answer["result"]["content"][0]["text"] == "3"


def test_everything_that_is_sent_comes_on_the_stream(old: Old) -> None:
    """SSE-3, §8.5: log messages, questions, changes."""
    old.begin(capabilities={"sampling": {}})
    old.call("tell", texts=["one"])
    assert [old.next().get("method"), old.next().get("id")] == ["notifications/message", 1]
    old.call("model", 2)
    question = old.next()
    assert question["method"] == "sampling/createMessage"
    said = {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}
    answered = old.ask({"jsonrpc": "2.0", "id": question["id"], "result": said})
    assert (answered["id"], answered["result"]["content"][0]["text"]) == (2, "hi")
    old.site.call("offer", name="told_to_old").finish()
    assert old.next()["method"] == "notifications/tools/list_changed"


def test_a_cancellation_is_a_notification(old: Old) -> None:
    """CANC-1, CANC-4."""
    old.begin()
    old.call("hold", 1, name="old cancelled")
    old.site.stage.expect("begun", "old cancelled")
    assert old.post(notification("notifications/cancelled", {"requestId": 1})).status == 202
    old.site.stage.expect("been cancelled", "old cancelled")
    assert old.ask(request(2, "ping"))["id"] == 2


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "?session_id=", "?session_id=unheard-of", "?other=1"])
def test_an_unknown_session_is_404(old: Old, query: str) -> None:
    """SSE-4."""
    address = f"{place(old.site, 'messages')}{query}"
    assert old.site.post(request(1, "ping"), path=address).status == 404


def test_a_foreign_page_is_403(old: Old) -> None:
    """SSE-5, SEC-1."""
    evil = {"Origin": "https://evil.example"}
    assert old.site.get(evil, path=place(old.site, "sse")).status == 403
    assert old.post(request(1, "ping"), evil).status == 403


@pytest.mark.parametrize(
    ("verb", "name"), [("POST", "sse"), ("GET", "messages"), ("DELETE", "sse")]
)
def test_other_verbs_are_405(old_site: Site, verb: str, name: str) -> None:
    """SSE-1: which is how a client finds out what it talks to (ERA-12)."""
    answer = old_site.send(verb, {"Accept": EVENTS}, path=place(old_site, name))
    assert answer.status == 405
    assert answer.header("allow") == ("GET" if name == "sse" else "POST")


# --- the life of a session ------------------------------------------------------------------------


def test_a_session_ends_with_its_stream(old: Old) -> None:
    """SSE-6: nothing can be fetched later, so what runs is of no use any more."""
    old.begin()
    old.call("hold", name="old and lost")
    old.site.stage.expect("begun", "old and lost")
    old.stream.drop()
    old.site.stage.expect("been cancelled", "old and lost")
    assert old.post(request(2, "ping")).status == 404


@pytest.mark.parametrize("version", LEGACY)
def test_any_handshake_revision_may_be_negotiated(old: Old, version: str) -> None:
    """SSE-8, LIFE-2."""
    assert old.begin(version)["protocolVersion"] == version
    assert old.ask(request(1, "ping"))["result"] == {}


def test_modern_revisions_may_not(old: Old) -> None:
    """SSE-8, LIFE-4."""
    assert old.begin("2026-07-28")["protocolVersion"] == NEWEST


def test_the_endpoint_of_today_is_there_as_well(old: Old) -> None:
    """SSE-9."""
    assert old.site.begin().call("add", a=1, b=2).text == "3"
    assert old.site.call("add", a=1, b=2).text == "3"


def test_nobody_has_the_old_endpoints_who_does_not_want_them(site: Site) -> None:
    """SSE-9."""
    for name in ("sse", "messages"):
        assert site.get(path=place(site, name)).status == 404
