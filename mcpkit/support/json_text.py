"""JSON text: how many values it has, found out without parsing it."""

from __future__ import annotations

from typing import Final

__all__ = ["has_more_values"]

_NO_SEPARATORS: Final = bytes(each for each in range(256) if each not in b",[{")
"""The bytes that no value begins with, nor follows upon."""


def has_more_values(text: bytes, most: int) -> bool:
    """Return True if a JSON text has more than `most` values.

    Members of arrays and objects are values, and so is the text as a whole; names of members are
    none. Of a text that is no JSON, what stands before its first mistake is counted as a parser
    would find it.
    """
    # A value takes at least two bytes, with what parts it from the next one.
    if len(text) < 2 * most or _bound(text) <= most:
        return False
    # Backslashes stand in strings only. Without them, each quote begins or ends a string.
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    quotes = plain.count(b'"')
    if quotes > 4 * most:
        return True  # each value has at most two strings: its name and itself
    plain = b"0".join(plain.split(b'"')[::2]).translate(None, b" \t\r\n")
    return _bound(plain) - plain.count(b"[]") - plain.count(b"{}") > most


def _bound(text: bytes) -> int:
    """Return a number that the number of values does not exceed, unless strings have separators."""
    # Unlike `count`, deleting takes the same time however many there are.
    return 1 + len(text.translate(None, _NO_SEPARATORS))
