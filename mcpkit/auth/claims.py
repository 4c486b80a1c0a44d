"""Claims of a token, or of an answer about one → a principal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpkit._utils.json import is_array
from mcpkit.types import Principal

__all__ = ["principal_of", "scopes_in"]

_LONGEST: Final = 1024
"""Characters of a subject: it is repeated in sessions and names of accounts."""


def scopes_in(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the scopes that claims name: ``scope`` (RFC 8693, 4.2), or ``scp`` of some issuers."""
    found: Any = claims.get("scope", claims.get("scp"))
    if isinstance(found, str):
        return frozenset(found.split())
    if is_array(found):
        return frozenset(each for each in found if isinstance(each, str))
    return frozenset()


def principal_of(
    claims: Mapping[str, Any], issuer: str, expires_at: float | None
) -> Principal | None:
    """Return the principal that verified claims are about; None if they name nobody.

    The id is issuer and subject together, because another issuer's subject of the same name is
    somebody else (AUTH-17).

    Args:
        claims: Of the token.
        issuer: That has issued it.
        expires_at: When the authentication ends.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST:
        return None
    client = claims.get("client_id", claims.get("azp"))
    return Principal(
        f"{issuer}|{subject}",
        scopes_in(claims),
        expires_at,
        claims,
        issuer=issuer,
        client_id=client if isinstance(client, str) else None,
    )
