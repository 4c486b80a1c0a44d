"""JSON text: how many values it has, found out without parsing it."""

from __future__ import annotations

from typing import Final

__all__ = ["has_more_values"]

_AT_ONCE: Final = 256 * 1024
"""Bytes that are counted before it is seen whether they are enough."""

_NO_SEPARATORS: Final = bytes(each for each in range(256) if each not in b",[{")
"""The bytes that no value begins with, nor follows upon."""


def has_more_values(text: bytes, most: int) -> bool:
    """Return True if a JSON text has more than `most` values.

    Members of arrays and objects are values, and so is the text as a whole; names of members are
    none. Of a text that is no JSON, what stands before its first mistake is counted as a parser
    would find it.
    """
    # A value takes at least two bytes, with what parts it from the next one.
    if len(text) < 2 * most or not _exceeds(text, most, is_plain=False):
        return False
    # Backslashes stand in strings only. Without them, each quote begins or ends a string.
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = plain.count(b'"')
    if quotes > 4 * most:
        return True  # each value has at most two strings: its name and itself
    plain = b"0".join(plain.split(b'"')[::2]).translate(None, b" \t\r\n")
    return _exceeds(plain, most, is_plain=True)


def _exceeds(text: bytes, most: int, *, is_plain: bool) -> bool:
    """Return True if a text may have more than `most` values, by its separators.

    Args:
        text: The text.
        most: The values that it may have.
        is_plain: True if it has neither strings nor blanks; then the answer is exact.
    """
    count = 1
    for start in range(0, len(text), _AT_ONCE):
        end = start + _AT_ONCE
        # Unlike `count`, deleting takes the same time however many there are.
        count += len(text[start:end].translate(None, _NO_SEPARATORS))
        if is_plain:
            count -= text.count(b"[]", start, end + 1) + text.count(b"{}", start, end + 1)
        if count > most:
            return True
    return False
