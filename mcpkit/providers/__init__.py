"""Providers: entries that come, go and change together, from a source outside of the code.

class Notes(Provider):
    @asynccontextmanager
    async def lifespan(self, context):
        async with connect() as database:
            context.replace([note_tool(each) async for each in database.notes()])
            yield

app.include(Notes(), prefix="notes", scopes=["notes:read"])
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from mcpkit._entries import Defaults, Entry
from mcpkit.context import Context, ListKind
from mcpkit.errors import RegistrationError

__all__ = ["Provider", "ProviderContext"]


class Provider:
    """Entries that belong together; `MCPKit.include` adds them. All methods are optional."""

    base: str = ""
    """What the URIs of all `resources` begin with; needed if it is included with a prefix."""

    def attach(self, context: ProviderContext) -> None:
        """Take the context, once an app includes the provider: give it what is known already."""

    def lifespan(self, context: ProviderContext) -> AbstractAsyncContextManager[object]:
        """Return an async context manager that is entered while the app is served.

        It is entered after the app's own lifespan, and once in a process: if the app is served on
        several event loops, on one of them, and on another one when that one ends.
        """
        return nullcontext()

    async def resources(
        self, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Any]:
        """Return at most `limit` resources whose URIs are greater than `after`, in their order.

        For resources that differ from caller to caller, or that are too many to be held. They are
        listed behind all others, and read through a template of the provider.

        Args:
            after: A URI, without the prefix; ``""`` at the start of the list.
            limit: None: all.
            context: Of the request.

        Returns:
            Entries of `mcpkit.described.resource`.
        """
        raise NotImplementedError

    def interest(self, context: ProviderContext, uri: str, is_wanted: bool) -> None:
        """Learn that the first client subscribes to a resource, or that none does any more.

        Called in any thread, and must not block.

        Args:
            context: As of `attach`.
            uri: Of a resource of this provider, without the prefix.
            is_wanted: False if no client is subscribed to it any more.
        """


class _Resources:
    """The resources of a provider that are not held, as a source of its registry."""

    def __init__(self, context: ProviderContext, provider: Provider) -> None:
        self._context = context
        self._provider = provider
        self.base = provider.base

    async def resources(
        self, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Entry]:
        """Return entries; see `Provider.resources`."""
        return self._context.made(await self._provider.resources(after, limit, context))


class ProviderContext:
    """The place of a provider in an app. Its methods may be called in any thread."""

    def __init__(self, provider: Provider, defaults: Defaults, registry: Any, changes: Any) -> None:
        self.registry = registry
        """The `mcpkit._server.registry.Registry` of its entries."""
        self.changes = changes
        """The `mcpkit._server.changes.Changes` of these."""
        self._provider = provider
        self._defaults = defaults
        if type(provider).resources is not Provider.resources:
            self.registry.add_source(_Resources(self, provider))
        if type(provider).interest is not Provider.interest:
            self._wanted: set[str] = set()
            self._telling = threading.RLock()
            self.changes.on_interest = self._interest
        provider.attach(self)

    def replace(self, entries: Iterable[Any]) -> None:
        """Replace all entries of the provider, at once.

        A call finds the old ones or the new ones. Clients are notified once of each list that
        differs. An entry whose name or URI stays keeps its place in the list, and stays disabled if
        it was.

        Args:
            entries: Of `mcpkit.described`.

        Raises:
            RegistrationError: A name or URI is taken, in the app or by another of these, or
                something is not an entry. Nothing changes then.
        """
        made = self.made(entries)
        taken = {(each.listing, each.key) for each in made}
        for entry in [*made]:
            for option in entry.options.values():
                for each in option.companions(entry):
                    if (each.listing, each.key) not in taken:
                        taken.add((each.listing, each.key))
                        made.append(each)
        self.registry.replace(made)

    def made(self, entries: Iterable[Any]) -> list[Any]:
        """Return entries of `mcpkit.described` as a registry has them; `RegistrationError`."""
        found: list[Any] = []
        for each in entries:
            make = getattr(each, "entry", None)
            if make is None and not isinstance(each, Entry):
                raise RegistrationError(
                    f"{type(self._provider).__name__}: its entries are made with mcpkit.described; "
                    f"{each!r:.80} is not one"
                )
            found.append(each if make is None else make(self._defaults))
        return found

    def updated(self, uri: str) -> None:
        """Notify the clients that are subscribed to a resource of a change.

        Args:
            uri: Without the prefix.
        """
        self.changes.resource_changed(uri)

    def changed(self, kind: ListKind) -> None:
        """Notify clients that a list differs, because `Provider.resources` returns others."""
        self.changes.list_changed(kind)

    def _interest(self, uri: str) -> None:
        with self._telling:  # so that what is told last is so
            is_wanted = self.changes.is_wanted(uri)
            # Clients may watch anything that is in the app.
            if is_wanted and self.registry.resource(uri) is None:
                return
            if is_wanted != (uri in self._wanted):
                self._wanted ^= {uri}
                self._provider.interest(self, uri, is_wanted)
