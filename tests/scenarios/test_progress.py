"""Progress (PROTOCOL §4.10)."""

from __future__ import annotations

import pytest

from mcpkit.client.results import Progress
from mcpkit.errors import InvalidParams
from tests.scenarios.tapped import TappedClient

pytestmark = pytest.mark.anyio

PROGRESS = "notifications/progress"


async def march(client: TappedClient, steps: list[float], token: str | int = "t") -> None:
    meta = {"progressToken": token}
    await client.call_tool("march", {"steps": steps}, meta=meta)


async def test_nothing_is_sent_without_a_token(client: TappedClient) -> None:
    """PROG-1."""
    await client.call_tool("march", {"steps": [1, 2]})
    await client.call_tool("march", {"steps": [1]}, meta={"progressToken": None})
    assert client.told(PROGRESS) == []


@pytest.mark.parametrize("token", ["text", "", 0, 7])
async def test_the_token_comes_back_with_its_type(client: TappedClient, token: str | int) -> None:
    """PROG-1."""
    await march(client, [1], token)
    [sent] = client.told(PROGRESS)
    assert sent["progressToken"] == token
    assert type(sent["progressToken"]) is type(token)


@pytest.mark.parametrize("token", [1.5, True, ["t"]])
async def test_a_malformed_token_is_refused(client: TappedClient, token: object) -> None:
    with pytest.raises(InvalidParams):
        await client.call_tool("march", {"steps": [1]}, meta={"progressToken": token})


@pytest.mark.parametrize(
    ("reported", "sent"),
    [([1, 2, 3], [1, 2, 3]), ([1, 1, 2], [1, 2]), ([5, 3, 6], [5, 6]), ([0, 0.5], [0, 0.5])],
)
async def test_it_only_ever_increases(
    client: TappedClient, reported: list[float], sent: list[float]
) -> None:
    """PROG-2."""
    await march(client, reported)
    assert [each["progress"] for each in client.told(PROGRESS)] == sent


async def test_it_has_a_total_and_a_message_and_precedes_the_answer(
    client: TappedClient, revision: str
) -> None:
    """PROG-4."""
    await march(client, [4])
    assert [each.get("method") for each in client.received] == [PROGRESS, None]
    [sent] = client.told(PROGRESS)
    assert sent["total"] == 10
    assert ("message" in sent) == (revision >= "2025-03-26")


async def test_nothing_is_sent_once_the_request_is_over(client: TappedClient) -> None:
    """PROG-3."""
    await client.call_tool("keep", meta={"progressToken": "kept"}, log_level="debug")
    await client.call_tool("use_kept")
    await client.settle()
    assert [each["progress"] for each in client.told(PROGRESS)] == [1]
    assert client.told("notifications/message") == []


async def test_the_client_passes_it_on(client: TappedClient) -> None:
    seen: list[Progress] = []
    await client.call_tool("march", {"steps": [1, 2]}, on_progress=seen.append)
    assert [(each.progress, each.total) for each in seen] == [(1, 10), (2, 10)]
