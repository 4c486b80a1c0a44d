"""Coming back for what was missed, with ``Last-Event-ID`` (HTTPL-12, 13, 20, 24)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import eventually
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import Exchange, Site, Talk

CHANGED = "notifications/tools/list_changed"


def data(messages: list[Any]) -> list[str]:
    """The texts that were logged, and the one of the result."""
    return [
        each["params"]["data"] if "method" in each else each["result"]["content"][0]["text"]
        for each in messages
    ]


def begun(talk: Talk, name: str, before: list[str], after: list[str]) -> tuple[Exchange, list[str]]:
    """A call that has logged something and waits: its stream, and the ids of its events."""
    call = talk.call("chat", name=name, before=before, after=after)
    ids: list[str] = []
    while len(ids) < len(before):
        event = call.event()
        if event.fields["data"]:
            ids.append(event.id)
    talk.site.stage.expect("begun", name)
    return call, ids


@pytest.mark.parametrize(("place", "missed"), [(0, ["b", "c"]), (1, ["c"]), (2, [])])
def test_a_lost_stream_resumes_exactly_where_it_was(
    legacy: Talk, place: int, missed: list[str]
) -> None:
    """HTTPL-13, HTTPL-20, CANC-6: the work went on, and nothing comes twice."""
    name, stage = f"lost {legacy.version} {place}", legacy.site.stage
    call, ids = begun(legacy, name, ["a", "b", "c"], ["d"])
    call.drop()
    stage.release(name)
    stage.expect("gone on", name)
    assert data(legacy.get(ids[place]).messages()) == [*missed, "d", f"{name} went on"]


def test_events_of_other_streams_are_not_among_them(site: Site) -> None:
    """HTTPL-13, HTTPL-11."""
    talk = site.begin()
    call, ids = begun(talk, "mine", ["a"], ["b"])
    other, _ = begun(talk, "other", ["x"], ["y"])
    call.drop()
    site.stage.release("other")
    assert data(other.messages()) == ["y", "other went on"]
    site.stage.release("mine")
    assert data(talk.get(ids[-1]).messages()) == ["b", "mine went on"]


def test_a_question_that_was_missed_comes_again(site: Site) -> None:
    """S2C-4: the handler waits for its answer, which may come over any connection."""
    talk = site.begin(capabilities={"elicitation": {}})
    call = talk.call("users")
    first = next(each for each in call.blocks() if each.fields.get("data"))
    assert first.message["params"]["message"] == "First?"
    call.drop()
    taken = talk.answer(first.message, action="accept", content={"value": "one"})
    assert taken.status == 202
    resumed = talk.get(first.id)
    second = resumed.message()
    assert second["params"]["message"] == "Second?"
    assert talk.answer(second, action="decline").status == 202
    assert data(resumed.messages()) == ["one Declined"]


# --- the stream of a GET --------------------------------------------------------------------------


def test_changes_that_were_missed_are_sent_afterwards(legacy: Talk) -> None:
    """HTTPL-13."""
    get = legacy.get()
    assert legacy.request("resources/subscribe", uri="wire://kept").result == {}
    legacy.call("touch", uri="wire://kept").finish()
    last = get.event().id
    get.drop()
    legacy.call("offer", name=f"missed_{legacy.version.replace('-', '_')}").finish()
    again = legacy.get(last)
    assert again.message()["method"] == CHANGED
    legacy.call("touch", uri="wire://kept").finish()
    assert again.message()["params"] == {"uri": "wire://kept"}


def test_a_stream_of_another_process_resumes_as_a_new_one(serve: Serve) -> None:
    """§7 of the design: what was missed is lost, what comes is not."""
    secret = {"secret": "shared by all of them"}
    first, second = serve(app=secret), serve(app=secret)
    talk = first.begin()
    get = talk.get()
    talk.call("offer", name="told").finish()
    last = get.event().id
    moved = Talk(second, talk.version, talk.token).get(last)
    assert moved.status == 200
    second.call("offer", name="told").finish()
    assert moved.message()["method"] == CHANGED


# --- what cannot be fetched any more --------------------------------------------------------------


def test_an_event_of_another_session_is_400(site: Site) -> None:
    """HTTPL-13, SEC-7: also if it is the same client's."""
    talk, other = site.begin(), site.begin()
    call, ids = begun(talk, "private", ["a", "b"], [])
    assert other.get(ids[0]).refusal == (400, -32600)
    stream, _, number = ids[0].rpartition(".")
    for last in (f"{stream}.x", f"{stream}.{10**20}", number):
        assert talk.get(last).refusal == (400, -32600)
    site.stage.release("private")
    assert data(call.messages()) == ["private went on"]


def test_what_is_more_than_the_buffer_holds_is_400(serve: Serve) -> None:
    """HTTPL-24, SEC-17: what is still there can be fetched."""
    site = serve(replay_buffer=5000)
    talk = site.begin()
    call, ids = begun(talk, "much", ["x" * 1000] * 8, ["last"])
    call.drop()
    assert talk.get(ids[0]).refusal == (400, -32600)
    site.stage.release("much")
    assert data(talk.get(ids[-1]).messages()) == ["last", "much went on"]


def test_what_is_older_than_it_is_kept_is_400(serve: Serve) -> None:
    """HTTPL-24."""
    site = serve(replay_time=0.05)
    talk = site.begin()
    call, ids = begun(talk, "old", ["a"], ["b"])
    call.drop()
    site.stage.release("old")
    answer = eventually(lambda: talk.get(ids[-1]), lambda each: each.status != 200)
    assert answer.refusal == (400, -32600)
