"""No client may hold all of anything: others are served while one takes what it can get.

SEC-17 wants limits; these are the shares in them. Mallory takes until she is refused, and then
Alice asks for a little of the same. Both come from one address, and differ in their principal.
"""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from contextlib import ExitStack
from typing import Any

import pytest

from mcpkit import Context, MCPKit, SyncContext
from mcpkit._utils.quota import Quota
from mcpkit.transports.http import streams
from tests.kit import eventually
from tests.messages import BATCHES, announced, called, initialize, request
from tests.transports.http.attack import connect, head, post, post_head
from tests.transports.http.conftest import Serve, by_header
from tests.transports.http.wire import (
    EVENTS,
    STREAMS,
    Exchange,
    Headers,
    Host,
    OldTalk,
    Site,
    Talk,
    headers_of,
)

MALLORY = {"X-User": "mallory"}
ALICE = {"X-User": "alice"}
FEW = 8
"""Of whatever is limited: Mallory gets four, alone."""


@pytest.fixture
def shared(serve: Serve) -> Serve:
    """Serves an app whose clients say who they are."""

    def make(**options: Any) -> Site:
        return serve(principal=by_header, **options)

    return make


def call(site: Site, who: Headers, tool: str, **arguments: Any) -> Exchange:
    return site.ask("tools/call", who, **called(tool, arguments))


def adds(site: Site, who: Headers) -> bool:
    return call(site, who, "add", a=1, b=2).status == 200


def begin(site: Site, who: Headers, **members: Any) -> Talk:
    return site.begin(headers=who, **members)


def say(talk: Talk, who: Headers, tool: str, **arguments: Any) -> Exchange:
    return talk.post(request(next(talk._ids), "tools/call", called(tool, arguments)), who)


def quota(site: Site, name: str) -> Quota:
    found: Quota = getattr(site.state.open_requests.quotas, name)
    return found


def holds(site: Site, name: str, amount: int) -> bool:
    """Whether clients come to hold at least an amount."""
    return eventually(lambda: quota(site, name).used >= amount)


# --- requests -------------------------------------------------------------------------------------


def test_calls_of_one_client_leave_room_for_another(shared: Serve) -> None:
    site = shared(max_requests=FEW)
    for number in range(FEW // 2):
        call(site, MALLORY, "hold", name=str(number))
        site.stage.expect("begun", str(number))
    refused = call(site, MALLORY, "add", a=1, b=2)
    assert refused.status == 429
    assert "max_each" in refused.error
    assert refused.header("retry-after") is not None
    assert adds(site, ALICE)
    site.stage.release("0")
    assert eventually(lambda: adds(site, MALLORY)), "she has room again"


def test_bodies_that_do_not_arrive_leave_room_for_others(shared: Serve) -> None:
    site = shared(max_requests=FEW)
    with ExitStack() as stack:
        for _ in range(FEW // 2):
            raw = stack.enter_context(connect(site.host.port))
            raw.send(post_head(site.path, {"Content-Length": "100", **MALLORY}) + b"{")
        assert eventually(lambda: not adds(site, MALLORY))
        assert adds(site, ALICE)
    assert eventually(lambda: adds(site, MALLORY))


# --- requests whose clients have left, or are asked -----------------------------------------------


def test_more_calls_that_are_left_than_one_client_may_have_are_ended(shared: Serve) -> None:
    """HTTPL-20: the others go on, and take no room of calls."""
    site = shared(max_requests=2, max_parked=FEW)
    for number in range(FEW // 2 + 1):
        talk = begin(site, MALLORY)
        leaving = say(talk, MALLORY, "hold", name=str(number))
        site.stage.expect("begun", str(number))
        leaving.drop()
        if number < FEW // 2:
            assert holds(site, "waiting", number + 1)
    site.stage.expect("been cancelled", str(FEW // 2))
    assert not any(site.stage.has("been cancelled", str(each)) for each in range(FEW // 2))
    assert eventually(lambda: adds(site, MALLORY))
    leaving = say(begin(site, ALICE), ALICE, "hold", name="hers")
    site.stage.expect("begun", "hers")
    leaving.drop()
    assert eventually(lambda: quota(site, "waiting").used == FEW // 2 + 1)
    for name in ("hers", *map(str, range(FEW // 2))):
        site.stage.release(name)
    site.stage.expect("gone on", "hers")
    assert eventually(lambda: quota(site, "waiting").used == 0)


def test_open_questions_take_no_room_of_calls(shared: Serve) -> None:
    """Until they are answered, when their calls go on."""
    # Two requests each: the first may count until its client has read the response.
    site = shared(max_requests=4, max_parked=FEW)

    def asked(who: Headers, name: str) -> tuple[Talk, Exchange]:
        talk = begin(site, who, capabilities={"elicitation": {}})
        return talk, say(talk, who, "user", name=name)

    calls = [asked(MALLORY, str(number)) for number in range(FEW // 2)]
    questions = [call.message() for _, call in calls]
    assert {each["method"] for each in questions} == {"elicitation/create"}
    assert adds(site, MALLORY)
    _, refused = asked(MALLORY, "one more")
    assert "Too many questions" in json.dumps(refused.messages()[-1])
    assert asked(ALICE, "hers")[1].message()["method"] == "elicitation/create"
    held = quota(site, "waiting").used
    assert held == FEW // 2 + 1
    talk, call = calls[0]
    said = {"jsonrpc": "2.0", "id": questions[0]["id"], "result": {"action": "decline"}}
    assert talk.post(said, MALLORY).status == 202
    call.finish()
    assert eventually(lambda: quota(site, "waiting").used == held - 1)
    assert eventually(lambda: quota(site, "requests").used == 0)


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STREAMS)
def test_streams_of_one_client_leave_room_for_another(shared: Serve, kind: str) -> None:
    site = shared(max_streams=FEW, sse=True)
    statuses = [site.open_stream(kind, MALLORY).status for _ in range(FEW // 2 + 1)]
    assert statuses == [*[200] * (FEW // 2), 429]
    assert site.open_stream(kind, ALICE).status == 200


# --- bodies ---------------------------------------------------------------------------------------


def test_large_bodies_of_one_client_leave_room_for_those_of_another(shared: Serve) -> None:
    limit = 200_000
    site = shared(max_body=limit)
    with ExitStack() as stack:
        for number in range(FEW // 2 + 1):
            raw = stack.enter_context(connect(site.host.port))
            length = {"Content-Length": str(limit), **MALLORY}
            raw.send(post_head(site.path, length) + b" " * (limit - 1))
            if number < FEW // 2:
                held = (number + 1) * (limit - 1)
                assert holds(site, "bodies", held)
        assert raw.status() == 429, "which is the last"
        assert adds(site, MALLORY), "a small body is always read"
        large = call(site, ALICE, "echo", text="x" * (limit // 2))
        assert large.status == 200
    assert eventually(lambda: quota(site, "bodies").used == 0)


def test_a_stream_that_was_asked_for_at_length_holds_that_as_long_as_it_lasts(
    shared: Serve,
) -> None:
    site = shared()
    unknown = [f"unknown://{number}/{'x' * 1000}" for number in range(250)]
    wanted = {"resourceSubscriptions": unknown}
    listening = site.ask("subscriptions/listen", MALLORY, notifications=wanted)
    assert listening.message()["params"]["notifications"] == {}
    assert quota(site, "watched").used == 0
    assert quota(site, "bodies").used > 250_000, "its id and the facts of its client may be long"
    listening.drop()
    assert eventually(lambda: quota(site, "bodies").used == 0)


# --- subscriptions --------------------------------------------------------------------------------


@pytest.fixture
def watched(host: Host) -> Site:
    """An app whose resources have URIs as long as one likes."""
    app = MCPKit("watched")

    @app.resource("long://{+name}")
    async def long(name: str) -> str:
        return name

    return host.serve(app, principal=by_header, max_watched=FEW * 61_000)


def uri_of(number: int) -> str:
    return f"long://{number}/" + "x" * 60_000


def watches(talk: Talk, who: Headers, number: int, method: str = "resources/subscribe") -> bool:
    return "result" in talk.post(request(1, method, {"uri": uri_of(number)}), who).json


def test_uris_that_one_client_watches_leave_room_for_those_of_another(watched: Site) -> None:
    count = 0
    while watches(begin(watched, MALLORY), MALLORY, count):
        count += 1
    assert count == FEW // 2
    alice = begin(watched, ALICE)
    assert watches(alice, ALICE, 1)
    assert watches(alice, ALICE, 1), "it is watched already, which takes nothing"
    held = quota(watched, "watched").used
    assert watches(alice, ALICE, 1, "resources/unsubscribe")
    assert quota(watched, "watched").used < held - 60_000


def test_streams_of_changes_count_their_uris_until_they_end(watched: Site) -> None:
    def listening(who: Headers, number: int) -> Exchange:
        wanted = {"resourceSubscriptions": [uri_of(number)]}
        return watched.ask("subscriptions/listen", who, notifications=wanted)

    open_ones = [listening(MALLORY, number) for number in range(FEW // 2)]
    assert [each.kind for each in open_ones] == [EVENTS] * (FEW // 2)
    refused = listening(MALLORY, FEW)
    assert "Too many resources are watched" in refused.error
    assert listening(ALICE, 1).kind == EVENTS
    held = quota(watched, "watched").used
    open_ones[0].drop()
    assert eventually(lambda: quota(watched, "watched").used < held - 60_000)


# --- sessions -------------------------------------------------------------------------------------


def test_sessions_of_one_client_put_none_of_another_away(shared: Serve) -> None:
    site = shared(max_sessions=FEW)
    alice = begin(site, ALICE)
    assert alice.post(request(1, "logging/setLevel", {"level": "error"}), ALICE).status == 200
    for _ in range(3 * FEW):
        talk = begin(site, MALLORY)
        assert talk.post(request(1, "logging/setLevel", {"level": "error"}), MALLORY).status == 200
    table = site.state.legacy.table
    owners = [each.id.principal for each in list(table._known.values())]
    assert owners.count("alice") == 1
    assert owners.count("mallory") <= FEW // 2


# --- what waits to be read ------------------------------------------------------------------------


def test_large_responses_that_are_not_read_leave_room_for_others(shared: Serve) -> None:
    size = 4_000_000
    site = shared(max_unread=FEW * size + 8000)
    assert adds(site, ALICE)
    asking = announced(1, "tools/call", **called("large", {"size": size}))
    with ExitStack() as stack:
        for number in range(FEW // 2):
            raw = stack.enter_context(connect(site.host.port, receive_buffer=4096))
            raw.send(post(site.path, asking, {**headers_of(asking), **MALLORY}))
            assert holds(site, "unread", (number + 1) * size)
        refused = call(site, MALLORY, "large", size=size)
        assert refused.status == 503
        assert "max_unread" in refused.error
        assert call(site, MALLORY, "large", size=10).status == 200
        assert len(call(site, ALICE, "large", size=size).text) == size
    assert eventually(lambda: quota(site, "unread").used == 0)


def test_a_stream_that_is_not_read_is_dropped_when_too_much_waits(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SSE-3: all answers of a session go to its one stream."""
    monkeypatch.setattr(streams, "MAX_UNSENT", 1_000_000)
    site = serve(sse=True)
    with connect(site.host.port, receive_buffer=4096) as raw:
        raw.send(head("GET", site.beside("sse")))
        found = raw.until(b"\r\n\r\n") + raw.until(b"\n\n")
        where = found.decode().split("data: ")[1].split()[0]
        assert site.post(initialize("2024-11-05"), path=where).status == 202
        message = request(2, "tools/call", called("large", {"size": 200_000}))

        def is_dropped() -> bool:
            assert quota(site, "unread").used < 3_000_000
            return site.post({**message, "id": "again"}, path=where).status == 404

        for number in range(3, 40):
            if site.post({**message, "id": number}, path=where).status == 404:
                break
        assert eventually(is_dropped)
    assert eventually(lambda: quota(site, "unread").used == 0)
    assert site.state.open_requests.responses == set()


def test_streams_that_are_kept_for_resumption_are_bounded_in_number(shared: Serve) -> None:
    """HTTPL-13: of each a little is kept, also of one that said nothing."""
    site = shared(replay_buffer=FEW * 2048)
    alice, mallory = begin(site, ALICE), begin(site, MALLORY)
    hers = say(alice, ALICE, "tell", texts=["hers"])
    last = hers.events()[-1].id
    for _ in range(5 * FEW):
        say(mallory, MALLORY, "tell", texts=["x"]).finish()
    table = site.state.legacy.table
    kept = {each.id.principal: len(each._streams) for each in list(table._known.values())}
    assert kept["mallory"] <= FEW
    assert kept["alice"] == 1
    assert alice.get(last, ALICE).status == 200


def test_a_client_that_resumes_a_stream_again_and_again_and_reads_nothing_holds_one_answer(
    host: Host,
) -> None:
    """HTTPL-13: each connection takes the stream over from the one before."""
    app = MCPKit("resumed")

    @app.tool
    async def large(ctx: Context) -> str:
        await ctx.info("begun")
        return "x" * 4_000_000

    site = host.serve(app, principal=by_header)
    talk = begin(site, ALICE)
    answer = say(talk, ALICE, "large")
    last = answer.event().id
    answer.drop()
    resuming = {"Accept": EVENTS, "Last-Event-ID": last, **talk.headers, **ALICE}
    with ExitStack() as stack:
        for _ in range(10):
            raw = stack.enter_context(connect(host.port, receive_buffer=4096))
            raw.send(head("GET", site.path, resuming))
            raw.until(b"\r\n\r\n")
        assert eventually(lambda: len(site.state.open_requests.responses) == 1)
        assert quota(site, "unread").used < 5_000_000
    assert eventually(lambda: quota(site, "unread").used == 0)


def test_messages_over_http_sse_and_batches_count_until_all_is_answered(shared: Serve) -> None:
    """Each request of a batch takes a place."""
    site = shared(sse=True, max_requests=3 * FEW)
    old = OldTalk(site, MALLORY)
    old.begin()
    large = {**called("hold", {"name": "old"}), "_meta": {"more": "x" * 200_000}}
    assert old.post(request(2, "tools/call", large)).status == 202
    talk = begin(site, ALICE, version=BATCHES)
    hold = called("hold", {"name": "batch"})
    first, second = (
        [request(f"{name} {number}", "tools/call", hold) for number in range(FEW)] for name in "ab"
    )
    talk.post(first, ALICE)
    for name in ("old", "batch"):
        site.stage.expect("begun", name)
    assert holds(site, "bodies", 200_001)
    assert holds(site, "requests", FEW + 1)
    assert talk.post(second, ALICE).status == 429
    for name in ("old", "batch"):
        site.stage.release(name)
    assert eventually(lambda: quota(site, "bodies").used == 0)
    assert eventually(lambda: quota(site, "requests").used == 0)


def test_a_restored_session_takes_room_for_its_subscriptions(watched: Site) -> None:
    """State that was put away counts again."""
    talk = begin(watched, ALICE)
    assert watches(talk, ALICE, 1)
    table = watched.state.legacy.table
    [live] = [each for each in list(table._known.values()) if each.token == talk.token]

    def put_away() -> None:
        table.store.put(live.id.key, live.session.state, time.time() + 60)
        table._loop.start(table.discard(live))

    table._loop.soon(put_away)
    assert eventually(lambda: quota(watched, "watched").used == 0)
    assert say(talk, ALICE, "none").status == 200
    assert quota(watched, "watched").used > 60_000
    assert watches(talk, ALICE, 1, "resources/unsubscribe")
    assert quota(watched, "watched").used == 0


def test_every_call_gives_its_place_back_whatever_it_did(host: Host) -> None:
    """Also one whose work began in a thread, and those that come after it."""
    app = MCPKit("mixed")

    @app.resource("mixed://one")
    async def one() -> str:
        return "one"

    @app.tool
    def reads(ctx: SyncContext) -> str:
        return str(ctx.read_resource("mixed://one"))

    @app.tool
    async def quick() -> str:
        return "quick"

    site = host.serve(app, principal=by_header)
    assert call(site, ALICE, "quick").status == 200
    for _ in range(3):
        assert call(site, ALICE, "reads").status == 200
        for _ in range(20):
            assert call(site, ALICE, "quick").status == 200
    assert eventually(lambda: quota(site, "requests").used == 0)
    assert site.state.open_requests.requests == set()


# --- other messages -------------------------------------------------------------------------------


def test_pages_are_kept_by_where_they_begin_and_not_by_cursor(serve: Serve) -> None:
    """PAGE-4: a cursor is the client's to send, whatever it says."""
    site = serve(app={"page_size": 2})
    for number in range(50):
        cursor = urlsafe_b64encode(f"tools:0:{number}{'x' * 1000}".encode()).decode()
        assert site.ask("tools/list", cursor=cursor).status == 200
    assert len(site.app.server.registry._pages) == 1
