"""Keeps stderr from holding up or ending a server.

A pipe takes 64 KiB, and then a write to it waits. If nobody reads, this means that a few hundred
log records, or one traceback too many, stop the event loop for good. So what Python writes to
stderr goes through here: it leaves at once as long as there is room, waits in memory when there is
none, and is left out and counted when too much waits.

A write also fails, on a full disk or a terminal that is gone. What cannot be written is left out:
no server is to end because it cannot say something.
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
    """Replace `sys.stderr`, and `sys.stdout` after `take_over`, by streams that always take text.

    Neither do they wait for a reader, but on terminals and files, nor do they fail. Streams that
    the program has replaced are left alone, and so are consoles of Windows. Others still wait and
    fail: `os.write`, C libraries, other processes.

    Standard descriptors that are closed become the null device, because whatever is opened next
    would get their numbers, and with it what is written to stderr.
    """
    _open_closed()
    stream = sys.stderr
    if stream is None:
        sys.stderr = sys.__stderr__ = open(os.devnull, "w")  # type: ignore[misc]  # noqa: SIM115
        return
    if not _is_plain(stream) or (sys.platform == "win32" and stream.isatty()):
        return
    raw = _NonBlockingRaw(_STDERR) if _can_be_full() else _StderrRaw(_STDERR)
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
    if isinstance(raw, _NonBlockingRaw):
        atexit.register(raw.finish)


# A wrapper that is collected closes the descriptor below it.
_kept: list[TextIO] = []


def _open_closed() -> None:
    for number in range(_STDERR + 1):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free is this one, as those below it are taken.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _can_be_full() -> bool:
    mode = os.fstat(_STDERR).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _is_plain(stream: TextIO) -> bool:
    try:
        return stream.fileno() == _STDERR and not isinstance(stream.buffer, _StderrRaw)
    except (OSError, ValueError, AttributeError):
        return False


class _StderrRaw(io.RawIOBase):
    """A descriptor that takes everything, also if it cannot be written.

    Args:
        fd: A file or a terminal.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @property
    def name(self) -> str:
        """The name of `sys.stderr`."""
        return "<stderr>"

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor, for those who hand it to other processes."""
        return self._fd

    def isatty(self) -> bool:
        """Return True if it is a terminal."""
        return os.isatty(self._fd)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write what can be written, and leave out the rest."""
        view = memoryview(data).cast("B")
        size = len(view)
        with contextlib.suppress(OSError):
            while view:
                view = view[os.write(self._fd, view) :]
        return size


class _NonBlockingRaw(_StderrRaw):
    """A descriptor that takes everything at once.

    Args:
        fd: A pipe or socket.
    """

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._try: Callable[[memoryview], int] | None = _attempt_for(fd)
        # Reentrant: a signal handler may print in the middle of a print.
        self._changed = threading.Condition(threading.RLock())
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._left_out = 0
        self._stuck = False
        self._broken = False
        self._thread: threading.Thread | None = None

    def has_room(self) -> bool:
        """Return True if a line can be written to the descriptor without waiting."""
        if self._waiting or self._try is None:
            return False
        return bool(select.select([], [self._fd], [], 0)[1])

    def write(self, data: ReadableBuffer, /) -> int:
        """Take all of the data, without waiting."""
        view = memoryview(data).cast("B")
        size = len(view)
        with self._changed:
            if not self._broken:
                self._add(view if self._waiting or self._left_out else self._begin(view))
        return size

    def _begin(self, view: memoryview) -> memoryview:
        """Write what there is room for; return the rest."""
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
        """Wait up to `_FLUSH_S` for the backlog, unless nobody has read for longer than that."""
        super().flush()
        with self._changed:
            if self._waiting and not self._stuck and not self._empty_within(_FLUSH_S):
                self._stuck = True

    def finish(self) -> None:
        """Wait up to `_FINISH_S` for the backlog, because nothing follows."""
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
    """Write the note on who prints in the guard's place, because the guard would have to wait."""
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
