"""The keys of an authorization server, which sign and encrypt, and their rotation."""

from __future__ import annotations

import json
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from hashlib import sha256
from hmac import digest
from typing import Any, Final, NamedTuple

import anyio

from mcpkit._utils.turns import PerEventLoop
from mcpkit.auth.server.store import AuthStore

ALGORITHM: Final = "ES256"
EXTRA_LIFETIME: Final = 2  # seconds beyond ``expires_in``, which clients count from the response
_FOREVER: Final = 1e12
_CACHE_S: Final = 60.0  # seconds for which the keys of the store are cached
MAX_TRIES: Final = 20


def hash_of(text: str) -> str:
    """Return the hash of a secret, which is stored in its place."""
    return sha256(text.encode()).hexdigest()


class SigningKey(NamedTuple):
    """A key that signs tokens: its id, the private key in PEM, and when it was created."""

    kid: str
    private: str
    made: float

    def __repr__(self) -> str:
        return f"<SigningKey {self.kid}>"


class KeyStore:
    """Stores the keys of a server, encrypted, and rotates them."""

    def __init__(
        self,
        store: AuthStore,
        given: Sequence[str],
        lifetime: float,
        token_lifetime: float,
        clock: Callable[[], float],
    ) -> None:
        from cryptography.fernet import Fernet, MultiFernet

        self._store = store
        self._lifetime = lifetime
        # How long a key is published after it has signed.
        self._overlap = token_lifetime + EXTRA_LIFETIME
        self._clock = clock
        # Secrets are long and random, so one round of a hash derives the keys (RFC 5869, 3.3).
        derived = (digest(each.encode(), b"mcpkit auth", "sha256") for each in given)
        self._fernet = MultiFernet([Fernet(urlsafe_b64encode(each)) for each in derived])
        self._keys: tuple[SigningKey, ...] = ()
        self._mac = b""
        self._looked = 0.0
        self._lock = PerEventLoop(anyio.Lock)

    def seal(self, value: bytes) -> bytes:
        """Encrypt and authenticate bytes."""
        return self._fernet.encrypt(value)

    def open(self, sealed: bytes) -> bytes:
        """Return sealed bytes, or raise a `RuntimeError` if this server has not sealed them."""
        from cryptography.fernet import InvalidToken

        try:
            return self._fernet.decrypt(sealed)
        except InvalidToken:
            raise RuntimeError(
                f"{self._store!r} was sealed with another secret: set MCPKIT_SECRET, or secret=, "
                f"to that secret (or to both, the new one first), or use a new store, which ends "
                f"all logins"
            ) from None

    async def mac(self, text: str) -> str:
        """Return a message authentication code that only this server can make."""
        await self._load()
        found = digest(self._mac, text.encode(), "sha256")
        return urlsafe_b64encode(found).decode("ascii").rstrip("=")

    async def signing_key(self) -> SigningKey:
        """Return the key to sign with: the newest."""
        await self._load()
        return self._keys[-1]

    async def public_keys(self) -> list[dict[str, Any]]:
        """Return the JSON Web Keys that may have signed a valid token."""
        import jwt

        await self._load()
        kind: Any = jwt.get_algorithm_by_name(ALGORITHM)
        usual = {"alg": ALGORITHM, "use": "sig"}
        return [
            {**kind.to_jwk(_public(each), as_dict=True), "kid": each.kid, **usual}
            for each in self._keys
        ]

    async def public_key(self, kid: object) -> Any:
        """Return the public key with an id; None if there is none."""
        await self._load()
        return next((_public(each) for each in self._keys if each.kid == kid), None)

    async def _load(self) -> None:
        """Load the keys, from time to time; store a new one if there is none, or one is due."""
        now = self._clock()
        if self._keys and now - self._looked < _CACHE_S and not self._is_due(now):
            return
        async with self._lock.get():
            for _ in range(MAX_TRIES):
                record = await self._store.get("keys", "keys")
                if record is None:
                    self._mac = secrets.token_bytes(32)
                    await self._store.add("keys", "keys", self._written([_new_key(now)]), _FOREVER)
                    continue
                known = json.loads(self.open(record))
                self._mac = bytes.fromhex(known["mac"])
                self._keys = tuple(SigningKey(*each) for each in known["keys"])
                if not self._is_due(now):
                    self._looked = now
                    return
                since = now - self._lifetime - self._overlap
                living = [each for each in self._keys if each.made > since]
                made = self._written([*living, _new_key(now)])
                await self._store.change("keys", "keys", record, made, _FOREVER)
        raise RuntimeError("the keys of the authorization server cannot be stored")

    def _is_due(self, now: float) -> bool:
        return now - self._keys[-1].made >= self._lifetime

    def _written(self, keys: Sequence[SigningKey]) -> bytes:
        return self.seal(json.dumps({"mac": self._mac.hex(), "keys": keys}).encode())


def _public(key: SigningKey) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    return load_pem_private_key(key.private.encode(), None).public_key()


def _new_key(now: float) -> SigningKey:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    private = generate_private_key(SECP256R1())
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")
    return SigningKey(sha256(pem.encode()).hexdigest()[:16], pem, now)
