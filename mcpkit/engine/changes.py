"""The bus on which changes of lists and resources are announced to sessions.

Changes are announced from any thread, while sessions come and go on an event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple, Protocol
from weakref import WeakSet

from mcpkit.context import ListKind

__all__ = ["Change", "Changes", "Listener"]


class Change(NamedTuple):
    """A list or a resource that has changed.

    Args:
        kind: Of the list; None if it is a resource.
        uri: Of the resource; None if it is a list.
    """

    kind: ListKind | None = None
    uri: str | None = None


class Listener(Protocol):
    """A listener, which passes changes on to clients."""

    def list_changed(self, kind: ListKind) -> None:
        """A list has changed. From any thread."""
        ...

    def resource_changed(self, uri: str) -> None:
        """A resource has changed. From any thread."""
        ...


class Changes:
    """The bus of changes in one process.

    Listeners pass changes on to clients of this process, and are told for as long as they live.
    Subscribers pass on to other processes what is published here.
    """

    def __init__(self) -> None:
        self._listeners: WeakSet[Listener] = WeakSet()
        self._subscribers: dict[object, Callable[[Change], object]] = {}
        # A set must not be iterated over in one thread while it grows in another. What is collected
        # meanwhile may announce a change in the same thread.
        self._lock = threading.RLock()

    def attach(self, listener: Listener) -> None:
        """Tell a listener from now on."""
        with self._lock:
            self._listeners.add(listener)

    def detach(self, listener: Listener) -> None:
        """Stop telling a listener."""
        with self._lock:
            self._listeners.discard(listener)

    def subscribe(self, heard: Callable[[Change], object]) -> Callable[[], None]:
        """Call a function with every change that is published; the result ends that."""
        subscription = object()
        with self._lock:
            self._subscribers[subscription] = heard

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers.pop(subscription, None)

        return unsubscribe

    def publish(self, change: Change) -> None:
        """Tell everyone of a change that was made in this process. From any thread."""
        self.tell(change)
        with self._lock:
            subscribers = list(self._subscribers.values())
        for heard in subscribers:
            heard(change)

    def tell(self, change: Change) -> None:
        """Tell the listeners of a change that was made anywhere. From any thread."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            if change.kind is not None:
                listener.list_changed(change.kind)
            if change.uri is not None:
                listener.resource_changed(change.uri)

    def list_changed(self, kind: ListKind) -> None:
        """Publish that a list has changed. From any thread."""
        self.publish(Change(kind=kind))

    def resource_changed(self, uri: str) -> None:
        """Publish that a resource has changed. From any thread."""
        self.publish(Change(uri=uri))
