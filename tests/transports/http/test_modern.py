"""Streamable HTTP of 2026-07-28 (HTTPM-1…17), and the order of its checks (PROTOCOL.md §8.4)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

from mcpkit import CallNext, Context
from mcpkit._protocol.connection import CAPABILITIES_KEY, LOG_LEVEL_KEY, SUBSCRIPTION_KEY
from tests.messages import LAST_HANDSHAKE, MODERN, announced, called, notification, request
from tests.transports.http.conftest import Serve
from tests.transports.http.wire import EVENTS, JSON, Site

LOGS = {LOG_LEVEL_KEY: "info"}


# --- one message and its headers ------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        [],
        [announced(1, "tools/list")],
        [notification("notifications/cancelled")],
        {"jsonrpc": "2.0", "id": 1},
        {"method": "notifications/cancelled"},
    ],
    ids=["empty batch", "request", "notification", "neither", "broken notification"],
)
def test_a_batch_or_a_broken_message_is_refused(site: Site, body: Any) -> None:
    """HTTPM-1, HTTPM-8, MSG-11: also one that could be taken for an answer to a question."""
    answer = site.post(body, {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"})
    assert answer.refusal == (400, -32600)
    assert "question" not in answer.error


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", called("add", {"a": 1, "b": 2}), "add"),
        ("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}}, "greet"),
        ("resources/read", {"uri": "wire://a"}, "wire://a"),
    ],
    ids=["tools/call", "prompts/get", "resources/read"],
)
def test_the_name_header_matches_the_body(site: Site, method: str, params: Any, name: str) -> None:
    """HTTPM-2, HTTPM-3: names of headers have no case, and blanks around values do not count."""
    assert site.ask(method, {"mCP-nAME": f" \t {name} \t "}, **params).status == 200
    assert site.ask(method, {"Mcp-Name": f"{name}/"}, **params).refusal == (400, -32020)


# --- the order of the checks ----------------------------------------------------------------------


class Flaw(NamedTuple):
    """Something wrong with a request.

    Args:
        status, code: That it is answered with; the code is None where only the status counts.
        headers: That it changes.
        meta: Members of ``_meta`` that it changes; None leaves them out.
        body: That it is instead, or parts of it.
    """

    status: int
    code: int | None
    headers: Mapping[str, Any] = MappingProxyType({})
    meta: Mapping[str, Any] = MappingProxyType({})
    body: Any = None


VERSION = "io.modelcontextprotocol/protocolVersion"
FLAWS = {
    "origin": Flaw(403, None, {"Origin": "https://evil.example"}),
    "content type": Flaw(415, None, {"Content-Type": "text/plain"}),
    "json": Flaw(400, -32700, body=b"{"),
    "envelope": Flaw(400, -32600, body={"jsonrpc": "1.0"}),
    "version header": Flaw(400, -32020, {"MCP-Protocol-Version": None}),
    "meta": Flaw(400, -32602, meta={CAPABILITIES_KEY: None}),
    "header and meta": Flaw(400, -32020, {"MCP-Protocol-Version": LAST_HANDSHAKE}),
    "support": Flaw(
        400, -32022, {"MCP-Protocol-Version": "2099-01-01"}, meta={VERSION: "2099-01-01"}
    ),
    "method header": Flaw(400, -32020, {"Mcp-Method": None}),
    "method": Flaw(404, -32601, {"Mcp-Method": "unheard/of"}, body={"method": "unheard/of"}),
    "name": Flaw(400, -32020, {"Mcp-Name": ["routed", "other"]}),
    "params": Flaw(200, -32602, body={"params": {"arguments": 7}}),
    "parameter": Flaw(400, -32020, {"Mcp-Param-Region": "elsewhere"}),
}
"""In the order in which they are to be noticed."""


def flawed(*flaws: Flaw) -> tuple[Any, dict[str, Any]]:
    """A call with flaws: its body and its headers. The first flaw has the last word."""
    headers: dict[str, Any] = {
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "routed",
        "Mcp-Param-Region": "here",
    }
    meta: dict[str, Any] = {VERSION: MODERN, CAPABILITIES_KEY: {}}
    params: dict[str, Any] = called("routed", {"region": "here"})
    body: Any = request(1, "tools/call")
    for flaw in reversed(flaws):
        headers.update(flaw.headers)
        meta.update(flaw.meta)
        if isinstance(flaw.body, bytes):
            body = flaw.body
        elif flaw.body is not None and not isinstance(body, bytes):
            params.update(flaw.body.get("params", {}))
            body.update({name: each for name, each in flaw.body.items() if name != "params"})
    if not isinstance(body, bytes):
        kept = {name: value for name, value in meta.items() if value is not None}
        body["params"] = {**params, "_meta": kept}
    return body, headers


@pytest.mark.parametrize(
    "names", [*pairwise(FLAWS), *((name,) for name in FLAWS)], ids=" and ".join
)
def test_the_first_flaw_is_reported(site: Site, names: tuple[str, ...]) -> None:
    """§8.4, HTTPM-6, HTTPM-7: a client acts on the error, so it must not depend on chance.

    HTTPM-2, HTTPM-16, SEC-14, ERR-5: nor may there be two headers of which one fits.
    """
    body, headers = flawed()
    assert site.post(body, headers).text == "here None None None"
    flaw, *_ = flaws = [FLAWS[name] for name in names]
    answer = site.post(*flawed(*flaws))
    assert (answer.status, flaw.code and answer.code) == (flaw.status, flaw.code)
    if flaw.code == -32020:
        assert answer.json["id"] == 1
        assert next(iter(flaw.headers)) in answer.error


# --- answers --------------------------------------------------------------------------------------


def test_a_stream_has_the_messages_of_its_request_and_ends_with_the_response(site: Site) -> None:
    """HTTPM-10, HTTPM-13, LOG-4, LOG-5, PROG-4: without ids to come back with."""
    events = site.call("tell", LOGS, texts=["one", "two"]).events()
    assert all(set(event.fields) == {"data"} for event in events)
    *notes, answer = (event.message for event in events)
    assert [note["params"]["data"] for note in notes] == ["one", "two"]
    assert answer["id"] == 1
    assert answer["result"]["content"][0]["text"] == "told"
    assert site.call("tell", texts=["one"]).kind == JSON, "it asks for no log messages"


def test_a_missing_capability_is_400_unless_there_is_a_stream(site: Site) -> None:
    """HTTPM-15: while nothing had been streamed, the status could still be chosen."""
    answer = site.call("needs_sampling")
    assert answer.refusal == (400, -32021)
    assert answer.json["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
    answer = site.call("needs_sampling", LOGS, first="a word")
    assert (answer.status, answer.kind) == (200, EVENTS)
    assert [each.get("error", {}).get("code") for each in answer.messages()] == [None, -32021]


# --- changes --------------------------------------------------------------------------------------


def test_a_subscription_is_a_stream_of_changes(serve: Serve) -> None:
    """SUB-1, SUB-2, SUB-3, SUB-4, SUB-12, HTTPM-12: which stays open behind middleware."""
    site = serve()

    async def passing(ctx: Context, call_next: CallNext) -> Any:
        return await call_next()

    site.app.middleware(passing)
    wanted = {"toolsListChanged": True, "resourceSubscriptions": ["wire://watched"]}
    listening = site.ask("subscriptions/listen", notifications=wanted)
    assert (listening.status, listening.kind) == (200, EVENTS)
    first = listening.message()
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["notifications"] == wanted
    site.call("touch", uri="wire://other").finish()
    site.call("touch", uri="wire://watched").finish()
    changed = listening.message()
    assert changed["method"] == "notifications/resources/updated"
    assert changed["params"] == {"uri": "wire://watched", "_meta": {SUBSCRIPTION_KEY: 1}}
    site.call("offer", name="new_to_listeners").finish()
    assert listening.message()["method"] == "notifications/tools/list_changed"


def test_a_silent_subscription_is_kept_open_by_comments(serve: Serve) -> None:
    """HTTPM-12, SUB-12."""
    listening = serve(keep_alive=0.05).ask("subscriptions/listen", notifications={})
    assert listening.message()["params"]["notifications"] == {}
    assert next(listening.blocks()).comments
