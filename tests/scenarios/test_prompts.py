"""Prompts (PROTOCOL §4.5)."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit.client.results import PromptArgument
from mcpkit.errors import InvalidParams
from mcpkit.types import AudioContent, EmbeddedResource, ImageContent, TextContent
from tests.scenarios.tapped import TappedClient
from tests.schemas import check_value


async def test_prompts_are_listed_with_their_arguments(client: TappedClient, revision: str) -> None:
    """PROMPT-1."""
    prompts = await client.list_prompts()
    for each in prompts:
        check_value(each.raw, revision, "Prompt")
    greet = next(each for each in prompts if each.name == "greet")
    assert greet.description == "Greet a person."
    assert greet.title == ("Greeting" if revision >= "2025-06-18" else None)
    assert greet.arguments[0] == PromptArgument("name", None, "Whom.", required=True)
    assert [each.required for each in greet.arguments] == [True, False, False]


async def test_arguments_are_strings_and_converted(client: TappedClient) -> None:
    """PROMPT-3."""
    result = await client.get_prompt("greet", {"name": "Ada", "times": "2"})
    assert result.messages[0].text == "short: hello Ada hello Ada "
    assert result.description == "Greet a person."


UNFIT: list[Any] = [
    {},
    {"name": "Ada", "style": "odd"},
    {"name": "Ada", "times": "often"},
    {"name": "Ada", "times": 2},
    {"name": "Ada", "color": "red"},
    [],
]


async def test_an_unknown_prompt_and_unfit_arguments(client: TappedClient) -> None:
    """PROMPT-2, PROMPT-3, PROMPT-6."""
    unfit = ({"name": "greet", "arguments": arguments} for arguments in UNFIT)
    for params in ({}, {"name": "unknown"}, *unfit):
        with pytest.raises(InvalidParams):
            await client.request("prompts/get", params)


async def test_a_message_has_one_block_of_any_kind(client: TappedClient, revision: str) -> None:
    """PROMPT-4, PROMPT-5, CONT-1."""
    result = await client.get_prompt("chat")
    assert [each.role for each in result.messages] == ["user", "assistant", "user", "user"]
    kinds = [type(each.content) for each in result.messages]
    sound = AudioContent if revision >= "2025-03-26" else EmbeddedResource
    assert kinds == [ImageContent, TextContent, EmbeddedResource, sound]
    block = result.raw["messages"][2]["content"]
    assert block["resource"] == {"uri": "note://hello", "mimeType": "text/plain", "text": "hello"}
