"""The audit log over HTTP: who called, in which session, and what was refused."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.kit import eventually
from tests.messages import LEGACY, MODERN, announced
from tests.transports.http.conftest import Serve, by_header
from tests.transports.http.wire import Site, Talk

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
USER = {"X-User": "ada"}


@pytest.fixture
def audited(serve: Serve) -> Site:
    return serve(app={"audit": True}, principal=by_header, max_requests=1)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.INFO, "mcpkit.audit")

    def wait(event: str, **members: Any) -> dict[str, Any]:
        def look() -> list[dict[str, Any]]:
            records = [each.audit for each in caplog.records if each.name == "mcpkit.audit"]  # type: ignore[attr-defined]
            wanted = {"event": event, **members}
            return [each for each in records if wanted.items() <= each.items()]

        return eventually(look)[0]

    return wait


@pytest.mark.parametrize("revision", [*LEGACY, MODERN])
def test_a_call_has_its_principal_session_and_trace(
    audited: Site, logged: Any, revision: str
) -> None:
    """OTEL-4: 2026-07-28 has no sessions."""
    meta = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta}
    if revision == MODERN:
        answer = audited.modern(announced(1, "tools/call", **params), USER)
        token = None
    else:
        talk: Talk = audited.begin(revision, headers=USER)
        answer = talk.post(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, USER
        )
        token = talk.token
    assert answer.text == "3"
    call = logged("operation", method="tools/call")
    assert (call["principal"], call["transport"], call["trace_id"]) == ("ada", "http", TRACE)
    assert call["received"] > 100
    assert call["sent"] == len(answer.body)
    if token is None:
        assert "session" not in call
    else:
        assert call["session"] not in token


def test_a_refusal_has_its_status_and_its_reason(audited: Site, logged: Any) -> None:
    held = audited.call("hold", name="one")
    audited.stage.expect("begun", "one")
    assert audited.call("add", a=1, b=2).status == 503
    audited.stage.release("one")
    assert held.status == 200
    refusal = logged("rejection", status=503)
    assert "max_requests" in refusal["reason"]
    assert refusal["address"] == "127.0.0.1"
    assert audited.post(b"{", USER).status == 400
    assert logged("rejection", status=400)["code"] == -32700


def test_a_call_that_is_cancelled_says_so(audited: Site, logged: Any) -> None:
    """CANC-5."""
    held = audited.call("hold", name="one")
    audited.stage.expect("begun", "one")
    held.close()
    audited.stage.expect("been cancelled", "one")
    assert logged("operation", outcome="cancelled")["name"] == "hold"
