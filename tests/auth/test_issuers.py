"""Tokens of an issuer: signed ones and where their keys come from, and opaque ones."""

from __future__ import annotations

import time
from base64 import b64decode
from collections.abc import Iterator
from typing import Any

import anyio
import jwt
import pytest

from mcpkit import Principal
from mcpkit.auth import JWT, Introspection, VerifierUnavailable
from mcpkit.auth import jwt as jwt_module
from tests.auth.forgeries import part
from tests.auth.issuer import RESOURCE, Issuer, Key, issuing, verified_at_once


def verifier(issuer: Issuer, **options: Any) -> JWT:
    if not {"keys", "jwks_url"} & options.keys():
        options["keys"] = issuer.keys
    return JWT(issuer=issuer.url, **{"leeway": 0, **options})


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with issuing(Issuer) as made:
        yield made


async def found(issuer: Issuer, token: str, **options: Any) -> Principal | None:
    return await verifier(issuer, **options).verify(token, RESOURCE)


@pytest.mark.parametrize("algorithm", ["ES256", "RS256", "EdDSA"])
async def test_a_token_of_the_issuer_names_a_principal(issuer: Issuer, algorithm: str) -> None:
    """AUTH-8, AUTH-17."""
    key = Key("rsa", algorithm)
    issuer.keys.append(key.public)
    end = int(time.time()) + 50
    principal = await found(issuer, issuer.token(key, exp=end, tenant="acme"))
    assert principal is not None
    assert principal.id == f"{issuer.url}|ann"
    assert (principal.issuer, principal.client_id) == (issuer.url, "editor")
    assert principal.scopes == {"notes:read", "notes:write"}
    assert principal.expires_at == end
    assert principal.claims["tenant"] == "acme"


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "a b"}, {"a", "b"}),
        ({"scope": None, "scp": ["a", "b", 7]}, {"a", "b"}),
        ({"scope": None, "scp": "a"}, {"a"}),
        ({"scope": None}, set[str]()),
        ({"scope": {"a": 1}}, set[str]()),
    ],
)
async def test_scopes_of_all_issuers(issuer: Issuer, claims: Any, scopes: set[str]) -> None:
    principal = await found(issuer, issuer.token(**claims))
    assert principal is not None
    assert principal.scopes == scopes


async def test_one_of_several_audiences_and_the_leeway_are_enough(issuer: Issuer) -> None:
    """AUTH-8, AUTH-16."""
    now = int(time.time())
    for claims, options in (
        ({"aud": ["https://other.example.com", "notes"]}, {"audience": ["files", "notes"]}),
        ({"exp": now - 5}, {"leeway": 30}),
        ({"nbf": now + 5}, {"leeway": 30}),
    ):
        token = issuer.token(**claims)
        assert await found(issuer, token) is None
        assert await found(issuer, token, **options) is not None


async def test_a_key_is_used_for_its_algorithm_and_use_alone(issuer: Issuer) -> None:
    secret = {"kty": "oct", "k": part(b"s" * 32), "kid": "one"}
    token = jwt.encode(issuer.claims(), b"s" * 32, "HS256", headers={"kid": "one"})
    assert await found(issuer, token, keys=[secret], algorithms=["HS256"]) is not None
    assert await found(issuer, token, keys=[secret]) is None
    every = [*jwt_module._KINDS]
    assert await found(issuer, issuer.token(), algorithms=every) is not None
    unnamed = {name: value for name, value in issuer.key.public.items() if name != "kid"}
    assert await found(issuer, issuer.token(), keys=[unnamed]) is not None
    both = ["HS256", "ES256"]
    assert await found(issuer, token, keys=[issuer.key.public], algorithms=both) is None
    keys = [{**issuer.key.public, "use": "enc"}]
    assert await found(issuer, issuer.token(), keys=keys) is None


async def test_keys_are_fetched_once_from_where_the_metadata_says(issuer: Issuer) -> None:
    issuer.delay = 0.02
    await verified_at_once(JWT(issuer=issuer.url), issuer.token(), 20)
    assert [each.path for each in issuer.seen] == [
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
        "/keys",
    ]


async def test_a_new_key_is_fetched(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt_module, "_AGAIN_S", 0.0)
    one = verifier(issuer, jwks_url=issuer.jwks_url)
    assert await one.verify(issuer.token(), RESOURCE) is not None
    old, issuer.key = issuer.key, Key("new")
    issuer.keys = [issuer.key.public]
    assert await one.verify(issuer.token(), RESOURCE) is not None
    assert len(issuer.at("/keys")) == 2
    assert await one.verify(issuer.token(old), RESOURCE) is None


async def test_made_up_keys_and_other_issuers_cause_no_flood(issuer: Issuer) -> None:
    """SEC-17."""
    one = verifier(issuer, jwks_url=issuer.jwks_url)
    assert await one.verify(issuer.token(iss="https://other.example.com"), RESOURCE) is None
    stranger = Key("stranger")
    assert await one.verify(issuer.token(stranger, {"kid": "k" * 513}), RESOURCE) is None
    assert issuer.seen == []
    async with anyio.create_task_group() as group:
        for number in range(30):
            token = issuer.token(stranger, {"kid": f"k{number}"})
            group.start_soon(one.verify, token, RESOURCE)
    assert len(issuer.at("/keys")) == 1
    assert await one.verify(issuer.token(), RESOURCE) is not None


async def test_tokens_stay_good_while_the_issuer_is_away(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.away = True
    one = verifier(issuer, jwks_url=issuer.jwks_url)
    token = issuer.token()
    for _ in range(3):
        with pytest.raises(VerifierUnavailable):
            await one.verify(token, RESOURCE)
    assert len(issuer.at("/keys")) == 1
    assert "cannot be fetched" in caplog.text
    assert token not in caplog.text
    issuer.away = False
    monkeypatch.setattr(jwt_module, "_AGAIN_S", 0.0)
    assert await one.verify(token, RESOURCE) is not None
    issuer.away = True
    monkeypatch.setattr(jwt_module, "_FRESH_S", 0.0)
    assert await one.verify(token, RESOURCE) is not None, "the keys that are there will do"
    monkeypatch.setattr(jwt_module, "_STALE_S", 0.0)
    with pytest.raises(VerifierUnavailable):
        await one.verify(token, RESOURCE)


@pytest.mark.parametrize("answer", [[], {}, {"keys": {}}, {"keys": [7]}, {"keys": [{"kty": "?"}]}])
async def test_bad_keys_verify_nothing(issuer: Issuer, answer: Any) -> None:
    issuer.answer = lambda seen: answer  # type: ignore[method-assign]
    one = verifier(issuer, jwks_url=issuer.jwks_url)
    try:
        assert await one.verify(issuer.token(), RESOURCE) is None
    except VerifierUnavailable:
        assert not isinstance(answer, dict) or not isinstance(answer.get("keys"), list)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"issuer": "http://login.example.com"}, "use https"),
        ({"issuer": "login.example.com"}, "not a URL"),
        ({"issuer": "https://a.example.com/\r\nX: y"}, "not a URL"),
        ({"issuer": "https://a@b.example.com"}, "not a URL"),
        ({"jwks_url": "http://login.example.com/keys"}, "use https"),
        ({"jwks_url": "file:///etc/passwd"}, "not a URL"),
        ({"jwks_url": "https://a.example.com/keys", "keys": []}, "not both"),
        ({"algorithms": ["none"]}, "algorithms must be"),
        ({"algorithms": "RS256"}, "algorithms must be"),
        ({"algorithms": []}, "algorithms must be"),
        ({"algorithms": ["HS256"]}, "need keys="),
        ({"keys": ["-----BEGIN PUBLIC KEY-----"]}, "JSON Web Keys"),
        ({"keys": []}, "JSON Web Keys"),
        ({"keys": [{"kid": "one"}]}, "JSON Web Keys"),
        ({"leeway": -1}, "leeway"),
        ({"required_scopes": "a b"}, "must be a list"),
        ({"required_scopes": ['a"b']}, "not a scope"),
    ],
)
async def test_options_that_make_no_sense_are_refused(options: Any, says: str) -> None:
    """SEC-16, SEC-18."""
    with pytest.raises(ValueError, match=says):
        JWT(**{"issuer": "https://login.example.com", **options})


# --- tokens that an authorization server is asked about -------------------------------------------


def asking(issuer: Issuer, **options: Any) -> Introspection:
    given = {"issuer": issuer.url, **options}
    return Introspection(f"{issuer.url}/introspect", "notes", "s/ecret", **given)


async def test_the_answer_names_a_principal(issuer: Issuer) -> None:
    """AUTH-8, AUTH-17."""
    issuer.answers["opaque"] = issuer.claims(active=True)
    found = await asking(issuer).verify("opaque", RESOURCE)
    assert found is not None
    assert (found.id, found.client_id) == (f"{issuer.url}|ann", "editor")
    assert found.scopes == {"notes:read", "notes:write"}
    [asked] = issuer.seen
    assert (asked.path, asked.form["token"]) == ("/introspect", "opaque")
    assert b64decode(asked.token) == b"notes:s%2Fecret"  # RFC 6749, 2.3.1


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
    assert await asking(issuer).verify("opaque", RESOURCE) is None


async def test_an_authorization_server_of_one_resource_need_not_name_it(issuer: Issuer) -> None:
    issuer.answers["opaque"] = {**issuer.claims(active=True, aud=None), "exp": None}
    assert await asking(issuer, audience="*").verify("opaque", None) is not None
    issuer.away = True
    with pytest.raises(VerifierUnavailable):
        await asking(issuer).verify("opaque", RESOURCE)


async def test_many_with_the_same_token_ask_once(issuer: Issuer) -> None:
    issuer.answers["opaque"] = issuer.claims(active=True)
    issuer.delay = 0.02
    await verified_at_once(asking(issuer), "opaque", 10)
    assert len(issuer.at("/introspect")) == 1


async def test_the_address_is_safe() -> None:
    """SEC-16."""
    with pytest.raises(ValueError, match="use https"):
        Introspection("http://a.example.com", "a", "b", issuer="https://a.example.com")
