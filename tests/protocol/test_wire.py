"""The values of `mcpkit.types` ⇄ the members of messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpkit._protocol import wire
from mcpkit._protocol.revisions import REVISIONS
from mcpkit.types import (
    Annotations,
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    EmbeddedResource,
    Icon,
    ImageContent,
    Implementation,
    ResourceContents,
    ResourceLink,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from tests.messages import VERSIONS
from tests.protocol.talk import revision
from tests.protocol.test_messages import JSON
from tests.schemas import check_value, definitions

LAST_HANDSHAKE = REVISIONS[-1]
OLDEST = REVISIONS[0]
SINCE_META = SINCE_LINKS = VERSIONS[2:]
SINCE_AUDIO = VERSIONS[1:]

every_version = pytest.mark.parametrize("version", VERSIONS)

META = {"example.org/note": [1, None]}
ICON = Icon("https://example.org/i.png", mime_type="image/png", sizes=["48x48"], theme="dark")
NOTES = Annotations(
    audience=["user", "assistant"], priority=0.5, last_modified="2026-01-02T03:04:05Z"
)

BLOCKS: dict[str, ContentBlock] = {
    "text": TextContent("ü", annotations=NOTES, meta=META),
    "image": ImageContent(b"\x00\xff", "image/png", annotations=NOTES, meta=META),
    "audio": AudioContent(b"\x00\xff", "audio/wav", annotations=NOTES, meta=META),
    "resource with text": EmbeddedResource(
        TextResourceContents("a:b", "text", mime_type="text/plain", meta=META),
        annotations=NOTES,
        meta=META,
    ),
    "resource with bytes": EmbeddedResource(
        BlobResourceContents("a:b", b"\x00\xff", mime_type="x/y", meta=META),
        annotations=NOTES,
        meta=META,
    ),
    "link": ResourceLink(
        "a:b",
        "name",
        title="Title",
        description="What it is.",
        mime_type="text/plain",
        size=7,
        icons=[ICON],
        annotations=NOTES,
        meta=META,
    ),
}
PLAIN: list[ContentBlock] = [
    TextContent(""),
    ImageContent(b"", "image/png"),
    AudioContent(b"", "audio/wav"),
    EmbeddedResource(TextResourceContents("a:b", "")),
    ResourceLink("a:b", "name"),
]

# --- content blocks -------------------------------------------------------------------------------


@every_version
def test_blocks_fit_the_schema(version: str) -> None:
    """CONT-1, CONT-4."""
    blocks = (*BLOCKS.values(), *PLAIN)
    result = {"content": [wire.block_to_wire(block, revision(version)) for block in blocks]}
    stamp = {"resultType": "complete"} if revision(version).result_metadata else {}
    check_value(result | stamp, version, "CallToolResult")


@every_version
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_a_block_has_no_member_that_the_schema_lacks(block: ContentBlock, version: str) -> None:
    """CONT-2."""
    sent = wire.block_to_wire(block, revision(version))
    by_type = {
        schema["properties"]["type"]["const"]: set(schema["properties"])
        for schema in definitions(version).values()
        if "const" in schema.get("properties", {}).get("type", {})
    }
    assert set(sent) <= by_type[sent["type"]]
    assert sent.get("_meta") == (META if version in SINCE_META else None)
    assert set(sent["annotations"]) == revision(version).annotation_members


@given(
    st.sampled_from([*BLOCKS.values(), *PLAIN]) | st.builds(ImageContent, st.binary(), st.text())
)
def test_a_block_comes_back_as_it_was(block: ContentBlock) -> None:
    """CONT-4."""
    assert wire.block_from_wire(wire.block_to_wire(block, LAST_HANDSHAKE)) == block


def test_a_block_has_only_the_members_it_was_given() -> None:
    """CONT-2: no annotations if the revision has none of them."""
    assert wire.icons_to_wire([]) is None
    assert wire.block_to_wire(TextContent("x"), LAST_HANDSHAKE) == {"type": "text", "text": "x"}
    link = {"type": "resource_link", "uri": "a:b", "name": "n"}
    assert wire.block_to_wire(ResourceLink("a:b", "n"), LAST_HANDSHAKE) == link
    notes = Annotations(last_modified="2026-01-02T03:04:05Z")
    assert "annotations" not in wire.block_to_wire(TextContent("x", annotations=notes), OLDEST)
    sent = wire.block_to_wire(TextContent("x", annotations=Annotations(priority=0)), LAST_HANDSHAKE)
    assert sent["annotations"] == {"priority": 0}


@every_version
def test_audio_is_an_embedded_blob_before_2025_03_26(version: str) -> None:
    """CONT-1."""
    sent = wire.block_to_wire(AudioContent(b"a", "audio/wav"), revision(version))
    if version in SINCE_AUDIO:
        assert sent == {"type": "audio", "data": "YQ==", "mimeType": "audio/wav"}
    else:
        blob = {"uri": "data:,", "mimeType": "audio/wav", "blob": "YQ=="}
        assert sent == {"type": "resource", "resource": blob}


@every_version
def test_a_link_is_text_with_its_uri_before_2025_06_18(version: str) -> None:
    """CONT-1."""
    sent = wire.block_to_wire(BLOCKS["link"], revision(version))
    if version in SINCE_LINKS:
        assert (sent["type"], sent["uri"], sent["title"]) == ("resource_link", "a:b", "Title")
        assert ("icons" in sent) == ("icons" in revision(version).resource_members)
    else:
        assert (sent["type"], sent["text"]) == ("text", "Title: a:b\nWhat it is.")
        sent = wire.block_to_wire(ResourceLink("a:b", "name"), revision(version))
        assert sent == {"type": "text", "text": "name: a:b"}


MALFORMED: dict[str, dict[str, Any]] = {
    "no type": {"text": "x"},
    "an unknown type": {"type": "video", "data": ""},
    "a list as type": {"type": ["text"]},
    "text without text": {"type": "text"},
    "an image without data": {"type": "image", "mimeType": "x/y"},
    "an image without a MIME type": {"type": "image", "data": ""},
    **{
        f"an image whose data is {data!r}": {"type": "image", "data": data, "mimeType": "x/y"}
        for data in ("!", "YQ", "ü", 5)
    },
    "a resource without a resource": {"type": "resource"},
    "a resource that is text": {"type": "resource", "resource": "x"},
    "a resource without contents": {"type": "resource", "resource": {"uri": "a:b"}},
    "a blob that is not base64": {"type": "resource", "resource": {"uri": "a:b", "blob": "!"}},
    "a blob that is a number": {"type": "resource", "resource": {"uri": "a:b", "blob": 5}},
    "a link without a name": {"type": "resource_link", "uri": "a:b"},
    "annotations that are text": {"type": "text", "text": "x", "annotations": "x"},
}


@pytest.mark.parametrize("value", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_block_is_a_value_error(value: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"block|contents|base64|ASCII|padding"):
        wire.block_from_wire(value)


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["text", "image", "audio", "resource", "resource_link"])},
        optional=dict.fromkeys(
            ("text", "data", "mimeType", "resource", "uri", "name", "icons", "_meta"), JSON
        ),
    )
)
def test_any_object_is_a_block_or_a_value_error(value: dict[str, Any]) -> None:
    try:
        wire.block_from_wire(value)
    except ValueError:
        pass


# --- resource contents ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "contents",
    [
        TextResourceContents("a:b", "x", mime_type="text/plain", meta=META),
        BlobResourceContents("a:b", b"\xff", mime_type="x/y", meta=META),
        TextResourceContents("a:b", ""),
        BlobResourceContents("a:b", b""),
    ],
)
@every_version
def test_contents_fit_the_schema_and_come_back(contents: ResourceContents, version: str) -> None:
    """CONT-2."""
    sent = wire.contents_to_wire(contents, revision(version))
    check_value(sent, version, type(contents).__name__)
    expected = contents if version in SINCE_META else replace(contents, meta=None)
    assert wire.contents_from_wire(sent) == expected


# --- descriptions ---------------------------------------------------------------------------------

SERVER = Implementation(
    "server",
    "1.0",
    title="Server",
    description="It serves.",
    website_url="https://example.org/",
    icons=[ICON],
)


@every_version
def test_an_implementation_fits_the_schema_and_has_every_member_it_knows(version: str) -> None:
    """CONT-2."""
    sent = wire.implementation_to_wire(SERVER, revision(version))
    check_value(sent, version, "Implementation")
    assert set(sent) == revision(version).implementation_members
    if version in VERSIONS[3:]:
        assert wire.implementation_from_wire(sent) == SERVER


@given(st.dictionaries(st.sampled_from(["name", "version", "title", "icons"]), JSON))
@example({"name": 1, "version": 2, "icons": 5})
@example({"name": None, "icons": [1]})
def test_any_object_is_an_implementation(value: dict[str, Any]) -> None:
    """META-4: nothing depends on it."""
    found = wire.implementation_from_wire(value)
    assert isinstance(found.name, str)
    assert isinstance(found.version, str)
    assert all(isinstance(icon, Icon) for icon in found.icons or ())


def test_progress_is_zero_by_default() -> None:
    assert wire.progress_from_wire({"message": "soon"}) == (0, None, "soon")


@pytest.mark.parametrize("version", SINCE_AUDIO)
def test_hints_fit_the_schema(version: str) -> None:
    hints = ToolAnnotations(
        title="T", read_only=True, destructive=False, idempotent=True, open_world=False
    )
    sent = wire.hints_to_wire(hints)
    check_value(sent, version, "ToolAnnotations")
    assert set(sent) == set(definitions(version)["ToolAnnotations"]["properties"])
    assert wire.hints_from_wire(sent) == hints
    assert sent["destructiveHint"] is False  # a tool is destructive by default
