"""Scopes: the names of permissions, as OAuth writes them."""

from __future__ import annotations

import re
from typing import Any, Final

__all__ = ["is_scope", "scopes_of"]

_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


def is_scope(text: object) -> bool:
    """Return True if a text can be a scope (RFC 6749, 3.3), and so stand in a header (SEC-18)."""
    return isinstance(text, str) and _SCOPE.fullmatch(text) is not None


def scopes_of(scopes: Any, option: str) -> tuple[str, ...]:
    """Return the scopes that an option names, each once.

    Raises:
        ValueError: It is a text, or has what is no scope, or ``offline_access``, which allows
            nothing on a server (AUTH-11).
    """
    if isinstance(scopes, str):
        raise ValueError(f"{option} must be a list, such as {scopes.split()!r}")
    found: tuple[Any, ...] = tuple(dict.fromkeys(scopes))
    for each in found:
        if not is_scope(each):
            raise ValueError(
                f"{option}: {each!r} is no scope, which is printable ASCII without blanks, quotes "
                f"and backslashes"
            )
        if each == "offline_access":
            raise ValueError(f"{option}: offline_access is between clients and their issuer")
    return found
