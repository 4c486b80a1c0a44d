"""Codex, the command line and the extension.

- Files and shapes: https://developers.openai.com/codex/mcp
- ``CODEX_HOME``: https://developers.openai.com/codex/config-reference
- Keys of an entry:
  https://github.com/openai/codex/blob/main/codex-rs/config/src/mcp_types.rs
"""

from __future__ import annotations

from functools import partial

from mcpkit.cli._install.hosts import Host, reached, started
from mcpkit.cli._install.toml import Toml

__all__ = ["HOST"]

HOST = Host(
    name="codex",
    title="Codex",
    key="mcp_servers",
    user=lambda machine: machine.folder("CODEX_HOME", ".codex") / "config.toml",
    project=".codex/config.toml",
    launch=started,
    remote=partial(reached, headers="http_headers"),
    format=Toml(),
    after="Start codex anew; /mcp shows the server.",
)
