"""Tokens that an authorization server is asked about."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.auth import Introspection, VerifierUnavailable
from tests.auth.issuer import RESOURCE, Issuer, verified_at_once

pytestmark = pytest.mark.anyio


def verifier(issuer: Issuer, **options: Any) -> Introspection:
    given = {"issuer": issuer.url, **options}
    return Introspection(f"{issuer.url}/introspect", "notes", "s/ecret", **given)


async def test_the_answer_names_a_principal(issuer: Issuer) -> None:
    """AUTH-8, AUTH-17."""
    issuer.answers["opaque"] = issuer.claims(active=True)
    found = await verifier(issuer).verify("opaque", RESOURCE)
    assert found is not None
    assert (found.id, found.client_id) == (f"{issuer.url}|ann", "editor")
    assert found.scopes == {"notes:read", "notes:write"}
    [(path, form)] = issuer.asked
    assert (path, form["token"]) == ("/introspect", "opaque")
    assert issuer.credentials == ["notes:s%2Fecret"]  # RFC 6749, 2.3.1


@pytest.mark.parametrize(
    "claims",
    [
        {"active": False},
        {"active": "true"},
        {"active": None},
        {"exp": 1},
        {"exp": "never"},
        {"nbf": 4_000_000_000},
        {"nbf": True},
        {"iss": "https://other.example.com"},
        {"aud": None},
        {"aud": "https://other.example.com"},
        {"aud": [7]},
        {"aud": 7},
        {"sub": None},
    ],
    ids=str,
)
async def test_what_is_not_active_and_for_us_is_refused(issuer: Issuer, claims: Any) -> None:
    """AUTH-1, AUTH-8."""
    issuer.answers["opaque"] = issuer.claims(**{"active": True, **claims})
    assert await verifier(issuer).verify("opaque", RESOURCE) is None


async def test_an_authorization_server_of_one_resource_need_not_name_it(issuer: Issuer) -> None:
    issuer.answers["opaque"] = {**issuer.claims(active=True, aud=None), "exp": None}
    assert await verifier(issuer, audience="*").verify("opaque", None) is not None
    issuer.away = True
    with pytest.raises(VerifierUnavailable):
        await verifier(issuer).verify("opaque", RESOURCE)


async def test_many_with_the_same_token_ask_once(issuer: Issuer) -> None:
    issuer.answers["opaque"] = issuer.claims(active=True)
    issuer.delay = 0.02
    await verified_at_once(verifier(issuer), "opaque", 10)
    assert issuer.times("/introspect") == 1


async def test_the_address_is_safe() -> None:
    """SEC-16."""
    with pytest.raises(ValueError, match="use https"):
        Introspection("http://a.example.com", "a", "b", issuer="https://a.example.com")
