"""Readers of a descriptor, polled by the event loop or in a thread; their chunks to lines."""

from __future__ import annotations

import functools
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

import anyio

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


class Reader(Protocol):
    """Delivers chunks of bytes as they arrive, and an empty one at the end."""

    def start(self, take: Callable[[bytes], None]) -> None:
        """Start to read, and call `take` with each chunk."""
        ...

    def pause(self) -> None:
        """Stop reading until `resume`."""
        ...

    def resume(self) -> None:
        """Continue after `pause`."""
        ...

    def stop(self) -> None:
        """Stop reading for good."""
        ...

    def is_deserted(self) -> bool:
        """Return True if the other end is closed, as far as that shows without reading."""
        ...


def make_reader(fd: int, loop: Loop) -> Reader:
    """Return a reader for a descriptor: polled, awaited, or in a thread.

    Args:
        fd: To read from; a pipe, a socket or a terminal is polled.
        loop: The event loop that gets the chunks.
    """
    if sys.platform != "win32" and _can_be_polled(fd):
        if isinstance(loop, AsyncioLoop):
            return PolledReader(fd)
        return AwaitingReader(fd, loop)
    return ThreadReader(fd, loop)


def _can_be_polled(fd: int) -> bool:
    """Return True if the event loop can wait for a descriptor, which most devices do not allow."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def is_deserted(fd: int) -> bool:
    """Return True if the other end of a descriptor is closed.

    There may still be something to read. False if the platform cannot tell.

    Args:
        fd: A pipe or a socket.
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
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:  # a reset connection ends as well
        return b""


class PolledReader:
    """Reads on asyncio: the loop calls it directly, without a task."""

    def __init__(self, fd: int) -> None:
        import asyncio

        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._active = False
        self._stopped = False
        self._take: Callable[[bytes], None] = lambda chunk: None

    def start(self, take: Callable[[bytes], None]) -> None:
        """Start to read, and call `take` with each chunk."""
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
        if self._active:
            self._active = False
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        """Continue after `pause`."""
        if not self._active and not self._stopped:
            self._active = True
            self._loop.add_reader(self._fd, self._ready)

    def stop(self) -> None:
        """Stop reading for good."""
        self.pause()
        self._stopped = True

    def is_deserted(self) -> bool:
        """Return True if the other end is closed, as far as that shows without reading."""
        return is_deserted(self._fd)


class AwaitingReader:
    """Reads on trio: a task waits for the descriptor."""

    def __init__(self, fd: int, loop: Loop) -> None:
        self._fd = fd
        self._loop = loop
        self._may_read = anyio.Event()
        self._scope = anyio.CancelScope()

    def start(self, take: Callable[[bytes], None]) -> None:
        """Start to read, and call `take` with each chunk."""
        self._may_read.set()
        self._loop.start(self._read_on(take))

    async def _read_on(self, take: Callable[[bytes], None]) -> None:
        with self._scope:
            while True:
                await self._may_read.wait()
                await anyio.wait_readable(self._fd)
                chunk = _read(self._fd)
                if chunk is not None:
                    take(chunk)
                if chunk == b"":
                    return

    def pause(self) -> None:
        """Stop reading until `resume`."""
        if self._may_read.is_set():
            self._may_read = anyio.Event()

    def resume(self) -> None:
        """Continue after `pause`."""
        self._may_read.set()

    def stop(self) -> None:
        """Stop reading for good."""
        self._scope.cancel()

    def is_deserted(self) -> bool:
        """Return True if the other end is closed, as far as that shows without reading."""
        return is_deserted(self._fd)


class ThreadReader:
    """Reads files, devices, and everything on Windows: in a thread, one chunk ahead."""

    def __init__(self, fd: int, loop: Loop) -> None:
        self._fd = fd
        self._loop = loop
        self._wanted = threading.Semaphore(1)
        self._held: deque[bytes] = deque()
        self._paused = False
        self._stopped = False
        self._take: Callable[[bytes], None] = lambda chunk: None

    def start(self, take: Callable[[bytes], None]) -> None:
        """Start to read, and call `take` with each chunk."""
        self._take = take
        # A daemon, because a read that never returns must not keep the process alive.
        threading.Thread(target=self._work, name="mcpkit stdin", daemon=True).start()

    def _work(self) -> None:
        while not self._stopped:
            self._wanted.acquire()
            chunk = _read(self._fd)
            if chunk is None:
                self._wanted.release()
                continue
            self._loop.soon(functools.partial(self._arrived, chunk))
            if not chunk:
                return

    def _arrived(self, chunk: bytes) -> None:
        self._held.append(chunk)
        self._hand_over()

    def _hand_over(self) -> None:
        while self._held and not self._paused and not self._stopped:
            self._take(self._held.popleft())
            self._wanted.release()

    def pause(self) -> None:
        """Stop reading until `resume`."""
        self._paused = True

    def resume(self) -> None:
        """Continue after `pause`."""
        if self._paused:
            self._paused = False
            self._hand_over()

    def stop(self) -> None:
        """Stop reading for good."""
        self._stopped = True

    def is_deserted(self) -> bool:
        """Return True if the other end is closed, as far as that shows without reading."""
        return bool(self._held) and not self._held[-1]


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
        self._end_line()
        last = rest.pop()
        self._held.extend(rest)
        self.go_on()
        self._keep(last)

    def go_on(self) -> bool:
        """Pass on the lines that were held back, until the session is blocked.

        Returns:
            True if none is left, and the session is not blocked.
        """
        held = self._held
        while not self.blocked():
            if not held:
                return True
            self._give(held.popleft())
        return False

    def end(self) -> None:
        """Treat an incomplete line as complete, at the end of the input."""
        self._end_line()

    def _keep(self, part: bytes) -> None:
        if self._skipping or not part:
            return
        self._size += len(part)
        if self._size > self._max:
            self._parts.clear()
            self._skipping = True
            self._refuse()
        else:
            self._parts.append(part)

    def _end_line(self) -> None:
        if not self._skipping:
            self._give(self._parts[0] if len(self._parts) == 1 else b"".join(self._parts))
        self._parts.clear()
        self._size = 0
        self._skipping = False

    def _give(self, line: bytes) -> None:
        size = len(line)
        if size > self._max:
            self._refuse()
        elif size > _LONG and (excess := excess_of(line, MAX_VALUES)):
            self._session.refuse(InvalidRequest(f"A line has {excess}"))
        elif line and not line.isspace():
            self._session.receive(line)

    def _refuse(self) -> None:
        self._session.refuse(InvalidRequest(f"A line has more than {self._max} bytes"))
