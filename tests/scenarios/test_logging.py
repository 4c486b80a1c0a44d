"""Log messages to the client (PROTOCOL §4.9)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.errors import InvalidParams
from mcpkit.types import LOG_LEVELS, LogLevel
from tests.scenarios.tapped import TappedClient, handshake, modern

MESSAGE = "notifications/message"


async def speak_all(client: TappedClient, log_level: LogLevel | None = None) -> list[str]:
    for level in LOG_LEVELS:
        await client.call_tool("speak", {"level": level}, log_level=log_level)
    return [each["level"] for each in client.told(MESSAGE)]


@handshake
async def test_a_level_applies_to_later_messages(client: TappedClient) -> None:
    """LOG-2, LOG-3: until then, the server sends its own."""
    assert await speak_all(client) == list(LOG_LEVELS[1:])
    try:
        for index, level in enumerate(LOG_LEVELS):
            client.forget()
            await client.set_log_level(level)
            assert await speak_all(client) == list(LOG_LEVELS[index:])
    finally:
        await client.set_log_level("info")
    for unknown in ("loud", "INFO", 3, None):
        with pytest.raises(InvalidParams):
            await client.request("logging/setLevel", {"level": unknown})


@modern
async def test_a_request_asks_for_a_level(client: TappedClient) -> None:
    """LOG-4, META-3: it holds for that request only; LOG-6."""
    for index, level in enumerate(LOG_LEVELS):
        client.forget()
        assert await speak_all(client, level) == list(LOG_LEVELS[index:])
    client.forget()
    assert await speak_all(client) == []
    meta = {"io.modelcontextprotocol/logLevel": "loud"}
    with pytest.raises(InvalidParams):
        await client.request("tools/list", meta=meta)


async def test_a_message_has_any_data_and_precedes_the_response(client: TappedClient) -> None:
    """LOG-5."""
    values: list[Any] = ["text", 7, None, {"a": [1, None]}, [True]]
    for data in values:
        await client.call_tool("speak", {"level": "error", "data": data}, log_level="debug")
    assert [each.get("method") for each in client.received] == [MESSAGE, None] * len(values)
    assert client.told(MESSAGE) == [
        {"level": "error", "logger": "speaker", "data": data} for data in values
    ]
