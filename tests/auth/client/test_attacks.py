"""Attacks on a client fail, and the user notices little of them."""

from __future__ import annotations

import logging
import subprocess
import threading
import webbrowser
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import anyio
import httpx2
import pytest

from mcpkit.client.auth import AuthorizationFailed, ClientCredentials, MemoryTokenStore, OAuth
from mcpkit.client.auth import base as base_module
from mcpkit.client.auth.base import check_named
from mcpkit.client.auth.browser import open_browser
from mcpkit.errors import ConnectionClosed
from tests.auth.client.attacks import ATTACKS, Attack
from tests.auth.client.world import READ, Host, Routed, User, World, call
from tests.auth.issuer import Reply
from tests.kit import eventually


# The rest of a body that is not read to its end is httpx2's to close; trio tells if it does not.
@pytest.mark.filterwarnings("ignore:Async generator 'httpcore2")
@pytest.mark.parametrize("attack", ATTACKS, ids=str)
async def test_an_attack_fails(
    world: World, elsewhere: World, user: User, attack: Attack, caplog: Any, monkeypatch: Any
) -> None:
    """AUTH-6, AUTH-8, AUTH-9, AUTH-16, AUTH-17, SEC-13, SEC-16…19."""
    caplog.set_level("DEBUG")
    if attack.name == "the metadata do not come":
        monkeypatch.setattr(base_module, "TIMEOUT", 0.05)
    attack.prepare(world, elsewhere)
    store = MemoryTokenStore()
    auth = OAuth(show=user.show, store=store)
    with pytest.raises(ConnectionClosed, match=attack.says) as raised:
        await call(world.url, auth)

    assert (len(user.shown), len(world.at("/token"))) == (attack.logins, attack.asks)
    assert elsewhere.seen == [], "an attacker is asked"
    error = str(raised.value)
    assert error.isprintable()
    assert len(error) < 400
    said = error + caplog.text + repr(auth) + repr(store)
    secrets = [each.form.get("code_verifier", "") for each in world.at("/token")]
    secrets += [*world.good, *(f"'{each}'" for each in world.codes)]
    assert [each for each in secrets if len(each) > 1 and each in said] == []
    assert attack.asks > 0 or await store.get(world.url) is None
    assert world.faults == []


PUBLIC, LOCAL = "https://mcp.example.com/mcp", "http://127.0.0.1:8000/mcp"
INSIDE = "https://10.0.0.7/mcp"
NOT_FOR_REMOTE_SERVERS = (
    *("http://127.0.0.1:6379/", "https://127.0.0.1/", "http://localhost:8080/admin"),
    *("http://anything.localhost/", "http://[::1]/", "https://[::1]/"),
    *("https://[::ffff:127.0.0.1]/", "https://127.1/", "https://2130706433/"),
    *("https://0x7f000001/", "https://0/", "https://10.0.0.1/", "https://192.168.1.1/"),
    *("https://169.254.169.254/latest/meta-data/", "https://[fd00::1]/", "https://[fe80::1]/"),
    "http://login.example.com/token",
)


@pytest.mark.parametrize(
    ("server", "url", "is_allowed"),
    [
        (PUBLIC, "https://login.example.com/token", True),
        (PUBLIC, "https://93.184.215.14/token", True),
        *((PUBLIC, each, False) for each in NOT_FOR_REMOTE_SERVERS),
        (INSIDE, "https://10.0.0.8/token", True),
        (INSIDE, "http://localhost/token", False),
        (LOCAL, "http://127.0.0.1:9000/token", True),
        (LOCAL, "http://localhost:9000/token", True),
        (LOCAL, "https://10.0.0.8/token", True),
        (LOCAL, "https://login.example.com/token", True),
        (LOCAL, "http://login.example.com/token", False),
        ("", "http://127.0.0.1:9000/token", True),
        ("", "http://login.example.com/token", False),
    ],
)
def test_addresses_that_a_server_may_name(server: str, url: str, is_allowed: bool) -> None:
    """SEC-16, and SSRF: no remote server reaches this machine, or its network, through a client.

    A server on this machine can have its issuer anywhere; so can one in a private network, but
    here. An address that was configured is trusted.
    """
    refused = pytest.raises(AuthorizationFailed, match="the address")
    with nullcontext() if is_allowed else refused:
        check_named(url, "the address", server)


@pytest.mark.parametrize(
    "spot",
    ["challenge", "issuer", "authorization_endpoint", "token_endpoint", "registration_endpoint"],
)
async def test_no_server_elsewhere_reaches_this_machine(
    host: Host, elsewhere: World, spot: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with host.world("https://mcp.example.com") as world:
        user, store, here = User(), MemoryTokenStore(), f"http://127.0.0.1:{host.port}"

        make_client = httpx2.AsyncClient

        def routed(**given: Any) -> httpx2.AsyncClient:
            return make_client(transport=Routed(host.port))

        async def show(url: str) -> None:
            await user.show(url.replace(world.origin, here))

        monkeypatch.setattr(httpx2, "AsyncClient", routed)
        auth = OAuth(show=show, store=store)
        async with routed() as http:
            assert await call(world.url, auth, http_client=http) == READ
            await store.set(world.url, None)
            if spot == "challenge":
                world.challenge = f'Bearer resource_metadata="{elsewhere.origin}/metadata"'
            elif spot == "issuer":
                world.resource["authorization_servers"] = [elsewhere.origin]
            else:
                world.metadata[spot] = f"{elsewhere.origin}/x"
            with pytest.raises(AuthorizationFailed, match="a remote server names"):
                await call(world.url, OAuth(show=show, store=store), http_client=http)
    assert elsewhere.seen == []


async def test_a_token_goes_in_one_header_to_one_server(world: World, user: User) -> None:
    """AUTH-9, AUTH-10: never in an address, never to the issuer, never without being asked for."""
    await call(f"{world.url}?mine=1", OAuth(show=user.show))
    for each in world.seen:
        assert "token-1" not in str(each.query)
        assert ("token-1" in str(each.headers)) == (each.path == "/mcp" and each.token != "")
    assert world.at("/mcp")[0].token == ""


@pytest.mark.parametrize("url", ["http://mcp.example.com/mcp", "http://10.0.0.1/mcp"])
async def test_no_token_travels_in_the_open(url: str) -> None:
    """SEC-16: the network could read it."""

    def answer(request: httpx2.Request) -> httpx2.Response:
        assert "authorization" not in request.headers
        return httpx2.Response(401)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as http:
        for auth in (OAuth(store=MemoryTokenStore()), ClientCredentials("id", "secret"), "a-token"):
            with pytest.raises(ValueError, match="use https"):
                await call(url, auth, http_client=http)


@pytest.mark.parametrize("works", [True, False])
async def test_a_browser_is_opened_without_a_shell(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], works: bool
) -> None:
    """SEC-19: the address is given to the browser as it is, and printed if there is none."""
    opened = Mock(side_effect=None if works else webbrowser.Error("there is none"))
    monkeypatch.setattr(webbrowser, "open", opened)
    monkeypatch.setattr(subprocess, "Popen", None)
    url = "https://login.example.com/authorize?a=$(id)&b=;id"
    open_browser(url)
    eventually(lambda: opened.called)
    opened.assert_called_once_with(url)
    assert url in capsys.readouterr().err


def test_nothing_but_web_addresses_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-19."""
    monkeypatch.setattr(webbrowser, "open", None)
    for url in ("file:///bin/sh", "javascript:alert(1)", "zoom://x", "--option", "", "/bin/sh"):
        with pytest.raises(AuthorizationFailed, match="not a web address"):
            open_browser(url)


async def test_a_login_does_not_wait_until_the_browser_is_closed(
    world: World, user: User, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some, those of terminals among them, return only when they are closed."""
    closed = threading.Event()

    def stay(url: str) -> bool:
        anyio.run(user.show, url)
        closed.wait(20)
        return True

    monkeypatch.setattr(webbrowser, "open", stay)
    try:
        assert await call(world.url, OAuth()) == READ
    finally:
        closed.set()
    [url] = user.shown
    assert url in capsys.readouterr().err


async def test_a_whole_login_says_nothing_secret(
    world: World, user: User, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """SEC-13, AUTH-16: neither log nor repr has tokens, codes, verifiers or secrets in it."""
    for name in ("", "httpx2", "httpcore2", "httpcore", "httpx"):
        caplog.set_level(logging.DEBUG, name)
    store = MemoryTokenStore()
    world.clients.add("an id")
    auth = OAuth(show=user.show, store=store, client_id="an id", client_secret="very-secret")
    for _ in range(2):
        await call(world.url, auth)
        world.end_tokens()
    shown = (auth, store, await store.get(world.url), auth._issuers[world.origin])
    said = caplog.text + "".join((*map(repr, shown), *map(str, shown), *capsys.readouterr()))
    secrets = ["very-secret", *(f"{name}-{id}" for name in ("token", "refresh") for id in (1, 2))]
    secrets += [each.form["code_verifier"] for each in world.at("/token")[:1]]
    assert [each for each in secrets if each in said] == []
    assert "127.0.0.1" in caplog.text


@pytest.mark.parametrize("status", [400, 401, 500])
async def test_an_error_repeats_nothing_secret(world: World, status: int) -> None:
    """SEC-13: some write into their errors what they were sent."""
    world.routes["/token"] = lambda seen: Reply(
        status, dict.fromkeys(("error", "error_description"), f"no {seen.headers} {seen.form}")
    )
    world.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    with pytest.raises(AuthorizationFailed, match="gives no token") as raised:
        await call(world.url, ClientCredentials("id", "very-secret"))
    assert "very-secret" not in str(raised.value)
