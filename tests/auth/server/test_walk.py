"""The walk of a client through an app's own authorization server (OAuth 2.1; PROTOCOL §10)."""

from __future__ import annotations

from tests.auth.server.conftest import Site


def test_a_user_logs_in_and_the_client_calls_a_tool(site: Site) -> None:
    """AUTH-1, AUTH-8."""
    tokens = site.tokens()
    assert tokens["token_type"] == "Bearer"
    assert tokens["scope"] == "notes:read"
    assert site.said(tokens["access_token"]) == "ada False [notes:read]"
