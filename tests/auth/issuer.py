"""An identity provider: its keys, its metadata, its tokens, and what it is asked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import anyio
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mcpkit.auth import Verifier
from tests.uvicorns import listen, running

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
    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048)


class Reply(NamedTuple):
    status: int = 200
    body: Any = b""  # bytes, or what becomes JSON
    headers: Mapping[str, str] = {}


@dataclass
class Seen:
    verb: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        pairs = parse_qsl(self.body.decode(), keep_blank_values=True)
        assert len(dict(pairs)) == len(pairs), "a field is there twice"
        return dict(pairs)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def token(self) -> str:
        """The token or the credentials that it has, of whatever kind."""
        return self.headers.get("authorization", "").partition(" ")[2]


class Answering:
    """A web server, which remembers its requests."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []

    def at(self, path: str) -> list[Seen]:
        """The requests that a path has had."""
        return [each for each in self.seen if each.path == path]

    async def reply(self, seen: Seen) -> Reply | Response:
        raise NotImplementedError

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        query, headers = dict(request.query_params), dict(request.headers)
        body = await request.body()
        seen = Seen(request.method, request.url.path, query, headers, body)
        self.seen.append(seen)
        reply = await self.reply(seen)
        if isinstance(reply, Reply):
            kind: Any = Response if isinstance(reply.body, bytes) else JSONResponse
            reply = kind(reply.body, reply.status, reply.headers)
        await reply(scope, receive, send)


class Issuer(Answering):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.key = Key("one")
        self.keys: list[dict[str, Any]] = [self.key.public]
        self.answers: dict[str, Any] = {}  # what introspection says of each token
        self.away = False
        self.delay = 0.0

    @property
    def jwks_url(self) -> str:
        return f"{self.url}/keys"

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

    async def reply(self, seen: Seen) -> Reply:
        await anyio.sleep(self.delay)
        if self.away:
            return Reply(503)
        found = self.answer(seen)
        if not isinstance(found, Reply):
            found = Reply(404 if found is None else 200, found)
        return found

    def answer(self, seen: Seen) -> Any:
        """The answer, or the document in it; None: there is none."""
        if seen.path == "/keys":
            return {"keys": self.keys}
        if seen.path == "/introspect":
            return self.answers.get(seen.form["token"], {"active": False})
        if seen.path == "/.well-known/openid-configuration":
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
    with listen() as listener:
        issuer = make(f"http://127.0.0.1:{listener.getsockname()[1]}")
        with running(issuer, listener, lifespan="off", timeout_graceful_shutdown=1):
            yield issuer
