"""Prompts (PROTOCOL §4.5)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpkit.client.results import PromptArgument
from mcpkit.errors import InvalidParams, ProtocolError
from mcpkit.types import AudioContent, EmbeddedResource, ImageContent, TextContent
from tests.scenarios.server import SECRET
from tests.scenarios.tapped import TappedClient
from tests.schemas import check_value

pytestmark = pytest.mark.anyio


async def test_prompts_are_listed_with_their_arguments(client: TappedClient, revision: str) -> None:
    """PROMPT-1."""
    prompts = await client.list_prompts()
    for each in prompts:
        check_value(each.raw, revision, "Prompt")
    greet = next(each for each in prompts if each.name == "greet")
    assert greet.description == "Greet somebody."
    assert greet.title == ("Greeting" if revision >= "2025-06-18" else None)
    assert greet.arguments[0] == PromptArgument("name", None, "Whom.", required=True)
    assert [each.required for each in greet.arguments] == [True, False, False]


async def test_arguments_are_strings_and_converted(client: TappedClient) -> None:
    """PROMPT-3."""
    result = await client.get_prompt("greet", {"name": "Ada", "times": "2"})
    assert result.messages[0].text == "short: hello Ada hello Ada "
    assert result.description == "Greet somebody."


async def test_messages_may_be_dicts(client: TappedClient) -> None:
    messages = (await client.get_prompt("dicts")).messages
    assert [(each.role, each.text) for each in messages] == [
        ("user", "Look."),
        ("assistant", "I see."),
    ]


async def test_a_wrong_role_is_refused_with_the_right_ones(client: TappedClient) -> None:
    with pytest.raises(ProtocolError, match='"user" or "assistant", not \'system\''):
        await client.get_prompt("wrong_role")


UNFIT: dict[str, Any] = {
    "missing": {},
    "not in the choice": {"name": "Ada", "style": "odd"},
    "not a number": {"name": "Ada", "times": "often"},
    "unknown": {"name": "Ada", "colour": "red"},
    "not a string": {"name": "Ada", "times": 2},
    "not an object": [],
}


@pytest.mark.parametrize("arguments", UNFIT.values(), ids=list(UNFIT))
async def test_unfit_arguments(client: TappedClient, arguments: Any) -> None:
    """PROMPT-2, PROMPT-3, PROMPT-6."""
    with pytest.raises(InvalidParams):
        await client.request("prompts/get", {"name": "greet", "arguments": arguments})


@pytest.mark.parametrize("params", [{"name": "nobody"}, {}])
async def test_an_unknown_prompt(client: TappedClient, params: dict[str, Any]) -> None:
    """PROMPT-2."""
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


async def test_an_exception_is_hidden_and_a_prompt_error_is_shown(client: TappedClient) -> None:
    """ERR-6."""
    with pytest.raises(ProtocolError, match="reference") as caught:
        await client.get_prompt("broken_prompt")
    assert caught.value.code == -32603
    assert SECRET not in json.dumps(client.received)
    with pytest.raises(ProtocolError, match="No words today"):
        await client.get_prompt("sorry_prompt")
