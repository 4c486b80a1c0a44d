"""Repositories of git, for the examples that work with them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="needs the program git")

AUTHOR = {
    **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "ada@example.com" for who in ("AUTHOR", "COMMITTER")},
}


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-C", str(folder), "-c", "commit.gpgSign=false", *arguments]
    env = {**AUTHOR, "PATH": os.environ["PATH"]}
    subprocess.run(command, check=True, timeout=20, capture_output=True, env=env)


def begin(folder: Path) -> None:
    git(folder, "-c", "init.defaultBranch=main", "init", "--quiet")


def commit(folder: Path, subject: str, **files: str) -> None:
    """Write texts into files, and commit them."""
    for name, text in files.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", subject)


def refuses_options(
    refused: Callable[..., str], tool: str, arguments: Mapping[str, Any], folder: Path
) -> None:
    """Call a tool with options as arguments; ``{file}`` in them is a file that must not appear."""
    file = folder / "written"
    filled = json.loads(json.dumps(arguments).replace("{file}", str(file)))
    assert "must not begin with a dash" in refused(tool, **filled)
    assert not file.exists()
