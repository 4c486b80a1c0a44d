"""Several messages in one body: in 2025-03-26, and in no other revision (MSG-9…12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.messages import BATCHES, announced, called, initialize, request
from tests.transports.http.wire import EVENTS, JSON, Site, Talk


@pytest.fixture
def talk(site: Site) -> Talk:
    return site.begin(BATCHES, capabilities={"sampling": {}})


def by_id(answers: list[Any]) -> dict[Any, Any]:
    assert len({each["id"] for each in answers}) == len(answers)
    return {each["id"]: each for each in answers}


def call(id: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    return request(id, "tools/call", called(tool, arguments))


def test_requests_are_answered_with_one_array(talk: Talk) -> None:
    """MSG-7, MSG-9, MSG-12, ERR-5."""
    calls = [request(1, "ping"), request("1", "unheard/of"), call(3, "add", a=1, b=2), {"id": 4}]
    answer = talk.post(calls)
    assert (answer.status, answer.kind) == (200, JSON)
    found = by_id(answer.json)
    codes = {id: each.get("error", {}).get("code") for id, each in found.items()}
    assert codes == {1: None, "1": -32601, 3: None, 4: -32600}
    assert found[3]["result"]["content"][0]["text"] == "3"


def test_an_empty_batch_is_400(talk: Talk) -> None:
    """MSG-11."""
    assert talk.post([]).refusal == (400, -32600)


@pytest.mark.parametrize("place", [0, 1])
def test_initialize_is_refused_in_a_batch(talk: Talk, place: int) -> None:
    """MSG-10: and so is all that comes with it."""
    parts = [request(1, "ping")]
    parts.insert(place, initialize(id=2))
    answer = talk.post(parts)
    assert answer.header("mcp-session-id") is None
    found = by_id(answer.json)
    assert [found[id]["error"]["code"] for id in (1, 2)] == [-32600, -32600]


def test_if_one_of_them_streams_the_answer_is_a_stream(talk: Talk) -> None:
    """MSG-12, HTTPL-3: with an answer to each request in it."""
    answer = talk.post([call(1, "tell", texts=["a"]), call(2, "add", a=1, b=2)])
    assert answer.kind == EVENTS
    messages = answer.messages()
    notes = [each for each in messages if isinstance(each, dict) and "method" in each]
    assert [each["params"]["data"] for each in notes] == ["a"]
    answers = [
        part
        for each in messages
        if each not in notes
        for part in (each if isinstance(each, list) else [each])
    ]
    assert set(by_id(answers)) == {1, 2}


def test_one_of_them_may_be_cancelled(talk: Talk) -> None:
    """CANC-1, CANC-4: nothing is sent for it."""
    answer = talk.post([call(1, "hold", name="cancelled part"), call(2, "hold", name="kept part")])
    stage = talk.site.stage
    stage.expect("begun", "cancelled part")
    stage.expect("begun", "kept part")
    assert talk.notify("notifications/cancelled", requestId=1).status == 202
    stage.expect("been cancelled", "cancelled part")
    stage.release("kept part")
    assert [each["id"] for each in answer.json] == [2]


def test_a_modern_request_may_not_hide_in_one(talk: Talk) -> None:
    """HTTPM-1: it needs headers of its own, which a batch has no room for."""
    answer = talk.post([announced(1, "tools/call", **called("who", {}))])
    assert (answer.refusal, answer.json["id"]) == ((400, -32020), 1)
