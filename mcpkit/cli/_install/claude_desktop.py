"""Claude Desktop.

- File, and that it is there on macOS and Windows only:
  https://modelcontextprotocol.io/docs/develop/connect-local-servers
- The file of an installation from the Windows package (MSIX), which sees another AppData:
  https://github.com/anthropics/claude-code/issues/26073
- Servers at a URL are added as connectors, not in the file:
  https://modelcontextprotocol.io/docs/develop/connect-remote-servers
"""

from __future__ import annotations

from pathlib import Path

from mcpkit.cli._install.hosts import Host, Machine, started

__all__ = ["HOST"]


def _file(machine: Machine) -> Path | None:
    name = "claude_desktop_config.json"
    if machine.platform == "win32":
        packages = machine.folder("LOCALAPPDATA", "AppData", "Local") / "Packages"
        for package in sorted(packages.glob("Claude_*")):
            return package / "LocalCache" / "Roaming" / "Claude" / name
    elif machine.platform != "darwin":
        return None
    return machine.applications / "Claude" / name


HOST = Host(
    name="claude-desktop",
    title="Claude Desktop",
    key="mcpServers",
    user=_file,
    launch=started,
    remote=(
        "Claude Desktop takes no URL in its file: add it there under Settings > Connectors, "
        "or install a server that it starts"
    ),
    after="Quit Claude Desktop entirely, and start it again.",
)
