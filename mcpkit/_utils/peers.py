"""The names of other libraries for MCP servers, and what is written instead of each here.

The table is ``peers.txt``. It serves errors about a name that is not there, a rule of ``mcpkit
check``, ``mcpkit migrate`` and the migration guides.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final, Literal, NamedTuple, TypeAlias, cast

from mcpkit._utils.names import Library

__all__ = ["GUIDES", "PeerName", "named", "peer_names"]

GUIDES: Final[dict[Library, str]] = {
    "FastMCP": "docs/migration/fastmcp.md",
    "the official SDK": "docs/migration/python-sdk.md",
}

How: TypeAlias = Literal["rename", "drop", "rewrite", "hand", "keep", "guard"]
"""How a migration treats a name: writes ours, leaves it out, has a function for it, or marks it.

An option that is marked is left out too, except for those that guard something (``keep``): the
server does not start before somebody has decided. One that may be off (``guard``) is left out, and
what is written instead does not let the server start if it is on.
"""


class PeerName(NamedTuple):
    """A name of another library.

    Args:
        on: What it is written on: ``ctx``, ``app``, ``answer``, ``import``, or something that is
            called with it as a keyword, such as ``tool(…)``.
        theirs: The name.
        how: What a migration does with it.
        ours: Our name; empty if none means the same.
        say: What to do, as the rest of a sentence; ``write`` and our name if empty.
        guide: The section of the migration guides that has more about it.
    """

    on: str
    theirs: str
    how: How
    ours: str
    say: str
    guide: str

    @property
    def advice(self) -> str:
        """What to do, as the rest of a sentence."""
        return self.say or f"write {self.ours}"


@cache
def peer_names() -> dict[tuple[str, str], PeerName]:
    """Return the table, by what a name is written on and the name."""
    found: dict[tuple[str, str], PeerName] = {}
    on = ""
    for line in (files("mcpkit._utils") / "peers.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            on = line[1:-1]
        elif line and not line.startswith("#"):
            theirs, how, ours, say, guide = (
                "" if each == "-" else each for each in line.split(" | ")
            )
            found[on, theirs] = PeerName(on, theirs, cast("How", how), ours, say, f"#{guide}")
    return found


def named(on: str, theirs: str) -> PeerName | None:
    """Return what the table has for a name; None if it has nothing."""
    return peer_names().get((on, theirs))
