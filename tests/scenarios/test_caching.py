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
async def test_what_may_be_kept_says_for_how_long(client: TappedClient) -> None:
    """CACHE-1, DISC-4: lists and resources, which may have hints of their own; no calls."""
    for method in CACHEABLE:
        result = await client.request(method)
        assert (result["ttlMs"], result["cacheScope"]) == (30_000, "public")
    result = await client.request("resources/read", {"uri": "note://json"})
    assert (result["ttlMs"], result["cacheScope"]) == (30_000, "public")
    result = await client.request("resources/read", {"uri": "note://hello"})
    assert (result["ttlMs"], result["cacheScope"]) == (120_000, "private")
    result = await client.request("tools/call", {"name": "silence"})
    assert not {"ttlMs", "cacheScope"} & set(result)


@pytest.mark.revisions(*HANDSHAKE)
async def test_there_are_no_hints_before(client: TappedClient) -> None:
    """CONT-2."""
    for method in CACHEABLE[1:]:
        assert not {"ttlMs", "cacheScope"} & set(await client.request(method))
