"""An identity provider in a thread: its keys, its metadata, its tokens, and what it is asked."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qs

import anyio
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from mcpkit.auth import Verifier
from tests.auth.browser import listening

RESOURCE: Final = "https://notes.example.com/mcp"  # the server that tokens are for


def present(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out fields that are None."""
    return {name: value for name, value in fields.items() if value is not None}


class Key:
    def __init__(self, kid: str, algorithm: str = "ES256") -> None:
        self.kid = kid
        self.algorithm = algorithm
        self.private = _private(algorithm, kid)
        kind = jwt.get_algorithm_by_name(algorithm)
        public: Any = kind.to_jwk(self.private.public_key(), as_dict=True)
        self.public: dict[str, Any] = {**public, "kid": kid, "alg": algorithm, "use": "sig"}


@cache
def _private(algorithm: str, kid: str) -> Any:
    del kid
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048)


class Reply(NamedTuple):
    status: int
    document: Any = None
    location: str = ""


class Issuer:
    def __init__(self, url: str) -> None:
        self.url = url
        self.key = Key("one")
        self.keys: list[dict[str, Any]] = [self.key.public]
        self.asked: list[tuple[str, dict[str, str]]] = []
        """The paths that were asked for, and what was sent along."""
        self.credentials: list[str] = []
        self.bearers: list[str] = []
        self.answers: dict[str, Any] = {}  # what introspection says of each token
        self.away = False
        self.delay = 0.0

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/keys"

    def times(self, path: str) -> int:
        """How often a path was asked for."""
        return sum(1 for each, _ in self.asked if each == path)

    def claims(self, **more: Any) -> dict[str, Any]:
        """The claims of a token that is fine, but for those that are given; None leaves one out."""
        now = int(time.time())
        usual = {
            "iss": self.url,
            "aud": RESOURCE,
            "sub": "ann",
            "client_id": "editor",
            "scope": "notes:read notes:write",
            "iat": now,
            "exp": now + 600,
        }
        return present({**usual, **more})

    def token(self, key: Key | None = None, headers: Any = None, **claims: Any) -> str:
        key = key or self.key
        more = {"kid": key.kid, **(headers or {})}
        return jwt.encode(self.claims(**claims), key.private, key.algorithm, headers=more)

    def answer(self, path: str, form: dict[str, str]) -> Any:
        if path == "/keys":
            return {"keys": self.keys}
        if path == "/introspect":
            return self.answers.get(form["token"], {"active": False})
        if path == "/.well-known/openid-configuration":
            return {"issuer": self.url, "jwks_uri": self.jwks_url}
        return None


async def verified_at_once(verifier: Verifier, token: str, times: int) -> None:
    """Verify a token that is valid, several times at once."""

    async def verify() -> None:
        assert await verifier.verify(token, RESOURCE) is not None

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(times):
                group.start_soon(verify)


Kind = TypeVar("Kind", bound=Issuer)


@contextmanager
def issuing(make: Callable[[str], Kind]) -> Iterator[Kind]:

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.reply({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            given = self.headers.get("authorization", "")
            if given.startswith("Basic "):
                issuer.credentials.append(b64decode(given[6:]).decode())
            self.reply({name: values[0] for name, values in parse_qs(body).items()})

        def reply(self, form: dict[str, str]) -> None:
            given = self.headers.get("authorization", "")
            if given.startswith("Bearer "):
                issuer.bearers.append(given[7:])
            issuer.asked.append((self.path, form))
            time.sleep(issuer.delay)
            found = Reply(503) if issuer.away else issuer.answer(self.path, form)
            if not isinstance(found, Reply):
                found = Reply(404 if found is None else 200, found)
            body = json.dumps(found.document).encode()
            self.send_response(found.status)
            if found.location:
                self.send_header("Location", found.location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with listening(Handler) as url:
        issuer = make(url)
        yield issuer
