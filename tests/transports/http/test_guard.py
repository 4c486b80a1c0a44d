"""Which requests are answered at all: ``Host`` and ``Origin`` (SEC-1 … SEC-3, DESIGN §6)."""

from __future__ import annotations

import inspect
import re
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from mcpkit import MCPKit
from mcpkit.auth import JWT
from mcpkit.auth.server.login import User
from mcpkit.auth.server.server import AuthorizationServer
from mcpkit.auth.server.store import MemoryAuthStore
from mcpkit.http import HttpRequest
from mcpkit.transports.http import headers
from mcpkit.transports.http import security as access
from mcpkit.transports.http.http_error import HttpError
from mcpkit.transports.http.options import HttpSettings
from mcpkit.transports.http.security import Guard, principal_of
from mcpkit.transports.http.server import run
from mcpkit.transports.http.uvicorn import MAX_HEAD
from tests.transports.http.wire import Headers, Site
from tests.web import in_process

LOOPBACK_HOSTS = [
    *("localhost", "localhost:8000", "LOCALHOST:8000", "LocalHost", "localhost:"),
    *("127.0.0.1", "127.0.0.1:1", "127.255.0.3:65535", "app.localhost:3000"),
    *("[::1]", "[::1]:8000", "[::ffff:127.0.0.1]:80"),
]
FOREIGN_HOSTS = [
    *("example.com", "localhost.evil.com", "localhost.evil.com:8000", "localhost."),
    *("evil-localhost", "evillocalhost:8000", "127.0.0.1.nip.io", "127.0.0.1.evil.com:80"),
    *("192.168.1.2", "10.0.0.1:8000", "0.0.0.0:8000", "[::]", "[2001:db8::1]:8000"),
    *("2130706433", "0x7f.1", "127.1"),
]
MALFORMED_HOSTS = [
    *("", " ", "::1", "[::1", "::1]", "[::1]x", "[::1]:8000:1", "[::1%25lo]"),
    *("user@localhost", "@localhost", "localhost@evil.com", "evil.com@localhost"),
    *("localhost:port", "localhost:8000:1", "localhost:123456"),
    *("localhost/", "localhost/evil.com", "evil.com/.localhost", "localhost?x", "localhost#x"),
    *("evil.com\\.localhost", "evil.com, localhost", "evil.com, app.localhost"),
    *("localhost, evil.com", "evil.com app.localhost", "loc\talhost", ".localhost"),
    *("http://localhost", "l\xf6calhost"),
]
LOOPBACK_ORIGINS = [
    *("http://localhost", "https://localhost", "http://localhost:5173", "HTTP://LOCALHOST:5173"),
    *("http://127.0.0.1:6274", "https://127.0.0.1", "http://[::1]:8000", "http://app.localhost"),
]
FOREIGN_ORIGINS = [
    *("null", "", "*", "https://example.com", "http://localhost.evil.com", "http://localhost."),
    *("http://evil-localhost", "http://127.0.0.1.nip.io:8000", "http://localhost@evil.com"),
    *("http://user@localhost", "http://@localhost", "http://:secret@localhost"),
    *("http://localhost/", "http://localhost/path", "http://localhost?x", "http://localhost#x"),
    *("http://localhost:*", "http://localhost:port", "//localhost", "localhost", "localhost:8000"),
    *("http://localhost, https://evil.com", "https://evil.com, http://app.localhost"),
    *("file://", "file://localhost", "chrome-extension://localhost", "ftp://localhost"),
]


def guard(loopback: bool | None, **settings: Any) -> Guard:
    return Guard(HttpSettings(**settings), loopback)


def refusal(
    guard: Guard,
    host: str | None = None,
    origin: str | None = None,
    address: str | None = "127.0.0.1",
) -> str | None:
    sent = (None if each is None else each.encode("latin-1") for each in (host, origin))
    return guard.refusal(next(sent), next(sent), address)


# --- Host -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", LOOPBACK_HOSTS)
def test_a_loopback_server_answers_to_loopback_names_with_any_port(host: str) -> None:
    """SEC-3."""
    assert refusal(guard(True), host) is None


@pytest.mark.parametrize(
    ("host", "says"),
    [
        *((each, rf"{re.escape(repr(each))}.*allowed_hosts=\[") for each in FOREIGN_HOSTS),
        *((each, "malformed") for each in MALFORMED_HOSTS),
    ],
)
def test_a_loopback_server_refuses_any_other_name_and_says_why(host: str, says: str) -> None:
    """SEC-3: and which setting allows it, if it is a name."""
    assert re.search(says, refusal(guard(True), host) or "")


@pytest.mark.parametrize(
    ("address", "checked"),
    [
        *((each, True) for each in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1")),
        ("localhost", True),
        *((each, False) for each in ("192.168.1.2", "::", "/run/mcp.sock", None)),
    ],
)
def test_without_a_setting_the_address_of_the_connection_decides(
    address: str | None, checked: bool
) -> None:
    """SEC-3: `MCPKit.asgi` with ``loopback=None``."""
    assert (refusal(guard(None), "example.com", address=address) is not None) is checked


@pytest.mark.parametrize(
    ("setting", "host"),
    [
        ("example.com", "example.com"),
        ("example.com", "EXAMPLE.com:8000"),
        ("Example.COM", "example.com"),
        ("example.com:*", "example.com:8000"),
        ("[2001:db8::1]", "[2001:DB8::1]:8000"),
        ("2001:db8::1", "[2001:db8::1]"),
        ("*", "anything.example"),
        ("*", "user@what is this"),
    ],
)
def test_allowed_hosts_are_answered_on_any_port(setting: str, host: str) -> None:
    assert refusal(guard(True, allowed_hosts=[setting]), host) is None
    for other in ("sub.example.com", "example.com.evil.com", "notexample.com"):
        assert (refusal(guard(True, allowed_hosts=[setting]), other) is None) == (setting == "*")


# --- Origin ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", LOOPBACK_ORIGINS)
def test_pages_on_loopback_may_call_a_loopback_server_and_no_other(origin: str) -> None:
    """SEC-1, SEC-3: they are on the loopback of the machine that shows them."""
    assert refusal(guard(True), "localhost", origin) is None
    assert refusal(guard(False), "example.com", origin) is not None


@pytest.mark.parametrize("loopback", [True, False])
@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_other_origins_are_refused_by_name_with_the_setting_that_allows_them(
    origin: str, loopback: bool
) -> None:
    """SEC-1."""
    why = refusal(guard(loopback), "localhost", origin)
    assert why is not None
    assert repr(origin) in why
    [setting] = re.findall(r"allowed_origins=\['(.*)'\]", why)
    assert refusal(guard(loopback, allowed_origins=[setting]), "localhost", origin) is None


@pytest.mark.parametrize("loopback", [True, False])
@pytest.mark.parametrize("host", ["localhost", None], ids=["HTTP/1.1", "HTTP/1.0"])
def test_a_client_that_is_not_a_browser_is_answered(loopback: bool, host: str | None) -> None:
    """SEC-1: browsers send an origin, and never speak HTTP/1.0, which needs no host."""
    assert refusal(guard(loopback), host) is None


@pytest.mark.parametrize(
    ("setting", "origin"),
    [
        ("https://app.example.com", "https://app.example.com"),
        ("https://App.Example.com", "https://app.example.com"),
        ("https://app.example.com", "https://app.example.com:443"),
        ("https://app.example.com:443", "https://app.example.com"),
        ("http://app.example.com:80", "http://app.example.com"),
        ("http://10.0.0.1:8080", "http://10.0.0.1:8080"),
        ("http://app.example.com:*", "http://app.example.com:8080"),
        ("http://app.example.com:*", "http://app.example.com"),
        ("http://[2001:db8::1]:*", "http://[2001:db8::1]:99"),
        ("vscode-webview://abc", "vscode-webview://abc"),
        ("*", "https://anywhere.example"),
        ("*", "null"),
    ],
)
@pytest.mark.parametrize("loopback", [True, False])
def test_allowed_origins_may_call(setting: str, origin: str, loopback: bool) -> None:
    assert refusal(guard(loopback, allowed_origins=[setting]), "localhost", origin) is None


@pytest.mark.parametrize(
    "origin",
    [
        "http://app.example.com",
        "https://app.example.com:8443",
        "https://sub.app.example.com",
        "https://app.example.com.evil.com",
        "https://app.example.comevil",
        "https://example.com",
        "https://app.example.com@evil.com",
        "null",
    ],
)
def test_an_allowed_origin_allows_no_other(origin: str) -> None:
    """SEC-1: scheme, host and port are compared exactly."""
    allowing = guard(False, allowed_origins=["https://app.example.com"])
    assert refusal(allowing, "localhost", origin) is not None


def test_verdicts_are_remembered_in_bounded_memory() -> None:
    """SEC-17: a name, or the value of another header, may be as long as a head."""
    made = guard(True)
    for number in range(100):
        refusal(made, host=f"{number}{'x' * 600}")
        assert not headers.is_json(b"text/%d" % number)
        assert not headers.accepts(b"text/%d" % number, b"application/json")
    assert made.refusal.cache_info().currsize == access.MAX_VERDICTS
    for remembered in (headers.is_json, headers.accepts):
        assert remembered.cache_info().currsize == headers.MAX_VERDICTS
    assert max(access.MAX_VERDICTS, headers.MAX_VERDICTS) * MAX_HEAD <= 2 * 1024**2


def by_user(**names: str) -> str | None:
    """The principal of a request whose user has names, as Starlette has them."""
    user = SimpleNamespace(is_authenticated=True, **names)
    found = principal_of(HttpRequest({"type": "http", "headers": [], "user": user}))
    assert isinstance(found, str)
    return found


def test_a_user_has_the_name_that_is_theirs_alone(caplog: pytest.LogCaptureFixture) -> None:
    """SEC-6: users that share a name would share sessions, states and limits."""
    assert by_user(identity="7", username="ann") == "7"
    assert by_user(username="ann", display_name="Ann Smith") == "ann"
    with pytest.raises(HttpError, match="could not identify the caller") as caught:
        by_user(display_name="Ann Smith")
    assert caught.value.status == 500
    assert "option principal=" in caplog.text


def test_a_judgement_is_remembered_for_its_own_host_origin_and_address_only() -> None:
    asked = guard(None)
    local, other = "127.0.0.1", "10.0.0.1"
    for _ in range(2):
        assert refusal(asked, "evil.com", address=local) is not None
        assert refusal(asked, "evil.com", address=other) is None
        assert refusal(asked, "localhost", "http://localhost", local) is None
        assert refusal(asked, "localhost", "http://localhost", other) is not None


# --- settings -------------------------------------------------------------------------------------


ORIGIN, NAME = "is not an origin, which looks like", "is not a name like"


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("allowed_origins", ["app.example.com"], ORIGIN),
        ("allowed_origins", ["https://app.example.com/"], ORIGIN),
        ("allowed_origins", ["https://"], ORIGIN),
        ("allowed_origins", ["null"], ORIGIN),
        ("allowed_origins", [""], ORIGIN),
        ("allowed_origins", ["https://user@app.example.com"], ORIGIN),
        ("allowed_origins", ["https://app.example.com:port"], ORIGIN),
        ("allowed_origins", ["https://*.example.com"], ORIGIN),
        ("allowed_origins", "https://app.example.com", "must be a list"),
        ("allowed_hosts", ["https://example.com"], NAME),
        ("allowed_hosts", ["example.com:8000"], NAME),
        ("allowed_hosts", ["example.com/"], NAME),
        ("allowed_hosts", [""], NAME),
        ("allowed_hosts", ["*.example.com"], NAME),
        ("allowed_hosts", ["a b"], NAME),
        ("allowed_hosts", "app.example.com", "must be a list"),
    ],
)
def test_settings_that_name_no_origin_or_host_are_refused(
    setting: str, value: Any, says: str
) -> None:
    with pytest.raises(ValueError, match=f"^{setting}.*{says}"):
        MCPKit("guarded").asgi(**{setting: value})


def test_a_server_listens_on_loopback_by_default() -> None:
    """SEC-2."""
    assert inspect.signature(run).parameters["host"].default == "127.0.0.1"


# --- on the wire ----------------------------------------------------------------------------------

BOTH = ["http://localhost", "https://evil.com"]
FOREIGN = [{"Host": "evil.com"}, {"Origin": "null"}, {"Origin": BOTH}]


@pytest.mark.parametrize("headers", FOREIGN, ids=["Host", "null", "two origins"])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "OPTIONS", "PUT"])
def test_every_method_is_refused_with_403(site: Site, method: str, headers: Headers) -> None:
    """SEC-1, SEC-3, HTTPL-21: also if a proxy may have read one of two, and a server the other."""
    session = site.begin().headers
    answer = site.send(method, {"Accept": "text/event-stream", **session, **headers}, b"{}")
    assert answer.refusal == (403, -32600)


# --- beside the endpoint --------------------------------------------------------------------------


async def answers(app: MCPKit[Any], host: str, *paths: str, **options: Any) -> list[int]:
    """The statuses of paths of a server on a loopback address, for a page that rebinds its name."""
    everything: Any = {"health": True, "ready": True, "metrics": True, "card": True, "sse": True}
    application = app.asgi(loopback=True, **everything, **options)
    found = []
    async with in_process(application) as client:
        for path in paths:
            response = await client.get(path, headers={"host": host})
            found.append(response.status_code)
            assert response.status_code != 403 or "allowed_hosts" in response.text
    return found


def guarded_app() -> MCPKit[None]:
    app: MCPKit[None] = MCPKit("com.example/guarded", description="Guarded.")

    async def hello(request: Any) -> PlainTextResponse:
        return PlainTextResponse("hello")

    app.routes.append(Route("/hello", hello))
    return app


BESIDE = ["/health", "/ready", "/metrics", "/hello"]


async def test_every_path_checks_the_host_as_the_endpoint_does() -> None:
    """SEC-3: a page must not read by DNS rebinding what is beside the endpoint."""
    paths = [*BESIDE, "/nothing", "/mcp", "/sse"]
    assert await answers(guarded_app(), "evil.com", *paths) == [403] * 7
    assert await answers(guarded_app(), "localhost:8000", *BESIDE) == [200] * 4
    allowed = await answers(guarded_app(), "evil.com", *BESIDE, allowed_hosts=["evil.com"])
    assert allowed == [200] * 4


async def test_the_paths_of_a_login_check_it_too() -> None:
    server = AuthorizationServer(lambda visit: User("ada"), MemoryAuthStore())
    paths = ["/authorize", "/token", "/jwks.json"]
    app = MCPKit("com.example/login", description="Has a login.", auth=server)
    assert await answers(app, "evil.com", *paths) == [403] * 3
    assert 403 not in await answers(app, "localhost", *paths)


async def test_what_is_for_everyone_answers_every_host() -> None:
    """CARD-10, AUTH-14."""
    assert await answers(guarded_app(), "evil.com", "/mcp/server-card") == [200]
    app = MCPKit(
        "com.example/login",
        description="Has tokens.",
        auth=JWT(issuer="https://a.example", audience="x"),
    )
    well_known = "/.well-known/oauth-protected-resource"
    assert 403 not in await answers(app, "evil.com", f"{well_known}/mcp", f"{well_known}/other")


async def test_a_websocket_beside_the_endpoint_checks_it_as_well() -> None:
    async def echo(socket: WebSocket) -> None:
        await socket.accept()
        await socket.close(4000)

    app: MCPKit[None] = MCPKit("guarded")
    app.routes.append(WebSocketRoute("/echo", echo))
    application: Any = app.asgi(loopback=True)

    async def code(host: bytes) -> Any:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "websocket.connect"}

        async def send(event: Any) -> None:
            sent.append(event)

        scope = {"type": "websocket", "path": "/echo", "headers": [(b"host", host)]}
        await application({**scope, "scheme": "ws", "query_string": b""}, receive, send)
        return sent[-1].get("code")

    assert await code(b"localhost") == 4000
    assert await code(b"evil.com") == 1000
