"""The table of hosts: their files, the shape of their entries, and the source of each fact."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from mcpkit._utils.json import is_object
from mcpkit.cli._install.jsonc import Json
from mcpkit.cli._install.toml import Toml

Entry: TypeAlias = dict[str, Any]
"""The configuration of one server, in the shape of a host."""

MAX_NAME_CHARS: Final = 64


class Unsupported(Exception):
    """An installation that is not possible; the message is one line with the remedy."""


@dataclass(frozen=True, kw_only=True)
class ServerCommand:
    """A server that the host starts and connects to on stdio."""

    command: str  # an absolute path
    args: list[str]
    env: dict[str, str] = field(default_factory=dict[str, str])  # besides the host's own


@dataclass(frozen=True, kw_only=True)
class ServerUrl:
    """A server at a URL, with the headers of every request."""

    url: str
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Platform:
    """The operating system, home folder and environment, which locate the files of hosts."""

    system: str  # as `sys.platform`
    home: Path
    variables: Mapping[str, str]

    @classmethod
    def current(cls) -> Platform:
        """Return the platform of this process."""
        return cls(system=sys.platform, home=Path.home(), variables=os.environ)

    def folder(self, variable: str, *default: str) -> Path:
        """Return the folder in an environment variable, or else the one below the home folder."""
        value = self.variables.get(variable)
        return Path(value) if value else self.home.joinpath(*default)

    @property
    def applications(self) -> Path:
        """The folder of the settings of desktop applications."""
        if self.system == "darwin":
            return self.home / "Library" / "Application Support"
        if self.system == "win32":
            return self.folder("APPDATA", "AppData", "Roaming")
        return self.folder("XDG_CONFIG_HOME", ".config")


def _command_entry(server: ServerCommand, **first: Any) -> Entry:
    entry = {**first, "command": server.command, "args": server.args}
    return {**entry, "env": server.env} if server.env else entry


def _url_entry(
    server: ServerUrl, *, url: str = "url", headers: str = "headers", **first: Any
) -> Entry:
    entry = {**first, url: server.url}
    return {**entry, headers: server.headers} if server.headers else entry


@dataclass(frozen=True, kw_only=True)
class Host:
    """A program that uses MCP servers."""

    name: str  # for --client
    title: str  # in messages
    user_file: Callable[[Platform], Path | None]  # None: it does not run on the platform
    after: str  # the user's next step, as one sentence
    key: str = "mcpServers"  # of the object with an entry for each server
    project_file: str | None = None  # relative to the project
    command: Callable[[ServerCommand], Entry] = _command_entry
    url: Callable[[ServerUrl], Entry] | str = _url_entry  # a message: it does not support URLs
    format: Json | Toml = field(default_factory=Json)
    program: str | None = None  # edits the user's file, so mcpkit only reads it
    underscores: bool = True  # whether names of servers may have them

    def entry(self, server: ServerCommand | ServerUrl) -> Entry:
        """Return the entry of a server; raise `Unsupported` if it is at a URL and may not be."""
        if isinstance(server, ServerCommand):
            return self.command(server)
        if isinstance(self.url, str):
            raise Unsupported(self.url)
        return self.url(server)

    def accepted(self, name: str) -> str:
        """Return the closest valid name: letters, digits, hyphens and underscores."""
        allowed = "A-Za-z0-9_-" if self.underscores else "A-Za-z0-9-"
        return re.sub(f"[^{allowed}]+", "-", name).strip("-")[:MAX_NAME_CHARS].strip("-")


# --- entries --------------------------------------------------------------------------------------


_CONNECTION_KEYS: Final = {"type", "command", "args", "url", "httpUrl", "serverUrl"}
"""Keys that say how to connect to a server; the user or the host may have added any other."""


def merge_entry(old: object, new: Entry) -> Entry:
    """Return an entry that connects as the new one does, with the other keys of the old one."""
    if not is_object(old) or ("command" in old) != ("command" in new):
        return new
    # A host whose entries need no type may have added the one that it inferred.
    gone = _CONNECTION_KEYS - set(new) - ({"type"} if old.get("type") == "stdio" else set[str]())
    kept = {key: value for key, value in old.items() if key not in gone}
    for key, value in new.items():
        before = kept.get(key)
        kept[key] = {**before, **value} if is_object(before) and is_object(value) else value
    return kept


# --- the table ------------------------------------------------------------------------------------


def _claude_desktop_file(platform: Platform) -> Path | None:
    name = "claude_desktop_config.json"
    if platform.system == "win32":
        packages = platform.folder("LOCALAPPDATA", "AppData", "Local") / "Packages"
        for package in sorted(packages.glob("Claude_*")):
            return package / "LocalCache" / "Roaming" / "Claude" / name
    elif platform.system != "darwin":
        return None
    return platform.applications / "Claude" / name


def _zed_file(platform: Platform) -> Path:
    if platform.system == "win32":
        return platform.applications / "Zed" / "settings.json"
    folder = platform.home / ".config" if platform.system == "darwin" else platform.applications
    return folder / "zed" / "settings.json"


def _cline_file(platform: Platform) -> Path:
    if file := platform.variables.get("CLINE_MCP_SETTINGS_PATH"):
        return Path(file)
    data = platform.folder("CLINE_DIR", ".cline") / "data"
    return platform.folder("CLINE_DATA_DIR", str(data)) / "settings" / "cline_mcp_settings.json"


_TABLE: Final = (
    Host(
        # File, on macOS and Windows:
        # https://modelcontextprotocol.io/docs/develop/connect-local-servers
        # File of the Windows package (MSIX), which has its own AppData:
        # https://github.com/anthropics/claude-code/issues/26073
        # URLs are added as connectors, not in the file:
        # https://modelcontextprotocol.io/docs/develop/connect-remote-servers
        name="claude-desktop",
        title="Claude Desktop",
        user_file=_claude_desktop_file,
        url=(
            "Claude Desktop does not read URLs from its file: add it under Settings > Connectors, "
            "or install a server that it starts"
        ),
        after="Quit Claude Desktop entirely, and start it again.",
    ),
    Host(
        # Files, scopes, shapes, `claude mcp add-json` and `claude mcp remove`:
        # https://code.claude.com/docs/en/mcp
        # CLAUDE_CONFIG_DIR: as observed in version 2.1.197.
        # The user's file has much else in it and is rewritten while Claude Code runs, so its own
        # program edits it.
        name="claude-code",
        title="Claude Code",
        user_file=lambda platform: platform.folder("CLAUDE_CONFIG_DIR") / ".claude.json",
        project_file=".mcp.json",
        command=partial(_command_entry, type="stdio"),
        url=partial(_url_entry, type="http"),
        program="claude",
        after="Start a new session of Claude Code; /mcp shows the server.",
    ),
    Host(
        # Files and shapes: https://cursor.com/docs/mcp
        name="cursor",
        title="Cursor",
        user_file=lambda platform: platform.home / ".cursor" / "mcp.json",
        project_file=".cursor/mcp.json",
        command=partial(_command_entry, type="stdio"),
        after="Restart Cursor; its settings list the server, and can switch it on.",
    ),
    Host(
        # Files and shapes: https://code.visualstudio.com/docs/copilot/reference/mcp-configuration
        # Comments and trailing commas: `mcpServerSchema` in
        # https://github.com/microsoft/vscode/blob/main/src/vs/workbench/contrib/mcp/common/mcpConfiguration.ts
        # Folder of the user's profile:
        # https://github.com/microsoft/vscode/blob/main/src/vs/platform/environment/node/userDataPath.ts
        name="vscode",
        title="VS Code",
        key="servers",
        user_file=lambda platform: platform.applications / "Code" / "User" / "mcp.json",
        project_file=".vscode/mcp.json",
        command=partial(_command_entry, type="stdio"),
        url=partial(_url_entry, type="http"),
        after="Run 'MCP: List Servers' from the command palette of VS Code, and start the server.",
    ),
    Host(
        # File and shapes: https://docs.windsurf.com/windsurf/cascade/mcp
        name="windsurf",
        title="Windsurf",
        user_file=lambda platform: platform.home / ".codeium" / "windsurf" / "mcp_config.json",
        url=partial(_url_entry, url="serverUrl"),
        after="Press refresh in Windsurf's list of MCP servers, or restart it.",
    ),
    Host(
        # Files, shapes, and names without underscores:
        # https://github.com/google-gemini/gemini-cli/blob/main/docs/tools/mcp-server.md
        name="gemini-cli",
        title="Gemini CLI",
        user_file=lambda platform: platform.home / ".gemini" / "settings.json",
        project_file=".gemini/settings.json",
        url=partial(_url_entry, url="httpUrl"),
        underscores=False,
        after="Restart gemini; /mcp shows the server.",
    ),
    Host(
        # Files and shapes: https://developers.openai.com/codex/mcp
        # CODEX_HOME: https://developers.openai.com/codex/config-reference
        # Keys of an entry:
        # https://github.com/openai/codex/blob/main/codex-rs/config/src/mcp_types.rs
        name="codex",
        title="Codex",
        key="mcp_servers",
        user_file=lambda platform: platform.folder("CODEX_HOME", ".codex") / "config.toml",
        project_file=".codex/config.toml",
        url=partial(_url_entry, headers="http_headers"),
        format=Toml(),
        after="Restart codex; /mcp shows the server.",
    ),
    Host(
        # Shapes: https://zed.dev/docs/ai/mcp
        # Files: https://zed.dev/docs/configuring-zed, and for Windows `config_dir` in
        # https://github.com/zed-industries/zed/blob/main/crates/paths/src/paths.rs
        # Settings of a project: `ProjectSettingsContent` in
        # https://github.com/zed-industries/zed/blob/main/crates/settings_content/src/project.rs
        name="zed",
        title="Zed",
        key="context_servers",
        user_file=_zed_file,
        project_file=".zed/settings.json",
        after="The settings of Zed's agent panel show the server, with a green dot when it runs.",
    ),
    Host(
        # File, for the extension and the command line:
        # https://docs.cline.bot/getting-started/config
        # Environment variables: `resolveMcpSettingsPath` in
        # https://github.com/cline/cline/blob/main/sdk/packages/shared/src/storage/paths.ts
        # Shapes: https://docs.cline.bot/mcp/mcp-overview; a URL without a type means the older SSE:
        # https://github.com/cline/cline/blob/main/src/services/mcp/schemas.ts
        name="cline",
        title="Cline",
        user_file=_cline_file,
        url=partial(_url_entry, type="streamableHttp"),
        after="Cline's MCP Servers panel shows the server; restart it if it does not.",
    ),
    Host(
        # Files and shapes:
        # https://docs.github.com/en/copilot/how-tos/copilot-cli/customize-copilot/add-mcp-servers
        # COPILOT_HOME: https://code.visualstudio.com/docs/agents/reference/mcp-configuration
        name="copilot-cli",
        title="GitHub Copilot CLI",
        user_file=lambda platform: platform.folder("COPILOT_HOME", ".copilot") / "mcp-config.json",
        project_file=".mcp.json",
        command=lambda server: {**_command_entry(server, type="stdio"), "tools": ["*"]},
        url=lambda server: {**_url_entry(server, type="http"), "tools": ["*"]},
        after="Restart copilot; /mcp show lists the server.",
    ),
    Host(  # the shape that most hosts share
        name="json",
        title="JSON",
        user_file=lambda platform: None,
        url=partial(_url_entry, type="http"),
        after="Add it to the configuration of your host.",
    ),
)

HOSTS: Final = {host.name: host for host in _TABLE}
"""Name → host, in the order of ``--list``."""
