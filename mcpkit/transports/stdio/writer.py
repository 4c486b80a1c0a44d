"""The output of a session: messages joined into few writes, to a sink that never waits."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from mcpkit._concurrency.loop import Loop
from mcpkit._protocol.connection import Request
from mcpkit._protocol.messages import notification_text
from mcpkit._server.channel import Channel
from mcpkit._server.server import log
from mcpkit.errors import ProtocolError
from mcpkit.transports.stdio.redirect import NonBlockingWriter, open_writer

_HIGH_WATER_BYTES: Final = 1024 * 1024
"""Bytes that may wait to be written before reading pauses."""

_LOW_WATER_BYTES: Final = _HIGH_WATER_BYTES // 4
"""Bytes that may still wait when reading goes on."""

_BATCH_BYTES: Final = 256 * 1024
"""Bytes up to which messages are joined into one write."""

_APART_S: Final = 0.001
"""Seconds between the last progress of a request and its answer."""

_PROGRESS: Final = notification_text("notifications/progress")[:-1]


class Output(Channel):
    """The channel of a session to a descriptor.

    Args:
        fd: To write to; it stays open. Its flags are not changed, because other processes may
            share it.
        loop: The event loop that calls `send`.
        on_broken: Called once the client no longer reads.
    """

    def __init__(self, fd: int, loop: Loop, on_broken: Callable[[], None]) -> None:
        writer = open_writer(fd)
        is_polled = writer is not None or stat.S_ISREG(os.fstat(fd).st_mode)
        self._sink = PolledSink(fd, writer) if is_polled else ThreadSink(fd)
        self._loop = loop
        self._on_broken = on_broken
        self._parts: list[bytes] = []
        self._told: dict[Request, float] = {}
        self._kept_back: deque[bytes] = deque()
        self._size = 0
        self._scheduled = False
        self._waiting = False
        self._uncongested = anyio.Event()
        self._empty = anyio.Event()
        self.written = 0
        """Bytes written so far."""
        self.broken = False
        """True once the client no longer reads."""
        self.congested = False
        """True while more than 1 MiB waits, so reading should pause."""
        self.on_writable: Callable[[], None] = lambda: None
        """Called when `congested` has become False again."""

    def __enter__(self) -> None:
        """Hold messages back, to write them together."""
        self._scheduled = True

    def __exit__(self, *error: object) -> None:
        self.flush()

    def send(self, text: bytes, request: Request | None = None) -> None:
        """Send one message; it is written at the end of this turn of the loop."""
        if request is not None and text.startswith(_PROGRESS):
            self._told[request] = time.monotonic()
        self._put(text)

    def answer(
        self, request: Request, text: bytes | None, error: ProtocolError | None = None
    ) -> None:
        """Send the response to a request, a moment after its last progress.

        The official TypeScript client drops progress that it reads together with the answer.
        """
        told = self._told.pop(request, None) if self._told else None
        if text is None:
            return
        if told is None or time.monotonic() - told > _APART_S:
            self._put(text)
            return
        self._kept_back.append(text)
        self._loop.later(_APART_S, self._release)

    def _release(self) -> None:
        if self._kept_back:
            self._put(self._kept_back.popleft())

    def _put(self, text: bytes) -> None:
        if self.broken:
            return
        self._parts.append(text)
        self._size += len(text) + 1
        if self._size > _HIGH_WATER_BYTES and not self.congested:
            self.congested = True
            self._uncongested = anyio.Event()
        if not self._scheduled and not self._waiting:
            self._scheduled = True
            self._loop.soon(self.flush)

    def flush(self) -> None:
        """Write as much as possible without waiting."""
        self._scheduled = False
        while self._parts and not self._waiting and not self.broken:
            rest = self._write(memoryview(self._batch()))
            if rest:
                self._waiting = True
                self._loop.start(self._finish_later(rest))
        self._update_congestion()

    def _batch(self) -> bytes:
        """Return messages to write together: all, or the first few if they are large."""
        parts = self._parts
        count, size = len(parts), self._size
        if size > _BATCH_BYTES:
            count = size = 0
            while size < _BATCH_BYTES and count < len(parts):
                size += len(parts[count])
                count += 1
        text = b"\n".join([*parts[:count], b""])
        del parts[:count]
        return text

    def _write(self, data: memoryview) -> memoryview:
        """Write without waiting; return the rest."""
        try:
            while data:
                written = self._sink.write(data)
                if not written:
                    break
                data = data[written:]
                self._size -= written
                self.written += written
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ESHUTDOWN, errno.EBADF):
                log.error("cannot write to the client: %s", error)
            self.broken = True
            self._parts.clear()
            self._size = 0
            self._on_broken()
            return memoryview(b"")
        return data

    async def _finish_later(self, rest: memoryview) -> None:
        while rest:
            await self._sink.wait()
            rest = self._write(rest)
            self._update_congestion()
        self._waiting = False
        self.flush()

    def _update_congestion(self) -> None:
        if self._size == 0:
            self._empty.set()
        if self.congested and self._size < _LOW_WATER_BYTES:
            self.congested = False
            self._uncongested.set()
            self.on_writable()

    async def drain(self, request: Request | None = None) -> None:
        """Wait until the output is no longer congested."""
        if self.congested:
            await self._uncongested.wait()

    async def finish(self, stall: float) -> None:
        """Wait until everything is written, or the client has not read for `stall` seconds."""
        while self._kept_back:
            self._release()
        self.flush()
        while self._size and not self.broken:
            before = self._size
            self._empty = anyio.Event()
            with anyio.move_on_after(stall):
                await self._empty.wait()
            if self._size == before:
                return
        with anyio.move_on_after(stall):
            await self._sink.finish()

    def close(self) -> None:
        """Close what was opened for writing."""
        self._sink.close()


class PolledSink:
    """A pipe or a socket that is written to when it has room; or a file, which always has room.

    Args:
        fd: A file.
        writer: Writes to a pipe or a socket instead.
    """

    def __init__(self, fd: int, writer: NonBlockingWriter | None) -> None:
        self._writer = writer
        # Bound here, so that a write does not take one call more.
        self.write: Callable[[memoryview], int] = (
            partial(os.write, fd) if writer is None else writer.write
        )

    async def wait(self) -> None:
        """Wait until there is room."""
        if self._writer is not None:
            await anyio.wait_writable(self._writer.fd)

    async def finish(self) -> None:
        """Return at once, because nothing is buffered."""

    def close(self) -> None:
        """Close the writer."""
        if self._writer is not None:
            self._writer.close()


class ThreadSink:
    """Terminals, pipes that cannot be opened again, all on Windows: a thread writes."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = memoryview(b"")
        self._error: OSError | None = None
        self._changed = threading.Condition()
        self._closed = False
        threading.Thread(target=self._work, name="mcpkit stdout", daemon=True).start()

    def write(self, data: memoryview) -> int:
        """Hand the data to the thread, if it is idle."""
        with self._changed:
            if self._error is not None:
                raise self._error
            if self._data:
                return 0
            self._data = data
            self._changed.notify_all()
            return len(data)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._data or self._closed)
                data = self._data
            if not data:
                return
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError as error:
                self._error = error
            with self._changed:
                self._data = memoryview(b"")
                self._changed.notify_all()

    async def wait(self) -> None:
        """Wait until the thread is idle."""

        def wait_for_thread() -> None:
            with self._changed:
                self._changed.wait_for(lambda: not self._data)

        await anyio.to_thread.run_sync(wait_for_thread, abandon_on_cancel=True)

    finish = wait

    def close(self) -> None:
        """End the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
