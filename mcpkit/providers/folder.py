"""A directory whose files are opened, and nothing outside of it, whatever links are put into it.

A path that was checked may lead elsewhere by the time that it is opened. So what is opened is found
component by component from a descriptor of the directory, without following a link. Platforms
without such calls open the path, and compare what they have opened with what is there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Folder", "Found"]

_BY_DESCRIPTOR: Final = (
    os.open in os.supports_dir_fd and os.scandir in os.supports_fd and hasattr(os, "O_NOFOLLOW")
)
_FILE: Final = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a pipe would wait for somebody who writes
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_DIRECTORY", 0)
_NO_FILE: Final = frozenset(
    {errno.EISDIR, errno.ELOOP, errno.EMLINK, errno.ENOTDIR, errno.ENXIO, errno.ENAMETOOLONG}
)
"""The errors of opening something else: a directory, a link (in several ways), a socket."""


class Found(NamedTuple):
    """A name in a directory.

    Args:
        name: The name.
        mode: The kind and permissions of what has it; a link is not followed.
        size: The size of a file.
    """

    name: str
    mode: int
    size: int


class Folder:
    """A directory.

    Args:
        path: The directory.

    Raises:
        OSError: There is no such directory.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve(strict=True)

    def resolve(self, parts: Sequence[str]) -> tuple[str, ...] | None:
        """Return the parts of the path behind links; None if there is none, or it leads outside."""
        try:
            real = self.path.joinpath(*parts).resolve(strict=True)
        except (OSError, ValueError, RuntimeError):  # missing, unreadable, or a loop of links
            return None
        return real.relative_to(self.path).parts if real.is_relative_to(self.path) else None

    def read(self, parts: Sequence[str]) -> bytes:
        """Return the contents of a file.

        Args:
            parts: Of its path, none of them a link.

        Raises:
            FileNotFoundError: There is no such file, or one of the parts is a link by now.
            OSError: It cannot be read.
        """
        try:
            with self._opened(parts, _FILE) as descriptor:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise FileNotFoundError
                with open(descriptor, "rb", closefd=False) as file:
                    return file.read()
        except OSError as error:
            if error.errno in _NO_FILE:
                raise FileNotFoundError from None
            raise

    def size(self, parts: Sequence[str]) -> int | None:
        """Return the size of a file; None if there is no such file."""
        try:
            with self._opened(parts, _FILE) as descriptor:
                found = os.fstat(descriptor)
        except OSError:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def scan(self, parts: Sequence[str]) -> list[Found]:
        """Return what is in a directory; nothing if there is no such directory, or a link."""
        try:
            if not _BY_DESCRIPTOR:
                return self._scan_path(parts)
            with self._opened(parts, _DIRECTORY) as descriptor:
                return list(_scan(descriptor))
        except OSError:
            return []

    def _scan_path(self, parts: Sequence[str]) -> list[Found]:
        found = list(_scan(self.path.joinpath(*parts)))
        return found if self.resolve(parts) == tuple(parts) else []

    @contextmanager
    def _opened(self, parts: Sequence[str], flags: int) -> Generator[int, None, None]:
        """Open a file or directory below this one, and close it in the end."""
        descriptor = self._open(parts, flags) if _BY_DESCRIPTOR else self._open_path(parts, flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open(self, parts: Sequence[str], flags: int) -> int:
        descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        for place, part in enumerate(parts, 1):
            try:
                following = os.open(
                    part, flags if place == len(parts) else _DIRECTORY, dir_fd=descriptor
                )
            finally:
                os.close(descriptor)
            descriptor = following
        return descriptor

    def _open_path(self, parts: Sequence[str], flags: int) -> int:
        path = self.path.joinpath(*parts)
        descriptor = os.open(path, flags)
        try:
            is_same = os.path.samestat(os.fstat(descriptor), os.lstat(path))
            if not is_same or self.resolve(parts) != tuple(parts):
                raise FileNotFoundError
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _scan(where: int | Path) -> Iterator[Found]:
    with os.scandir(where) as entries:
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:  # gone by now
                continue
            yield Found(entry.name, found.st_mode, found.st_size)
