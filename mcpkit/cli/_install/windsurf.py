"""Windsurf.

- File and shapes: https://docs.windsurf.com/windsurf/cascade/mcp
"""

from __future__ import annotations

from functools import partial

from mcpkit.cli._install.hosts import Host, reached, started

__all__ = ["HOST"]

HOST = Host(
    name="windsurf",
    title="Windsurf",
    key="mcpServers",
    user=lambda machine: machine.home / ".codeium" / "windsurf" / "mcp_config.json",
    launch=started,
    remote=partial(reached, url="serverUrl"),
    after="Press refresh in Windsurf's list of MCP servers, or restart it.",
)
