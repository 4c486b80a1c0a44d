"""Tokens from elsewhere, and what any source of tokens may rely on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any
from unittest.mock import AsyncMock

import pytest
from starlette.responses import StreamingResponse

from mcpkit import Client
from mcpkit.client.auth import BearerToken, HttpAuth, HttpRequest, OAuth
from mcpkit.client.auth.base import server_key
from mcpkit.errors import ConnectionClosed
from tests.auth.client.world import READ, User, World, call
from tests.auth.issuer import Reply, Seen


@pytest.mark.parametrize(
    "given",
    ["a-token", lambda: "a-token", AsyncMock(return_value="a-token")],
    ids=["text", "function", "async function"],
)
async def test_a_token_is_sent_as_it_is(world: World, given: Any) -> None:
    """AUTH-10: in the header, for every request."""
    world.good["a-token"] = (READ,)
    assert await call(world.url, given) == READ
    assert {each.headers["authorization"] for each in world.seen} == {"Bearer a-token"}


async def test_a_token_that_is_refused_is_not_repeated(world: World) -> None:
    """SEC-13: neither to the server nor in the error, also if that has it."""
    world.routes["/mcp"] = lambda seen: Reply(401, f"bad token {seen.token}".encode())
    auth = BearerToken("a-secret-token")
    with pytest.raises(ConnectionClosed, match="401") as raised:
        await call(world.url, auth)
    assert "a-secret-token" not in str(raised.value) + repr(auth)
    assert len(world.seen) == 1


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "a\r\nX: 1", "tökén", "a\0b", 5, None, b"t"])
async def test_a_token_fits_in_a_header(world: World, token: Any) -> None:
    """SEC-18: given at once, or later by a function."""
    if isinstance(token, str):
        with pytest.raises(ValueError, match="a token is") as raised:
            BearerToken(token)
        assert token == "" or token not in str(raised.value)
    with pytest.raises(ValueError, match="a token is"):
        await call(world.url, BearerToken(lambda: token))
    assert world.seen == []


@pytest.mark.parametrize("given", [5, b"token", OAuth, ["token"]], ids=str)
def test_other_sources_are_refused_at_once(given: Any) -> None:
    with pytest.raises(TypeError, match="auth= takes"):
        Client("http://127.0.0.1/mcp", auth=given)


@pytest.mark.parametrize(
    "url", ["http://mcp.example.com/?key=a-secret", "https://user:a-secret@mcp.example.com:x/mcp"]
)
async def test_an_address_that_is_refused_is_shown_without_secrets(url: str) -> None:
    """SEC-13, SEC-16."""
    with pytest.raises(ValueError, match=r".") as raised:
        await BearerToken("t").headers(HttpRequest("POST", url, url))
    assert "a-secret" not in str(raised.value)


class Noting(HttpAuth):
    def __init__(self) -> None:
        self.asked: list[tuple[HttpRequest, dict[str, str]]] = []
        self.refusals: list[tuple[HttpRequest, int, Mapping[str, list[str]]]] = []

    async def headers(self, request: HttpRequest) -> Mapping[str, str]:
        found = {"Authorization": f"Bearer token-{len(self.refusals)}"}
        self.asked.append((request, found))
        return found

    async def refused(self, request: HttpRequest, sent: Any, status: int, answer: Any) -> bool:
        assert sent == self.asked[-1][1]
        self.refusals.append((request, status, answer))
        return True


async def test_a_custom_source_sees_the_refusal(world: World) -> None:
    """SEC-17: there is a limit for one that always tries again."""
    world.good["token-1"] = (READ,)
    noting = Noting()
    assert await call(world.url, noting) == READ
    [(request, status, answer)] = noting.refusals
    assert (request, status) == (HttpRequest("POST", world.url, world.url), 401)
    assert answer["www-authenticate"][0].startswith("Bearer resource_metadata=")
    world.good.clear()
    world.seen.clear()
    with pytest.raises(ConnectionClosed, match="401"):
        await call(world.url, noting)
    assert len(world.seen) == 5


async def test_after_a_redirect_it_is_still_the_same_server(world: World, user: User) -> None:
    """One login does for the address that the user knows, and the one that it leads to."""
    world.routes["/"] = lambda _: Reply(307, b"", {"Location": "/mcp"})
    noting = Noting()
    world.good["token-0"] = (READ,)
    url = f"{world.origin}/"
    assert await call(url, noting) == READ
    assert [each[0] for each in noting.asked[:2]] == [
        HttpRequest("POST", url, url),
        HttpRequest("POST", world.url, url),
    ]
    world.good.clear()
    auth = OAuth(show=user.show)
    for _ in range(2):
        assert await call(url, auth) == READ
    assert len(user.shown) == 1


async def test_an_old_server_has_one_token_for_both_its_endpoints(world: World, user: User) -> None:
    """HTTP+SSE: what is sent goes to another address on the same host."""
    world.resource["resource"] = f"{world.origin}/sse"
    world.routes["/messages"] = lambda seen: (
        Reply(202) if seen.token in world.good else world.refuse()
    )

    async def events() -> AsyncIterator[str]:
        yield "event: endpoint\ndata: /messages?session=1\n\n"
        await world.until(world.over)

    def sse(seen: Seen) -> Reply | StreamingResponse:
        if seen.token not in world.good:
            return world.refuse()
        if seen.verb == "POST":
            return Reply(405)
        return StreamingResponse(events(), media_type="text/event-stream")

    world.routes["/sse"] = sse
    options: Any = {"revision": "2024-11-05", "timeout": 0.3}
    with pytest.raises(TimeoutError):  # nothing more comes on this stream
        async with Client(f"{world.origin}/sse", auth=OAuth(show=user.show), **options):
            pass
    assert len(user.shown) == 1
    assert [each.token for each in world.at("/messages")] == ["token-1"]


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://H.example.com/mcp", "https://h.example.com/mcp"),
        ("HTTPS://h.example.com:443/mcp?a=b#c", "https://h.example.com/mcp"),
        ("https://me:secret@h.example.com/Mcp/", "https://h.example.com/Mcp/"),
        ("http://127.0.0.1:80", "http://127.0.0.1/"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/"),
        ("https://[::1]:443/mcp", "https://[::1]/mcp"),
    ],
)
def test_servers_are_known_by_their_address_without_the_rest(url: str, place: str) -> None:
    """AUTH-13."""
    assert server_key(url) == place
