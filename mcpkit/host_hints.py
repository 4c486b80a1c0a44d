"""Hints for hosts: members of ``_meta`` that some of them know (HOST-1 to HOST-4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mcpkit._entries import Entry, EntryOption
from mcpkit.errors import RegistrationError

HOST_HINTS: Final[Mapping[str, tuple[str, type]]] = {
    "always_load": ("anthropic/alwaysLoad", bool),
    "always_ask": ("anthropic/requiresUserInteraction", bool),
    "host_max_result": ("anthropic/maxResultSizeChars", int),
    "search_hint": ("anthropic/searchHint", str),
}
"""Option of a tool → its member of ``_meta``, and its type (HOST-1 to HOST-4).

They are sent to every client, because those that do not know a member ignore it (HOST-20).
"""

_MAX_RESULT: Final = 500_000


class HostHints(EntryOption):
    """The hints of a tool."""

    def __init__(self, meta: Mapping[str, Any]) -> None:
        self._meta = meta

    def members(self) -> Mapping[str, Any]:
        """Return them; ``meta=`` of the tool may have others (HOST-21)."""
        return {"_meta": self._meta}


def prepare(tool: Entry, options: Mapping[str, Any], at: str) -> None:
    """Give a tool its hints; raises `RegistrationError`."""
    found: dict[str, Any] = {}
    for option, (key, kind) in HOST_HINTS.items():
        value: Any = options.get(option)
        if value is None:
            continue
        if type(value) is not kind or (kind is int and value not in range(1, _MAX_RESULT + 1)):
            wanted = f"a number from 1 to {_MAX_RESULT}" if kind is int else f"a {kind.__name__}"
            raise RegistrationError(f"{at}: {option}= is {wanted}, not {value!r}")
        if value:  # HOST-1: only true counts
            found[key] = value
    if found:
        tool.options["host_hints"] = HostHints(found)
