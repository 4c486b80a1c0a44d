"""Values of content, and the helpers that make them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpkit import MCPKit
from mcpkit._utils.json import UNSET
from mcpkit.testing import TestClient
from mcpkit.types import (
    LOG_LEVELS,
    Annotations,
    AssistantMessage,
    Audio,
    AudioContent,
    BlobResourceContents,
    File,
    Image,
    ImageContent,
    Message,
    TextResourceContents,
    ToolAnnotations,
    ToolResult,
    UserMessage,
    contents_of,
    is_text_type,
    sniff,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt "


@pytest.mark.parametrize(
    ("start", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"BM\x00\x00", "image/bmp"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"<svg xmlns=", "image/svg+xml"),
        (WAV, "audio/wav"),
        (b"OggS\x00", "audio/ogg"),
        (b"fLaC\x00", "audio/flac"),
        (b"ID3\x04", "audio/mpeg"),
        (b"%PDF-1.7", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"RIFF\x00\x00\x00\x00AVI ", None),
        (b"hello", None),
        (b"", None),
    ],
)
def test_the_first_bytes_show_the_type(start: bytes, mime_type: str | None) -> None:
    assert sniff(start) == mime_type


@pytest.mark.parametrize(
    ("mime_type", "is_text"),
    [
        *((each, True) for each in ("text/markdown", "TEXT/HTML; charset=utf-8", "image/svg+xml")),
        *((f"application/{each}", True) for each in ("json", "problem+json", "yaml")),
        *((f"application/{each}", False) for each in ("octet-stream", "jsonish")),
        ("image/png", False),
    ],
)
def test_text_is_recognized_by_its_type(mime_type: str, is_text: bool) -> None:
    assert is_text_type(mime_type) is is_text


def file_of(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


class TestMedia:
    def test_bytes_are_sniffed_unless_a_type_is_given(self) -> None:
        assert Image(PNG).block() == ImageContent(PNG, "image/png")
        assert Audio(WAV).block() == AudioContent(WAV, "audio/wav")
        assert Image(PNG, "image/x-own").mime_type == "image/x-own"
        others: Any = (bytearray(PNG), memoryview(PNG))
        assert [Image(each).data for each in others] == [PNG, PNG]
        with pytest.raises(ValueError, match=r'Image: pass mime_type=, for example Image\(data, "'):
            Image(b"?")

    def test_a_file_is_guessed_by_its_name_else_sniffed_and_read_when_it_is_sent(
        self, tmp_path: Path
    ) -> None:
        assert Image(file_of(tmp_path, "a.png", b"?")).mime_type == "image/png"
        assert Image(str(file_of(tmp_path, "picture", PNG))).mime_type == "image/png"
        image = Image(file_of(tmp_path, "a.png", b"old"))
        file_of(tmp_path, "a.png", b"new")
        assert image.block().data == b"new"
        assert image.to_data_uri() == "data:image/png;base64,bmV3"

    def test_annotations_reach_the_block(self) -> None:
        marks = Annotations(priority=1.0)
        assert Image(PNG, annotations=marks).block().annotations is marks
        assert File(PNG, annotations=marks).block().annotations is marks


def test_a_file_is_embedded_as_text_or_as_a_blob(tmp_path: Path) -> None:
    path = file_of(tmp_path, "a b.txt", "é".encode())
    contents = TextResourceContents(path.as_uri(), "é", mime_type="text/plain")
    assert contents.uri.endswith("/a%20b.txt")
    assert File(path).block().resource == contents
    blob = BlobResourceContents("data:,", b"\0", mime_type="application/octet-stream")
    assert File(b"\0").block().resource == blob
    assert File(b"{}", "application/json", uri="a:b").block().resource.uri == "a:b"


def test_contents_are_text_if_they_can_be() -> None:
    assert isinstance(contents_of("a:b", b"\xff", "text/plain"), BlobResourceContents)
    assert contents_of("a:b", b"x", None) == TextResourceContents("a:b", "x")
    assert contents_of("a:b", b"\xff", None) == BlobResourceContents("a:b", b"\xff")


def test_defaults_and_constants() -> None:
    assert (bool(UNSET), repr(UNSET)) == (False, "UNSET")
    assert (LOG_LEVELS[0], LOG_LEVELS[3], LOG_LEVELS[-1]) == ("debug", "warning", "emergency")
    assert UserMessage("hi") == Message("hi")
    assert AssistantMessage("hi") == Message("hi", "assistant")
    assert ToolResult().structured_content is UNSET
    assert ToolResult(structured_content=None).structured_content is None


def test_hints_of_a_hosts_own_are_passed_on() -> None:
    app = MCPKit("shop")

    own: Any = {"icon": "cup", "readOnlyHint": True}

    @app.tool(annotations=own)
    def look(data: bytearray | memoryview | str) -> str:
        return type(data).__name__

    @app.tool(annotations=ToolAnnotations(extra={"icon": "pot"}))
    def brew() -> None: ...

    with TestClient(app) as client:
        tools = {each.name: each.annotations for each in client.list_tools()}
        assert tools["look"] == ToolAnnotations(read_only=True, extra={"icon": "cup"})
        assert tools["brew"] == ToolAnnotations(extra={"icon": "pot"})
        assert client.call_tool("look", {"data": "text"}).text == "str"
