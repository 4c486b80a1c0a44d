"""The bus on which changes of lists and resources are announced to sessions.

Changes are announced from any thread, while sessions come and go on an event loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol
from weakref import ref

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
        """A resource has changed that is watched, or lies below one that is. From any thread."""
        ...


class _Interest:
    """The interest of a listener.

    Args:
        listener: The listener, as long as it lives.
    """

    __slots__ = ("listener", "uris")

    def __init__(self, listener: ref[Listener]) -> None:
        self.listener = listener
        self.uris: dict[str, int] = {}
        """The URIs that it watches, and how many times each."""


class Changes:
    """The bus of changes in one process.

    Listeners pass changes on to clients of this process, and are told for as long as they live: of
    all lists, and of the resources that they watch. Subscribers pass on to other processes what is
    published here.
    """

    def __init__(self) -> None:
        self._interests: dict[ref[Listener], _Interest] = {}
        self._watchers: dict[str, set[_Interest]] = {}
        self._lengths: dict[int, int] = {}
        """The lengths of the watched URIs, and how many have each."""
        self._subscribers: dict[object, Callable[[Change], object]] = {}
        # A set must not be iterated over in one thread while it grows in another. What is collected
        # meanwhile may announce a change in the same thread.
        self._lock = threading.RLock()

    # --- listeners --------------------------------------------------------------------------------

    def attach(self, listener: Listener) -> None:
        """Tell a listener of lists from now on."""
        with self._lock:
            self._interest_of(listener)

    def watch(self, listener: Listener, uris: Iterable[str]) -> None:
        """Tell a listener of these resources too, and of what lies below them."""
        with self._lock:
            interest = self._interest_of(listener)
            for uri in uris:
                count = interest.uris.get(uri, 0)
                interest.uris[uri] = count + 1
                if not count:
                    self._add_watcher(uri, interest)

    def unwatch(self, listener: Listener, uris: Iterable[str]) -> None:
        """Stop telling a listener of resources, unless it has watched them more than once."""
        with self._lock:
            interest = self._interests.get(ref(listener))
            if interest is None:
                return
            for uri in uris:
                count = interest.uris.pop(uri, 0)
                if count > 1:
                    interest.uris[uri] = count - 1
                elif count:
                    self._remove_watcher(uri, interest)

    def detach(self, listener: Listener) -> None:
        """Stop telling a listener."""
        self._forget(ref(listener))

    def affected(self, uri: str) -> list[str]:
        """Return the watched URIs that a change concerns: its own, and those that it lies below."""
        with self._lock:
            # In proportion to the lengths that there are, however many slashes the URI has.
            starts = [uri[:each] for each in list(self._lengths) if _is_parent(uri, each)]
            return [each for each in starts if each in self._watchers]

    def _interest_of(self, listener: Listener) -> _Interest:
        found = self._interests.get(ref(listener))
        if found is None:
            weak = ref(listener, self._forget)
            found = self._interests[weak] = _Interest(weak)
        return found

    def _forget(self, listener: ref[Listener]) -> None:
        with self._lock:
            interest = self._interests.pop(listener, None)
            if interest is not None:
                for uri in interest.uris:
                    self._remove_watcher(uri, interest)

    def _add_watcher(self, uri: str, interest: _Interest) -> None:
        if uri not in self._watchers:
            self._watchers[uri] = set()
            self._lengths[len(uri)] = self._lengths.get(len(uri), 0) + 1
        self._watchers[uri].add(interest)

    def _remove_watcher(self, uri: str, interest: _Interest) -> None:
        self._watchers[uri].discard(interest)
        if not self._watchers[uri]:
            del self._watchers[uri]
            self._lengths[len(uri)] -= 1
            if not self._lengths[len(uri)]:
                del self._lengths[len(uri)]

    # --- subscribers ------------------------------------------------------------------------------

    def subscribe(self, heard: Callable[[Change], object]) -> Callable[[], None]:
        """Call a function with every change that is published; the result ends that."""
        subscription = object()
        with self._lock:
            self._subscribers[subscription] = heard

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers.pop(subscription, None)

        return unsubscribe

    # --- changes ----------------------------------------------------------------------------------

    def publish(self, change: Change) -> None:
        """Tell everyone of a change that was made in this process. From any thread."""
        self.tell(change)
        if self._subscribers:
            with self._lock:
                subscribers = list(self._subscribers.values())
            for heard in subscribers:
                heard(change)

    def tell(self, change: Change) -> None:
        """Tell the listeners of a change that was made anywhere. From any thread."""
        if change.kind is not None and self._interests:
            with self._lock:
                everyone = list(self._interests.values())
            for listener in _living(everyone):
                listener.list_changed(change.kind)
        if change.uri is not None:
            with self._lock:
                watchers = {
                    each for uri in self.affected(change.uri) for each in self._watchers[uri]
                }
            for listener in _living(watchers):
                listener.resource_changed(change.uri)

    def list_changed(self, kind: ListKind) -> None:
        """Publish that a list has changed. From any thread."""
        self.publish(Change(kind=kind))

    def resource_changed(self, uri: str) -> None:
        """Publish that a resource has changed. From any thread."""
        self.publish(Change(uri=uri))


def _living(interests: Iterable[_Interest]) -> Iterator[Listener]:
    for each in interests:
        listener = each.listener()
        if listener is not None:
            yield listener


def _is_parent(uri: str, length: int) -> bool:
    """Return True if so many first characters of a URI are itself, or what it lies below."""
    if length >= len(uri):
        return length == len(uri)
    return uri[length] == "/" or (length > 0 and uri[length - 1] == "/")
