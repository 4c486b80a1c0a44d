"""Rounds of a request on the wire, and what a hostile client can do with them (MRTR-1…17)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.asking.conftest import Asked, Connect, accept
from tests.asking.rounds import send, tool
from tests.asking.server import make_app
from tests.scenarios.tapped import MODERN

pytestmark = pytest.mark.revisions(MODERN)

both = pytest.mark.parametrize("kind", ["", "_sync"], ids=["async", "sync"])

ASKS = tool("asks", via="elicit", number=2)
PERSON = tool("person")
ANN = {"person": accept({"name": "Ann", "age": 3})}


# --- shapes ---------------------------------------------------------------------------------------


async def test_what_a_round_that_asks_looks_like(client: Asked) -> None:
    """MRTR-2, MRTR-3: the questions of one round have different keys."""
    found = await send(client, PERSON)
    assert found.result["resultType"] == "input_required"
    assert set(found.asked["person"]) == {"method", "params"}
    assert found.asked["person"]["method"] == "elicitation/create"
    assert isinstance(found.state, str)
    found = await send(client, tool("together", via="elicit"))
    messages = sorted(each["params"]["message"] for each in found.asked.values())
    assert messages == ["One?", "Two?", "Two?"]
    assert (await send(client, tool("roots", key="where"))).key == "where"


async def test_what_used_input_must_not_be_cached(client: Asked) -> None:
    """CACHE-2, CACHE-5: and a round that asks has no hints."""
    for params, method in (
        ({"name": "asking_prompt", "arguments": {"via": "elicit"}}, "prompts/get"),
        (ASKS, "tools/call"),
        ({"uri": "asking://resource/elicit"}, "resources/read"),
    ):
        first = await send(client, params, method=method)
        assert first.result["resultType"] == "input_required"
        assert not {"ttlMs", "cacheScope"} & set(first.result)
    last = await send(client, params, {first.key: accept("x")}, first.state, method=method)
    assert last.result["contents"][0]["text"] == "Contents x"
    assert (last.result["ttlMs"], last.result["cacheScope"]) == (0, "private")


@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/list"])
async def test_a_list_never_asks(client: Asked, method: str) -> None:
    """MRTR-1: nor does it mind unrequested answers."""
    found = await send(client, {}, {"x": accept("y")}, "made up", method=method)
    assert found.result["resultType"] == "complete"


async def test_each_round_has_a_state_of_its_own(client: Asked) -> None:
    """MRTR-14, MRTR-15: an earlier answer need not be sent again."""
    first = await send(client, ASKS)
    again = await send(client, ASKS, {}, first.state)
    second = await send(client, ASKS, {first.key: accept("a")}, again.state)
    last = await send(client, ASKS, {second.key: accept("b")}, second.state)
    assert last.text == "a,b"
    assert len({first.state, again.state, second.state}) == 3


# --- answers --------------------------------------------------------------------------------------

INVALID: dict[str, Any] = {
    "none": None,
    "an empty object": {},
    "an unknown key": {"other": accept({"name": "Ann", "age": 3})},
    "a number": {"person": 7},
    "null": {"person": None},
    "an array": {"person": [accept({"name": "Ann", "age": 3})]},
    "a wrong type": {"person": accept({"name": "Ann", "age": "3"})},
}


@both
@pytest.mark.parametrize("responses", INVALID.values(), ids=list(INVALID))
async def test_an_invalid_answer_is_requested_again(
    client: Asked, kind: str, responses: Any
) -> None:
    """MRTR-9, MRTR-10, MRTR-11."""
    params = tool("person" + kind)
    first = await send(client, params)
    again = await send(client, params, responses, first.state)
    assert list(again.asked) == ["person"]
    assert (await send(client, params, ANN, again.state)).text == "name='Ann' age=3"


async def test_a_valid_answer_beside_an_invalid_one_is_taken(client: Asked) -> None:
    """MRTR-11: only the malformed one is requested again."""
    params = tool("together", via="elicit")
    first = await send(client, params)
    assert len(first.asked) > 1
    broken, *others = sorted(first.asked)
    answers = {broken: 7, **{key: accept("x") for key in others}}
    again = await send(client, params, answers, first.state)
    assert list(again.asked) == [broken]


@pytest.mark.parametrize("responses", [7, "text", []], ids=repr)
async def test_answers_other_than_an_object_are_refused(client: Asked, responses: Any) -> None:
    """MRTR-11."""
    first = await send(client, PERSON)
    assert (await send(client, PERSON, responses, first.state)).error["code"] == -32602
    # Also without a state, where nothing will be asked.
    assert (await send(client, tool("counted", tag="x"), responses)).error["code"] == -32602


async def test_an_answer_may_come_before_it_is_asked_for(client: Asked) -> None:
    """MRTR-13: by its key, for one question, and beside others that are not needed (MRTR-10)."""
    answers = {**ANN, "other": accept("x")}
    assert (await send(client, PERSON, answers)).text == "name='Ann' age=3"
    params = tool("same", via="elicit", number=2, key="mine")
    first = await send(client, params, {"mine": accept("a")})
    assert (await send(client, params, {first.key: accept("b")}, first.state)).text == "a,b"


BAD_STATE = "The request state is not valid; start the request again without it"

# --- states that are not good ---------------------------------------------------------------------


async def refusal(client: Asked, params: dict[str, Any], state: Any) -> dict[str, Any]:
    found = await send(client, params, ANN, state)
    assert "result" not in found.answer
    return found.error


async def test_every_bad_state_is_the_same_error(client: Asked, connect: Connect) -> None:
    """MRTR-5, MRTR-6, MRTR-7: tampered with, foreign, or of another call."""
    state = (await send(client, PERSON)).state
    flipped = ("B" if state[9] == "A" else "A").join([state[:9], state[10:]])
    async with connect(make_app(secret="the one of another server")) as other:
        foreign = (await send(other, PERSON)).state
    bad: list[Any] = [flipped, state[:-1], state + "A", "", "made up", 7, {}, [state], foreign]
    errors = [await refusal(client, PERSON, each) for each in bad]
    errors += [
        await refusal(client, tool("person_sync"), state),
        await refusal(client, tool("person", other=1), state),
        await refusal(client, {**PERSON, "more": 1}, state),
        await refusal(client, tool("counted", tag="x"), "made up"),
        await refusal(client, tool("no such tool"), "made up"),
        (await send(client, PERSON, state="made up")).error,
    ]
    assert errors == [{"code": -32602, "message": BAD_STATE}] * len(errors)
    assert (await send(client, PERSON, ANN, state)).text == "name='Ann' age=3"


@pytest.mark.in_memory
async def test_a_state_is_good_for_a_while_and_every_process_that_has_the_secret(
    connect: Connect,
) -> None:
    """MRTR-7: also while the secret is rotated; without one, for its process only."""
    old = "an old secret of ours"
    rotated: dict[str, Any] = {"secret": ["a new secret of ours", old]}
    for sealed, opened, is_good in (
        ({"secret": old}, rotated, True),
        (rotated, {"secret": old}, False),
        ({}, {}, False),
        ({"secret": old, "state_lifetime": -1}, {"secret": old}, False),
    ):
        async with connect(make_app(**sealed)) as client:
            state = (await send(client, PERSON)).state
        async with connect(make_app(**opened)) as client:
            found = await send(client, PERSON, ANN, state)
        if is_good:
            assert found.text == "name='Ann' age=3"
        else:
            assert found.error == {"code": -32602, "message": BAD_STATE}


# --- capabilities of each request -----------------------------------------------------------------


async def test_each_request_declares_its_clients_capabilities(client: Asked) -> None:
    """META-3, MRTR-4."""
    found = await send(client, PERSON, lacks="elicitation")
    assert found.error["code"] == -32021
    assert found.error["data"] == {"requiredCapabilities": {"elicitation": {}}}
    first = await send(client, PERSON)
    later = await send(client, PERSON, ANN, first.state, lacks="elicitation")
    assert later.error["code"] == -32021


@pytest.mark.in_memory
async def test_nothing_is_held_for_a_client_that_never_comes_back(connect: Connect) -> None:
    """MRTR-12: a round leaves no task, question or context, and of steps only their results."""
    app = make_app()
    async with connect(app) as client:
        for number in range(20):
            await send(client, tool("stepped", via="elicit", tag=f"left {number}"))
            await send(client, tool("stepped_sync", via="elicit", tag=f"left {number}"))
        link: Any = client.link
        session = link._link.session
        assert not session.in_flight
        assert not session._pending
        assert not app.server.steps._running
        assert len(app.server.steps._done) == 40
