"""The bus on which changes of lists and resources are announced to sessions.

Changes are announced from any thread, while sessions begin and end on an event loop.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias
from weakref import ref

from mcpkit._entries import prefixed_uri, without_prefix
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
        self._followed: list[tuple[Changes, str | None]] = []
        """The buses whose changes are announced here too, and the prefix of their URIs here."""
        self._wanted: Counter[str] = Counter()
        """The URIs that listeners, or buses that follow, watch."""
        self._lost: list[str] = []
        """The URIs whose last watcher has gone, until that is told."""
        self.on_interest: Callable[[str], object] = lambda uri: None
        """Called with a URI when its first watcher comes, and when its last one leaves."""
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
        added: list[str] = []
        with self._lock:
            weak, counts = self._interest_of(listener)
            for uri in uris:
                counts[uri] += 1
                if uri not in self._watchers:
                    self._watchers[uri] = set()
                    self._lengths[len(uri)] += 1
                    added.append(uri)
                self._watchers[uri].add(weak)
        self._tell_lost()
        for uri in added:
            self._want(uri, 1)

    def unwatch(self, listener: Any, uris: Iterable[str]) -> None:
        """Undo one `watch` of these resources."""
        with self._lock:
            if ref(listener) in self._interests:
                weak, counts = self._interest_of(listener)
                for uri in counts.keys() & uris:
                    counts[uri] -= 1
                    if not counts[uri]:
                        del counts[uri]
                        self._lost += self._remove_watcher(uri, weak)
        self._tell_lost()

    def remove(self, listener: Any) -> None:
        """Stop notifying a listener."""
        self._forget(ref(listener))
        self._tell_lost()

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
                    self._lost += self._remove_watcher(uri, weak)

    def _tell_lost(self) -> None:
        # Not when a listener is collected, which may be at any line, with any lock held.
        while self._lost:
            self._want(self._lost.pop(), -1)

    def _remove_watcher(self, uri: str, weak: _Weak) -> Sequence[str]:
        """Remove a watcher of a URI; returns the URI if it was the last one."""
        watchers = self._watchers[uri]
        watchers.remove(weak)
        if watchers:
            return ()
        del self._watchers[uri]
        self._lengths[len(uri)] -= 1
        if not self._lengths[len(uri)]:
            del self._lengths[len(uri)]
        return (uri,)

    # --- other buses ------------------------------------------------------------------------------

    def forward(self, to: Changes, prefix: str | None = None) -> None:
        """Announce all changes on another bus too, where URIs have this prefix."""
        self._followers = [*self._followers, (to, prefix)]
        with to._lock:
            to._followed = [*to._followed, (self, prefix)]
            wanted = [uri for uri, count in to._wanted.items() if count > 0]
        for uri in wanted:
            self._want_inside(prefix, uri, 1)

    def stop_forwarding(self, to: Changes, prefix: str | None = None) -> None:
        """Undo `forward`."""
        self._followers = [each for each in self._followers if each != (to, prefix)]
        with to._lock:
            to._followed = [each for each in to._followed if each != (self, prefix)]
            wanted = [uri for uri, count in to._wanted.items() if count > 0]
        for uri in wanted:
            self._want_inside(prefix, uri, -1)

    def is_wanted(self, uri: str) -> bool:
        """Return True if something watches a URI: a listener, or a bus that follows."""
        return self._wanted[uri] > 0

    def _want(self, uri: str, more: int) -> None:
        """Note that something more watches a URI (1), or no longer does (-1)."""
        with self._lock:
            before = self._wanted[uri]
            self._wanted[uri] = after = before + more
            if not after:
                del self._wanted[uri]
            followed = self._followed
        if (before > 0) != (after > 0):
            self.on_interest(uri)
            for bus, prefix in followed:
                bus._want_inside(prefix, uri, more)

    def _want_inside(self, prefix: str | None, uri: str, more: int) -> None:
        """As `_want`, with a URI of a bus that follows, where URIs have a prefix."""
        inner = without_prefix(prefix, uri, uri) if prefix else uri
        if not prefix or inner != uri:
            self._want(inner, more)

    # --- changes ----------------------------------------------------------------------------------

    def list_changed(self, kind: ListKind) -> None:
        """Announce that a list has changed, here and on the buses that follow. From any thread."""
        self.announce(kind)
        for follower, _ in self._followers:
            follower.list_changed(kind)

    def announce(self, kind: ListKind) -> None:
        """Announce that a list has changed, here only. From any thread."""
        if self._interests:
            with self._lock:
                listeners = list(self._interests)
            for weak in listeners:
                if (listener := weak()) is not None:
                    listener.list_changed(kind)

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
