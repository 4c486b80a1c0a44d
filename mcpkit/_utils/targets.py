"""Targets of commands: a file, a module, a command or a URL, and the name of an app in it."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeGuard


class TargetError(Exception):
    """A target that cannot be served; the message is one line with the fix."""


def split(target: str) -> tuple[str, str | None]:
    """Return the file or module that a target names, and the app in it; None if it names none."""
    place, separator, name = target.rpartition(":")
    # A colon may also belong to a Windows drive.
    if not separator or not name.isidentifier() or os.path.exists(target):
        return target, None
    return place, name


def names_file(target: str) -> bool:
    """Return True if a target is a Python file, which need not exist, with or without an app.

    A command line may end like a file, as ``python server.py`` does: with blanks in it, a target is
    a file only if there is one of that name.
    """
    place, _ = split(target)
    return place.endswith(".py") and (len(place.split()) == 1 or os.path.isfile(place))


def module_at(path: Path) -> tuple[Path, str]:
    """Return the folder that a Python file is imported from, and the name of its module there."""
    folder, name = path.parent, path.stem
    while (folder / "__init__.py").is_file():
        folder, name = folder.parent, f"{folder.name}.{name}"
    return folder, name


def run_command(target: str, *options: str) -> list[str]:
    """Return the command that serves a target on stdio, with options of this interpreter."""
    return [sys.executable, *options, "-m", "mcpkit", "run", target]


def command_of(target: str | os.PathLike[str] | Sequence[str]) -> list[str]:
    """Return the command that starts a server on stdio.

    A target is a command, a command line as one string, a Python file, or ``file.py:app``.
    """
    if not isinstance(target, (str, os.PathLike)):
        return list(target)
    text = os.fspath(target)
    return run_command(text) if names_file(text) else shlex.split(text)


def is_url(target: object) -> TypeGuard[str]:
    """Return True if a target is the URL of a server."""
    return isinstance(target, str) and target.lower().startswith(("http://", "https://"))


def is_remote(target: str) -> bool:
    """Return True if a target is a URL that other machines may reach."""
    from urllib.parse import urlsplit

    from mcpkit._utils.addresses import is_loopback_name  # only URLs need it

    try:
        parts = urlsplit(target)
        host = parts.hostname
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(host) and not is_loopback_name(host or "")
