"""Missing scopes: the user logs in once more, for the scopes that were there and the new ones."""

from __future__ import annotations

import time

import pytest

from mcpkit import Client
from mcpkit.client.auth import AuthorizationFailed, ClientCredentials, MemoryTokenStore, OAuth
from mcpkit.errors import ConnectionClosed
from tests.auth.client.world import READ, WRITE, Reply, User, World, call, herd

pytestmark = pytest.mark.anyio


async def test_a_missing_scope_is_requested_with_the_others(world: World, user: User) -> None:
    """AUTH-6: the challenge names what is missing; the new token has to do for the rest as well."""
    world.needs = {"write": WRITE, "share": "notes:share"}
    async with Client(world.url, auth=OAuth(show=user.show), revision="2026-07-28") as client:
        assert (await client.call_tool("read")).text == READ
        for tool in ("write", "share", "write", "read"):
            found = (await client.call_tool(tool)).text
    assert found == f"{READ} {WRITE} notes:share"
    assert user.scopes() == [{READ}, {READ, WRITE}, {READ, WRITE, "notes:share"}]
    assert world.grants() == ["authorization_code"] * 3
    assert len(world.at("/register")) == 1


async def test_they_are_not_lost_with_the_token(world: World, user: User) -> None:
    """AUTH-6: also when it was renewed, and when that was in vain."""
    store = MemoryTokenStore()
    await call(world.url, OAuth(show=user.show, store=store), "write")
    for end in (world.end_tokens, world.end_logins):
        end()
        found = await call(world.url, OAuth(show=user.show, store=store), "write")
        assert found == f"{READ} {WRITE}"
    assert user.scopes() == [{READ}, {READ, WRITE}, {READ, WRITE}]


async def test_a_scope_is_not_requested_twice(world: World, user: User) -> None:
    """AUTH-6: the same challenge after the login ends it, and later calls have the answer."""
    give = world.give
    world.give = lambda scopes: give((READ,))  # type: ignore[method-assign]
    async with Client(world.url, auth=OAuth(show=user.show), revision="2026-07-28") as client:
        for _ in range(3):
            with pytest.raises(ConnectionClosed, match="403"):
                await client.call_tool("write")
        assert (await client.call_tool("read")).text == READ
    assert user.scopes() == [{READ}, {READ, WRITE}]


async def test_a_step_up_that_the_user_refuses_leaves_the_token(world: World, user: User) -> None:
    async with Client(world.url, auth=OAuth(show=user.show), revision="2026-07-28") as client:
        world.back = world.denied
        with pytest.raises(AuthorizationFailed, match=r"Not today \(access_denied\)"):
            await client.call_tool("write")
        assert (await client.call_tool("read")).text == READ
    assert len(user.shown) == 2
    assert user.page is not None
    assert "failed" in user.page.text


async def test_many_calls_that_need_more_have_one_login(world: World, user: User) -> None:
    async with Client(world.url, auth=OAuth(show=user.show), revision="2026-07-28") as client:
        assert await herd(client, "write") == [f"{READ} {WRITE}"] * 20
    assert len(user.shown) == 2


async def test_logins_are_limited(world: World, user: User) -> None:
    """SEC-17: a server cannot have its user log in without end, nor shut them out for good."""
    world.needs = {f"tool-{each}": f"scope-{each}" for each in range(3)}
    auth = OAuth(show=user.show)
    async with Client(world.url, auth=auth, revision="2026-07-28") as client:
        for tool in ("tool-0", "tool-1"):
            await client.call_tool(tool)
        with pytest.raises(AuthorizationFailed, match="3 logins within 30 seconds"):
            await client.call_tool("tool-2")
        auth._logins._clock = lambda: time.monotonic() + 30
        await client.call_tool("tool-2")
    assert len(user.shown) == 4


async def test_what_is_asked_for_has_a_bound(world: World, user: User) -> None:
    """SEC-17: a server that wants ever more scopes does not get ever longer addresses."""
    world.resource["scopes_supported"] = [f"scope-{each}" for each in range(1000)]
    world.challenge = world.challenge.partition(", scope")[0]
    await call(world.url, OAuth(show=user.show))
    assert len(user.scopes()[0]) == 200


async def test_a_program_asks_for_more_by_itself(world: World) -> None:
    """AUTH-6."""
    auth = ClientCredentials("id", "secret")
    assert await call(world.url, auth, "write") == f"{READ} {WRITE}"
    assert [each.form["scope"] for each in world.at("/token")] == [READ, f"{READ} {WRITE}"]


@pytest.mark.parametrize("said", ["", 'Bearer error="invalid_request"', "Basic realm=x"])
async def test_another_403_is_the_answer(world: World, user: User, said: str) -> None:
    """AUTH-12: forbidden is forbidden."""
    reply = Reply(403, b"no", {"WWW-Authenticate": said})
    world.routes["/mcp"] = lambda seen: reply if b"tools/call" in seen.body else world.serve(seen)
    with pytest.raises(ConnectionClosed, match="403"):
        await call(world.url, OAuth(show=user.show))
    assert len(user.shown) == 1
