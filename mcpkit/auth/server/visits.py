"""Visits: what a browser has come for, and how far it has got."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from mcpkit.auth.server.grants import tokens_of
from mcpkit.auth.server.keys import KeyStore
from mcpkit.auth.server.login import User

__all__ = ["LoginState", "Wish", "scopes_given"]


@dataclass(frozen=True)
class Wish:
    """What a client has sent a user for."""

    client_id: str
    client_name: str
    client_host: str
    redirect_uri: str
    state: str | None
    challenge: str
    scopes: tuple[str, ...] = ()


@dataclass
class LoginState:
    """A visit, as it is kept: sealed, because a user may be in it with a provider's tokens."""

    wish: dict[str, Any]
    browser: str
    until: float
    memory: dict[str, Any] = field(default_factory=dict[str, Any])
    answers: int = 0
    user: User | None = None

    @property
    def wanted(self) -> Wish:
        """What the client has sent the user for."""
        found = dict(self.wish)
        found["scopes"] = tuple(found["scopes"])
        return Wish(**found)

    def written(self, vault: KeyStore) -> bytes:
        """Return it sealed."""
        return vault.seal(json.dumps(asdict(self), default=sorted).encode())

    @classmethod
    def read(cls, vault: KeyStore, kept: bytes) -> LoginState:
        """Return a visit that was written."""
        found: dict[str, Any] = json.loads(vault.open(kept))
        user: dict[str, Any] | None = found["user"]
        if user is not None:
            if user["scopes"] is not None:
                user["scopes"] = frozenset(user["scopes"])
            if user["upstream"] is not None:
                user["upstream"] = tokens_of(user["upstream"])
            found["user"] = User(**user)
        return cls(**found)


def scopes_given(visit: LoginState) -> tuple[str, ...]:
    """Return the scopes that a user can give of those that are asked for."""
    limits = visit.user.scopes if visit.user is not None else None
    return tuple(each for each in visit.wanted.scopes if limits is None or each in limits)
