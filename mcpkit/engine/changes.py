"""The bus on which changes of lists and resources are announced to sessions.

Changes are announced from any thread, while sessions come and go on an event loop.
"""

from __future__ import annotations

import threading
from typing import Protocol
from weakref import WeakSet

from mcpkit.context import ListKind

__all__ = ["Changes", "Listener"]


class Listener(Protocol):
    """A listener, which passes changes on to clients."""

    def list_changed(self, kind: ListKind) -> None:
        """A list has changed. From any thread."""
        ...

    def resource_changed(self, uri: str) -> None:
        """A resource has changed. From any thread."""
        ...


class Changes:
    """Tells every listener of every change. A listener is told for as long as it lives."""

    def __init__(self) -> None:
        self._listeners: WeakSet[Listener] = WeakSet()
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

    def list_changed(self, kind: ListKind) -> None:
        """Tell everyone that a list has changed. From any thread."""
        for listener in self._everyone():
            listener.list_changed(kind)

    def resource_changed(self, uri: str) -> None:
        """Tell everyone that a resource has changed. From any thread."""
        for listener in self._everyone():
            listener.resource_changed(uri)

    def _everyone(self) -> list[Listener]:
        with self._lock:
            return list(self._listeners)
