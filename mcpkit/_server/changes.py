"""The bus on which changes of lists and resources are announced to sessions.

Changes are announced from any thread, while sessions begin and end on an event loop.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable
from typing import Any, TypeAlias
from weakref import ref

from mcpkit._entries import prefixed_uri
from mcpkit.context import ListKind

_Weak: TypeAlias = "ref[Any]"


class Changes:
    """The bus of changes in one process.

    For as long as listeners live, they are notified of all lists, and of the resources that they
    watch: `list_changed` and `resource_changed`, as of `Subscriptions`, are called in any thread.
    """

    def __init__(self) -> None:
        self._followers: list[tuple[Changes, str | None]] = []
        """The buses on which all changes are announced too, and the prefix of URIs there."""
        self._interests: dict[_Weak, tuple[_Weak, Counter[str]]] = {}
        """The watched URIs of each listener, and how many times it watches each."""
        self._watchers: dict[str, set[_Weak]] = {}
        self._lengths: Counter[int] = Counter()
        """The lengths of the watched URIs, and how many have each."""
        # A set must not grow in one thread while another iterates over it. The lock is reentrant
        # because garbage that is collected meanwhile may announce a change in the same thread.
        self._lock = threading.RLock()

    # --- listeners --------------------------------------------------------------------------------

    def add(self, listener: Any) -> None:
        """Notify a listener of changed lists from now on."""
        with self._lock:
            self._interest_of(listener)

    def watch(self, listener: Any, uris: Iterable[str]) -> None:
        """Notify a listener of changes of these resources too, and of those below them."""
        with self._lock:
            weak, counts = self._interest_of(listener)
            for uri in uris:
                counts[uri] += 1
                if uri not in self._watchers:
                    self._watchers[uri] = set()
                    self._lengths[len(uri)] += 1
                self._watchers[uri].add(weak)

    def unwatch(self, listener: Any, uris: Iterable[str]) -> None:
        """Undo one `watch` of these resources."""
        with self._lock:
            if ref(listener) in self._interests:
                weak, counts = self._interest_of(listener)
                for uri in counts.keys() & uris:
                    counts[uri] -= 1
                    if not counts[uri]:
                        del counts[uri]
                        self._remove_watcher(uri, weak)

    def remove(self, listener: Any) -> None:
        """Stop notifying a listener."""
        self._forget(ref(listener))

    def affected(self, uri: str) -> list[str]:
        """Return the watched URIs that a change concerns: its own, and those that it is below."""
        with self._lock:
            # Takes time in proportion to the different lengths, not to the slashes of the URI.
            starts = [uri[:each] for each in list(self._lengths) if _is_parent(uri, each)]
            return [each for each in starts if each in self._watchers]

    def _interest_of(self, listener: Any) -> tuple[_Weak, Counter[str]]:
        weak = ref(listener, self._forget)
        return self._interests.setdefault(weak, (weak, Counter()))

    def _forget(self, listener: _Weak) -> None:
        with self._lock:
            if listener in self._interests:
                weak, counts = self._interests.pop(listener)
                for uri in counts:
                    self._remove_watcher(uri, weak)

    def _remove_watcher(self, uri: str, weak: _Weak) -> None:
        watchers = self._watchers[uri]
        watchers.remove(weak)
        if not watchers:
            del self._watchers[uri]
            self._lengths[len(uri)] -= 1
            if not self._lengths[len(uri)]:
                del self._lengths[len(uri)]

    # --- other buses ------------------------------------------------------------------------------

    def forward(self, to: Changes, prefix: str | None = None) -> None:
        """Announce all changes on another bus too, where URIs have this prefix."""
        self._followers = [*self._followers, (to, prefix)]

    # --- changes ----------------------------------------------------------------------------------

    def list_changed(self, kind: ListKind) -> None:
        """Announce that a list has changed. From any thread."""
        if self._interests:
            with self._lock:
                listeners = list(self._interests)
            for weak in listeners:
                if (listener := weak()) is not None:
                    listener.list_changed(kind)
        for follower, _ in self._followers:
            follower.list_changed(kind)

    def resource_changed(self, uri: str) -> None:
        """Announce that a resource has changed. From any thread."""
        with self._lock:
            watchers = {each for watched in self.affected(uri) for each in self._watchers[watched]}
        for weak in watchers:
            if (listener := weak()) is not None:
                listener.resource_changed(uri)
        for follower, prefix in self._followers:
            follower.resource_changed(prefixed_uri(prefix, uri) if prefix else uri)


def _is_parent(uri: str, length: int) -> bool:
    """Return True if the first `length` characters of a URI are the URI, or a parent of it."""
    if length >= len(uri):
        return length == len(uri)
    return uri[length] == "/" or (length > 0 and uri[length - 1] == "/")
