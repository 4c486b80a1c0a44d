"""The data that a server sends, on a terminal or in a pipe.

Nothing of it steers a terminal or hides there: such characters are written out. A pipe gets the
data as it was sent.
"""

from __future__ import annotations

import json
import mimetypes
import os
import re
import sys
import tempfile
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
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

_ENDINGS: Final = {"audio/wav": ".wav", "image/webp": ".webp", "audio/mpeg": ".mp3"}
"""Endings that the tables of some systems lack."""


# --- text -----------------------------------------------------------------------------------------


def on_terminal() -> bool:
    """Return True if stdout is a terminal, rather than a program or a file."""
    return sys.stdout.isatty()


def put(text: str) -> None:
    """Write text to stdout, with an end of line."""
    if on_terminal():
        say(text)
    else:
        text = str(text)
        put_bytes(text.encode("utf-8", "replace"))
        if not text.endswith("\n"):
            put_bytes(b"\n")


def put_json(value: Any) -> None:
    """Write a JSON document to stdout."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    # JSON itself escapes the first half of the control characters only.
    put_bytes(escape_control(text, _as_json).encode() + b"\n")


def _as_json(character: str) -> str:
    return json.dumps(character)[1:-1]


def put_bytes(data: bytes) -> None:
    """Write bytes to stdout as they are."""
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
        about = block.description or block.title or ""
        return f"{block.uri}  {about}".rstrip()
    if isinstance(block, (ImageContent, AudioContent)):
        return None
    return block.resource.text if isinstance(block.resource, TextResourceContents) else None


# --- bytes ----------------------------------------------------------------------------------------


class Binary:
    """Bytes that a server has sent.

    Args:
        data: The bytes.
        mime_type: As the server says; guessed from the first bytes if None.
        name: A file's name without its ending, or with it.
    """

    def __init__(self, data: bytes, mime_type: str | None, name: str) -> None:
        self.data = data
        self.mime_type = mime_type or sniff(data[:32]) or "application/octet-stream"
        self.name = _safe(name)
        if not Path(self.name).suffix:
            essence = self.mime_type.partition(";")[0].strip().lower()
            ending = _ENDINGS.get(essence) or mimetypes.guess_extension(essence) or ".bin"
            self.name += ending


def as_binary(
    found: ContentBlock | ResourceContents, name: str, *, text_too: bool = False
) -> Binary | None:
    """Return the bytes of a block or of contents; None if it is text.

    Args:
        found: As the server has sent it.
        name: Of the file, if no URI has one.
        text_too: True to return the text of a resource as bytes.
    """
    if isinstance(found, (ImageContent, AudioContent)):
        return Binary(found.data, found.mime_type, name)
    if isinstance(found, (TextContent, ResourceLink)):
        return None
    contents = found
    if not isinstance(contents, (TextResourceContents, BlobResourceContents)):
        contents = contents.resource
    if isinstance(contents, TextResourceContents):
        if not text_too:
            return None
        data = contents.text.encode("utf-8", "replace")
        return Binary(data, contents.mime_type or "text/plain", name_from(contents.uri) or name)
    return Binary(contents.blob, contents.mime_type, name_from(contents.uri) or name)


def name_from(uri: str) -> str:
    """Return the name of a file that a URI ends with; empty if it ends with none."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    return _safe(unquote(parts.path or parts.netloc).rstrip("/").rpartition("/")[2], "")


def _safe(name: str, otherwise: str = "content") -> str:
    """Return a name from outside as one that stays inside a folder, on every system."""
    safe = re.sub(r"[^\w.-]+", "_", name).strip("._- ")[:100].rstrip("._- ") or otherwise
    is_device = safe.partition(".")[0].upper() in _DEVICES
    return f"_{safe}" if is_device else safe


_DEVICES: Final = {
    *("CON", "PRN", "AUX", "NUL"),
    *(f"{device}{number}" for device in ("COM", "LPT") for number in "0123456789¹²³"),
}
"""Names of devices in every folder of Windows, whatever their ending.

https://learn.microsoft.com/en-us/windows/win32/fileio/naming-a-file
"""


_MOST_FILES: Final = 1000
"""Files of one answer that are saved; a server may send any number in a few bytes each."""


class Saver:
    """Saves what a server sends.

    Args:
        folder: For the files; a new one among the temporary files, if None.
    """

    def __init__(self, folder: Path | None) -> None:
        self.wanted = folder is not None
        self._folder = folder
        self._left = _MOST_FILES
        self._tried: Counter[str] = Counter()
        """Name → how many variants of it are taken."""

    def save(self, data: bytes, name: str) -> Path:
        """Save bytes under a name, or one like it if there is such a file.

        Raises:
            typer.Exit: The file cannot be written, or too many have been; a message has said so.
        """
        if not self._left:
            fail(f"the server sends more than {_MOST_FILES} files; the others are not saved")
        self._left -= 1
        try:
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="mcpkit-"))
            self._folder.mkdir(parents=True, exist_ok=True)
            stem, suffix = Path(name).stem, Path(name).suffix
            while True:
                self._tried[name] += 1
                number = self._tried[name]
                place = self._folder / (name if number == 1 else f"{stem}-{number}{suffix}")
                try:
                    file = place.open("xb")
                except FileExistsError:
                    continue
                with file:
                    file.write(data)
                return place
        except OSError as error:
            fail(f"{self._folder}: {error.strerror or error}")

    def keep(self, found: Binary) -> None:
        """Save bytes, say where, and show them if the terminal can."""
        place = self.save(found.data, found.name)
        _show_picture(found)
        note(f"{found.mime_type}, {size(len(found.data))}: saved as {place}")


def _show_picture(found: Binary) -> None:
    if not on_terminal() or not found.mime_type.startswith("image/"):
        return
    drawn = _drawn(found.data)
    if drawn:
        put_bytes(drawn + b"\n")


def _drawn(data: bytes) -> bytes:
    """Return a picture as commands for the terminal; empty if it is not known to show pictures."""
    program = os.environ.get("TERM_PROGRAM", "").lower()
    coded = b64encode(data)
    if program in ("iterm.app", "wezterm"):
        return b"\x1b]1337;File=inline=1;size=%d:%s\x07" % (len(data), coded)
    kitty = "kitty" in os.environ.get("TERM", "") or program == "ghostty"
    if not kitty or sniff(data[:32]) != "image/png":
        return b""
    chunks: Sequence[bytes] = [coded[i : i + 4096] for i in range(0, len(coded), 4096)]
    said: list[bytes] = []
    for number, chunk in enumerate(chunks, 1):
        first = b"a=T,f=100," if number == 1 else b""
        said.append(b"\x1b_G%sm=%d;%s\x1b\\" % (first, number < len(chunks), chunk))
    return b"".join(said)
