"""Keeps a host that does not read stderr from holding up a server.

A pipe takes 64 KiB, and then whoever writes to it waits. For a server on stdio this means that a
few hundred log records, or one traceback too many, stop its event loop for good. So what Python
writes to stderr goes through here: it leaves at once as long as there is room, waits in memory when
there is none, and is left out and counted when too much waits.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import select
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

from mcpkit.transports.stdio import guard
from mcpkit.transports.stdio.nonblocking import open_writer

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["MAX_WAITING_BYTES", "never_block"]

GUARDS_STDOUT = True  # see mcpkit.transports.stdio.guard

MAX_WAITING_BYTES: Final = 1024 * 1024
"""Bytes that wait for a reader at most."""

_STDERR: Final = 2
_PIPE_BUF_BYTES: Final = 512
"""Bytes that every system takes without waiting if a pipe has room at all (POSIX, PIPE_BUF)."""

_FLUSH_S: Final = 0.1
"""Seconds that a flush waits, where everything is written by a thread."""

_FINISH_S: Final = 0.5
"""Seconds that the end of the process waits for what is left."""


def never_block() -> None:
    """Let `sys.stderr`, and `sys.stdout` after `take_over`, never wait for a reader.

    Terminals and files are left alone, and so are streams that the program has replaced. What does
    not go through these streams waits as ever: `os.write`, C libraries, other processes.
    """
    stream = sys.stderr
    if not _can_be_full() or not _is_plain(stream):
        return
    raw = _NonBlockingRaw(_STDERR)
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(  # type: ignore[misc]
        raw,
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=True,
    )
    _kept.append(stream)
    guarded = sys.stdout
    if isinstance(guarded, guard.GuardedText):
        sys.stdout = sys.__stdout__ = _Prints(  # type: ignore[misc]
            _PrintedBytes(raw),
            encoding=guarded.encoding,
            errors=guarded.errors,
            line_buffering=True,
        )
        _kept.append(guarded)
    atexit.register(raw.finish)


# A wrapper that is collected closes the descriptor below it.
_kept: list[TextIO] = []


def _can_be_full() -> bool:
    try:
        mode = os.fstat(_STDERR).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _is_plain(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.fileno() == _STDERR
    except (OSError, ValueError):
        return False


class _NonBlockingRaw(io.RawIOBase):
    """A descriptor that takes everything at once.

    Args:
        fd: A pipe or socket.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._try: Callable[[memoryview], int] | None = _attempt_for(fd)
        # Reentrant: a signal handler may print in the middle of a print.
        self._changed = threading.Condition(threading.RLock())
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._left_out = 0
        self._stuck = False
        self._broken = False
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str:
        """As of `sys.stderr`."""
        return "<stderr>"

    def writable(self) -> bool:
        """It is."""
        return True

    def fileno(self) -> int:
        """For those who hand it to other processes."""
        return self._fd

    def isatty(self) -> bool:
        """It is none."""
        return False

    def has_room(self) -> bool:
        """Whether a line could be written to the descriptor without waiting, as far as is known."""
        if self._waiting or self._try is None:
            return False
        return bool(select.select([], [self._fd], [], 0)[1])

    def write(self, data: ReadableBuffer, /) -> int:
        """Take all of it, without waiting."""
        view = memoryview(data).cast("B")
        size = len(view)
        with self._changed:
            if not self._broken:
                self._add(view if self._waiting or self._left_out else self._begin(view))
        return size

    def _begin(self, view: memoryview) -> memoryview:
        """Write what goes at once; what is left."""
        if self._try is None:
            return view
        try:
            while view:
                written = self._try(view)
                if not written:
                    self._stuck = True
                    break
                view = view[written:]
        except OSError:
            self._broken = True  # nobody will ever read it, and nobody needs to know
            return view[:0]
        return view

    def _add(self, view: memoryview) -> None:
        if not view:
            return
        if self._size + len(view) > MAX_WAITING_BYTES:
            self._left_out += bytes(view).count(b"\n") or 1
            return
        if self._left_out:
            self._append(self._note())
        self._append(bytes(view))
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="mcpkit stderr", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # the interpreter is about to end
                self._thread = None
                self._waiting.clear()
                self._size = 0
                return
        self._changed.notify_all()

    def _append(self, data: bytes) -> None:
        self._waiting.append(data)
        self._size += len(data)

    def _note(self) -> bytes:
        count, self._left_out = self._left_out, 0
        lines = "a line is" if count == 1 else f"{count} lines are"
        return f"mcpkit: {lines} missing here, as nobody read them\n".encode()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._left_out:
                        self._append(self._note())
                        break
                    self._stuck = False
                    self._changed.notify_all()
                    self._changed.wait()
                data = self._waiting[0]
            written = self._wait_and_write(data)
            with self._changed:
                if not written:
                    self._broken = True
                    self._waiting.clear()
                    self._size = self._left_out = 0
                    self._changed.notify_all()
                    return
                self._waiting.popleft()
                self._size -= len(data)

    def _wait_and_write(self, data: bytes) -> bool:
        view = memoryview(data)
        try:
            while view:
                if self._try is None:
                    view = view[os.write(self._fd, view) :]
                elif written := self._try(view):
                    view = view[written:]
                else:
                    select.select([], [self._fd], [])
        except OSError:
            return False
        return True

    def flush(self) -> None:
        """Wait a moment for what waits, unless nobody has read anything for longer."""
        super().flush()
        with self._changed:
            if self._waiting and not self._stuck and not self._empty_within(_FLUSH_S):
                self._stuck = True

    def finish(self) -> None:
        """Wait for what waits, but not for long: nothing follows."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        with self._changed:
            self._empty_within(_FINISH_S)

    def _empty_within(self, seconds: float) -> bool:
        return self._changed.wait_for(lambda: not (self._waiting or self._left_out), seconds)


class _PrintedBytes(guard.GuardedBuffer):
    def write(self, buffer: ReadableBuffer, /) -> int:
        if memoryview(buffer).nbytes:
            _name_printing(self.raw)
        return super().write(buffer)


class _Prints(guard.GuardedText):
    def write(self, text: str, /) -> int:
        if text:
            _name_printing(getattr(self.buffer, "raw", None))
        return super().write(text)


def _name_printing(raw: object) -> None:
    """Say that something prints, in the place of the guard if that would have to wait for it."""
    if not isinstance(raw, _NonBlockingRaw) or guard.is_offender_named() or raw.has_room():
        return
    note = guard.take_note()
    if note is not None:
        raw.write(note.encode())


def _attempt_for(fd: int) -> Callable[[memoryview], int] | None:
    """Return a function that writes without waiting, and returns how many bytes; None: no way."""
    if sys.platform == "win32":
        return None
    writer = open_writer(fd)
    return _attempt_if_ready(fd) if writer is None else writer.write


def _attempt_if_ready(fd: int) -> Callable[[memoryview], int]:
    def attempt(view: memoryview) -> int:
        if not select.select([], [fd], [], 0)[1]:
            return 0
        try:
            return os.write(fd, view[:_PIPE_BUF_BYTES])
        except BlockingIOError:
            return 0

    return attempt
