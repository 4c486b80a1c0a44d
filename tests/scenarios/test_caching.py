"""Hints for caches (PROTOCOL §4.8); they exist on 2026-07-28 only."""

from __future__ import annotations

import pytest

from tests.scenarios.tapped import HANDSHAKE, MODERN, TappedClient

pytestmark = pytest.mark.anyio

CACHEABLE = [
    "server/discover",
    "tools/list",
    "resources/list",
    "resources/templates/list",
    "prompts/list",
]


@pytest.mark.revisions(MODERN)
@pytest.mark.parametrize("method", CACHEABLE)
async def test_what_may_be_kept_says_for_how_long(client: TappedClient, method: str) -> None:
    """CACHE-1, DISC-4."""
    result = await client.request(method)
    assert (result["ttlMs"], result["cacheScope"]) == (30_000, "public")


@pytest.mark.revisions(MODERN)
async def test_a_resource_says_so_too(client: TappedClient) -> None:
    """CACHE-1."""
    result = await client.request("resources/read", {"uri": "note://json"})
    assert (result["ttlMs"], result["cacheScope"]) == (30_000, "public")


@pytest.mark.revisions(MODERN)
async def test_a_resource_may_have_its_own(client: TappedClient) -> None:
    result = await client.request("resources/read", {"uri": "note://hello"})
    assert (result["ttlMs"], result["cacheScope"]) == (120_000, "private")


@pytest.mark.revisions(MODERN)
async def test_calls_may_not_be_kept(client: TappedClient) -> None:
    """CACHE-1: only on the methods that it names."""
    result = await client.request("tools/call", {"name": "silence"})
    assert not {"ttlMs", "cacheScope"} & set(result)


@pytest.mark.revisions(*HANDSHAKE)
@pytest.mark.parametrize("method", CACHEABLE[1:])
async def test_there_are_no_hints_before(client: TappedClient, method: str) -> None:
    """CONT-2."""
    assert not {"ttlMs", "cacheScope"} & set(await client.request(method))
