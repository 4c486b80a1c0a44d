"""What a handler may ask of its request, with a peer that only records."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import anyio.to_thread
import pytest

from mcpkit._protocol.revisions import BY_VERSION, REVISIONS, ClientProfile, Revision
from mcpkit.context import Client, Context, SyncContext
from mcpkit.types import Implementation, LogLevel, TextResourceContents
from tests.authoring import RecordingBackend, context_with, wait

TOKEN = {"progressToken": "t"}


@pytest.fixture(params=[Context, SyncContext], ids=["async", "sync"])
def make(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Makes a context of either kind: what they have in common is tested for both."""
    if request.param is Context:
        return context_with

    def sync(*args: Any, **kwargs: Any) -> SyncContext[Any]:
        return SyncContext(context_with(*args, **kwargs))

    return sync


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_the_facts_of_a_request(make: Callable[..., Any], revision: Revision) -> None:
    ctx = make(meta={"a": 1}, state="s", info={"name": "me", "version": "1"}, revision=revision)
    assert (ctx.request_id, ctx.method, ctx.meta) == (7, "tools/call", {"a": 1})
    assert (ctx.revision, ctx.state) == (revision.version, "s")
    assert ctx.client.info == Implementation("me", "1")
    ctx.backend.cancelled = True
    assert ctx.cancelled


class TestLog:
    @pytest.mark.parametrize("level", get_args(LogLevel))
    def test_each_level_can_be_logged(self, make: Callable[..., Any], level: LogLevel) -> None:
        peer = RecordingBackend()
        make(peer).log(level, "x", logger="db")
        if level in ("debug", "info", "warning", "error"):
            getattr(make(peer), level)("x", logger="db")
        expected = ("notifications/message", {"level": level, "logger": "db", "data": "x"})
        assert {*map(repr, peer.sent)} == {repr(expected)}

    @pytest.mark.parametrize(
        ("data", "sent"), [(ValueError("no"), "no"), (b"\xfb", "-w=="), ({1}, [1]), (None, None)]
    )
    def test_anything_can_be_logged(self, make: Callable[..., Any], data: Any, sent: Any) -> None:
        peer = RecordingBackend()
        make(peer).info(data)
        assert peer.sent[0][1]["data"] == sent


def test_awaiting_a_message_waits_for_the_client_if_it_was_sent() -> None:
    peer, silent = RecordingBackend(), RecordingBackend(None)

    async def handler() -> None:
        await context_with(peer).info("x")
        await context_with(silent).info("x")
        await context_with(silent).progress(1)

    wait(handler)
    assert (peer.drained, silent.drained) == (1, 0)


def test_progress_is_sent_with_a_token_and_only_grows(make: Callable[..., Any]) -> None:
    """PROG-1, PROG-2."""
    peer = RecordingBackend()
    make(peer).progress(1)
    assert peer.sent == []
    ctx = make(peer, meta=TOKEN)
    for value in (math.nan, -1, -2, 0, 0, 0.5, math.inf, 2, -math.inf, 1):
        ctx.progress(value)
    assert [params["progress"] for _, params in peer.sent] == [-1, 0, 0.5, 2]
    ctx.progress(3, 4, "one")
    params = {"progressToken": "t", "progress": 3, "total": 4, "message": "one"}
    assert peer.sent[-1] == ("notifications/progress", params)


def test_changes_are_announced(make: Callable[..., Any]) -> None:
    peer = RecordingBackend()
    make(peer).list_changed("tools")
    make(peer).notify_resource_updated("a:b")
    assert peer.announced == [("list", "tools"), ("resource", "a:b")]


def test_resources_are_read_in_a_coroutine_or_in_a_thread() -> None:
    sync = SyncContext(context_with())
    for read in (
        lambda: context_with().read_resource("a:b"),
        lambda: anyio.to_thread.run_sync(sync.read_resource, "a:b"),
    ):
        assert wait(read) == [TextResourceContents("a:b", "contents")]


def double(x: int) -> int:
    return 2 * x


async def double_soon(x: int) -> int:
    return 2 * x


@pytest.mark.parametrize("function", [double, double_soon])
def test_a_step_runs_its_function(function: Callable[[int], Any]) -> None:
    assert wait(lambda: context_with().step("double", function, 2)) == 4
    if function is double:
        step = partial(SyncContext(context_with()).step, "double", double, x=2)
        assert wait(lambda: anyio.to_thread.run_sync(step)) == 4


class TestClient:
    @pytest.mark.parametrize(
        ("capabilities", "path", "supported"),
        [
            ({}, ("sampling",), False),
            ({"sampling": {}}, ("sampling",), True),
            ({"sampling": {}}, ("sampling", "tools"), False),
            ({"sampling": {"tools": {}}}, ("sampling", "tools"), True),
            ({"sampling": None}, ("sampling",), False),
            ({"sampling": False}, ("sampling",), False),
            ({"sampling": True}, ("sampling", "tools"), False),
            ({"roots": {"listChanged": True}}, ("roots", "listChanged"), True),
            ({"roots": {"listChanged": False}}, ("roots", "listChanged"), False),
            pytest.param({"elicitation": {}}, ("elicitation", "form"), True, id="ELIC-1"),
            ({"elicitation": {}}, ("elicitation", "url"), False),
            ({"elicitation": {"url": {}}}, ("elicitation", "form"), False),
            ({"elicitation": {"url": {}}}, ("elicitation", "url"), True),
            ({"elicitation": {"form": {}}}, ("elicitation", "form"), True),
            ({}, ("elicitation", "form"), False),
            ({"sampling": {}}, ("sampling", "form"), False),
        ],
    )
    def test_what_it_supports(
        self, capabilities: dict[str, Any], path: tuple[str, ...], supported: bool
    ) -> None:
        client = Client(ClientProfile(capabilities, None), BY_VERSION["2026-07-28"])
        assert client.supports(*path) is supported

    @pytest.mark.parametrize(
        ("path", "since"),
        [
            (("sampling",), "2024-11-05"),
            (("sampling", "tools"), "2025-11-25"),
            (("elicitation",), "2025-06-18"),
            (("elicitation", "form"), "2025-06-18"),
            (("elicitation", "url"), "2025-11-25"),
        ],
    )
    def test_it_supports_what_the_revision_has(self, path: tuple[str, ...], since: str) -> None:
        """ELIC-1: a client may declare more than the revision that it negotiates has."""
        declared: dict[str, Any] = {
            "sampling": {"tools": {}},
            "elicitation": {"form": {}, "url": {}},
        }
        for version, revision in BY_VERSION.items():
            client = Client(ClientProfile(declared, None), revision)
            assert client.supports(*path) is (version >= since), version
