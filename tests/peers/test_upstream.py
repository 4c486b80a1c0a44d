"""Users come from another, certified identity provider."""

from __future__ import annotations

import json
from typing import Final
from urllib.request import Request, urlopen

import pytest

from mcpkit.auth import UpstreamLogin
from tests.auth.browser import Browser
from tests.auth.server.conftest import serving
from tests.peers.installed import NODE, require
from tests.peers.test_walks import at_others
from tests.uvicorns import listen

pytestmark = pytest.mark.peers

METHODS: Final = ["client_secret_basic", "client_secret_post", "none"]


@pytest.mark.parametrize("method", METHODS)
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
