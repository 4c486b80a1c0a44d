"""Who may use what: the scopes that entries need, those that imply others, and predicates."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mcpkit._scopes import scopes_of
from mcpkit._utils.text import truncate
from mcpkit.errors import AccessDenied, Forbidden, RegistrationError
from mcpkit.types import Principal

if TYPE_CHECKING:
    from mcpkit._entries import Entry
    from mcpkit.context import Context

__all__ = ["Allow", "Hierarchy", "check_allowed", "needed_scopes", "refusal_of"]

Allow: TypeAlias = Callable[[Principal, Mapping[str, Any]], "bool | Awaitable[bool]"]
"""A function, async or not, from a principal and the arguments of a call to whether it may be."""

_MOST_REMEMBERED: Final = 1024


class Hierarchy:
    """The scopes that imply others (AUTH-7).

    Args:
        implied: The scopes that each scope implies; those may imply others in turn.

    Raises:
        ValueError: Something in it is no scope.
    """

    def __init__(self, implied: Mapping[str, Sequence[str]]) -> None:
        self._implied = {
            scope: frozenset(scopes_of(others, f"scopes[{scope!r}]"))
            for scope, others in implied.items()
        }
        scopes_of(implied, "scopes")
        self._known: dict[frozenset[str], frozenset[str]] = {}

    def __bool__(self) -> bool:
        return bool(self._implied)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hierarchy) and self._implied == other._implied

    __hash__ = None  # type: ignore[assignment]

    def held(self, scopes: frozenset[str]) -> frozenset[str]:
        """Return scopes, and those that they imply."""
        if not self._implied:
            return scopes
        found = self._known.get(scopes)
        if found is None:
            every, new = set(scopes), set(scopes)
            while new:
                new = {one for each in new for one in self._implied.get(each, ())} - every
                every |= new
            found = frozenset(every)
            if len(self._known) < _MOST_REMEMBERED:
                self._known[scopes] = found
        return found


def needed_scopes(scopes: Iterable[str] | None, place: str) -> tuple[str, ...]:
    """Return the scopes that an option names.

    Raises:
        RegistrationError: They are none; the message names the place.
    """
    try:
        return scopes_of(scopes or (), "scopes")
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{place}: {error}") from None


def refusal_of(entry: Entry, held: frozenset[str], *, is_known: bool) -> Forbidden | None:
    """Return the error for whoever may not use an entry; None if they may.

    Args:
        entry: That is asked for.
        held: The scopes that they have.
        is_known: False if nobody knows who they are.
    """
    if held.issuperset(entry.scopes):
        return None
    names = " ".join(entry.scopes)
    return Forbidden(
        f"{truncate(entry.key)} needs the scopes {names}",
        scopes=entry.scopes,
        status=403 if is_known else 401,
    )


async def check_allowed(entry: Entry, arguments: Mapping[str, Any], context: Context[Any]) -> None:
    """Ask the predicate of an entry whether a call may be.

    It is asked where scopes matter as well: of requests that have come over HTTP, and of what they
    do as tasks later.

    Args:
        entry: With a predicate.
        arguments: As they were validated.
        context: Of the call.

    Raises:
        Forbidden: It may not be, or nobody knows whose it is.
    """
    allow = entry.allow
    request = context.request
    if allow is None or request.origin is None:
        return
    principal = request.principal
    if principal is None:
        raise Forbidden(f"{truncate(entry.key)} is for those who are logged in", status=401)
    try:
        found = allow(principal, dict(arguments))
        if inspect.isawaitable(found):
            found = await found
    except AccessDenied as error:
        raise Forbidden(str(error), status=error.status) from None
    if not found:
        raise Forbidden(f"You may not use {truncate(entry.key)} so")
