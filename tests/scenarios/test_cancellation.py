"""Cancellation (PROTOCOL §4.11)."""

from __future__ import annotations

import json

import anyio
import pytest

from tests.messages import request
from tests.scenarios.tapped import MODERN, MODERN_META, PATIENCE, TappedClient


async def see_cancelled(client: TappedClient, gate: str) -> None:
    """Wait until a handler says that it was cancelled."""
    with anyio.fail_after(PATIENCE):
        while gate not in json.loads((await client.call_tool("cancelled")).text):
            await anyio.sleep(0.02)


async def start(client: TappedClient, id: str, gate: str) -> None:
    """Send a call that waits, and wait until it does."""
    meta = {"progressToken": id, **(MODERN_META if client.revision == MODERN else {})}
    params = {"name": "hold", "arguments": {"gate": gate}, "_meta": meta}
    await client.send(request(id, "tools/call", params))
    await client.notification("notifications/progress")


@pytest.mark.not_over("http", revisions=[MODERN])  # there, going away cancels
async def test_the_work_stops_and_nothing_more_is_sent(client: TappedClient) -> None:
    """CANC-1, CANC-4: neither a response, nor the progress that the handler reports at its end.

    Another request goes on.
    """
    await start(client, "c1", "one")
    await start(client, "c2", "two")
    client.forget()
    await client.notify("notifications/cancelled", {"requestId": "c1", "reason": "enough"})
    await client.settle()
    await see_cancelled(client, "one")
    assert not [each for each in client.received if each.get("id") == "c1"]
    assert client.told("notifications/progress") == []
    await client.call_tool("release", {"gate": "two"})
    assert "result" in await client.answer("c2")


async def test_a_timeout_and_leaving_the_call_cancel(client: TappedClient) -> None:
    """CANC-5 to CANC-7, LIFE-10; HTTPM-10: progress is passed on while a call waits."""
    with pytest.raises(TimeoutError):
        await client.call_tool("hold", {"gate": "late"}, timeout=0.25)
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
    for gate in ("late", "left"):
        await see_cancelled(client, gate)
