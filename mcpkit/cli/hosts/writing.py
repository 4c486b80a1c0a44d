"""Reading and writing a person's files with care."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from datetime import datetime
from itertools import count
from pathlib import Path

__all__ = ["read", "write"]


def read(path: Path) -> str | None:
    """Return the text of a file, its line ends as they are; None if there is no file.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not UTF-8.
    """
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


def write(path: Path, text: str, before: str | None, *, private: bool) -> Path | None:
    """Put a text in the place of another one, at one stroke.

    A program that reads the file meanwhile finds one or the other. The file's permissions stay,
    and so does a link to it.

    Args:
        path: The file; its folder is made if need be.
        text: The new text.
        before: The text when the file was read; None if there was no file.
        private: True if a new file is for its owner only, because it may have secrets.

    Returns:
        A copy of the old file, beside it; None if there was no file.

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
        backup = None if before is None else _copy(place)
        os.replace(name, place)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    return backup


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
