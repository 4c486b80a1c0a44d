"""A host's configuration: read, edited, verified, and replaced atomically with one backup."""

from __future__ import annotations

import contextlib
import copy
import difflib
import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from mcpkit._utils.json import is_object
from mcpkit._utils.text import truncate
from mcpkit.cli._install.hosts import Entry, Host, Unsupported

if sys.platform != "win32":
    import fcntl

MAX_BYTES_READ: Final = 64 * 1024 * 1024
MAX_CHARS_EDITED: Final = 1024 * 1024
MAX_LINE_SHOWN: Final = 1000

_PROGRAM_S: Final = 60.0
"""Seconds that a host's own program may run."""


class EditByHand(Unsupported):
    """A change that the user has to make; `what` is the text to add, or the command to run."""

    def __init__(self, message: str, what: str) -> None:
        super().__init__(message)
        self.what = what


class Change(NamedTuple):
    """A change that can be made."""

    difference: list[str]  # the lines of a unified diff
    preview: list[str]  # the lines that --dry-run shows
    make: Callable[[], Path | None]  # makes it, and returns the backup if there is one


class InFile:
    """A configuration that mcpkit edits; a new file is readable by its owner only if `private`."""

    def __init__(self, host: Host, file: Path, *, private: bool) -> None:
        self.host = host
        self.file = file
        self._private = private
        self._before = _read(file)
        if len(self._before or "") > MAX_CHARS_EDITED:
            raise Unsupported(
                f"{file} has more than {MAX_CHARS_EDITED} characters, so nothing was changed: "
                "edit it by hand"
            )
        self._data, self.entries = _entries(host, file, self._before)

    def change(self, name: str, entry: Entry | None) -> Change:
        """Set an entry, or remove it if None; everything else is unchanged."""
        after = self._edited(name, entry)
        lines = difference(self._before or "", after, str(self.file))
        return Change(lines, lines, lambda: self._make(name, entry))

    def _make(self, name: str, entry: Entry | None) -> Path | None:
        with _locked(self.file):
            # Other processes may have changed other entries since the file was read.
            now = InFile(self.host, self.file, private=self._private)
            if now.entries.get(name) == entry:
                return None
            if now.entries.get(name) != self.entries.get(name):
                raise ValueError(f"another process has just changed {name}; try again")
            after = now._edited(name, entry)
            return write(self.file, after, now._before, private=self._private)

    def _edited(self, name: str, entry: Entry | None) -> str:
        """Return the text with a changed entry, verified to have no other change."""
        text, path = self._before or "", [self.host.key, name]
        expected = copy.deepcopy(self._data)
        entries = expected.setdefault(self.host.key, {})
        try:
            if entry is None:
                after = self.host.format.drop(text, path)
                del entries[name]
            else:
                after = self._put(text, path, entries.get(name), entry)
                entries[name] = entry
            if self.host.format.load(after) == expected:
                return after
        except ValueError:
            pass  # as below
        if entry is None:
            raise Unsupported(f"{name} cannot be removed from {self.file}; use an editor")
        raise EditByHand(
            f"{self.file} cannot be edited; add this yourself:",
            self.host.format.snippet(path, entry),
        )

    def _put(self, text: str, path: list[str], old: Any, new: Any) -> str:
        if not (is_object(old) and is_object(new)):
            return self.host.format.put(text, path, new)
        for key in old.keys() - new.keys():
            text = self.host.format.drop(text, [*path, key])
        for key, value in new.items():
            if key not in old or old[key] != value:
                text = self._put(text, [*path, key], old.get(key), value)
        return text


class ThroughProgram:
    """A configuration that the host's own program edits; the file is only read."""

    def __init__(self, host: Host, file: Path) -> None:
        self.host = host
        self._program = str(host.program)
        self.file = file
        _, self.entries = _entries(host, file, _read(file))

    def change(self, name: str, entry: Entry | None) -> Change:
        """Set an entry, or remove it if None."""
        old = self.entries.get(name)
        mcp = [self._program, "mcp"]
        commands = [] if old is None else [[*mcp, "remove", "--scope", "user", name]]
        if entry is not None:
            commands.append([*mcp, "add-json", "--scope", "user", name, json.dumps(entry)])
        before, after = (
            "" if each is None else json.dumps(each, indent=2) for each in (old, entry)
        )
        preview = [shlex.join(command) for command in commands]
        return Change(difference(before, after, name), preview, lambda: self._make(commands))

    def _make(self, commands: list[list[str]]) -> None:
        program = shutil.which(self._program)
        # cmd.exe, which runs batch files, would interpret the quotes of the JSON.
        if program is None or program.lower().endswith((".cmd", ".bat")):
            raise EditByHand(
                f"{self._program} cannot be run from here; run this yourself, or use --project:",
                "\n".join(map(shlex.join, commands)),
            )
        with _locked(self.file):
            for _, *arguments in commands:
                shown = " ".join([self._program, *arguments[:2]])
                try:
                    done = subprocess.run(
                        [program, *arguments],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.PIPE,
                        stderr=subprocess.STDOUT,
                        encoding="utf-8",
                        errors="replace",
                        timeout=_PROGRAM_S,
                    )
                except (OSError, subprocess.TimeoutExpired) as error:
                    raise Unsupported(f"{shown} failed: {error}") from None
                if done.returncode:
                    output = done.stdout.strip().splitlines() or [f"exit code {done.returncode}"]
                    raise Unsupported(f"{shown} failed: {output[-1]}")


Config: TypeAlias = InFile | ThroughProgram


def _entries(host: Host, file: Path, text: str | None) -> tuple[Entry, Entry]:
    try:
        data = host.format.load(text or "")
        entries: Any = data.get(host.key, {})
        if not is_object(entries):
            raise ValueError(f'"{host.key}" is not an object')
    except ValueError as error:
        raise Unsupported(f"{file} is invalid, so nothing was changed: {error}") from None
    return data, entries


def difference(before: str, after: str, title: str) -> list[str]:
    """Return the lines of a unified diff, with long ones truncated."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), title, title, lineterm="")
    return [truncate(line, MAX_LINE_SHOWN) for line in lines]


# --- files ----------------------------------------------------------------------------------------


def _read(file: Path) -> str | None:
    try:
        return read(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Unsupported(f"{file} cannot be read, so nothing was changed: {reason}") from None


def read(path: Path) -> str | None:
    """Return the text of a file with its line ends; None if there is no file."""
    try:
        found = path.stat()
        # Before it is opened, because opening a pipe may block.
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is not a regular file")
        if found.st_size > MAX_BYTES_READ:
            raise ValueError(f"it has more than {MAX_BYTES_READ} bytes")
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


def write(
    path: Path, text: str, before: str | None, *, private: bool, backup: bool = True
) -> Path | None:
    """Replace the text of a file atomically, and return the path of its backup, if it has one."""
    target = Path(os.path.realpath(path))
    kept = target.with_name(f"{target.name}.bak") if backup and before is not None else None
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
        if read(target) != before:
            raise ValueError("another process has just changed it; try again")
        if before is not None:
            found = target.stat()
            if hasattr(os, "chown"):
                with contextlib.suppress(OSError):
                    os.chown(name, found.st_uid, found.st_gid)
            shutil.copymode(target, name)
            if kept is not None:
                kept.unlink(missing_ok=True)
                try:
                    os.link(target, kept)
                except OSError:  # a file system without hard links
                    shutil.copy2(target, kept)
        elif not private:
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(name, 0o666 & ~mask)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return kept


@contextlib.contextmanager
def _locked(file: Path) -> Generator[None, None, None]:
    """Hold the lock of a file's folder, which is created, against other processes of mcpkit."""
    folder = Path(os.path.realpath(file)).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if sys.platform == "win32":  # `write` detects a change
            yield
            return
        lock = os.open(folder, os.O_RDONLY)  # the folder, so no lock file is left behind
        try:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise Unsupported(f"{file} was not written: {reason}") from None
