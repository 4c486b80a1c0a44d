"""Tokens that are bound to a key of the client (DPoP, RFC 9449)."""

from __future__ import annotations

from typing import Any

import anyio
import jwt
import pytest

from mcpkit import Client
from mcpkit.client.auth import (
    AuthorizationFailed,
    ClientCredentials,
    Credentials,
    FileTokenStore,
    MemoryTokenStore,
    OAuth,
)
from tests.auth.client.world import READ, User, World, call, kept, log_in
from tests.auth.issuer import Reply


def wants_proof(world: World, *, challenge: bool = True) -> None:
    """The server and its issuer take tokens with proofs alone."""
    world.kind = "DPoP"
    if challenge:
        world.challenge = world.challenge.replace("Bearer", 'DPoP algs="ES256",')


async def test_every_request_has_a_proof(world: World, user: User) -> None:
    """RFC 9449, 4.2 and 7.1: each is for one request; `World` checks signature and claims."""
    wants_proof(world)
    async with Client(world.url, auth=OAuth(show=user.show), revision="2026-07-28") as client:
        for _ in range(3):
            assert (await client.call_tool("read")).text == READ
    sent = [each for each in [*world.at("/mcp"), *world.at("/token")] if "dpop" in each.headers]
    unsigned: Any = {"verify_signature": False}
    proofs = [jwt.decode(each.headers["dpop"], options=unsigned) for each in sent]
    assert len({each["jti"] for each in proofs}) == len(sent) == 5
    assert all(each.headers["authorization"].startswith("DPoP ") for each in sent[:-1])
    assert (world.faults, len(user.shown)) == ([], 1)


@pytest.mark.parametrize("there", [True, False])
async def test_a_nonce_is_repeated_in_the_next_proof(world: World, user: User, there: bool) -> None:
    """RFC 9449, 8 and 9: no token is lost, and there is no second login."""
    wants_proof(world)
    world.nonce = "one" if there else ""
    async with Client(world.url, auth=OAuth(show=user.show), revision="2026-07-28") as client:
        for nonce in ("one", "two", "three"):
            world.nonce = nonce
            assert (await client.call_tool("read")).text == READ
    assert (world.faults, len(user.shown), len(world.codes)) == ([], 1, 0)


async def test_a_nonce_that_is_never_right_ends_it(world: World, user: User) -> None:
    """SEC-17."""
    wants_proof(world)
    async with Client(world.url, auth=OAuth(show=user.show), revision="2026-07-28") as client:
        before = len(world.at("/mcp"))
        said = {"WWW-Authenticate": 'DPoP error="use_dpop_nonce"'}
        world.routes["/mcp"] = lambda _: Reply(
            401, b"", {**said, "DPoP-Nonce": world.name("nonce")}
        )
        with pytest.raises(Exception, match="401"):
            await client.call_tool("read")
        assert len(world.at("/mcp")) - before == 5
    assert len(user.shown) == 1


async def test_keys_and_nonces_are_not_shared(world: World, elsewhere: World, user: User) -> None:
    """Two servers whose tokens were got with different keys, used in turns."""
    store = MemoryTokenStore()
    for each in (world, elsewhere):
        wants_proof(each)
        each.nonce = f"of {each.origin}"
        await call(each.url, OAuth(show=user.show, store=store))
    kept = [await store.get(each.url) for each in (world, elsewhere)]
    assert len({each and each.proof_key for each in kept}) == 2
    auth = OAuth(show=user.show, store=store)
    found: list[str] = []

    async def use(url: str) -> None:
        for _ in range(3):
            found.append(await call(url, auth))

    async with anyio.create_task_group() as group:
        for each in (world, elsewhere):
            group.start_soon(use, each.url)
    assert found == [READ] * 6
    assert world.faults == elsewhere.faults == []
    assert len(user.shown) == 2


async def test_the_key_is_kept_with_the_token(world: World, user: User, tmp_path: Any) -> None:
    wants_proof(world)
    before = await log_in(world, user, FileTokenStore(tmp_path), expires_at=0.0)
    store = FileTokenStore(tmp_path)
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ
    renewed = await kept(store, world)
    assert renewed.proof_key == before.proof_key
    assert renewed.access_token != before.access_token
    assert (user.shown, world.faults) == ([], [])


async def test_proofs_are_made_on_request_and_by_programs_too(world: World, user: User) -> None:
    """RFC 9449, 5: then no token without one will do, which a thief could use."""
    with pytest.raises(AuthorizationFailed, match="bind tokens to a key"):
        await call(world.url, OAuth(show=user.show, proof=True))
    assert [each.token for each in world.at("/mcp")] == [""]
    wants_proof(world, challenge=False)
    assert await call(world.url, OAuth(show=user.show, proof=True)) == READ
    wants_proof(world)
    world.nonce = "n"
    assert await call(world.url, ClientCredentials("id", "secret")) == READ
    assert world.faults == []


async def test_a_token_is_not_renewed_into_one_without_a_proof(world: World, user: User) -> None:
    """RFC 9449, 5: the user logs in instead, where the server can say what it wants."""
    wants_proof(world)
    store = MemoryTokenStore()
    await call(world.url, OAuth(show=user.show, store=store))
    world.end_tokens()
    weak: list[str] = []

    def weaken(answer: dict[str, Any]) -> dict[str, Any]:
        if world.grants()[-1] == "refresh_token":
            weak.append(answer["access_token"])
            return {**answer, "token_type": "Bearer"}
        return answer

    world.told = weaken
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ
    assert len(weak) == 1
    assert weak[0] not in [each.token for each in world.at("/mcp")]
    assert len(user.shown) == 2


async def test_an_unreadable_key_is_reported(world: World, user: User) -> None:
    """SEC-13: and not what it is."""
    store = MemoryTokenStore()
    kept = Credentials(world.origin, world.url, "id", access_token="t", proof_key="the bad key")
    await store.set(world.url, kept)
    with pytest.raises(AuthorizationFailed, match="key of the token") as raised:
        await call(world.url, OAuth(show=user.show, store=store))
    assert "the bad key" not in str(raised.value)
