"""The output of a session: messages joined into few writes, to a sink that never waits."""

from __future__ import annotations

import errno
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import anyio

from mcpkit._concurrency.loop import Loop
from mcpkit._protocol.connection import Request
from mcpkit._protocol.messages import notification_text
from mcpkit._server.channel import Channel
from mcpkit._utils.logs import log
from mcpkit.errors import ProtocolError
from mcpkit.transports.stdio.redirect import ThreadWriter, open_writer

_HIGH_WATER_BYTES: Final = 1024 * 1024
"""Bytes that may wait to be written before reading pauses."""

_LOW_WATER_BYTES: Final = _HIGH_WATER_BYTES // 4
"""Bytes that may still wait when reading goes on."""

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
        self._sink = open_writer(fd) or ThreadWriter(fd, "mcpkit stdout")
        self._loop = loop
        self._on_broken = on_broken
        self._parts: list[bytes] = []
        self._progressed: dict[Request, float] = {}
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
            self._progressed[request] = time.monotonic()
        self._put(text)

    def answer(
        self, request: Request, text: bytes | None, error: ProtocolError | None = None
    ) -> None:
        """Send the response to a request, a moment after its last progress.

        The official TypeScript client drops progress that it reads together with the answer.
        """
        reported = self._progressed.pop(request, None) if self._progressed else None
        if text is None:
            return
        # What waits to be written may be that progress, however long ago it was reported.
        if reported is None or (not self._parts and time.monotonic() - reported > _APART_S):
            self._put(text)
            return
        self._kept_back.append(text)
        self._loop.later(_APART_S, self._release)

    def _release(self) -> None:
        if self._kept_back:
            self.flush()
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
        if self._parts and not self._waiting and not self.broken:
            text = b"\n".join([*self._parts, b""])
            self._parts.clear()
            rest = self._write(memoryview(text))
            if rest:
                self._waiting = True
                self._loop.start(self._finish_later(rest))
        self._update_congestion()

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
            await self._sink.wait_writable()
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
