"""API keys that the author of a server hands out: opaque, and stored as hashes only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from mcpkit._utils.names import with_suggestions
from mcpkit.auth.verifiers import Verifier
from mcpkit.types import Principal

_MIN_LENGTH: Final = 16
_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")


class NewKey(NamedTuple):
    """A new key.

    Args:
        key: For its user; it is not stored anywhere.
        hash: For `Keys`.
    """

    key: str
    hash: str


def new_key() -> NewKey:
    """Return a new random key, and its hash for `Keys`."""
    import secrets

    key = f"mk_{secrets.token_urlsafe(32)}"
    return NewKey(key, hash_key(key))


def hash_key(key: str) -> str:
    """Return the hash of a key for `Keys`.

    One round of SHA-256 is enough for random keys only: a password could be guessed.

    Args:
        key: At least 16 characters.

    Raises:
        ValueError: It is shorter.
    """
    from hashlib import sha256  # deferred: it loads OpenSSL

    if len(key) < _MIN_LENGTH:
        raise ValueError(f"a key has at least {_MIN_LENGTH} characters; new_key() makes one")
    return f"sha256:{sha256(key.encode()).hexdigest()}"


class Keys(Verifier):
    """Opaque API keys as tokens: for your own servers, and for the programs that call them.

    Args:
        keys: The owner of each key, by the hash of the key (`hash_key`): a `Principal`, or the id
            of one without scopes.
        required_scopes: The scopes that every key must have.

    Raises:
        ValueError: A hash is malformed, such as a key that was not hashed.
    """

    @with_suggestions()
    def __init__(
        self, keys: Mapping[str, Principal | str], *, required_scopes: tuple[str, ...] = ()
    ) -> None:
        self._keys: list[tuple[bytes, Principal]] = []
        for hash, owner in keys.items():
            found = _HASH.fullmatch(hash)
            if found is None:  # it may be the key itself, and is not repeated
                raise ValueError("Keys: a hash looks like sha256:…; hash_key(key) makes it")
            principal = Principal(owner) if isinstance(owner, str) else owner
            self._keys.append((bytes.fromhex(found[1]), principal))
        self.required_scopes = required_scopes

    async def verify(self, token: str, resource: str | None) -> Principal | None:
        """Return the owner of a key; the time that it takes reveals nothing (AUTH-16)."""
        from hashlib import sha256
        from hmac import compare_digest

        sent = sha256(token.encode()).digest()
        found: Principal | None = None
        for hash, principal in self._keys:
            if compare_digest(hash, sent):
                found = principal
        return found
