"""DPoPProofs that a token is used by whoever it was issued to (DPoP, RFC 9449)."""

from __future__ import annotations

import secrets
import time
from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlsplit

__all__ = ["DPoPProofs", "origin_of"]

_NEEDS: Final = 'Tokens that are bound to a key need the auth extra: pip install "mcpkit[auth]"'


class DPoPProofs:
    """A key of the client, the proofs that it makes with it, and what servers want in them.

    Args:
        key: The private key in PEM; a new one by default.
        nonces: What servers want to see, by their origins.

    Raises:
        ValueError: The key cannot be read.
    """

    def __init__(self, key: str | None = None, nonces: dict[str, str] | None = None) -> None:
        try:
            import jwt
            from cryptography.hazmat.primitives.asymmetric.ec import (
                SECP256R1,
                generate_private_key,
            )
            from cryptography.hazmat.primitives.serialization import (
                Encoding,
                NoEncryption,
                PrivateFormat,
                load_pem_private_key,
            )
        except ModuleNotFoundError:
            raise ImportError(_NEEDS) from None
        made: Any
        made = (
            generate_private_key(SECP256R1())
            if key is None
            else load_pem_private_key(key.encode(), None)
        )
        self.key = made.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(
            "ascii"
        )
        self._private = made
        kind: Any = jwt.get_algorithm_by_name("ES256")
        self._public: dict[str, Any] = kind.to_jwk(made.public_key(), as_dict=True)
        self._nonces: dict[str, str] = {} if nonces is None else nonces

    def make(self, method: str, url: str, token: str | None = None) -> str:
        """Return a proof for one request."""
        import jwt

        claims: dict[str, Any] = {
            "jti": secrets.token_urlsafe(16),
            "htm": method,
            "htu": url.partition("?")[0].partition("#")[0],
            "iat": int(time.time()),
        }
        if token is not None:
            digest = sha256(token.encode("ascii")).digest()
            claims["ath"] = urlsafe_b64encode(digest).decode("ascii").rstrip("=")
        nonce = self._nonces.get(origin_of(url))
        if nonce is not None:
            claims["nonce"] = nonce
        headers = {"typ": "dpop+jwt", "jwk": self._public}
        return jwt.encode(claims, self._private, "ES256", headers=headers)


def origin_of(url: str) -> str:
    """Return the origin of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
