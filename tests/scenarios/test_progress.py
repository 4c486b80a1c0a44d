"""Progress (PROTOCOL §4.10)."""

from __future__ import annotations

from mcpkit.client.results import Progress
from tests.scenarios.tapped import TappedClient

PROGRESS = "notifications/progress"


async def test_nothing_is_sent_without_a_token(client: TappedClient) -> None:
    """PROG-1."""
    await client.call_tool("march", {"steps": [1, 2]})
    await client.call_tool("march", {"steps": [1]}, meta={"progressToken": None})
    assert client.told(PROGRESS) == []


async def test_it_only_increases_and_precedes_the_response(
    client: TappedClient, revision: str
) -> None:
    """PROG-1, PROG-2, PROG-4."""
    seen: list[Progress] = []
    await client.call_tool("march", {"steps": [1, 1, 2]}, on_progress=seen.append)
    assert [each.get("method") for each in client.received] == [PROGRESS, PROGRESS, None]
    assert [(each.progress, each.total) for each in seen] == [(1, 10), (2, 10)]
    assert seen[0].message == ("at 1" if revision >= "2025-03-26" else None)


async def test_nothing_is_sent_once_the_request_is_over(client: TappedClient) -> None:
    """PROG-3."""
    await client.call_tool("keep", meta={"progressToken": "kept"}, log_level="debug")
    await client.call_tool("use_kept")
    await client.settle()
    assert [each["progress"] for each in client.told(PROGRESS)] == [1]
    assert client.told("notifications/message") == []
