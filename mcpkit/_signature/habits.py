"""What hosts add to the arguments of a tool by themselves, whatever its schema says.

A tool that has such a parameter of its own gets it as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import Final, NamedTuple

__all__ = ["HABITS", "Habit", "is_host_argument"]


class Habit(NamedTuple):
    """The arguments that a host adds.

    Args:
        host: Who does it.
        mark: The one that is always among them.
        names: All of them.
        source: Where it is from.
    """

    host: str
    mark: str
    names: Set[str]
    source: str


HABITS: Final = (
    Habit(
        "Gemini CLI",
        "wait_for_previous",
        frozenset({"wait_for_previous"}),
        "https://github.com/google-gemini/gemini-cli, packages/core/src/tools/tools.ts",
    ),
    Habit(
        "n8n",
        "toolCallId",
        frozenset({"toolCallId", "sessionId", "chatInput", "action", "tool"}),
        "https://github.com/n8n-io/n8n/issues/21716, mpeirone/zabbix-mcp-server/pull/27",
    ),
)


def is_host_argument(unknown: Iterable[str]) -> frozenset[str]:
    """Return which of the arguments that a tool does not know a host has added by itself."""
    names = frozenset(unknown)
    found: set[str] = set()
    for habit in HABITS:
        if habit.mark in names:
            found |= names & habit.names
    return frozenset(found)
