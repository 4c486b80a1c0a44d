"""The facts of a host: its files, and the shape of the entries in them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from mcpkit._utils.json import is_object
from mcpkit.cli._install.jsonc import Json

__all__ = ["Entry", "Format", "Host", "Launch", "Machine", "Remote", "Unfit", "merged"]

Entry: TypeAlias = dict[str, Any]


class Unfit(Exception):
    """A server that a host cannot have; the message is one line with the remedy."""


@dataclass(frozen=True, kw_only=True)
class Launch:
    """A server that the host starts and speaks to on stdio.

    Args:
        command: The program, as an absolute path.
        args: Its arguments.
        env: Variables in addition to those that the host gives every server.
    """

    command: str
    args: list[str]
    env: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A server at a URL.

    Args:
        url: Its endpoint, for Streamable HTTP.
        headers: Sent with every request.
    """

    url: str
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine, as far as it decides where a person's files are.

    Args:
        platform: As `sys.platform` has it: ``darwin``, ``win32``, or anything else for the rest.
        home: The home folder.
        variables: The environment.
    """

    platform: str
    home: Path
    variables: Mapping[str, str]

    @classmethod
    def here(cls) -> Machine:
        """Return this machine."""
        return cls(platform=sys.platform, home=Path.home(), variables=os.environ)

    def folder(self, variable: str, *otherwise: str) -> Path:
        """Return the folder that a variable names; else the one below the home folder."""
        named = self.variables.get(variable)
        return Path(named) if named else self.home.joinpath(*otherwise)

    @property
    def applications(self) -> Path:
        """The folder in which applications with a window keep their settings."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return self.folder("APPDATA", "AppData", "Roaming")
        return self.folder("XDG_CONFIG_HOME", ".config")


class Format(Protocol):
    """A kind of file, edited as text so that all else stays as it is.

    Methods raise `ValueError` with one line if the text is broken or cannot be edited, and
    `ModuleNotFoundError` if a library is missing.
    """

    def load(self, text: str) -> Entry:
        """Return the content of a file; empty if it is blank."""
        ...

    def put(self, text: str, path: list[str], value: Any) -> str:
        """Return the text with a value under a path of keys, which are made if need be."""
        ...

    def drop(self, text: str, path: list[str]) -> str:
        """Return the text without a key."""
        ...

    def snippet(self, path: list[str], value: Any) -> str:
        """Return the text that somebody would have to add by hand."""
        ...


@dataclass(frozen=True, kw_only=True)
class Host:
    """A program that uses MCP servers.

    Args:
        name: Its value of ``--client``.
        title: Its name for people.
        key: The object in the file that has an entry for each server.
        user: Returns the file for everything that a person does; None where the host does not
            exist.
        launch: Returns the entry of a server on stdio.
        remote: Returns the entry of a server at a URL; or, as a string, the advice for those.
        after: The step that is left when the file has been written, as one sentence.
        project: The file for one project, relative to its folder; None if there is none.
        format: Of both files.
        command: The host's own program that keeps the user's file, which is only read then.
        underscores: True if names of servers may have them.
    """

    name: str
    title: str
    key: str
    user: Callable[[Machine], Path | None]
    launch: Callable[[Launch], Entry]
    remote: Callable[[Remote], Entry] | str
    after: str
    project: str | None = None
    format: Format = field(default_factory=Json)
    command: str | None = None
    underscores: bool = True

    def entry(self, server: Launch | Remote) -> Entry:
        """Return the entry of a server.

        Raises:
            Unfit: The host takes no servers at a URL.
        """
        if isinstance(server, Launch):
            return self.launch(server)
        if isinstance(self.remote, str):
            raise Unfit(self.remote)
        return self.remote(server)

    def accepted(self, name: str) -> str:
        """Return the nearest name that the host takes: letters, digits, hyphens and underscores."""
        allowed = "A-Za-z0-9_-" if self.underscores else "A-Za-z0-9-"
        return re.sub(f"[^{allowed}]+", "-", name).strip("-")[:_MAX_NAME_CHARS].strip("-")


_MAX_NAME_CHARS: Final = 64


# --- usual shapes ---------------------------------------------------------------------------------


def started(server: Launch, **before: Any) -> Entry:
    """Return ``command``, ``args`` and, if there are any, ``env``; after other keys."""
    entry = {**before, "command": server.command, "args": server.args}
    return {**entry, "env": server.env} if server.env else entry


def reached(server: Remote, *, url: str = "url", headers: str = "headers", **before: Any) -> Entry:
    """Return a URL and, if there are any, headers, under the host's names; after other keys."""
    entry = {**before, url: server.url}
    return {**entry, headers: server.headers} if server.headers else entry


_KEYS_OF_REACHING: Final = {"type", "command", "args", "url", "httpUrl", "serverUrl"}
"""Keys by which a server is reached; all others may have been added by somebody."""


def merged(old: object, new: Entry) -> Entry:
    """Return an entry that reaches the server as the new one does, with additions to the old.

    Variables, headers, timeouts, permissions and the like stay, unless the new entry has others or
    the server is reached in another way than before: by a command or at a URL.
    """
    if not is_object(old) or ("command" in old) != ("command" in new):
        return new
    # A host that needs no type may have written the one that it has understood.
    gone = _KEYS_OF_REACHING - set(new) - ({"type"} if old.get("type") == "stdio" else set[str]())
    kept = {key: value for key, value in old.items() if key not in gone}
    for key, value in new.items():
        before = kept.get(key)
        kept[key] = {**before, **value} if is_object(before) and is_object(value) else value
    return kept
