"""A host's configuration, and changes to it: in the host's file, or by the host's program."""

from __future__ import annotations

import copy
import difflib
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from mcpkit._utils.json import is_object
from mcpkit._utils.text import truncate
from mcpkit.cli._install.hosts import Entry, Format, Host, Unfit
from mcpkit.cli._install.writing import locked, read, write

__all__ = ["ByHand", "Change", "Config", "InFile", "ThroughProgram"]

_CONTEXT: Final = 3
"""Lines around a difference that are shown with it."""

_MOST_CHARS_EDITED: Final = 1024 * 1024
"""Characters of a file that is edited; keeping the place of each value takes its time."""

_MOST_LINES_COMPARED: Final = 2000
"""Lines that differ, of both texts together, up to which the difference is looked for."""

_MAX_LINE_SHOWN: Final = 1000
"""Characters that are shown of a line: some files have but one."""

_HUNK: Final = re.compile(r"@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@")

_PROGRAM_S: Final = 60.0
"""Seconds that a host's own program may take."""


class ByHand(Unfit):
    """A change that has to be made by hand.

    Args:
        message: The reason, as one line.
        what: The text to add, or the command to run.
    """

    def __init__(self, message: str, what: str) -> None:
        super().__init__(message)
        self.what = what


class Change(NamedTuple):
    """A change that has not been made yet.

    Args:
        difference: The lines of a unified diff.
        preview: The lines to show instead of making the change.
        make: Makes the change, and returns the copy of the old file, if there is one. Raises
            `Unfit`.
    """

    difference: list[str]
    preview: list[str]
    make: Callable[[], Path | None]


class Config(Protocol):
    """The configuration of a host, as it is now."""

    entries: Entry
    """Name → entry."""

    def change(self, name: str, entry: Entry | None) -> Change:
        """Set an entry, or take it out if None.

        Raises:
            Unfit: The change cannot be made.
        """
        ...


class InFile:
    """A configuration that is a file to be edited.

    Args:
        host: The owner of the file.
        file: Its path; it need not exist yet.
        private: True if a new file is for the person only.

    Raises:
        Unfit: The file cannot be read, is broken, or is too large.
        ModuleNotFoundError: A library for its format is missing.
    """

    def __init__(self, host: Host, file: Path, *, private: bool) -> None:
        self._host = host
        self._file = file
        self._private = private
        self._before = _read(file)
        if len(self._before or "") > _MOST_CHARS_EDITED:
            raise Unfit(
                f"{file} has more than {_MOST_CHARS_EDITED} characters, so nothing was changed: "
                "edit it by hand"
            )
        self._data = _loaded(host.format.load, file, self._before or "")
        self.entries = _entries(host, file, self._data)

    def change(self, name: str, entry: Entry | None) -> Change:
        """Set an entry, or take it out if None; all else stays as it is.

        Raises:
            Unfit: The file is too unusual for that.
        """
        before = self._before or ""
        after = self._edited(before, name, entry)
        difference = _difference(before, after, str(self._file))
        return Change(difference, difference, lambda: self._make(name, entry))

    def _make(self, name: str, entry: Entry | None) -> Path | None:
        """Make a change to the file as it is now, which others may have changed elsewhere."""
        with _locked(self._file):
            now = InFile(self._host, self._file, private=self._private)
            there = now.entries.get(name)
            if there == entry:
                return None
            if there != self.entries.get(name):
                raise ValueError(f"somebody else has just changed {name}; try again")
            before = now._before
            after = now._edited(before or "", name, entry)
            return write(self._file, after, before, private=self._private)

    def _edited(self, text: str, name: str, entry: Entry | None) -> str:
        format, path = self._host.format, [self._host.key, name]
        expected = copy.deepcopy(self._data)
        entries = expected.setdefault(self._host.key, {})
        try:
            if entry is None:
                after = format.drop(text, path)
                del entries[name]
            else:
                after = _put(format, text, path, entries.get(name), entry)
                entries[name] = entry
            if format.load(after) == expected:
                return after
        except ValueError:
            pass  # as below
        if entry is None:
            raise Unfit(f"{name} cannot be taken out of {self._file}; do so in an editor")
        raise ByHand(
            f"{self._file} cannot be edited; add this yourself:", format.snippet(path, entry)
        )


class ThroughProgram:
    """A configuration that the host's own program keeps; the file is only read.

    Args:
        host: The owner of the program.
        file: The file that the program keeps.

    Raises:
        Unfit: The file cannot be read, or is broken.
    """

    def __init__(self, host: Host, file: Path) -> None:
        self._program = str(host.command)
        self._file = file
        text = _read(file)
        # The file has much else in it; the parser that keeps places would take its time.
        data = _loaded(json.loads, file, text) if text and text.strip() else {}
        self.entries = _entries(host, file, data)

    def change(self, name: str, entry: Entry | None) -> Change:
        """Set an entry, or take it out if None."""
        old = self.entries.get(name)
        mcp = [self._program, "mcp"]
        commands = [] if old is None else [[*mcp, "remove", "--scope", "user", name]]
        if entry is not None:
            commands.append([*mcp, "add-json", "--scope", "user", name, json.dumps(entry)])
        before, after = (
            "" if each is None else json.dumps(each, indent=2) for each in (old, entry)
        )
        preview = [shlex.join(command) for command in commands]
        return Change(_difference(before, after, name), preview, lambda: self._make(commands))

    def _make(self, commands: list[list[str]]) -> None:
        with _locked(self._file):
            self._run(commands)

    def _run(self, commands: list[list[str]]) -> None:
        program = shutil.which(self._program)
        # cmd.exe, which runs these, would take the quotes of the JSON for its own.
        if program is None or program.lower().endswith((".cmd", ".bat")):
            raise ByHand(
                f"{self._program} cannot be run from here; run this yourself, or use --project:",
                "\n".join(map(shlex.join, commands)),
            )
        for command in commands:
            what = " ".join(command[:3])
            try:
                done = subprocess.run(
                    [program, *command[1:]],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    encoding="utf-8",
                    errors="replace",
                    timeout=_PROGRAM_S,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Unfit(f"{what} failed: {error}") from None
            if done.returncode:
                said = done.stdout.strip().splitlines() or [f"exit code {done.returncode}"]
                raise Unfit(f"{what} failed: {said[-1]}")


@contextmanager
def _locked(file: Path) -> Generator[None, None, None]:
    try:
        with locked(file):
            yield
    except OSError as error:
        raise Unfit(f"{file} was not written: {error.strerror}") from None
    except ValueError as error:
        raise Unfit(f"{file} was not written: {error}") from None


def _read(file: Path) -> str | None:
    try:
        return read(file)
    except OSError as error:
        raise Unfit(f"{file} cannot be read, so nothing was changed: {error.strerror}") from None
    except ValueError as error:
        raise Unfit(f"{file} cannot be read, so nothing was changed: {error}") from None


def _loaded(load: Callable[[str], Any], file: Path, text: str) -> Entry:
    try:
        data = load(text)
    except ValueError as error:
        raise Unfit(f"{file} is broken, so nothing was changed: {error}") from None
    return data if is_object(data) else {}


def _entries(host: Host, file: Path, data: Entry) -> Entry:
    entries = data.get(host.key, {})
    if not is_object(entries):
        raise Unfit(f'{file} is broken, so nothing was changed: "{host.key}" is no object')
    return entries


def _put(format: Format, text: str, path: list[str], old: Any, new: Any) -> str:
    """Return the text with a new value, changed only where that differs from the old one."""
    if not (is_object(old) and is_object(new)):
        return format.put(text, path, new)
    for key in old.keys() - new.keys():
        text = format.drop(text, [*path, key])
    for key, value in new.items():
        if key not in old or old[key] != value:
            text = _put(format, text, [*path, key], old.get(key), value)
    return text


def _difference(before: str, after: str, title: str) -> list[str]:
    """Return the lines of a unified diff.

    What both texts begin and end with is set aside first, because the comparison of the rest takes
    time in proportion to both lengths, and may take more.
    """
    old, new = before.splitlines(), after.splitlines()
    pairs = enumerate(zip(old, new, strict=False))
    head = next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))
    head = max(0, head - _CONTEXT)
    shorter = min(len(old), len(new)) - head
    pairs = enumerate(zip(reversed(old[head:]), reversed(new[head:]), strict=False))
    tail = next((at for at, (one, other) in pairs if one != other), shorter)
    tail = max(0, tail - _CONTEXT)
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(old) + len(new) > _MOST_LINES_COMPARED:
        changed = f"{len(old)} lines are replaced by {len(new)}, which is too much to show"
        return [f"--- {title}", f"+++ {title}", f"@@ after line {head} @@", changed]
    lines = difflib.unified_diff(old, new, title, title, lineterm="", n=_CONTEXT)
    return [truncate(_shifted(line, head), _MAX_LINE_SHOWN) for line in lines]


def _shifted(line: str, by: int) -> str:
    """Return a line of a unified diff of what comes after so many lines."""
    found = _HUNK.fullmatch(line)
    if found is None or not by:
        return line
    old, olds, new, news = found.groups("")
    return f"@@ -{int(old) + by}{olds} +{int(new) + by}{news} @@"
