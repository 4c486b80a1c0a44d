"""Asking the client over HTTP: refusals, and what ends the wait (S2C, MRTR).

Questions and answers themselves are in `tests.asking`, over HTTP as well.
"""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit._protocol.connection import CAPABILITIES_KEY
from tests.messages import LEGACY, called
from tests.transports.http.conftest import Serve, by_header
from tests.transports.http.wire import Exchange, Site

ALL: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
TOOLS = ["user", "model", "places"]
"""One for each way of asking."""


# --- with a handshake -----------------------------------------------------------------------------


@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("tool", TOOLS)
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
    site = serve(principal=by_header)

    def call(user: str, **retry: Any) -> Exchange:
        meta = {CAPABILITIES_KEY: ALL}
        return site.ask("tools/call", {"X-User": user}, _meta=meta, **called("users", {}), **retry)

    asked = call("ada").result
    answer = {"action": "accept", "content": {"value": "yes"}}
    retry = {
        "requestState": asked["requestState"],
        "inputResponses": dict.fromkeys(asked["inputRequests"], answer),
    }
    assert call("eve", **retry).code == -32602
    assert call("ada", **retry).result["resultType"] == "input_required"
