"""JSON text: how much is in it, found out without parsing it."""

from __future__ import annotations

from typing import Final

__all__ = ["count_values", "excess_of", "excess_of_digits", "has_more_values"]

_AT_ONCE: Final = 256 * 1024
"""Bytes that are counted before it is seen whether they are enough."""

_NO_SEPARATORS: Final = bytes(each for each in range(256) if each not in b",[{")
"""The bytes that no value begins with, nor follows upon."""

_MOST_DIGITS: Final = 400
"""The digits of a number in a large text. Reading an integer takes the square of its digits."""

_LONG: Final = 20
"""The digits from which on an integer may have more than 64 bits, and is slow all the way."""

_MOST_LONG_DIGITS: Final = 200_000
"""The digits of all such integers in a large text together."""

_DIGITS: Final = bytes(b"0"[0] if chr(each).isdecimal() else b" "[0] for each in range(256))
_LARGE: Final = 64 * 1024


def count_values(text: bytes, most: int) -> int:
    """Return the number of values in a JSON text, or a larger one than `most` if it has more.

    Members of arrays and objects are values, and so is the text as a whole; names of members are
    none. Of a text that is no JSON, what stands before its first mistake is counted as a parser
    would find it.
    """
    plain = _without_escapes(text)
    quotes = plain.count(b'"')
    if quotes > 4 * most:
        return most + 1  # each value has at most two strings: its name and itself
    plain = b"0".join(plain.split(b'"')[::2]).translate(None, b" \t\r\n")
    return _separated(plain, most, is_plain=True)


def has_more_values(text: bytes, most: int) -> bool:
    """Return True if a JSON text has more than `most` values; see `count_values`."""
    # A value takes at least two bytes, with what parts it from the next one.
    if len(text) < 2 * most or _separated(text, most, is_plain=False) <= most:
        return False
    return count_values(text, most) > most


def excess_of(text: bytes, most: int) -> str:
    """Return what a JSON text has too much of, in words; an empty string if there is no such thing.

    Args:
        text: The text.
        most: The values that it may have.
    """
    if has_more_values(text, most):
        return f"more than {most:,} values"
    return excess_of_digits(text)


def excess_of_digits(text: bytes) -> str:
    """Return which numbers a JSON text of more than 64 KiB has too much of, in words, if any.

    In a shorter one, the longest numbers that are read, of 4,300 digits, take no more than a
    millisecond or two.
    """
    if len(text) < _LARGE or not _long_numbers(text):
        return ""
    return _long_numbers(b" ".join(_without_escapes(text).split(b'"')[::2]))


def _long_numbers(text: bytes) -> str:
    digits = text.translate(_DIGITS)
    if b"0" * (_MOST_DIGITS + 1) in digits:
        return f"a number of more than {_MOST_DIGITS} digits"
    if _LONG * digits.count(b"0" * _LONG) > _MOST_LONG_DIGITS:
        return f"numbers of {_LONG} digits and more, of {_MOST_LONG_DIGITS:,} digits in all"
    return ""


def _without_escapes(text: bytes) -> bytes:
    # Backslashes stand in strings only. Without them, each quote begins or ends a string.
    return text.replace(b"\\\\", b"").replace(b'\\"', b"")


def _separated(text: bytes, most: int, *, is_plain: bool) -> int:
    """Return the number of values by their separators, or a larger one than `most`.

    Args:
        text: The text.
        most: The values up to which they are counted.
        is_plain: True if it has neither strings nor blanks; then the number is exact, else it may
            be smaller.
    """
    count = 1
    for start in range(0, len(text), _AT_ONCE):
        end = start + _AT_ONCE
        # Unlike `count`, deleting takes the same time however many there are.
        count += len(text[start:end].translate(None, _NO_SEPARATORS))
        if is_plain:
            count -= text.count(b"[]", start, end + 1) + text.count(b"{}", start, end + 1)
        if count > most:
            break
    return count
