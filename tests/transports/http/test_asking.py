"""Asking the client over HTTP: requests on streams, or rounds of results (S2C, MRTR)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcpkit._protocol.connection import CAPABILITIES_KEY
from tests.messages import LEGACY, called
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import Exchange, Site, Talk

FORMS = [version for version in LEGACY if version >= "2025-06-18"]
"""Those that have elicitation."""

ALL: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
SAID = {"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "m"}
ANSWERS: dict[str, dict[str, Any]] = {
    "elicitation/create": {"action": "accept", "content": {"value": "yes"}},
    "sampling/createMessage": SAID,
    "roots/list": {"roots": [{"uri": "file:///here"}]},
}
KINDS = {"user": "yes", "model": "hello", "places": "file:///here"}
"""A tool that asks in each way, and what it makes of the answer."""


def answered(talk: Talk, call: Exchange, count: int) -> list[Any]:
    """Answer questions as they come: what comes after them."""
    for _ in range(count):
        question = call.message()
        assert talk.answer(question, **ANSWERS[question["method"]]).status == 202
    return call.messages()


# --- with a handshake -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "tool"),
    [(version, tool) for version in LEGACY for tool in KINDS if tool != "user" or version in FORMS],
)
def test_a_question_is_a_request_on_the_stream_of_the_call(
    site: Site, version: str, tool: str
) -> None:
    """S2C-2, S2C-3."""
    talk = site.begin(version, capabilities=ALL)
    call = talk.call(tool, **({"name": f"asked {version}"} if tool == "user" else {}))
    [last] = answered(talk, call, 1)
    assert KINDS[tool] in last["result"]["content"][0]["text"]


@pytest.mark.parametrize("version", FORMS)
def test_several_questions_are_open_at_once(site: Site, version: str) -> None:
    """S2C-3: answered in any order, as their ids tell them apart."""
    talk = site.begin(version, capabilities=ALL)
    call = talk.call("both")
    questions = [call.message(), call.message()]
    assert questions[0]["id"] != questions[1]["id"]
    for question in reversed(questions):
        assert talk.answer(question, **ANSWERS[question["method"]]).status == 202
    assert call.text == "yes hello"


@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("tool", KINDS)
def test_nobody_is_asked_who_did_not_say_that_they_can_be(
    site: Site, version: str, tool: str
) -> None:
    """S2C-1, S2C-5: the model reads of it."""
    arguments = {"name": f"not asked {version}"} if tool == "user" else {}
    call = site.begin(version).call(tool, **arguments)
    assert call.result["isError"] is True


@pytest.mark.parametrize("broken", [7, None, []], ids=repr)
def test_a_malformed_answer_is_400_and_ends_the_wait(site: Site, broken: Any) -> None:
    """HTTPL-2, S2C-4."""
    talk = site.begin(capabilities=ALL)
    call = talk.call("model")
    answer = talk.post({"jsonrpc": "2.0", "id": call.message()["id"], "result": broken})
    assert answer.refusal == (400, -32600)
    assert call.result["isError"] is True


def test_a_question_that_nobody_answers_in_time_is_given_up(serve: Serve) -> None:
    """CANC-9, S2C-4."""
    talk = serve(app={"ask_timeout": 0.1}).begin(capabilities=ALL)
    question, cancelled, answer = (each for each in talk.call("model").messages())
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == question["id"]
    assert answer["result"]["isError"] is True


# --- without --------------------------------------------------------------------------------------


def rounds(site: Site, call: Callable[[dict[str, Any]], Exchange], most: int = 5) -> list[Any]:
    """The results of all rounds, each answered as a client does: with the latest round only."""
    results = [call({}).result]
    while results[-1]["resultType"] == "input_required":
        assert len(results) < most
        asked = results[-1].get("inputRequests", {})
        answers = {key: ANSWERS[each["method"]] for key, each in asked.items()}
        retry: dict[str, Any] = {"inputResponses": answers}
        if "requestState" in results[-1]:
            retry["requestState"] = results[-1]["requestState"]
        results.append(call(retry).result)
    return results


def asking(site: Site, tool: str, **arguments: Any) -> Callable[[dict[str, Any]], Exchange]:
    def call(retry: dict[str, Any]) -> Exchange:
        meta = {CAPABILITIES_KEY: ALL}
        return site.ask("tools/call", _meta=meta, **called(tool, arguments), **retry)

    return call


@pytest.mark.parametrize("tool", KINDS)
def test_a_modern_question_is_a_result(site: Site, tool: str) -> None:
    """MRTR-1, MRTR-3, HTTPM-9."""
    arguments = {"name": "rounds"} if tool == "user" else {}
    asked, answer = rounds(site, asking(site, tool, **arguments))
    [question] = asked["inputRequests"].values()
    assert set(question) == {"method", "params"}
    assert KINDS[tool] in answer["content"][0]["text"]


def test_rounds_may_be_served_by_different_workers(serve: Serve) -> None:
    """VER-5, MRTR-12: with the same secret, nobody keeps anything."""
    sites = [serve(app={"secret": "shared by all of them"}) for _ in range(3)]
    calls = iter([asking(each, "users") for each in sites])
    results = rounds(sites[0], lambda retry: next(calls)(retry))
    assert results[-1]["content"][0]["text"] == "yes yes"


def test_the_state_of_another_principal_is_refused(serve: Serve) -> None:
    """MRTR-5, MRTR-6, MRTR-7, SEC-8."""
    site = serve(principal=lambda http: http.headers.get("x-user"))

    def call(user: str, **retry: Any) -> Exchange:
        meta = {CAPABILITIES_KEY: ALL}
        return site.ask("tools/call", {"X-User": user}, _meta=meta, **called("users", {}), **retry)

    asked = call("ada").result
    retry = {
        "requestState": asked["requestState"],
        "inputResponses": dict.fromkeys(asked["inputRequests"], ANSWERS["elicitation/create"]),
    }
    assert call("eve", **retry).code == -32602
    assert call("ada", **retry).result["resultType"] == "input_required"
