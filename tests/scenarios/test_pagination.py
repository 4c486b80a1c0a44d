"""Lists in pages (PROTOCOL §4.7); the example app has ten entries on a page."""

from __future__ import annotations

from tests.scenarios.tapped import MODERN, TappedClient


async def test_the_pages_together_are_the_list(client: TappedClient) -> None:
    """PAGE-1, PAGE-2: the last page has no member for the cursor, not even null; CACHE-3."""
    names = [each.name for each in await client.list_tools()]
    assert len(names) == len(set(names)) > 20
    first = await client.request("tools/list")
    assert [each["name"] for each in first["tools"]] == names[:10]
    second = await client.request("tools/list", {"cursor": first["nextCursor"]})
    assert [each["name"] for each in second["tools"]] == names[10:20]
    scope = "public" if client.revision == MODERN else None
    assert first.get("cacheScope") == second.get("cacheScope") == scope
    assert "nextCursor" not in await client.request("prompts/list")
