"""Parts of sentences: texts and values of others, which may be of any length; ends of processes."""

from __future__ import annotations

from itertools import takewhile
from typing import Any, Final

from pydantic_core import to_json

from mcpkit.types import is_array, is_object

__all__ = ["cut", "exit_reason", "named", "quoted", "shorten"]

_LONGEST: Final = 100
"""The characters of a text that are enough to recognize it."""


def cut(text: str, limit: int = _LONGEST) -> str:
    """Return a text of at most `limit` characters; an ellipsis stands for the rest."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def named(value: Any) -> str:
    """Return a text as it stands, cut; any other JSON value quoted."""
    return cut(value) if isinstance(value, str) else quoted(value)


def quoted(value: Any) -> str:
    """Return a JSON value as Python writes it, which is one line, cut."""
    if isinstance(value, str):
        return repr(cut(value))
    return cut(repr(_Head(_LONGEST).of(value)))


def shorten(value: Any, limit: int = 60) -> str:
    """Return a JSON value as compact text, cut to `limit` characters."""
    return cut(to_json(_Head(limit).of(value), fallback=str).decode(), limit)


def exit_reason(code: int) -> str:
    """Return how a process ended, by its exit code; a negative one is a signal's."""
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"


class _Head:
    """The beginning of a JSON value: enough of it for a text of some length.

    Args:
        length: Of the text.
    """

    def __init__(self, length: int) -> None:
        self._room = length + 1

    def of(self, value: Any) -> Any:
        """Return the value without what stands beyond the end of the text."""
        self._room -= 2
        if isinstance(value, str):
            kept = value[: max(0, self._room) + 2]
            self._room -= len(kept)
            return kept
        if is_array(value):
            return [self.of(each) for each in takewhile(self._has_room, value)]
        if is_object(value):
            members = takewhile(self._has_room, value.items())
            return {self.of(name): self.of(each) for name, each in members}
        return value

    def _has_room(self, _: object) -> bool:
        return self._room >= 0
