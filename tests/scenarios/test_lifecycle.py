"""Handshake, discovery, capabilities and ping (PROTOCOL §3)."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from mcpkit.testing import REVISIONS
from tests.scenarios.conftest import Connect
from tests.scenarios.tapped import HANDSHAKE, MODERN, MODERN_META, PATIENCE, TappedClient

pytestmark = pytest.mark.anyio

handshake = pytest.mark.revisions(*HANDSHAKE)
modern = pytest.mark.revisions(MODERN)


async def test_the_server_introduces_itself(client: TappedClient, revision: str) -> None:
    """LIFE-2, VER-1; MSG-16 on 2026-07-28, serverInfo of the handshake before; CONT-2."""
    assert client.revision == revision
    assert client.instructions == "Ask for anything."
    info = client.server_info
    assert info is not None
    assert (info.name, info.version) == ("scenarios", "1.2.3")
    described = (info.website_url, info.description)
    if revision >= "2025-11-25":
        assert described == ("https://example.com/", "Something of everything.")
    else:
        assert described == (None, None)


async def test_capabilities_are_what_is_registered(client: TappedClient, revision: str) -> None:
    """TOOL-1, RES-1, PROMPT-1, COMP-1, LOG-1, DISC-1, LIFE-8."""
    completions: dict[str, Any] = {"completions": {}} if revision >= "2025-03-26" else {}
    assert client.server_capabilities == {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "logging": {},
        **completions,
    }


@pytest.mark.not_over("sse")  # the client opens the stream with the handshake
@handshake
@pytest.mark.parametrize("asked", ["1999-01-01", MODERN, "garbage"])
async def test_an_unknown_version_is_answered_with_the_newest_that_has_a_handshake(
    connect: Connect, asked: str
) -> None:
    """LIFE-3, LIFE-4."""
    client = await connect(revision=MODERN)
    client.spoken = HANDSHAKE[-1]
    params = {
        "protocolVersion": asked,
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "0"},
    }
    message = {"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params}
    answer = await client.exchange(message)
    assert answer["result"]["protocolVersion"] == HANDSHAKE[-1]


@handshake
@pytest.mark.not_over("http", "sse")  # each of them begins another session
async def test_a_second_initialize_begins_anew(client: TappedClient, revision: str) -> None:
    """Bridges put several clients behind one server's streams."""
    for name in ("another", "mcpkit"):
        info = {"name": name, "version": "0"}
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": info}
        message = {"jsonrpc": "2.0", "id": "again", "method": "initialize", "params": params}
        assert (await client.exchange(message))["result"]["protocolVersion"] == revision
        await client.notify("notifications/initialized")
        facts = json.loads((await client.call_tool("facts")).text)
        assert facts["client"] == name


@handshake
async def test_ping_is_answered_while_a_call_runs(client: TappedClient) -> None:
    """PING-1, STDIO-5."""
    started = anyio.Event()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:

            async def hold() -> None:
                await client.call_tool(
                    "hold", {"gate": "ping"}, on_progress=lambda *seen: started.set()
                )

            group.start_soon(hold)
            await started.wait()
            assert await client.request("ping") == {}
            await client.call_tool("release", {"gate": "ping"})


@modern
async def test_discovery_lists_every_version(client: TappedClient) -> None:
    """DISC-2, DISC-3, VER-2, MSG-16."""
    result = await client.request("server/discover")
    assert tuple(result["supportedVersions"]) == REVISIONS
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "scenarios"
    assert "serverInfo" not in result


@pytest.mark.parametrize("method", ["tools/list", "resources/list"])
async def test_every_result_has_a_type_since_2026_07_28(client: TappedClient, method: str) -> None:
    """MSG-14, CONT-2."""
    result = await client.request(method)
    if client.revision == MODERN:
        assert result["resultType"] == "complete"
    else:
        assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & set(result)


async def facts(client: TappedClient, id: str, **capabilities: Any) -> dict[str, Any]:
    """What the server knows of a request without a handshake."""
    meta = {**MODERN_META, "io.modelcontextprotocol/clientCapabilities": capabilities}
    params = {"name": "facts", "arguments": {}, "_meta": meta}
    message = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}
    found: dict[str, Any] = (await client.exchange(message))["result"]["structuredContent"]
    return found


@modern
async def test_a_request_sees_its_own_capabilities_only(client: TappedClient) -> None:
    """META-3, ERA-4: nothing is remembered from an earlier request."""
    assert (await facts(client, "f1", sampling={}))["sampling"] is True
    later = await facts(client, "f2")
    assert (later["sampling"], later["client"]) == (False, None)


async def test_both_eras_are_served_on_one_connection(client: TappedClient) -> None:
    """ERA-4: a request that announces itself is served beside a handshake."""
    assert (await facts(client, "beside"))["revision"] == MODERN


async def test_handlers_know_their_request_and_the_state(
    client: TappedClient, revision: str
) -> None:
    for number in range(2):
        result = await client.call_tool("facts", meta={"example.com/x": number})
        found = json.loads(result.text)
        del found["id"]
        assert found == {
            "method": "tools/call",
            "revision": revision,
            "client": "mcpkit",
            "sampling": False,
            "entered": 1,
            "meta": {"example.com/x": number},
        }
