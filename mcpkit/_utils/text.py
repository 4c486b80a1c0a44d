"""Foreign text: shortened for messages, and made harmless for terminals and logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import takewhile
from typing import Any, Final

from pydantic_core import to_json

_MAX_SHOWN: Final = 100
"""The characters of a text that are enough to recognize it."""

_PLACEHOLDER: Final = re.compile(r"\s*(\$\{[^{}]*\}|\{\{[^{}]*\}\}|<[^<>]*>)\s*")

PLACEHOLDER: Final = (
    "has a placeholder, such as ${NAME}, instead of a value; what starts this process was to "
    "replace it"
)
"""The rest of a sentence about a variable or an option."""


def is_placeholder(value: str) -> bool:
    """Return True if a value is ``${…}``, ``{{…}}`` or ``<…>``: what a template has for a value."""
    return _PLACEHOLDER.fullmatch(value) is not None


def truncate(text: str, limit: int = _MAX_SHOWN) -> str:
    """Return at most `limit` characters of a text, with an ellipsis for the rest."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def quote_name(value: Any) -> str:
    """Return a text truncated and without quotes, or any other JSON value quoted."""
    return truncate(value) if isinstance(value, str) else quote(value)


def quote(value: Any) -> str:
    """Return a JSON value as Python writes it, on one line, truncated."""
    if isinstance(value, str):
        return repr(truncate(value))
    return truncate(repr(_Head(_MAX_SHOWN).of(value)))


def summarize(value: Any, limit: int = 60) -> str:
    """Return a JSON value as compact text of at most `limit` characters."""
    return truncate(to_json(_Head(limit).of(value), fallback=str).decode(), limit)


def exit_reason(code: int) -> str:
    """Return how a process ended, by its exit code; a negative code is that of a signal."""
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"


class _Head:
    """The beginning of a JSON value: enough of it for a text of `length` characters."""

    def __init__(self, length: int) -> None:
        self._room = length + 1

    def of(self, value: Any) -> Any:
        """Return the value without the parts beyond the end of the text."""
        self._room -= 2
        inside: Any = value  # which no check narrows
        if isinstance(value, str):
            kept = value[: max(0, self._room) + 2]
            self._room -= len(kept)
            return kept
        if isinstance(value, list):
            return [self.of(each) for each in takewhile(self._has_room, inside)]
        if isinstance(value, dict):
            members = takewhile(self._has_room, inside.items())
            return {self.of(name): self.of(each) for name, each in members}
        return inside

    def _has_room(self, _: Any) -> bool:
        return self._room >= 0


# --- hidden characters ----------------------------------------------------------------------------

_HAN: Final = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"

_EMOJI: Final = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)

_FORMS: Final = (
    # Emoji or text; mathematics, Chinese and Japanese, Myanmar, 'Phags-pa.
    ("\ufe0e\ufe0f", f"#*0-9{_EMOJI}"),
    (
        "\ufe00-\ufe02",
        f"0\u1000-\u109f\u2200-\u2aff\u3000-\u303f\ua840-\ua87f\uaa60-\uaa7f\uff01-\uff5e{_HAN}",
    ),
    ("\u180b-\u180d\u180f", "\u1820-\u18aa"),
    ("\U000e0100-\U000e01ef", _HAN),
)
"""Variation selectors and the characters that they apply to; after others they could hide data."""

_JOINING: Final = (
    "\u0600-\u109f\u1780-\u18af"  # Arabic, Persian, the scripts of India, Khmer, Mongolian
    f"{_EMOJI}"
)
"""Characters whose form depends on a joiner or a non-joiner."""

_HIDDEN: Final = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters except tab and newline
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # change the direction of writing
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
    "\ufff0-\ufffb\U00013430-\U0001343f\U00016fe4\U0001bca0-\U0001bca3"
    "\U0001d159\U0001d173-\U0001d17a\ufe03-\ufe0d"  # have no width, or are invisible
    "\u2028\u2029\ud800-\udfff\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    # Joiners are part of Persian and Hindi words, and of emoji.
    f"|(?<![{_JOINING}])(?<![{_EMOJI}]\ufe0f)[\u200c\u200d]|[\u200c\u200d](?![{_JOINING}])"
    # A selector may follow only a character that it applies to.
    + "".join(f"|(?<![{chosen}])[{selectors}]" for selectors, chosen in _FORMS)
)


@cache
def _hidden() -> re.Pattern[str]:
    return re.compile(_HIDDEN)  # on first use: compiling it takes a while, and most texts are plain


def _as_python(character: str) -> str:
    return character.encode("unicode_escape").decode()


def escape_control(text: object, written: Callable[[str], str] = _as_python) -> str:
    r"""Return a text without characters that control a terminal or are invisible.

    Control characters, escape sequences, marks that change the direction of writing and characters
    without a width are written as Python does: ``\x1b``, ``\u202e``. They are not removed, because
    a name that contains them would then look like another name. Newlines and tabs are kept.

    Args:
        text: A foreign text, or an object whose text is meant.
        written: Returns the replacement of a character.
    """
    plain = str(text)
    if plain.isascii() and plain.isprintable():
        return plain
    return _hidden().sub(lambda found: written(found[0]), plain.replace("\r\n", "\n"))


def single_line(text: object, longest: int | None = None) -> str:
    """Return a text on one line, with control characters as by `escape_control`.

    Args:
        text: As for `escape_control`.
        longest: The number of characters to keep; None for all of them.
    """
    plain = str(text)
    kept = plain[:longest]
    parts = map(str.strip, re.split("[\n\t]", escape_control(kept)))
    shown = " ".join(filter(None, parts))
    return f"{shown}… ({len(plain)} characters)" if len(kept) < len(plain) else shown
