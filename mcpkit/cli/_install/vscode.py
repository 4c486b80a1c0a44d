"""VS Code.

- Files and shapes: https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
- Comments and a comma after the last member are allowed: ``mcpServerSchema`` in
  https://github.com/microsoft/vscode/blob/main/src/vs/workbench/contrib/mcp/common/mcpConfiguration.ts
- The folder of the user's profile:
  https://github.com/microsoft/vscode/blob/main/src/vs/platform/environment/node/userDataPath.ts
"""

from __future__ import annotations

from functools import partial

from mcpkit.cli._install.hosts import Host, reached, started
from mcpkit.cli._install.jsonc import Json

__all__ = ["HOST"]

HOST = Host(
    name="vscode",
    title="VS Code",
    key="servers",
    user=lambda machine: machine.applications / "Code" / "User" / "mcp.json",
    project=".vscode/mcp.json",
    launch=partial(started, type="stdio"),
    remote=partial(reached, type="http"),
    format=Json(comments=True),
    after="Run 'MCP: List Servers' from the command palette of VS Code, and start the server.",
)
