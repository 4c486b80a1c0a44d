"""Every limit of the endpoint: its default, what happens at it, and that it is released again.

SEC-17 wants limits; `Limits` documents them. What concerns sockets is in `test_pressure`.
"""

from __future__ import annotations

import logging
import select
from typing import Any

import pytest

from mcpkit import Client
from mcpkit.http import HttpRequest
from mcpkit.transports.http import sessions
from tests.kit import eventually
from tests.messages import (
    BATCHES,
    LAST_HANDSHAKE,
    LEGACY,
    MODERN,
    announced,
    called,
    initialize,
    notification,
    request,
)
from tests.transports.http.attack import connect, head, post_head
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import EVENTS, STREAMS, Exchange, OldTalk, Site


def is_unavailable(answer: Exchange, setting: str) -> bool:
    """Whether a server without room says so, which setting it is, and when to come back."""
    assert answer.refusal == (503, -32603)
    assert setting in answer.error
    retry = answer.header("retry-after")
    return retry is not None and int(retry) >= 1


# --- max_body -------------------------------------------------------------------------------------


HEADERS = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "server/discover"}


def test_a_longer_body_is_413_before_it_arrives(serve: Serve) -> None:
    """SEC-17: what Content-Length says is enough."""
    site = serve(max_body=1000)
    with connect(site.host.port) as raw:
        raw.send(post_head(site.path, {**HEADERS, "Content-Length": "1001"}))
        assert raw.status() == 413
    answer = site.post(b" " * 1001, HEADERS)
    assert answer.refusal == (413, -32600)
    assert "1000" in answer.error
    assert "max_body" in answer.error


def test_a_body_of_unknown_length_is_413_once_it_is_too_long(serve: Serve) -> None:
    """SEC-17: chunked, and no end in sight."""
    site = serve(max_body=100_000)
    with connect(site.host.port) as raw:
        raw.send(post_head(site.path, {**HEADERS, "Transfer-Encoding": "chunked"}))
        for size in (0x8000, 0x8000, 0x8000, 0x1000):
            raw.send(b"%x\r\n%b\r\n" % (size, b" " * size))
        assert raw.status() == 413


# --- max_values -----------------------------------------------------------------------------------


def test_a_message_of_more_values_than_allowed_is_413_and_says_so(serve: Serve) -> None:
    """SEC-17."""
    site = serve(max_values=100)
    message = announced(1, "server/discover")
    assert site.post({**message, "more": [0] * 50}, HEADERS).status == 200
    answer = site.post({**message, "more": [0] * 100}, HEADERS)
    assert answer.refusal == (413, -32600)
    assert answer.error == "The body has more than 100 values (the server's limit is max_values)"


def test_a_large_message_has_no_long_numbers(site: Site) -> None:
    """Reading one takes the square of its digits. SEC-17."""
    message = announced(1, "server/discover")
    assert site.post({**message, "more": [10**399] * 200}, HEADERS).status == 200
    answer = site.post({**message, "more": [10**400] * 200}, HEADERS)
    assert answer.status == 413
    assert answer.error == "The body has a number of more than 400 digits"


# --- body_timeout ---------------------------------------------------------------------------------


@pytest.mark.parametrize("begun", [b"", b'{"jsonrpc"'])
def test_a_body_that_does_not_arrive_is_408(serve: Serve, begun: bytes) -> None:
    """SEC-17: and bytes that go on arriving get no more time."""
    site = serve(body_timeout=0.2)
    with connect(site.host.port) as silent, connect(site.host.port) as slow:
        for raw in (silent, slow):
            raw.send(post_head(site.path, {"Content-Length": "100000"}) + begun)

        def is_answered() -> bool:
            slow.send(b" ")
            return bool(select.select([slow.socket], [], [], 0.02)[0])

        assert eventually(is_answered)
        assert (silent.status(), slow.status()) == (408, 408)


# --- max_requests ---------------------------------------------------------------------------------


def test_one_more_request_than_may_run_is_503_until_one_has_ended(serve: Serve) -> None:
    """SEC-17: also over HTTP+SSE."""
    site = serve(sse=True, max_requests=3, max_each=10**6)
    talk, old = site.begin(), OldTalk(site)
    old.begin()
    running = [site.call("hold", name="one"), talk.call("hold", name="two")]
    old.call("hold", name="old")
    for name in ("one", "two", "old"):
        site.stage.expect("begun", name)
    for refused in (site.call("add", a=1, b=2), talk.request("ping"), old.post(request(2, "ping"))):
        assert is_unavailable(refused, "max_requests")
    site.stage.release("one")
    assert running[0].text == "one went on"
    assert eventually(lambda: site.call("add", a=1, b=2).status == 200)
    site.stage.release("old")
    assert old.next()["id"] == 1
    site.stage.release("two")


# --- request_timeout ------------------------------------------------------------------------------


def test_a_request_that_takes_too_long_is_cancelled_and_answered(serve: Serve) -> None:
    """SEC-17: total time per request; in every revision, all at once."""
    site = serve(request_timeout=0.3)
    calls = [(each, site.speaking(each).call("hold", name=each)) for each in (*LEGACY, MODERN)]
    batch = [request(id, "tools/call", called("hold", {"name": f"b{id}"})) for id in (1, 2)]
    batched = site.begin(BATCHES).post([*batch, request(3, "ping")])
    for version, answer in calls:
        assert (version, *answer.refusal) == (version, 200, -32603)
        assert "longer than 0.3 seconds" in answer.error
        site.stage.expect("been cancelled", version)
    answers = {each["id"]: each for each in batched.json}
    assert answers[1]["error"]["code"] == answers[2]["error"]["code"] == -32603
    assert answers[3]["result"] == {}


def test_the_same_goes_for_one_that_streams(serve: Serve) -> None:
    """From whenever it has become a stream: at once, or after a while."""
    site = serve(request_timeout=0.4, stream_after=0.2)
    calls: list[tuple[str, Exchange]] = []
    for era in (LAST_HANDSHAKE, MODERN):
        for said in (["first"], []):
            name = f"{era} {said}"
            calls.append((name, site.speaking(era).call("chat", name=name, before=said, after=[])))
    for name, answer in calls:
        assert (name, answer.kind) == (name, EVENTS)
        assert (name, answer.messages()[-1]["error"]["code"]) == (name, -32603)
        site.stage.expect("been cancelled", name)


def test_subscriptions_may_take_as_long_as_they_like(serve: Serve) -> None:
    """SUB-1: nothing but an end of its own ends a subscription."""
    site = serve(request_timeout=0.3)
    listening = site.ask(
        "subscriptions/listen", notifications={"resourceSubscriptions": ["wire://a"]}
    )
    assert listening.message()["method"] == "notifications/subscriptions/acknowledged"
    assert site.call("hold", name="later").code == -32603, "which began later, and is over"
    site.call("touch", uri="wire://a")
    assert listening.message()["method"] == "notifications/resources/updated"


# --- rate_limit -----------------------------------------------------------------------------------


def test_more_requests_than_the_rate_allows_are_429(serve: Serve) -> None:
    """SEC-10, SEC-17."""
    site = serve(rate_limit=0.01)
    assert site.call("add", a=1, b=2).status == 200
    answer = site.call("add", a=1, b=2)
    assert answer.refusal == (429, -32600)
    assert 90 < int(answer.header("retry-after") or 0) <= 100


@pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])
async def test_two_a_second_are_enough_for_a_call(serve: Serve, revision: str) -> None:
    """What comes before it does not count, and a client that came too early comes again."""
    site = serve(rate_limit=2)
    for _ in range(2):
        async with Client(
            f"http://127.0.0.1:{site.host.port}{site.path}", revision=revision
        ) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"


# --- max_streams ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STREAMS)
def test_one_more_stream_than_may_be_open_is_503_until_a_client_leaves(
    serve: Serve, kind: str
) -> None:
    """SEC-17, SUB-9."""
    site = serve(max_streams=3, max_each=10**6, sse=True)
    streams = {each: site.open_stream(each) for each in STREAMS}
    assert {each.status for each in streams.values()} == {200}
    assert is_unavailable(site.open_stream(kind), "max_streams")
    streams[kind].drop()
    assert eventually(lambda: site.open_stream(kind).status == 200)


# --- sessions -------------------------------------------------------------------------------------


def test_if_all_sessions_are_in_use_one_more_is_503(serve: Serve) -> None:
    """SEC-17."""
    site = serve(max_sessions=2, max_each=10**6)
    streams = [site.begin().get() for _ in range(2)]
    assert [each.status for each in streams] == [200, 200]
    third = site.begin()
    assert is_unavailable(third.call("add", a=1, b=2), "max_sessions")
    assert is_unavailable(third.get(), "2 sessions are in use")
    assert site.call("add", a=1, b=2).status == 200, "which needs none"
    streams[0].drop()
    assert eventually(lambda: third.call("add", a=1, b=2).status == 200)


def test_thousands_of_sessions_are_not_looked_through_for_each_request(serve: Serve) -> None:
    """A flood of sessions must not make every other request slow."""
    site = serve(max_sessions=3000, max_each=10**6)
    assert site.begin().get().status == 200
    held = site.state.legacy.table
    looked = 0

    class Spied(sessions.LiveSession):
        @property
        def is_needed(self) -> bool:
            nonlocal looked
            looked += 1
            return True

    [known] = held._known.values()
    for number in range(2000):
        spied = Spied(known.id, str(number), held, known.owner)
        spied.session = known.session
        held._known[str(number)] = spied
    looked = 0
    for _ in range(5):
        assert site.begin().call("add", a=1, b=2).status == 200
    assert looked < 50


# --- what a message may be ------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [300, 5000, 40_000])
@pytest.mark.parametrize("brackets", ["[]", '{"a":}'], ids=["arrays", "objects"])
def test_json_that_is_nested_too_deep_is_no_json(site: Site, brackets: str, depth: int) -> None:
    """SEC-17."""
    opening, closing = brackets[:-1], brackets[-1]
    body = opening * depth + "1" + closing * depth
    assert site.post(body.encode()).refusal == (400, -32700)


def test_a_batch_that_is_too_long_is_413(serve: Serve) -> None:
    """SEC-17: batch length."""
    talk = serve(max_batch=3).begin(BATCHES)
    assert talk.post([request(id, "ping") for id in range(3)]).status == 200
    answer = talk.post([request(id, "ping") for id in range(4)])
    assert answer.refusal == (413, -32600)
    assert "max_batch" in answer.error


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "1 0", "9" * 5000])
def test_a_malformed_length_is_refused(site: Site, length: str) -> None:
    with connect(site.host.port) as raw:
        raw.send(post_head(site.path, {"Content-Length": length}) + b"{}")
        assert 400 <= raw.status() < 500


# --- what comes back in headers -------------------------------------------------------------------

EVIL = "a\r\nX-Evil: 1\r\n\r\nevil"
LONG = "é" * 50_000
NESTED: Any = [[[LONG]]] * 10


def completion(ref: dict[str, Any], argument: str = "") -> tuple[str, dict[str, Any]]:
    wanted = {"ref": ref, "argument": {"name": argument, "value": argument}}
    return "completion/complete", wanted


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (LONG, {}),
        ("tools/call", {"name": LONG}),
        ("tools/call", {"name": "add", "arguments": {LONG: 1, "a": LONG, "b": NESTED}}),
        ("tools/list", {"cursor": LONG}),
        ("prompts/get", {"name": LONG}),
        ("prompts/get", {"name": "greet", "arguments": {LONG: LONG}}),
        ("resources/read", {"uri": LONG * 2}),
        ("resources/subscribe", {"uri": LONG * 2}),
        ("logging/setLevel", {"level": LONG}),
        ("logging/setLevel", {"level": NESTED}),
        completion({"type": LONG}),
        completion({"type": "ref/prompt", "name": NESTED}),
        completion({"type": "ref/resource", "uri": LONG}),
        completion({"type": "ref/prompt", "name": "greet"}, LONG),
    ],
    ids=lambda each: str(each)[:40],
)
def test_an_error_quotes_only_a_part_of_the_message(
    site: Site, method: str, params: dict[str, Any]
) -> None:
    answer = site.begin().request(method, **params)
    assert answer.json.get("error") or answer.json["result"]["isError"]
    assert len(answer.body) < 2000


def test_an_error_repeats_a_part_only_of_an_id_or_a_header(site: Site) -> None:
    talk = site.begin()
    answers = [
        talk.post({"jsonrpc": "2.0", "id": "é" * 1024, "result": {}}),
        talk.post({"jsonrpc": "2.0", "id": LONG, "method": "ping"}),
        talk.get("x" * 50_000),
    ]
    assert [each.status for each in answers] == [409, 400, 400]
    for header in ("Host", "Origin", "MCP-Protocol-Version", "Last-Event-ID", "Mcp-Method"):
        sent = {**HEADERS, header: "x" * 50_000}
        answers.append(site.post(announced(1, "server/discover"), sent))
    assert all(len(each.body) < 2000 for each in answers)


def test_nothing_that_a_client_says_of_itself_gets_into_headers_as_it_is(serve: Serve) -> None:
    """SEC-18."""
    site = serve(principal=lambda http: EVIL)
    message = initialize(clientInfo={"name": EVIL, "version": EVIL}, capabilities={EVIL: {}})
    answer = site.post(message)
    assert answer.status == 200
    token = answer.header("mcp-session-id")
    assert token is not None
    assert token.isascii()
    assert token.replace("-", "").replace("_", "").isalnum()
    assert answer.header("x-evil") is None


@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp-Session-Id": "%0d%0aX-Evil: 1"},
        {"Last-Event-ID": "1.1\tX-Evil: 1"},
        {"MCP-Protocol-Version": "2025-11-25%0d%0aX-Evil: 1"},
        {"Origin": "http://a%0d%0aX-Evil: 1"},
    ],
)
def test_nothing_that_a_client_sends_in_headers_comes_back_in_them(
    site: Site, headers: dict[str, str]
) -> None:
    """SEC-18."""
    with connect(site.host.port) as raw:
        raw.send(head("GET", site.path, {"Accept": EVENTS, "Connection": "close", **headers}))
        answered = raw.rest().partition(b"\r\n\r\n")[0].lower()
    assert b"evil" not in answered


# --- secrets --------------------------------------------------------------------------------------


def test_no_secret_gets_into_the_log_or_an_error(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-13."""
    caplog.set_level(logging.DEBUG, logger="mcpkit")
    secret = {"Authorization": "Bearer s3cret", "Cookie": "id=s3cret"}
    talk = serve().begin(headers=secret)
    answers: list[Exchange] = []
    for headers in ({}, {"Origin": "https://evil.example"}, {"Accept": "text/plain"}):
        sent = {**secret, **headers}
        answers += talk.post(request(1, "ping"), sent), talk.post(b"{", sent), talk.get("x.1", sent)
    answers += talk.post(notification("notifications/unknown"), secret), talk.delete()
    for said in (caplog.text, *(each.body.decode() for each in answers)):
        assert "s3cret" not in said
        assert talk.token not in said


def test_a_request_does_not_show_its_headers_when_it_is_printed() -> None:
    """SEC-13."""
    scope = {
        "method": "POST",
        "path": "/mcp",
        "headers": [(b"authorization", b"Bearer s3cret")],
        "query_string": b"token=s3cret",
    }
    http = HttpRequest(scope)
    assert "s3cret" not in repr(http) + repr(http.headers)
