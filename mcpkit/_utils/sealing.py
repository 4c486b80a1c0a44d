"""Values that travel through a client, sealed so that a change is noticed (MRTR-5).

With the package ``cryptography`` they are encrypted (AES-256-GCM); without it they are readable,
but signed (HMAC-SHA-256). A process opens only what it would seal itself: where values are
encrypted, one that was merely signed has been readable.

A value is bound to its app and to its place there: the nonce is a digest of all three (a synthetic
IV), which the version before takes for a random one. A blank at the end, which JSON allows, marks
such values; those without it are of the version before, and are still opened in this release.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from mcpkit._utils.text import PLACEHOLDER, is_placeholder

_SIGNED: Final = b"\x01"
_ENCRYPTED: Final = b"\x02"
_MAC_SIZE: Final = 32
_NONCE_SIZE: Final = 12
_BOUND: Final = b" "
_HEAD_SIZE: Final = 1 + _NONCE_SIZE
_SHORTEST_SECRET: Final = 16  # bytes; a shorter secret can be guessed from one sealed text
_MAX_BYTES: Final = 4 * 1024 * 1024  # of a value
SECRET: Final = "MCPKIT_SECRET"  # the environment variable with the secrets


class SealBroken(Exception):
    """A text was not sealed with one of the secrets for this purpose, or was changed."""


def secrets_from_environment() -> list[str]:
    """Return the secrets in ``MCPKIT_SECRET``, separated by blanks; the first one seals."""
    return os.environ.get(SECRET, "").split()


def new_secret() -> str:
    """Return a random secret."""
    return os.urandom(32).hex()


def secret_weakness(secrets: Sequence[str]) -> str:
    """Return the rest of a sentence about a secret that can be guessed; empty if none can be."""
    if any(map(is_placeholder, secrets)):
        return PLACEHOLDER
    if all(len(each.encode()) >= _SHORTEST_SECRET for each in secrets):
        return ""
    return (
        f"has a secret of fewer than {_SHORTEST_SECRET} bytes, which can be guessed; make one "
        f'with: python -c "import secrets; print(secrets.token_hex(32))"'
    )


class Sealer:
    """Seals and opens encoded JSON, for one purpose of one app.

    What was sealed at a place, such as a field of a record, is opened there only. The first of the
    secrets seals, the others still open what they sealed. Without any, a random one lives as long
    as the process.
    """

    def __init__(self, secrets: Sequence[str | bytes], purpose: str, app: str) -> None:
        material = [each.encode() if isinstance(each, str) else each for each in secrets]
        material = material or [os.urandom(32)]
        self._aead = _load_aead()
        self._algorithm = _SIGNED if self._aead is None else _ENCRYPTED
        uses = (purpose, f"{purpose} in {app}")
        self._keys = [[_derive(each, use, self._algorithm) for use in uses] for each in material]

    def seal(self, value: bytes, *place: str) -> str:
        """Return a text of letters, digits, ``-`` and ``_``: the same for the same value and place.

        Raises:
            ValueError: It is too long to travel with every request.
        """
        if len(value) > _MAX_BYTES:
            raise ValueError(f"{len(value)} bytes are more than can be sealed ({_MAX_BYTES})")
        # Not compressed: a client that chooses a part of the value could learn the rest from the
        # length of the result.
        key, binding_key = self._keys[0]
        value += _BOUND
        nonce = _nonce(binding_key, value, place)
        if self._aead is None:
            body = _SIGNED + nonce + value
            sealed = body + _mac(key, body)
        else:
            sealed = _ENCRYPTED + nonce + self._aead(key).encrypt(nonce, value, _ENCRYPTED)
        return urlsafe_b64encode(sealed).rstrip(b"=").decode("ascii")

    def open(self, text: str, *place: str) -> bytes:
        """Return the value that was sealed at a place, or raise `SealBroken`."""
        try:
            sealed = urlsafe_b64decode((text + "=" * (-len(text) % 4)).encode("ascii"))
        except ValueError:
            raise SealBroken from None
        # The decoder skips characters that are not base64, but a sealed value has one spelling.
        if urlsafe_b64encode(sealed).rstrip(b"=").decode("ascii") != text:
            raise SealBroken
        for key, binding_key in self._keys:
            value = self._open_with(key, sealed)
            if value is None:
                continue
            if not value.endswith(_BOUND):
                return value
            if sealed[1:_HEAD_SIZE] == _nonce(binding_key, value, place):
                return value[: -len(_BOUND)]
        raise SealBroken

    def _open_with(self, key: bytes, sealed: bytes) -> bytes | None:
        if sealed[:1] != self._algorithm:
            return None
        if self._aead is None:
            import hmac  # as in `_mac`

            body, mac = sealed[:-_MAC_SIZE], sealed[-_MAC_SIZE:]
            return body[_HEAD_SIZE:] if hmac.compare_digest(_mac(key, body), mac) else None
        nonce, body = sealed[1:_HEAD_SIZE], sealed[_HEAD_SIZE:]
        try:
            opened: bytes = self._aead(key).decrypt(nonce, body, _ENCRYPTED)
        except Exception:  # InvalidTag, or too short for one
            return None
        return opened


def _derive(secret: bytes, purpose: str, algorithm: bytes) -> bytes:
    """Derive a key for a purpose and algorithm (HKDF of RFC 5869, empty salt, one block)."""
    info = b"mcpkit " + purpose.encode() + b" " + algorithm
    return _mac(_mac(bytes(32), secret), info + b"\x01")


def _nonce(key: bytes, value: bytes, place: Sequence[str]) -> bytes:
    parts = [each.encode("utf-8", "surrogatepass") for each in place]
    where = b"".join(b"%d:%b" % (len(each), each) for each in parts)
    return _mac(key, b"%d:%b%b" % (len(parts), where, value))[:_NONCE_SIZE]


def _mac(key: bytes, text: bytes) -> bytes:
    import hmac  # loaded when needed: it brings OpenSSL along

    return hmac.digest(key, text, "sha256")


def _load_aead() -> Any:
    try:
        return import_module("cryptography.hazmat.primitives.ciphers.aead").AESGCM
    except ImportError:
        return None


def read_secrets(secret: str | Sequence[str] | None) -> tuple[str, ...]:
    """Return the secrets of the option ``secret=``, or those of the environment if it is None.

    Raises:
        ValueError: A secret can be guessed. Those of the environment are not checked here.
    """
    if secret is None:
        return tuple(secrets_from_environment())
    secrets = (secret,) if isinstance(secret, str) else tuple(secret)
    if wrong := secret_weakness(secrets):
        raise ValueError(f"secret= {wrong}")
    return secrets
