"""Lists that change while the server runs (PROTOCOL §4.2, §4.4, §4.5)."""

from __future__ import annotations

import pytest

from mcpkit.errors import InvalidParams, ProtocolError
from tests.scenarios.tapped import MODERN, TappedClient


async def names(client: TappedClient, kind: str) -> list[str]:
    if kind == "tool":
        return [each.name for each in await client.list_tools()]
    if kind == "prompt":
        return [each.name for each in await client.list_prompts()]
    return [each.name for each in await client.list_resources()]


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
async def test_a_client_is_notified_unless_it_would_have_to_listen(
    client: TappedClient, kind: str
) -> None:
    """TOOL-14; SUB-3 on 2026-07-28."""
    for tool, offered in (("grow", True), ("shrink", False)):
        await client.call_tool(tool, {"kind": kind, "name": "fresh"})
        if client.revision != MODERN:
            await client.notification(f"notifications/{kind}s/list_changed")
        assert ("fresh" in await names(client, kind)) is offered
    await client.settle()
    assert client.notifications == []


async def test_new_entries_can_be_used_and_removed_ones_cannot(client: TappedClient) -> None:
    for kind in ("tool", "resource"):
        await client.call_tool("grow", {"kind": kind, "name": "fresh"})
    assert (await client.call_tool("fresh")).text == "new"
    assert len(await client.read_resource("new://fresh")) == 1
    for kind in ("tool", "resource"):
        await client.call_tool("shrink", {"kind": kind, "name": "fresh"})
    with pytest.raises(InvalidParams):
        await client.call_tool("fresh")
    with pytest.raises(ProtocolError):
        await client.read_resource("new://fresh")
