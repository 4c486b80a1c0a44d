"""Log messages to the client (PROTOCOL §4.9)."""

from __future__ import annotations

import pytest

from mcpkit.errors import InvalidParams
from mcpkit.types import LOG_LEVELS, LogLevel
from tests.scenarios.tapped import HANDSHAKE, MODERN, TappedClient

pytestmark = pytest.mark.anyio

handshake = pytest.mark.revisions(*HANDSHAKE)
modern = pytest.mark.revisions(MODERN)

MESSAGE = "notifications/message"


async def speak_all(client: TappedClient, log_level: LogLevel | None = None) -> list[str]:
    for level in LOG_LEVELS:
        await client.call_tool("speak", {"level": level}, log_level=log_level)
    return [each["level"] for each in client.told(MESSAGE)]


@handshake
async def test_until_a_level_is_set_the_server_sends_its_own(client: TappedClient) -> None:
    """LOG-3."""
    assert await speak_all(client) == list(LOG_LEVELS[1:])


@handshake
@pytest.mark.parametrize("level", LOG_LEVELS)
async def test_a_level_is_set_for_what_follows(client: TappedClient, level: LogLevel) -> None:
    """LOG-2."""
    await client.set_log_level(level)
    try:
        assert await speak_all(client) == list(LOG_LEVELS[LOG_LEVELS.index(level) :])
    finally:
        await client.set_log_level("info")


@handshake
@pytest.mark.parametrize("level", ["loud", "INFO", 3, None])
async def test_an_unknown_level(client: TappedClient, level: object) -> None:
    """LOG-2."""
    with pytest.raises(InvalidParams):
        await client.request("logging/setLevel", {"level": level})


@modern
@pytest.mark.parametrize("level", LOG_LEVELS)
async def test_a_request_asks_for_a_level(client: TappedClient, level: LogLevel) -> None:
    """LOG-4, META-3: it holds for that request only."""
    assert await speak_all(client, level) == list(LOG_LEVELS[LOG_LEVELS.index(level) :])
    client.forget()
    assert await speak_all(client) == []


@modern
@pytest.mark.parametrize("level", ["loud", 3])
async def test_an_unknown_level_of_a_request(client: TappedClient, level: object) -> None:
    """LOG-6."""
    meta = {"io.modelcontextprotocol/logLevel": level}
    with pytest.raises(InvalidParams):
        await client.request("tools/list", meta=meta)


async def test_a_message_precedes_the_answer_of_its_request(client: TappedClient) -> None:
    """LOG-5."""
    await client.call_tool("speak", {"level": "error"}, log_level="debug")
    assert [each.get("method") for each in client.received] == [MESSAGE, None]


@pytest.mark.parametrize("data", ["text", 7, None, {"a": [1, None]}, [True]])
async def test_the_data_is_any_json_value(client: TappedClient, data: object) -> None:
    await client.call_tool("speak", {"level": "error", "data": data}, log_level="debug")
    assert client.told(MESSAGE) == [{"level": "error", "logger": "speaker", "data": data}]
