"""Who is measured: which interpreter runs it, which versions it has, and how its programs start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import BARE, CONTROL, FASTMCP, LOWLEVEL, MCPKIT, OFFICIAL
from benchmarks.peers import ROOT, python_of

# FastMCP's documented switches for what a benchmark should not pay for.
_FASTMCP_SETTINGS = {
    "FASTMCP_LOG_ENABLED": "false",
    "FASTMCP_ENABLE_RICH_LOGGING": "false",
    "FASTMCP_MCP_CAMELCASE_COMPAT": "false",
    "FASTMCP_TELEMETRY_MODE": "off",
    "FASTMCP_CHECK_FOR_UPDATES": "off",
    "FASTMCP_SHOW_SERVER_BANNER": "false",
}
SERVERS = ROOT / "benchmarks" / "servers"
_PROBE = """
import importlib.metadata as metadata, json, platform, sys
versions = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(versions))
"""
_DISTRIBUTION = {OFFICIAL: "mcp", LOWLEVEL: "mcp", FASTMCP: "fastmcp", MCPKIT: "mcpkit"}
_LABELS = {
    BARE: "bare server",
    CONTROL: "bare server again (control)",
    OFFICIAL: "official SDK",
    LOWLEVEL: "official SDK, low-level",
    FASTMCP: "FastMCP",
}


@dataclass(frozen=True)
class Contender:
    """One column of the comparison."""

    name: str
    python: str
    versions: dict[str, str]

    @property
    def label(self) -> str:
        """The name in tables."""
        version = self.versions.get(_DISTRIBUTION.get(self.name, ""), "")
        label = _LABELS.get(self.name, self.name)
        return f"{label} {version}" if self.name in (OFFICIAL, FASTMCP) else label

    @property
    def installed(self) -> bool:
        return self.name not in _DISTRIBUTION or _DISTRIBUTION[self.name] in self.versions

    def program(self, kind: str) -> list[str]:
        """The command of its server of `add` over stdio or `http`, or of `many` tools."""
        port = ["{port}"] if kind == "http" else []
        if self.name == MCPKIT and kind == "http":
            return [*self.cold_start(), "--http", "--port", *port]
        return [self.python, str(SERVERS / f"{self.name}_server.py"), kind, *port]

    def cold_start(self) -> list[str]:
        """How its user starts the server: through the command line where it has one."""
        if self.name == MCPKIT:
            return [self.python, "-m", "mcpkit", "run", str(SERVERS / "mcpkit_server.py")]
        return self.program("add")


def environment() -> dict[str, str]:
    """The environment of every child: ours without Python's settings, which would favour some."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | _FASTMCP_SETTINGS | {"PYTHONPATH": str(ROOT)}


def find(peers: Path) -> dict[str, Contender]:
    """All contenders, those that are not installed included."""
    found: dict[str, Contender] = {}
    for name in (BARE, MCPKIT, OFFICIAL, FASTMCP):
        peer = name in (OFFICIAL, FASTMCP)
        python = str(python_of(peers, name)) if peer else sys.executable
        wanted = [_DISTRIBUTION.get(name, name), "pydantic", "pydantic_core"]
        try:
            probe = subprocess.run(
                [python, "-c", _PROBE, *wanted],
                capture_output=True,
                check=True,
                env=environment(),
                cwd=ROOT,
                timeout=60,
            )
            found[name] = Contender(name, python, json.loads(probe.stdout))
        except (OSError, subprocess.SubprocessError):
            found[name] = Contender(name, python, {})
    return found
