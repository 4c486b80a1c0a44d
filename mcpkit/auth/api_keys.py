"""Keys that the author of a server hands out: opaque, and known here by their hashes only."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from mcpkit._utils.names import with_suggestions
from mcpkit.auth.verifiers import Verifier
from mcpkit.types import Principal

__all__ = ["Keys", "NewKey", "hash_key", "new_key"]

_SHORTEST: Final = 16
_HASH: Final = re.compile(r"sha256:([0-9a-f]{64})")


class NewKey(NamedTuple):
    """A key that was just made.

    Args:
        key: For whoever is to use it; it is kept nowhere else.
        hash: For `Keys`.
    """

    key: str
    hash: str


def new_key() -> NewKey:
    """Return a new random key, and the hash by which `Keys` knows it."""
    import secrets

    key = f"mk_{secrets.token_urlsafe(32)}"
    return NewKey(key, hash_key(key))


def hash_key(key: str) -> str:
    """Return the hash of a key, as `Keys` takes it.

    One round of SHA-256 is enough for keys that are random, and for no others: a password would be
    guessed.

    Args:
        key: Of 16 characters at least.

    Raises:
        ValueError: It is shorter.
    """
    from hashlib import sha256  # loaded when needed: it brings OpenSSL along

    if len(key) < _SHORTEST:
        raise ValueError(f"a key has at least {_SHORTEST} characters; new_key() makes one")
    return f"sha256:{sha256(key.encode()).hexdigest()}"


class Keys(Verifier):
    """Opaque keys as tokens: for a server of your own, and for programs that call it.

    Args:
        keys: Whoever each key belongs to, by the hash of the key (`hash_key`): a `Principal`, or
            the id of one who has no scopes.
        required_scopes: The scopes that every key needs.

    Raises:
        ValueError: A hash is none, such as a key that was not hashed.
    """

    @with_suggestions()
    def __init__(
        self, keys: Mapping[str, Principal | str], *, required_scopes: tuple[str, ...] = ()
    ) -> None:
        known: list[tuple[bytes, Principal]] = []
        for hash, owner in keys.items():
            found = _HASH.fullmatch(hash)
            if found is None:  # which may be the key itself, and is not repeated
                raise ValueError("Keys: a hash looks like sha256:…; hash_key(key) makes it")
            principal = Principal(owner) if isinstance(owner, str) else owner
            known.append((bytes.fromhex(found[1]), principal))
        self._keys = tuple(known)
        self.required_scopes = required_scopes

    async def verify(self, token: str, resource: str | None) -> Principal | None:
        """Return whoever a key belongs to.

        Each key is compared, and each in the same time, so that the time of an answer tells
        nothing of any (AUTH-16).
        """
        from hashlib import sha256
        from hmac import compare_digest

        del resource
        sent = sha256(token.encode()).digest()
        found: Principal | None = None
        for hash, principal in self._keys:
            if compare_digest(hash, sent):
                found = principal
        return found
