"""Tokens that end or lack scopes: all calls share a refresh or a login, and few are needed."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import anyio
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
from mcpkit.client.auth.base import server_key
from mcpkit.errors import ConnectionClosed
from tests.auth.browser import fields_of
from tests.auth.client.world import READ, SERVER, WRITE, User, World, call, herd, kept, log_in
from tests.auth.issuer import Reply, Seen
from tests.kit import PATIENCE, Recorder


@asynccontextmanager
async def connected(world: World, auth: OAuth, **options: Any) -> AsyncGenerator[Client, None]:
    with anyio.fail_after(PATIENCE):
        async with Client(world.url, auth=auth, revision="2026-07-28", **options) as client:
            yield client


async def kept_by(world: World, user: User, **changed: Any) -> MemoryTokenStore:
    store = MemoryTokenStore()
    await log_in(world, user, store, **changed)
    return store


async def test_a_token_is_renewed_before_it_ends(world: World, user: User) -> None:
    """RFC 6749, 6: the resource is named again, and the next refresh token is kept."""
    store = await kept_by(world, user, expires_at=0.0)
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ
    assert world.paths() == [SERVER, "/token", "/mcp"]
    [renewed] = world.at("/token")
    assert renewed.form == {
        "grant_type": "refresh_token",
        "refresh_token": "refresh-1",
        "client_id": "client-1",
        "resource": world.url,
    }
    found = await kept(store, world)
    assert (found.access_token, found.refresh_token) == ("token-2", "refresh-2")
    assert (found.scopes, found.is_fresh) == ((READ,), True)
    assert user.shown == []


async def test_a_token_that_is_refused_is_renewed(world: World, user: User) -> None:
    """RFC 6749, 6: an issuer need not give a new refresh token."""
    store = await kept_by(world, user)
    world.end_tokens()
    world.told = lambda answer: {**answer, "refresh_token": None}
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ
    assert (world.grants(), user.shown) == (["refresh_token"], [])
    found = await kept(store, world)
    assert (found.access_token, found.refresh_token) == ("token-2", "refresh-1")


@pytest.mark.parametrize("renewed", [True, False])
async def test_a_useless_refresh_leads_to_a_login(world: World, user: User, renewed: bool) -> None:
    """A token that was renewed in vain is not renewed again.

    AUTH-6: the login requests the scopes that were there, or a second one would follow.
    """
    store = await kept_by(world, user, scopes=(READ, WRITE))
    world.end_tokens()

    def token(seen: Seen) -> Reply:
        if seen.form["grant_type"] != "refresh_token":
            return world.token(seen)
        reply = world.token(seen) if renewed else Reply(400, {"error": "invalid_grant"})
        world.end_tokens()
        return reply

    world.routes["/token"] = token
    assert await call(world.url, OAuth(show=user.show, store=store), "write") == f"{READ} {WRITE}"
    assert world.grants() == ["refresh_token", "authorization_code"]
    assert user.scopes() == [{READ, WRITE}]


@pytest.mark.parametrize("lasts", [0, -5, 5, "5", 29, None, "soon", 10**400, True, [], 1e308])
async def test_a_token_with_any_lifetime_is_used(world: World, user: User, lasts: Any) -> None:
    """It is good as long as the server takes it."""
    world.lifetime = lasts
    world.told = lambda answer: {**answer, "refresh_token": None}
    async with connected(world, OAuth(show=user.show)) as client:
        for _ in range(3):
            assert (await client.call_tool("read")).text == READ
    assert len(user.shown) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_a_login_survives_a_busy_issuer(world: World, user: User, status: int) -> None:
    """A token that is still good is used; the refresh token does when the issuer is back."""
    store = await kept_by(world, user, expires_at=0.0)
    world.routes["/token"] = lambda _: Reply(status)
    auth = OAuth(show=user.show, store=store)
    assert await call(world.url, auth) == READ
    world.end_tokens()
    with pytest.raises(AuthorizationFailed, match=str(status)):
        await call(world.url, auth)
    world.routes["/token"] = world.token
    assert await call(world.url, auth) == READ
    assert user.shown == []


async def test_issuers_may_be_replaced(world: World, elsewhere: World, user: User) -> None:
    """AUTH-17: an issuer that has no metadata any more does not stand in the way."""
    store = await kept_by(world, user, expires_at=0.0)
    world.end_tokens()
    del world.routes[SERVER]
    world.resource["authorization_servers"] = [elsewhere.origin]
    world.good = elsewhere.good
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ
    assert elsewhere.grants() == ["authorization_code"]


@pytest.mark.parametrize("lifetime", [3600, 5])
@pytest.mark.parametrize("is_refused", [True, False])
async def test_calls_share_a_refresh(
    world: World, user: User, is_refused: bool, lifetime: int
) -> None:
    """And with a token that lasts for seconds, one at a time."""
    store = MemoryTokenStore()
    async with connected(world, OAuth(show=user.show, store=store)) as client:
        found = await kept(store, world)
        world.lifetime = lifetime
        if is_refused:
            world.end_tokens()
        else:
            await store.set(world.url, replace(found, expires_at=0.0))
        assert await herd(client) == [READ] * 20
    assert world.grants() == ["authorization_code", "refresh_token"]
    assert (len(user.shown), world.faults) == (1, [])


@pytest.mark.parametrize("fails", [True, False])
async def test_calls_share_one_login(world: World, user: User, fails: bool) -> None:
    """A user who refuses is not asked again by every call that has waited."""
    async with connected(world, OAuth(show=user.show)) as client:
        world.end_logins()
        if fails:
            world.back = world.denied
        found = await herd(client)
    assert len(user.shown) == 2
    if fails:
        assert [type(each) for each in found] == [AuthorizationFailed] * 20
        assert all("access_denied" in str(each) for each in found)
    else:
        assert found == [READ] * 20


async def test_no_time_of_a_call_is_used_while_the_user_logs_in(world: World, user: User) -> None:
    """Neither of calls that were running before, nor of those that begin meanwhile."""
    slow = anyio.Event()

    async def show(url: str) -> None:
        slow.set()
        await anyio.sleep(0.6)
        await user.show(url)

    auth = OAuth(show=user.show)
    async with connected(world, auth, timeout=0.3) as client:
        auth._show = show
        world.end_logins()
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "read")
            await slow.wait()
            group.start_soon(client.call_tool, "read")


async def test_a_user_has_so_long_and_no_longer(world: World) -> None:
    """Neither to see the address, nor to log in."""
    shown: list[str] = []
    for show in (shown.append, lambda url: anyio.sleep_forever()):
        with pytest.raises(AuthorizationFailed, match=r"no login within 0\.05 seconds"):
            await call(world.url, OAuth(show=show, timeout=0.05))
    assert len(shown) == 1


async def test_a_cancelled_login_leaves_nothing(world: World, tmp_path: Any, user: User) -> None:
    """Neither something that listens nor a file; and the next login is like any."""
    store = FileTokenStore(tmp_path / "kept")
    show = Recorder()
    async with anyio.create_task_group() as group:
        group.start_soon(call, world.url, OAuth(show=show, store=store))
        [url] = await show.wait()
        port = urlsplit(fields_of(url)["redirect_uri"]).port or 0
        async with await anyio.connect_tcp("127.0.0.1", port):
            pass
        group.cancel_scope.cancel()
    with pytest.raises(OSError, match=r"."):
        await anyio.connect_tcp("127.0.0.1", port)
    assert list((tmp_path / "kept").glob("*")) == []
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ


async def test_a_cancelled_refresh_is_stored(world: World, tmp_path: Any, user: User) -> None:
    """The refresh token has been used, and cannot be used again."""
    store = FileTokenStore(tmp_path)
    await log_in(world, user, store, expires_at=0.0)
    arrived, go_on = threading.Event(), threading.Event()

    async def slowly(seen: Seen) -> Reply:
        arrived.set()
        await world.until(go_on)
        return world.token(seen)

    world.routes["/token"] = slowly
    async with anyio.create_task_group() as group:
        group.start_soon(call, world.url, OAuth(show=user.show, store=store))
        assert await anyio.to_thread.run_sync(arrived.wait, PATIENCE)
        group.cancel_scope.cancel()
        go_on.set()
    world.routes["/token"] = world.token
    found = await kept(store, world)
    assert found.refresh_token == "refresh-2"
    with anyio.fail_after(PATIENCE):
        async with store.lock(server_key(world.url)):
            pass
    assert await call(world.url, OAuth(show=user.show, store=store)) == READ
    assert (user.shown, world.faults) == ([], [])


async def test_the_end_of_a_session_asks_for_no_login(world: World, user: User) -> None:
    def serve(seen: Seen) -> Reply:
        if seen.verb == "DELETE" or seen.token not in world.good:
            return world.refuse()
        if "id" not in seen.json:
            return Reply(202)
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "serverInfo": {"name": "old", "version": "1"},
        }
        answer = {"jsonrpc": "2.0", "id": seen.json["id"], "result": result}
        return Reply(200, answer, {"Mcp-Session-Id": "s"})

    world.routes["/mcp"] = serve
    async with Client(world.url, auth=OAuth(show=user.show), revision="2025-11-25"):
        user.shown.clear()
        world.end_logins()
    assert [each.verb for each in world.at("/mcp")][-1] == "DELETE"
    assert user.shown == []


async def test_credentials_are_of_one_server(world: World, elsewhere: World, user: User) -> None:
    """AUTH-17: another server has to get tokens of its own, even from the same issuer."""
    store = MemoryTokenStore()
    auth = OAuth(show=user.show, store=store)
    await call(world.url, auth)
    elsewhere.resource["authorization_servers"] = [world.origin]
    elsewhere.good = world.good
    await call(elsewhere.url, auth)
    assert elsewhere.at("/mcp")[0].token == ""
    assert user.asked()["resource"] == elsewhere.url
    assert len({user.asked(0)["client_id"], user.asked(1)["client_id"]}) == 2


async def test_a_store_may_be_used_on_one_event_loop_after_another() -> None:
    """As scripts do, which run one loop for each thing."""
    store, kept = MemoryTokenStore(), Credentials("https://a.example.com")

    async def use() -> None:
        async with store.lock("u"):
            await store.set("u", kept)

    for _ in range(2):
        await anyio.to_thread.run_sync(anyio.run, use)
    assert await store.get("u") == kept


# --- missing scopes -------------------------------------------------------------------------------


async def test_a_missing_scope_is_requested_with_the_others(world: World, user: User) -> None:
    """AUTH-6: the challenge names what is missing; the new token has to do for the rest as well."""
    world.needs = {"write": WRITE, "share": "notes:share"}
    async with connected(world, OAuth(show=user.show)) as client:
        assert (await client.call_tool("read")).text == READ
        for tool in ("write", "share", "write", "read"):
            found = (await client.call_tool(tool)).text
    assert found == f"{READ} {WRITE} notes:share"
    assert user.scopes() == [{READ}, {READ, WRITE}, {READ, WRITE, "notes:share"}]
    assert world.grants() == ["authorization_code"] * 3
    assert len(world.at("/register")) == 1


async def test_a_scope_is_not_requested_twice(world: World, user: User) -> None:
    """AUTH-6: the same challenge after the login ends it, and later calls have the answer."""
    give = world.give
    world.give = lambda scopes: give((READ,))  # type: ignore[method-assign]
    async with connected(world, OAuth(show=user.show)) as client:
        for _ in range(3):
            with pytest.raises(ConnectionClosed, match="403"):
                await client.call_tool("write")
        assert (await client.call_tool("read")).text == READ
    assert user.scopes() == [{READ}, {READ, WRITE}]


async def test_a_step_up_that_the_user_refuses_leaves_the_token(world: World, user: User) -> None:
    async with connected(world, OAuth(show=user.show)) as client:
        world.back = world.denied
        with pytest.raises(AuthorizationFailed, match=r"Not today \(access_denied\)"):
            await client.call_tool("write")
        assert (await client.call_tool("read")).text == READ
    assert len(user.shown) == 2
    assert user.page is not None
    assert "failed" in user.page.text


async def test_many_calls_that_need_more_have_one_login(world: World, user: User) -> None:
    async with connected(world, OAuth(show=user.show)) as client:
        assert await herd(client, "write") == [f"{READ} {WRITE}"] * 20
    assert len(user.shown) == 2


async def test_logins_are_limited(world: World, user: User) -> None:
    """SEC-17: a server cannot have its user log in without end, nor shut them out for good."""
    world.needs = {f"tool-{each}": f"scope-{each}" for each in range(3)}
    auth = OAuth(show=user.show)
    async with connected(world, auth) as client:
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
