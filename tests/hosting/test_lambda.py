"""The app behind Mangum in AWS Lambda: real events of every kind, in frozen processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hosting.lambdas import SHAPES, Caller, Function, instance
from tests.kit import eventually
from tests.messages import LAST_HANDSHAKE, LEGACY, MODERN, VERSIONS
from tests.transports.http.wire import TASKS

pytest.importorskip("mangum")
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="nothing freezes a process there")

WARM = 100


@pytest.fixture(scope="module", params=["handler", "each_time"])
def lifespan(request: pytest.FixtureRequest) -> str:
    """The handler: without lifespan events, or with both in each invocation."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def function(lifespan: str) -> Iterator[Function]:
    with instance(lifespan) as found:
        yield found


@pytest.fixture(scope="module")
def other(lifespan: str) -> Iterator[Function]:
    """Another instance, as there is one for each request at a time."""
    with instance(lifespan) as found:
        yield found


@pytest.fixture(scope="module")
def plain() -> Iterator[Function]:
    with instance() as found:
        yield found


def use(caller: Caller, number: int) -> None:
    """One invocation, of one kind or another."""
    kind = number % 6
    if kind == 0:
        assert caller.call("add", a=number, b=1).text == str(number + 1)
    elif kind == 1:
        told = caller.request(
            "tools/call",
            name="tell",
            arguments={"text": "grüß Gott"},
            _meta={"progressToken": "p", "io.modelcontextprotocol/logLevel": "info"},
        )
        assert told.text == "grüß Gott"
        methods = [each["method"].removeprefix("notifications/") for each in told.messages[:-1]]
        assert methods == ["message", "progress"]
    elif kind == 2:
        failed = caller.call("fail")
        assert failed.last["result"]["isError"]
        assert failed.text == "There is none left."
    elif kind == 3:
        assert caller.call("add_in_thread", encoded=True, a=number, b=2).text == str(number + 2)
    elif kind == 4:
        unknown = caller.request("no/such/method")
        assert unknown.last["error"]["code"] == -32601
        assert unknown.status == (404 if caller.revision == MODERN else 200)
    else:
        read = caller.request("resources/read", uri="trips://rooms").last["result"]
        assert read["contents"][0]["text"] == "three"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("revision", VERSIONS)
def test_a_hundred_warm_invocations_and_a_cold_instance_between_them(
    function: Function, lifespan: str, shape: str, revision: str
) -> None:
    """A session goes on in an instance that has not begun it."""
    caller = Caller(function, shape, revision)
    caller.begin()
    for number in range(WARM):
        use(caller, number)
        if number == WARM // 2:
            with instance(lifespan) as caller.function:
                for cold in range(6):
                    use(caller, cold)
            caller.function = function


# --- questions ------------------------------------------------------------------------------------


def answer(asked: Any) -> dict[str, Any]:
    """What a client sends with its second call."""
    assert asked["resultType"] == "input_required"
    [key] = asked["inputRequests"]
    accepted = {"action": "accept", "content": {"confirm": True}}
    return {"inputResponses": {key: accepted}, "requestState": asked["requestState"]}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_answer_may_reach_any_instance(function: Function, other: Function, shape: str) -> None:
    caller = Caller(function, shape, MODERN)
    for answered_by in (function, other):
        caller.function = function
        asked = caller.asked("ask")
        caller.function = answered_by
        done = caller.asked("ask", answer(asked))
        assert done["content"][0]["text"] == "accepted: True"


@pytest.mark.parametrize("shape", SHAPES)
def test_the_function_of_the_guide(shape: str) -> None:
    with instance("docs.code.serverless_lambda:handler") as function:
        caller = Caller(function, shape, LAST_HANDSHAKE)
        caller.begin()
        assert caller.call("distance", start="Oslo", end="Moss").text == "12.5"
        caller = Caller(function, shape, MODERN)
        asked = caller.asked("book", city="Oslo")
        done = caller.asked("book", answer(asked), city="Oslo")
        assert done["content"][0]["text"] == "Booked 2 nights in Oslo."


@pytest.mark.parametrize("revision", LEGACY)
def test_a_question_that_could_not_reach_the_client_fails_at_once(
    plain: Function, revision: str
) -> None:
    caller = Caller(plain, SHAPES[0], revision)
    caller.begin(elicitation={})
    failed = caller.call("ask")
    assert failed.last["result"]["isError"]
    why = "cannot ask its client" if revision >= "2025-06-18" else "has no elicitation"
    assert why in failed.text


# --- streams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("revision", VERSIONS)
def test_streams_without_an_end_are_refused_at_once(
    plain: Function, shape: str, revision: str
) -> None:
    """HTTPL-8: 405 tells clients that there is no stream."""
    caller = Caller(plain, shape, revision)
    caller.begin()
    stream = caller.send("GET", {"Accept": "text/event-stream"})
    assert (stream.status, stream.headers["allow"]) == (405, "POST, DELETE")
    method = "subscriptions/listen" if revision == MODERN else "resources/subscribe"
    params: dict[str, Any] = {"uri": "trips://rooms", "notifications": {"toolsListChanged": True}}
    assert caller.request(method, **params).last["error"]["code"] == -32601
    assert caller.server_capabilities["tools"] == caller.server_capabilities["resources"] == {}


def test_a_handler_cannot_close_a_stream_that_its_client_could_not_resume(plain: Function) -> None:
    caller = Caller(plain, SHAPES[0], LAST_HANDSHAKE)
    caller.begin()
    assert caller.call("leave").text == "here"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_ends_before_the_gateway_gives_up(shape: str) -> None:
    with instance("impatient") as function:
        for revision in (LAST_HANDSHAKE, MODERN):
            caller = Caller(function, shape, revision)
            caller.begin()
            assert "took longer than 0.3 seconds" in caller.call("wait").last["error"]["message"]
            assert caller.call("add", a=1, b=2).text == "3"


# --- requests -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("handler", ["staged", "at_stage"])
def test_the_path_may_begin_with_a_stage_or_a_base_path(handler: str, shape: str) -> None:
    with instance(handler) as function:
        caller = Caller(function, shape, LAST_HANDSHAKE, "/prod/mcp")
        caller.begin()
        assert caller.call("add", a=1, b=2).text == "3"
        caller.path = "/prod/elsewhere"
        assert caller.send("POST").status == 404


@pytest.mark.parametrize("shape", SHAPES)
def test_a_session_ends_in_its_instance(plain: Function, shape: str) -> None:
    caller = Caller(plain, shape, LAST_HANDSHAKE)
    caller.begin()
    assert caller.send("DELETE")[::2] == (204, b"")
    assert caller.call("add", a=1, b=2).status == 404


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT"])
def test_other_methods_are_refused(plain: Function, shape: str, method: str) -> None:
    refused = Caller(plain, shape, MODERN).send(method)
    assert (refused.status, refused.headers["allow"]) == (405, "GET, POST, DELETE")


@pytest.mark.parametrize("shape", SHAPES)
def test_preflights_of_pages_are_answered(shape: str) -> None:
    origin = {"Origin": "https://app.example.com"}
    with instance("for_pages") as function:
        caller = Caller(function, shape, LAST_HANDSHAKE)
        answer = caller.send("OPTIONS", {**origin, "Access-Control-Request-Method": "POST"})
        assert answer.status == 200
        assert answer.headers["access-control-allow-origin"] == origin["Origin"]


@pytest.mark.parametrize("shape", SHAPES)
def test_callers_are_told_apart_by_the_address_of_the_gateway(plain: Function, shape: str) -> None:
    assert Caller(plain, shape, MODERN).call("client").text == "203.0.113.7"


# --- tasks ----------------------------------------------------------------------------------------


def test_a_task_runs_during_invocations_and_its_result_is_in_the_store(tmp_path: Path) -> None:
    tasks = {"MCPKIT_TASKS": str(tmp_path / "tasks.db")}
    with instance(**tasks) as first, instance(**tasks) as second:
        caller = Caller(first, SHAPES[0], MODERN)

        def state() -> Any:
            asked = {"taskId": task["taskId"], "_meta": TASKS}
            return caller.request("tasks/get", **asked).last["result"]

        made = caller.request("tools/call", name="work", arguments={}, _meta=TASKS)
        task = made.last["result"]
        assert task["resultType"] == "task", task
        eventually(state, lambda found: found["status"] == "completed")
        caller.function = second
        assert state()["result"]["content"][0]["text"] == "worked"
