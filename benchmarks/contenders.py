"""Who is measured: which interpreter runs it, which versions it has, and how its programs start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.measure import BARE, CONTROL, FASTMCP, LOWLEVEL, MCPKIT, OFFICIAL, UVLOOP
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
NAMES = (BARE, MCPKIT, OFFICIAL, FASTMCP)
_PROGRAM = {
    (BARE, "add"): "bare_asyncio.py",
    (CONTROL, "add"): "bare_again.py",
    (CONTROL, "http"): "bare_http_again.py",
    (UVLOOP, "http"): "official_http.py",
}
_OURS = (BARE, CONTROL)
_DISTRIBUTION = {OFFICIAL: "mcp", LOWLEVEL: "mcp", UVLOOP: "mcp", FASTMCP: "fastmcp"}
_PROBE = """
import importlib.metadata as metadata, importlib.util, json, platform, sys
versions = {"python": platform.python_version()}
for name in sys.argv[1:]:
    try:
        versions[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        if importlib.util.find_spec(name):
            versions[name] = "from source"
print(json.dumps(versions))
"""


@dataclass(frozen=True)
class Contender:
    """One column of the comparison."""

    name: str
    python: str
    versions: dict[str, str]

    @property
    def label(self) -> str:
        """How tables call it."""
        match self.name:
            case "bare":
                return "bare asyncio"
            case "control":
                return "bare asyncio again (control)"
            case "official_lowlevel":
                return f"{replace(self, name=OFFICIAL).label}, low-level"
            case "official_uvloop":
                return f"{replace(self, name=OFFICIAL).label}, on uvloop + httptools"
            case "official":
                return f"official SDK {self.versions.get('mcp', '')}".strip()
            case "fastmcp":
                return f"FastMCP {self.versions.get('fastmcp', '')}".strip()
            case _:
                return self.name

    @property
    def installed(self) -> bool:
        return _DISTRIBUTION.get(self.name, self.name) in self.versions or self.name in _OURS

    def low_level(self) -> Contender:
        """The same environment, with the program on the SDK's low-level server."""
        return replace(self, name=LOWLEVEL)

    def on_uvloop(self) -> Contender:
        """The same framework with uvloop and httptools beside it, which uvicorn then uses."""
        return replace(self, name=UVLOOP)

    def control(self) -> Contender:
        """The same loop in another program, whose figures should come out the same."""
        return replace(self, name=CONTROL)

    def program(self, kind: str) -> list[str]:
        """The command of its `add`, `500` or `memory` program."""
        file = _PROGRAM.get((self.name, kind), f"{self.name}_{kind}.py")
        return [self.python, str(SERVERS / file)]

    def http(self, *switches: str) -> list[str]:
        """The command that serves over HTTP on `{port}`.

        Args:
            switches: Of `benchmarks.servers.options`. Only "memory" concerns all contenders.
        """
        memory = "memory" in switches
        if self.name == MCPKIT:
            file = str(SERVERS / ("mcpkit_http_memory.py" if memory else "mcpkit_http.py"))
            return [self.python, "-m", "mcpkit", "run", file, "--http", "--port", "{port}"]
        if self.name in _OURS:
            return [*self.program("http_memory" if memory else "http"), "{port}"]
        return [*self.program("http"), "{port}", *switches]

    def cold_start(self) -> list[str]:
        """How its user starts the `add` server: through the command line where it has one."""
        if self.name == MCPKIT:
            return [self.python, "-m", "mcpkit", "run", str(SERVERS / "mcpkit_add.py")]
        return self.program("add")


def environment() -> dict[str, str]:
    """The environment of every child: ours without Python's settings, which would favour some."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return kept | _FASTMCP_SETTINGS | {"PYTHONPATH": str(ROOT)}


def find(peers: Path) -> dict[str, Contender]:
    """All contenders, those that are not installed included."""
    return {name: _find(name, peers) for name in NAMES}


def _find(name: str, peers: Path) -> Contender:
    python = str(python_of(peers, name)) if name in _DISTRIBUTION else sys.executable
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
    except (OSError, subprocess.SubprocessError):
        return Contender(name, python, {})
    return Contender(name, python, json.loads(probe.stdout))
