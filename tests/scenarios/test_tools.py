"""Tools: lists, calls and results (PROTOCOL §4.2, §4.3)."""

from __future__ import annotations

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from mcpkit._utils.json import UNSET
from mcpkit.types import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)
from tests.scenarios.server import PNG, WAV
from tests.scenarios.tapped import MODERN, TappedClient, since
from tests.schemas import check_value


async def listed(client: TappedClient, name: str) -> dict[str, Any]:
    return next(dict(each.raw) for each in await client.list_tools() if each.name == name)


# --- lists ----------------------------------------------------------------------------------------


async def test_every_tool_is_listed_with_its_schema(client: TappedClient, revision: str) -> None:
    """TOOL-5: an object schema, also for a tool without parameters; TOOL-3, VER-3, CONT-2."""
    tools = {each.name: each for each in await client.list_tools()}
    for each in tools.values():
        check_value(each.raw, revision, "Tool")
        assert each.input_schema["type"] == "object"
        assert each.description
    add = tools["add"]
    assert add.input_schema["required"] == ["a", "b"]
    assert add.input_schema["properties"]["a"] == {"type": "integer", "description": "The one."}
    first_with = {
        "annotations": "2025-03-26",
        **dict.fromkeys(("title", "outputSchema", "_meta"), "2025-06-18"),
        "icons": "2025-11-25",
    }
    for member, first in first_with.items():
        assert (member in add.raw) == (revision >= first), member
    await client.call_tool("add", {"a": 1, "b": 2})
    assert [each.name for each in await client.list_tools()] == list(tools)


# --- structured output ----------------------------------------------------------------------------


STRUCTURED: list[tuple[str, dict[str, Any], Any]] = [
    ("weather", {"city": "Oslo"}, {"city": "Oslo", "celsius": 21.5, "rain": False}),
    ("cities", {}, {"result": ["Lisbon", "Oslo"]}),
    ("add", {"a": 1, "b": 2}, {"result": 3}),
    ("perhaps", {}, {"result": None}),
]


@pytest.mark.parametrize(("name", "arguments", "structured"), STRUCTURED)
async def test_objects_are_sent_as_they_are_and_other_values_wrapped(
    client: TappedClient, name: str, arguments: dict[str, Any], structured: Any
) -> None:
    """TOOL-9, TOOL-10, TOOL-11, CONT-2: since 2025-06-18, and as text in every revision."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error
    value = structured.get("result", structured)
    assert json.loads(result.text) == value
    schema = (await listed(client, name)).get("outputSchema", {})
    if client.revision < "2025-06-18":
        assert (result.structured_content, schema) == (UNSET, {})
    else:
        assert (result.structured_content, result.data) == (structured, value)
        assert schema["type"] == "object"
        jsonschema.Draft202012Validator(schema).validate(result.structured_content)


@pytest.mark.revisions(*since("2025-06-18"))
async def test_any_value_is_sent_as_it_is_if_the_tool_and_the_revision_allow_it(
    client: TappedClient,
) -> None:
    """TOOL-11, TOOL-12: absent and null are kept apart."""
    cities, perhaps = await client.call_tool("raw_cities"), await client.call_tool("raw_perhaps")
    schema = (await listed(client, "raw_cities"))["outputSchema"]
    if client.revision == MODERN:
        assert (cities.structured_content, schema["type"]) == (["Lisbon", "Oslo"], "array")
        assert perhaps.raw["structuredContent"] is None
    else:
        wrapped = {"result": ["Lisbon", "Oslo"]}
        assert (cities.structured_content, schema["type"]) == (wrapped, "object")
        assert perhaps.structured_content == {"result": None}


@pytest.mark.revisions(*since("2025-06-18"))
async def test_a_result_may_be_decided_as_a_whole(client: TappedClient) -> None:
    result = await client.call_tool("whole")
    assert (result.text, result.structured_content) == ("done", {"n": 1})
    assert result.meta["example.com/cost"] == 3


# --- content --------------------------------------------------------------------------------------

BLOCKS: dict[str, ContentBlock] = {
    "picture": ImageContent(PNG, "image/png"),
    "document": EmbeddedResource(
        TextResourceContents("note://hello", "hello", mime_type="text/plain")
    ),
    "archive": EmbeddedResource(
        BlobResourceContents("note://bytes", b"\x00\xff", mime_type="application/zip")
    ),
    "plain_object": TextContent('{"name":"Oslo"}'),
}


async def test_every_kind_of_content(client: TappedClient) -> None:
    """CONT-1, CONT-3, CONT-4, TOOL-13: audio is a resource, a link text where they are unknown."""
    nothing = (await client.call_tool("silence")).raw
    # Some hosts refuse a result without content.
    assert nothing["content"] == [{"type": "text", "text": "null"}]
    assert "structuredContent" not in nothing
    for name, expected in BLOCKS.items():
        assert (await client.call_tool(name)).content == [expected]
    [block] = (await client.call_tool("pointer")).content
    linked = client.revision >= "2025-06-18"
    assert isinstance(block, ResourceLink if linked else TextContent)
    [block] = (await client.call_tool("sound")).content
    if client.revision >= "2025-03-26":
        assert block == AudioContent(WAV, "audio/wav")
    else:
        assert isinstance(block, EmbeddedResource)
        assert isinstance(block.resource, BlobResourceContents)
        assert (block.resource.blob, block.resource.mime_type) == (WAV, "audio/wav")


async def test_blocks_keep_their_order_and_the_annotations_that_the_revision_knows(
    client: TappedClient, revision: str
) -> None:
    """CONT-2."""
    result = await client.call_tool("everything")
    assert [type(each) for each in result.content] == [TextContent, ImageContent, TextContent]
    block = result.raw["content"][0]
    assert block["annotations"]["audience"] == ["user"]
    assert block["annotations"]["priority"] == 0.5
    assert ("lastModified" in block["annotations"]) == (revision >= "2025-06-18")
    assert ("_meta" in block) == (revision >= "2025-06-18")


async def test_what_a_budget_leaves_out_is_read_at_the_uri_in_the_result(
    client: TappedClient,
) -> None:
    """TOOL-10: what is left still fits the output schema."""
    result = await client.call_tool("lengthy")
    shown, note, link = result.content
    assert isinstance(shown, TextContent)
    assert isinstance(note, TextContent)
    assert isinstance(link, ResourceLink if client.revision >= "2025-06-18" else TextContent)
    items = json.loads(shown.text)
    if client.revision >= "2025-06-18":
        assert result.structured_content == {"result": items}
    for number in range(1, 100):
        uri = f"{note.text.rpartition('/')[0]}/{number}".rpartition(" ")[2]
        page, *more = await client.read_resource(uri)
        assert isinstance(page, TextResourceContents)
        items += [json.loads(line.partition(" = ")[2]) for line in page.text.splitlines()]
        if not more:
            break
    assert items == [f"item {number}" for number in range(400)]
    assert note.text.endswith(f" {uri}")


async def test_a_handler_in_a_thread_has_the_same_context(client: TappedClient) -> None:
    seen: list[float] = []
    result = await client.call_tool(
        "in_a_thread", on_progress=lambda now: seen.append(now.progress), log_level="info"
    )
    assert result.text == "hello"
    assert seen == [1]
    assert [each["data"] for each in client.told("notifications/message")] == ["from a thread"]
