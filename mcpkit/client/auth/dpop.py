"""Proofs that the sender of a token is the client that it was issued to (DPoP, RFC 9449)."""

from __future__ import annotations

import secrets
import time
from typing import Any, Final
from urllib.parse import urlsplit

from mcpkit._utils.fetch import s256

_NEEDS: Final = 'Tokens that are bound to a key need the auth extra: pip install "mcpkit[auth]"'


class DPoPProofs:
    """A key of the client in PEM, a new one if there is none, and the proofs that it signs."""

    def __init__(self, key: str | None, nonces: dict[str, str]) -> None:
        try:
            import jwt
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric import ec
        except ModuleNotFoundError:
            raise ImportError(_NEEDS) from None
        private: Any = (
            ec.generate_private_key(ec.SECP256R1())
            if key is None
            else serialization.load_pem_private_key(key.encode(), None)
        )
        pem: bytes = private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        algorithm: Any = jwt.get_algorithm_by_name("ES256")
        self.key = pem.decode("ascii")
        self._private = private
        self._public: dict[str, Any] = algorithm.to_jwk(private.public_key(), as_dict=True)
        self._nonces = nonces

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
            claims["ath"] = s256(token)
        nonce = self._nonces.get(origin_of(url))
        if nonce is not None:
            claims["nonce"] = nonce
        headers = {"typ": "dpop+jwt", "jwk": self._public}
        return jwt.encode(claims, self._private, "ES256", headers=headers)


def origin_of(url: str) -> str:
    """Return the origin of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
