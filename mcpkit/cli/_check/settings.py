"""``[tool.mcpkit.check]`` in the pyproject.toml next to a server."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from mcpkit._utils.json import is_array, is_object

__all__ = ["SettingsError", "Wishes", "wishes_for"]


class SettingsError(Exception):
    """The settings cannot be used; the message is one line with the fix."""


class Wishes(NamedTuple):
    """The settings of a project.

    Args:
        select, ignore: As on the command line.
        fail_on: As on the command line; None if it is not set.
        unread: The file with settings that this Python cannot read; None if there is none.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    fail_on: str | None = None
    unread: Path | None = None


def wishes_for(folder: Path) -> Wishes:
    """Return the settings in the nearest pyproject.toml, in a folder or above it.

    Raises:
        SettingsError: The settings are malformed.
    """
    folder = folder.resolve()
    for each in (folder, *folder.parents):
        path = each / "pyproject.toml"
        if path.is_file():
            return _read(path)
    return Wishes()


def _read(path: Path) -> Wishes:
    text = path.read_text(encoding="utf-8", errors="replace")
    if "tool.mcpkit" not in text:
        return Wishes()
    if sys.version_info < (3, 11):
        return Wishes(unread=path)
    # By name, as type checkers look at the oldest Python.
    tomllib: Any = import_module("tomllib")

    try:
        found: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path} is no TOML: {error}") from None
    for name in ("tool", "mcpkit", "check"):
        found = found.get(name, {}) if is_object(found) else {}
    if not is_object(found):
        raise SettingsError(f"{path}: tool.mcpkit.check must be a table")
    more = sorted(set(found) - {"select", "ignore", "fail-on"})
    if more:
        raise SettingsError(
            f"{path}: tool.mcpkit.check has no {more[0]!r}; it has select, ignore and fail-on"
        )
    fail_on: Any = found.get("fail-on")
    if fail_on is not None and not isinstance(fail_on, str):
        raise SettingsError(f"{path}: tool.mcpkit.check.fail-on must be text")
    return Wishes(_ids(found, "select", path), _ids(found, "ignore", path), fail_on)


def _ids(table: Any, name: str, path: Path) -> tuple[str, ...]:
    found: Any = table.get(name, [])
    if not is_array(found) or not all(isinstance(each, str) for each in found):
        raise SettingsError(f'{path}: tool.mcpkit.check.{name} must be a list, as in ["DESC004"]')
    return tuple(str(each) for each in found)
