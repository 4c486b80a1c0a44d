"""Locks on files that show whether a process lives: the system gives back those of a dead one."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Final

__all__ = ["Lock", "is_held"]

_OWN: Final[set[str]] = set()
"""The files that this process has locked: to a process, its own locks look free."""


class Lock:
    """A lock that is held until it is released, or the process ends.

    Args:
        path: The file; made for it, and removed with it.

    Raises:
        OSError: The file cannot be made, or somebody else holds its lock.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            _take(self._file)
        except OSError:
            os.close(self._file)
            raise
        _OWN.add(path)

    def release(self) -> None:
        """Give the lock back, and remove its file."""
        with suppress(OSError):
            os.unlink(self._path)
        os.close(self._file)
        _OWN.discard(self._path)


def is_held(path: str) -> bool:
    """Return True if a living process holds the lock of a file; that of a dead one is removed."""
    if path in _OWN:
        return True
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:  # it is somebody else's, or too many files are open
        return True
    try:
        _take(file)
    except OSError:
        return True
    else:
        with suppress(OSError):
            os.unlink(path)
        return False
    finally:
        os.close(file)


if sys.platform == "win32":
    import msvcrt

    def _take(file: int) -> None:
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(file: int) -> None:
        # Of the process, not of the open file, which a process that is forked would go on holding.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
