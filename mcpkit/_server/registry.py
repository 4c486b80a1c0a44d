"""A server's entries in the order of their registration, and the pages of their lists.

A page is encoded once for each revision and each version of the registry.
"""

from __future__ import annotations

import binascii
import itertools
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

from mcpkit._entries import Entry, Listing
from mcpkit._injection import LimitedPlan
from mcpkit._protocol import wire
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import PER_REQUEST, Revision
from mcpkit._server.inclusions import Inclusion, Pair, Place, Source, place_of
from mcpkit._server.views import View
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


_TABLES: Final[dict[Listing, tuple[str, str]]] = {
    "tools": ("tools", "tool"),
    "resources": ("resources", "resource"),
    "resourceTemplates": ("templates", "resource template"),
    "prompts": ("prompts", "prompt"),
}
"""The attribute of the registry, and the noun, of each list."""

KINDS: Final[dict[Listing, ListKind]] = {
    "tools": "tools",
    "resources": "resources",
    "resourceTemplates": "resources",
    "prompts": "prompts",
}
"""List → its kind in ``list_changed``."""

_COMPLETED: Final[frozenset[Listing]] = frozenset({"resourceTemplates", "prompts"})
"""The lists whose entries may complete their arguments."""

MAX_CURSOR: Final = 128 * 1024
"""Characters of a cursor, which may hold the URI of an entry."""

MAX_PAGES: Final = 1024
"""Encoded pages that a registry, or a view, caches."""


_changing: Final = threading.RLock()
"""Held while entries change: a registry changes together with those that include it."""


class _Edit:
    """A change of a registry that is not made yet."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.tables: dict[Listing, dict[str, AnyEntry]] = {}
        self.disabled = {**registry._disabled}
        self.added: list[AnyEntry] = []
        self.advertised: frozenset[str] = frozenset()
        self.kinds: dict[ListKind, None] = {}
        """The kinds of lists that differ."""

    def _table(self, listing: Listing) -> dict[str, AnyEntry]:
        if listing not in self.tables:
            self.tables[listing] = {**self._registry.table(listing)}
        return self.tables[listing]

    def remove(self, item: AnyEntry) -> None:
        """Remove an entry, if it is still there."""
        if self._table(item.listing).get(item.key) is item:
            del self._table(item.listing)[item.key]
            self.kinds[KINDS[item.listing]] = None
        elif self.disabled.get(place_of(item)) is item:
            del self.disabled[place_of(item)]

    def add(self, item: AnyEntry) -> None:
        """Add an entry behind the others; raises `RegistrationError` if its key is taken."""
        if item.key in self._table(item.listing):
            raise RegistrationError(
                f"a {_TABLES[item.listing][1]} {item.key!r} is registered already; remove it "
                f"first, or choose another"
            )
        self._put(item)
        self.kinds[KINDS[item.listing]] = None

    def replace(self, old: AnyEntry, new: AnyEntry) -> None:
        """Put an entry in the place of one with the same key, if that is still there."""
        new.number = old.number
        if self._table(old.listing).get(old.key) is old:
            self._put(new)
            kind = KINDS[new.listing]
            if kind not in self.kinds and (
                old.scopes != new.scopes or _described(old) != _described(new)
            ):
                self.kinds[kind] = None
        elif self.disabled.get(place_of(old)) is old:
            self.disabled[place_of(old)] = new

    def _put(self, item: AnyEntry) -> None:
        self._table(item.listing)[item.key] = item
        self.added.append(item)
        self.advertised |= _advertised_by(item)


def _announce(edits: Mapping[Registry, _Edit]) -> None:
    """Announce a change that was made. Without the lock: who hears of it may have locks, too."""
    for registry, edit in edits.items():
        registry.on_commit()
        for kind in edit.kinds:
            registry.on_change(kind)


def _described(entry: AnyEntry) -> Mapping[str, Any]:
    return entry.to_wire(PER_REQUEST[-1])


class Registry:
    """All entries of a server.

    Its tables are replaced and never modified, because entries may be added in one thread while
    others look them up.

    The registry of an app that includes another one has copies of the entries of that one. A change
    is made in all of these registries, or in none.
    """

    def __init__(self) -> None:
        self.tools: Mapping[str, Tool] = {}
        self.resources: Mapping[str, Resource] = {}
        self.templates: Mapping[str, ResourceTemplate] = {}
        self.prompts: Mapping[str, Prompt] = {}
        self.sources: tuple[Source, ...] = ()
        self.additions: tuple[Addition, ...] = ()
        self.on_change: Callable[[ListKind], None] = lambda kind: None
        self.on_commit: Callable[[], object] = lambda: None
        """Called when entries have changed, also if no list differs."""
        self.on_advertise: Callable[[frozenset[str]], None] = lambda capabilities: None
        """Called with all advertised capabilities before there may be more."""
        self._inclusions: list[Inclusion] = []
        self._disabled: Mapping[Place, AnyEntry] = {}
        self._numbers = itertools.count()
        self.version = 0
        """Counts the changes, each of which invalidates the cached pages."""
        self._pages: dict[tuple[int, Listing, int, int | None], Page] = {}
        self.advertised: frozenset[str] = frozenset()
        """The capabilities that entries have given the server. They remain when the entries go:
        clients that were told of them go on to use them."""
        self.restricted = False
        """True if some entries need scopes."""
        self.hides_tools = False
        """True if some tools are hidden from clients that show no views."""
        self.gate: Any = None
        """The `mcpkit.call_limits.Gate` of all entries, if there is one."""

    # --- changing ---------------------------------------------------------------------------------

    def add(self, item: AnyEntry) -> None:
        """Add an entry, here and to the registries that include this one, or nowhere.

        Raises `RegistrationError` if its name or URI is taken.
        """
        with _changing:
            edits = self._change([(None, item)])
        _announce(edits)

    def replace(self, entries: Iterable[AnyEntry]) -> None:
        """Replace all entries at once; one whose name or URI stays keeps its place in the list.

        Raises `RegistrationError` if a name or URI is taken, or two entries have the same.
        """
        with _changing:
            before = {place_of(each): each for each in self.entries()}
            pairs = [(before.pop(place_of(each), None), each) for each in entries]
            edits = self._change([*((each, None) for each in before.values()), *pairs])
        _announce(edits)

    def include(self, inclusion: Inclusion) -> None:
        """Include the entries of another registry, now and in future.

        Raises `RegistrationError` if a name is taken, or this one is included in the other one.
        """
        other = inclusion.source
        if inclusion.leads_to(other):
            raise RegistrationError("an app cannot include itself")
        with _changing:
            found = sorted(other.entries(), key=lambda each: each.number)
            pairs: list[Pair] = [(None, each) for each in found]
            copies = inclusion.copies(pairs)
            sources = [inclusion.source_of(each) for each in other.sources]
            for source in sources:
                self._check_source(source)
            edits = self._change(copies)
            inclusion.note(pairs, copies)
            other._inclusions.append(inclusion)
        self.offer(other.advertised)
        _announce(edits)
        for source in sources:
            self.add_source(source)

    def _change(self, pairs: Iterable[Pair]) -> Mapping[Registry, _Edit]:
        """Put new entries in the place of old ones, here and in what includes this registry.

        With the lock; what it returns is to be announced without.
        """
        edits: dict[Registry, _Edit] = {}
        made: list[tuple[Inclusion, Collection[Pair], Collection[Pair]]] = []
        self._plan(list(pairs), edits, made)
        for registry, edit in edits.items():
            # What serves an entry is loaded before anybody can find it.
            registry.on_advertise(registry.advertised | edit.advertised)
        for registry, edit in edits.items():
            registry._commit(edit)
        for inclusion, changed, copies in made:
            inclusion.note(changed, copies)
        return edits

    def _plan(
        self,
        pairs: Collection[Pair],
        edits: dict[Registry, _Edit],
        made: list[tuple[Inclusion, Collection[Pair], Collection[Pair]]],
    ) -> None:
        edit = edits.get(self)
        if edit is None:
            edit = edits[self] = _Edit(self)
        for old, new in pairs:  # first, so that a name may pass from one entry to another
            if old is not None and (new is None or place_of(old) != place_of(new)):
                edit.remove(old)
        for old, new in pairs:
            if new is not None:
                if self.gate is not None:
                    new.plan = LimitedPlan(new.plan, self.gate)
                if old is not None and place_of(old) == place_of(new):
                    edit.replace(old, new)
                else:
                    new.number = next(self._numbers)
                    edit.add(new)
        for inclusion in self._inclusions:
            copies = inclusion.copies(pairs)
            made.append((inclusion, pairs, copies))
            inclusion.into._plan(copies, edits, made)

    def _commit(self, edit: _Edit) -> None:
        # First, so that no request finds them without its view.
        self.restricted = self.restricted or any(each.scopes for each in edit.added)
        self.hides_tools = self.hides_tools or any(each.is_hidden for each in edit.added)
        for listing, table in edit.tables.items():
            setattr(self, _TABLES[listing][0], table)
        self._disabled = edit.disabled
        self.advertised |= edit.advertised
        if self.restricted:  # sources have scopes of their own
            self.restricted = bool(self.sources) or any(each.scopes for each in self._every())
        if self.hides_tools:
            self.hides_tools = any(each.is_hidden for each in self.tools.values())
        self._forget()

    def offer(self, capabilities: Iterable[str]) -> None:
        """Advertise capabilities, here and in the registries that include this one."""
        with _changing:
            self.on_advertise(self.advertised.union(capabilities))
            self.advertised = self.advertised.union(capabilities)
        for inclusion in self._inclusions:
            inclusion.into.offer(capabilities)

    def _check_source(self, source: Source) -> None:
        """Raise `RegistrationError` if the source cannot be in a registry that includes this."""
        for inclusion in self._inclusions:
            inclusion.into._check_source(inclusion.source_of(source))

    def add_source(self, source: Source) -> None:
        """Add resources that come and go by themselves."""
        with _changing:
            self.sources = (*self.sources, source)
            self.offer(["resources"])
            self._forget()
        self.on_change("resources")
        for inclusion in self._inclusions:
            inclusion.into.add_source(inclusion.source_of(source))

    def remove(self, kind: ListKind, key: str) -> None:
        """Remove the tool or prompt of a name, or the resource or template of a URI.

        Raises `KeyError` if there is none.
        """
        with _changing:
            tables = [self.table(each) for each in _TABLES if KINDS[each] == kind]
            found = next((each[key] for each in tables if key in each), None)
            if found is None:
                raise KeyError(f"nothing is registered as {key!r} among the {kind}")
            edits = self._change([(found, None)])
        _announce(edits)

    def disable(self, names: Collection[str], tags: Collection[str]) -> None:
        """Remove the entries that have one of some names or tags, and keep them for `enable`.

        Raises `KeyError` if no entry has a name.
        """
        with _changing:
            found = self._chosen(names, tags, self.entries())
            edits = self._change([(each, None) for each in found])
            self._disabled = {**self._disabled, **{place_of(each): each for each in found}}
        _announce(edits)

    def enable(self, names: Collection[str], tags: Collection[str]) -> None:
        """Add entries again that were disabled; see `disable`."""
        with _changing:
            found = self._chosen(names, tags, self._disabled.values())
            edits = self._change([(None, each) for each in found])
            enabled = {place_of(each) for each in found}
            self._disabled = {k: v for k, v in self._disabled.items() if k not in enabled}
        _announce(edits)

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
            return [_described(each) for each in self.table(listing).values()]

        with _changing:
            before = {listing: described(listing) for listing in _TABLES}
            for listing in _TABLES:
                setattr(self, _TABLES[listing][0], other.table(listing))
            self.sources, self.restricted = other.sources, other.restricted
            self.additions = other.additions
            self.hides_tools = other.hides_tools
            self.advertised |= other.advertised
            self._forget()
            changed: list[ListKind] = [
                KINDS[each] for each in _TABLES if before[each] != described(each)
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
        return [*self._every()]

    def _every(self) -> Iterator[AnyEntry]:
        return (each for listing in _TABLES for each in self.table(listing).values())

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
        if self.sources and listing == "resources":
            return self._page_of_sources(cursor, size, context, view)
        return self._registered_page(listing, cursor, size, view)

    def _registered_page(
        self, listing: Listing, cursor: object, size: int | None, view: View | None
    ) -> Page:
        # The version is read first, so that a page made during a change is not found after it. The
        # key has the start instead of the cursor, as clients can make up any number of cursors.
        version = self.version
        pages = self._pages if view is None else view.pages
        entries = self.table(listing).values() if view is None else view.listed(listing)
        start = 0
        if cursor is not None:
            number, _ = read_cursor(listing, cursor, int)
            # Removal keeps a dict in the order of registration, so the numbers ascend.
            start = bisect_right([each.number for each in entries], number)
        key = (version, listing, start, size)
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

    async def _page_of_sources(
        self, cursor: object, size: int | None, context: Context[Any], view: View | None
    ) -> Page:
        """Return a page of the registered resources, followed by those of sources."""
        page = self._registered_page("resources", cursor, size, view)
        if page.next_cursor is not None:
            return page
        _, after = (0, "") if cursor is None else read_cursor("resources", cursor, int)
        found = list(page.entries)
        room = None if size is None else size - len(found)
        more: list[Entry] = []
        for source in self.sources:
            # One more than fits shows that there is another page.
            limit = None if room is None else room + 1
            more += await source.resources(after, limit, context)
        more.sort(key=lambda each: each.key)
        cursor = None
        if room is not None and len(more) > room:
            more = more[:room]
            cursor = write_cursor("resources", _PROVIDED, more[-1].key if more else after)
        if view is None and any(each.scopes for each in more):
            self.restricted = True
            server = context.backend.server
            catalog = server.view_for(context.request.origin, context.request).catalog
            view = catalog if isinstance(catalog, View) else None
        taken: set[str] = set(self.resources)
        for each in more:
            if each.key not in taken and (view is None or view.lists(each)):
                taken.add(each.key)
                found.append(each)
        return Page("resources", found, cursor, view is not None, self.additions)


Catalog: TypeAlias = Registry | View
"""The entries that one request may see."""


def _advertised_by(entry: Any) -> set[str]:
    listing: Listing = entry.listing
    found: set[str] = {KINDS[listing]}
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
