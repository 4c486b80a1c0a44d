"""Cancellation (PROTOCOL §4.11)."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from tests.scenarios.tapped import MODERN, MODERN_META, PATIENCE, TappedClient

pytestmark = pytest.mark.anyio


async def see_cancelled(client: TappedClient, gate: str) -> None:
    """Wait until a handler says that it was cancelled."""
    with anyio.fail_after(PATIENCE):
        while gate not in json.loads((await client.call_tool("cancelled")).text):
            await anyio.sleep(0.02)


def call(client: TappedClient, id: str, name: str, **arguments: str) -> dict[str, Any]:
    meta = {"progressToken": id, **(MODERN_META if client.revision == MODERN else {})}
    params = {"name": name, "arguments": arguments, "_meta": meta}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


async def start(client: TappedClient, id: str, gate: str) -> None:
    """Send a call that waits, and wait until it does."""
    await client.send(call(client, id, "hold", gate=gate))
    await client.notification("notifications/progress")


async def cancel(client: TappedClient, id: object) -> None:
    await client.notify("notifications/cancelled", {"requestId": id, "reason": "enough"})


@pytest.mark.not_over("http", revisions=[MODERN])  # there, going away cancels
async def test_the_work_stops_and_nothing_more_is_sent(client: TappedClient) -> None:
    """CANC-1, CANC-4: neither an answer, nor the progress that the handler reports at its end."""
    await start(client, "c1", "one")
    client.forget()
    await cancel(client, "c1")
    await client.settle()
    await see_cancelled(client, "one")
    assert not [each for each in client.received if each.get("id") == "c1"]
    assert client.told("notifications/progress") == []


@pytest.mark.parametrize("id", ["nobody", 987654, None, [1], {}])
async def test_an_unknown_or_malformed_id_is_ignored(client: TappedClient, id: object) -> None:
    """CANC-2."""
    await cancel(client, id)
    assert (await client.call_tool("echo", {"text": "alive"})).text == "alive"
    assert len(client.received) == 1


@pytest.mark.not_over("http", revisions=[MODERN])  # there, going away cancels
async def test_an_answered_request_is_ignored(client: TappedClient) -> None:
    """CANC-2, CANC-3: answer and cancellation may cross."""
    await client.send(call(client, "crossed", "silence"))
    await cancel(client, "crossed")
    await client.settle()
    assert len([each for each in client.received if each.get("id") == "crossed"]) <= 1
    assert (await client.call_tool("echo", {"text": "alive"})).text == "alive"


@pytest.mark.not_over("http", revisions=[MODERN])  # there, going away cancels
async def test_other_requests_go_on(client: TappedClient) -> None:
    await start(client, "c2", "two")
    await start(client, "c3", "three")
    await cancel(client, "c2")
    await client.call_tool("release", {"gate": "three"})
    assert "result" in await client.answer("c3")
    await client.settle()
    assert not [each for each in client.received if each.get("id") == "c2"]


async def test_a_timeout_of_the_client_cancels(client: TappedClient) -> None:
    """CANC-7."""
    with pytest.raises(TimeoutError):
        await client.call_tool("hold", {"gate": "late"}, timeout=0.05)
    await client.settle()
    await see_cancelled(client, "late")


async def test_leaving_the_call_cancels(client: TappedClient) -> None:
    """CANC-7."""
    started = anyio.Event()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:

            async def call() -> None:
                await client.call_tool(
                    "hold", {"gate": "left"}, on_progress=lambda *seen: started.set()
                )

            group.start_soon(call)
            await started.wait()
            group.cancel_scope.cancel()
    await client.settle()
    await see_cancelled(client, "left")
