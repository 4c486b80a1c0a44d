"""Handshake, discovery, capabilities and ping (PROTOCOL §3)."""

from __future__ import annotations

import json

from mcpkit.testing import REVISIONS
from tests.scenarios.tapped import TappedClient, modern


async def test_the_server_introduces_itself(client: TappedClient, revision: str) -> None:
    """LIFE-2, VER-1; MSG-16 on 2026-07-28, serverInfo of the handshake before; CONT-2.

    TOOL-1, RES-1, PROMPT-1, COMP-1, LOG-1, DISC-1, LIFE-8: capabilities of the registered entries;
    EXT-3 to EXT-6: extensions on every revision.
    """
    assert client.revision == revision
    assert client.instructions == "Ask for anything."
    assert client.server_capabilities == {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "logging": {},
        **({"completions": {}} if revision >= "2025-03-26" else {}),
        "extensions": {"com.example/geo": {"units": ["km"]}},
    }
    info = client.server_info
    assert info is not None
    assert (info.name, info.version) == ("scenarios", "1.2.3")
    described = (info.website_url, info.description)
    if revision >= "2025-11-25":
        assert described == ("https://example.com/", "Something of everything.")
    else:
        assert described == (None, None)


@modern
async def test_discovery_lists_every_version(client: TappedClient) -> None:
    """DISC-2, DISC-3, VER-2, MSG-16."""
    result = await client.request("server/discover")
    assert tuple(result["supportedVersions"]) == REVISIONS
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "scenarios"
    assert "serverInfo" not in result


async def test_handlers_know_their_request_and_the_state(
    client: TappedClient, revision: str
) -> None:
    facts = {"method": "tools/call", "revision": revision, "client": "mcpkit", "sampling": False}
    for number in range(2):
        meta = {"example.com/x": number}
        found = json.loads((await client.call_tool("facts", meta=meta)).text)
        assert found == {"id": found["id"], **facts, "entered": 1, "meta": meta}
