"""Other people's clients, and our own, log in: at an authorization server of others and at our own.

401, metadata, registration, login, token, a call; a scope that is missing, 403, a better token, the
call again; the end of the token, a refresh, and a new key meanwhile.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl
from urllib.request import urlopen

import jwt
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from mcpkit import Context, MCPKit
from mcpkit.auth import JWT, AuthorizationServer, ResourceServer, Users, hash_password
from mcpkit.auth import jwt as jwt_module
from mcpkit.auth.server.keys import EXTRA_LIFETIME
from tests.auth.browser import Browser
from tests.peers.installed import INSTALLED, NODE, ROOT, copy_scripts, node, require
from tests.transports.processes import started
from tests.uvicorns import listen, running
from tests.warm import run

HERE = Path(__file__).parent
READ, WRITE = "notes:read", "notes:write"

CLIENTS: Final = {
    "python_1": [str(INSTALLED / "python-1" / "bin" / "python"), str(HERE / "walk_python.py")],
    "python_2": [str(INSTALLED / "python-2" / "bin" / "python"), str(HERE / "walk_python.py")],
    "mcpkit": [sys.executable, str(HERE / "walk_mcpkit.py")],
    "typescript_1": node(NODE / "walk_typescript_1.mjs"),
    "typescript_2": node(NODE / "walk_typescript_2.mjs"),
}
LEGACY: Final = ("python_1", "typescript_1")
"""Those of 2025-11-25; the others are of 2026-07-28."""

LIFETIME: Final = 4
"""Seconds of a token: enough for some calls on a busy machine, and not to be waited for long."""

LEEWAY: Final = EXTRA_LIFETIME
"""Seconds for which the server takes it afterwards: clients that can know by themselves do."""

PLACES: Final = ("certified", "our own")
"""Where they log in."""

PASSWORD: Final = "the password of Ada"

pytestmark = [
    pytest.mark.peers,
    pytest.mark.parametrize("client", CLIENTS),
    pytest.mark.parametrize("place", PLACES),
]


class Seen:
    """What has come to the server, and what it has answered.

    Args:
        application: The server.
    """

    def __init__(self, application: Any) -> None:
        self._application = application
        self.all: list[dict[str, Any]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        headers = {name.decode(): value.decode() for name, value in scope.get("headers", ())}
        seen: dict[str, Any] = {
            "path": scope.get("path"),
            "form": {},
            "session": headers.get("mcp-session-id"),
            "token": headers.get("authorization", "").removeprefix("Bearer "),
        }

        async def note(message: Any) -> None:
            if message["type"] == "http.response.start":
                answered = {name.decode(): value.decode() for name, value in message["headers"]}
                seen["status"] = message["status"]
                seen["challenge"] = answered.get("www-authenticate", "")
            await send(message)

        async def read() -> Any:
            message = await receive()
            if scope["path"] in ("/token", "/authorize/consent"):
                seen["form"].update(parse_qsl(message.get("body", b"").decode()))
            return message

        self.all.append(seen)
        await self._application(scope, read, note)


def make_app(auth: Any) -> MCPKit[None]:
    app: MCPKit[None] = MCPKit("walk", auth=auth)

    @app.tool
    async def who(ctx: Context) -> str:
        assert ctx.principal is not None
        return ctx.principal.id

    @app.tool(scopes=[WRITE])
    async def write(ctx: Context) -> str:
        assert ctx.principal is not None
        return " ".join(sorted(ctx.principal.scopes & {READ, WRITE}))

    return app


@contextmanager
def at_others() -> Iterator[str]:
    """The authorization server of others."""
    with started([*node(NODE / "oidc_provider.mjs"), str(LIFETIME), READ, WRITE]) as process:
        issuer = process.line()
        assert issuer is not None, process.stderr
        yield issuer.decode().strip()


class Walked:
    """A walk, and its traces.

    Args:
        report: What the client says.
        seen: What the server says.
        issuer: Where its user has logged in.
    """

    def __init__(self, report: dict[str, Any], seen: list[dict[str, Any]], issuer: str) -> None:
        self.report = report
        self.issuer = issuer
        self.calls = [each for each in seen if each["path"] == "/mcp"]
        self.others = [each for each in seen if each["path"] != "/mcp"]

    def keys_in(self, session: str | None) -> set[str]:
        """The keys that the tokens of a session were signed with."""
        return {
            jwt.get_unverified_header(each["token"])["kid"]
            for each in self.calls
            if each["session"] == session and each["status"] == 200
        }


def _environment(client: str) -> dict[str, str]:
    env = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    return {**env, "PYTHONPATH": str(ROOT)} if client == "mcpkit" else env


def own(users: Users) -> AuthorizationServer:
    """An authorization server of the app's own, with keys that last no longer than a token."""
    return AuthorizationServer(users, token_lifetime=LIFETIME, key_lifetime=LIFETIME)


@contextmanager
def served_at(place: str, certified: str, users: Users) -> Iterator[tuple[Seen, str, str]]:
    """What comes to a new server, its origin, and who issues its tokens."""
    with listen() as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        issuer = certified if place == "certified" else origin
        verifier = JWT(issuer=issuer, leeway=LEEWAY) if place == "certified" else own(users)
        app = make_app(ResourceServer(verifier, required_scopes=[READ]))
        seen = Seen(app.asgi(public_url=f"{origin}/mcp"))
        with running(seen, listener, timeout_graceful_shutdown=1):
            yield seen, origin, issuer


def walk_all(
    client: str, walks: dict[str, Future[Walked]], certified: str, browser: str, users: Users
) -> None:
    """Have a client walk at every place, all at a time: most of it is waiting."""
    with ExitStack() as stack:
        servers = [stack.enter_context(served_at(place, certified, users)) for place in walks]
        pairs = [(f"{origin}/mcp", f"{issuer}/rotate") for _, origin, issuer in servers]
        done = run(
            [*CLIENTS[client], client, browser, str(LIFETIME + LEEWAY), *chain(*pairs)],
            cwd=ROOT,
            env=_environment(client),
            capture_output=True,
            text=True,
            timeout=50,
        )
    if done.returncode != 0:
        raise ChildProcessError(done.stderr)
    for walk, report, (seen, _, issuer) in zip(
        walks.values(), json.loads(done.stdout), servers, strict=True
    ):
        if "failed" in report:
            walk.set_exception(ChildProcessError(report["failed"]))
        else:
            walk.set_result(Walked(report, seen.all, issuer))


@pytest.fixture(scope="module")
def certified() -> Iterator[str]:
    require(INSTALLED / "python-1", INSTALLED / "python-2", NODE)
    copy_scripts()
    with at_others() as found:
        yield found


@contextmanager
def browsing(answers: dict[str, str]) -> Iterator[str]:
    """Run a browser for clients, which ask ``URL?who=…&url=…&end=…`` where an address leads.

    Each `who` has cookies of its own.
    """
    browsers: dict[str, Browser] = {}

    def walk(request: Request) -> PlainTextResponse:
        fields = request.query_params
        browser = browsers.setdefault(fields["who"], Browser(answers, "allow"))
        try:
            return PlainTextResponse(browser.walk(fields["url"], fields["end"]))
        except Exception as error:
            return PlainTextResponse(repr(error), 500)

    with listen() as listener, running(Starlette(routes=[Route("/", walk)]), listener):
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"


@pytest.fixture(scope="module")
def walks(
    request: pytest.FixtureRequest, certified: str
) -> Iterator[dict[str, dict[str, Future[Walked]]]]:
    """The walks of all clients that tests ask for, beside each other: most of it is waiting."""
    walks: dict[str, dict[str, Future[Walked]]] = defaultdict(dict)
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.path == request.path:
            params: dict[str, Any] = item.callspec.params
            walks[params["client"]].setdefault(params["place"], Future())
    answers = {"name": "ada", "password": PASSWORD}
    users = Users({"ada": hash_password(PASSWORD)})
    with pytest.MonkeyPatch.context() as patch, browsing(answers) as browser:
        patch.setattr(jwt_module, "_AGAIN_S", 0.0)  # as if the walk had taken longer
        with ThreadPoolExecutor(len(walks)) as pool:
            for client, own_walks in walks.items():
                done = pool.submit(walk_all, client, own_walks, certified, browser, users)
                done.add_done_callback(partial(_give_up, own_walks.values()))
            yield walks


def _give_up(walks: Iterable[Future[Walked]], done: Future[None]) -> None:
    """Tell those who wait for a walk that there will be none."""
    error = done.exception()
    for each in walks:
        if error is not None and not each.done():
            each.set_exception(error)


@pytest.fixture
def walk(client: str, place: str, walks: dict[str, dict[str, Future[Walked]]]) -> Walked:
    return walks[client][place].result()


@pytest.fixture
def served(client: str, place: str, walk: Walked) -> list[str]:
    """What the authorization server has done for a client."""
    if place == "certified":
        with urlopen(f"{walk.issuer}/seen", timeout=20) as answer:
            return [what for name, what in json.load(answer) if name == client]
    found: list[str] = []
    for each in walk.others:
        if (each["path"], each["status"]) == ("/register", 201):
            found.append("registered")
        elif each["form"].get("answer") == "allow":
            found.append("authorized")
        elif (each["path"], each["status"]) == ("/token", 200):
            found.append(each["form"]["grant_type"])
    return found


def test_it_begins_with_a_challenge_that_leads_to_the_metadata(walk: Walked) -> None:
    """AUTH-1, AUTH-2, AUTH-3, AUTH-5."""
    first, second = walk.calls[:2]
    assert (first["status"], first["token"]) == (401, "")
    assert f'scope="{READ}"' in first["challenge"]
    assert "error=" not in first["challenge"]
    assert ("/.well-known/oauth-protected-resource/mcp", 200) in {
        (each["path"], each.get("status")) for each in walk.others
    }
    assert (second["status"], second["token"] != "") == (200, True)


def test_the_server_knows_who_has_logged_in(client: str, walk: Walked) -> None:
    """AUTH-8, AUTH-17: the token is for this server, and about a user of that issuer."""
    assert walk.report["who"] == f"{walk.issuer}|ada"
    if client != "typescript_2":  # which does not tell
        assert walk.report["revision"] == ("2025-11-25" if client in LEGACY else "2026-07-28")


def test_a_scope_that_is_missing_is_asked_for(client: str, walk: Walked) -> None:
    """AUTH-6: one challenge is enough for a token that does, and that lists more tools."""
    [refused, *_] = [each for each in walk.calls if each["status"] == 403]
    assert 'error="insufficient_scope"' in refused["challenge"]
    assert f'scope="{READ} {WRITE}"' in refused["challenge"]
    before, after = walk.report["asked"][:2]
    assert {READ} <= set(before.split()) <= {READ, "offline_access"}
    assert {READ, WRITE} <= set(after.split())
    assert walk.report["written"] == f"{READ} {WRITE}"
    assert walk.report["listed"] == ["who"]
    assert walk.report["listed_then"] == ["who", "write"]
    alone = walk.report.get("alone")
    if client == "typescript_1":  # which refreshes the token, without more scopes
        assert "403 after trying upscoping" in alone["raised"]
    else:
        assert alone is None


def test_a_user_logs_in_once_and_the_token_is_refreshed(walk: Walked, served: list[str]) -> None:
    """AUTH-1."""
    assert served[:3] == ["registered", "authorized", "authorization_code"]
    assert walk.report["refreshed"]
    assert walk.report["who_then"] == walk.report["who"]
    assert "refresh_token" in served


def test_a_session_lives_on_when_the_keys_rotate(client: str, walk: Walked) -> None:
    """AUTH-16, AUTH-17."""
    session = walk.calls[-1]["session"]
    assert (session is None) is (client not in LEGACY)
    assert len(walk.keys_in(session)) >= 2
