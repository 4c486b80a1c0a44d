"""Gemini CLI.

- Files and shapes, and that names must not have underscores:
  https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md
"""

from __future__ import annotations

from functools import partial

from mcpkit.cli._install.hosts import Host, reached, started
from mcpkit.cli._install.jsonc import Json

__all__ = ["HOST"]

HOST = Host(
    name="gemini-cli",
    title="Gemini CLI",
    key="mcpServers",
    user=lambda machine: machine.home / ".gemini" / "settings.json",
    project=".gemini/settings.json",
    launch=started,
    remote=partial(reached, url="httpUrl"),
    format=Json(comments=True),
    underscores=False,
    after="Start gemini anew; /mcp shows the server.",
)
