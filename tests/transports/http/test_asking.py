"""Asking the client over HTTP: requests on streams, or rounds of results (S2C, MRTR)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit._protocol.connection import CAPABILITIES_KEY
from tests.messages import LEGACY, called
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import Exchange, Site

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
    question = call.message()
    assert talk.answer(question, **ANSWERS[question["method"]]).status == 202
    [last] = call.messages()
    assert KINDS[tool] in last["result"]["content"][0]["text"]


@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("tool", KINDS)
def test_a_client_without_the_capability_is_not_asked(site: Site, version: str, tool: str) -> None:
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


def test_a_question_that_is_not_answered_in_time_is_cancelled(serve: Serve) -> None:
    """CANC-9, S2C-4."""
    talk = serve(app={"ask_timeout": 0.1}).begin(capabilities=ALL)
    question, cancelled, answer = talk.call("model").messages()
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] == question["id"]
    assert answer["result"]["isError"] is True


# --- without --------------------------------------------------------------------------------------


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
