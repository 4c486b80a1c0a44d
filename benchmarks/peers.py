"""The frameworks we measure ourselves against, each in a virtual environment of its own.

`python -m benchmarks.peers [DIR]` makes what is missing there; DIR is `.peers` by default.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEFAULT_DIRECTORY = ROOT / ".peers"
REQUIREMENTS = {"official": "mcp==2.3.0", "fastmcp": "fastmcp==4.1.6"}


def python_of(directory: Path, peer: str) -> Path:
    """Where the interpreter of a peer's environment is, whether or not it exists."""
    if os.name == "nt":
        return directory / peer / "Scripts" / "python.exe"
    return directory / peer / "bin" / "python"


def install(directory: Path, peer: str) -> bool:
    """Make the environment of one peer with the running Python; False if pip cannot."""
    python = python_of(directory, peer)
    if not python.exists():
        venv.create(directory / peer, with_pip=True)
    command = [str(python), "-m", "pip", "install", "--quiet", REQUIREMENTS[peer]]
    return subprocess.run(command, check=False).returncode == 0


def main() -> int:
    """Install all peers; the exit status says whether all are there."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=DEFAULT_DIRECTORY)
    directory = parser.parse_args().directory.resolve()
    missing = [peer for peer in REQUIREMENTS if not install(directory, peer)]
    for peer in missing:
        print(f"{REQUIREMENTS[peer]} could not be installed; see pip's output", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    raise SystemExit(main())
