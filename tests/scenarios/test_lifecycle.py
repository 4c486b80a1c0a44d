"""Handshake, discovery, capabilities and ping (PROTOCOL §3)."""

from __future__ import annotations

import json

import pytest

from mcpkit.testing import REVISIONS
from tests.scenarios.conftest import Connect
from tests.scenarios.tapped import HANDSHAKE, MODERN, TappedClient, since, until

pytestmark = pytest.mark.anyio

handshake = pytest.mark.revisions(*HANDSHAKE)
modern = pytest.mark.revisions(MODERN)


async def test_a_connection_speaks_the_revision_that_was_asked_for(
    client: TappedClient, revision: str
) -> None:
    """LIFE-2, VER-1."""
    assert client.revision == revision


async def test_the_server_introduces_itself(client: TappedClient) -> None:
    """MSG-16 on 2026-07-28, serverInfo of the handshake before."""
    assert client.server_info is not None
    assert (client.server_info.name, client.server_info.version) == ("scenarios", "1.2.3")


@pytest.mark.revisions(*since("2025-11-25"))
async def test_the_server_describes_itself(client: TappedClient) -> None:
    assert client.server_info is not None
    assert client.server_info.website_url == "https://example.com/"
    assert client.server_info.description == "Something of everything."


@pytest.mark.revisions(*until("2025-11-25"))
async def test_members_that_a_revision_lacks_are_not_sent(client: TappedClient) -> None:
    """CONT-2."""
    assert client.server_info is not None
    assert client.server_info.website_url is None


async def test_instructions_are_sent(client: TappedClient) -> None:
    assert client.instructions == "Ask for anything."


@pytest.mark.revisions(*since("2025-03-26"))
async def test_capabilities_are_what_is_registered(client: TappedClient) -> None:
    """TOOL-1, RES-1, PROMPT-1, COMP-1, LOG-1, DISC-1."""
    assert client.server_capabilities == {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "completions": {},
        "logging": {},
    }


@pytest.mark.revisions("2024-11-05")
async def test_the_first_revision_has_no_capability_for_completion(client: TappedClient) -> None:
    """COMP-1, LIFE-8."""
    assert "completions" not in client.server_capabilities


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
async def test_ping_is_answered(client: TappedClient) -> None:
    """PING-1."""
    assert await client.request("ping") == {}


@handshake
async def test_ping_is_answered_while_a_call_runs(client: TappedClient) -> None:
    """PING-1, STDIO-5."""
    import anyio

    async with anyio.create_task_group() as group:
        started = anyio.Event()

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
    """DISC-3, VER-2."""
    result = await client.request("server/discover")
    assert tuple(result["supportedVersions"]) == REVISIONS


@modern
async def test_identity_is_in_the_meta_of_every_result(client: TappedClient) -> None:
    """MSG-16, DISC-2."""
    result = await client.request("server/discover")
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "scenarios"
    assert "serverInfo" not in result


@modern
@pytest.mark.parametrize("method", ["server/discover", "tools/list", "resources/list"])
async def test_every_result_has_a_type(client: TappedClient, method: str) -> None:
    """MSG-14."""
    assert (await client.request(method))["resultType"] == "complete"


@handshake
async def test_results_before_have_none(client: TappedClient) -> None:
    """CONT-2."""
    result = await client.request("tools/list")
    assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & set(result)


@modern
async def test_a_request_sees_its_own_capabilities_only(client: TappedClient) -> None:
    """META-3, ERA-4: nothing is remembered from an earlier request."""

    async def facts(number: int, capabilities: dict[str, object]) -> dict[str, object]:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        }
        params = {"name": "facts", "arguments": {}, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": f"f{number}", "method": "tools/call", "params": params}
        found: dict[str, object] = (await client.exchange(message))["result"]["structuredContent"]
        return found

    assert (await facts(1, {"sampling": {}}))["sampling"] is True
    assert (await facts(2, {}))["sampling"] is False
    assert (await facts(3, {}))["client"] is None


async def test_both_eras_are_served_on_one_connection(client: TappedClient) -> None:
    """ERA-4: a request that announces itself is served beside a handshake."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {
        "jsonrpc": "2.0",
        "id": "beside",
        "method": "tools/call",
        "params": {"name": "facts", "_meta": meta},
    }
    answer = await client.exchange(message)
    assert answer["result"]["structuredContent"]["revision"] == MODERN


async def test_the_lifespan_is_entered_once(client: TappedClient) -> None:
    assert (await client.call_tool("facts")).raw["content"]
    for _ in range(2):
        result = await client.call_tool("facts")
        assert '"entered":1' in result.text


async def test_handlers_know_their_request(client: TappedClient, revision: str) -> None:
    result = await client.call_tool("facts", meta={"example.com/x": 1})
    facts = json.loads(result.text)
    assert facts["revision"] == revision
    assert facts["method"] == "tools/call"
    assert facts["client"] == "mcpkit"
    assert facts["meta"] == {"example.com/x": 1}
