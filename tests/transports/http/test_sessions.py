"""Sessions of the handshake revisions: ids that carry the session (HTTPL-14…19, 24, SEC-6)."""

from __future__ import annotations

import json
import time
from random import Random
from typing import Any

import pytest

from mcpkit import MCPKit
from tests.messages import BATCHES, CLIENT, LEGACY, called, initialize, notification, request
from tests.transports.http.conftest import Serve, by_header
from tests.transports.http.wire import EVENTS, Host, Site, Talk

SECRET = {"secret": "the secret of all workers"}
MOST = 8 * 1024
"""Bytes that all headers of a request may have in many servers."""


def like(talk: Talk, token: str) -> Talk:
    """The same client with another id."""
    return Talk(talk.site, talk.version, token)


# --- beginning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", LEGACY)
def test_initialize_in_a_session_begins_another(site: Site, version: str) -> None:
    """LIFE-11: bridges take the new id, and other clients may go on with the old one."""
    first = site.begin("2025-06-18", capabilities={"roots": {}})
    answer = first.post(initialize(version, capabilities={"sampling": {}}))
    assert answer.result["protocolVersion"] == version
    second = Talk(site, version, answer.header("mcp-session-id") or "")
    assert second.token not in ("", first.token)
    known = json.loads(second.call("who").text)
    assert (known["revision"], known["sampling"]) == (version, True)
    assert json.loads(first.call("who").text)["revision"] == "2025-06-18"


@pytest.mark.parametrize("version", LEGACY)
def test_the_session_id_carries_what_was_negotiated(site: Site, version: str) -> None:
    """HTTPL-14, HTTPL-18, SEC-18, LIFE-2, LIFE-8: which is visible ASCII; no header is needed."""
    talk = site.begin(version, capabilities={"sampling": {}})
    assert talk.version == version
    assert all("!" <= character <= "~" for character in talk.token)
    for headers in ({}, {"MCP-Protocol-Version": None}):
        message = request(1, "tools/call", called("who", {}))
        known = json.loads(talk.post(message, headers).text)
        assert (known["revision"], known["name"]) == (version, CLIENT["name"])
        assert known["sampling"] is True


# --- the version header ---------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["2099-01-01", "2025-06-19", "", "x"])
@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
def test_a_version_that_no_handshake_has_is_refused(site: Site, verb: str, other: str) -> None:
    """HTTPL-18, HTTPL-19."""
    talk = site.begin("2025-06-18")
    headers = {**talk.headers, "MCP-Protocol-Version": other}
    if verb == "POST":
        assert talk.post(request(1, "ping"), headers).refusal == (400, -32600)
    else:
        assert site.send(verb, {**headers, "Accept": EVENTS}).status in (400, 405)
    assert talk.request("ping").result == {}


# --- ending ---------------------------------------------------------------------------------------


def test_after_its_end_every_use_of_an_id_is_404(legacy: Talk) -> None:
    """HTTPL-16, HTTPL-17: and its streams end."""
    stream = legacy.get()
    assert stream.status == 200
    assert legacy.delete().status == 204
    assert stream.events() == []
    assert legacy.post(request(1, "ping")).status == 404
    assert legacy.post(notification("notifications/initialized")).status == 404
    assert legacy.get().status == 404
    assert legacy.delete().status == 404


# --- ids that are not ours, or not valid any more -------------------------------------------------


def test_every_id_that_is_not_valid_has_the_same_answer(host: Host, serve: Serve) -> None:
    """HTTPL-16, SEC-6: clients do not learn which ids exist."""
    site = serve(app=SECRET, principal=by_header)
    ada = {"X-User": "ada"}
    talk = site.begin(headers=ada)
    token = talk.token
    middle = len(token) // 2
    swapped = "A" if token[middle] != "A" else "B"
    other = serve(app={"secret": "another one altogether"}, principal=by_header)
    foreign = other.begin(headers=ada)
    ended = site.begin(headers=ada)
    assert ended.post(request(1, "ping"), ada).status == 200
    assert site.send("DELETE", {**ended.headers, **ada}).status == 204
    tokens = {
        "made up": "0" * 40,
        "no id at all": "!",
        "tampered": token[:middle] + swapped + token[middle + 1 :],
        "truncated": token[:-4],
        "longer": token + "AAAA",
        "of another server": foreign.token,
        "ended": ended.token,
        "very long": "A" * 7000,
    }
    answers = {
        name: like(talk, each).post(request(1, "ping"), ada) for name, each in tokens.items()
    }
    answers["of another user"] = talk.post(request(1, "ping"), {"X-User": "eve"})
    answers["of a user"] = talk.post(request(1, "ping"))
    assert {name: each.status for name, each in answers.items()} == dict.fromkeys(answers, 404)
    assert len({each.body for each in answers.values()}) == 1
    assert talk.post(request(1, "ping"), ada).status == 200


@pytest.mark.parametrize("in_use", [False, True], ids=["unused", "with state"])
def test_an_id_expires(serve: Serve, monkeypatch: pytest.MonkeyPatch, in_use: bool) -> None:
    """HTTPL-24, HTTPL-16: also while the session has state."""
    site = serve(session_lifetime=60)
    talk = site.begin()
    if in_use:
        assert talk.get().status == 200
    assert talk.request("ping").status == 200
    now = time.time()
    monkeypatch.setattr("mcpkit.transports.http.session_ids.time.time", lambda: now + 50)
    assert talk.request("ping").status == 200
    monkeypatch.setattr("mcpkit.transports.http.session_ids.time.time", lambda: now + 61)
    assert talk.request("ping").status == 404


# --- several processes with one secret ------------------------------------------------------------


@pytest.mark.parametrize("version", LEGACY)
def test_a_session_continues_in_processes_with_the_same_secret(serve: Serve, version: str) -> None:
    """HTTPL-14: after a restart, and in another worker."""
    talk = serve(app=SECRET).begin(version, capabilities={"sampling": {}})
    again = Talk(serve(app=SECRET), version, talk.token)
    assert json.loads(again.call("who").text)["name"] == CLIENT["name"]
    assert json.loads(again.call("who").text)["sampling"] is True
    assert again.notify("notifications/initialized").status == 202
    assert again.get().status == 200


def test_an_older_secret_still_opens_its_sealed_values(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And without a secret, every process has its own."""
    talk = serve(app={"secret": "an old secret of ours"}).begin()
    rotated = serve(app={"secret": ["a new secret of ours", "an old secret of ours"]})
    assert Talk(rotated, talk.version, talk.token).request("ping").result == {}
    assert like(talk, rotated.begin().token).request("ping").status == 404
    monkeypatch.delenv("MCPKIT_SECRET", raising=False)
    talk = serve().begin()
    assert Talk(serve(), talk.version, talk.token).request("ping").status == 404


# --- what an id has room for ----------------------------------------------------------------------

NOISE = Random(7).randbytes(60_000).hex()
"""What no compression makes fit."""

NAMES = [NOISE[place : place + 20] for place in range(0, len(NOISE), 20)]
PICTURE = {"src": f"data:image/png;base64,{NOISE}", "mimeType": "image/png"}


@pytest.mark.parametrize(
    "members",
    [
        {"clientInfo": {**CLIENT, "icons": [PICTURE]}},
        {"clientInfo": {**CLIENT, "name": NOISE, "title": NOISE}},
        {"capabilities": {"sampling": {}, "experimental": {name: {} for name in NAMES}}},
        {"capabilities": {"sampling": {}, **{name: {} for name in NAMES}}},
        {"capabilities": {"sampling": {name: {name: [name] * 4} for name in NAMES}}},
        {"capabilities": {"sampling": {NOISE: {}}}},
    ],
    ids=["icons", "names", "experimental", "unknown", "options", "a long option"],
)
def test_however_much_a_client_says_its_id_fits_into_a_header(
    site: Site, members: dict[str, Any]
) -> None:
    """HTTPL-14: and what matters of it is kept."""
    talk = site.begin(**{"capabilities": {"sampling": {}}, **members})
    assert sum(len(name) + len(value) for name, value in talk.headers.items()) < MOST
    known = talk.call("who").result["structuredContent"]
    assert known["sampling"] is True
    assert known["name"][:1] == members.get("clientInfo", CLIENT)["name"][:1]


# --- answers and who waits for them ---------------------------------------------------------------


@pytest.mark.parametrize("member", ["result", "error"])
def test_an_answer_to_a_question_of_another_worker_is_409(serve: Serve, member: str) -> None:
    """S2C-3: which says what would help."""
    first, second = serve(app=SECRET), serve(app=SECRET)
    talk = first.begin(capabilities={"elicitation": {}})
    asking = talk.call("user", name="elsewhere")
    question = asking.message()
    value = {"action": "decline"} if member == "result" else {"code": -1, "message": "no"}
    message = {"jsonrpc": "2.0", "id": question["id"], member: value}
    elsewhere = Talk(second, talk.version, talk.token).post(message)
    assert elsewhere.status == 409
    assert "another worker" in elsewhere.error
    assert "Mcp-Session-Id" in elsewhere.error
    assert talk.post(message).status == 202
    assert asking.messages()[-1]["id"] == 1


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": None, "result": {}},
        {"jsonrpc": "2.0", "result": {}},
        {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": ""}},
    ],
    ids=["null", "no id", "both"],
)
def test_an_answer_to_nothing_is_400(site: Site, message: Any) -> None:
    """HTTPL-2, MSG-6."""
    assert site.begin().post(message).refusal == (400, -32600)


@pytest.mark.parametrize("broken", [7, None, []], ids=repr)
def test_a_malformed_answer_is_400_and_ends_the_wait(site: Site, broken: Any) -> None:
    """HTTPL-2, S2C-4."""
    talk = site.begin(capabilities={"sampling": {}})
    call = talk.call("model")
    answer = talk.post({"jsonrpc": "2.0", "id": call.message()["id"], "result": broken})
    assert answer.refusal == (400, -32600)
    assert call.result["isError"] is True


def test_sessions_of_two_apps_are_not_mixed_up(host: Host) -> None:
    """SEC-6."""
    first = host.serve(MCPKit("first"))
    second = host.serve(MCPKit("second"))
    talk = first.begin(BATCHES)
    assert Talk(second, BATCHES, talk.token).request("ping").status == 404
