"""Lists in pages (PROTOCOL §4.7); the example app has ten entries on a page."""

from __future__ import annotations

import pytest

from mcpkit.errors import InvalidParams
from tests.scenarios.tapped import MODERN, TappedClient

pytestmark = pytest.mark.anyio

LISTS = ["tools/list", "resources/list", "resources/templates/list", "prompts/list"]


async def test_the_pages_together_are_the_list(client: TappedClient) -> None:
    """PAGE-1, PAGE-2: the last page has no member for the cursor, not even null."""
    names = [each.name for each in await client.list_tools()]
    assert len(names) == len(set(names)) > 20
    first = await client.request("tools/list")
    assert [each["name"] for each in first["tools"]] == names[:10]
    second = await client.request("tools/list", {"cursor": first["nextCursor"]})
    assert [each["name"] for each in second["tools"]] == names[10:20]
    assert "nextCursor" not in await client.request("prompts/list")


async def test_a_cursor_survives_what_is_added_and_removed(client: TappedClient) -> None:
    """PAGE-4."""
    cursor = (await client.request("tools/list"))["nextCursor"]
    page = await client.request("tools/list", {"cursor": cursor})
    await client.call_tool("grow", {"kind": "tool", "name": "meanwhile"})
    try:
        again = await client.request("tools/list", {"cursor": cursor})
        assert again["tools"] == page["tools"]
    finally:
        await client.call_tool("shrink", {"kind": "tool", "name": "meanwhile"})


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("cursor", ["", "nonsense", "bm90IGEgY3Vyc29y", "é", 7])
async def test_a_bad_cursor(client: TappedClient, method: str, cursor: object) -> None:
    """PAGE-3."""
    with pytest.raises(InvalidParams):
        await client.request(method, {"cursor": cursor})


async def test_a_cursor_of_another_list(client: TappedClient) -> None:
    """PAGE-3."""
    cursor = (await client.request("tools/list"))["nextCursor"]
    with pytest.raises(InvalidParams):
        await client.request("prompts/list", {"cursor": cursor})


@pytest.mark.revisions(MODERN)
async def test_all_pages_have_the_same_scope(client: TappedClient) -> None:
    """CACHE-3."""
    first = await client.request("tools/list")
    second = await client.request("tools/list", {"cursor": first["nextCursor"]})
    assert first["cacheScope"] == second["cacheScope"] == "public"
