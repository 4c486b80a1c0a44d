"""The data of a server: on a terminal, where it is made harmless, in a pipe unchanged, in files."""

from __future__ import annotations

import json
import mimetypes
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from mcpkit._utils.text import escape_control
from mcpkit.cli._terminal import fail, note, say
from mcpkit.types import (
    AudioContent,
    BlobResourceContents,
    ContentBlock,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    TextResourceContents,
    sniff,
)

_EXTENSIONS: Final = {"audio/wav": ".wav", "image/webp": ".webp", "audio/mpeg": ".mp3"}
"""Extensions that the tables of some systems lack."""

_DEVICES: Final = {
    *("CON", "PRN", "AUX", "NUL"),
    *(f"{device}{number}" for device in ("COM", "LPT") for number in "0123456789¹²³"),
}
"""Names that are devices in every folder of Windows, with any extension.

https://learn.microsoft.com/en-us/windows/win32/fileio/naming-a-file
"""

_MAX_FILES: Final = 1000
"""Files of one result that are saved; a server may send any number in a few bytes each."""


def on_terminal() -> bool:
    """Return True if stdout is a terminal, not a pipe or a file."""
    return sys.stdout.isatty()


def put(text: str) -> None:
    """Write a text and a line break to stdout."""
    if on_terminal():
        say(text)
    else:
        end = "" if str(text).endswith("\n") else "\n"
        put_bytes(f"{text}{end}".encode("utf-8", "replace"))


def put_json(value: Any) -> None:
    """Write a JSON document to stdout."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    # JSON itself escapes only some of the control characters.
    put_bytes(escape_control(text, lambda each: json.dumps(each)[1:-1]).encode() + b"\n")


def put_bytes(data: bytes) -> None:
    """Write bytes to stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def size(count: int) -> str:
    """Return a number of bytes for people."""
    if count < 1000:
        return f"{count} bytes" if count != 1 else "1 byte"
    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def text_of(block: ContentBlock) -> str | None:
    """Return the text of a block; None if it has bytes instead."""
    if isinstance(block, TextContent):
        return block.text
    if isinstance(block, ResourceLink):
        return f"{block.uri}  {block.description or block.title or ''}".rstrip()
    if isinstance(block, (ImageContent, AudioContent)):
        return None
    return block.resource.text if isinstance(block.resource, TextResourceContents) else None


class Binary:
    """Bytes of a server, with a type and a file name that are completed by guesses."""

    def __init__(self, data: bytes, mime_type: str | None, name: str) -> None:
        self.data = data
        self.mime_type = mime_type or sniff(data[:32]) or "application/octet-stream"
        self.name = _safe(name)
        if not Path(self.name).suffix:
            essence = self.mime_type.partition(";")[0].strip().lower()
            self.name += _EXTENSIONS.get(essence) or mimetypes.guess_extension(essence) or ".bin"


def as_binary(
    found: ContentBlock | ResourceContents, name: str, *, text_too: bool = False
) -> Binary | None:
    """Return the bytes of a block or of resource contents; None if it is text."""
    if isinstance(found, (ImageContent, AudioContent)):
        return Binary(found.data, found.mime_type, name)
    if isinstance(found, (TextContent, ResourceLink)):
        return None
    contents = found
    if not isinstance(contents, (TextResourceContents, BlobResourceContents)):
        contents = contents.resource
    name = name_from(contents.uri) or name
    if not isinstance(contents, TextResourceContents):
        return Binary(contents.blob, contents.mime_type, name)
    if not text_too:
        return None
    return Binary(
        contents.text.encode("utf-8", "replace"), contents.mime_type or "text/plain", name
    )


def name_from(uri: str) -> str:
    """Return the name of a file at the end of a URI; empty if there is none."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    return _safe(unquote(parts.path or parts.netloc).rstrip("/").rpartition("/")[2], "")


def _safe(name: str, otherwise: str = "content") -> str:
    """Return a name that stays inside a folder, on every system."""
    safe = re.sub(r"[^\w.-]+", "_", name).strip("._- ")[:100].rstrip("._- ") or otherwise
    return f"_{safe}" if safe.partition(".")[0].upper() in _DEVICES else safe


class Saver:
    """Saves the files of a result in a folder; None is a new temporary one."""

    def __init__(self, folder: Path | None) -> None:
        self.wanted = folder is not None
        self._folder = folder
        self._left = _MAX_FILES
        self._tried: Counter[str] = Counter()
        """Name → how many variants of it exist."""

    def save(self, found: Binary) -> None:
        """Save bytes under their name, or a variant of it, and print the path."""
        if not self._left:
            fail(f"the server sends more than {_MAX_FILES} files; the others are not saved")
        self._left -= 1
        name = Path(found.name)
        try:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="mcpkit-"))
            self._folder.mkdir(parents=True, exist_ok=True)
            while True:
                self._tried[found.name] += 1
                number = self._tried[found.name]
                variant = found.name if number == 1 else f"{name.stem}-{number}{name.suffix}"
                try:
                    file = (self._folder / variant).open("xb")
                except FileExistsError:
                    continue
                with file:
                    file.write(found.data)
                break
        except OSError as error:
            fail(f"{self._folder}: {error.strerror or error}")
        note(f"{found.mime_type}, {size(len(found.data))}: saved as {self._folder / variant}")
