"""Providers: entries that come and go by themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mcpkit._entries import Entry, Listing
from mcpkit.context import Context, ListKind


class Provider(Protocol):
    """Entries that come and go by themselves: files of a directory, tools of another server.

    They are listed after the registered entries, in the order of their keys. A registered entry
    hides a provided one with the same key.
    """

    @property
    def listings(self) -> frozenset[Listing]:
        """The lists that it adds entries to."""
        ...

    async def entries(
        self, listing: Listing, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Entry]:
        """Return entries in the order of their keys.

        Args:
            listing: One of `listings`.
            after: Return only entries with a greater key.
            limit: The maximum number of entries; None: all.
            context: The context of the request.
        """
        ...

    async def find(self, listing: Listing, key: str, context: Context[Any]) -> Entry | None:
        """Return the entry with a key; for a resource also a template that matches the URI."""
        ...

    def on_change(self, announce: Callable[[ListKind], None]) -> None:
        """Store a function to call, from any thread, when a list has changed."""
        ...
