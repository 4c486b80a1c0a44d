"""How a client finds out who issues tokens, becomes known there, and has its user log in."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from mcpkit import Client
from mcpkit.client.auth import AuthorizationFailed, Credentials, MemoryTokenStore, OAuth
from tests.auth.client.world import (
    OPENID,
    READ,
    RESOURCE,
    SERVER,
    WRITE,
    Reply,
    Seen,
    User,
    World,
    call,
)
from tests.auth.server.conftest import serving
from tests.uvicorns import listen

pytestmark = pytest.mark.anyio


async def test_a_user_logs_in_once_and_the_client_calls_what_it_wants(
    world: World, user: User
) -> None:
    """AUTH-3: the challenge leads to the metadata, and these to the issuer."""
    async with Client(world.url, auth=OAuth(show=user.show), revision="2026-07-28") as client:
        assert (await client.call_tool("read")).text == READ
        assert (await client.call_tool("read")).text == READ
    assert world.paths() == [
        "/mcp",
        f"{RESOURCE}/mcp",
        SERVER,
        "/register",
        "/authorize",
        "/token",
    ]
    assert len(user.shown) == 1
    assert world.faults == []
    assert user.page is not None
    assert user.page.status == 200
    assert "Your program has the answer" in user.page.text


async def test_the_same_with_a_whole_server_of_mcpkit(user: User) -> None:
    """AUTH-1, AUTH-3, AUTH-6: both sides of it agree, a step-up included."""
    with serving() as site:
        async with Client(site.url, auth=OAuth(show=user.show)) as client:
            assert (await client.call_tool("whoami")).text.startswith("ada ")
            assert (await client.call_tool("write_notes")).text == "written"
    assert len(user.shown) <= 2


# --- where things are -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [f"{RESOURCE}/mcp", RESOURCE, "/described/here"], ids=["path", "root", "told"]
)
async def test_the_metadata_of_a_server_are_found(world: World, user: User, path: str) -> None:
    """AUTH-3, AUTH-4: where the challenge says, else with the path of the server, else without."""
    document = world.routes.pop(f"{RESOURCE}/mcp")
    world.routes[path] = document
    told = path.startswith("/described")
    world.challenge = f'Bearer resource_metadata="{world.origin}{path}"' if told else "Bearer"
    assert await call(world.url, OAuth(show=user.show)) == f"{READ} {WRITE}"
    wanted = {f"{RESOURCE}/mcp": 1, RESOURCE: 2, "/described/here": 1}
    assert (
        len([each for each in world.paths() if "resource" in each or "here" in each])
        == (wanted[path])
    )


@pytest.mark.parametrize(
    ("issuer", "path"),
    [
        ("", SERVER),
        ("", OPENID),
        ("/tenant", f"{SERVER}/tenant"),
        ("/tenant", f"{OPENID}/tenant"),
        ("/tenant", f"/tenant{OPENID}"),
        ("/tenant/", f"{SERVER}/tenant"),
    ],
)
async def test_the_metadata_of_an_issuer_are_found(
    world: World, user: User, issuer: str, path: str
) -> None:
    """RFC 8414, 3.1 and 5, and OpenID Connect Discovery, 4; in the order of the specification."""
    document = world.routes.pop(SERVER)
    world.routes[path] = document
    world.resource["authorization_servers"] = [world.origin + issuer]
    world.metadata["issuer"] = world.origin + issuer
    await call(world.url, OAuth(show=user.show))
    tried = [each for each in world.paths() if SERVER in each or OPENID in each]
    trimmed = issuer.rstrip("/")
    order = (
        [f"{SERVER}{trimmed}", f"{OPENID}{trimmed}", f"{trimmed}{OPENID}"]
        if trimmed
        else [SERVER, OPENID]
    )
    assert tried == order[: order.index(path) + 1]


async def test_an_issuer_may_write_its_name_with_a_slash_or_without(
    world: World, user: User
) -> None:
    """An empty path and "/" are the same URL (RFC 3986, 6.2.3), and older libraries add one."""
    world.resource["authorization_servers"] = [f"{world.origin}/"]
    assert await call(world.url, OAuth(show=user.show)) == READ
    world.end_tokens()
    world.refreshing.clear()
    world.metadata["issuer"] = f"{world.origin}/"
    world.resource["authorization_servers"] = [world.origin]
    assert await call(world.url, OAuth(show=user.show)) == READ


async def test_a_server_of_2025_03_26_is_its_own_issuer(world: World, user: User) -> None:
    """Without metadata of the server, those of its host are asked for; no resource is named."""
    del world.routes[f"{RESOURCE}/mcp"]
    world.challenge = "Bearer"
    await call(world.url, OAuth(show=user.show))
    assert world.paths()[1:4] == [f"{RESOURCE}/mcp", RESOURCE, SERVER]
    assert "resource" not in user.asked()
    assert "resource" not in world.at("/token")[0].form
    assert user.asked()["code_challenge_method"] == "S256"


@pytest.mark.parametrize("name", ["", "/"])
async def test_such_a_server_may_name_itself_with_a_slash(
    world: World, user: User, name: str
) -> None:
    del world.routes[f"{RESOURCE}/mcp"]
    world.challenge = "Bearer"
    world.metadata["issuer"] = world.origin + name
    await call(world.url, OAuth(show=user.show))
    assert world.faults == []


async def test_such_a_server_may_say_nothing_at_all(world: World, user: User) -> None:
    """2025-03-26: ``/authorize``, ``/token`` and ``/register`` are where they always were."""
    for path in (f"{RESOURCE}/mcp", SERVER):
        del world.routes[path]
    world.challenge = "Bearer"
    await call(world.url, OAuth(show=user.show))
    assert world.faults == []
    assert len(world.at("/register")) == len(world.at("/token")) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_metadata_that_cannot_be_had_now_are_not_missing(
    world: World, user: User, status: int
) -> None:
    """Or a server that is busy would have its users log in elsewhere."""
    world.challenge = "Bearer"
    world.routes[f"{RESOURCE}/mcp"] = lambda _: Reply(status)
    with pytest.raises(AuthorizationFailed, match=rf"{RESOURCE}/mcp answered {status}$"):
        await call(world.url, OAuth(show=user.show))
    assert user.shown == []


async def test_an_issuer_that_is_not_there_is_named_with_its_address(
    world: World, user: User
) -> None:
    with listen() as listener:
        nobody = f"http://127.0.0.1:{listener.getsockname()[1]}"
    world.resource["authorization_servers"] = [nobody]
    with pytest.raises(AuthorizationFailed) as raised:
        await call(world.url, OAuth(show=user.show))
    assert str(raised.value) == (
        f"the metadata of the issuer: cannot connect to "
        f"{nobody}/.well-known/oauth-authorization-server: the connection is refused"
    )


async def test_the_resource_is_named_as_it_names_itself(world: World, user: User) -> None:
    """AUTH-8, AUTH-13: or the issuer would not know it."""
    world.resource["resource"] = f"{world.origin}/"
    await call(world.url, OAuth(show=user.show))
    assert user.asked()["resource"] == f"{world.origin}/"
    assert world.at("/token")[0].form["resource"] == f"{world.origin}/"


# --- who the client is ----------------------------------------------------------------------------


async def test_it_registers_itself_as_what_it_is(world: World, user: User) -> None:
    """RFC 7591: a native program, whose answers come back to this machine."""
    await call(world.url, OAuth(show=user.show, client_name="An editor"))
    [registration] = world.at("/register")
    wish = registration.json
    assert wish["client_name"] == "An editor"
    assert wish["application_type"] == "native"
    assert wish["grant_types"] == ["authorization_code", "refresh_token"]
    assert wish["token_endpoint_auth_method"] == "none"
    [uri] = wish["redirect_uris"]
    assert uri.startswith("http://127.0.0.1:")
    assert user.asked()["redirect_uri"] == uri
    assert "authorization" not in registration.headers


@pytest.mark.parametrize("way", ["client_secret_basic", "client_secret_post", "none"])
async def test_a_client_that_is_known_says_who_it_is(world: World, user: User, way: str) -> None:
    """RFC 6749, 2.3.1: what is in a header is encoded first."""
    world.clients.add("my id")
    world.metadata["token_endpoint_auth_methods_supported"] = [way]
    secret = None if way == "none" else "s:e c/ret"
    await call(world.url, OAuth(show=user.show, client_id="my id", client_secret=secret))
    assert world.at("/register") == []
    [asked] = world.at("/token")
    sent = {name: asked.form.get(name) for name in ("client_id", "client_secret")}
    header = asked.headers.get("authorization")
    if way == "client_secret_basic":
        assert header == f"Basic {b64encode(b'my%20id:s%3Ae%20c%2Fret').decode()}"
        assert sent == {"client_id": None, "client_secret": None}
    else:
        assert header is None
        assert sent == {"client_id": "my id", "client_secret": secret}
    assert "s:e" not in user.shown[0]


async def test_a_secret_that_comes_with_a_registration_is_used(world: World, user: User) -> None:
    world.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    register = world.register

    def with_secret(seen: Seen) -> Reply:
        reply = register(seen)
        return reply._replace(body={**reply.body, "client_secret": "given"})

    world.routes["/register"] = with_secret
    await call(world.url, OAuth(show=user.show))
    assert world.at("/register")[0].json["token_endpoint_auth_method"] == "client_secret_post"
    assert world.at("/token")[0].form["client_secret"] == "given"


@pytest.mark.parametrize("taken", [True, False])
async def test_a_document_describes_the_client_to_issuers_that_read_it(
    world: World, user: User, taken: bool
) -> None:
    """Elsewhere it registers itself."""
    document = "https://client.example.com/client.json"
    world.metadata["client_id_metadata_document_supported"] = taken
    world.clients.add(document)
    await call(world.url, OAuth(show=user.show, client_document=document))
    assert (user.asked()["client_id"] == document) is taken
    assert bool(world.at("/register")) is not taken


@pytest.mark.parametrize(
    "options",
    [
        {"client_secret": "s"},
        {"client_document": "http://client.example.com/client.json"},
        {"client_document": "http://localhost/client.json"},
        {"client_document": "https://client.example.com"},
        {"client_document": "https://client.example.com/"},
        {"scopes": "a b"},
        {"scopes": ["a\nb"]},
        {"issuer": "http://login.example.com"},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused_at_once(options: dict[str, Any]) -> None:
    """SEC-16, SEC-18."""
    with pytest.raises(ValueError, match=r"client_|scopes|issuer"):
        OAuth(**options)


async def test_an_issuer_that_registers_nobody_is_told_apart(world: World, user: User) -> None:
    del world.metadata["registration_endpoint"]
    with pytest.raises(AuthorizationFailed, match="pass the client_id="):
        await call(world.url, OAuth(show=user.show))
    assert user.shown == []


async def test_a_registration_is_kept_for_the_next_login(world: World, user: User) -> None:
    """And so is the place that the browser comes back to."""
    store = MemoryTokenStore()
    await call(world.url, OAuth(show=user.show, store=store))
    world.end_tokens()
    world.refreshing.clear()
    world.faults.clear()
    await call(world.url, OAuth(show=user.show, store=store))
    assert len(world.at("/register")) == 1
    assert len(user.shown) == 2
    assert user.asked(0)["redirect_uri"] == user.asked(1)["redirect_uri"]


async def test_a_registration_that_the_issuer_has_forgotten_is_made_anew(
    world: World, user: User
) -> None:
    """An issuer with its clients in memory has been started anew."""
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


async def test_a_login_that_never_comes_back_makes_the_client_register_anew(
    world: World, user: User
) -> None:
    """The issuer may know the client no more, which it tells the user, and nobody else."""
    store = MemoryTokenStore()
    await call(world.url, OAuth(show=user.show, store=store))
    world.end_tokens()
    world.refreshing.clear()
    with pytest.raises(AuthorizationFailed, match="no login within"):
        await call(world.url, OAuth(show=lambda url: None, store=store, timeout=0.05))
    world.clients.clear()
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ
    assert len(world.at("/register")) == 2


# --- the login itself -----------------------------------------------------------------------------


async def test_every_login_has_a_state_and_a_verifier_of_its_own(world: World, user: User) -> None:
    """OAuth 2.1, 4.1: S256, and nothing that can be guessed or used twice."""
    for _ in range(2):
        await call(world.url, OAuth(show=user.show))
    one, other = user.asked(0), user.asked(1)
    assert one["code_challenge_method"] == "S256"
    for name in ("state", "code_challenge"):
        assert one[name] != other[name]
        assert len(one[name]) >= 43
    verifiers = [each.form["code_verifier"] for each in world.at("/token")]
    assert len(set(verifiers)) == 2
    assert min(map(len, verifiers)) >= 43


@pytest.mark.parametrize(
    ("challenge", "supported", "own", "asked"),
    [
        (f' scope="{READ}"', [READ, WRITE], (), {READ}),
        ("", [READ, WRITE], (), {READ, WRITE}),
        ("", None, (), set()),
        (f' scope="{READ}"', [READ, WRITE], ("more",), {READ, "more"}),
        ("", None, ("more",), {"more"}),
    ],
    ids=["challenge", "metadata", "nothing", "challenge and own", "own"],
)
async def test_scopes_are_asked_for_as_the_server_says(
    world: World,
    user: User,
    challenge: str,
    supported: list[str] | None,
    own: tuple[str, ...],
    asked: set[str],
) -> None:
    """AUTH-5: those of the challenge, else those of the metadata, else none; and one's own."""
    world.challenge = f'Bearer resource_metadata="{world.origin}{RESOURCE}/mcp",{challenge}'
    world.resource["scopes_supported"] = supported
    await call(world.url, OAuth(show=user.show, scopes=own))
    assert user.scopes() == [asked]
    assert ("scope" in user.asked()) is bool(asked)


async def test_offline_access_is_between_the_client_and_the_issuer(
    world: World, user: User
) -> None:
    """AUTH-11: no server asks for it."""
    world.metadata["scopes_supported"] = [READ, "offline_access"]
    await call(world.url, OAuth(show=user.show))
    assert user.scopes() == [{READ, "offline_access"}]
    assert user.asked()["prompt"] == "consent"


async def test_the_query_of_the_authorization_endpoint_stays(world: World, user: User) -> None:
    """RFC 6749, 3.1."""
    world.metadata["authorization_endpoint"] += "?tenant=a%26b"
    await call(world.url, OAuth(show=user.show))
    assert user.asked()["tenant"] == "a&b"


async def test_a_login_that_the_user_refuses_is_said_so(world: World, user: User) -> None:
    world.back = lambda fields: {
        "error": "access_denied",
        "error_description": "Not today",
        "state": fields["state"],
        "iss": fields["iss"],
    }
    with pytest.raises(AuthorizationFailed, match=r"Not today \(access_denied\)"):
        await call(world.url, OAuth(show=user.show))
    assert len(user.shown) == 1
    assert user.page is not None
    assert "failed" in user.page.text


async def test_nobody_is_asked_where_that_is_not_wanted(world: World, user: User) -> None:
    store = MemoryTokenStore()
    quiet = OAuth(show=user.show, store=store, interactive=False)
    with pytest.raises(AuthorizationFailed, match=f"mcpkit login {world.url}"):
        await call(world.url, quiet)
    assert (user.shown, world.at("/register")) == ([], [])
    await call(world.url, OAuth(show=user.show, store=store))
    assert await call(world.url, quiet) == READ


async def test_a_port_that_was_asked_for_is_used(
    world: World, user: User, free_tcp_port: int
) -> None:
    await call(world.url, OAuth(show=user.show, redirect_port=free_tcp_port))
    assert user.asked()["redirect_uri"] == f"http://127.0.0.1:{free_tcp_port}/callback"


# --- issuers change -------------------------------------------------------------------------------


async def test_nothing_of_one_issuer_is_used_at_another(
    world: World, elsewhere: World, user: User
) -> None:
    """AUTH-17: neither refresh token nor registration."""
    store = MemoryTokenStore()
    await call(world.url, OAuth(show=user.show, store=store))
    kept = await store.get(world.url)
    assert kept is not None
    world.end_tokens()
    world.resource["authorization_servers"] = [elsewhere.origin]
    world.good = elsewhere.good
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ
    assert len(elsewhere.at("/register")) == 1
    said = str([(each.headers, each.body, each.query) for each in elsewhere.seen])
    assert kept.refresh_token is not None
    assert kept.access_token is not None
    assert kept.refresh_token not in world.faults
    for secret in (kept.refresh_token, kept.access_token):
        assert f"'{secret}'" not in said
    assert elsewhere.grants() == ["authorization_code"]
    assert world.grants() == ["authorization_code"]
    now = await store.get(world.url)
    assert now is not None
    assert now.issuer == elsewhere.origin


async def test_a_client_that_was_given_is_not_taken_to_another_issuer(
    world: World, elsewhere: World, user: User
) -> None:
    """AUTH-17: its secret is of the issuer that it has had its first token from."""
    world.clients.add("id")
    elsewhere.clients.add("id")
    auth = OAuth(show=user.show, client_id="id", client_secret="the secret")
    await call(world.url, auth)
    world.end_tokens()
    world.resource["authorization_servers"] = [elsewhere.origin]
    with pytest.raises(AuthorizationFailed, match="another issuer"):
        await call(world.url, auth)
    assert elsewhere.at("/token") == []


async def test_a_client_may_be_of_one_issuer_alone(
    world: World, elsewhere: World, user: User
) -> None:
    """AUTH-17: ``issuer=`` says from the beginning whose it is."""
    world.clients.add("id")
    options: dict[str, Any] = {"show": user.show, "client_id": "id", "client_secret": "s"}
    with pytest.raises(AuthorizationFailed, match="another issuer"):
        await call(world.url, OAuth(**options, issuer=elsewhere.origin))
    assert world.at("/token") == []
    assert await call(world.url, OAuth(**options, issuer=f"{world.origin}/")) == READ


async def test_of_several_issuers_the_one_that_was_named_is_taken(
    world: World, elsewhere: World, user: User
) -> None:
    """RFC 9728, 2: the choice is the client's."""
    world.resource["authorization_servers"] = [elsewhere.origin, world.origin]
    assert await call(world.url, OAuth(show=user.show, issuer=world.origin)) == READ
    assert elsewhere.seen == []


async def test_leaving_revokes_and_forgets(world: World, user: User) -> None:
    store = MemoryTokenStore()
    auth = OAuth(show=user.show, store=store)
    await call(world.url, auth)
    assert await auth.log_out(world.url)
    [revoked] = world.at("/revoke")
    assert revoked.form == {"client_id": "client-1", "token": "refresh-1"}
    assert await store.get(world.url) is None
    assert not await auth.log_out(world.url)


async def test_leaving_works_without_the_issuer(world: World) -> None:
    """What is kept here is forgotten, whoever answers."""
    store = MemoryTokenStore()
    kept = Credentials(world.origin, world.url, "id", access_token="t", refresh_token="r")
    await store.set(world.url, kept)
    world.routes.clear()
    assert await OAuth(store=store).log_out(world.url)
    assert await store.get(world.url) is None
