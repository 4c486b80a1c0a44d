"""Tests of the verifier that environment variables choose."""

import httpx2
import pytest
from mcpkit.auth import JWT

from __PACKAGE__.auth import CLOSE, verifier_from_environment
from __PACKAGE__.main import create_api

from .conftest import URL

pytestmark = pytest.mark.anyio

ISSUER = "https://login.example.com"


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """An environment without these variables."""
    for name in ("ISSUER", "AUDIENCE", "API_TOKENS"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


async def test_users_are_known_by_their_tokens(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("API_TOKENS", "ada=the-token-of-ada bob=the-token-of-bob")
    verifier = verifier_from_environment()
    user = await verifier.verify("the-token-of-bob", None)
    assert user is not None
    assert (user.id, user.scopes) == ("bob", frozenset({CLOSE}))
    assert await verifier.verify("another-long-token", None) is None


async def test_without_settings_only_the_log_has_a_token(caplog: pytest.LogCaptureFixture) -> None:
    verifier = verifier_from_environment()
    token = caplog.messages[0].rpartition(" ")[2]
    user = await verifier.verify(token, None)
    assert user is not None
    assert user.id == "developer"


@pytest.mark.parametrize("tokens", ["ada", "ada=", "=the-token-of-ada", "ada=short"])
def test_malformed_tokens_are_refused(environment: pytest.MonkeyPatch, tokens: str) -> None:
    environment.setenv("API_TOKENS", tokens)
    with pytest.raises(ValueError, match="API_TOKENS needs"):
        verifier_from_environment()


def test_the_tokens_of_an_issuer_are_for_somebody(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ISSUER", ISSUER)
    with pytest.raises(ValueError, match="AUDIENCE"):
        verifier_from_environment()


async def test_clients_find_the_issuer(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ISSUER", ISSUER)
    environment.setenv("AUDIENCE", f"{URL}/mcp")
    verifier = verifier_from_environment()
    assert isinstance(verifier, JWT)
    web = httpx2.AsyncClient(transport=httpx2.ASGITransport(create_api(verifier)), base_url=URL)
    async with web:
        refused = await web.post("/mcp", json={})
        metadata = await web.get("/.well-known/oauth-protected-resource/mcp")
    assert refused.status_code == 401
    assert "resource_metadata" in refused.headers["WWW-Authenticate"]
    assert metadata.json()["authorization_servers"] == [ISSUER]
