"""Our client, and our login, at authorization servers that others have made.

Those made with Python look for the client in the form of a request, also where its secret is in the
header (`issuer_python.py`); the certified server of `test_walks.py` compares the two.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

import anyio
import pytest

from mcpkit import Context, MCPKit
from mcpkit.auth import ResourceServer, UpstreamLogin
from mcpkit.client.auth import JwtBearer, MemoryTokenStore, OAuth
from mcpkit.types import Principal
from tests.auth.browser import Browser
from tests.auth.client.world import READ, User, call
from tests.auth.server.conftest import serving
from tests.kit import PATIENCE
from tests.peers.installed import INSTALLED, NODE, require
from tests.peers.test_walks import at_others
from tests.uvicorns import listen, running

pytestmark = pytest.mark.peers

MAKERS: Final = ("python-1", "python-2", "fastmcp")
SCRIPT: Final = Path(__file__).with_name("issuer_python.py")


@contextmanager
def issuing(maker: str) -> Iterator[str]:
    """The origin of an authorization server that others have made."""
    folder = INSTALLED / maker
    require(folder)
    with listen() as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        command = [str(folder / "bin" / "python"), str(SCRIPT), origin, str(listener.fileno())]
        with subprocess.Popen(command, pass_fds=[listener.fileno()]) as process:
            try:
                yield origin
            finally:
                process.terminate()
                process.wait(PATIENCE)


@contextmanager
def serving_notes(issuer: str) -> Iterator[str]:
    """The URL of a server whose tokens are from there."""

    def verify(token: str) -> Principal | None:
        with urlopen(f"{issuer}/tokens/{token}", timeout=PATIENCE) as response:
            scopes = json.load(response)
        return None if scopes is None else Principal("ada", scopes=frozenset(scopes))

    verifier = ResourceServer(verify, authorization_servers=[issuer])
    app: MCPKit[None] = MCPKit("notes", auth=verifier)

    @app.tool(scopes=[READ])
    def who(ctx: Context) -> str:
        assert ctx.principal is not None
        return ctx.principal.id

    with listen() as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        with running(app.asgi(public_url=url), listener):
            yield url


@pytest.mark.parametrize("maker", MAKERS)
def test_users_log_in_and_their_tokens_are_refreshed(maker: str) -> None:
    """AUTH-1: registration, code and refresh token, with a secret in the header."""
    store = MemoryTokenStore()

    async def walk(url: str, auth: OAuth) -> None:
        assert await call(url, auth, "who") == "ada"
        first = await store.get(url)
        assert first is not None
        assert (first.client_method, bool(first.client_secret)) == ("client_secret_basic", True)
        await store.set(url, replace(first, expires_at=0.0))
        assert await call(url, auth, "who") == "ada"
        second = await store.get(url)
        assert second is not None
        assert second.access_token not in (None, first.access_token)
        assert second.client_id == first.client_id

    with issuing(maker) as issuer, serving_notes(issuer) as url:
        anyio.run(walk, url, OAuth(scopes=[READ], store=store, show=User().show))


def test_a_workload_logs_in_with_its_signed_identity() -> None:
    """The grant of RFC 7523, which one of these servers offers."""
    with issuing("python-2") as issuer, serving_notes(issuer) as url:
        auth: Any = JwtBearer(
            "robot", "who the robot is", client_secret="oil", scopes=[READ], issuer=issuer
        )
        assert anyio.run(call, url, auth, "who") == "ada"


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post", "none"])
def test_users_of_another_provider_log_in(method: str) -> None:
    """Discovery, PKCE, ID token and its keys, and the tokens of the provider for a handler."""
    require(NODE)
    with at_others() as issuer:
        listener = listen()
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        wish = {
            "redirect_uris": [f"{origin}/authorize/login"],
            "application_type": "native",
            "token_endpoint_auth_method": method,
            "grant_types": ["authorization_code", "refresh_token"],
        }
        request = Request(
            f"{issuer}/reg", json.dumps(wish).encode(), {"Content-Type": "application/json"}
        )
        with urlopen(request, timeout=20) as response:
            registered = json.loads(response.read())
        login = UpstreamLogin(
            issuer,
            client_id=registered["client_id"],
            client_secret=registered.get("client_secret"),
            scopes=["offline_access"],
            allow={f"{issuer.partition('//')[2]}:ada": ["notes:read"]},
        )
        with serving(login=login, listener=listener) as site:
            browser = Browser(button="allow")
            tokens = site.tokens(browser, scope="notes:read notes:write")
            assert tokens["scope"] == "notes:read"
            host = issuer.partition("//")[2]
            assert site.said(tokens["access_token"]).startswith(f"{host}:ada ")
            first = site.said(tokens["access_token"], "upstream")
            assert site.call(first).status == 401
