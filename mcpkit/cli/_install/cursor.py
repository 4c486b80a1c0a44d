"""Cursor.

- Files and shapes: https://cursor.com/docs/mcp
"""

from __future__ import annotations

from functools import partial

from mcpkit.cli._install.hosts import Host, reached, started

__all__ = ["HOST"]

HOST = Host(
    name="cursor",
    title="Cursor",
    key="mcpServers",
    user=lambda machine: machine.home / ".cursor" / "mcp.json",
    project=".cursor/mcp.json",
    launch=partial(started, type="stdio"),
    remote=reached,
    after="Restart Cursor; its settings list the server, and can switch it on.",
)
