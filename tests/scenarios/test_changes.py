"""Lists that change while the server runs (PROTOCOL §4.2, §4.4, §4.5)."""

from __future__ import annotations

import pytest

from mcpkit.errors import InvalidParams, ProtocolError
from tests.scenarios.tapped import HANDSHAKE, MODERN, TappedClient

pytestmark = pytest.mark.anyio

KINDS = ["tool", "prompt", "resource"]


async def names(client: TappedClient, kind: str) -> list[str]:
    if kind == "tool":
        return [each.name for each in await client.list_tools()]
    if kind == "prompt":
        return [each.name for each in await client.list_prompts()]
    return [each.name for each in await client.list_resources()]


@pytest.mark.revisions(*HANDSHAKE)
@pytest.mark.parametrize("kind", KINDS)
async def test_the_client_is_told(client: TappedClient, kind: str) -> None:
    """TOOL-14."""
    method = f"notifications/{kind}s/list_changed"
    await client.call_tool("grow", {"kind": kind, "name": "fresh"})
    await client.notification(method)
    assert "fresh" in await names(client, kind)
    await client.call_tool("shrink", {"kind": kind, "name": "fresh"})
    await client.notification(method)
    assert "fresh" not in await names(client, kind)


@pytest.mark.revisions(MODERN)
@pytest.mark.parametrize("kind", KINDS)
async def test_nobody_is_told_who_does_not_listen(client: TappedClient, kind: str) -> None:
    """SUB-3, TOOL-14."""
    await client.call_tool("grow", {"kind": kind, "name": "fresh"})
    assert "fresh" in await names(client, kind)
    await client.call_tool("shrink", {"kind": kind, "name": "fresh"})
    await client.settle()
    assert client.notifications == []


async def test_what_is_new_can_be_used_and_what_is_gone_cannot(client: TappedClient) -> None:
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
