"""An app with an authorization server of its own on a loopback port, and a client of it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any, ClassVar, Final
from urllib.parse import urlencode
from urllib.request import Request

import pytest

from mcpkit import Context, MCPKit
from mcpkit._utils.fetch import basic_credentials, s256
from mcpkit.auth import (
    AuthorizationServer,
    Login,
    LoginAttempt,
    LoginRefused,
    MemoryAuthStore,
    ProviderUnavailable,
    RegisteredClient,
    SqliteAuthStore,
    User,
    hash_key,
    hash_password,
)
from mcpkit.auth import Page as LoginPage
from mcpkit.auth.server import users
from tests.auth.browser import Browser, Page, fields_of, sent
from tests.auth.issuer import present
from tests.messages import announced, called
from tests.transports.http.wire import headers_of
from tests.uvicorns import listen, running

BACK: Final = "http://127.0.0.1:9/back"
"""Where clients of these tests want their answers; nothing listens there."""

MACHINE_SECRET: Final = "a-secret-of-the-machine"
SECRET: Final = "a secret of these tests, long enough"


def cheap_hash(password: str) -> str:
    """The hash of a password, which takes as long as tests have."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(users, "_COST", 1024)
        return hash_password(password)


class Clock:
    """The time, which tests move on."""

    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


class NameLogin(Login):
    """A login with a name alone, any but "mallory"."""

    now: ClassVar[dict[str, User | None]] = {}
    """Users who have changed or were removed."""

    def page(self, visit: LoginAttempt, problem: str = "") -> LoginPage:
        return LoginPage(
            f'<form method="post" action="{escape(visit.action)}">{problem}'
            f'<input type="hidden" name="state" value="{escape(visit.state)}">'
            '<input name="name"><button>Log in</button></form>'
        )

    async def begin(self, visit: LoginAttempt) -> LoginPage:
        assert not visit.fields
        visit.memory["began"] = True
        return self.page(visit)

    async def answer(self, visit: LoginAttempt) -> LoginPage | User:
        assert visit.memory == {"began": True}
        name = visit.fields.get("name", "")
        if name == "mallory":
            raise LoginRefused("This user may not log in")
        if not visit.posted or not name:
            return self.page(visit, "Write a name")
        scopes = frozenset({"notes:read"}) if name == "reader" else None
        return User(name, name.title(), {"tenant": f"of {name}"}, scopes)

    async def still(self, user: User) -> User | None:
        return self.now.get(user.id, user)


@dataclass
class Asked:
    """One walk of a client: what it has sent a browser with, and got back."""

    answer: Mapping[str, str]
    verifier: str
    client_id: str
    redirect_uri: str


@dataclass
class Site:
    """A server that is running, as its clients see it."""

    origin: str
    clock: Clock
    server: AuthorizationServer
    client_id: str = ""
    browser: Browser = field(default_factory=lambda: Browser({"name": "ada"}, "allow"))
    endpoint: str = "/mcp"

    @property
    def url(self) -> str:
        return f"{self.origin}{self.endpoint}"

    def send(self, path: str, body: Any = None, headers: Any = None, method: Any = None) -> Page:
        return sent(Request(self.origin + path, body, headers or {}, method=method))

    def form(self, path: str, headers: Mapping[str, str] | None = None, **fields: str) -> Page:
        return self.send(path, urlencode(fields).encode(), headers)

    def register(self, **metadata: Any) -> dict[str, Any]:
        wish = {"redirect_uris": [BACK], "token_endpoint_auth_method": "none", **metadata}
        page = self.send("/register", json.dumps(wish).encode())
        assert page.status == 201, page.text
        found: dict[str, Any] = page.json
        return found

    def call(self, token: str, tool: str = "whoami") -> Page:
        message = announced(1, "tools/call", **called(tool, {}))
        headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **headers_of(message),
        }
        # Starlette's Mount answers with a slash behind it.
        return self.send(self.endpoint or "/", json.dumps(message).encode(), headers)

    def said(self, token: str, tool: str = "whoami") -> str:
        page = self.call(token, tool)
        assert page.status == 200, page.text
        return str(page.json["result"]["content"][0]["text"])

    def parameters(self, **changed: str | None) -> tuple[dict[str, str], str]:
        verifier = secrets.token_urlsafe(40)
        given = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": BACK,
            "state": "of-the-client",
            "scope": "notes:read",
            "code_challenge": s256(verifier),
            "code_challenge_method": "S256",
            "resource": self.url,
            **changed,
        }
        return present(given), verifier

    def authorize_url(self, **changed: str | None) -> str:
        return f"{self.origin}/authorize?{urlencode(self.parameters(**changed)[0])}"

    def log_in(self, browser: Browser | None = None, **changed: str | None) -> Asked:
        given, verifier = self.parameters(**changed)
        url = f"{self.origin}/authorize?{urlencode(given)}"
        back = (browser or self.browser).walk(url, given["redirect_uri"])
        return Asked(fields_of(back), verifier, given["client_id"], given["redirect_uri"])

    def redeem(self, asked: Asked, headers: Any = None, **changed: str | None) -> Page:
        given = {
            "grant_type": "authorization_code",
            "code": asked.answer["code"],
            "client_id": asked.client_id,
            "redirect_uri": asked.redirect_uri,
            "code_verifier": asked.verifier,
            "resource": self.url,
            **changed,
        }
        return self.form("/token", headers, **present(given))

    def tokens(self, browser: Browser | None = None, **changed: str | None) -> dict[str, Any]:
        page = self.redeem(self.log_in(browser, **changed))
        assert page.status == 200, page.text
        found: dict[str, Any] = page.json
        return found

    def refresh(self, token: str, **changed: str) -> Page:
        given = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id}
        return self.form("/token", None, **{**given, **changed})


def basic(id: str, secret: str) -> dict[str, str]:
    return {"Authorization": basic_credentials(id, secret)}


def make_app(server: AuthorizationServer) -> MCPKit[Any]:
    app: MCPKit = MCPKit("notes", title="Notes", auth=server)

    @app.tool
    async def whoami(ctx: Context) -> str:
        """Say who asks."""
        principal = ctx.principal
        assert principal is not None
        scopes = " ".join(sorted(principal.scopes))
        return f"{principal.claims['sub']} {principal.client_id == ''} [{scopes}]"

    @app.tool
    async def upstream(ctx: Context) -> str:
        """Ask for the token of the provider, as a tool that uses its API does."""
        assert ctx.principal is not None
        assert ctx.principal.upstream is not None
        try:
            return str(await ctx.principal.upstream.token())
        except (LoginRefused, ProviderUnavailable) as error:
            return f"{type(error).__name__}: {error}"

    @app.tool(scopes=["notes:read"])
    async def read_notes(ctx: Context) -> str:
        """Read."""
        return "notes"

    @app.tool(scopes=["notes:write"])
    async def write_notes(ctx: Context) -> str:
        """Write."""
        return "written"

    return app


@contextmanager
def serving(store: Any = None, clock: Clock | None = None, **options: Any) -> Iterator[Site]:
    """Run a server, with a client that has registered."""
    clock = clock or Clock()
    listener = options.pop("listener", None) or listen()
    server = AuthorizationServer(
        options.pop("login", None) or NameLogin(),
        MemoryAuthStore(clock) if store is None else store,
        secret=SECRET,
        clock=clock,
        clients=[
            RegisteredClient(
                "machine", secret_hash=hash_key(MACHINE_SECRET), machine=True, name="A machine"
            ),
            RegisteredClient("given", (BACK,), name="A client that the author knows"),
        ],
        scopes={"notes:read": "Read your notes", "notes:write": "Change your notes"},
        cache_time=0,
        **options,
    )
    origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
    app = make_app(server)
    with running(app.asgi(public_url=f"{origin}/mcp"), listener):
        site = Site(origin, clock, server)
        site.client_id = site.register(client_name="An editor")["client_id"]
        yield site


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A server with each of the stores."""
    clock = Clock()
    path = tmp_path_factory.mktemp("auth") / "auth.db"
    store = SqliteAuthStore(path, clock=clock) if request.param == "sqlite" else None
    with serving(store, clock) as found:
        yield found
