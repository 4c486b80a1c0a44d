"""A server and its issuer on one loopback port, which do exactly what a test says, and a user.

A `World` is honest until a test changes it: its documents, the answer to any path, what a callback
has, what is said of tokens. It remembers every request. A `User` sits before a browser.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from inspect import isawaitable
from typing import Any, Final
from urllib.parse import urlencode

import anyio.to_thread
import httpx2
import jwt
from starlette.responses import Response

from mcpkit import Client
from mcpkit._utils.fetch import s256
from mcpkit.client.auth import Credentials, OAuth, TokenStore
from tests.auth.browser import Browser, Page, fields_of
from tests.auth.issuer import Answering, Reply, Seen, present
from tests.kit import PATIENCE
from tests.uvicorns import listen, running

READ, WRITE = "notes:read", "notes:write"
RESOURCE: Final = "/.well-known/oauth-protected-resource"
SERVER: Final = "/.well-known/oauth-authorization-server"
METHODS: Final = ["none", "client_secret_basic", "client_secret_post"]
OPENID: Final = "/.well-known/openid-configuration"


Route = Callable[[Seen], "Reply | Response | Awaitable[Reply]"]


class World(Answering):
    """An MCP server of 2026-07-28 at ``/mcp``, and the issuer of its tokens."""

    def __init__(self, origin: str) -> None:
        super().__init__()
        self.origin = origin
        self.url = f"{origin}/mcp"
        self.routes: dict[str, Route] = {
            "/mcp": self.serve,
            "/authorize": self.authorize,
            "/token": self.token,
            "/register": self.register,
            f"{RESOURCE}/mcp": lambda _: Reply(200, self.resource),
            SERVER: lambda _: Reply(200, self.metadata),
        }
        self.resource: dict[str, Any] = {
            "resource": self.url,
            "authorization_servers": [origin],
            "scopes_supported": [READ, WRITE],
        }
        self.metadata: dict[str, Any] = {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": METHODS,
            "authorization_response_iss_parameter_supported": True,
        }
        self.challenge = f'Bearer resource_metadata="{origin}{RESOURCE}/mcp", scope="{READ}"'
        self.needs = {"write": WRITE}  # the scopes that tools need
        self.clients: set[str] = set()  # the ids of clients that are known
        self.codes: dict[str, dict[str, str]] = {}
        self.good: dict[str, tuple[str, ...]] = {}
        """The tokens that the server takes, with their scopes."""
        self.refreshing: dict[str, tuple[str, ...]] = {}
        """The refresh tokens that may be used once, likewise."""
        self.back: Callable[[dict[str, Any]], dict[str, Any]] = lambda fields: fields
        """Changes what a browser comes back with; None leaves a field out."""
        self.told: Callable[[dict[str, Any]], dict[str, Any]] = lambda answer: answer
        """Changes what is said of a token; None leaves a member out."""
        self.kind = "Bearer"
        self.lifetime: Any = 3600
        self.nonce = ""  # what proofs must have in them, at the server and at the issuer
        self.faults: list[str] = []  # what clients have done wrong
        self.over = threading.Event()  # set at the end of the test
        self._numbers: dict[str, int] = {}

    # --- for tests --------------------------------------------------------------------------------

    def paths(self) -> list[str]:
        """What was asked for, in order, repetitions left out."""
        return list(dict.fromkeys(each.path for each in self.seen))

    def grants(self) -> list[str]:
        """The kinds of grants that tokens were asked for with."""
        return [each.form["grant_type"] for each in self.at("/token")]

    def name(self, kind: str) -> str:
        """A name that is used once, such as ``code-1``."""
        self._numbers[kind] = self._numbers.get(kind, 0) + 1
        return f"{kind}-{self._numbers[kind]}"

    async def until(self, event: threading.Event) -> None:
        """Wait in an answer, at most until the end of the test."""
        while not (event.is_set() or self.over.is_set()):
            await asyncio.sleep(0.001)

    async def never(self, seen: Seen) -> Reply:
        await self.until(self.over)
        return Reply(500)

    def end_tokens(self) -> None:
        """The server takes no earlier token any more."""
        self.good.clear()

    @staticmethod
    def denied(fields: dict[str, str]) -> dict[str, Any]:
        """The user says no."""
        said = {"error": "access_denied", "error_description": "Not today"}
        return {**fields, **said, "code": None}

    def end_logins(self) -> None:
        """No earlier refresh token can be used either."""
        self.good.clear()
        self.refreshing.clear()

    def fault(self, what: str) -> Reply:
        self.faults.append(what)
        return Reply(400, {"error": "invalid_request", "error_description": what})

    # --- the server -------------------------------------------------------------------------------

    def refuse(self, status: int = 401, error: str = "", scope: str = "") -> Reply:
        said = self.challenge
        if scope:
            said = said.partition(", scope=")[0] + f', scope="{scope}"'
        if error:
            said += f', error="{error}"'
        return Reply(status, b"no", {"WWW-Authenticate": said})

    def serve(self, seen: Seen) -> Reply:
        if seen.verb != "POST":
            return Reply(405)
        if seen.token not in self.good:
            return self.refuse(error="invalid_token" if seen.token else "")
        if self.kind == "DPoP" and (refusal := self._check_proof(seen, seen.token)):
            return refusal
        scopes = self.good[seen.token]
        message = seen.json
        if message["method"] == "server/discover":
            result = {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "ttlMs": 0,
                "cacheScope": "private",
            }
        else:
            needed = self.needs.get(message["params"].get("name", ""))
            if needed is not None and needed not in scopes:
                return self.refuse(403, "insufficient_scope", needed)
            text = {"type": "text", "text": " ".join(scopes)}
            result = {"content": [text], "tools": [], "ttlMs": 0, "cacheScope": "private"}
        answer = {"resultType": "complete", **result}
        return Reply(200, {"jsonrpc": "2.0", "id": message["id"], "result": answer})

    # --- its issuer -------------------------------------------------------------------------------

    def register(self, seen: Seen) -> Reply:
        id = self.name("client")
        self.clients.add(id)
        return Reply(201, {**seen.json, "client_id": id})

    def authorize(self, seen: Seen) -> Reply:
        asked = seen.query
        if asked["client_id"] not in self.clients or asked["response_type"] != "code":
            return self.fault(f"unknown client {asked['client_id']}")
        code = self.name("code")
        self.codes[code] = asked
        fields = {"code": code, "state": asked["state"], "iss": self.metadata["issuer"]}
        query = urlencode(present(self.back(fields)))
        return Reply(302, b"", {"Location": f"{asked['redirect_uri']}?{query}"})

    def token(self, seen: Seen) -> Reply:
        form = seen.form
        if self.kind == "DPoP" and (refusal := self._check_proof(seen, None)):
            return refusal
        if form["grant_type"] == "authorization_code":
            code = self.codes.pop(form["code"], None)
            if code is None:
                return Reply(400, {"error": "invalid_grant"})
            if s256(form["code_verifier"]) != code["code_challenge"]:
                return self.fault("the verifier is wrong")
            for name in ("redirect_uri", "resource"):
                if form.get(name) != code.get(name):
                    return self.fault(f"{name} has changed")
            return self.give(tuple(code.get("scope", "").split()))
        if form["grant_type"] == "refresh_token":
            scopes = self.refreshing.pop(form["refresh_token"], None)
            if scopes is None:
                self.faults.append("a refresh token is used twice")
                return Reply(400, {"error": "invalid_grant"})
            return self.give(scopes)
        return self.give(tuple(form.get("scope", "").split()))

    def give(self, scopes: tuple[str, ...]) -> Reply:
        token, refresh = self.name("token"), self.name("refresh")
        answer = {"access_token": token, "token_type": self.kind, "expires_in": self.lifetime}
        answer = present(self.told({**answer, "refresh_token": refresh}))
        if isinstance(answer.get("access_token"), str):
            self.good[answer["access_token"]] = scopes
        if "refresh_token" in answer:
            self.refreshing[answer["refresh_token"]] = scopes
        return Reply(200, answer)

    def _check_proof(self, seen: Seen, token: str | None) -> Reply | None:
        """Check a proof as RFC 9449 has it (4.3); None if it is right."""
        proof = seen.headers.get("dpop", "")
        if not proof:
            return self.fault("there is no proof")
        head = jwt.get_unverified_header(proof)
        assert head["typ"] == "dpop+jwt"
        assert "d" not in head["jwk"], "the private key is in a proof"
        key = jwt.PyJWK(head["jwk"], "ES256").key
        options: Any = {"verify_iat": False, "require": ["jti", "htm", "htu", "iat"]}
        claims = jwt.decode(proof, key, ["ES256"], options=options)
        if (claims["htm"], claims["htu"]) != (seen.verb, f"{self.origin}{seen.path}"):
            return self.fault(f"a proof is of {claims['htm']} {claims['htu']}")
        if token is not None and claims.get("ath") != s256(token):
            return self.fault("a proof is of another token")
        if self.nonce and claims.get("nonce") != self.nonce:
            headers = {"DPoP-Nonce": self.nonce, "WWW-Authenticate": 'DPoP error="use_dpop_nonce"'}
            if token is None:
                return Reply(400, {"error": "use_dpop_nonce"}, headers)
            return Reply(401, b"", headers)
        return None

    async def reply(self, seen: Seen) -> Reply | Response:
        route: Any = self.routes.get(seen.path, lambda _: Reply(404))
        found = route(seen)
        answer: Reply | Response = await found if isawaitable(found) else found
        return answer


class Routed(httpx2.AsyncHTTPTransport):
    """Brings requests for any host to one port of this machine."""

    def __init__(self, port: int) -> None:
        super().__init__(verify=False)
        self._port = port

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self._port)
        return await super().handle_async_request(request)


class Host:
    """A server on a port of this machine, for one world after another."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._world: World

    @contextmanager
    def world(self, origin: str = "") -> Iterator[World]:
        self._world = World(origin or f"http://127.0.0.1:{self.port}")
        try:
            yield self._world
        finally:
            self._world.over.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._world(scope, receive, send)


@contextmanager
def hosting() -> Iterator[Host]:
    with listen() as listener:
        host = Host(listener.getsockname()[1])
        with running(host, listener, lifespan="off", timeout_graceful_shutdown=1):
            yield host


@dataclass
class User:
    """A user before a browser, who agrees to everything."""

    shown: list[str] = field(default_factory=list)
    page: Page | None = None

    async def show(self, url: str) -> None:
        """Go where one is sent, and back again."""
        self.shown.append(url)

        def walk() -> Page:
            browser = Browser({"name": "ada"}, "allow")
            return browser.open(browser.walk(url, fields_of(url)["redirect_uri"]))

        self.page = await anyio.to_thread.run_sync(walk)

    def asked(self, number: int = -1) -> dict[str, str]:
        """What an issuer was asked for by way of the browser."""
        return fields_of(self.shown[number])

    def scopes(self) -> list[set[str]]:
        """The scopes that each login has asked for."""
        return [set(self.asked(each).get("scope", "").split()) for each in range(len(self.shown))]


async def kept(store: TokenStore, world: World) -> Credentials:
    found = await store.get(world.url)
    assert found is not None
    return found


async def log_in(world: World, user: User, store: TokenStore, **changed: Any) -> Credentials:
    """Log in, change the stored credentials, and forget the requests so far."""
    await call(world.url, OAuth(show=user.show, store=store))
    found = replace(await kept(store, world), **changed)
    await store.set(world.url, found)
    user.shown.clear()
    world.seen.clear()
    return found


async def call(url: str, auth: Any, tool: str = "read", **options: Any) -> str:
    """Connect, call a tool, and leave; the text of the answer."""
    with anyio.fail_after(PATIENCE):
        async with Client(url, auth=auth, revision="2026-07-28", **options) as client:
            return (await client.call_tool(tool)).text


async def herd(client: Client, tool: str = "read") -> list[str | Exception]:
    """Call a tool many times at once; return the texts and errors."""
    found: list[str | Exception] = []

    async def one() -> None:
        try:
            found.append((await client.call_tool(tool)).text)
        except Exception as error:
            found.append(error)

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(one)
    return found
