"""Going away cancels in 2026-07-28, and in no revision before (CANC-1…6, HTTPL-20, HTTPM-13)."""

from __future__ import annotations

from http.client import HTTPException

import pytest

from mcpkit._protocol.connection import LOG_LEVEL_KEY
from tests.messages import MODERN, notification
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import EVENTS, Site, Talk

# --- going away -----------------------------------------------------------------------------------


def test_a_stream_that_takes_too_much_room_is_cancelled(serve: Serve) -> None:
    """SEC-17: it ends with its connection, as if its client had left."""
    site = serve(max_unread=100_000)
    texts = ["x" * 300_000] * 2
    call = site.call("chat", {LOG_LEVEL_KEY: "info"}, name="loud", before=texts, after=[])
    site.stage.expect("been cancelled", "loud")
    with pytest.raises(HTTPException):
        call.finish()


@pytest.mark.parametrize("said", [[], ["a"]], ids=["before a stream", "stream"])
def test_leaving_a_request_of_a_session_does_not(legacy: Talk, said: list[str]) -> None:
    """CANC-6, HTTPL-20."""
    name, stage = f"left {legacy.version} {said}", legacy.site.stage
    call = legacy.call("chat", name=name, before=said, after=["b"])
    if said:
        assert call.message()["params"]["data"] == "a"
    stage.expect("begun", name)
    call.drop()
    assert legacy.request("ping").result == {}
    stage.release(name)
    stage.expect("gone on", name)
    assert not stage.has("been cancelled", name)


# --- the notification -----------------------------------------------------------------------------


def test_a_cancelled_request_is_not_answered(legacy: Talk) -> None:
    """CANC-1, CANC-4, HTTPL-3: its stream ends without a message."""
    name = f"cancelled {legacy.version}"
    call = legacy.call("hold", 7, name=name)
    legacy.site.stage.expect("begun", name)
    assert legacy.notify("notifications/cancelled", requestId=7, reason="enough").status == 202
    legacy.site.stage.expect("been cancelled", name)
    assert (call.status, call.kind, call.messages()) == (200, EVENTS, [])


def test_another_session_or_another_id_does_not_cancel(site: Site) -> None:
    """SEC-7, CANC-2, MSG-2: ids are small numbers that all clients use; ``"7"`` is another one."""
    talk, other = site.begin(), site.begin()
    call = talk.call("hold", 7, name="not theirs")
    site.stage.expect("begun", "not theirs")
    assert other.notify("notifications/cancelled", requestId=7).status == 202
    assert other.request("ping").result == {}
    for params in ({"requestId": 99}, {"requestId": "7"}, {"requestId": [7]}, {}):
        assert talk.notify("notifications/cancelled", **params).status == 202
    site.stage.release("not theirs")
    assert call.text == "not theirs went on"


def test_a_modern_request_is_not_cancelled_by_a_notification(site: Site) -> None:
    """HTTPM-8, META-3: nothing tells whose request that would be."""
    call = site.call("hold", name="not by notification")
    site.stage.expect("begun", "not by notification")
    message = notification("notifications/cancelled", {"requestId": 1})
    assert site.post(message, {"MCP-Protocol-Version": MODERN}).status == 202
    site.stage.release("not by notification")
    assert call.text == "not by notification went on"
