"""Writes to pipes and sockets that take what there is room for, and never wait for more room.

O_NONBLOCK belongs to the open file, which other processes may share. So a pipe is opened once more,
and a socket is asked not to block with each write.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from typing import Final, Protocol

__all__ = ["NonBlockingWriter", "PipeWriter", "SocketWriter", "open_writer"]

GUARDS_STDOUT: Final = True  # see mcpkit.transports.stdio.guard


class NonBlockingWriter(Protocol):
    """A descriptor of this process's own, to somebody else's pipe or socket."""

    def write(self, data: memoryview) -> int:
        """Write as many bytes as there is room for.

        Returns:
            The number of bytes that were written; 0 if there is no room.

        Raises:
            OSError: Nobody reads any more.
        """
        ...

    def fileno(self) -> int:
        """Return the descriptor, to wait for room."""
        ...

    def close(self) -> None:
        """Close the descriptor, and nobody else's."""
        ...


class PipeWriter:
    """Writes to a pipe through a second opening of it, which does not block.

    Args:
        fd: Of the pipe's end to write to.

    Raises:
        OSError: The pipe cannot be opened once more, for example where there is no ``/proc``.
    """

    def __init__(self, fd: int) -> None:
        self._fd = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def write(self, data: memoryview) -> int:
        """Write as many bytes as there is room for."""
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0

    def fileno(self) -> int:
        """Return the descriptor, to wait for room."""
        return self._fd

    def close(self) -> None:
        """Close the descriptor, and nobody else's."""
        os.close(self._fd)


class SocketWriter:
    """Writes to a socket, each time asked not to block.

    Args:
        fd: Of the socket; it is duplicated.
    """

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))

    def write(self, data: memoryview) -> int:
        """Write as many bytes as there is room for."""
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    def fileno(self) -> int:
        """Return the descriptor, to wait for room."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the descriptor, and nobody else's."""
        self._socket.close()


def open_writer(fd: int) -> NonBlockingWriter | None:
    """Return a non-blocking writer to a pipe or a socket.

    Args:
        fd: Any descriptor that can be written to.

    Returns:
        None if the descriptor is neither, and where the platform has no such way.
    """
    if sys.platform == "win32":
        return None
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):
        return SocketWriter(fd)
    if stat.S_ISFIFO(mode):
        try:
            return PipeWriter(fd)
        except OSError:
            return None
    return None
