"""The bus of changes: listeners hear of all, subscribers of what this process publishes."""

from __future__ import annotations

import gc
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcpkit._server.changes import Change, Changes
from mcpkit.context import ListKind


class Hearing:
    """A listener that notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def list_changed(self, kind: ListKind) -> None:
        self.heard.append(kind)

    def resource_changed(self, uri: str) -> None:
        self.heard.append(uri)


def test_what_is_published_reaches_listeners_and_subscribers() -> None:
    changes, listener, published = Changes(), Hearing(), list[Change]()
    changes.add(listener)
    changes.watch(listener, ["a://b"])
    changes.subscribe(published.append)
    changes.list_changed("tools")
    changes.resource_changed("a://b")
    changes.publish(Change(kind="prompts"))
    assert listener.heard == ["tools", "a://b", "prompts"]
    assert published == [Change(kind="tools"), Change(uri="a://b"), Change(kind="prompts")]


def test_what_another_process_tells_does_not_go_back_to_it() -> None:
    changes, listener, published = Changes(), Hearing(), list[Change]()
    changes.add(listener)
    changes.watch(listener, ["a://b"])
    changes.subscribe(published.append)
    changes.deliver(Change(uri="a://b"))
    assert (listener.heard, published) == (["a://b"], [])


def test_a_subscription_ends_once() -> None:
    changes, published = Changes(), list[Change]()
    end, _ = changes.subscribe(published.append), changes.subscribe(published.append)
    end()
    changes.list_changed("tools")
    end()
    changes.list_changed("prompts")
    assert published == [Change(kind="tools"), Change(kind="prompts")]


def test_a_listener_is_told_for_as_long_as_it_lives() -> None:
    changes, listener = Changes(), Hearing()
    changes.watch(listener, ["a://b", "a://b/c"])
    del listener
    gc.collect()
    changes.list_changed("tools")
    changes.resource_changed("a://b/c/d")
    assert not any([changes._interests, changes._watchers, changes._lengths])


def test_a_listener_is_told_of_what_it_watches_and_of_what_lies_below() -> None:
    changes, listener = Changes(), Hearing()
    changes.watch(listener, ["a://b", "a://c/"])
    for uri in ("a://b", "a://b/c/d", "a://bc", "a://", "a://c", "a://c/", "a://c/d", "b"):
        changes.resource_changed(uri)
    assert listener.heard == ["a://b", "a://b/c/d", "a://c/", "a://c/d"]


PARTS = st.text(alphabet="a/:", max_size=6)


@given(PARTS, st.lists(PARTS, max_size=4))
def test_what_lies_below_is_what_begins_with_the_whole_of_it(uri: str, watched: list[str]) -> None:
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


def test_a_listener_that_left_watches_nothing() -> None:
    changes, listener, other = Changes(), Hearing(), Hearing()
    for each in (listener, other):
        changes.watch(each, ["a://b"])
    changes.remove(listener)
    changes.unwatch(listener, ["a://b"])
    changes.resource_changed("a://b")
    assert (listener.heard, other.heard) == ([], ["a://b"])


def test_only_those_who_watch_a_resource_are_called() -> None:
    changes = Changes()
    listeners = [Hearing() for _ in range(1000)]
    for number, each in enumerate(listeners):
        changes.add(each)
        if number:
            changes.watch(each, [f"a://{number}"])
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
