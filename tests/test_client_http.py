"""The client over HTTP, against servers that behave in every way a server may, or may not."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any
from unittest.mock import AsyncMock, patch

import anyio
import httpx2
import pytest
from anyio.abc import TaskGroup

from mcpkit import Client
from mcpkit._protocol.client_connection import OutgoingMessage
from mcpkit._protocol.connection import SUBSCRIPTION_KEY
from mcpkit.client import client as client_module
from mcpkit.client import http as http_client
from mcpkit.client.results import CallResult, Progress
from mcpkit.errors import (
    ConnectionClosed,
    HeaderMismatch,
    InvalidRequest,
    MethodNotFound,
    ProtocolError,
    UnsupportedProtocolVersion,
)
from tests.fakes import DONE, FakeHost, FakeSite, Handle, Incoming, hosting, within
from tests.kit import PATIENCE, Recorder, until
from tests.messages import LAST_HANDSHAKE, LEGACY, MODERN, notification, request

JSON_OR_EVENTS = "application/json, text/event-stream"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "_MIN_BACK_OFF_S", 0.001)
    monkeypatch.setattr(client_module, "_REOPEN_S", 0.001)
    # A line for every request would hide the rest of a failed test's log.
    logging.getLogger("httpx2").setLevel(logging.WARNING)


@pytest.fixture(scope="module")
def host() -> Iterator[FakeHost]:
    with hosting() as found:
        yield found


@pytest.fixture
def site(host: FakeHost) -> FakeSite:
    return host.site()


@pytest.fixture
def modern(site: FakeSite) -> FakeSite:
    """A server without handshake, whose tools say that they are done."""
    site.modern()
    site.on("tools/call")(lambda it: it.done())
    return site


@pytest.fixture
def legacy(site: FakeSite) -> FakeSite:
    """A server with a handshake, whose tools say that they are done."""
    site.legacy()
    site.on("tools/call")(lambda it: it.done())
    return site


async def call_tool(site: FakeSite, **options: Any) -> CallResult:
    """Call a tool with a client of its own."""
    async with Client(site.url, **options) as client:
        return await client.call_tool("t")


async def refused(site: FakeSite, **options: Any) -> str:
    """What a client says that cannot be opened."""
    with pytest.raises(ConnectionClosed) as raised:
        await Client(site.url, **options).__aenter__()
    return str(raised.value)


def resuming(handle: Handle) -> Handle:
    """A server without a stream of its own, whose other streams are resumed."""

    async def get(incoming: Incoming) -> None:
        is_resumed = incoming.verb != "GET" or "last-event-id" in incoming.headers
        await (handle(incoming) if is_resumed else incoming.reply(405))

    return get


def progress(incoming: Incoming, number: int) -> dict[str, Any]:
    token = incoming.params["_meta"]["progressToken"]
    return notification("notifications/progress", progressToken=token, progress=number)


# --- which revision (ERA-11 to ERA-13) ------------------------------------------------------------


def refusal(status: int, body: str, kind: str | None = "application/json") -> Handle:
    return lambda it: it.reply(status, body.encode(), kind)


@pytest.mark.parametrize(
    "answer",
    [
        refusal(400, "", None),
        refusal(400, "<h1>Bad request</h1>", "text/html"),
        refusal(400, '{"detail": "no session"}'),
        refusal(400, '{"error": {"code": -32022}}'),
        refusal(404, "not found", "text/plain"),
        refusal(405, "", None),
        refusal(406, "", None),
        refusal(422, "{}"),
        refusal(400, '{"jsonrpc": "2.0", "id": null, "error": {"code": -32600}}'),
        refusal(400, '{"jsonrpc": "2.0", "id": "x", "error": {"code": -1}}'),
        refusal(500, '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32603}}'),
        refusal(200, '{"jsonrpc": "2.0", "id": 1, "error": {"code": -32601}}'),
        refusal(200, '{"jsonrpc": "2.0", "id": 1, "result": {}}'),
        refusal(200, '{"jsonrpc": "2.0", "id": 1, "result": "hello"}'),
        lambda it: it.error(-32022, 400, data={"supported": [LAST_HANDSHAKE], "requested": "x"}),
        Incoming.gone,
    ],
)
async def test_any_other_answer_and_silence_lead_to_the_handshake(
    legacy: FakeSite, answer: Handle
) -> None:
    """ERA-11."""
    legacy.on("server/discover")(answer)
    probe_timeout = 0.3 if answer is Incoming.gone else PATIENCE
    async with Client(legacy.url, probe_timeout=probe_timeout) as client:
        assert client.revision == LAST_HANDSHAKE
        assert (await client.call_tool("t")).text == "done"


@pytest.mark.parametrize(
    ("code", "data", "error"),
    [
        (-32022, {"supported": ["2999-01-01"], "requested": "x"}, UnsupportedProtocolVersion),
        (-32020, None, HeaderMismatch),
        (-32021, {"requiredCapabilities": {"roots": {}}}, ProtocolError),
    ],
)
async def test_a_recognised_error_without_a_way_out_is_raised(
    site: FakeSite, code: int, data: Any, error: type[Exception]
) -> None:
    """ERA-13: no handshake is tried."""
    site.on("server/discover")(lambda it: it.error(code, 400, data=data))
    with pytest.raises(error):
        await Client(site.url).__aenter__()
    assert site.methods() == ["server/discover"]


@pytest.mark.parametrize(
    ("status", "body", "kind", "shown"),
    [
        (401, b"", None, "answered 401 Unauthorized"),
        (403, b"Forbidden\n  origin", "text/plain", "answered 403 Forbidden: Forbidden origin"),
        (429, b"", None, "answered 429 Too Many Requests"),
        (500, b"x" * 300, "text/plain", "answered 500 Internal Server Error: " + "x" * 200 + "…"),
        (503, b"\xff", "text/plain", "answered 503 Service Unavailable: �"),
        (200, b"<h1>Hi</h1>", "text/html", "200 OK with text/html instead of an answer: <h1>Hi"),
        (202, b"", None, "answered 202 Accepted with no content instead of an answer"),
        (200, b"{}", "application/json", "200 OK with application/json instead of an answer: {}"),
    ],
)
async def test_other_answers_are_errors_that_show_them(
    site: FakeSite, status: int, body: bytes, kind: str | None, shown: str
) -> None:
    site.on("server/discover", "initialize")(lambda it: it.reply(status, body, kind))
    said = await refused(site)
    assert shown in said
    assert said.startswith(site.url)
    assert site.methods() == ["server/discover"]


@pytest.mark.parametrize("is_mcp", [True, False])
@pytest.mark.parametrize(
    ("challenge", "headers", "is_advised"),
    [
        ("Bearer", None, True),
        ('Basic realm="a", bearer resource_metadata="https://a.example"', None, True),
        ('DPoP algs="ES256"', None, True),
        ("Basic", None, False),
        ("Bearers", None, False),
        ("", None, False),
        ("Bearer", {"authorization": "Bearer of-the-caller"}, False),
    ],
)
async def test_a_client_without_a_token_gets_advice(
    site: FakeSite, is_mcp: bool, challenge: str, headers: Any, is_advised: bool
) -> None:
    error = {"code": -32600, "message": "A token is needed"}
    body = {"jsonrpc": "2.0", "id": 1, "error": error} if is_mcp else ""
    site.on("server/discover")(lambda it: it.json(body, 401, www_authenticate=challenge))
    with pytest.raises(InvalidRequest if is_mcp else ConnectionClosed) as raised:
        await Client(site.url, headers=headers).__aenter__()
    advice = "; pass auth=mcpkit.client.auth.OAuth() to log in, or auth= with a token"
    assert str(raised.value).endswith(advice) is is_advised
    if isinstance(raised.value, InvalidRequest):
        assert raised.value.message == "A token is needed"  # which is the server's


@pytest.mark.parametrize(
    ("times", "after", "pauses"),
    [
        (3, "2", [2, 2, 2]),
        (6, "0", None),
        (1, "11", None),
        (1, "Wed, 21 Oct 2026 07:28:00 GMT", None),
        (1, "", None),
    ],
)
async def test_a_call_is_postponed_neither_too_often_nor_for_too_long(
    modern: FakeSite, times: int, after: str, pauses: list[int] | None
) -> None:
    """RFC 6585, 4: otherwise it is sent again."""

    @modern.on("tools/call")
    async def postpone(incoming: Incoming) -> None:
        is_late = len(modern.of("tools/call")) > times
        await (incoming.done() if is_late else incoming.json({}, 429, retry_after=after))

    async with Client(modern.url) as client:
        with patch("mcpkit.client.http.anyio.sleep", AsyncMock()) as sleep:
            if pauses is None:
                with pytest.raises(ConnectionClosed, match="answered 429 Too Many Requests"):
                    await client.call_tool("any")
            else:
                assert (await client.call_tool("any")).text == "done"
                assert [each.args[0] for each in sleep.call_args_list] == pauses
    assert len(modern.of("tools/call")) == times + (pauses is not None)


async def test_a_refusal_that_never_ends_is_still_one(
    site: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "_FOREIGN_S", 0.1)

    @site.on("server/discover")
    async def drip(incoming: Incoming) -> None:
        await incoming.begin(503, "text/plain")
        await incoming.piece("wait")
        await incoming.gone()

    assert "503" in await refused(site, timeout=None, probe_timeout=PATIENCE)


async def test_a_modern_revision_that_was_asked_for_is_insisted_on(legacy: FakeSite) -> None:
    """The handshake finds out what the server speaks, and its session is ended."""
    says = f"^Unsupported protocol version: {MODERN}; supported: {LAST_HANDSHAKE}$"
    with pytest.raises(UnsupportedProtocolVersion, match=says):
        await Client(legacy.url, revision=MODERN).__aenter__()
    assert legacy.methods()[:2] == ["server/discover", "initialize"]
    assert legacy.methods()[-1] == "DELETE"


async def test_a_refusal_says_what_the_server_answered_if_it_speaks_no_revision(
    site: FakeSite,
) -> None:
    assert "400 Bad Request" in await refused(site, revision=MODERN)


# --- no server ------------------------------------------------------------------------------------


@pytest.mark.parametrize("accepts", [False, True])
async def test_no_server_is_one_line_that_names_the_url(accepts: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        thread = threading.Thread(target=lambda: listener.accept()[0].close())
        if accepts:
            thread.start()
        else:
            listener.close()
        with pytest.raises(ConnectionClosed) as raised:
            await Client(url).__aenter__()
        if accepts:
            thread.join(PATIENCE)
            assert "does not answer" in str(raised.value)
        else:
            assert str(raised.value) == f"Cannot connect to {url}: the connection is refused"


async def test_a_malformed_url_is_refused_and_secrets_of_another_are_not_shown(
    site: FakeSite,
) -> None:
    for url in ("http://", "http://host:port/mcp"):
        with pytest.raises(ValueError, match="is not a URL"):
            await Client(url).__aenter__()
    site.url = site.url.replace("://", "://ann:hush@") + "?token=hush"
    said = await refused(site, revision=MODERN)
    assert "hush" not in said
    assert site.path in said


async def test_a_missing_library_is_named_by_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "mcpkit.client.http")
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ImportError, match=r'pip install "mcpkit\[client\]"'):
        await Client("http://127.0.0.1:1/mcp").__aenter__()


# --- 2026-07-28: what is sent ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "add", "arguments": {}}, "add"),
        ("resources/read", {"uri": "a:ü"}, "=?base64?YTrDvA==?="),
        ("tasks/get", {"taskId": "t1"}, "t1"),
        ("tools/list", {"name": "x"}, None),
        ("completion/complete", {"uri": "x"}, None),
    ],
)
async def test_headers_repeat_what_the_body_says(
    modern: FakeSite, method: str, params: dict[str, Any], name: str | None
) -> None:
    """HTTPM-2, HDR-6."""
    modern.on(method)(lambda it: it.result(resultType="complete"))
    async with Client(modern.url) as client:
        await client.request(method, params)
    sent = modern.seen[-1]
    assert sent.headers["mcp-protocol-version"] == MODERN
    assert sent.headers["mcp-method"] == method
    assert sent.headers.get("mcp-name") == name
    assert sent.headers["accept"] == JSON_OR_EVENTS
    assert sent.headers["content-type"] == "application/json"


async def test_a_server_that_can_be_discovered_has_no_handshake_and_no_session(
    modern: FakeSite,
) -> None:
    """ERA-11."""
    modern.on("tools/call")(lambda it: it.result({"mcp-session-id": "s1"}, **DONE))
    async with Client(modern.url) as client:
        assert client.revision == MODERN
        for _ in range(2):
            await client.call_tool("t")
    assert modern.methods() == ["server/discover", "tools/call", "tools/call"]
    assert not any("mcp-session-id" in each.headers for each in modern.seen)


@pytest.mark.parametrize(
    ("status", "code", "error"), [(404, -32601, MethodNotFound), (400, -32600, InvalidRequest)]
)
async def test_an_error_is_the_answer_with_any_status_and_without_an_id(
    modern: FakeSite, status: int, code: int, error: type[ProtocolError]
) -> None:
    """HTTPM-5: status 404 has nothing to do with a session."""
    body = {"jsonrpc": "2.0", "error": {"code": code, "message": "unreadable"}}
    modern.on("tools/call")(lambda it: it.json(body, status))
    with pytest.raises(error, match="unreadable"):
        await call_tool(modern)


async def test_a_notification_is_a_post_of_its_own_which_may_be_refused(modern: FakeSite) -> None:
    modern.on("notifications/x")(lambda it: it.reply(202))
    async with Client(modern.url) as client:
        await client.notify("notifications/x")
        assert modern.seen[-1].headers["mcp-method"] == "notifications/x"
        with pytest.raises(ConnectionClosed, match="400"):
            await client.notify("notifications/y")


# --- 2026-07-28: what comes back ------------------------------------------------------------------


async def test_a_request_of_the_server_is_not_answered(
    modern: FakeSite, caplog: pytest.LogCaptureFixture
) -> None:
    """MSG-13, HTTPM-9."""
    modern.on("tools/call")(lambda it: it.events(request("q1", "roots/list"), it.answer(**DONE)))
    async with Client(modern.url, roots=["file:///a"]) as client:
        for _ in range(3):  # an answer to the first would be there before the third
            assert (await client.call_tool("t")).text == "done"
    assert "sends the request roots/list in 2026-07-28" in caplog.text
    assert "answer" not in modern.methods()


async def test_a_stream_that_stays_open_after_the_answer_does_not_hold_it_up(
    modern: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer does not wait for its end, which is not waited for without end either."""
    modern.on("tools/call")(lambda it: it.events(it.answer(**DONE), stays=True))
    async with Client(modern.url) as client:
        monkeypatch.setattr(http_client, "_CLOSE_S", 2 * PATIENCE)
        with anyio.fail_after(PATIENCE):
            await client.call_tool("t")
        monkeypatch.setattr(http_client, "_CLOSE_S", 0.05)
        await client.call_tool("t")
        await until(modern.seen[-1].over.is_set)


async def test_a_stream_that_has_ended_leaves_its_connection_to_others(modern: FakeSite) -> None:
    modern.on("tools/call")(lambda it: it.events(it.answer(**DONE)))
    transport = httpx2.AsyncHTTPTransport()
    async with (
        httpx2.AsyncClient(transport=transport) as mine,
        Client(modern.url, http_client=mine) as client,
    ):
        for _ in range(3):
            await client.call_tool("t")
            await until(lambda: all(each.is_idle() for each in transport._pool.connections))
    assert len({each.client for each in modern.seen}) == 1


async def streams_id(incoming: Incoming) -> None:
    await incoming.event(id="1", retry="1", data="")


async def breaks_off(incoming: Incoming) -> None:
    await incoming.begin(200, "application/json", {"content_length": "100"})
    await incoming.piece("{")
    raise RuntimeError


@pytest.mark.parametrize(
    ("answer", "said"),
    [(streams_id, "tools/call without an answer"), (breaks_off, "broke off its answer")],
)
async def test_a_response_that_ends_too_soon_is_an_error(
    modern: FakeSite, answer: Handle, said: str
) -> None:
    """HTTPM-13: the stream is not resumed, even if it has ids."""
    modern.on("tools/call")(answer)
    with pytest.raises(ConnectionClosed, match=said):
        await call_tool(modern)
    assert "GET" not in modern.methods()


@pytest.mark.parametrize("kind", ["json", "events"])
async def test_large_answers_arrive_whole_and_larger_ones_are_refused(
    modern: FakeSite, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "ä" * 3_000_000

    @modern.on("tools/call")
    async def call(incoming: Incoming) -> None:
        answer = incoming.answer(resultType="complete", content=[{"type": "text", "text": text}])
        body = json.dumps(answer, ensure_ascii=False)
        if kind == "json":
            await incoming.begin(200, "application/json")
            await incoming.piece(body)
        else:
            await incoming.piece(f"data: {body}\n\n")

    async with Client(modern.url) as client:
        assert (await client.call_tool("t")).text == text
        monkeypatch.setattr(http_client, "MAX_EVENT_BYTES", 1000)
        with pytest.raises(ConnectionClosed, match="sends too much"):
            await client.call_tool("t")
        await until(modern.seen[-1].over.is_set)


# --- 2026-07-28: cancelling -----------------------------------------------------------------------


@pytest.mark.parametrize("cancels", [False, True])
@pytest.mark.parametrize("tool", ["silent", "stream"])
async def test_a_timeout_or_cancellation_closes_the_response(
    modern: FakeSite, tool: str, cancels: bool
) -> None:
    """CANC-5: instead of a notification, before the headers of the response and after them."""
    modern.on("tools/call")(lambda it: it.gone() if tool == "silent" else it.events(stays=True))
    async with Client(modern.url) as client:
        if cancels:
            async with anyio.create_task_group() as group:
                group.start_soon(partial(client.call_tool, tool, on_progress=print))
                await modern.arrival("tools/call")
                group.cancel_scope.cancel()
        else:
            with pytest.raises(TimeoutError):
                await client.call_tool(tool, on_progress=print, timeout=0.5)
        await until((await modern.arrival("tools/call")).over.is_set)
        assert modern.seen[-1].left
    assert modern.methods() == ["server/discover", "tools/call"]


# --- 2026-07-28: arguments in headers -------------------------------------------------------------


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


REGION = {"type": "string", "x-mcp-header": "Region"}


@pytest.fixture
def routed(modern: FakeSite) -> FakeSite:
    """A tool that wants its argument in a header, and one that declares its own in a wrong way."""

    @modern.on("tools/list")
    async def listed(incoming: Incoming) -> None:
        wrong = tool("wrong", a={"type": "number", "x-mcp-header": "A"})
        tools = [tool("route", region=REGION, n={"type": "integer"}), wrong]
        await incoming.result(resultType="complete", tools=tools)

    @modern.on("tools/call")
    async def call(incoming: Incoming) -> None:
        region = incoming.params["arguments"].get("region")
        if region is not None and "mcp-param-region" not in incoming.headers:
            await incoming.error(-32020, 400)
        else:
            await incoming.done()

    return modern


@pytest.mark.parametrize("revision", [LAST_HANDSHAKE, MODERN])
async def test_arguments_are_repeated_in_headers(
    routed: FakeSite, revision: str, caplog: pytest.LogCaptureFixture
) -> None:
    """HDR-3, HDR-4, HDR-6: only since 2026-07-28."""
    is_modern = revision == MODERN
    if not is_modern:
        routed.legacy().on("tools/call")(lambda it: it.done())
    async with Client(routed.url, revision=revision) as client:
        listed = [each.name for each in await client.list_tools()]
        await client.call_tool("route", {"region": "Köln", "n": 1})
    sent = routed.of("tools/call")[0].headers
    assert listed == (["route"] if is_modern else ["route", "wrong"])
    assert ("'wrong' is left out" in caplog.text) is is_modern
    assert sent.get("mcp-param-region") == ("=?base64?S8O2bG4=?=" if is_modern else None)
    assert sent.get("mcp-name") == ("route" if is_modern else None)
    assert "mcp-param-n" not in sent


@pytest.mark.parametrize("was_listed", [False, True])
async def test_a_tool_that_is_unknown_or_has_changed_is_looked_up_when_it_is_refused(
    routed: FakeSite, was_listed: bool
) -> None:
    listed = routed.handler("tools/list")
    routed.on("tools/list")(lambda it: it.result(resultType="complete", tools=[tool("route")]))
    async with Client(routed.url) as client:
        if was_listed:
            await client.list_tools()
        routed.on("tools/list")(listed)
        assert (await client.call_tool("route", {"region": "eu"})).text == "done"
    assert routed.methods()[-3:] == ["tools/call", "tools/list", "tools/call"]


async def test_a_declaration_that_has_become_wrong_is_forgotten(routed: FakeSite) -> None:
    """HDR-3."""
    changed = tool("route", region={"type": "number", "x-mcp-header": "Region"})
    async with Client(routed.url) as client:
        await client.list_tools()
        routed.on("tools/list")(lambda it: it.result(resultType="complete", tools=[changed]))
        assert await client.list_tools() == []
        routed.on("tools/call")(lambda it: it.done())
        await client.call_tool("route", {"region": "eu"})
    assert "mcp-param-region" not in routed.of("tools/call")[0].headers


async def test_a_refusal_that_a_list_does_not_explain_is_raised(routed: FakeSite) -> None:
    routed.on("tools/call")(lambda it: it.error(-32020, 400))
    async with Client(routed.url) as client:
        await client.list_tools()
        with pytest.raises(HeaderMismatch):
            await client.call_tool("route", {"region": "eu"})
    assert len(routed.of("tools/call")) == 1


# --- changes --------------------------------------------------------------------------------------


async def test_a_resource_has_one_stream_which_is_opened_again(modern: FakeSite) -> None:
    """SUB-6: whether the stream breaks off, or the server ends it, or is away for a while."""

    @modern.on("subscriptions/listen")
    async def listen(incoming: Incoming) -> None:
        number, tag = len(modern.of(incoming.method)), {SUBSCRIPTION_KEY: incoming.message["id"]}
        if number == 3:
            await incoming.reply(503)
            return
        accepted = incoming.params["notifications"]
        said = "notifications/subscriptions/acknowledged"
        await incoming.event(notification(said, notifications=accepted, _meta=tag))
        if number == 2:
            await incoming.event(incoming.answer(resultType="complete"))
        elif number == 4:
            updated = "notifications/resources/updated"
            await incoming.event(notification(updated, uri="a://b", _meta=tag))
            await incoming.gone()

    heard = Recorder()
    async with Client(modern.url, on_notification=heard) as client:
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(client.subscribe, "a://b")
        await until(lambda: "notifications/resources/updated" in dict(heard.calls))
        streams = modern.of("subscriptions/listen")
        assert len(streams) == 4
        await client.unsubscribe("a://b")
        assert await anyio.to_thread.run_sync(streams[-1].over.wait, PATIENCE)
        await client.subscribe("a://b")
        await modern.arrival("subscriptions/listen", 5)
    wanted = [each.params["notifications"] for each in modern.of("subscriptions/listen")]
    # The last one ends as well, and may be opened again already.
    assert wanted[:5] == [{"resourceSubscriptions": ["a://b"]}] * 5


async def test_a_new_session_has_the_subscriptions_of_the_lost_one(lost: FakeSite) -> None:
    """HTTPL-16, RES-10."""
    lost.on("resources/subscribe", "resources/unsubscribe")(lambda it: it.result())
    async with Client(lost.url, revision=LAST_HANDSHAKE) as client:
        await client.subscribe("a://b")
        lost.legacy(session="s2")
        assert (await client.call_tool("t")).text == "done"
        again = await lost.arrival("resources/subscribe", 2)
        assert (again.params, again.headers["mcp-session-id"]) == ({"uri": "a://b"}, "s2")
        await client.unsubscribe("a://b")
        await client.unsubscribe("a://b")
        assert len(lost.of("resources/unsubscribe")) == 1


# --- sessions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("session", [None, "s1"])
@pytest.mark.parametrize("version", LEGACY)
@pytest.mark.parametrize("wanted", ["2024-11-05", "2025-11-25"])
async def test_everything_after_the_handshake_has_session_and_version(
    site: FakeSite, wanted: str, version: str, session: str | None
) -> None:
    """HTTPL-14, HTTPL-19: the version is the one that the server has chosen."""
    site.legacy(session, version)
    async with Client(site.url, revision=wanted) as client:
        await site.arrival("GET")
        assert client.revision == version
    initialize, *others = site.seen
    assert initialize.params["protocolVersion"] == wanted
    assert not {"mcp-session-id", "mcp-protocol-version"} & initialize.headers.keys()
    end = [] if session is None else ["DELETE"]
    assert [each.method for each in others] == ["notifications/initialized", "GET", *end]
    for each in others:
        assert each.headers.get("mcp-session-id") == session
        assert each.headers["mcp-protocol-version"] == version


async def test_what_is_sent_after_leaving_is_refused(legacy: FakeSite) -> None:
    """Such as the answer to a question that the server has put at the last moment."""
    async with Client(legacy.url, revision=LAST_HANDSHAKE) as client:
        link = client.link
    with pytest.raises(ConnectionClosed, match="has left"):
        await link.exchange(OutgoingMessage(b'{"jsonrpc":"2.0","id":"late","result":{}}'))


async def test_leaving_does_not_wait_for_the_server(
    legacy: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither for the end of the session, nor for the server's own stream."""
    monkeypatch.setattr(http_client, "_CLOSE_S", 0.1)

    @legacy.on("DELETE", "GET")
    async def wait(incoming: Incoming) -> None:
        if incoming.verb == "GET":
            await incoming.stream()
        await incoming.gone()

    async with Client(legacy.url, revision=LAST_HANDSHAKE):
        began = time.monotonic()
    assert time.monotonic() - began < 2
    for each in legacy.of("GET") + legacy.of("DELETE"):
        await until(each.over.is_set)


@pytest.fixture
def lost(legacy: FakeSite) -> FakeSite:
    """Its tools know the session s2 alone, and sessions are called s1."""

    @legacy.on("tools/call")
    async def call(incoming: Incoming) -> None:
        if incoming.headers.get("mcp-session-id") == "s2":
            await incoming.done()
        else:
            await incoming.reply(404)

    return legacy


async def test_requests_wait_for_the_new_session(lost: FakeSite) -> None:
    """HTTPL-16: which a handshake without an id begins; a request is sent again."""
    arrived = threading.Event()
    async with Client(lost.url, revision=LAST_HANDSHAKE) as client:
        initialize = lost.legacy(session="s2").handler("initialize")

        @lost.on("initialize")
        async def slowly(incoming: Incoming) -> None:
            await within(arrived)
            await initialize(incoming)

        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "first")
            again = await lost.arrival("initialize", 2)
            group.start_soon(client.call_tool, "second")
            await anyio.wait_all_tasks_blocked()
            arrived.set()
    assert "mcp-session-id" not in again.headers
    assert again.params["protocolVersion"] == LAST_HANDSHAKE
    calls = [(it.params["name"], it.headers["mcp-session-id"]) for it in lost.of("tools/call")]
    assert sorted(calls) == [("first", "s1"), ("first", "s2"), ("second", "s2")]
    notified = [it.headers["mcp-session-id"] for it in lost.of("notifications/initialized")]
    assert notified == ["s1", "s2"]
    assert lost.seen[-1].headers["mcp-session-id"] == "s2"


async def test_a_session_that_is_lost_again_is_an_error(lost: FakeSite) -> None:
    async with Client(lost.url, revision=LAST_HANDSHAKE) as client:
        with pytest.raises(ConnectionClosed, match="has forgotten the session"):
            await client.call_tool("t")
        assert len(lost.of("tools/call")) == 2
        # A handshake that fails is tried again by the next request.
        lost.on("initialize")(lambda it: it.reply(503))
        with pytest.raises(ConnectionClosed, match="503"):
            await client.call_tool("t")
        lost.legacy(session="s2")
        assert (await client.call_tool("t")).text == "done"
        assert client.revision == LAST_HANDSHAKE


async def test_404_without_a_session_leads_to_no_handshake(site: FakeSite) -> None:
    site.legacy(session=None)
    site.on("tools/call")(lambda it: it.reply(404, b"gone", "text/plain"))
    with pytest.raises(ConnectionClosed, match="404 Not Found: gone"):
        await call_tool(site, revision=LAST_HANDSHAKE)
    assert len(site.of("initialize")) == 1


# --- what the server tells and asks (handshake revisions) -----------------------------------------


@pytest.mark.parametrize("where", ["tools/call", "GET"])
async def test_the_server_may_ask_on_any_stream(legacy: FakeSite, where: str) -> None:
    """S2C-2, S2C-3: the answer is a POST of its own."""
    question = request("q1", "roots/list")

    @legacy.on("GET")
    async def get(incoming: Incoming) -> None:
        await incoming.stream()
        if where == "GET":
            await incoming.event(question)
        await incoming.gone()

    @legacy.on("tools/call")
    async def call(incoming: Incoming) -> None:
        await incoming.stream()
        if where == "tools/call":
            await incoming.event(question)
        await until(lambda: legacy.of("answer"))
        await incoming.event(incoming.answer(**DONE))

    await call_tool(legacy, revision=LAST_HANDSHAKE, roots=["file:///a"])
    answer = legacy.of("answer")[0]
    roots = {"roots": [{"uri": "file:///a"}]}
    assert answer.message == {"jsonrpc": "2.0", "id": "q1", "result": roots}
    assert answer.headers["mcp-session-id"] == "s1"


async def test_the_stream_of_the_server_is_opened_again(
    legacy: FakeSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTPL-10, HTTPL-13; also if the server cannot be reached for long."""
    attempts, get_once = count(), http_client.HttpLink._get

    async def sometimes(link: Any, stream: Any) -> Any:
        if 0 < next(attempts) < 8:
            raise ConnectionClosed("the server is away")
        return await get_once(link, stream)

    monkeypatch.setattr(http_client.HttpLink, "_get", sometimes)

    @legacy.on("GET")
    async def get(incoming: Incoming) -> None:
        await incoming.stream()
        if len(legacy.of("GET")) == 1:
            await incoming.event(notification("notifications/x"), id="e1", retry="1")
        else:
            await incoming.gone()

    notified = Recorder()
    async with Client(legacy.url, revision=LAST_HANDSHAKE, on_notification=notified):
        again = await legacy.arrival("GET", 2)
    assert [method for method, _ in notified.calls] == ["notifications/x"]
    assert again.headers["accept"] == "text/event-stream"
    assert again.headers["last-event-id"] == "e1"
    await until(again.over.is_set)


@pytest.mark.parametrize("status", [200, 204, 400, 404, 405, 500])
async def test_a_server_needs_neither_a_stream_of_its_own_nor_an_end_of_sessions(
    legacy: FakeSite, status: int
) -> None:
    """HTTPL-8, HTTPL-17."""
    legacy.on("GET", "DELETE")(lambda it: it.reply(status))
    assert (await call_tool(legacy, revision=LAST_HANDSHAKE)).text == "done"
    assert len(legacy.of("GET")) == 1
    assert legacy.methods()[-1] == "DELETE"


# --- streams that break off (handshake revisions) -------------------------------------------------


@pytest.mark.parametrize("how", ["end", "break"])
async def test_a_stream_is_resumed_where_it_broke_off(
    legacy: FakeSite, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """HTTPL-5, HTTPL-6, HTTPL-13: an event with only an id is not a message."""

    @legacy.on("tools/call")
    async def call(incoming: Incoming) -> None:
        await incoming.event(id="p", retry="1", data="")
        await incoming.event(event="weather", data="fine")
        await incoming.event(progress(incoming, 1), id="e1")
        if how == "break":
            await incoming.piece("id: e2\ndata: lo")
            raise RuntimeError

    @legacy.on("GET")
    @resuming
    async def get(incoming: Incoming) -> None:
        question = legacy.of("tools/call")[0]
        await incoming.event(progress(question, 2), id="e2")
        await incoming.event(question.answer(**DONE), id="e3")

    notified = Recorder()
    async with Client(legacy.url, revision=LAST_HANDSHAKE) as client:
        assert (await client.call_tool("t", on_progress=notified)).text == "done"
    assert [each.progress for each in notified.calls] == [1, 2]
    assert "unreadable" not in caplog.text
    assert legacy.of("GET")[-1].headers["last-event-id"] == "e1"
    assert legacy.of("GET")[-1].headers["mcp-session-id"] == "s1"


async def test_the_wait_that_the_server_wants_is_waited(legacy: FakeSite) -> None:
    """HTTPL-7: every time, and not much longer."""
    ended: list[float] = []
    came: list[float] = []

    @legacy.on("tools/call", "GET")
    @resuming
    async def stream(incoming: Incoming) -> None:
        if incoming.verb == "GET":
            came.append(time.monotonic())
        await incoming.stream()
        if len(came) < 3:
            await incoming.event(id=str(len(came)), retry="200", data="")
        else:
            await incoming.event(legacy.of("tools/call")[0].answer(**DONE))
        ended.append(time.monotonic())

    assert (await call_tool(legacy, revision=LAST_HANDSHAKE)).text == "done"
    waits = [stop - start for start, stop in zip(ended, came, strict=False)]
    assert len(waits) == 3
    assert all(0.2 <= each < 0.75 for each in waits)


@pytest.mark.parametrize(
    ("event", "answer", "said", "resumptions"),
    [
        ({}, refusal(405, ""), "tools/call without an answer", 0),
        ({"id": 1}, refusal(405, ""), "cannot be resumed.*405", 1),
        ({"id": 1}, refusal(200, "welcome", "text/html"), "cannot be resumed.*200 OK.*welcome", 1),
        *(
            ({"id": 1}, answer, "tools/call without an answer", http_client._MAX_RESUMPTIONS)
            for answer in (Incoming.events, refusal(500, ""), refusal(503, ""))
        ),
    ],
)
async def test_a_stream_that_cannot_be_resumed_is_an_error(
    legacy: FakeSite, event: Any, answer: Handle, said: str, resumptions: int
) -> None:
    legacy.on("tools/call")(lambda it: it.event(retry="1", data="", **event))
    legacy.on("GET")(resuming(answer))
    with pytest.raises(ConnectionClosed, match=said):
        await call_tool(legacy, revision=LAST_HANDSHAKE)
    assert len(legacy.of("tools/call")) == 1
    assert len(legacy.of("GET")) == 1 + resumptions


# --- servers that keep a client busy --------------------------------------------------------------


@pytest.mark.parametrize("where", ["the server's own stream", "the stream of a call"])
async def test_a_stream_that_brings_only_ids_is_resumed_less_and_less_often(
    legacy: FakeSite, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """HTTPL-7 says how long a client waits at least."""
    pauses: list[float] = []
    enough = anyio.Event()

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 10:
            enough.set()
            await anyio.Event().wait()

    async def stream(incoming: Incoming) -> None:
        await incoming.event(id=str(len(legacy.seen)), retry="0", data="")

    own = where == "the server's own stream"
    legacy.on("GET", "tools/call")(stream if own else resuming(stream))
    monkeypatch.setattr(http_client, "_MIN_BACK_OFF_S", 1)
    monkeypatch.setattr(anyio, "sleep", pause)
    async with (
        Client(legacy.url, revision=LAST_HANDSHAKE) as client,
        anyio.create_task_group() as tg,
    ):
        if not own:
            tg.start_soon(client.call_tool, "t")
        with anyio.fail_after(PATIENCE):
            await enough.wait()
        tg.cancel_scope.cancel()
    assert pauses == [1, 2, 4, 8, *[16] * 6]


PACKED = gzip.compress(b"\n" * 10_000_000)
UNPACKED = "answers in the content coding gzip, which it was not asked for"


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("where", ["tools/call", "GET"])
async def test_what_is_compressed_unasked_is_not_unpacked(
    legacy: FakeSite, kind: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A thousand times as many bytes may come out of it."""
    legacy.on(where)(lambda it: it.reply(200, PACKED, kind, content_encoding="gzip"))
    async with Client(legacy.url, revision=LAST_HANDSHAKE) as client:
        if where == "tools/call":
            with anyio.fail_after(PATIENCE), pytest.raises(ConnectionClosed, match=UNPACKED):
                await client.call_tool("t")
        elif kind == "text/event-stream":
            await until(lambda: UNPACKED in caplog.text)
    assert {each.headers["accept-encoding"] for each in legacy.seen} == {"identity"}


async def test_a_refusal_may_be_compressed(site: FakeSite) -> None:
    """As proxies do: the status says enough."""

    site.on("server/discover", "initialize")(
        lambda it: it.reply(502, gzip.compress(b"no"), "text/html", content_encoding="gzip")
    )
    assert (await refused(site)).endswith("answered 502 Bad Gateway")


# --- HTTP+SSE (2024-11-05) ------------------------------------------------------------------------


class Old:
    """A server of two endpoints: everything it says is on the stream of the first (SSE-3)."""

    def __init__(self, host: FakeHost, path: str = "/old", endpoint: str | None = None) -> None:
        self.site = host.site(path)
        self.posts = host.also(self.site, "/messages")
        self.stream: Incoming | None = None
        self.site.on("GET")(self.open)
        self.site.on("initialize", "tools/call", "answer", "server/discover")(self.take)
        self.site.on("notifications/initialized", "notifications/cancelled")(self.take)
        self.endpoint = self.posts + "?session=1" if endpoint is None else endpoint

    async def open(self, incoming: Incoming) -> None:
        self.stream = incoming
        await incoming.piece(f": hello\nevent: endpoint\ndata: {self.endpoint}\n\n")
        await incoming.gone()

    async def take(self, incoming: Incoming) -> None:
        if incoming.path != self.posts:
            await incoming.reply(405)
            return
        await incoming.reply(202, b"Accepted", "text/plain")
        assert self.stream is not None
        if incoming.method == "initialize":
            info = {"name": "old", "version": "1"}
            await self.stream.event(
                incoming.answer(protocolVersion="2024-11-05", capabilities={}, serverInfo=info)
            )
        elif incoming.method == "tools/call":
            if incoming.params["name"] == "leave":
                await self.stream.end()
            else:
                await self.stream.event(request("q1", "ping"))
                await self.stream.event(progress(incoming, 1))
        elif incoming.method == "answer":
            call = self.site.of("tools/call")[-1]
            await self.stream.event(call.answer(**DONE), event="message")


@pytest.mark.parametrize("revision", [None, "2024-11-05", "2025-11-25"])
async def test_a_server_of_two_endpoints_is_found(host: FakeHost, revision: str | None) -> None:
    """ERA-12: after 405 to all that was tried before. SSE-6: its session ends with the stream."""
    old = Old(host)
    notified = Recorder()
    async with Client(old.site.url, revision=revision) as client:
        assert client.revision == "2024-11-05"
        assert (await client.call_tool("t", on_progress=notified)).text == "done"
        assert notified.calls == [Progress(1, None, None)]
        for tool, said in (("leave", "The server is gone"), ("t", "")):
            with pytest.raises(ConnectionClosed, match=said or None):
                await client.call_tool(tool)
    await until(old.site.of("GET")[0].over.is_set)
    assert len(old.site.of("GET")) == 1


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:1/messages", "http://[::1"])
async def test_messages_are_not_sent_to_another_origin(host: FakeHost, endpoint: str) -> None:
    old = Old(host, endpoint=endpoint)
    assert f"another origin, {endpoint}" in await refused(old.site)
    await until(old.site.of("GET")[0].over.is_set)


@pytest.mark.parametrize("status", [404, 405, 200])
async def test_the_first_refusal_is_reported_if_no_transport_is_served(
    site: FakeSite, status: int
) -> None:
    site.on("initialize", "server/discover")(refusal(404, "nothing here", "text/plain"))
    site.on("GET")(refusal(status, "<h1>Hi</h1>", "text/html"))
    assert "404 Not Found: nothing here" in await refused(site)
    assert site.methods() == ["server/discover", "initialize", "GET"]


async def test_a_stream_that_names_no_endpoint_is_not_waited_for(site: FakeSite) -> None:
    site.on("GET")(lambda it: it.events(stays=True))
    assert "400" in await refused(site, probe_timeout=0.3)
    await until(site.of("GET")[0].over.is_set)


# --- HTTP itself ----------------------------------------------------------------------------------


async def test_custom_headers_are_sent(legacy: FakeSite) -> None:
    """What the protocol wants in them stays."""
    headers = {"Authorization": "Bearer x", "accept": "text/html"}
    async with Client(legacy.url, revision=LAST_HANDSHAKE, headers=headers):
        pass
    assert legacy.methods()[-1] == "DELETE"
    assert {each.headers["authorization"] for each in legacy.seen} == {"Bearer x"}
    assert legacy.seen[0].headers["accept"] == JSON_OR_EVENTS


async def test_a_given_http_client_is_used_and_left_open(modern: FakeSite) -> None:
    impatient = httpx2.Timeout(0.05, connect=PATIENCE)
    async with httpx2.AsyncClient(headers={"x-mine": "1"}, timeout=impatient) as mine:

        @modern.on("tools/call")
        async def call(incoming: Incoming) -> None:
            await anyio.sleep(0.15)  # its timeouts are not for answers
            await incoming.done()

        async with Client(modern.url, http_client=mine) as client:
            await client.call_tool("t")
        assert not mine.is_closed
    assert {each.headers["x-mine"] for each in modern.seen} == {"1"}


async def test_an_application_in_the_same_process_may_be_asked(
    host: FakeHost, modern: FakeSite
) -> None:
    transport = httpx2.ASGITransport(app=host)
    mine = httpx2.AsyncClient(transport=transport)
    async with mine, Client(f"http://app{modern.path}", http_client=mine) as client:
        assert (await client.call_tool("t")).text == "done"
    assert modern.seen[-1].headers["host"] == "app"


@pytest.mark.parametrize("failing", ["POST", "GET", "DELETE"])
async def test_an_http_client_may_fail_in_its_own_way(legacy: FakeSite, failing: str) -> None:
    """Its exception reaches the caller only."""

    class Mine(httpx2.AsyncHTTPTransport):
        fails = False

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            if self.fails and request.method == failing:
                raise RuntimeError("mine")
            return await super().handle_async_request(request)

    transport = Mine()
    transport.fails = failing != "POST"
    async with httpx2.AsyncClient(transport=transport) as mine:
        client = Client(legacy.url, revision=LAST_HANDSHAKE, http_client=mine)
        async with client:
            assert (await client.call_tool("t")).text == "done"
            transport.fails = True
            if failing == "POST":
                with pytest.raises(RuntimeError, match="mine"):
                    await client.call_tool("t")


ELSEWHERE = "http://127.0.0.1:1/mcp"


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_to_the_same_origin_is_followed(
    host: FakeHost, modern: FakeSite, status: int
) -> None:
    """With the whole request, and once."""
    start = host.site("/start")
    start.on("server/discover", "tools/call")(lambda it: it.reply(status, location=modern.path))
    await call_tool(start)
    assert start.methods() == ["server/discover"]
    assert modern.seen[-1].headers["mcp-name"] == "t"


@pytest.mark.parametrize(
    ("status", "location", "said"),
    [
        *((each, ELSEWHERE, f"a redirect to {ELSEWHERE}, which") for each in (301, 302, 307, 308)),
        (307, "http://[::1", r"a redirect to .*, which is not|Invalid URL in"),
        (307, "http://a:b/", r"a redirect to .*, which is not|Invalid URL in"),
        (307, "http://xn--0/", r"a redirect to .*, which is not|Invalid URL in"),
        (302, None, "302 Found: not here"),
        (403, ELSEWHERE, "403 Forbidden: not here"),
        (307, "", "redirects again and again"),
    ],
)
async def test_a_redirect_to_elsewhere_is_an_error_that_shows_it(
    site: FakeSite, status: int, location: str | None, said: str
) -> None:
    headers = {} if location is None else {"location": location}
    site.on("server/discover")(lambda it: it.reply(status, b"not here", **headers))
    with pytest.raises(ConnectionClosed, match=said):
        await Client(site.url, headers={"Authorization": "Bearer x"}).__aenter__()


@pytest.mark.parametrize("is_cancelled", [True, False])
@pytest.mark.parametrize("revision", [MODERN, LAST_HANDSHAKE])
async def test_leaving_ends_the_calls_that_run(
    site: FakeSite, revision: str, is_cancelled: bool
) -> None:
    """Also if the client itself is cancelled."""
    site.modern().legacy()
    site.on("tools/call", "GET")(lambda it: it.events(stays=True))
    leaving = anyio.Event()

    async def use(group: TaskGroup) -> None:
        async with Client(site.url, revision=revision, timeout=None) as client:
            group.start_soon(fail, client)
            await leaving.wait()

    async def fail(client: Client) -> None:
        with pytest.raises(ConnectionClosed, match="The client has left the server"):
            await client.call_tool("t")

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(use, group)
            await site.arrival("tools/call")
            if is_cancelled:
                group.cancel_scope.cancel()
            leaving.set()
    for each in site.seen:
        await until(each.over.is_set)
    assert site.of("tools/call")[0].left
    assert ("DELETE" in site.methods()) == (revision != MODERN)
