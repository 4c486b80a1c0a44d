"""HTTP+SSE of 2024-11-05, beside the endpoint of today (SSE-1…9)."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from tests.messages import LAST_HANDSHAKE, LEGACY, MODERN, called, request
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import EVENTS, OldTalk, Site


@pytest.fixture
def old_site(serve: Serve) -> Site:
    return serve(sse=True)


@pytest.fixture
def old(old_site: Site) -> OldTalk:
    return OldTalk(old_site)


# --- two endpoints --------------------------------------------------------------------------------


def test_the_first_event_says_where_to_send_messages(old: OldTalk) -> None:
    """SSE-1, SSE-2, SSE-7: at the same origin, with an id that cannot be guessed."""
    assert old.stream.kind == EVENTS
    assert old.stream.header("x-accel-buffering") == "no"
    assert old.stream.header("cache-control") == "no-cache, no-transform"
    assert set(old.first.fields) == {"event", "data"}
    assert old.first.fields["event"] == "endpoint"
    parts = urlsplit(old.address)
    assert (parts.scheme, parts.netloc, parts.path) == ("", "", old.site.beside("messages"))
    [[id]] = parse_qs(parts.query).values()
    assert len(id) >= 30


def test_everything_that_is_sent_comes_on_the_stream(old: OldTalk) -> None:
    """SSE-3, SSE-4, §8.5: answers, log messages, questions, changes; a POST is only accepted."""
    assert old.begin(capabilities={"sampling": {}})["protocolVersion"] == "2024-11-05"
    answer = old.ask(request("mine", "tools/call", called("add", {"a": 1, "b": 2})))
    assert (answer["id"], answer["result"]["content"][0]["text"]) == ("mine", "3")
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


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["", "?session_id=", "?session_id=unheard-of", "?other=1"])
def test_an_unknown_session_is_404(old: OldTalk, query: str) -> None:
    """SSE-4."""
    address = old.site.beside(f"messages{query}")
    assert old.site.post(request(1, "ping"), path=address).status == 404


def test_a_foreign_page_is_403(old: OldTalk) -> None:
    """SSE-5, SEC-1."""
    evil = {"Origin": "https://evil.example"}
    assert old.site.get(evil, path=old.site.beside("sse")).status == 403
    assert old.post(request(1, "ping"), evil).status == 403


@pytest.mark.parametrize(
    ("verb", "name"), [("POST", "sse"), ("GET", "messages"), ("DELETE", "sse")]
)
def test_other_verbs_are_405(old_site: Site, verb: str, name: str) -> None:
    """SSE-1: which is how a client finds out what it talks to (ERA-12)."""
    answer = old_site.send(verb, {"Accept": EVENTS}, path=old_site.beside(name))
    assert answer.status == 405
    assert answer.header("allow") == ("GET" if name == "sse" else "POST")


# --- the life of a session ------------------------------------------------------------------------


def test_a_session_ends_with_its_stream(old: OldTalk) -> None:
    """SSE-6: nothing can be fetched later, so what runs is of no use any more."""
    old.begin()
    old.call("hold", name="old and lost")
    old.site.stage.expect("begun", "old and lost")
    old.stream.drop()
    old.site.stage.expect("been cancelled", "old and lost")
    assert old.post(request(2, "ping")).status == 404


@pytest.mark.parametrize("version", [*LEGACY, MODERN])
def test_any_handshake_revision_may_be_negotiated_and_no_other(old: OldTalk, version: str) -> None:
    """SSE-8, LIFE-2, LIFE-4."""
    negotiated = old.begin(version)["protocolVersion"]
    assert negotiated == (LAST_HANDSHAKE if version == MODERN else version)
    assert old.ask(request(1, "ping"))["result"] == {}


def test_the_endpoint_of_today_is_there_as_well(old: OldTalk, site: Site) -> None:
    """SSE-9: and it is alone where the others are not wanted."""
    assert old.site.begin().call("add", a=1, b=2).text == "3"
    assert old.site.call("add", a=1, b=2).text == "3"
    for name in ("sse", "messages"):
        assert site.get(path=site.beside(name)).status == 404
