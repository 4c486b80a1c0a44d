"""Tools: lists, calls and results (PROTOCOL §4.2, §4.3)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcpkit._utils.json import UNSET
from mcpkit.types import (
    AudioContent,
    BlobResourceContents,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from tests.scenarios.server import PNG, WAV
from tests.scenarios.tapped import MODERN, TappedClient, since, until
from tests.schemas import check_value

pytestmark = pytest.mark.anyio


async def listed(client: TappedClient, name: str) -> dict[str, Any]:
    return next(dict(each.raw) for each in await client.list_tools() if each.name == name)


# --- lists ----------------------------------------------------------------------------------------


async def test_every_tool_is_listed_with_its_schema(client: TappedClient, revision: str) -> None:
    """TOOL-5: an object schema, also for a tool without parameters."""
    tools = await client.list_tools()
    assert {"add", "weather", "silence", "hold"} <= {each.name for each in tools}
    for each in tools:
        check_value(each.raw, revision, "Tool")
        assert each.input_schema["type"] == "object"
        assert each.description


async def test_the_schema_says_what_the_signature_says(client: TappedClient) -> None:
    schema = (await listed(client, "add"))["inputSchema"]
    assert schema["required"] == ["a", "b"]
    assert schema["properties"]["a"] == {"type": "integer", "description": "The one."}


async def test_the_order_of_the_list_is_stable(client: TappedClient) -> None:
    """TOOL-3, VER-3."""
    first = [each.name for each in await client.list_tools()]
    await client.call_tool("add", {"a": 1, "b": 2})
    assert [each.name for each in await client.list_tools()] == first


MEMBERS = {
    "annotations": "2025-03-26",
    "title": "2025-06-18",
    "outputSchema": "2025-06-18",
    "_meta": "2025-06-18",
    "icons": "2025-11-25",
}


@pytest.mark.parametrize(("member", "first"), MEMBERS.items(), ids=list(MEMBERS))
async def test_a_member_is_sent_from_the_revision_on_that_brought_it(
    client: TappedClient, revision: str, member: str, first: str
) -> None:
    """CONT-2."""
    assert (member in await listed(client, "add")) == (revision >= first)


# --- structured output ----------------------------------------------------------------------------


@pytest.mark.revisions(*until("2025-06-18"))
@pytest.mark.parametrize("name", ["weather", "cities"])
async def test_there_is_no_structured_content_yet(client: TappedClient, name: str) -> None:
    """TOOL-11, CONT-2."""
    result = await client.call_tool(name, {"city": "Oslo"} if name == "weather" else {})
    assert result.structured_content is UNSET
    assert "outputSchema" not in await listed(client, name)


async def test_a_plain_object_is_its_public_attributes(client: TappedClient) -> None:
    assert (await client.call_tool("plain_object")).text == '{"name":"Oslo"}'


@pytest.mark.revisions(*since("2025-06-18"))
async def test_an_object_is_sent_as_it_is(client: TappedClient) -> None:
    """TOOL-9."""
    result = await client.call_tool("weather", {"city": "Oslo"})
    assert result.structured_content == {"city": "Oslo", "celsius": 21.5, "rain": False}


@pytest.mark.revisions(*since("2025-06-18"))
async def test_anything_else_is_wrapped_and_so_is_its_schema(client: TappedClient) -> None:
    """TOOL-11."""
    result = await client.call_tool("cities")
    assert result.structured_content == {"result": ["Lisbon", "Oslo"]}
    schema = (await listed(client, "cities"))["outputSchema"]
    assert schema["type"] == "object"
    assert schema["properties"]["result"]["type"] == "array"


@pytest.mark.revisions(MODERN)
async def test_any_value_is_sent_as_it_is_if_the_tool_asks_for_that(client: TappedClient) -> None:
    """TOOL-12."""
    assert (await client.call_tool("raw_cities")).structured_content == ["Lisbon", "Oslo"]
    assert (await listed(client, "raw_cities"))["outputSchema"]["type"] == "array"


@pytest.mark.revisions("2025-06-18", "2025-11-25")
async def test_before_it_is_wrapped_all_the_same(client: TappedClient) -> None:
    """TOOL-11."""
    result = await client.call_tool("raw_cities")
    assert result.structured_content == {"result": ["Lisbon", "Oslo"]}
    assert (await listed(client, "raw_cities"))["outputSchema"]["type"] == "object"


@pytest.mark.revisions(MODERN)
async def test_null_is_a_value(client: TappedClient) -> None:
    """TOOL-12: absent and null are kept apart."""
    result = await client.call_tool("raw_perhaps")
    assert result.raw["structuredContent"] is None
    assert "structuredContent" not in (await client.call_tool("silence")).raw


@pytest.mark.revisions(*since("2025-06-18"))
async def test_null_is_wrapped(client: TappedClient) -> None:
    """TOOL-11."""
    assert (await client.call_tool("perhaps")).structured_content == {"result": None}


@pytest.mark.revisions(*since("2025-06-18"))
@pytest.mark.parametrize("name", ["weather", "cities", "add", "perhaps"])
async def test_structured_content_fits_the_schema(client: TappedClient, name: str) -> None:
    """TOOL-9."""
    import jsonschema  # type: ignore[import-untyped]

    arguments: dict[str, dict[str, Any]] = {"weather": {"city": "Oslo"}, "add": {"a": 1, "b": 2}}
    result = await client.call_tool(name, arguments.get(name))
    schema = (await listed(client, name))["outputSchema"]
    jsonschema.Draft202012Validator(schema).validate(result.structured_content)


async def test_the_json_text_stands_in_a_text_block(client: TappedClient) -> None:
    """TOOL-10."""
    result = await client.call_tool("weather", {"city": "Oslo"})
    assert json.loads(result.text) == {"city": "Oslo", "celsius": 21.5, "rain": False}


@pytest.mark.revisions(*since("2025-06-18"))
async def test_the_client_unwraps(client: TappedClient) -> None:
    assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3


async def test_content_is_always_there(client: TappedClient) -> None:
    """TOOL-13."""
    assert (await client.call_tool("silence")).raw["content"] == []


async def test_success_is_no_error(client: TappedClient) -> None:
    assert not (await client.call_tool("add", {"a": 1, "b": 2})).is_error


@pytest.mark.revisions(*since("2025-06-18"))
async def test_a_result_may_be_decided_as_a_whole(client: TappedClient) -> None:
    result = await client.call_tool("whole")
    assert (result.text, result.structured_content) == ("done", {"n": 1})
    assert result.meta["example.com/cost"] == 3


# --- content --------------------------------------------------------------------------------------


async def test_text(client: TappedClient) -> None:
    assert (await client.call_tool("echo", {"text": "héllo"})).content == [TextContent("héllo")]


async def test_image(client: TappedClient) -> None:
    """CONT-4."""
    assert (await client.call_tool("picture")).content == [ImageContent(PNG, "image/png")]


@pytest.mark.revisions(*since("2025-03-26"))
async def test_audio(client: TappedClient) -> None:
    """CONT-4."""
    assert (await client.call_tool("sound")).content == [AudioContent(WAV, "audio/wav")]


@pytest.mark.revisions("2024-11-05")
async def test_audio_is_an_embedded_resource_where_it_does_not_exist(client: TappedClient) -> None:
    """CONT-1."""
    [block] = (await client.call_tool("sound")).content
    assert isinstance(block, EmbeddedResource)
    assert isinstance(block.resource, BlobResourceContents)
    assert (block.resource.blob, block.resource.mime_type) == (WAV, "audio/wav")


async def test_embedded_text(client: TappedClient) -> None:
    """CONT-3."""
    [block] = (await client.call_tool("document")).content
    assert isinstance(block, EmbeddedResource)
    assert block.resource == TextResourceContents("note://hello", "hello", mime_type="text/plain")


async def test_embedded_blob(client: TappedClient) -> None:
    """CONT-4."""
    [block] = (await client.call_tool("archive")).content
    assert isinstance(block, EmbeddedResource)
    assert isinstance(block.resource, BlobResourceContents)
    assert block.resource.blob == b"\x00\xff"


@pytest.mark.revisions(*since("2025-06-18"))
async def test_resource_link(client: TappedClient) -> None:
    [block] = (await client.call_tool("pointer")).content
    assert isinstance(block, ResourceLink)
    assert (block.uri, block.name, block.title) == ("note://hello", "hello", "Hello")


@pytest.mark.revisions(*until("2025-06-18"))
async def test_a_link_is_text_where_links_do_not_exist(client: TappedClient) -> None:
    """CONT-1."""
    [block] = (await client.call_tool("pointer")).content
    assert isinstance(block, TextContent)
    assert "note://hello" in block.text


async def test_several_blocks_keep_their_order(client: TappedClient) -> None:
    kinds = [type(each) for each in (await client.call_tool("everything")).content]
    assert kinds == [TextContent, ImageContent, TextContent]


async def test_annotations_of_content_are_those_the_revision_knows(
    client: TappedClient, revision: str
) -> None:
    """CONT-2."""
    block = (await client.call_tool("everything")).raw["content"][0]
    assert block["annotations"]["audience"] == ["user"]
    assert block["annotations"]["priority"] == 0.5
    assert ("lastModified" in block["annotations"]) == (revision >= "2025-06-18")
    assert ("_meta" in block) == (revision >= "2025-06-18")


async def test_a_handler_in_a_thread_has_the_same_context(client: TappedClient) -> None:
    seen: list[float] = []
    result = await client.call_tool(
        "in_a_thread", on_progress=lambda now: seen.append(now.progress), log_level="info"
    )
    assert result.text == "hello"
    assert seen == [1]
    assert [each["data"] for each in client.told("notifications/message")] == ["from a thread"]
