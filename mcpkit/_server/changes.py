"""The bus on which changes of lists and resources are announced to sessions.

Changes are announced from any thread, while sessions begin and end on an event loop.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol, TypeAlias
from weakref import ref

from mcpkit.context import ListKind


class Change(NamedTuple):
    """A list or a resource that has changed: the kind of the list, or the URI of the resource."""

    kind: ListKind | None = None
    uri: str | None = None


class Listener(Protocol):
    """Notifies clients of changes. Its methods are called from any thread."""

    def list_changed(self, kind: ListKind) -> None:
        """Note that a list has changed."""

    def resource_changed(self, uri: str) -> None:
        """Note that a resource has changed that is watched, or lies below one that is."""


_Weak: TypeAlias = "ref[Listener]"


class Changes:
    """The bus of changes in one process.

    Listeners pass changes on to clients of this process. For as long as they live, they hear of all
    lists, and of the resources that they watch. Subscribers pass changes of this process on to
    other processes.
    """

    def __init__(self) -> None:
        self._interests: dict[_Weak, tuple[_Weak, Counter[str]]] = {}
        """The watched URIs of each listener, and how many times it watches each."""
        self._watchers: dict[str, set[_Weak]] = {}
        self._lengths: Counter[int] = Counter()
        """The lengths of the watched URIs, and how many have each."""
        self._subscribers: dict[object, Callable[[Change], object]] = {}
        # A set must not grow in one thread while another iterates over it. The lock is reentrant
        # because garbage that is collected meanwhile may announce a change in the same thread.
        self._lock = threading.RLock()

    # --- listeners --------------------------------------------------------------------------------

    def add(self, listener: Listener) -> None:
        """Notify a listener of changed lists from now on."""
        with self._lock:
            self._interest_of(listener)

    def watch(self, listener: Listener, uris: Iterable[str]) -> None:
        """Notify a listener of changes of these resources too, and of those below them."""
        with self._lock:
            weak, counts = self._interest_of(listener)
            for uri in uris:
                counts[uri] += 1
                if uri not in self._watchers:
                    self._watchers[uri] = set()
                    self._lengths[len(uri)] += 1
                self._watchers[uri].add(weak)

    def unwatch(self, listener: Listener, uris: Iterable[str]) -> None:
        """Undo one `watch` of these resources."""
        with self._lock:
            if ref(listener) in self._interests:
                weak, counts = self._interest_of(listener)
                for uri in uris:
                    counts[uri] -= 1
                    if counts[uri] <= 0:
                        del counts[uri]
                        self._remove_watcher(uri, weak)

    def remove(self, listener: Listener) -> None:
        """Stop notifying a listener."""
        self._forget(ref(listener))

    def affected(self, uri: str) -> list[str]:
        """Return the watched URIs that a change concerns: its own, and those that it is below."""
        with self._lock:
            # Takes time in proportion to the different lengths, not to the slashes of the URI.
            starts = [uri[:each] for each in list(self._lengths) if _is_parent(uri, each)]
            return [each for each in starts if each in self._watchers]

    def _interest_of(self, listener: Listener) -> tuple[_Weak, Counter[str]]:
        weak = ref(listener, self._forget)
        return self._interests.setdefault(weak, (weak, Counter()))

    def _forget(self, listener: _Weak) -> None:
        with self._lock:
            if listener in self._interests:
                weak, counts = self._interests.pop(listener)
                for uri in counts:
                    self._remove_watcher(uri, weak)

    def _remove_watcher(self, uri: str, weak: _Weak) -> None:
        watchers = self._watchers.get(uri, set())
        if weak in watchers:
            watchers.remove(weak)
            if not watchers:
                del self._watchers[uri]
                self._lengths[len(uri)] -= 1
                if not self._lengths[len(uri)]:
                    del self._lengths[len(uri)]

    # --- subscribers ------------------------------------------------------------------------------

    def subscribe(self, on_change: Callable[[Change], object]) -> Callable[[], None]:
        """Call a function with every change of this process; the result ends that."""
        subscription = object()
        with self._lock:
            self._subscribers[subscription] = on_change

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers.pop(subscription, None)

        return unsubscribe

    # --- changes ----------------------------------------------------------------------------------

    def publish(self, change: Change) -> None:
        """Announce a change of this process, also to other processes. From any thread."""
        self.deliver(change)
        if self._subscribers:
            with self._lock:
                subscribers = list(self._subscribers.values())
            for on_change in subscribers:
                on_change(change)

    def deliver(self, change: Change) -> None:
        """Announce a change of any process to the listeners. From any thread."""
        if change.kind is not None and self._interests:
            with self._lock:
                everyone = list(self._interests)
            for weak in everyone:
                if (listener := weak()) is not None:
                    listener.list_changed(change.kind)
        if change.uri is not None:
            with self._lock:
                watchers = {
                    each for uri in self.affected(change.uri) for each in self._watchers[uri]
                }
            for weak in watchers:
                if (listener := weak()) is not None:
                    listener.resource_changed(change.uri)

    def list_changed(self, kind: ListKind) -> None:
        """Announce that a list of this process has changed. From any thread."""
        self.publish(Change(kind=kind))

    def resource_changed(self, uri: str) -> None:
        """Announce that a resource of this process has changed. From any thread."""
        self.publish(Change(uri=uri))


def _is_parent(uri: str, length: int) -> bool:
    """Return True if the first `length` characters of a URI are the URI, or a parent of it."""
    if length >= len(uri):
        return length == len(uri)
    return uri[length] == "/" or (length > 0 and uri[length - 1] == "/")
