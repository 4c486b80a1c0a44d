"""Tokens that the issuer has not signed, or not so: what an attacker can make and find."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization

from tests.auth.issuer import RESOURCE, Issuer, Key


def part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


NOW: Final = int(time.time())
WRONG: Final[dict[str, dict[str, Any]]] = {
    "expired": {"exp": NOW - 60},
    "for ever": {"exp": None},
    "an end that is none": {"exp": "tomorrow"},
    "infinite": {"exp": float("inf")},
    "not yet valid": {"nbf": NOW + 3600},
    "issued in the future": {"iat": NOW + 3600},
    "for another server": {"aud": "https://other.example.com/mcp"},
    "for a server whose URL begins alike": {"aud": RESOURCE + "2"},
    "without an audience": {"aud": None},
    "for an empty list": {"aud": []},
    "of another issuer": {"iss": "https://other.example.com"},
    "without an issuer": {"iss": None},
    "without a subject": {"sub": None},
    "about the empty text": {"sub": ""},
    "about a number": {"sub": 7},
    "with a very long subject": {"sub": "a" * 5000},
}
"""Claims that a token must not have, beside those that are fine; the issuer has signed it."""


def wrong(issuer: Issuer, way: str) -> str:
    """A token of the issuer with claims that are wrong."""
    key = issuer.key
    head = part({"alg": key.algorithm, "kid": key.kid})
    body = f"{head}.{part(issuer.claims(**WRONG[way]))}".encode()
    kind = jwt.get_algorithm_by_name(key.algorithm)
    return f"{body.decode()}.{part(kind.sign(body, key.private))}"


def forged(issuer: Issuer) -> dict[str, str]:
    """Tokens that the issuer has not signed, but an attacker who knows its public key."""
    key, claims = issuer.key, part(issuer.claims())
    rsa = Key("rsa", "RS256")
    issuer.keys.append(rsa.public)
    pem = rsa.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    stranger = Key("stranger")
    good = issuer.token()
    head, body, signature = good.split(".")

    def hashed(secret: bytes, **header: Any) -> str:
        text = f"{part({'alg': 'HS256', **header})}.{claims}"
        return f"{text}.{part(hmac.new(secret, text.encode(), hashlib.sha256).digest())}"

    return {
        "no algorithm": f"{part({'alg': 'none', 'kid': key.kid})}.{claims}.",
        "no algorithm, in capitals": f"{part({'alg': 'nOnE', 'kid': key.kid})}.{claims}.",
        "no algorithm at all": f"{part({'kid': key.kid})}.{claims}.{signature}",
        "an algorithm that is a list": f"{part({'alg': ['ES256']})}.{claims}.{signature}",
        "the public key as a secret": hashed(pem, kid="rsa"),
        "the public key as a secret, as JSON": hashed(json.dumps(rsa.public).encode(), kid="rsa"),
        "an empty secret": hashed(b"", kid="rsa"),
        "another algorithm of the same key": issuer.token(rsa, {"alg": "PS256"}),
        "signed by a stranger": issuer.token(stranger, {"kid": key.kid}),
        "a key in the header": issuer.token(stranger, {"jwk": stranger.public}),
        "an address of keys": issuer.token(stranger, {"jku": f"{issuer.url}/evil"}),
        "another address of keys": issuer.token(stranger, {"x5u": f"{issuer.url}/evil"}),
        "a certificate": issuer.token(stranger, {"kid": key.kid, "x5c": [part(b"of evil")]}),
        "other claims": f"{head}.{part(issuer.claims(sub='bob'))}.{signature}",
        "another signature": f"{head}.{body}.{part(b'0' * 64)}",
        "without signature": f"{head}.{body}.",
        "what has to be understood": issuer.token(headers={"crit": ["exp"], "exp": 1}),
        "kid: a path": issuer.token(stranger, {"kid": "../../../../dev/null"}),
        "kid: SQL": issuer.token(stranger, {"kid": "x' UNION SELECT 'secret' --"}),
        "kid: very long": issuer.token(stranger, {"kid": "k" * 5000}),
        "one part": "abc",
        "kid: no text": f"{part({'alg': 'ES256', 'kid': ['one']})}.{claims}.{signature}",
        "no JSON": "a.b.c",
        "much of nothing": "." * 5000,
        "deep": f"{part(b'[' * 5000)}.{claims}.{signature}",
    }


FORGED: Final = tuple(forged(Issuer("https://a.example.com")))
