"""GitHub Copilot CLI.

- Files and shapes:
  https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers
- ``COPILOT_HOME``: https://code.visualstudio.com/docs/agents/reference/mcp-configuration
"""

from __future__ import annotations

from mcpkit.cli._install.hosts import Entry, Host, Launch, Remote, reached, started

__all__ = ["HOST"]


def _launch(server: Launch) -> Entry:
    return {**started(server, type="stdio"), "tools": ["*"]}


def _remote(server: Remote) -> Entry:
    return {**reached(server, type="http"), "tools": ["*"]}


HOST = Host(
    name="copilot-cli",
    title="GitHub Copilot CLI",
    key="mcpServers",
    user=lambda machine: machine.folder("COPILOT_HOME", ".copilot") / "mcp-config.json",
    project=".mcp.json",
    launch=_launch,
    remote=_remote,
    after="Start copilot anew; /mcp show lists the server.",
)
