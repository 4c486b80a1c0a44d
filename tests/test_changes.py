"""The bus of changes: who is notified of a list, of a resource, and of those below it."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import MCPKit
from mcpkit._server.changes import Changes
from mcpkit.context import ListKind
from mcpkit.testing import REVISIONS, AsyncTestClient
from tests.kit import PATIENCE


class Hearing:
    """A listener that records what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def list_changed(self, kind: ListKind) -> None:
        self.heard.append(kind)

    def resource_changed(self, uri: str) -> None:
        self.heard.append(uri)


def test_changes_reach_listeners_and_the_bus_that_they_are_forwarded_to() -> None:
    front, changes, listener, other = Changes(), Changes(), Hearing(), Hearing()
    changes.forward(front)
    for bus, each in ((changes, listener), (front, other)):
        bus.add(each)
        bus.watch(each, ["a://b"])
    changes.list_changed("tools")
    changes.resource_changed("a://b")
    assert listener.heard == other.heard == ["tools", "a://b"]
    front.list_changed("prompts")
    assert (len(listener.heard), len(other.heard)) == (2, 3)


def test_an_app_announces_its_changes() -> None:
    app, listener = MCPKit("test"), Hearing()
    app.server.changes.add(listener)
    app.server.changes.watch(listener, ["a://b"])
    app.add_tool(lambda: "x", name="tool")
    app.notify_resource_updated("a://b")
    app.list_changed("prompts")
    app.remove_tool("tool")
    app.server.changes.remove(listener)
    app.add_tool(lambda: "x", name="tool")
    assert listener.heard == ["tools", "a://b", "prompts", "tools"]


@pytest.mark.parametrize("prefix", [None, "in"])
async def test_the_changes_of_an_included_app_reach_clients_of_the_outer_one(
    prefix: str | None,
) -> None:
    """RES-10: at any depth, and under the URIs that clients know."""
    inner, middle, outer = MCPKit("inner"), MCPKit("middle"), MCPKit("outer")
    middle.include(inner, prefix=prefix)
    outer.include(middle, prefix=prefix)
    inner.add_resource(lambda: "x", "notes://one", name="one")
    uri = "notes://in/in/one" if prefix else "notes://one"
    inner.add_prompt(lambda: "x", name="ask")  # prompts are advertised
    for revision in REVISIONS:
        updated, changed = anyio.Event(), anyio.Event()

        def notice(
            method: str, params: Any, updated: Any = updated, changed: Any = changed
        ) -> None:
            if method == "notifications/resources/updated":
                assert params["uri"] == uri
                updated.set()
            elif method == "notifications/prompts/list_changed":
                changed.set()

        async with (
            AsyncTestClient(outer, revision=revision) as client,
            client.listen(notice, prompts=True, uris=[uri]),
        ):
            inner.notify_resource_updated("notes://one")
            inner.list_changed("prompts")
            with anyio.fail_after(PATIENCE):
                await updated.wait()
                await changed.wait()


def test_what_is_disabled_is_gone_until_it_is_enabled() -> None:
    """Also from apps that include it; its options and its state are kept."""
    app, outer, listener = MCPKit("test"), MCPKit("outer"), Hearing()
    outer.include(app, prefix="in")
    app.add_tool(lambda: "x", name="read", tags=["safe"])
    app.add_tool(lambda: "x", name="write", title="Write", scopes=["write"])
    app.add_resource(lambda: "x", "a://b", name="b", tags=["safe"])
    app.add_prompt(lambda: "x", name="ask", tags=["safe", "talk"])
    app.server.changes.add(listener)

    def offered(of: MCPKit[Any]) -> list[str]:
        return [each.name for each in of.server.registry.entries()]

    app.disable(["write"], tags=["talk", "unknown"])
    app.disable("write")  # a second time
    assert offered(app) == ["read", "b"]
    assert offered(outer) == ["in_read", "in_b"]
    assert listener.heard == ["tools", "prompts"]
    app.disable(tags="safe")
    app.enable(["write", "b", "ask"])
    assert offered(app) == ["write", "b", "ask"]
    assert offered(outer) == ["in_write", "in_b", "in_ask"]
    [tool] = app.server.registry.tools.values()
    assert (tool.title, tool.scopes) == ("Write", ("write",))
    app.enable(tags="safe")
    assert offered(app) == ["write", "read", "b", "ask"]
    for change in (app.disable, app.enable):
        with pytest.raises(KeyError, match="nothing is registered as 'other', 'raed'"):
            change(["read", "raed", "other"])
    assert offered(app) == ["write", "read", "b", "ask"]


def test_changes_may_be_announced_while_listeners_come_and_go() -> None:
    changes, failures, over = Changes(), list[BaseException](), threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            held = [Hearing() for _ in range(20)]
            for each in held:
                changes.watch(each, ["a://b"])

    def announce() -> None:
        try:
            for _ in range(3000):
                changes.resource_changed("a://b")
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=each) for each in (come_and_go, announce)]
    for thread in threads:
        thread.start()
    try:
        threads[1].join(30)
    finally:
        over.set()
        threads[0].join(30)
        sys.setswitchinterval(interval)
    assert failures == []


def test_a_listener_is_notified_for_as_long_as_it_lives() -> None:
    changes, listener = Changes(), Hearing()
    changes.watch(listener, ["a://b", "a://b/c"])
    del listener
    gc.collect()
    changes.list_changed("tools")
    changes.resource_changed("a://b/c/d")
    assert not any([changes._interests, changes._watchers, changes._lengths])


PARTS = st.text(alphabet="a/:", max_size=6)


@given(PARTS, st.lists(PARTS, max_size=4))
def test_a_uri_below_another_begins_with_all_of_its_segments(uri: str, watched: list[str]) -> None:
    changes, listener = Changes(), Hearing()
    changes.watch(listener, watched)
    below = [each if each.endswith("/") else f"{each}/" for each in watched]
    assert set(changes.affected(uri)) == {
        each
        for each, start in zip(watched, below, strict=True)
        if uri == each or uri.startswith(start)
    }


def test_what_is_watched_twice_is_left_twice() -> None:
    changes, listener = Changes(), Hearing()
    changes.watch(listener, ["a://b"])
    changes.watch(listener, ["a://b"])
    changes.resource_changed("a://b")
    changes.unwatch(listener, ["a://b", "a://c"])
    changes.resource_changed("a://b")
    changes.unwatch(listener, ["a://b"])
    changes.resource_changed("a://b")
    assert listener.heard == ["a://b", "a://b"]
    assert not any([changes._watchers, changes._lengths])


def test_only_those_that_watch_a_resource_are_called() -> None:
    changes = Changes()
    listeners = [Hearing() for _ in range(1000)]
    for number, each in enumerate(listeners):
        changes.add(each)
        if number:
            changes.watch(each, [f"a://{number}"])
    changes.watch(listeners[9], ["a://7"])
    changes.remove(listeners[9])
    changes.unwatch(listeners[9], ["a://7"])
    changes.resource_changed("a://7/b")
    assert [number for number, each in enumerate(listeners) if each.heard] == [7]


class Counted(str):
    """A URI that counts the parts that are taken of it."""

    taken = 0

    def __getitem__(self, key: Any) -> str:
        if isinstance(key, slice):
            type(self).taken += 1
        return super().__getitem__(key)


def test_a_uri_of_many_slashes_is_looked_up_as_often_as_uris_differ_in_length() -> None:
    changes, listener = Changes(), Hearing()
    changes.watch(listener, [f"a://{number}" for number in range(10, 100)])
    changes.watch(listener, ["a:/"])
    assert changes.affected(Counted("a:/" + "/" * 100_000)) == ["a:/"]
    assert Counted.taken == 2
