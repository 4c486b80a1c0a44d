"""A session: what it advertises, whom it tells of changes, how much it runs, how it ends."""

from __future__ import annotations

import inspect
import json
import logging
import re
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from mcpkit import Context, MCPKit, SyncContext, ToolError
from mcpkit._concurrency.loop import open_loop
from mcpkit._protocol.connection import Request
from mcpkit._protocol.messages import notification_text
from mcpkit._server.channel import Channel
from mcpkit._server.server import Settings
from mcpkit._server.session import Session
from mcpkit.errors import ConnectionClosed, InvalidRequest, MethodNotFound
from mcpkit.testing import REVISIONS, AsyncTestClient
from tests.kit import Gate
from tests.scenarios.tapped import HANDSHAKE, MODERN, PATIENCE, TappedClient

pytestmark = pytest.mark.anyio

every_revision = pytest.mark.parametrize("revision", REVISIONS)
every_handshake = pytest.mark.parametrize("revision", HANDSHAKE)

ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Ears(Channel):
    """A channel that keeps what it is given."""

    def __init__(self) -> None:
        self.congested = False
        self.messages: list[Any] = []
        self._arrived = anyio.Event()

    def send(self, text: bytes, about: Request | None = None) -> None:
        self.messages.append(json.loads(text))
        self._arrived.set()

    async def drain(self, about: Request | None = None) -> None:
        return

    async def wait(self, count: int) -> list[Any]:
        with anyio.fail_after(PATIENCE):
            while len(self.messages) < count:
                self._arrived = anyio.Event()
                await self._arrived.wait()
        return self.messages

    @property
    def methods(self) -> list[str]:
        return [each["method"] for each in self.messages if "method" in each]


def request(id: int | str, method: str, **params: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    return json.dumps(message).encode()


def initialize(version: str = HANDSHAKE[-1]) -> bytes:
    info = {"name": "t", "version": "0"}
    return request(0, "initialize", protocolVersion=version, capabilities={}, clientInfo=info)


INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'


@asynccontextmanager
async def session_of(app: MCPKit[Any]) -> AsyncIterator[tuple[Session, Ears]]:
    ears = Ears()
    async with open_loop() as loop:
        session = Session(app.server, ears, loop)
        yield session, ears
        await session.aclose()


async def turns(loop: int = 5) -> None:
    """Let the event loop do what is due."""
    for _ in range(loop):
        await anyio.lowlevel.checkpoint()


# --- what is advertised ---------------------------------------------------------------------------


def bare() -> MCPKit[Any]:
    return MCPKit("bare")


@every_revision
async def test_nothing_registered_means_nothing_advertised(revision: str) -> None:
    """DISC-1, TOOL-1, RES-1, PROMPT-1, COMP-1, LOG-1."""
    async with TappedClient(bare(), revision=revision) as client:
        assert client.server_capabilities == {}


METHODS = {
    "tools/list": "TOOL-1",
    "tools/call": "TOOL-1",
    "resources/list": "RES-1",
    "resources/templates/list": "RES-1",
    "resources/read": "RES-1",
    "prompts/list": "PROMPT-1",
    "prompts/get": "PROMPT-1",
    "completion/complete": "COMP-1",
}


@every_revision
@pytest.mark.parametrize("method", METHODS)
async def test_a_method_without_its_capability_does_not_exist(revision: str, method: str) -> None:
    """TOOL-1, RES-1, PROMPT-1, COMP-1."""
    async with AsyncTestClient(bare(), revision=revision) as client:
        with pytest.raises(MethodNotFound):
            await client.request(method, {"name": "a", "uri": "a://b"})


@every_handshake
@pytest.mark.parametrize("method", ["resources/subscribe", "logging/setLevel"])
async def test_nor_do_those_of_a_session(revision: str, method: str) -> None:
    """RES-11, LOG-1."""
    async with AsyncTestClient(bare(), revision=revision) as client:
        with pytest.raises(MethodNotFound):
            await client.request(method, {"uri": "a://b", "level": "info"})


async def test_an_empty_server_can_still_be_listened_to() -> None:
    """SUB-11, SUB-2."""
    async with (
        AsyncTestClient(bare()) as client,
        client.listen(lambda *change: None, tools=True) as agreed,
    ):
        assert agreed == {}


@every_revision
async def test_each_thing_registered_adds_its_capability(revision: str) -> None:
    """DISC-1, TOOL-1."""
    app = bare()
    app.add_tool(lambda: "a", name="a")
    async with TappedClient(app, revision=revision) as client:
        assert client.server_capabilities == {"tools": {"listChanged": True}}


async def test_a_list_that_became_empty_is_no_longer_advertised() -> None:
    """DISC-1."""
    app = bare()
    app.add_tool(lambda: "a", name="a")
    async with AsyncTestClient(app) as client:
        app.remove_tool("a")
        with pytest.raises(MethodNotFound):
            await client.list_tools()


async def test_hints_for_caches_default_to_none_and_private() -> None:
    """CACHE-5, CACHE-1, DISC-4."""
    async with AsyncTestClient(bare()) as client:
        result = await client.request("server/discover")
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


# --- the beginning --------------------------------------------------------------------------------


async def test_changes_wait_for_the_client_to_be_initialized() -> None:
    """LIFE-6: queued, then sent, and each of them once."""
    app = bare()
    async with session_of(app) as (session, ears):
        session.receive(initialize())
        app.add_tool(lambda: "a", name="a")
        app.add_tool(lambda: "b", name="b")
        await turns()
        assert ears.methods == []
        session.receive(INITIALIZED)
        await ears.wait(2)
        assert ears.methods == ["notifications/tools/list_changed"]


async def test_a_client_that_has_said_nothing_is_told_nothing() -> None:
    """LIFE-6."""
    app = bare()
    async with session_of(app) as (_, ears):
        app.add_tool(lambda: "a", name="a")
        await turns()
        assert ears.messages == []


# --- changes --------------------------------------------------------------------------------------


async def test_every_session_is_told_of_a_change() -> None:
    """TOOL-14."""
    app = bare()
    async with session_of(app) as (one, first), session_of(app) as (other, second):
        for session in (one, other):
            session.receive(initialize())
            session.receive(INITIALIZED)
        app.add_prompt(lambda: "a", name="a")
        for ears in (first, second):
            await ears.wait(2)
            assert ears.methods == ["notifications/prompts/list_changed"]


async def test_only_the_session_that_subscribed_is_told() -> None:
    """RES-10."""
    app = bare()
    app.add_resource(lambda: "a", "a://b", name="a")
    async with session_of(app) as (one, first), session_of(app) as (other, second):
        for session in (one, other):
            session.receive(initialize())
            session.receive(INITIALIZED)
        one.receive(request(1, "resources/subscribe", uri="a://b"))
        app.changed("a://b")
        await first.wait(3)
        await turns()
        assert first.methods == ["notifications/resources/updated"]
        assert second.methods == []


async def test_a_subscription_ends_with_its_session() -> None:
    """RES-10."""
    app = bare()
    app.add_resource(lambda: "a", "a://b", name="a")
    async with session_of(app) as (session, ears):
        session.receive(initialize())
        session.receive(INITIALIZED)
        session.receive(request(1, "resources/subscribe", uri="a://b"))
        await session.aclose()
        app.changed("a://b")
        await turns()
        assert ears.methods == []


async def test_many_changes_at_once_are_one_notification() -> None:
    app = bare()
    async with session_of(app) as (session, ears):
        session.receive(initialize())
        session.receive(INITIALIZED)
        for number in range(20):
            app.add_tool(lambda: "a", name=f"t{number}")
        await ears.wait(2)
        await turns()
        assert ears.methods == ["notifications/tools/list_changed"]


async def test_a_change_is_told_once() -> None:
    app = bare()
    app.add_resource(lambda: "a", "a://b", name="a")
    async with session_of(app) as (session, ears):
        session.receive(initialize())
        session.receive(INITIALIZED)
        session.receive(request(1, "resources/subscribe", uri="a://b"))
        app.changed("a://b")
        app.list_changed("prompts")
        await ears.wait(4)
        app.list_changed("prompts")
        await ears.wait(5)
        await turns()
        assert sorted(ears.methods) == [
            "notifications/prompts/list_changed",
            "notifications/prompts/list_changed",
            "notifications/resources/updated",
        ]


async def test_a_change_may_be_announced_from_any_thread() -> None:
    app = bare()
    app.add_resource(lambda: "a", "a://b", name="a")
    async with session_of(app) as (session, ears):
        session.receive(initialize())
        session.receive(INITIALIZED)
        session.receive(request(1, "resources/subscribe", uri="a://b"))
        thread = threading.Thread(target=app.changed, args=["a://b"])
        thread.start()
        await ears.wait(3)
        thread.join(PATIENCE)
        assert ears.methods == ["notifications/resources/updated"]


async def test_each_era_is_told_in_its_own_way() -> None:
    """SUB-4, TOOL-14: a stream beside a handshake, on one connection."""
    app = bare()
    app.add_tool(lambda: "a", name="a")
    async with session_of(app) as (session, ears):
        session.receive(initialize())
        session.receive(INITIALIZED)
        wanted = {"toolsListChanged": True}
        session.receive(request(9, "subscriptions/listen", notifications=wanted, _meta=ENVELOPE))
        app.add_tool(lambda: "b", name="b")
        await ears.wait(4)
        plain, tagged = ears.messages[2:]
        assert "params" not in plain
        assert tagged["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 9}


@pytest.mark.parametrize("announce", [True, False])
async def test_the_server_ends_a_stream(announce: bool) -> None:
    """SUB-6, SUB-7, SUB-4, CANC-7."""
    app = bare()
    async with session_of(app) as (session, ears):
        session.receive(request("s", "subscriptions/listen", notifications={}, _meta=ENVELOPE))
        session.end_listens(announce=announce)
        acknowledged, *cancelled, result = ears.messages
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert [each["params"]["requestId"] for each in cancelled] == ["s"] * announce
        meta = result["result"]["_meta"]
        assert meta["io.modelcontextprotocol/subscriptionId"] == "s"
        assert result["result"]["resultType"] == "complete"


async def test_the_number_of_streams_is_bounded() -> None:
    """SEC-17."""
    app = bare()
    app.server.settings = app.server.settings._replace(max_subscriptions=2)
    async with session_of(app) as (session, ears):
        for id in range(3):
            session.receive(request(id, "subscriptions/listen", notifications={}, _meta=ENVELOPE))
        assert ears.messages[-1]["error"]["code"] == InvalidRequest.CODE


# --- log levels -----------------------------------------------------------------------------------


def talking() -> MCPKit[Any]:
    app = bare()

    @app.tool
    async def speak(ctx: Context) -> str:
        ctx.info("words")
        return "said"

    return app


@every_handshake
async def test_a_level_is_that_of_one_session(revision: str) -> None:
    """LOG-2: per session, not per process."""
    app = talking()
    async with (
        TappedClient(app, revision=revision) as quiet,
        TappedClient(app, revision=revision) as loud,
    ):
        await quiet.set_log_level("error")
        await quiet.call_tool("speak")
        await loud.call_tool("speak")
        assert len(quiet.told("notifications/message")) == 0
        assert len(loud.told("notifications/message")) == 1


async def test_the_first_level_is_the_apps() -> None:
    """LOG-3."""
    app: MCPKit[Any] = MCPKit("quiet", log_level="warning")

    @app.tool
    async def speak(ctx: Context) -> str:
        ctx.info("words")
        return "said"

    async with TappedClient(app, revision=HANDSHAKE[-1]) as client:
        await client.call_tool("speak")
        assert client.told("notifications/message") == []


# --- how much at once -----------------------------------------------------------------------------


async def test_no_more_than_the_limit_run_and_the_rest_wait() -> None:
    app: MCPKit[Any] = MCPKit("limited", max_in_flight=2)
    gate = Gate()
    app.add_tool(gate.pass_through)
    async with AsyncTestClient(app) as client:
        answers: list[str] = []

        async def call() -> None:
            answers.append((await client.call_tool("pass_through")).text)

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                for _ in range(6):
                    group.start_soon(call)
                await gate.wait_for(2)
                gate.open()
        assert gate.most == 2
        assert answers == ["through"] * 6


async def test_ping_does_not_wait_for_the_limit() -> None:
    """PING-1."""
    app: MCPKit[Any] = MCPKit("limited", max_in_flight=1)
    gate = Gate()
    app.add_tool(gate.pass_through)
    async with session_of(app) as (session, ears):
        session.receive(initialize())
        for id in (1, 2):
            session.receive(request(id, "tools/call", name="pass_through"))
        session.receive(request(3, "ping"))
        assert ears.messages[1]["id"] == 3


async def test_nothing_begins_for_a_client_that_does_not_keep_up() -> None:
    app = bare()
    app.add_tool(lambda: "a", name="a", inline=True)
    async with session_of(app) as (session, ears):
        ears.congested = True
        session.receive(request(1, "tools/call", name="a", _meta=ENVELOPE))
        await turns()
        assert ears.messages == []
        ears.congested = False
        session.start_waiting()
        await ears.wait(1)
        assert ears.messages[0]["id"] == 1


async def test_a_request_that_waits_can_be_cancelled() -> None:
    """CANC-1."""
    app: MCPKit[Any] = MCPKit("limited", max_in_flight=1)
    gate = Gate()
    app.add_tool(gate.pass_through)
    async with session_of(app) as (session, ears):
        session.receive(initialize())
        for id in (1, 2, 3):
            session.receive(request(id, "tools/call", name="pass_through"))
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": 2}}
        session.receive(json.dumps({"jsonrpc": "2.0", **cancelled}).encode())
        gate.open()
        await ears.wait(3)
        assert [each["id"] for each in ears.messages] == [0, 1, 3]


async def test_relief_is_reported_once_fewer_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading pauses while too much waits."""
    monkeypatch.setattr("mcpkit._server.session.MAX_WAITING", 1)
    app: MCPKit[Any] = MCPKit("limited", max_in_flight=1)
    gate = Gate()
    app.add_tool(gate.pass_through)
    async with session_of(app) as (session, ears):
        relieved = anyio.Event()
        session.on_writable = relieved.set
        session.receive(initialize())
        for id in (1, 2):
            session.receive(request(id, "tools/call", name="pass_through"))
        assert session.is_full
        gate.open()
        await ears.wait(3)
        with anyio.fail_after(PATIENCE):
            await relieved.wait()
        assert not session.is_full


async def test_relief_is_reported_once_less_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few requests may be as large as many others."""
    monkeypatch.setattr("mcpkit._server.session.MAX_WAITING_BYTES", 2000)
    monkeypatch.setattr("mcpkit._server.session._BYTES_WHILE_ASKING", 2)
    app: MCPKit[Any] = MCPKit("limited", max_in_flight=1)
    gate = Gate()

    @app.tool
    async def passing(text: str) -> str:
        await gate.pass_through()
        return text

    async with session_of(app) as (session, ears):
        relieved = anyio.Event()
        session.on_writable = relieved.set
        session.receive(initialize())
        for id in (1, 2):
            arguments = {"text": "x" * 1500}
            session.receive(request(id, "tools/call", name="passing", arguments=arguments))
        assert not session.is_full
        for id in (3, 4, 5):
            session.receive(request(id, "tools/call", name="passing", arguments=arguments))
        assert session.is_full
        assert ears.messages[1]["id"] == 5
        assert "waiting" in ears.messages[1]["error"]["message"]
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": 4}}
        session.receive(json.dumps({"jsonrpc": "2.0", **cancelled}).encode())
        gate.open()
        await ears.wait(5)
        with anyio.fail_after(PATIENCE):
            await relieved.wait()
        assert not session.is_full
        assert session._bytes_waiting == 0


# --- exceptions -----------------------------------------------------------------------------------


async def test_the_reference_stands_beside_the_traceback_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """ERR-6."""
    app = bare()

    @app.tool
    def crash() -> str:
        raise RuntimeError("the password is swordfish")

    with caplog.at_level(logging.ERROR, logger="mcpkit"):
        async with AsyncTestClient(app) as client:
            result = await client.call_tool("crash")
    found = re.search(r"reference ([0-9a-f]{8})", result.text)
    assert found is not None
    [record] = caplog.records
    assert found[1] in record.getMessage()
    assert record.exc_info is not None
    assert "swordfish" in str(record.exc_info[1])


async def test_an_error_meant_for_the_model_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = bare()

    @app.tool
    def complain() -> str:
        raise ToolError("no such town")

    async with AsyncTestClient(app) as client:
        await client.call_tool("complain")
    assert not [each for each in caplog.records if each.name.startswith("mcpkit")]


# --- lifespan -------------------------------------------------------------------------------------


async def test_the_lifespan_is_entered_before_the_first_request_and_left_at_the_end() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(app: MCPKit[Any]) -> AsyncIterator[int]:
        events.append(f"enter {app.name}")
        yield 42
        events.append("leave")

    app: MCPKit[int] = MCPKit("alive", lifespan=lifespan)

    @app.tool
    async def answer(ctx: Context[int]) -> int:
        events.append("call")
        return ctx.state

    async with AsyncTestClient(app) as client:
        assert (await client.call_tool("answer")).data == 42
    assert events == ["enter alive", "call", "leave"]


async def test_a_lifespan_that_fails_fails_the_start() -> None:
    @asynccontextmanager
    async def lifespan(app: MCPKit[Any]) -> AsyncIterator[None]:
        raise LookupError("no database")
        yield

    app: MCPKit[Any] = MCPKit("stillborn", lifespan=lifespan)
    with pytest.raises(LookupError, match="no database"):
        async with AsyncTestClient(app):
            pytest.fail("it cannot have started")


# --- the end --------------------------------------------------------------------------------------


async def test_closing_cancels_what_runs_and_waits_for_its_clean_up() -> None:
    app = bare()
    cleaned = False
    started = anyio.Event()

    @app.tool
    async def hold() -> str:
        nonlocal cleaned
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await turns()
                cleaned = True
        return "unreachable"

    async with session_of(app) as (session, ears):
        session.receive(request(1, "tools/call", name="hold", _meta=ENVELOPE))
        with anyio.fail_after(PATIENCE):
            await started.wait()
            await session.aclose()
        assert cleaned
        assert ears.messages == []


async def test_a_client_that_left_gets_no_answers() -> None:
    app = bare()
    app.add_tool(lambda: "a", name="a")
    client = AsyncTestClient(app)
    async with client:
        pass
    with pytest.raises(ConnectionClosed):
        await client.list_tools()


async def test_a_handler_that_exits_leaves_the_session_alive() -> None:
    app = bare()

    @app.tool
    async def leave() -> str:
        raise SystemExit(3)

    async with session_of(app) as (session, ears):
        session.receive(request(1, "tools/call", name="leave", _meta=ENVELOPE))
        session.receive(request(2, "tools/list", _meta=ENVELOPE))
        await ears.wait(2)
        answers = {each["id"]: each for each in ears.messages}
        assert answers[1]["error"]["code"] == -32603
        assert "tools" in answers[2]["result"]


async def test_a_handler_in_a_thread_can_see_that_it_is_cancelled() -> None:
    """CANC-1: a thread cannot be stopped, but it can look."""
    app = bare()
    started, noticed = threading.Event(), threading.Event()

    @app.tool
    def work(ctx: SyncContext) -> str:
        started.set()
        deadline = time.monotonic() + PATIENCE
        while not ctx.cancelled and time.monotonic() < deadline:
            time.sleep(0.005)
        if ctx.cancelled:
            noticed.set()
        return "done"

    async with session_of(app) as (session, ears):
        session.receive(request(1, "tools/call", name="work", _meta=ENVELOPE))
        assert await anyio.to_thread.run_sync(started.wait, PATIENCE)
        cancelled = {"method": "notifications/cancelled", "params": {"requestId": 1}}
        session.receive(json.dumps({"jsonrpc": "2.0", **cancelled}).encode())
        assert await anyio.to_thread.run_sync(noticed.wait, PATIENCE)
        assert ears.messages == []


# --- slow readers ---------------------------------------------------------------------------------


async def test_notifications_are_left_out_for_a_client_that_does_not_keep_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-8, PROG-5: answers are sent all the same; what is left out is not even written."""
    app = bare()
    deaf = Ears()
    written: list[Any] = []

    def count(method: str, params: Any = None) -> bytes:
        written.append(params["data"])
        return notification_text(method, params)

    monkeypatch.setattr("mcpkit._server.session.notification_text", count)

    @app.tool
    async def chatter(ctx: Context) -> str:
        ctx.info("heard")
        deaf.congested = True
        for number in range(10):
            ctx.info(number)
        return "said"

    async with open_loop() as loop:
        session = Session(app.server, deaf, loop)
        level = {**ENVELOPE, "io.modelcontextprotocol/logLevel": "debug"}
        session.receive(request(1, "tools/call", name="chatter", _meta=level))
        await deaf.wait(2)
        await session.aclose()
    assert [each.get("id") for each in deaf.messages] == [None, 1]
    assert written == ["heard"]
    assert len([each for each in caplog.records if "keep up" in each.getMessage()]) == 1


def test_an_app_and_its_settings_have_the_same_defaults() -> None:
    scopes = Settings().scopes
    assert bare().server.settings._replace(scopes=scopes) == Settings(scopes=scopes)
    given = inspect.signature(MCPKit).parameters
    shared = given.keys() & set(Settings._fields)
    assert len(shared) >= 8
    shared -= {"tasks", "scopes", "limits", "max_threads", "max_in_flight"}  # None stands for them
    assert {name: given[name].default for name in shared} == {
        name: Settings._field_defaults[name] for name in shared
    }


@pytest.mark.anyio
async def test_calls_that_are_given_up_do_not_pile_up_threads() -> None:
    """A thread holds its place until it ends, although its call was cancelled long before."""
    app: MCPKit = MCPKit("threads", max_threads=2)
    running: list[int] = []
    most: list[int] = []
    go_on = threading.Event()

    @app.tool
    def stuck() -> str:
        running.append(1)
        most.append(len(running))
        go_on.wait(PATIENCE)
        running.pop()
        return "done"

    async with AsyncTestClient(app, revision=MODERN) as client:
        try:
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    await client.call_tool("stuck", timeout=0.05)
            assert max(most) == 2
        finally:
            go_on.set()
        assert (await client.call_tool("stuck", timeout=PATIENCE)).text == "done"
