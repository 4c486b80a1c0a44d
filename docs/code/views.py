"""Tools in sets, of which each client chooses some."""

# region first
from typing import Any

from mcpkit import Caller, MCPKit

app = MCPKit("forge")


@app.tool(tags=["issues"])
def close(number: int) -> str:
    """Close an issue."""
    return f"Issue {number} is closed."


@app.tool(tags=["repos"])
def clone(name: str) -> str:
    """Clone a repository."""
    return f"{name} is cloned."


def toolsets(caller: Caller) -> frozenset[str] | None:
    """Return the sets in the header X-Toolsets; None: all."""
    header = caller.http and caller.http.headers.get("x-toolsets")
    return frozenset(header.split(",")) if header else None


@app.view(toolsets)
def in_toolset(entry: Any, chosen: frozenset[str] | None) -> bool:
    """Show the entries of the chosen sets."""
    return chosen is None or not chosen.isdisjoint(entry.tags)


# endregion first
