"""The hosts that ``mcpkit install`` knows, one file each, with the sources of what it says."""

from __future__ import annotations

from typing import Final

from mcpkit.cli._install import (
    claude_code,
    claude_desktop,
    cline,
    codex,
    copilot_cli,
    cursor,
    gemini_cli,
    json_shape,
    vscode,
    windsurf,
    zed,
)
from mcpkit.cli._install.hosts import Host

__all__ = ["HOSTS"]

HOSTS: Final[dict[str, Host]] = {
    module.HOST.name: module.HOST
    for module in (
        claude_desktop,
        claude_code,
        cursor,
        vscode,
        windsurf,
        gemini_cli,
        codex,
        zed,
        cline,
        copilot_cli,
        json_shape,
    )
}
"""Name → host, in the order in which they are listed."""
