"""A session: what it advertises, what it notifies of, how much it runs, how it ends."""

from __future__ import annotations

import gc
import inspect
import json
import logging
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from mcpkit import Complete, Context, Limits, MCPKit, SyncContext, ToolError
from mcpkit._concurrency.loop import open_loop
from mcpkit._protocol.connection import Request
from mcpkit._protocol.messages import notification_text
from mcpkit._server.channel import Channel
from mcpkit._server.server import Settings
from mcpkit._server.session import Session
from mcpkit.errors import (
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ProtocolError,
    ResourceError,
)
from mcpkit.testing import REVISIONS, AsyncTestClient
from mcpkit.types import (
    ImageContent,
    LogLevel,
    ResourceResult,
    TextContent,
    TextResourceContents,
    ToolResult,
)
from tests.kit import PATIENCE, Gate, Recorder, eventually, turns, until
from tests.messages import Message, announced, cancelled, initialize, notification, request
from tests.scenarios.tapped import HANDSHAKE, TappedClient

every_revision = pytest.mark.parametrize("revision", REVISIONS)
every_handshake = pytest.mark.parametrize("revision", HANDSHAKE)


class Ears(Channel):
    """A channel that keeps what is sent."""

    def __init__(self) -> None:
        self.congested = False
        self.messages: list[Any] = []

    def send(self, text: bytes, about: Request | None = None) -> None:
        self.messages.append(json.loads(text))

    async def wait(self, count: int) -> list[Any]:
        await until(lambda: len(self.messages) >= count)
        return self.messages

    @property
    def methods(self) -> list[str]:
        return [each["method"] for each in self.messages if "method" in each]


class Talk:
    """A session, and the messages that it sends."""

    def __init__(self, session: Session, ears: Ears) -> None:
        self.session = session
        self.ears = ears

    def send(self, *messages: Message) -> None:
        for each in messages:
            self.session.receive(json.dumps(each).encode())

    def open(self) -> None:
        """Shake hands."""
        self.send(initialize(), notification("notifications/initialized"))
        self.ears.messages.clear()


@asynccontextmanager
async def talking_to(app: MCPKit[Any]) -> AsyncIterator[Talk]:
    ears = Ears()
    async with open_loop() as loop:
        session = Session(app.server, ears, loop)
        yield Talk(session, ears)
        await session.aclose()


# --- capabilities ---------------------------------------------------------------------------------


def bare(**options: Any) -> MCPKit[Any]:
    return MCPKit("bare", **options)


def with_tool(**options: Any) -> MCPKit[Any]:
    app = bare(**options)
    app.add_tool(lambda: "a", name="a", inline=True)
    return app


@every_revision
async def test_what_is_registered_is_advertised(revision: str) -> None:
    """DISC-1, TOOL-1, RES-1, PROMPT-1, COMP-1, LOG-1."""
    async with TappedClient(bare(), revision=revision) as client:
        assert client.server_capabilities == {}
    async with TappedClient(with_tool(), revision=revision) as client:
        assert client.server_capabilities == {"tools": {"listChanged": True}}


METHODS = [
    *("tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read"),
    *("prompts/list", "prompts/get", "completion/complete"),
    *("resources/subscribe", "logging/setLevel"),
]


@every_revision
@pytest.mark.parametrize("method", METHODS)
async def test_a_method_without_its_capability_does_not_exist(revision: str, method: str) -> None:
    """TOOL-1, RES-1, PROMPT-1, COMP-1, RES-11, LOG-1."""
    async with AsyncTestClient(bare(), revision=revision) as client:
        with pytest.raises(MethodNotFound):
            await client.request(method, {"name": "a", "uri": "a://b", "level": "info"})


@every_revision
async def test_a_kind_that_was_advertised_is_answered_when_it_is_empty(revision: str) -> None:
    """TOOL-1, RES-1, PROMPT-1: also what entries need beside their lists."""
    app = bare()

    @app.tool(task="optional")
    async def talk(ctx: Context) -> str:
        return "said"

    @app.prompt
    def greet(loud: bool) -> str:
        return "hello"

    app.add_resource(lambda: "a", "a://b", name="a")
    async with TappedClient(app, revision=revision) as client:
        before = client.server_capabilities
        app.remove_tool("talk")
        app.remove_prompt("greet")
        app.remove_resource("a://b")
        lists = (client.list_tools, client.list_prompts, client.list_resources)
        assert [await each() for each in (*lists, client.list_resource_templates)] == [[]] * 4
        with pytest.raises(InvalidParams, match="Unknown tool"):
            await client.call_tool("talk")
        if revision < "2026-07-28":
            await client.set_log_level("debug")
    async with TappedClient(app, revision=revision) as client:
        assert client.server_capabilities == before


@every_revision
async def test_capabilities_are_advertised_before_there_are_entries(revision: str) -> None:
    """TOOL-1, RES-1, PROMPT-1, LIFE-8: clients notice entries that are added later."""
    app, part = bare(offers=("tools", "resources")), bare(offers=["prompts"])
    app.include(part)
    heard: list[str] = []

    def note(method: str, params: object) -> None:
        heard.append(method)

    async with TappedClient(app, revision=revision, on_notification=note) as client:
        assert client.server_capabilities == {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
        }
        assert (await client.list_tools(), await client.list_prompts()) == ([], [])
        async with client.listen(note, tools=True):
            app.add_tool(lambda: "a", name="a")
            await turns()
            assert "notifications/tools/list_changed" in heard
        assert [each.name for each in await client.list_tools()] == ["a"]


def test_unknown_capabilities_are_refused() -> None:
    with pytest.raises(ValueError, match="offers: unknown tool; known: tools, resources"):
        bare(offers=["tool"])


async def test_an_empty_server_has_no_lists_but_can_be_listened_to() -> None:
    """SUB-11, SUB-2, DISC-1; CACHE-5, CACHE-1, DISC-4: hints default to none and private."""
    async with AsyncTestClient(bare()) as client:
        with pytest.raises(MethodNotFound):
            await client.list_tools()
        async with client.listen(lambda *change: None, tools=True) as agreed:
            assert agreed == {}
        result = await client.request("server/discover")
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


# --- changes --------------------------------------------------------------------------------------


async def test_changes_wait_for_the_client_to_be_initialized() -> None:
    """LIFE-6: queued, then sent, and each of them once."""
    app = bare()
    async with talking_to(app) as talk, talking_to(app) as silent:
        talk.send(initialize())
        for name in "abc":
            app.add_tool(lambda: "a", name=name)
        await turns()
        assert talk.ears.methods == []
        talk.send(notification("notifications/initialized"))
        await talk.ears.wait(2)
        await turns()
        assert talk.ears.methods == ["notifications/tools/list_changed"]
        assert silent.ears.messages == []


async def test_lists_are_for_every_session_and_resources_for_subscribers() -> None:
    """TOOL-14, RES-10: from any thread, and also after the end of another session."""
    app = bare()
    app.add_resource(lambda: "a", "a://b", name="a")
    async with talking_to(app) as one, talking_to(app) as other, talking_to(app) as ended:
        for talk in (one, other, ended):
            talk.open()
        for talk in (one, ended):
            talk.send(request(1, "resources/subscribe", uri="a://b"))
        await ended.session.aclose()
        await anyio.to_thread.run_sync(app.notify_resource_updated, "a://b")
        app.list_changed("prompts")
        await one.ears.wait(3)
        app.list_changed("prompts")
        await one.ears.wait(4)
        await turns()
        changes = ["notifications/prompts/list_changed"] * 2
        assert other.ears.methods == changes
        assert sorted(one.ears.methods) == [*changes, "notifications/resources/updated"]
        assert ended.ears.methods == []


def listen_to(id: int | str, **filters: Any) -> Message:
    return announced(id, "subscriptions/listen", notifications=filters)


@every_handshake
async def test_members_of_a_later_revision_are_ignored(revision: str) -> None:
    """JSON-RPC members that a revision does not define mean nothing in it, whatever they hold."""
    app = bare()
    app.add_tool(lambda: "a", name="tool")
    app.add_resource(lambda: "a", "a://b", name="a")
    app.add_prompt(lambda: "a", name="ask")
    calls = {
        "tools/call": {"name": "tool"},
        "resources/read": {"uri": "a://b"},
        "prompts/get": {"name": "ask"},
    }
    async with AsyncTestClient(app, revision=revision) as client:
        for method, params in calls.items():
            plain = await client.request(method, params)
            unknown: list[dict[str, Any]] = [{"requestState": "x"}, {"inputResponses": {"a": []}}]
            for more in unknown:
                assert await client.request(method, {**params, **more}) == plain


async def test_each_era_is_notified_in_its_own_way_and_streams_are_bounded() -> None:
    """SUB-4, TOOL-14, SEC-17: a stream beside a handshake, on one connection."""
    app = with_tool(limits=Limits(max_subscriptions=1))
    async with talking_to(app) as talk:
        talk.open()
        talk.send(listen_to(9, toolsListChanged=True))
        app.add_tool(lambda: "b", name="b")
        _, plain, tagged = await talk.ears.wait(3)
        assert "params" not in plain
        assert tagged["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 9}
        talk.send(listen_to(10))
        assert talk.ears.messages[-1]["error"]["code"] == InvalidRequest.CODE


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (
            "completion/complete",
            lambda uri: {"ref": {"type": "ref/resource", "uri": uri(7_000_000)}},
        ),
        ("subscriptions/listen", lambda uri: {"notifications": uris(uri(60), 49_000)}),
        ("subscriptions/listen", lambda uri: {"notifications": uris(uri(60_000), 110)}),
    ],
    ids=["a long URI", "many URIs", "many long URIs"],
)
async def test_uris_do_not_hold_up_the_event_loop(method: str, params: Any) -> None:
    """SEC-17: they are measured before they are matched."""
    app = bare()

    @app.resource("files://{+path}")
    async def of(path: Annotated[str, Complete(lambda typed: [])]) -> str:
        return path

    argument = {"name": "path", "value": ""}
    given = params(lambda length: "files://" + "%41" * (length // 3))
    async with talking_to(app) as talk:
        message = announced(1, method, argument=argument, **given)
        begun = time.process_time()
        talk.session.take(message)
        await talk.ears.wait(1)
        assert time.process_time() - begun < 0.1
        assert talk.ears.messages[-1]["error"]["code"] == InvalidParams.CODE


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", {"cursor": "malformed"}),
        ("tools/call", {"name": "unknown"}),
        ("prompts/get", {"name": "fail"}),
        ("prompts/get", {"name": "unknown"}),
        ("resources/read", {"uri": "a://fail"}),
        ("resources/read", {"uri": "a" * 70_000}),
    ],
    ids=lambda given: str(given)[:40],
)
async def test_a_refused_request_is_not_kept_by_its_error(method: str, params: Any) -> None:
    """SEC-17: the garbage collector may not come for long, and a request may be large."""
    app = bare()

    @app.prompt(name="fail")
    @app.resource("a://fail")
    async def fail() -> str:
        raise ToolError("as expected")  # which is not logged: the log of a test keeps exceptions

    def kept() -> int:
        return sum(type(each) is Request for each in gc.get_objects())

    async with talking_to(app) as talk:
        gc.collect()
        gc.disable()
        try:
            before = kept()
            talk.send(announced(1, method, **params))
            await talk.ears.wait(1)
            assert "error" in talk.ears.messages[0]
            await until(lambda: kept() == before)
        finally:
            gc.enable()


def uris(uri: str, count: int) -> dict[str, list[str]]:
    return {"resourceSubscriptions": [f"{uri}{number}" for number in range(count)]}


@pytest.mark.parametrize("announce", [True, False])
async def test_the_server_ends_a_stream(announce: bool) -> None:
    """SUB-6, SUB-7, SUB-4, CANC-7."""
    async with talking_to(bare()) as talk:
        talk.send(listen_to("s"))
        talk.session.end_listens(announce=announce)
        acknowledged, *cancelled, result = talk.ears.messages
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert [each["params"]["requestId"] for each in cancelled] == ["s"] * announce
        meta = result["result"]["_meta"]
        assert meta["io.modelcontextprotocol/subscriptionId"] == "s"
        assert result["result"]["resultType"] == "complete"


# --- log levels -----------------------------------------------------------------------------------


@every_handshake
@pytest.mark.parametrize(("first", "count"), [("info", 1), ("warning", 0)])
async def test_a_level_is_that_of_one_session(revision: str, first: LogLevel, count: int) -> None:
    """LOG-2, LOG-3: per session, not per process; at first it is the app's."""
    app = bare(log_level=first)

    @app.tool
    async def speak(ctx: Context) -> str:
        ctx.info("words")
        return "said"

    async with (
        TappedClient(app, revision=revision) as quiet,
        TappedClient(app, revision=revision) as loud,
    ):
        await quiet.set_log_level("error")
        await quiet.call_tool("speak")
        await loud.call_tool("speak")
        assert len(quiet.told("notifications/message")) == 0
        assert len(loud.told("notifications/message")) == count


# --- how much at once -----------------------------------------------------------------------------


def gated(running: int) -> tuple[MCPKit[Any], Gate]:
    app, gate = bare(max_in_flight=running), Gate()

    @app.tool
    async def wait(text: str = "") -> str:
        return await gate.pass_through()

    return app, gate


def call(id: int, **arguments: Any) -> Message:
    return request(id, "tools/call", name="wait", arguments=arguments)


async def test_no_more_than_the_limit_run_and_the_rest_wait() -> None:
    """PING-1, CANC-1: a ping does not wait; a request that waits can be cancelled."""
    app, gate = gated(2)
    async with talking_to(app) as talk:
        talk.open()
        talk.send(*map(call, range(6)))
        await gate.wait_for(2)
        talk.send(request(9, "ping"), cancelled(4))
        assert [each["id"] for each in talk.ears.messages] == [9]
        gate.open()
        await talk.ears.wait(6)
        assert gate.most == 2
        assert sorted(each["id"] for each in talk.ears.messages) == [0, 1, 2, 3, 5, 9]


async def test_no_call_starts_for_a_client_that_does_not_keep_up() -> None:
    async with talking_to(with_tool()) as talk:
        talk.ears.congested = True
        talk.send(announced(1, "tools/call", name="a"))
        await turns()
        assert talk.ears.messages == []
        talk.ears.congested = False
        talk.session.start_waiting()
        await talk.ears.wait(1)
        assert talk.ears.messages[0]["id"] == 1


async def test_relief_is_reported_once_fewer_requests_and_bytes_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Reading pauses while too much waits; a few requests may be as large as many others."""
    monkeypatch.setattr("mcpkit._server.session.MAX_WAITING_BYTES", 2000)
    monkeypatch.setattr("mcpkit._server.session._BYTES_WHILE_ASKING", 2)
    app, gate = gated(1)
    async with talking_to(app) as talk:
        session, relieved = talk.session, Recorder()
        session.on_writable = relieved
        talk.open()
        talk.send(*(call(id, text="x" * 1500) for id in (1, 2)))
        assert not session.is_full
        with monkeypatch.context() as patch:
            patch.setattr("mcpkit._server.session.MAX_WAITING", 1)
            assert session.is_full
        assert not session.is_full
        talk.send(*(call(id, text="x" * 1500) for id in (3, 4, 5)))
        assert session.is_full
        (rejected,) = talk.ears.messages
        assert rejected["id"] == 5
        assert "waiting" in rejected["error"]["message"]
        talk.send(cancelled(4))
        gate.open()
        await talk.ears.wait(4)
        await relieved.wait()
        assert not session.is_full
        assert session._bytes_waiting == 0


# --- exceptions -----------------------------------------------------------------------------------


async def test_the_reference_stands_beside_the_traceback_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """ERR-6, TOOL-9: what is meant for the model is not logged."""
    app = bare()

    @app.tool
    def crash() -> str:
        raise RuntimeError("the password is swordfish")

    @app.tool
    def complain() -> str:
        raise ToolError("no such town")

    @app.tool
    def mismatch() -> int:
        return cast("int", "swordfish")

    with caplog.at_level(logging.ERROR, logger="mcpkit"):
        async with AsyncTestClient(app) as client:
            names = ("complain", "crash", "mismatch")
            _, *texts = [(await client.call_tool(name)).text for name in names]
    for text, record in zip(texts, caplog.records, strict=True):
        found = re.search(r"reference ([0-9a-f]{8})", text)
        assert found is not None
        assert found[1] in record.getMessage()
        assert "swordfish" not in text
    error = caplog.records[0].exc_info
    assert error is not None
    assert "swordfish" in str(error[1])


# --- lifespan -------------------------------------------------------------------------------------


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


class Halves(MCPKit):
    """An app whose every text is not valid Unicode."""

    def __init__(self) -> None:
        super().__init__("halves", instructions=HALF)

        @self.tool(description=HALF)
        async def tell(ctx: Context) -> str:
            ctx.info({HALF: [HALF]})
            ctx.progress(1, message=HALF)
            return HALF

        @self.tool
        async def ask(ctx: Context) -> str:
            return str((await ctx.elicit(HALF)).action)

        @self.tool(max_result=1000)
        async def long() -> str:
            return HALF * 1000

        @self.tool
        async def fail() -> None:
            raise ToolError(HALF)

        @self.tool
        async def blocks() -> ToolResult:
            return ToolResult([TextContent(HALF)], meta={HALF: HALF})

        @self.resource("half://text")
        async def text() -> str:
            return HALF

        @self.resource("half://error")
        async def error() -> str:
            raise ResourceError(HALF)

        @self.prompt(description=HALF)
        async def prompt() -> str:
            return HALF


HALF = "caf\udce9 \ud83d"
WHOLE = "caf\ufffd \ufffd"


@every_revision
async def test_text_that_is_not_unicode_arrives_with_replacements(revision: str) -> None:
    """MSG-1: names of files, for example; whatever they are part of must not fail."""
    logged, progress = Recorder(), Recorder()

    def answer(asked: Any) -> dict[str, Any]:
        return {"action": "accept" if asked["message"] == WHOLE else "decline", "content": {}}

    client = AsyncTestClient(Halves(), revision=revision, on_log=logged, elicitation=answer)
    async with client:
        assert client.instructions == WHOLE
        assert WHOLE in {each.description for each in await client.list_tools()}
        assert (
            await client.call_tool("tell", on_progress=progress, log_level="info")
        ).text == WHOLE
        await until(lambda: progress.calls and logged.calls)
        assert progress.calls[0].message in (WHOLE, None if revision == "2024-11-05" else WHOLE)
        assert logged.calls[0][1] == {WHOLE: [WHOLE]}
        if revision >= "2025-06-18":
            assert (await client.call_tool("ask")).text == "accept"
        for tool in ("fail", "blocks"):
            assert (await client.call_tool(tool)).text == WHOLE
        assert (await client.call_tool("long")).text.startswith(WHOLE)
        (contents,) = await client.read_resource("half://text")
        assert isinstance(contents, TextResourceContents)
        assert contents.text == WHOLE
        with pytest.raises(ProtocolError, match=WHOLE):
            await client.read_resource("half://error")
        (message,) = (await client.get_prompt("prompt")).messages
        assert message.content == TextContent(WHOLE)


@every_revision
async def test_content_with_a_field_of_another_type_is_named(revision: str) -> None:
    app = MCPKit("encoded")
    picture = ImageContent(cast("Any", "iVBORw0="), "image/png")

    @app.tool
    async def tool() -> ImageContent:
        return picture

    @app.prompt
    async def prompt() -> ImageContent:
        return picture

    @app.resource("a://b")
    async def resource() -> ResourceResult:
        return ResourceResult([TextResourceContents("a://b", cast("Any", b"text"))])

    async with AsyncTestClient(app, revision=revision) as client:
        result = await client.call_tool("tool")
        assert result.is_error
        assert "the data of an ImageContent is a str, not bytes; pass the raw bytes" in result.text
        with pytest.raises(ProtocolError, match="the data of an ImageContent is a str"):
            await client.get_prompt("prompt")
        with pytest.raises(ProtocolError, match="the text of a TextResourceContents is a bytes"):
            await client.read_resource("a://b")


async def test_closing_cancels_handlers_and_waits_for_their_clean_up() -> None:
    app = bare()
    seen: list[str] = []

    @app.tool
    async def hold() -> None:
        seen.append("started")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await turns()
                seen.append("cleaned")

    async with talking_to(app) as talk:
        talk.send(announced(1, "tools/call", name="hold"))
        await until(lambda: seen)
        with anyio.fail_after(PATIENCE):
            await talk.session.aclose()
        assert seen == ["started", "cleaned"]
        assert talk.ears.messages == []


async def test_a_handler_in_a_thread_can_see_that_it_is_cancelled() -> None:
    """CANC-1: a thread cannot be stopped, but it can look."""
    app = bare()
    seen: list[str] = []

    @app.tool
    def work(ctx: SyncContext) -> None:
        seen.append("started")
        eventually(lambda: ctx.cancelled)
        seen.append("noticed")

    async with talking_to(app) as talk:
        talk.send(announced(1, "tools/call", name="work"))
        await until(lambda: seen)
        talk.send(cancelled(1))
        await until(lambda: len(seen) == 2)
        assert talk.ears.messages == []


# --- slow readers ---------------------------------------------------------------------------------


async def test_notifications_are_left_out_for_a_client_that_does_not_keep_up(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LOG-8, PROG-5: answers are sent all the same; what is left out is not even written."""
    app = bare()
    written: list[Any] = []

    def count(method: str, params: Any = None) -> bytes:
        written.append(params["data"])
        return notification_text(method, params)

    monkeypatch.setattr("mcpkit._server.session.notification_text", count)
    async with talking_to(app) as talk:

        @app.tool
        async def chatter(ctx: Context) -> str:
            ctx.info("heard")
            talk.ears.congested = True
            for number in range(10):
                ctx.info(number)
            return "said"

        level = {"io.modelcontextprotocol/logLevel": "debug"}
        talk.send(announced(1, "tools/call", name="chatter", _meta=level))
        await talk.ears.wait(2)
    assert [each.get("id") for each in talk.ears.messages] == [None, 1]
    assert written == ["heard"]
    assert len([each for each in caplog.records if "keep up" in each.getMessage()]) == 1


def test_an_app_and_its_settings_have_the_same_defaults() -> None:
    same: Any = {"scope_hierarchy": Settings().scope_hierarchy, "tasks": None}
    assert bare().server.settings._replace(**same) == Settings(**same)
    given = inspect.signature(MCPKit).parameters
    shared = given.keys() & set(Settings._fields)
    assert len(shared) >= 8
    shared -= {"tasks", "scope_hierarchy", "limits"}  # None stands for them
    assert {name: given[name].default for name in shared} == {
        name: Settings._field_defaults[name] for name in shared
    }
