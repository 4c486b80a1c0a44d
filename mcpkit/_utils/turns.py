"""Objects that belong to one event loop each, and turns of owners."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import anyio
from anyio.lowlevel import RunVar

T = TypeVar("T")


class PerEventLoop(Generic[T]):
    """A value for each event loop, for objects that event loops cannot share."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._variable: RunVar[T] = RunVar(f"mcpkit {id(self)}")

    def get(self) -> T:
        """Return the value of the running event loop."""
        try:
            return self._variable.get()
        except LookupError:
            found = self._make()
            self._variable.set(found)
            return found


class Turns:
    """Lets each owner do `each` things at once; whatever else it wants to do waits.

    An owner is a network, a principal or a URL. Nothing is stored of an owner that does nothing.
    """

    def __init__(self, each: int) -> None:
        self._each = each
        self._owners: PerEventLoop[WeakValueDictionary[str, anyio.Semaphore]] = PerEventLoop(
            WeakValueDictionary
        )

    def of(self, owner: str) -> anyio.Semaphore:
        """Return the context manager to do one thing in."""
        owners = self._owners.get()
        found = owners.get(owner)
        if found is None:
            found = owners[owner] = anyio.Semaphore(self._each)
        return found
