"""The entries of one registry in another: with a prefix, scopes, tags, and a transform."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any, Protocol, TypeAlias, cast

from mcpkit._entries import Entry, Listing, prefixed_uri
from mcpkit.context import Context
from mcpkit.errors import RegistrationError

Pair: TypeAlias = tuple[Any, Any]
"""An entry, and what takes its place; None for nothing."""

Place: TypeAlias = tuple[Listing, str]
"""A list and a key in it."""

Transform: TypeAlias = Callable[[Any], Any]
"""From a copy of an entry to the entry to include, or None to leave it out."""


def place_of(entry: Entry) -> Place:
    """Return the place of an entry in a registry."""
    return entry.listing, entry.key


class Source(Protocol):
    """Resources that come and go by themselves, such as the files of a directory.

    They are listed after the registered resources, in the order of their URIs. A registered
    resource hides one of a source with the same URI. They are read through a registered template.
    """

    @property
    def base(self) -> str:
        """What all their URIs begin with."""
        ...

    async def resources(
        self, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Entry]:
        """Return at most `limit` resources whose URIs are greater than `after`, in their order."""
        ...


class Inclusion:
    """The inclusion of a registry in another one, which has copies of its entries.

    Args:
        source: The registry that is included.
        into: The registry that includes it.
        prefix: Added to names, ``prefix_name``, and to URIs, ``scheme://prefix/rest``.
        scopes: Scopes that each entry needs there, besides its own.
        tags: Tags that each entry has there, besides its own.
        transform: Applied to each copy first.
        app: The app that is included, which serves its entries with its own lifespan and
            middleware; None for the entries of a provider.
    """

    def __init__(
        self,
        source: Any,
        into: Any,
        prefix: str | None = None,
        scopes: tuple[str, ...] = (),
        tags: frozenset[str] = frozenset(),
        transform: Transform | None = None,
        app: Any = None,
    ) -> None:
        self.source = source
        self.into = into
        self.prefix = prefix
        self.app = app
        self._scopes = scopes
        self._tags = tags
        self._transform = transform
        self._made: dict[Entry, Entry | None] = {}
        """The copy of each entry there; None if it was left out."""

    def copies(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Return what changes there when entries change here."""
        return [(old and self._made.get(old), new and self.copied(new)) for old, new in pairs]

    def note(self, pairs: Iterable[Pair], copies: Iterable[Pair]) -> None:
        """Note the copies of entries that have changed."""
        for (old, new), (_, made) in zip(pairs, copies, strict=True):
            if old is not None:
                self._made.pop(old, None)
            if new is not None:
                self._made[new] = made

    def copied(self, item: Entry) -> Entry | None:
        """Return the copy of an entry that is registered there, if one is."""
        made: Any = copy(item)
        if self._transform is not None:
            for name in ("annotations", "meta", "options"):  # which it may change in place
                if getattr(made, name, None) is not None:
                    setattr(made, name, copy(getattr(made, name)))
            made = self._transform(made)
            if made is not None and not isinstance(made, type(item)):
                raise RegistrationError(
                    f"transform= returned {made!r:.80} for {item.key!r}; return the entry, or None"
                )
        if made is not None:
            made = made.prefixed(self.prefix) if self.prefix else made
            made.scopes = tuple(dict.fromkeys((*self._scopes, *made.scopes)))
            made.tags |= self._tags
            if self.app is not None:
                made.origin = (*item.origin, self)
        return cast("Entry | None", made)

    def source_of(self, source: Source) -> Source:
        """Return what lists the copies of the resources of a source; `RegistrationError`."""
        if self.prefix and not source.base:
            raise RegistrationError(
                f"include(…, prefix={self.prefix!r}): the provider needs a base, what the URIs of "
                f"its resources begin with"
            )
        return _IncludedSource(self, source)

    def uri(self, uri: str) -> str:
        """Return the URI there of one here."""
        return prefixed_uri(self.prefix, uri) if self.prefix else uri

    def leads_to(self, registry: Any) -> bool:
        """Return True if a registry includes the entries, directly or through others."""
        return self.into is registry or any(
            each.leads_to(registry) for each in self.into._inclusions
        )


class _IncludedSource:
    """The resources of a source in a registry that includes it."""

    def __init__(self, inclusion: Inclusion, source: Source) -> None:
        self._inclusion = inclusion
        self._source = source
        self.base = inclusion.uri(source.base)

    async def resources(
        self, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Entry]:
        """Return copies of the resources; see `Source`."""
        inner = self._source.base
        if after.startswith(self.base):
            after = inner + after[len(self.base) :]
        elif self._inclusion.prefix:
            if after > self.base:
                return []  # they all come before it
            after = ""
        found: list[Entry] = []
        while True:
            given: Sequence[Any] = await self._source.resources(after, limit, context)
            for each in given:
                made = self._inclusion.copied(each)
                if made is not None and made.key != self._inclusion.uri(each.key):
                    raise RegistrationError(
                        f"transform= gave {each.key!r} another URI, but its provider does not hold "
                        f"it"
                    )
                found += [] if made is None else [made]
            is_last = limit is None or len(given) < limit or given[-1].key <= after
            if is_last or len(found) >= (limit or 0):
                return found[:limit]
            after = given[-1].key  # the transform has left some out
