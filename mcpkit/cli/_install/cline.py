"""Cline, the extension and the command line.

- File: https://docs.cline.bot/getting-started/config
- Shapes: https://docs.cline.bot/mcp/mcp-overview, and the types of servers at a URL (without one,
  it is taken for the older SSE) in
  https://github.com/cline/cline/blob/main/src/services/mcp/schemas.ts
"""

from __future__ import annotations

from functools import partial

from mcpkit.cli._install.hosts import Host, reached, started

__all__ = ["HOST"]

HOST = Host(
    name="cline",
    title="Cline",
    key="mcpServers",
    user=lambda machine: machine.home / ".cline" / "data" / "settings" / "cline_mcp_settings.json",
    launch=started,
    remote=partial(reached, type="streamableHttp"),
    after="Cline's MCP Servers panel shows the server; restart it if it does not.",
)
