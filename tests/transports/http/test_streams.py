"""What makes an answer a stream, and the stream that belongs to no request (HTTPL-3…12, 22)."""

from __future__ import annotations

import pytest

from mcpkit._utils.quota import Quota
from mcpkit.transports.http.streams import ReplayBuffer, Stream
from tests.messages import LEGACY, called
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import EVENTS, JSON, Site, Talk

CHANGED = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


# --- one object until something streams -----------------------------------------------------------


def test_what_says_nothing_meanwhile_is_one_object(legacy: Talk) -> None:
    """HTTPL-3, HTTPL-23: also if it has to be waited for."""
    name = f"quiet {legacy.version}"
    answer = legacy.call("hold", 7, name=name)
    legacy.site.stage.expect("begun", name)
    legacy.site.stage.release(name)
    assert (answer.status, answer.kind, answer.json["id"]) == (200, JSON, 7)


def test_log_messages_and_progress_make_a_stream_that_is_marked_for_proxies(legacy: Talk) -> None:
    """HTTPL-4, HTTPM-11, PROG-1: which ends with the answer."""
    answer, get = legacy.call("tell", texts=["one", "two"]), legacy.get()
    for each in (answer, get):
        assert each.kind == EVENTS
        assert each.header("x-accel-buffering") == "no"
        assert each.header("cache-control") == "no-cache, no-transform"
    *notes, last = answer.messages()
    assert [each["method"] for each in notes] == ["notifications/message"] * 2
    assert last["result"]["content"][0]["text"] == "told"
    wanted = called("advance", {"steps": 2})
    answer = legacy.request("tools/call", _meta={"progressToken": "mine"}, **wanted)
    *steps, last = answer.messages()
    params = [(each["params"]["progressToken"], each["params"]["progress"]) for each in steps]
    assert params == [("mine", 1), ("mine", 2)]
    assert "result" in last
    assert legacy.call("advance", steps=2).kind == JSON, "its progress is not wanted"


def test_log_messages_below_the_level_do_not(site: Site) -> None:
    """LOG-2: the level is that of the session, over all its connections, and of no other."""
    talk = site.begin()
    assert talk.request("logging/setLevel", level="error").result == {}
    assert talk.call("tell", texts=["one"]).kind == JSON
    assert site.begin().call("tell", texts=["one"]).kind == EVENTS


@pytest.mark.parametrize("version", LEGACY)
def test_a_long_wait_makes_a_stream_that_comments_keep(serve: Serve, version: str) -> None:
    """§6 of the design: no proxy gives up on a connection that says something."""
    site = serve(stream_after=0.1, keep_alive=0.02)
    answer = site.begin(version).call("hold", name="long")
    assert (answer.status, answer.kind) == (200, EVENTS)
    blocks = answer.blocks()
    assert next(each for each in blocks if each.comments).fields == {}
    assert next(each for each in blocks if each.comments).fields == {}
    site.stage.release("long")
    assert answer.text == "long went on"


def test_event_ids_are_unique_in_a_session(legacy: Talk) -> None:
    """HTTPL-12: across all its streams."""
    get = legacy.get()
    events = legacy.call("tell", texts=["a"]).events()
    events += legacy.call("tell", texts=["b"]).events()
    legacy.call("offer", name=f"unique_{legacy.version.replace('-', '_')}").finish()
    events.append(get.event())
    ids = [each.id for each in events]
    assert len(ids) >= 5
    assert len(set(ids)) == len(ids)


# --- the stream that belongs to no request --------------------------------------------------------


def test_changes_and_no_other_messages_come_on_the_stream_of_a_get(
    site: Site, legacy: Talk
) -> None:
    """HTTPL-8, HTTPL-9, HTTPL-10, HTTPL-11: of the list of tools, and of subscribed resources."""
    get = legacy.get()
    assert get.status == 200
    assert legacy.request("resources/subscribe", uri="wire://watched").result == {}
    assert legacy.call("add", a=1, b=2).text == "3"
    assert legacy.call("tell", texts=["one"]).text == "told"
    site.call("offer", name=f"added_{legacy.version.replace('-', '_')}").finish()
    assert get.message() == {"jsonrpc": "2.0", "method": CHANGED}
    site.call("touch", uri="wire://other").finish()
    site.call("touch", uri="wire://watched").finish()
    message = get.message()
    assert (message["method"], message["params"]) == (UPDATED, {"uri": "wire://watched"})


def test_a_question_that_no_request_causes_comes_there_once_until_it_is_answered(
    site: Site,
) -> None:
    """HTTPL-10, S2C-2, SEC-17: a client must not make the server ask without end."""
    talk = site.begin(capabilities={"roots": {"listChanged": True}})
    get = talk.get()
    assert talk.call("watch_roots", name="restless").text == "watching"
    for _ in range(20):
        assert talk.notify("notifications/roots/list_changed").status == 202
    first = get.message()
    talk.answer(first, roots=[{"uri": "file:///first"}]).finish()
    site.stage.expect("seen file:///first", "restless")
    second = get.message()
    talk.answer(second, roots=[{"uri": "file:///second"}]).finish()
    site.stage.expect("seen file:///second", "restless")
    talk.call("offer", name="offered_to_the_restless").finish()
    assert get.message()["method"] == CHANGED, "and no further question"


def test_a_second_get_replaces_the_first(site: Site) -> None:
    """HTTPL-22, HTTPL-11: nothing is sent twice."""
    talk = site.begin()
    first = talk.get()
    assert first.status == 200
    second = talk.get()
    assert second.status == 200
    assert first.events() == []
    talk.call("offer", name="for_the_second").finish()
    assert second.message()["method"] == CHANGED


# --- what is over ---------------------------------------------------------------------------------


def test_nothing_is_kept_of_a_stream_that_is_over() -> None:
    """A request may still run when its session ends, and its handler may still be talking."""
    kept, unread = Quota(10_000), Quota(10_000)
    buffer = ReplayBuffer(kept)
    stream = Stream("1", buffer, owner="ann", unread=unread)
    stream.put(b"{}")
    stream.end()
    stream.discard()
    stream.put(b'{"jsonrpc":"2.0"}')
    stream.spare()
    assert (buffer._streams, kept.used, unread.used) == ({}, 0, 0)
