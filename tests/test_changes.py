"""The bus of changes: listeners hear of all, subscribers of what this process publishes."""

from __future__ import annotations

import gc

from mcpkit.context import ListKind
from mcpkit.engine.changes import Change, Changes


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
    changes.attach(listener)
    changes.subscribe(published.append)
    changes.list_changed("tools")
    changes.resource_changed("a://b")
    changes.publish(Change(kind="prompts"))
    assert listener.heard == ["tools", "a://b", "prompts"]
    assert published == [Change(kind="tools"), Change(uri="a://b"), Change(kind="prompts")]


def test_what_another_process_tells_does_not_go_back_to_it() -> None:
    changes, listener, published = Changes(), Hearing(), list[Change]()
    changes.attach(listener)
    changes.subscribe(published.append)
    changes.tell(Change(uri="a://b"))
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
    changes.attach(listener)
    del listener
    gc.collect()
    changes.list_changed("tools")
    assert len(changes._listeners) == 0
