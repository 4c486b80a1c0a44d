"""A server's entries in the order of their registration, and the pages of their lists.

A page is encoded once for each revision and each version of the registry.
"""

from __future__ import annotations

import binascii
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from mcpkit._entries import Entry, Listing
from mcpkit._injection import LimitedPlan
from mcpkit._protocol import wire
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import PER_REQUEST, Revision
from mcpkit.context import Context, ListKind
from mcpkit.errors import InvalidParams, RegistrationError
from mcpkit.prompts import Prompt
from mcpkit.resources import Readable, Resource, ResourceTemplate
from mcpkit.tools import Tool

AnyEntry: TypeAlias = Tool | Resource | ResourceTemplate | Prompt
EntryT = TypeVar("EntryT", bound=Entry)
N = TypeVar("N", int, float)

Found: TypeAlias = tuple[Readable, Mapping[str, Any]]
"""The resource or template at a URI, and the values of its variables."""

MAX_URIS: Final = 4 * 64 * 1024
"""Characters of the URIs of one request: to match them takes the event loop its time."""

MAX_URI: Final = 64 * 1024
"""Characters of a URI; matching one against templates takes time in proportion."""


def uri_of(params: Mapping[str, Any]) -> str:
    """Return the ``uri`` of a request; `InvalidParams` if it is missing or invalid."""
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise InvalidParams('"uri" must be a string')
    check_uri(uri)
    return uri


def check_uris(uris: Iterable[str]) -> None:
    """Raise `InvalidParams` if URIs are too long to be looked up at once."""
    if sum(map(len, uris)) > MAX_URIS:
        raise InvalidParams(f"The URIs are longer than {MAX_URIS} characters together")


def check_uri(uri: str) -> None:
    """Raise `InvalidParams` if a URI is too long to be looked up."""
    if len(uri) > MAX_URI:
        raise InvalidParams(f"A URI is longer than {MAX_URI} characters")


Addition: TypeAlias = tuple[
    frozenset[str], Callable[[Mapping[str, Any]], "Mapping[str, Any] | None"]
]
"""What an extension adds to ``_meta``: the lists, and a function from an entry to the members."""


@dataclass(slots=True)
class Page:
    """A page of a list; ``is_private`` if other callers may see other entries."""

    listing: Listing
    entries: Sequence[Entry]
    next_cursor: str | None
    is_private: bool
    additions: Sequence[Addition] = ()
    _encoded: dict[str, bytes] = field(default_factory=dict[str, bytes])

    def members(self, revision: Revision) -> bytes:
        """Return the encoded members of the result, without braces."""
        found = self._encoded.get(revision.version)
        if found is None:
            shown = [each.to_wire(revision) for each in self.entries]
            if "_meta" in revision.tool_members:  # and then in those of all entries
                for listings, of in self.additions:
                    for entry in shown if self.listing in listings else ():
                        if more := of(entry):
                            entry["_meta"] = {**entry.get("_meta", {}), **more}
            members = wire.some(**{self.listing: shown}, nextCursor=self.next_cursor)
            found = self._encoded[revision.version] = encode(members)[1:-1]
        return found


_TABLES: Final[dict[Listing, tuple[str, ListKind, str]]] = {
    "tools": ("tools", "tools", "tool"),
    "resources": ("resources", "resources", "resource"),
    "resourceTemplates": ("templates", "resources", "resource template"),
    "prompts": ("prompts", "prompts", "prompt"),
}
"""The attribute of the registry, the kind in ``list_changed``, and the noun, of each list."""

_KINDS: Final[dict[Listing, ListKind]] = {listing: each[1] for listing, each in _TABLES.items()}
_COMPLETED: Final[frozenset[Listing]] = frozenset({"resourceTemplates", "prompts"})
"""The lists whose entries may complete their arguments."""

MAX_CURSOR: Final = 128 * 1024
"""Characters of a cursor, which may hold the URI of an entry."""

MAX_PAGES: Final = 1024
"""Encoded pages that a registry, or a view, caches."""


class _Inclusion(NamedTuple):
    """A registry that includes the entries of another one."""

    into: Registry
    prefix: str | None
    """Added to names, ``prefix_name``, and to URIs, ``scheme://prefix/rest``."""
    scopes: tuple[str, ...] = ()
    """Scopes that each entry needs there, besides its own."""

    def copied(self, item: AnyEntry) -> AnyEntry:
        """Return the copy of an entry that is registered there; its number is another one."""
        return item.prefixed(self.prefix) if self.prefix else copy(item)

    def add(self, item: AnyEntry) -> None:
        made = self.copied(item)
        made.scopes = tuple(dict.fromkeys((*self.scopes, *made.scopes)))
        self.into.add(made)

    def remove(self, item: AnyEntry) -> None:
        with suppress(KeyError):
            self.into.remove(_KINDS[item.listing], self.copied(item).key)

    def leads_to(self, registry: Registry) -> bool:
        """Return True if a registry includes the entries, directly or through others."""
        return self.into is registry or any(
            each.leads_to(registry) for each in self.into._inclusions
        )


class Provider(Protocol):
    """Resources that come and go by themselves, such as the files of a directory.

    They are listed after the registered resources, in the order of their URIs. A registered
    resource hides a provided one with the same URI. They are read through a registered template.
    """

    async def resources(
        self, after: str, limit: int | None, context: Context[Any]
    ) -> Sequence[Entry]:
        """Return at most `limit` resources whose URIs are greater than `after`, in their order."""
        ...


class Registry:
    """All entries of a server.

    Its tables are replaced and never modified, because entries may be added in one thread while
    others look them up.
    """

    def __init__(self) -> None:
        self.tools: Mapping[str, Tool] = {}
        self.resources: Mapping[str, Resource] = {}
        self.templates: Mapping[str, ResourceTemplate] = {}
        self.prompts: Mapping[str, Prompt] = {}
        self.providers: tuple[Provider, ...] = ()
        self.additions: tuple[Addition, ...] = ()
        self.on_change: Callable[[ListKind], None] = lambda kind: None
        self.on_advertise: Callable[[frozenset[str]], None] = lambda capabilities: None
        """Called with all advertised capabilities before there may be more."""
        self._inclusions: list[_Inclusion] = []
        self._disabled: dict[tuple[Listing, str], AnyEntry] = {}
        self.version = 0
        """Counts the changes, each of which invalidates the cached pages."""
        self._pages: dict[tuple[int, Listing, int, int | None, bool], Page] = {}
        self.advertised: frozenset[str] = frozenset()
        """The capabilities that entries have given the server. They remain when the entries go:
        clients that were told of them go on to use them."""
        self.restricted = False
        """True if some entries need scopes."""
        self.hides_tools = False
        """True if some tools are hidden from clients that show no views."""
        self.gate: Any = None
        """The `mcpkit.call_limits.Gate` of all entries, if there is one."""
        self._changing = threading.RLock()

    # --- changing ---------------------------------------------------------------------------------

    def add(self, item: AnyEntry) -> None:
        """Add an entry, here and to the registries that include this one, or nowhere.

        Raises `RegistrationError` if its name or URI is taken.
        """
        listing = item.listing
        with self._changing:
            table = self.table(listing)
            if item.key in table:
                raise RegistrationError(
                    f"a {_TABLES[listing][2]} {item.key!r} is registered already; remove it first, "
                    f"or choose another"
                )
            if self.gate is not None:
                item.plan = LimitedPlan(item.plan, self.gate)
            added: list[_Inclusion] = []
            try:
                for inclusion in self._inclusions:
                    inclusion.add(item)
                    added.append(inclusion)
            except RegistrationError:
                for inclusion in added:
                    inclusion.remove(item)
                raise
            # What serves an entry is loaded before anybody can find it.
            self.on_advertise(self.advertised | _advertised_by(item))
            item.number = self.version
            setattr(self, _TABLES[listing][0], {**table, item.key: item})
            self.advertised |= _advertised_by(item)
            self.restricted = self.restricted or bool(item.scopes)
            self.hides_tools = self.hides_tools or item.is_hidden
            self._forget()
        self.on_change(_KINDS[listing])

    def include(
        self, other: Registry, prefix: str | None = None, scopes: tuple[str, ...] = ()
    ) -> None:
        """Include the entries of another registry, now and in future; see `_Inclusion`.

        Raises `RegistrationError` if a name is taken, or this one is included in the other one.
        """
        inclusion = _Inclusion(self, prefix, scopes)
        if inclusion.leads_to(other):
            raise RegistrationError("an app cannot include itself")
        self.offer(other.advertised)
        with other._changing:
            for item in sorted(other.entries(), key=lambda each: each.number):
                inclusion.add(item)
            for provider in other.providers:
                self.add_provider(provider)
            other._inclusions.append(inclusion)

    def offer(self, capabilities: Iterable[str]) -> None:
        """Advertise capabilities, here and in the registries that include this one."""
        with self._changing:
            self.on_advertise(self.advertised.union(capabilities))
            self.advertised = self.advertised.union(capabilities)
        for inclusion in self._inclusions:
            inclusion.into.offer(capabilities)

    def add_provider(self, provider: Provider) -> None:
        """Add a provider of resources."""
        with self._changing:
            self.providers = (*self.providers, provider)
            self.offer(["resources"])
            self._forget()
        self.on_change("resources")
        for inclusion in self._inclusions:
            inclusion.into.add_provider(provider)

    def remove(self, kind: ListKind, key: str) -> None:
        """Remove the tool or prompt of a name, or the resource or template of a URI.

        Raises `KeyError` if there is none.
        """
        with self._changing:
            listing: Listing | None = next(
                (each for each in _TABLES if _KINDS[each] == kind and key in self.table(each)), None
            )
            if listing is None:
                raise KeyError(f"nothing is registered as {key!r} among the {kind}")
            rest = dict(self.table(listing))
            item = rest.pop(key)
            setattr(self, _TABLES[listing][0], rest)
            # Providers have scopes of their own.
            is_needed = bool(self.providers) or any(each.scopes for each in self.entries())
            self.restricted = self.restricted and is_needed
            self.hides_tools = any(each.is_hidden for each in self.tools.values())
            self._forget()
        self.on_change(kind)
        for inclusion in self._inclusions:
            inclusion.remove(item)

    def disable(self, names: Collection[str], tags: Collection[str]) -> None:
        """Remove the entries that have one of some names or tags, and keep them for `enable`.

        Raises `KeyError` if no entry has a name.
        """
        with self._changing:
            for each in self._chosen(names, tags, self.entries()):
                self.remove(_KINDS[each.listing], each.key)
                self._disabled[each.listing, each.key] = each

    def enable(self, names: Collection[str], tags: Collection[str]) -> None:
        """Add entries again that were disabled; see `disable`."""
        with self._changing:
            for each in self._chosen(names, tags, [*self._disabled.values()]):
                self.add(each)
                del self._disabled[each.listing, each.key]

    def _chosen(
        self, names: Collection[str], tags: Collection[str], among: Iterable[AnyEntry]
    ) -> list[AnyEntry]:
        wanted, tagged = ({each} if isinstance(each, str) else {*each} for each in (names, tags))
        known = {each.name for each in (*self.entries(), *self._disabled.values())}
        if unknown := sorted(wanted - known):
            raise KeyError(f"nothing is registered as {', '.join(map(repr, unknown))}")
        return [each for each in among if each.name in wanted or tagged & each.tags]

    def take_over(self, other: Registry) -> None:
        """Replace the entries by those of another registry, and announce the lists that differ."""

        def described(listing: Listing) -> list[Any]:
            return [each.to_wire(PER_REQUEST[-1]) for each in self.table(listing).values()]

        with self._changing:
            before = {listing: described(listing) for listing in _TABLES}
            for listing in _TABLES:
                setattr(self, _TABLES[listing][0], other.table(listing))
            self.providers, self.restricted = other.providers, other.restricted
            self.additions = other.additions
            self.hides_tools = other.hides_tools
            self.advertised |= other.advertised
            self._forget()
            changed: list[ListKind] = [
                _KINDS[each] for each in _TABLES if before[each] != described(each)
            ]
        for kind in dict.fromkeys(changed):
            self.on_change(kind)

    def _forget(self) -> None:
        self.version += 1
        self._pages.clear()

    # --- entries ----------------------------------------------------------------------------------

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that the registered entries need, each once."""
        return tuple(dict.fromkeys(scope for each in self.entries() for scope in each.scopes))

    @property
    def environment(self) -> tuple[str, ...]:
        """The environment variables that the registered entries need, each once."""
        names = (name for each in self.entries() for name in each.plan.environment)
        return tuple(dict.fromkeys(names))

    def check_entries(self) -> None:
        """Raise `RegistrationError` if something is missing that an entry needs."""
        for entry in self.entries():
            for each in entry.options.values():
                each.check(entry, self)

    def entries(self) -> list[Any]:
        """Return the registered entries of all lists."""
        return [each for listing in _TABLES for each in self.table(listing).values()]

    def table(self, listing: Listing) -> Mapping[str, Any]:
        """Return the registered entries of a list by their keys."""
        found: Mapping[str, Any] = getattr(self, _TABLES[listing][0])
        return found

    def resource(self, uri: str) -> Found | None:
        """Return the registered resource at a URI, or the first template that matches it."""
        resource = self.resources.get(uri)
        if resource is not None:
            return resource, {}
        for template in self.templates.values():
            variables = template.template.match(uri)
            if variables is not None:
                return template, variables
        return None

    # --- lists ------------------------------------------------------------------------------------

    def page(
        self,
        listing: Listing,
        cursor: object,
        size: int | None,
        context: Context[Any],
        view: View | None = None,
    ) -> Page | Awaitable[Page]:
        """Return a page of at most `size` entries of a list, those that a view shows.

        Raises `InvalidParams` if the cursor is not one of ours (PAGE-3).
        """
        if self.providers and listing == "resources":
            return self._provided_page(cursor, size, context, view)
        hides = listing == "tools" and self.hides_tools and not context.request.client.shows_views
        return self._registered_page(listing, cursor, size, view, hides=hides)

    def _registered_page(
        self,
        listing: Listing,
        cursor: object,
        size: int | None,
        view: View | None,
        *,
        hides: bool = False,
    ) -> Page:
        # The version is read first, so that a page made during a change is not found after it. The
        # key has the start instead of the cursor, as clients can make up any number of cursors.
        version = self.version
        pages = self._pages if view is None else view.pages
        entries: Collection[Entry] = self.table(listing).values()
        if view is not None:
            entries = list(filter(view.shows, entries))
        if hides:  # APP-7
            entries = [each for each in entries if not each.is_hidden]
        start = 0
        if cursor is not None:
            number, _ = read_cursor(listing, cursor, int)
            # Removal keeps a dict in the order of registration, so the numbers ascend.
            start = bisect_right([each.number for each in entries], number)
        key = (version, listing, start, size, hides)
        found = pages.get(key)
        if found is None:
            end = len(entries) if size is None else min(start + size, len(entries))
            shown = list(entries)[start:end]
            more = None
            if end < len(entries):
                more = write_cursor(listing, shown[-1].number, "")
            is_private = view is not None or (listing == "tools" and self.hides_tools)
            found = Page(listing, shown, more, is_private, self.additions)
            if len(pages) < MAX_PAGES:
                pages[key] = found
        return found

    async def _provided_page(
        self, cursor: object, size: int | None, context: Context[Any], view: View | None
    ) -> Page:
        """Return a page of the registered resources, followed by those of providers."""
        page = self._registered_page("resources", cursor, size, view)
        if page.next_cursor is not None:
            return page
        _, after = (0, "") if cursor is None else read_cursor("resources", cursor, int)
        found = list(page.entries)
        room = None if size is None else size - len(found)
        more: list[Entry] = []
        for provider in self.providers:
            # One more than fits shows that there is another page.
            limit = None if room is None else room + 1
            more += await provider.resources(after, limit, context)
        more.sort(key=lambda each: each.key)
        cursor = None
        if room is not None and len(more) > room:
            more = more[:room]
            cursor = write_cursor("resources", _PROVIDED, more[-1].key if more else after)
        taken: set[str] = set(self.resources)
        for each in more:
            if each.key not in taken and (view is None or view.shows(each)):
                taken.add(each.key)
                found.append(each)
        return Page("resources", found, cursor, page.is_private, self.additions)


Refusal: TypeAlias = Callable[[Entry], "Exception | None"]
"""Returns the error for a caller that may not use an entry; None if it may."""


class _Allowed(Generic[EntryT]):
    """The entries of a table that a caller may use."""

    def __init__(self, table: Mapping[str, EntryT], refusal: Refusal) -> None:
        self._table = table
        self._refusal = refusal

    def get(self, key: str) -> EntryT | None:
        """Return an entry; None if there is none. Raises the refusal of another."""
        entry = self._table.get(key)
        if entry is not None and (error := self._refusal(entry)) is not None:
            raise error
        return entry


class View:
    """The entries of a registry, as a caller with some permissions sees them.

    An entry that the caller may not use is not listed; looking it up raises its refusal, which says
    what the caller lacks.
    """

    def __init__(self, registry: Registry, refusal: Refusal) -> None:
        self._registry = registry
        self._refusal = refusal
        self.pages: dict[tuple[int, Listing, int, int | None, bool], Page] = {}
        self.tools = _Allowed(registry.tools, refusal)
        self.prompts = _Allowed(registry.prompts, refusal)
        self.templates = _Allowed(registry.templates, refusal)

    @property
    def advertised(self) -> frozenset[str]:
        """The capabilities of the whole registry: a caller may get the permissions it lacks."""
        return self._registry.advertised

    def shows(self, entry: Entry) -> bool:
        """Return True if the caller may use an entry."""
        return self._refusal(entry) is None

    def resource(self, uri: str) -> Found | None:
        """Return the resource at a URI; see `Registry.resource`."""
        found = self._registry.resource(uri)
        if found is not None and (error := self._refusal(found[0])) is not None:
            raise error
        return found

    def page(
        self, listing: Listing, cursor: object, size: int | None, context: Context[Any]
    ) -> Page | Awaitable[Page]:
        """Return a page of the entries that the caller may use; see `Registry.page`."""
        return self._registry.page(listing, cursor, size, context, self)


Catalog: TypeAlias = Registry | View
"""The entries that one request may see."""


def _advertised_by(entry: Any) -> set[str]:
    listing: Listing = entry.listing
    found: set[str] = {_KINDS[listing]}
    if listing in _COMPLETED and entry.completers:
        found.add("completions")
    if entry.plan.uses_context:
        found.add("logging")
    return found.union(*(each.capabilities for each in entry.options.values()))


_PROVIDED: Final = 2**53
"""The number of every provided entry in a cursor."""


def write_cursor(kind: str, number: float, key: str) -> str:
    """Return a cursor that contains its position: stable while the list changes (PAGE-4)."""
    return urlsafe_b64encode(f"{kind}:{number}:{key}".encode()).decode("ascii")


def read_cursor(kind: str, cursor: object, parse: Callable[[str], N]) -> tuple[N, str]:
    """Return the position in a cursor of a kind of list, whose number `parse` reads."""
    if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR:
        raise InvalidParams("The cursor is malformed")
    try:
        found, text, key = urlsafe_b64decode(cursor.encode("ascii")).decode().split(":", 2)
        number = parse(text)
    except (ValueError, binascii.Error):
        raise InvalidParams("The cursor is malformed") from None
    # A NUL is in no key, and not every database can compare it.
    if found != kind or "\0" in key or write_cursor(kind, number, key) != cursor:
        raise InvalidParams("The cursor belongs to another list")
    return number, key
