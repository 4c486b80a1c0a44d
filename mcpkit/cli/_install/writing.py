"""Reading and writing a person's files with care."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Generator
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Final

__all__ = ["locked", "read", "write"]

_LOCK_S: Final = 60.0
"""Seconds to wait for others that change files of the same folder."""

_MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a file that is read: one that consists of holes may have any number on any disk."""

_LOCK_STEP_S: Final = 0.02


def read(path: Path) -> str | None:
    """Return the text of a file, its line ends as they are; None if there is no file.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is a device, a pipe or a folder, too large, or not UTF-8.
    """
    try:
        # Before it is opened, because that alone may hang, or have an effect.
        _check(os.stat(path))
        with open(path, "rb", opener=_open_at_once) as file:
            _check(os.fstat(file.fileno()))
            text = file.read(_MOST_BYTES + 1)  # it may grow while it is read
            if len(text) > _MOST_BYTES:
                raise ValueError(_TOO_LARGE)
            return text.decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


_TOO_LARGE: Final = f"it has more than {_MOST_BYTES} bytes"


def _check(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise ValueError("it is no regular file")
    if found.st_size > _MOST_BYTES:
        raise ValueError(_TOO_LARGE)


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextlib.contextmanager
def locked(path: Path) -> Generator[None, None, None]:
    """Keep other processes that ask for this lock from changing a file; its folder is made.

    Raises:
        OSError: The folder cannot be made.
        ValueError: Others hold the lock for too long.
    """
    folder = Path(os.path.realpath(path)).parent
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + _LOCK_S
    while (lock := _lock(folder)) is None:
        if time.monotonic() > until:
            raise ValueError("somebody else is changing it; try again")
        time.sleep(_LOCK_STEP_S)
    try:
        yield
    finally:
        os.close(lock)


if sys.platform == "win32":

    def _lock(folder: Path) -> int | None:
        """Return a descriptor whose end is the end of the lock; None if somebody else has it."""
        flags = os.O_CREAT | os.O_EXCL | os.O_TEMPORARY
        try:
            return os.open(folder / ".mcpkit.lock", flags)
        except (FileExistsError, PermissionError):
            return None

else:
    import fcntl

    def _lock(folder: Path) -> int | None:
        """Return a descriptor whose end is the end of the lock; None if somebody else has it."""
        # The folder itself, so that no file is left behind.
        lock = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        except OSError:
            pass  # a file system without locks; `write` still looks whether the file has changed
        return lock


def write(
    path: Path, text: str, before: str | None, *, private: bool, backup: bool = True
) -> Path | None:
    """Put a text in the place of another one, at one stroke.

    A program that reads the file meanwhile finds one or the other. The file's permissions stay,
    and so does a link to it.

    Args:
        path: The file; its folder is made if need be.
        text: The new text.
        before: The text when the file was read; None if there was no file.
        private: True if a new file is for its owner only, because it may have secrets.
        backup: True to keep a copy of the old file.

    Returns:
        A copy of the old file, beside it; None if there is none.

    Raises:
        OSError: The file cannot be written.
        ValueError: The file has changed since it was read.
    """
    place = Path(os.path.realpath(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if read(place) != before:
            raise ValueError("somebody else has just changed it; try again")
        if before is not None:
            _keep_rights(place, name)
        elif not private:
            os.chmod(name, 0o666 & ~_mask())
        copy = _copy(place) if before is not None and backup else None
        os.replace(name, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return copy


def _copy(path: Path) -> Path:
    now = datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in count():
        more = f"-{number}" if number else ""
        backup = path.with_name(f"{path.name}.{now}{more}.bak")
        try:
            # For the owner only, until it has the rights of the original.
            os.close(os.open(backup, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            continue
        shutil.copyfile(path, backup)
        _keep_rights(path, backup)
        return backup
    raise AssertionError("numbers do not end")


def _keep_rights(old: Path, new: str | Path) -> None:
    found = os.stat(old)
    if hasattr(os, "chown"):
        with contextlib.suppress(OSError):
            os.chown(new, found.st_uid, found.st_gid)
    shutil.copymode(old, new)


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
