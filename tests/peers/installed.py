"""Where .ci/peers has installed other people's clients."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).parents[2]
INSTALLED: Final = ROOT / ".cache" / "peers"
NODE: Final = INSTALLED / "node"


def node(script: Path) -> list[str]:
    """The command that runs a script of JavaScript."""
    return [str(NODE / "node_modules" / ".bin" / "node"), str(script)]


def copy_scripts() -> None:
    """Put our own scripts beside the packages: node looks there only."""
    for script in Path(__file__).parent.glob("*.mjs"):
        shutil.copy(script, NODE)


def require(*folders: Path) -> None:
    """Skip a test if something is not installed; fail in CI."""
    if not all((folder / "installed-from").is_file() for folder in folders):
        reason = "other people's clients are not installed; run .ci/peers"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


def output_of(command: Sequence[str], timeout: float = 50, **options: Any) -> str:
    """What a command prints; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def inspector(home: Path, *arguments: str) -> str:
    """What the command line of the official Inspector prints."""
    command = [*node(NODE / "node_modules" / ".bin" / "mcp-inspector"), "--cli", *arguments]
    return output_of(command, env={**os.environ, "HOME": str(home)})
