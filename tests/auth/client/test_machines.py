"""Programs that act without a user: what they send, and to whom."""

from __future__ import annotations

import logging
import time
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from mcpkit import Client
from mcpkit.client.auth import (
    AuthorizationFailed,
    ClientCredentials,
    Credentials,
    HttpAuth,
    IdentityAssertion,
    JwtBearer,
    MemoryTokenStore,
)
from tests.auth.client.world import READ, WRITE, World, call
from tests.auth.issuer import Key, Reply

JAG = "urn:ietf:params:oauth:token-type:id-jag"


def make_key(kind: str) -> tuple[str, Any]:
    key = Key("machine", kind)
    pem = key.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem.decode(), key.private.public_key()


@pytest.mark.parametrize(
    "ways", [["client_secret_basic", "client_secret_post"], ["client_secret_post"], None], ids=str
)
async def test_a_program_has_a_token_for_its_secret(world: World, ways: list[str] | None) -> None:
    """RFC 6749, 4.4 and 2.3.1: what is in a header, as by default, is encoded first."""
    world.metadata["token_endpoint_auth_methods_supported"] = ways
    auth = ClientCredentials("my id", "s:e c/ret", scopes=[WRITE])
    assert await call(world.url, auth) == f"{READ} {WRITE}"
    [asked] = world.at("/token")
    form = {"grant_type": "client_credentials", "scope": f"{READ} {WRITE}", "resource": world.url}
    if ways == ["client_secret_post"]:
        assert asked.form == {**form, "client_id": "my id", "client_secret": "s:e c/ret"}
        assert "authorization" not in asked.headers
    else:
        assert asked.form == {**form, "client_id": "my id"}
        encoded = b64encode(b"my%20id:s%3Ae%20c%2Fret").decode()
        assert asked.headers["authorization"] == f"Basic {encoded}"
    assert world.at("/authorize") == world.at("/register") == []


@pytest.mark.parametrize("secret", ["a secret", "an assertion"])
async def test_a_secret_is_for_an_issuer_that_the_program_names(world: World, secret: str) -> None:
    """SEC-16: a server could name itself, or another attacker."""
    elsewhere = world.origin.replace("127.0.0.1", "localhost")

    def auth(issuer: str | None) -> HttpAuth:
        if secret == "a secret":
            return ClientCredentials("id", secret, issuer=issuer)
        return JwtBearer("id", secret, issuer=issuer)

    others = {"http://[": "is not a URL", "http://127.0.0.1:1": "pass issuer="}
    for other, says in {**others, elsewhere: "pass issuer="}.items():
        world.resource["authorization_servers"] = [other]
        with pytest.raises(AuthorizationFailed, match=says):
            await call(world.url, auth(None))
    assert world.at("/token") == []
    world.metadata["issuer"] = elsewhere
    assert await call(world.url, auth(elsewhere)) == READ


@pytest.mark.parametrize("algorithm", ["ES256", "RS256"])
async def test_a_program_has_a_token_for_its_signature(world: World, algorithm: str) -> None:
    """RFC 7523, 3: for this issuer, for minutes, and each is used once."""
    private, public = make_key(algorithm)
    auth = ClientCredentials("id", private_key=private, algorithm=algorithm)
    async with Client(world.url, auth=auth, revision="2026-07-28") as client:
        world.end_logins()
        await client.call_tool("read")
    seen: list[str] = []
    for form in (each.form for each in world.at("/token")):
        assert form["client_id"] == "id"
        assert form["client_assertion_type"].endswith(":client-assertion-type:jwt-bearer")
        assert "client_secret" not in form
        found = jwt.decode(
            form["client_assertion"], public, [algorithm], audience=world.metadata["issuer"]
        )
        assert (found["iss"], found["sub"]) == ("id", "id")
        assert found["exp"] - time.time() <= 300
        seen.append(found["jti"])
    assert len(set(seen)) == len(seen) > 1


async def test_a_workload_has_a_token_for_its_identity(world: World) -> None:
    """RFC 7523, 2.1; an identity is often read from a file, which ends with a line break."""
    identities = iter(["the identity", "another\n"])
    auth = JwtBearer("id", lambda: next(identities))
    for identity in ("the identity", "another"):
        assert await call(world.url, auth) == READ
        assert world.at("/token")[-1].form == {
            "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "assertion": identity,
            "scope": READ,
            "client_id": "id",
            "resource": world.url,
        }
        world.end_logins()


def provider(world: World, **changed: Any) -> None:
    grant = {"access_token": "the-grant", "issued_token_type": JAG, "token_type": "N_A"}
    world.routes["/exchange"] = lambda seen: Reply(200, {**grant, **changed})


def employee(world: World, id_token: Any = "the-id-token") -> IdentityAssertion:
    return IdentityAssertion(
        "id",
        "secret",
        id_token=id_token,
        provider_token_endpoint=f"{world.origin}/exchange",
        provider_client_id="at-the-provider",
    )


async def test_an_employee_has_a_token_for_their_login(world: World, elsewhere: World) -> None:
    """RFC 8693 at the provider, RFC 7523 at the issuer; the ID token goes to the provider alone."""
    provider(elsewhere)
    assert await call(world.url, employee(elsewhere)) == READ
    [exchange] = elsewhere.at("/exchange")
    assert exchange.form == {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": JAG,
        "subject_token": "the-id-token",
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "audience": world.origin,
        "resource": world.url,
        "client_id": "at-the-provider",
        "scope": READ,
    }
    [redeemed] = world.at("/token")
    assert redeemed.form["assertion"] == "the-grant"
    assert redeemed.headers["authorization"].startswith("Basic ")
    assert "the-id-token" not in str(world.seen)
    assert "secret" not in str(exchange)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}, "but urn:"),
        ({"access_token": None}, "no grant"),
        ({"access_token": 5}, "no grant"),
        ({"access_token": "a\r\nb"}, "no grant"),
    ],
    ids=str,
)
async def test_only_a_grant_goes_to_the_issuer(
    world: World, elsewhere: World, changed: dict[str, Any], says: str
) -> None:
    """AUTH-9: an access token of the provider is for the provider alone."""
    provider(elsewhere, **changed)
    with pytest.raises(AuthorizationFailed, match=says):
        await call(world.url, employee(elsewhere))
    assert world.at("/token") == []


async def test_an_error_of_a_provider_repeats_no_secret(world: World, elsewhere: World) -> None:
    """SEC-13."""
    elsewhere.routes["/exchange"] = lambda seen: Reply(
        400, {"error": f"invalid_request {seen.form['subject_token']} \x1b[2J"}
    )
    with pytest.raises(AuthorizationFailed, match="invalid_request") as raised:
        await call(world.url, employee(elsewhere))
    assert "the-id-token" not in str(raised.value)
    assert str(raised.value).isprintable()


MACHINES: dict[str, Callable[..., HttpAuth]] = {
    "secret": lambda **options: ClientCredentials("id", "the-secret", **options),
    "identity": lambda **options: JwtBearer("id", "the-secret", **options),
    "employee": lambda **options: IdentityAssertion(
        "id",
        "the-secret",
        id_token="the-secret",
        provider_token_endpoint="http://127.0.0.1:9/",
        provider_client_id="p",
        **options,
    ),
}


@pytest.mark.parametrize("kind", MACHINES)
async def test_a_program_has_one_issuer(world: World, elsewhere: World, kind: str) -> None:
    """AUTH-17: a server that names another one does not get the secret there, then or later."""
    store = MemoryTokenStore()
    await store.set(world.url, Credentials(world.origin, world.url, "id", access_token="t"))
    world.resource["authorization_servers"] = [elsewhere.origin]
    for options in ({"issuer": world.origin}, {"store": store}):
        with pytest.raises(AuthorizationFailed, match="tokens of another issuer"):
            await call(world.url, MACHINES[kind](**options))
    assert elsewhere.at("/token") == []


async def test_no_secret_is_logged(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """SEC-13, AUTH-16."""
    caplog.set_level(logging.DEBUG)
    provider(world)
    for auth in (
        ClientCredentials("id", "the-secret"),
        ClientCredentials("id", private_key=make_key("ES256")[0]),
        JwtBearer("id", "the-secret"),
        employee(world, "the-secret"),
    ):
        assert repr(auth) == f"<{type(auth).__name__}>"
        assert await call(world.url, auth) == READ
    assertions = [each.form.get("client_assertion", "the-secret") for each in world.at("/token")]
    assert [each for each in assertions if each in caplog.text] == []


@pytest.mark.parametrize("key", ["no key at all", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n"])
async def test_a_key_that_cannot_be_read_is_not_repeated(world: World, key: str) -> None:
    """SEC-13."""
    with pytest.raises(AuthorizationFailed, match="private_key") as raised:
        await call(world.url, ClientCredentials("id", private_key=key))
    assert key not in str(raised.value)
    assert raised.value.__cause__ is None
