"""Claude Code.

The user's servers are kept in a file with much else in it, which Claude Code rewrites while it
runs; so they are changed by its own program. A project's servers have a file of their own.

- Files, scopes, shapes, `claude mcp add-json` and `claude mcp remove`:
  https://code.claude.com/docs/en/mcp
- ``CLAUDE_CONFIG_DIR`` moves the file: as seen of version 2.1.197.
"""

from __future__ import annotations

from functools import partial

from mcpkit.cli._install.hosts import Host, reached, started

__all__ = ["HOST"]

HOST = Host(
    name="claude-code",
    title="Claude Code",
    key="mcpServers",
    user=lambda machine: machine.folder("CLAUDE_CONFIG_DIR") / ".claude.json",
    project=".mcp.json",
    launch=partial(started, type="stdio"),
    remote=partial(reached, type="http"),
    command="claude",
    after="Start a new session of Claude Code; /mcp shows the server.",
)
