"""Many calls at once, and large ones."""

from __future__ import annotations

import anyio
import pytest

from tests.messages import called, request
from tests.scenarios.tapped import HANDSHAKE, MODERN, PATIENCE, TappedClient

both_eras = pytest.mark.revisions(HANDSHAKE[-1], MODERN)
"""What is much or large is so over every transport; of the revisions, there is one of a kind."""


@both_eras
async def test_many_calls_at_once_are_each_answered(client: TappedClient) -> None:
    """On the event loop and in threads."""
    echoed: dict[int, str] = {}
    added: list[str] = []

    async def echo(number: int) -> None:
        echoed[number] = (await client.call_tool("echo", {"text": f"call {number}"})).text

    async def add() -> None:
        added.append((await client.call_tool("add", {"a": 1, "b": 2})).text)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(echo, number)
            for _ in range(50):
                group.start_soon(add)
    assert echoed == {number: f"call {number}" for number in range(200)}
    assert added == ["3"] * 50


async def test_a_call_that_waits_does_not_hold_up_others(client: TappedClient) -> None:
    """STDIO-5, HTTPM-17, PING-1."""
    order: list[str] = []

    async def hold() -> None:
        order.append((await client.call_tool("hold", {"gate": "slow"})).text)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(hold)
            order.append((await client.call_tool("echo", {"text": "quick"})).text)
            if client.revision != MODERN:
                assert await client.request("ping") == {}
            await client.call_tool("release", {"gate": "slow"})
    assert order == ["quick", "released slow"]


@both_eras
async def test_a_large_payload_arrives_whole_both_ways(client: TappedClient) -> None:
    text = "0123456789abcdé" * 340_000
    result = await client.call_tool("echo", {"text": text})
    assert len(result.text) == len(text)
    assert result.text == text


@pytest.mark.revisions("2025-03-26")
async def test_a_batch_is_answered_with_a_batch(client: TappedClient) -> None:
    """MSG-9, MSG-12."""
    calls = [
        request(f"b{number}", "tools/call", called("echo", {"text": str(number)}))
        for number in range(3)
    ]
    await client.exchange(calls)
    found = {each["id"]: each["result"]["content"][0]["text"] for each in client.received}
    assert found == {"b0": "0", "b1": "1", "b2": "2"}


@pytest.mark.revisions(MODERN)
async def test_the_server_sends_no_requests(client: TappedClient) -> None:
    """MSG-13, STDIO-7."""
    for name in ("facts", "everything", "crash", "speak"):
        await client.call_tool(name, {"level": "error"} if name == "speak" else {})
    await client.settle()
    assert not [each for each in client.received if "method" in each and "id" in each]
