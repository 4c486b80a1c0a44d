"""Views: the entries of a registry that one request sees."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from mcpkit._entries import Entry, Listing, refusal_of
from mcpkit.context import Client, Context
from mcpkit.http import HttpRequest
from mcpkit.types import Principal

EntryT = TypeVar("EntryT", bound=Entry)

Verdict: TypeAlias = "bool | Literal['unlisted'] | Exception"
"""What becomes of an entry: True if it is listed and may be used, ``"unlisted"`` if it may be used
only, False if it is not there; or the error that its users get."""

Judge: TypeAlias = Callable[[Any, Any], Verdict]
"""From an entry and a choice to what becomes of it."""


class Caller(NamedTuple):
    """The sender of a request, for `MCPKit.view`."""

    http: HttpRequest | None
    """The HTTP request; None on other transports."""
    principal: Principal | None
    """The authenticated caller; None without authentication, and on stdio."""
    client: Client
    """The client, by its own account."""


Choose: TypeAlias = Callable[[Caller], Hashable]

Choices: TypeAlias = tuple[tuple[Judge, Any], ...]
"""Functions that judge, each with the choice that was made."""


def by_scopes(entry: Entry, choice: tuple[frozenset[str], bool]) -> Verdict:
    """Refuse what needs scopes that are not held; the choice is of `refusal_of`."""
    held, is_known = choice
    return refusal_of(entry, held, is_known=is_known) or True


def by_hiding(entry: Entry, _: None) -> Verdict:
    """List no tool that is hidden from clients that show no views (APP-7)."""
    return "unlisted" if entry.is_hidden else True


def fail(entry: Entry, error: Exception) -> Verdict:
    """Raise the error of making a choice, so that nothing is seen."""
    raise error


class _Seen(Generic[EntryT]):
    """The entries of a table that a request may use."""

    def __init__(self, table: Mapping[str, EntryT], view: View) -> None:
        self._table = table
        self._view = view

    def get(self, key: str) -> EntryT | None:
        """Return an entry; None if there is none. Raises the refusal of another."""
        entry = self._table.get(key)
        return entry if entry is not None and self._view.lets_use(entry) else None


class View:
    """The entries of a registry, as requests with some choices see them."""

    def __init__(self, registry: Any, choices: Choices) -> None:
        self._registry = registry
        self._choices = choices
        self._listed: dict[Listing, list[Any]] = {}
        self.pages: dict[Any, Any] = {}
        self.tools = _Seen(registry.tools, self)
        self.prompts = _Seen(registry.prompts, self)
        self.templates = _Seen(registry.templates, self)

    @property
    def advertised(self) -> frozenset[str]:
        """The capabilities of the whole registry: a caller may get the permissions it lacks."""
        found: frozenset[str] = self._registry.advertised
        return found

    def _verdict(self, entry: Entry) -> Verdict:
        found: Verdict = True
        for judge, choice in self._choices:
            verdict = judge(entry, choice)
            if verdict is not True:
                if verdict != "unlisted":
                    return verdict
                found = verdict
        return found

    def listed(self, listing: Listing) -> list[Any]:
        """Return the registered entries that are in a list, as of the first time."""
        if listing not in self._listed:
            self._listed[listing] = [*filter(self.lists, self._registry.table(listing).values())]
        return self._listed[listing]

    def lists(self, entry: Entry) -> bool:
        """Return True if an entry is in its list."""
        return self._verdict(entry) is True

    def lets_use(self, entry: Entry) -> bool:
        """Return True if an entry may be used; raises its refusal."""
        verdict = self._verdict(entry)
        if isinstance(verdict, Exception):
            raise verdict
        return bool(verdict)

    def resource(self, uri: str) -> Any:
        """Return the resource at a URI; see `Registry.resource`."""
        found = self._registry.resource(uri)
        return found if found is not None and self.lets_use(found[0]) else None

    def page(
        self, listing: Listing, cursor: object, size: int | None, context: Context[Any]
    ) -> Any:
        """Return a page of the entries that are seen; see `Registry.page`."""
        return self._registry.page(listing, cursor, size, context, self)
