"""Values of content, and the helpers that make them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpkit._utils.json import UNSET
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
    ToolResult,
    UserMessage,
    contents_of,
    is_text_type,
    sniff,
)

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt "


class TestUnset:
    def test_it_is_false(self) -> None:
        assert not UNSET

    def test_it_is_not_none(self) -> None:
        assert UNSET is not None

    def test_it_says_what_it_is(self) -> None:
        assert repr(UNSET) == "UNSET"


def test_log_levels_ascend_from_debug_to_emergency() -> None:
    assert (LOG_LEVELS[0], LOG_LEVELS[3], LOG_LEVELS[-1]) == ("debug", "warning", "emergency")


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
def test_the_first_bytes_give_the_type_away(start: bytes, mime_type: str | None) -> None:
    assert sniff(start) == mime_type


@pytest.mark.parametrize(
    ("mime_type", "is_text"),
    [
        ("text/markdown", True),
        ("TEXT/HTML; charset=utf-8", True),
        ("application/json", True),
        ("application/problem+json", True),
        ("image/svg+xml", True),
        ("application/yaml", True),
        ("image/png", False),
        ("application/octet-stream", False),
        ("application/jsonish", False),
    ],
)
def test_text_is_told_by_its_type(mime_type: str, is_text: bool) -> None:
    assert is_text_type(mime_type) is is_text


class TestMedia:
    def test_an_image_from_bytes_is_sniffed(self) -> None:
        assert Image(PNG).block() == ImageContent(PNG, "image/png")

    def test_a_sound_from_bytes_is_sniffed(self) -> None:
        assert Audio(WAV).block() == AudioContent(WAV, "audio/wav")

    @pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
    def test_any_kind_of_bytes_will_do(self, make: type) -> None:
        assert Image(make(PNG)).data == PNG

    def test_a_type_that_is_given_wins(self) -> None:
        assert Image(PNG, "image/x-own").mime_type == "image/x-own"

    def test_a_type_that_cannot_be_guessed_must_be_given(self) -> None:
        with pytest.raises(ValueError, match=r'Image: pass mime_type=, for example Image\(data, "'):
            Image(b"?")

    def test_a_file_is_guessed_by_its_name(self, tmp_path: Path) -> None:
        path = tmp_path / "a.png"
        path.write_bytes(b"?")
        assert Image(path).mime_type == "image/png"

    def test_a_file_without_a_telling_name_is_sniffed(self, tmp_path: Path) -> None:
        path = tmp_path / "picture"
        path.write_bytes(PNG)
        assert Image(str(path)).mime_type == "image/png"

    def test_a_file_is_read_when_it_is_sent(self, tmp_path: Path) -> None:
        path = tmp_path / "a.png"
        path.write_bytes(b"old")
        image = Image(path)
        path.write_bytes(b"new")
        assert image.block().data == b"new"

    def test_annotations_reach_the_block(self) -> None:
        marks = Annotations(priority=1.0)
        assert Image(PNG, annotations=marks).block().annotations is marks
        assert File(PNG, annotations=marks).block().annotations is marks


class TestFile:
    def test_text_is_embedded_as_text(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_text("é", encoding="utf-8")
        contents = TextResourceContents(path.as_uri(), "é", mime_type="text/plain")
        assert File(path).block().resource == contents

    def test_anything_else_is_embedded_as_a_blob(self) -> None:
        contents = BlobResourceContents("data:,", b"\0", mime_type="application/octet-stream")
        assert File(b"\0").block().resource == contents

    def test_it_may_have_a_uri(self) -> None:
        assert File(b"{}", "application/json", uri="a:b").block().resource.uri == "a:b"

    def test_a_path_becomes_an_encoded_uri(self, tmp_path: Path) -> None:
        path = tmp_path / "a b.txt"
        path.write_text("x")
        assert File(path).block().resource.uri.endswith("/a%20b.txt")


class TestContents:
    def test_text_that_is_not_utf8_is_a_blob(self) -> None:
        assert isinstance(contents_of("a:b", b"\xff", "text/plain"), BlobResourceContents)

    def test_bytes_of_no_type_are_text_if_they_can_be(self) -> None:
        assert contents_of("a:b", b"x", None) == TextResourceContents("a:b", "x")

    def test_bytes_of_no_type_are_a_blob_otherwise(self) -> None:
        assert contents_of("a:b", b"\xff", None) == BlobResourceContents("a:b", b"\xff")


class TestMessages:
    def test_a_message_is_the_users_unless_said(self) -> None:
        assert UserMessage("hi") == Message("hi")

    def test_the_model_may_say_something(self) -> None:
        assert AssistantMessage("hi") == Message("hi", "assistant")


def test_a_tool_result_tells_no_structure_from_null() -> None:
    assert ToolResult().structured_content is UNSET
    assert ToolResult(structured_content=None).structured_content is None
