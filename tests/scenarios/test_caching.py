"""Hints for caches (PROTOCOL §4.8); they exist on 2026-07-28 only."""

from __future__ import annotations

from typing import Any

from tests.scenarios.tapped import MODERN, TappedClient


async def test_what_may_be_kept_says_for_how_long(client: TappedClient) -> None:
    """CACHE-1, DISC-4, CONT-2: lists and resources, which may have hints of their own; no calls."""
    by_default = {"ttlMs": 30_000, "cacheScope": "public"}
    lists = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]
    if client.revision == MODERN:
        lists.append("server/discover")
    requests: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        *((method, {}, by_default) for method in lists),
        ("resources/read", {"uri": "note://json"}, by_default),
        ("resources/read", {"uri": "note://hello"}, {"ttlMs": 120_000, "cacheScope": "private"}),
        ("tools/call", {"name": "silence"}, {}),
    ]
    for method, params, hints in requests:
        result = await client.request(method, params)
        found = {name: result[name] for name in by_default if name in result}
        assert found == (hints if client.revision == MODERN else {}), method
