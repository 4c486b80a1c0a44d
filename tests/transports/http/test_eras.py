"""Which era serves a request: every row of the table in PROTOCOL.md §3.3, ERA-3 and ERA-5."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit._protocol.connection import CAPABILITIES_KEY, VERSION_KEY
from tests.messages import (
    LAST_HANDSHAKE,
    LEGACY,
    MODERN,
    called,
    initialize,
    notification,
    request,
)
from tests.transports.http.wire import JSON, Site

UNKNOWN = ["2099-01-01", "DRAFT-2026-v1", "1.0", ""]


# --- the rows of the table, first match wins ------------------------------------------------------


@pytest.mark.parametrize(
    "meta",
    [
        {VERSION_KEY: MODERN},
        {CAPABILITIES_KEY: {}},
        {VERSION_KEY: LAST_HANDSHAKE},
        {VERSION_KEY: 7},
    ],
    ids=["version", "capabilities", "a handshake's version", "no version"],
)
@pytest.mark.parametrize("method", ["tools/list", "initialize"])
def test_row_1_a_request_with_either_key_is_modern(
    site: Site, method: str, meta: dict[str, Any]
) -> None:
    """META-1: so what is missing beside it is missed."""
    answer = site.modern(request(1, method, {"_meta": meta}))
    assert answer.refusal == (400, -32602)
    assert answer.header("mcp-session-id") is None


@pytest.mark.parametrize("header", [None, MODERN, *LEGACY, *UNKNOWN])
def test_row_2_initialize_begins_a_session_whatever_the_header_says(
    site: Site, header: str | None
) -> None:
    """HTTPL-18, LIFE-2."""
    answer = site.post(initialize("2025-06-18"), {"MCP-Protocol-Version": header})
    assert answer.status == 200
    assert answer.result["protocolVersion"] == "2025-06-18"
    assert answer.header("mcp-session-id")


@pytest.mark.parametrize(
    ("header", "method", "codes"),
    [
        *((each, "tools/list", (-32602, -32020)) for each in (MODERN, *UNKNOWN)),
        *(
            (LAST_HANDSHAKE, each, (-32602,))
            for each in ("server/discover", "subscriptions/listen")
        ),
        *((each, "tools/list", (-32600,)) for each in (None, *LEGACY)),
    ],
)
def test_rows_3_4_and_6_refuse_messages_without_a_session(
    site: Site, header: str | None, method: str, codes: tuple[int, ...]
) -> None:
    """META-1, HTTPL-15, LIFE-1: a header or a method makes a request modern; others need one."""
    answer = site.post(request(1, method, {}), {"MCP-Protocol-Version": header})
    assert answer.status == 400
    assert answer.code in codes


# --- the rules ------------------------------------------------------------------------------------


def test_a_notification_without_any_mark_is_an_error_and_no_session(site: Site) -> None:
    """ERA-3: over HTTP a cancellation belongs to a session; elsewhere it can reach nothing."""
    answer = site.post(notification("notifications/cancelled", {"requestId": 1}))
    assert answer.status == 400


@pytest.mark.parametrize("token", ["unheard-of", "", None], ids=repr)
def test_a_modern_request_ignores_session_ids_and_event_ids(site: Site, token: str | None) -> None:
    """ERA-5, HTTPM-14."""
    given = site.begin().token if token is None else token
    answer = site.ask(
        "tools/call",
        {"Mcp-Session-Id": given, "Last-Event-ID": "7"},
        **called("add", {"a": 1, "b": 2}),
    )
    assert (answer.status, answer.kind) == (200, JSON)
    assert answer.header("mcp-session-id") is None
