"""Changes of resources, and streams of changes (PROTOCOL §4.4, §4.13)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from mcpkit.errors import InvalidParams, ProtocolError
from tests.kit import Recorder
from tests.scenarios.tapped import MODERN, MODERN_META, TappedClient, handshake, modern

UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TAG = "io.modelcontextprotocol/subscriptionId"


# --- resources ------------------------------------------------------------------------------------


async def test_a_subscriber_is_notified_until_it_unsubscribes(client: TappedClient) -> None:
    """RES-10, SUB-3: of the resource, and of others below it; in any revision."""
    await client.subscribe("note://hello")
    await client.subscribe("note://hello")
    await client.subscribe("lib://files/sub/inner.md")
    for uri in ("note://json", "note://hello", "lib://files/sub/inner.md/heading"):
        await client.call_tool("touch", {"uri": uri})
    for uri in ("note://hello", "lib://files/sub/inner.md/heading"):
        assert (await client.notification(UPDATED))["uri"] == uri
    await client.unsubscribe("note://hello")
    await client.unsubscribe("lib://files/sub/inner.md")
    await client.call_tool("touch", {"uri": "note://hello"})
    await client.settle()
    assert len(client.told(UPDATED)) == 2


async def test_a_subscription_needs_the_uri_of_a_resource(client: TappedClient) -> None:
    """RES-4."""
    with pytest.raises(ProtocolError) as caught:
        await client.subscribe("note://nowhere")
    code = -32602 if client.revision == MODERN else -32002
    assert (caught.value.code, caught.value.data) == (code, {"uri": "note://nowhere"})


@handshake
async def test_a_subscription_needs_a_uri(client: TappedClient) -> None:
    for method in ("resources/subscribe", "resources/unsubscribe"):
        with pytest.raises(InvalidParams):
            await client.request(method, {})


# --- streams --------------------------------------------------------------------------------------


async def start_listening(
    client: TappedClient, id: str | int, notifications: dict[str, Any]
) -> dict[str, Any]:
    """Send a listen request as it is; the params of its acknowledgement."""
    params = {"notifications": notifications, "_meta": MODERN_META}
    message = {"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}
    await client.send(message)
    return await client.notification(ACKNOWLEDGED)


@modern
@pytest.mark.not_over("http")  # there, going away ends a stream
async def test_the_acknowledgement_lists_the_granted_subscriptions(client: TappedClient) -> None:
    """SUB-2."""
    lists = {"promptsListChanged": True, "resourcesListChanged": True}
    known = {"resourceSubscriptions": ["note://hello"]}
    for wanted, honored in (
        ({"toolsListChanged": False, "invented": True}, {}),
        ({"toolsListChanged": True}, {"toolsListChanged": True}),
        (lists, lists),
        ({"resourceSubscriptions": ["note://hello", "note://nowhere"]}, known),
    ):
        acknowledged = await start_listening(client, "listen", wanted)
        await client.notify("notifications/cancelled", {"requestId": "listen"})
        assert acknowledged["notifications"] == honored


@modern
@pytest.mark.not_over("http")  # there, going away ends a stream
@pytest.mark.parametrize("id", [0, "0", "a stream"])
async def test_every_message_carries_the_id_with_its_type(
    client: TappedClient, id: str | int
) -> None:
    """SUB-4."""
    acknowledged = await start_listening(client, id, {"resourceSubscriptions": ["note://hello"]})
    await client.call_tool("touch", {"uri": "note://hello"})
    updated = await client.notification(UPDATED)
    await client.notify("notifications/cancelled", {"requestId": id})
    for params in (acknowledged, updated):
        assert params["_meta"][TAG] == id
        assert type(params["_meta"][TAG]) is type(id)


async def test_a_client_listens_to_the_requested_changes_until_it_leaves(
    client: TappedClient,
) -> None:
    """SUB-1, SUB-3, SUB-9; SUB-5, LOG-5, PROG-4: neither logs nor progress."""
    heard, uris = Recorder(), ["note://hello", "note://nowhere"]
    async with client.listen(heard, tools=True, uris=uris) as agreed:
        assert agreed == {"toolsListChanged": True, "resourceSubscriptions": ["note://hello"]}
        await client.call_tool("grow", {"kind": "tool", "name": "fresh"})
        await heard.wait()
        await client.call_tool("grow", {"kind": "prompt", "name": "fresh"})
        await client.call_tool("shrink", {"kind": "prompt", "name": "fresh"})
        await client.call_tool("speak", {"level": "error"}, log_level="debug")
        await client.call_tool("march", {"steps": [1]}, on_progress=lambda *seen: None)
        await client.call_tool("touch", {"uri": "note://json"})
        await client.call_tool("touch", {"uri": "note://hello"})
        await heard.wait(2)
    await client.call_tool("shrink", {"kind": "tool", "name": "fresh"})
    await client.call_tool("touch", {"uri": "note://hello"})
    await client.settle()
    changes = ["notifications/tools/list_changed", UPDATED]
    assert [method for method, _ in heard.calls] == changes
    if client.revision != MODERN:
        return
    tagged = [each for each in client.received if TAG in each.get("params", {}).get("_meta", {})]
    assert [each["method"] for each in tagged] == [ACKNOWLEDGED, *changes]


@handshake
async def test_a_subscription_ends_when_nothing_needs_it(client: TappedClient) -> None:
    """RES-10: a session has one for each URI."""
    heard, own = Recorder(), Recorder()
    await client.subscribe("note://hello")
    async with client.listen(heard, uris=["note://hello", "note://json"]):
        await client.unsubscribe("note://hello")
        await client.call_tool("touch", {"uri": "note://hello"})
        await heard.wait()
        async with client.listen(own, uris=["note://hello"]):
            pass
        await client.call_tool("touch", {"uri": "note://hello"})
        await heard.wait(2)
        await client.subscribe("note://json")
    for uri in ("note://hello", "note://json"):
        await client.call_tool("touch", {"uri": uri})
    await client.settle()
    assert [each["uri"] for each in client.told(UPDATED)] == [*["note://hello"] * 2, "note://json"]
    assert own.calls == []
    await client.unsubscribe("note://json")


@modern
async def test_several_streams_run_at_once(client: TappedClient) -> None:
    """SUB-8."""
    first, second = Recorder(), Recorder()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(client.listen(first, uris=["note://hello"]))
        await stack.enter_async_context(client.listen(second, uris=["note://hello"]))
        await client.call_tool("touch", {"uri": "note://hello"})
        await first.wait()
        await second.wait()
    tags = {heard.calls[0][1]["_meta"][TAG] for heard in (first, second)}
    assert len(tags) == 2


@modern
async def test_malformed_filters_are_refused(client: TappedClient) -> None:
    malformed: list[Any] = [None, [], {"resourceSubscriptions": "note://hello"}]
    for filters in malformed:
        with pytest.raises(InvalidParams):
            await client.request("subscriptions/listen", {"notifications": filters})
