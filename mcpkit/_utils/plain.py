r"""Texts of others, made harmless for terminals and logs: what steers or hides is written out.

A control character, an escape, a mark that turns the direction of writing and one that has no
width are shown as Python writes them: ``\x1b``, ``\u202e``. They are not removed, because a name
that has them would then look like another name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

__all__ = ["single_line", "visible"]

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
"""Selectors, and the characters that have several forms: behind others they would hide data."""

_JOINING: Final = (
    "\u0600-\u109f\u1780-\u18af"  # Arabic, Persian, the scripts of India, Khmer, Mongolian
    f"{_EMOJI}"
)
"""Characters that a joiner or a non-joiner gives another form."""

_HIDDEN: Final = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters but for tabs and ends of lines
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # turn the direction of writing
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
    "\ufff0-\ufffb\U00013430-\U0001343f\U00016fe4\U0001bca0-\U0001bca3"
    "\U0001d159\U0001d173-\U0001d17a\ufe03-\ufe0d"  # have no width, or nothing to see
    "\u2028\u2029\ud800-\udfff\U000e0000-\U000e00ff\U000e01f0-\U000e0fff]"
    # Without these, words of Persian and Hindi, families and flags fall to pieces.
    f"|(?<![{_JOINING}])(?<![{_EMOJI}]\ufe0f)[\u200c\u200d]|[\u200c\u200d](?![{_JOINING}])"
    # Only one may follow a character that has forms.
    + "".join(f"|(?<![{chosen}])[{selectors}]" for selectors, chosen in _FORMS)
)


@cache
def _hidden() -> re.Pattern[str]:
    # Compiled when it is first needed: that takes a while, and most texts are plain.
    return re.compile(_HIDDEN)


def _as_python(character: str) -> str:
    return character.encode("unicode_escape").decode()


def visible(text: object, written: Callable[[str], str] = _as_python) -> str:
    """Return a text in which nothing steers a terminal or hides; lines and tabs stay.

    Args:
        text: A text of somebody else; of any other object, its text.
        written: Returns what is written instead of a character.
    """
    plain = str(text)
    if plain.isascii() and plain.isprintable():
        return plain
    return _hidden().sub(lambda found: written(found[0]), plain.replace("\r\n", "\n"))


def single_line(text: object, longest: int | None = None) -> str:
    """Return a text as `visible` does, as a part of one line.

    Args:
        text: As for `visible`.
        longest: Characters that are kept; None: all are.
    """
    plain = str(text)
    cut = plain[:longest]
    parts = map(str.strip, re.split("[\n\t]", visible(cut)))
    shown = " ".join(filter(None, parts))
    return f"{shown}… ({len(plain)} characters)" if len(cut) < len(plain) else shown
