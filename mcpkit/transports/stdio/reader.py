"""Readers of a descriptor, polled by the event loop or in a thread; their chunks to lines."""

from __future__ import annotations

import asyncio
import contextvars
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from mcpkit._concurrency.loop import AsyncioLoop, Loop
from mcpkit._utils.json import excess_of
from mcpkit.errors import InvalidRequest

if TYPE_CHECKING:
    from mcpkit._server.session import Session

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes a line may have by default."""

MAX_VALUES: Final = 1_000_000
"""JSON values a line may have: each takes many times the bytes that it was written in."""

_LONG: Final = 64 * 1024
"""Bytes of a line above which its values are counted."""

_CHUNK_BYTES: Final = 64 * 1024
"""Bytes that are read at once."""

Take: TypeAlias = "Callable[[bytes], None]"
"""Called with each chunk, and with an empty one at the end."""


def make_reader(fd: int, loop: Loop, take: Take) -> PolledReader | ThreadReader:
    """Start to read from a descriptor.

    On asyncio, pipes, sockets and terminals are polled. A thread reads everything else: files and
    most devices cannot be polled, nor can anything on Windows.
    """
    mode = os.fstat(fd).st_mode
    can_be_polled = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)
    if sys.platform != "win32" and can_be_polled and isinstance(loop, AsyncioLoop):
        return PolledReader(fd, take)
    return ThreadReader(fd, loop, take)


def is_deserted(fd: int) -> bool:
    """Return True if the other end of a pipe or a socket is closed, even if input is left.

    False if the platform cannot tell.
    """
    if sys.platform == "win32":
        return False
    look = select.poll()
    look.register(fd, getattr(select, "POLLRDHUP", 0))  # on Linux, for sockets
    return bool(look.poll(0))


def _read(fd: int) -> bytes | None:
    """Read a chunk; empty at the end, None if there is nothing to read."""
    try:
        return os.read(fd, _CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:  # a reset connection ends as well
        return b""


class PolledReader:
    """Reads on asyncio: the loop calls it directly, without a task."""

    def __init__(self, fd: int, take: Take) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self._take = take
        self.resume()

    def _ready(self) -> None:
        chunk = _read(self._fd)
        if chunk is None:
            return
        if not chunk:
            self.stop()
        self._take(chunk)

    def pause(self) -> None:
        """Stop reading until `resume`."""
        self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        """Continue after `pause`."""
        if not self._stopped:
            self._loop.add_reader(self._fd, self._ready)

    def stop(self) -> None:
        """Stop reading for good."""
        self._stopped = True
        self.pause()


class ThreadReader:
    """Reads in a thread, one chunk ahead; methods as of `PolledReader`."""

    def __init__(self, fd: int, loop: Loop, take: Take) -> None:
        self._fd = fd
        self._loop = loop
        self._take = take
        self._wanted = threading.Semaphore(1)
        self._held: deque[bytes] = deque()
        self._context = contextvars.copy_context()  # which handlers are to see
        self._paused = False
        self._stopped = False
        # A daemon, because a read that never returns must not keep the process alive.
        threading.Thread(target=self._work, name="mcpkit stdin", daemon=True).start()

    def _work(self) -> None:
        chunk: bytes | None = None
        while chunk != b"" and not self._stopped:
            self._wanted.acquire()
            while (chunk := _read(self._fd)) is None:
                select.select([self._fd], [], [])  # another process has made it non-blocking
            arrived = partial(self._arrived, chunk)
            self._loop.soon(partial(self._context.run, arrived))

    def _arrived(self, chunk: bytes) -> None:
        self._held.append(chunk)
        if not self._paused:
            self.resume()

    def pause(self) -> None:
        """Stop reading until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Continue after `pause`."""
        self._paused = False
        while self._held and not self._paused and not self._stopped:
            self._take(self._held.popleft())
            self._wanted.release()

    def stop(self) -> None:
        """Stop reading for good."""
        self._stopped = True


class Lines:
    """Splits a stream into lines for a session, bounds their length, and holds lines back.

    Args:
        session: Receives the lines, and an error for each line that is too long.
        max_line: Bytes that a line may have.
        blocked: Returns True while the session accepts no further line.
    """

    def __init__(self, session: Session, max_line: int, blocked: Callable[[], bool]) -> None:
        self.blocked = blocked
        self._session = session
        self._max = max_line
        self._held: deque[bytes] = deque()
        self._parts: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> None:
        """Pass every line that a chunk completes to the session, or hold it back."""
        first, *rest = chunk.split(b"\n")
        self._keep(first)
        if not rest:
            return
        self.end()
        last = rest.pop()
        self._held.extend(rest)
        self.go_on()
        self._keep(last)

    def go_on(self) -> bool:
        """Pass on the lines that were held back; return False once the session is blocked."""
        held = self._held
        while not self.blocked():
            if not held:
                return True
            self._give(held.popleft())
        return False

    def end(self) -> None:
        """Pass on the line that has arrived in parts."""
        if not self._skipping:
            self._give(b"".join(self._parts))
        self._parts.clear()
        self._size = 0
        self._skipping = False

    def _keep(self, part: bytes) -> None:
        if self._skipping or not part:
            return
        self._size += len(part)
        self._parts.append(part)
        if self._size > self._max:
            self._parts.clear()
            self._skipping = True
            self._refuse(f"more than {self._max} bytes")

    def _give(self, line: bytes) -> None:
        size = len(line)
        if size > self._max:
            self._refuse(f"more than {self._max} bytes")
        elif size > _LONG and (excess := excess_of(line, MAX_VALUES)):
            self._refuse(excess)
        elif line and not line.isspace():
            self._session.receive(line)

    def _refuse(self, excess: str) -> None:
        self._session.refuse(InvalidRequest(f"A line has {excess}"))
