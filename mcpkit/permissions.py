"""Scopes, scopes that imply others, and the type of ``allow=`` predicates."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from mcpkit.errors import RegistrationError
from mcpkit.types import Principal

Allow: TypeAlias = Callable[[Principal, Mapping[str, Any]], "bool | Awaitable[bool]"]
"""A function, async or not: decides from the principal and the arguments if a call is allowed."""

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def is_scope(text: object) -> bool:
    """Return True if a text is a valid scope (RFC 6749, 3.3), and so safe in a header (SEC-18)."""
    return isinstance(text, str) and _SCOPE.fullmatch(text) is not None


def scopes_of(scopes: Any, option: str) -> tuple[str, ...]:
    """Return the scopes of an option, without duplicates; raises `ValueError`."""
    if isinstance(scopes, str):
        raise ValueError(f"{option} must be a list, such as {scopes.split()!r}")
    found: tuple[Any, ...] = tuple(dict.fromkeys(scopes))
    for each in found:
        if not is_scope(each):
            raise ValueError(
                f"{option}: {each!r} is not a scope, which is printable ASCII without blanks, "
                f"quotes and backslashes"
            )
        if each == "offline_access":
            raise ValueError(f"{option}: omit offline_access; clients request it by themselves")
    return found


def needed_scopes(scopes: Iterable[str] | None, at: str) -> tuple[str, ...]:
    """Return the value of a ``scopes=`` option; raises `RegistrationError`."""
    try:
        return scopes_of(scopes or (), "scopes")
    except (TypeError, ValueError) as error:
        raise RegistrationError(f"{at}: {error}") from None


class Hierarchy:
    """The scopes that imply others, which may imply others in turn (AUTH-7)."""

    def __init__(self, implied: Mapping[str, Sequence[str]]) -> None:
        self._implied = {
            scope: {scope, *scopes_of(others, f"scope_hierarchy[{scope!r}]")}
            for scope, others in implied.items()
        }
        scopes_of(implied, "scope_hierarchy")
        for between in implied:
            for found in self._implied.values():
                if between in found:
                    found |= self._implied[between]

    def __bool__(self) -> bool:
        return bool(self._implied)

    def held(self, scopes: frozenset[str]) -> frozenset[str]:
        """Return scopes with those that they imply."""
        if not self._implied:
            return scopes
        return scopes.union(*[self._implied[each] for each in scopes if each in self._implied])
