"""Zed.

- Shapes: https://zed.dev/docs/ai/mcp
- Files: https://zed.dev/docs/configuring-zed, and for Windows ``config_dir`` in
  https://github.com/zed-industries/zed/blob/main/crates/paths/src/paths.rs
- A project's settings may have them too: ``ProjectSettingsContent`` in
  https://github.com/zed-industries/zed/blob/main/crates/settings_content/src/project.rs
"""

from __future__ import annotations

from pathlib import Path

from mcpkit.cli._install.hosts import Host, Machine, reached, started
from mcpkit.cli._install.jsonc import Json

__all__ = ["HOST"]


def _file(machine: Machine) -> Path:
    if machine.platform == "win32":
        return machine.applications / "Zed" / "settings.json"
    if machine.platform == "darwin":
        return machine.home / ".config" / "zed" / "settings.json"
    return machine.applications / "zed" / "settings.json"


HOST = Host(
    name="zed",
    title="Zed",
    key="context_servers",
    user=_file,
    project=".zed/settings.json",
    launch=started,
    remote=reached,
    format=Json(comments=True),
    after="The settings of Zed's agent panel show the server, with a green dot when it runs.",
)
