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


def main() -> int:
    """Install all peers; the exit status says whether all are there."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("directory", nargs="?", type=Path, default=DEFAULT_DIRECTORY)
    directory = parser.parse_args().directory.resolve()
    failed = False
    for peer, requirement in REQUIREMENTS.items():
        python = python_of(directory, peer)
        if not python.exists():
            venv.create(directory / peer, with_pip=True)
        command = [str(python), "-m", "pip", "install", "--quiet", requirement]
        if subprocess.run(command, check=False).returncode:
            print(f"{requirement} could not be installed; see pip's output", file=sys.stderr)
            failed = True
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
