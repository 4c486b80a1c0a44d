"""How a client finds out who issues tokens, becomes known there, and has its user log in."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from mcpkit import Client
from mcpkit.client.auth import (
    AuthorizationFailed,
    ClientCredentials,
    HttpAuth,
    IdentityAssertion,
    MemoryTokenStore,
    OAuth,
)
from mcpkit.client.auth.discovery import Challenge, read_challenge
from tests.auth.client.world import OPENID, READ, RESOURCE, SERVER, WRITE, User, World, call, kept
from tests.auth.issuer import Reply, Seen
from tests.auth.server.conftest import MACHINE_SECRET, serving


async def test_a_user_logs_in_once_for_all_calls(world: World, user: User) -> None:
    """AUTH-3: the challenge leads to the metadata, and these to the issuer."""
    async with Client(world.url, auth=OAuth(show=user.show), revision="2026-07-28") as client:
        assert (await client.call_tool("read")).text == READ
        assert (await client.call_tool("read")).text == READ
    assert world.paths() == ["/mcp", f"{RESOURCE}/mcp", SERVER, "/register", "/authorize", "/token"]
    assert len(user.shown) == 1
    assert world.faults == []
    assert user.page is not None
    assert user.page.status == 200
    assert "You are logged in" in user.page.text


async def test_the_same_with_a_whole_server_of_mcpkit(user: User) -> None:
    """AUTH-1, AUTH-3, AUTH-6: both sides of it agree, a step-up included."""
    with serving() as site:
        async with Client(site.url, auth=OAuth(show=user.show)) as client:
            assert (await client.call_tool("whoami")).text.startswith("ada ")
            assert (await client.call_tool("write_notes")).text == "written"
        machine = ClientCredentials("machine", MACHINE_SECRET)
        assert await call(site.url, machine, "read_notes") == "notes"
    assert len(user.shown) <= 2


@pytest.mark.parametrize(
    ("path", "tried"), [(f"{RESOURCE}/mcp", 1), (RESOURCE, 2), ("/described/here", 1)]
)
async def test_server_metadata(world: World, user: User, path: str, tried: int) -> None:
    """AUTH-3, AUTH-4: where the challenge says, else with the path of the server, else without."""
    world.routes[path] = world.routes.pop(f"{RESOURCE}/mcp")
    named = f' resource_metadata="{world.origin}{path}"' if path.startswith("/described") else ""
    world.challenge = f"Bearer{named}"
    # AUTH-8, AUTH-13: it is named as it names itself, or the issuer would not know it.
    world.resource["resource"] = f"{world.origin}/"
    assert await call(world.url, OAuth(show=user.show)) == f"{READ} {WRITE}"
    assert len([each for each in world.paths() if "resource" in each or "here" in each]) == tried
    assert user.asked()["resource"] == f"{world.origin}/"
    assert world.at("/token")[0].form["resource"] == f"{world.origin}/"


@pytest.mark.parametrize(
    ("issuer", "tried"),
    [
        ("", [SERVER]),
        ("", [SERVER, OPENID]),
        ("/tenant", [f"{SERVER}/tenant"]),
        ("/tenant", [f"{SERVER}/tenant", f"{OPENID}/tenant"]),
        ("/tenant", [f"{SERVER}/tenant", f"{OPENID}/tenant", f"/tenant{OPENID}"]),
        ("/tenant/", [f"{SERVER}/tenant"]),
    ],
)
async def test_issuer_metadata(world: World, user: User, issuer: str, tried: list[str]) -> None:
    """RFC 8414, 3.1 and 5, and OpenID Connect Discovery, 4; in the order of the specification."""
    world.routes[tried[-1]] = world.routes.pop(SERVER)
    world.resource["authorization_servers"] = [world.origin + issuer]
    world.metadata["issuer"] = world.origin + issuer
    world.metadata["authorization_endpoint"] += "?tenant=a%26b"
    await call(world.url, OAuth(show=user.show))
    assert [each for each in world.paths() if SERVER in each or OPENID in each] == tried
    assert user.asked()["tenant"] == "a&b", "RFC 6749, 3.1"


@pytest.mark.parametrize("name", ["", "/", None], ids=["plain", "slash", "no metadata"])
async def test_2025_03_26_is_its_own_issuer(world: World, user: User, name: str | None) -> None:
    """Without metadata, ``/authorize``, ``/token`` and ``/register`` are where they always were."""
    del world.routes[f"{RESOURCE}/mcp"]
    if name is None:
        del world.routes[SERVER]
    world.challenge = "Bearer"
    world.metadata["issuer"] = world.origin + (name or "")
    await call(world.url, OAuth(show=user.show))
    assert world.paths()[1:4] == [f"{RESOURCE}/mcp", RESOURCE, SERVER]
    assert "resource" not in user.asked()
    assert "resource" not in world.at("/token")[0].form
    assert user.asked()["code_challenge_method"] == "S256"
    assert (world.faults, len(world.at("/register"))) == ([], 1)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_metadata_of_a_busy_server_exist(world: World, user: User, status: int) -> None:
    """Or a server that is busy would have its users log in elsewhere."""
    world.challenge = "Bearer"
    world.routes[f"{RESOURCE}/mcp"] = lambda _: Reply(status)
    with pytest.raises(AuthorizationFailed, match=rf"{RESOURCE}/mcp answered {status}$"):
        await call(world.url, OAuth(show=user.show))
    assert user.shown == []


@pytest.mark.parametrize("known", [None, [READ, WRITE, "admin"], ["openid"]], ids=str)
async def test_it_registers_itself_as_native(
    world: World, user: User, free_tcp_port: int, known: list[str] | None
) -> None:
    """RFC 7591: a native program, whose answers come back to this machine.

    It names the scopes of the server, unless the issuer lists others only.
    """
    world.metadata["scopes_supported"] = known
    auth = OAuth(show=user.show, client_name="An editor", redirect_port=free_tcp_port)
    await call(world.url, auth)
    [registration] = world.at("/register")
    uri = f"http://127.0.0.1:{free_tcp_port}/callback"
    scope = {} if known == ["openid"] else {"scope": f"{READ} {WRITE}"}
    assert registration.json == {
        **scope,
        "client_name": "An editor",
        "application_type": "native",
        "redirect_uris": [uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }
    assert user.asked()["redirect_uri"] == uri
    assert "authorization" not in registration.headers


async def test_a_known_client_does_not_register(world: World, user: User) -> None:
    world.clients.add("my id")
    world.metadata["token_endpoint_auth_methods_supported"] = ["none"]
    await call(world.url, OAuth(show=user.show, client_id="my id"))
    assert world.at("/register") == []
    [asked] = world.at("/token")
    assert asked.form["client_id"] == "my id"
    assert "client_secret" not in asked.form
    assert "authorization" not in asked.headers


async def test_a_secret_that_comes_with_a_registration_is_used(world: World, user: User) -> None:
    world.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    world.routes["/register"] = lambda seen: Reply(
        201, {**world.register(seen).body, "client_secret": "given"}
    )
    await call(world.url, OAuth(show=user.show))
    assert world.at("/register")[0].json["token_endpoint_auth_method"] == "client_secret_post"
    assert world.at("/token")[0].form["client_secret"] == "given"


@pytest.mark.parametrize("taken", [True, False])
async def test_a_document_describes_the_client(world: World, user: User, taken: bool) -> None:
    """Elsewhere it registers itself."""
    document = "https://client.example.com/client.json"
    world.metadata["client_id_metadata_document_supported"] = taken
    world.clients.add(document)
    await call(world.url, OAuth(show=user.show, client_document=document))
    assert (user.asked()["client_id"] == document) is taken
    assert bool(world.at("/register")) is not taken


@pytest.mark.parametrize(
    "make",
    [
        partial(OAuth, client_secret="s"),
        partial(OAuth, client_document="http://client.example.com/client.json"),
        partial(OAuth, client_document="http://localhost/client.json"),
        partial(OAuth, client_document="https://client.example.com"),
        partial(OAuth, client_document="https://client.example.com/"),
        partial(OAuth, scopes="a b"),
        partial(OAuth, scopes=["a\nb"]),
        partial(OAuth, issuer="http://login.example.com"),
        partial(ClientCredentials, "id"),
        partial(ClientCredentials, "id", "s", private_key="k"),
        partial(ClientCredentials, "id", "s", scopes="a"),
        partial(ClientCredentials, "id", "s", issuer="http://login.example.com"),
        partial(
            IdentityAssertion,
            "id",
            None,
            id_token="t",
            provider_token_endpoint="http://a.example/",
            provider_client_id="p",
        ),
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_rejected_at_once(make: Callable[[], HttpAuth]) -> None:
    """SEC-16, SEC-18."""
    with pytest.raises(ValueError, match=r"client_|secret|private_key|scopes|issuer|endpoint"):
        make()


async def test_an_issuer_without_registration_needs_a_client_id(world: World, user: User) -> None:
    del world.metadata["registration_endpoint"]
    with pytest.raises(AuthorizationFailed, match="pass the client_id="):
        await call(world.url, OAuth(show=user.show))
    assert user.shown == []


async def test_a_registration_is_kept_for_the_next_login(world: World, user: User) -> None:
    """Each login has a state and a verifier that cannot be guessed or used twice (OAuth 2.1, 4.1).

    The browser comes back to the registered place.
    """
    store = MemoryTokenStore()
    for _ in range(2):
        await call(world.url, OAuth(show=user.show, store=store))
        world.end_logins()
    assert len(world.at("/register")) == 1
    one, other = user.asked(0), user.asked(1)
    assert one["redirect_uri"] == other["redirect_uri"]
    assert one["code_challenge_method"] == "S256"
    for name in ("state", "code_challenge"):
        assert one[name] != other[name]
        assert len(one[name]) >= 43
    verifiers = {each.form.get("code_verifier") for each in world.at("/token")} - {None}
    assert [len(each or "") >= 43 for each in verifiers] == [True, True]


async def test_a_forgotten_registration_is_repeated(world: World, user: User) -> None:
    """The issuer says so in its response, or only to the user, who does not come back."""
    store = MemoryTokenStore()
    await call(world.url, OAuth(show=user.show, store=store))
    world.end_tokens()
    world.clients.clear()

    def token(seen: Seen) -> Reply:
        known = seen.form["client_id"] in world.clients
        return world.token(seen) if known else Reply(401, {"error": "invalid_client"})

    world.routes["/token"] = token
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ
    assert len(world.at("/register")) == 2
    assert world.faults == []
    world.end_logins()
    with pytest.raises(AuthorizationFailed, match="no login within"):
        await call(world.url, OAuth(show=lambda url: None, store=store, timeout=0.05))
    world.clients.clear()
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ
    assert len(world.at("/register")) == 3


CHALLENGED = f' scope="{READ}"'


@pytest.mark.parametrize(
    ("challenge", "supported", "own", "asked"),
    [
        (CHALLENGED, [READ, WRITE], (), {READ}),
        ("", [READ, WRITE], (), {READ, WRITE}),
        ("", None, (), set()),
        (CHALLENGED, [READ, WRITE], ("more",), {READ, "more"}),
        ("", None, ("more",), {"more"}),
    ],
)
async def test_scopes_are_asked_for_as_the_server_says(
    world: World, user: User, challenge: str, supported: Any, own: tuple[str, ...], asked: set[str]
) -> None:
    """AUTH-5: those of the challenge, else those of the metadata, else none; and one's own.

    AUTH-11: no server asks for ``offline_access``; an issuer may offer it.
    """
    world.challenge = f'Bearer resource_metadata="{world.origin}{RESOURCE}/mcp",{challenge}'
    world.resource["scopes_supported"] = supported
    await call(world.url, OAuth(show=user.show, scopes=own))
    assert ("scope" in user.asked()) is bool(asked)
    world.metadata["scopes_supported"] = [READ, "offline_access"]
    await call(world.url, OAuth(show=user.show, scopes=own))
    assert user.scopes() == [asked, asked | {"offline_access"} if asked else asked]
    assert user.asked().get("prompt") == ("consent" if asked else None)


async def test_a_client_that_is_not_interactive_asks_no_user(world: World, user: User) -> None:
    store = MemoryTokenStore()
    quiet = OAuth(show=user.show, store=store, interactive=False)
    with pytest.raises(AuthorizationFailed, match=f"mcpkit login {world.url}"):
        await call(world.url, quiet)
    assert (user.shown, world.at("/register")) == ([], [])
    await call(world.url, OAuth(show=user.show, store=store))
    assert await call(world.url, quiet) == READ


async def test_each_issuer_gets_only_its_own(world: World, elsewhere: World, user: User) -> None:
    """AUTH-17: neither refresh token nor registration."""
    store = MemoryTokenStore()
    await call(world.url, OAuth(show=user.show, store=store))
    world.end_tokens()
    world.resource["authorization_servers"] = [elsewhere.origin]
    world.good = elsewhere.good
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ
    assert len(elsewhere.at("/register")) == 1
    said = str([(each.headers, each.body, each.query) for each in elsewhere.seen])
    assert "'refresh-1'" not in said
    assert "'token-1'" not in said
    assert (world.grants(), elsewhere.grants()) == (["authorization_code"], ["authorization_code"])
    now = await kept(store, world)
    assert now.issuer == elsewhere.origin


async def test_a_known_client_has_one_issuer(world: World, elsewhere: World, user: User) -> None:
    """AUTH-17: its secret is of ``issuer=``, or of the issuer of its first token."""
    world.clients.add("id")
    elsewhere.clients.add("id")
    options: dict[str, Any] = {"show": user.show, "client_id": "id", "client_secret": "the secret"}
    with pytest.raises(AuthorizationFailed, match="another issuer"):
        await call(world.url, OAuth(**options, issuer=elsewhere.origin))
    assert world.at("/token") == []
    assert await call(world.url, OAuth(**options, issuer=f"{world.origin}/")) == READ
    auth = OAuth(**options)
    await call(world.url, auth)
    world.end_tokens()
    world.resource["authorization_servers"] = [elsewhere.origin]
    with pytest.raises(AuthorizationFailed, match="another issuer"):
        await call(world.url, auth)
    assert elsewhere.at("/token") == []


async def test_one_of_several_issuers_is_chosen(world: World, elsewhere: World, user: User) -> None:
    """RFC 9728, 2: the choice is the client's.

    The name of an issuer may end with a slash (RFC 3986, 6.2.3): older libraries add one.
    """
    world.resource["authorization_servers"] = [elsewhere.origin, f"{world.origin}/"]
    assert await call(world.url, OAuth(show=user.show, issuer=world.origin)) == READ
    assert elsewhere.seen == []


# --- WWW-Authenticate (RFC 9110, 11.6.1; RFC 6750, 3; RFC 9449, 7) --------------------------------

BEARER = 'Bearer resource_metadata="https://h/m", scope="a b", error="invalid_token"'


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], Challenge()),
        (["Basic realm=x"], Challenge()),
        (["Bearer"], Challenge()),
        ([BEARER], Challenge("invalid_token", ("a", "b"), "https://h/m")),
        ([BEARER.lower().replace("bearer", "BEARER")], Challenge("invalid_token", ("a", "b"), "https://h/m")),
        (["Bearer error=x,scope=a"], Challenge("x", ("a",))),
        (["Bearer\terror = x ,  scope = a"], Challenge("x", ("a",))),
        (["Bearer scope=\"\""], Challenge("", ())),
        ([r'Bearer error="a\"b\\c"'], Challenge(r'a"b\c')),
        (['Basic realm="x", Bearer error="y", Digest error="z"'], Challenge("y")),
        (['Basic realm="Bearer error=evil", Bearer error="y"'], Challenge("y")),
        (["Negotiate abc==, Bearer error=y"], Challenge("y")),
        (["Basic realm=x", "Bearer error=y"], Challenge("y")),
        (["Bearer error=y, error=z"], Challenge("y")),
        (["Bearer error=y", "Bearer error=z"], Challenge("y")),
        (["Bearers error=y"], Challenge()),
        (['Bearer error="never ends'], Challenge()),
        (['DPoP algs="ES256"'], Challenge(has_proof=True)),
        (['Bearer scope=a, DPoP algs="ES256", error=e'], Challenge("", ("a",))),
        (['DPoP algs="ES256"', "Bearer scope=a"], Challenge("", ("a",))),
        (['Bearer scope="a b\\"c \x1b[2J tést d a"'], Challenge("", ("a", "d"))),
    ],
    ids=str,
)  # fmt: skip
def test_a_challenge_is_found_among_others(values: list[str], found: Challenge) -> None:
    """AUTH-3, AUTH-5, SEC-18: what cannot be a scope is left out."""
    assert read_challenge(values) == found


def test_of_two_the_one_for_the_token_that_was_sent_counts() -> None:
    """RFC 9449, 7.2: a server may take both kinds, and what it says of one is not of the other."""
    both = ['Bearer resource_metadata="https://h/m", scope="a"', 'DPoP error="use_dpop_nonce"']
    found = Challenge("use_dpop_nonce", ("a",), "https://h/m", has_proof=False)
    assert read_challenge(both, has_proof=True) == found
    assert read_challenge(both).error == ""


@pytest.mark.parametrize("text", ["a", ",", 'a="', '\\"', " ="])
@pytest.mark.parametrize(("start", "end"), [("Bearer ", ""), ("Bearer ", '"'), ('Bearer a="', "")])
def test_no_challenge_takes_long_to_read(start: str, text: str, end: str) -> None:
    """SEC-17: a server cannot keep the client busy with one header."""
    before = time.process_time()
    read_challenge([start + text * 50_000 + end])
    assert time.process_time() - before < 1
