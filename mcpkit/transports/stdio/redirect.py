"""Keeps everything but protocol messages off stdout, and stderr from blocking the server.

On stdio a server "MUST NOT write anything to its stdout that is not a valid MCP message". A rule
for authors is not enough: a dependency prints while it is imported, a C library uses ``puts``, a
child process inherits the descriptor. So `take_over` exchanges the descriptors themselves: the
protocol moves to two private ones, and descriptor 1 becomes another name for stderr.

A pipe holds 64 KiB; then a write to it blocks until the other end is read. Without a reader, a few
hundred log records would stop the event loop. So `never_block` buffers what Python writes to
stderr: a write returns at once, and what exceeds the buffer is dropped and counted. A write that
fails, on a full disk or a closed terminal, is ignored: no log record may end the server.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import os
import select
import socket
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

TYPE_CHECKING = False  # importing `typing` for it would take longer
if TYPE_CHECKING:
    from types import FrameType
    from typing import Final, TextIO, TypeAlias

    from _typeshed import ReadableBuffer

MAX_WAITING_BYTES: Final = 1024 * 1024
"""Bytes of stderr that are buffered."""

_STDIN, _STDOUT, _STDERR = 0, 1, 2

_PIPE_BUF_BYTES: Final = 512
"""Bytes that a pipe with room takes at once on every system (POSIX, PIPE_BUF)."""

_FLUSH_S: Final = 0.1
"""Seconds that a flush waits, where a thread writes."""

_FINISH_S: Final = 0.5
"""Seconds that the end of the process waits for the buffer."""

_STDOUT_IS_CLOSED = (
    "stdout is closed, so protocol messages have nowhere to go; "
    "start the server with its stdout connected to the client"
)
_NOTE = (
    "mcpkit: {offender} printed to stdout, which carries the protocol; "
    "it goes to stderr instead (shown once)\n"
)
_LOGGED = (
    "mcpkit: {offender} logged to stdout, which carries the protocol; it goes to stderr instead, "
    "as it does by a logging handler that is not given sys.stdout (shown once)\n"
)

_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_INSTALLED_PACKAGES = "-packages" + os.sep


# --- stdout ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProtocolStreams:
    """The descriptors of the protocol once `take_over` has moved it.

    Both are blocking descriptors above 2 that child processes do not inherit, in binary mode on
    Windows. They stay open until the process ends, unless their user closes them.

    Attributes:
        reader: The process's original stdin; at its end at once if stdin arrived closed.
        writer: The process's original stdout.
    """

    reader: int
    writer: int


def take_over() -> ProtocolStreams:
    """Reserve stdin and stdout of this process for the protocol.

    Call it before importing anything that might print. Afterwards

    - descriptor 0 and `sys.stdin` are empty, for this process and its children;
    - descriptor 1 is stderr, or the null device if stderr is closed, for this process and its
      children; text that was still buffered for stdout goes there, too;
    - `sys.stdout` and `sys.__stdout__` write there, escape characters that the encoding lacks, and
      log on stderr, once, which line of Python wrote first.

    A `sys.stdin` or `sys.stdout` that the program has replaced, with a `StringIO` say, is kept.

    Returns:
        The descriptors that carry the protocol. Every later call returns the same and changes
        nothing.

    Raises:
        RuntimeError: stdout is closed. Nothing has been changed.
        OSError: No descriptors are left. Nothing has been changed.
    """
    global _taken
    with _taking:
        if _taken is None:
            _taken = _exchange_descriptors()
            _replace_streams()
        return _taken


_taking = threading.Lock()
_taken: ProtocolStreams | None = None

# A stream that is garbage-collected closes the buffer below it, which may still be in use.
_retired: list[TextIO | None] = []

# The thread that locks it writes the note, and it stays locked. Unlike a flag under a lock, this
# cannot block a signal handler that prints in the middle of the first print.
_note_taken = threading.Lock()


def _exchange_descriptors() -> ProtocolStreams:
    if not _arrived_open(_STDOUT, sys.__stdout__):
        raise RuntimeError(_STDOUT_IS_CLOSED)
    has_stdin = _arrived_open(_STDIN, sys.__stdin__)
    has_stderr = _arrived_open(_STDERR, sys.__stderr__)

    opened: list[int] = []
    try:
        null = _private(os.open(os.devnull, os.O_RDWR))
        opened.append(null)
        reader = _private(os.dup(_STDIN if has_stdin else null))
        opened.append(reader)
        writer = _private(os.dup(_STDOUT))
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise

    os.dup2(null, _STDIN)
    os.dup2(_STDERR if has_stderr else null, _STDOUT)
    os.close(null)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(reader, os.O_BINARY)
        msvcrt.setmode(writer, os.O_BINARY)
    return ProtocolStreams(reader, writer)


def _arrived_open(descriptor: int, stream: TextIO | None) -> bool:
    # The interpreter makes no stream for a descriptor that is closed when it starts. By now an
    # unrelated file may have been given that number, so looking at the number is not enough.
    if stream is None:
        return False
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _private(descriptor: int) -> int:
    """Move a descriptor above the standard ones, where it can only land if one is closed."""
    too_low: list[int] = []
    try:
        while descriptor <= _STDERR:
            too_low.append(descriptor)
            descriptor = os.dup(descriptor)
    finally:
        for each in too_low:
            os.close(each)
    return descriptor


def _replace_streams() -> None:
    stderr = sys.__stderr__
    encoding = "utf-8" if stderr is None else stderr.encoding
    old_stdin, old_stdout = (sys.stdin, sys.__stdin__), (sys.stdout, sys.__stdout__)

    for stream in old_stdout:
        if stream is not None:
            try:
                stream.flush()
            except (OSError, ValueError):
                pass  # stderr is broken, or the stream is closed: the text is lost

    # `open` rather than FileIO, because it knows how to write to a Windows console.
    # They are never closed, and do not own their descriptors.
    nothing = open(_STDIN, encoding=encoding, closefd=False)  # noqa: SIM115
    guarded = GuardedText(
        GuardedBuffer(open(_STDOUT, "wb", buffering=0, closefd=False)),  # noqa: SIM115
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=True,
    )
    _retired.extend((*old_stdin, *old_stdout))
    if _uses(sys.stdin, _STDIN):
        sys.stdin = nothing
    if _uses(sys.stdout, _STDOUT):
        sys.stdout = guarded
    sys.__stdin__ = nothing  # type: ignore[misc]
    sys.__stdout__ = guarded  # type: ignore[misc]


def _uses(stream: TextIO | None, descriptor: int) -> bool:
    if stream is None:
        return True
    try:
        return stream.fileno() == descriptor
    except (AttributeError, OSError, ValueError):
        return False


class GuardedBuffer(io.BufferedWriter):
    """The bytes below `GuardedText`."""

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Write bytes; the first write logs the line of Python that makes it."""
        # The text layer may hand down an empty write of its own when it is flushed.
        if memoryview(buffer).nbytes:
            _name_offender(self.raw, "utf-8")
        return super().write(buffer)


class GuardedText(io.TextIOWrapper):
    """A `sys.stdout` whose first write logs, on stderr, the line of Python that makes it."""

    @property
    def mode(self) -> str:
        """The mode of a text stream, ``"w"``."""
        return "w"

    def write(self, text: str, /) -> int:
        """Write text; the first write logs the line of Python that makes it."""
        # Libraries probe the stream with empty writes.
        if text:
            _name_offender(getattr(self.buffer, "raw", None), self.encoding)
        return super().write(text)


def _name_offender(raw: object, encoding: str) -> None:
    """Write, once, the nearest line of Python outside the standard library that led here."""
    if not _note_taken.acquire(blocking=False):
        return
    offender, has_logged = _offender()
    note = (_LOGGED if has_logged else _NOTE).format(offender=offender)
    data = note.encode(encoding, "backslashreplace")
    if isinstance(raw, _NonBlockingRaw) and not raw.has_room():
        raw.write(data)
        return
    # If this fails, so does the write that follows, which reports it to its caller.
    with contextlib.suppress(OSError):
        os.write(_STDOUT, data)


def _offender() -> tuple[str, bool]:
    """Find the nearest line outside the standard library, or else the nearest.

    Returns:
        The line, and True if `logging` led from there to here.
    """
    nearest: FrameType | None = None
    frame: FrameType | None = sys._getframe()
    has_logged, here = False, globals()
    while frame is not None:
        if frame.f_globals is not here:
            nearest = nearest or frame
            if not _is_standard_library(frame.f_code.co_filename):
                return _place(frame), has_logged
            has_logged = has_logged or frame.f_globals.get("__name__") == "logging"
        frame = frame.f_back
    return "native code" if nearest is None else _place(nearest), has_logged


def _is_standard_library(filename: str) -> bool:
    return filename.startswith("<frozen ") or (
        filename.startswith(_STANDARD_LIBRARY) and _INSTALLED_PACKAGES not in filename
    )


def _place(frame: FrameType) -> str:
    filename = frame.f_code.co_filename
    try:
        filename = filename.removeprefix(os.getcwd() + os.sep)
    except OSError:
        pass  # The working directory is gone; the full name serves as well.
    return f"{filename}:{frame.f_lineno}"


# --- stderr ---------------------------------------------------------------------------------------


def never_block() -> None:
    """Replace `sys.stderr`, and `sys.stdout` after `take_over`, by streams that accept any write.

    They never fail, and block on terminals and files only. Streams that the program has replaced
    are kept, and so are consoles of Windows. Other writers may still block and fail: `os.write`, C
    libraries, other processes.

    Standard descriptors that are closed become the null device, because the next file that is
    opened would get their numbers, and with it the text for stderr.
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
    if isinstance(guarded, GuardedText):
        sys.stdout = sys.__stdout__ = GuardedText(  # type: ignore[misc]
            GuardedBuffer(raw),
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
    """A descriptor that accepts any write and ignores errors.

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
        """Return the descriptor, to hand it to another process."""
        return self._fd

    def isatty(self) -> bool:
        """Return True if it is a terminal."""
        return os.isatty(self._fd)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write as much as possible, and drop the rest."""
        view = memoryview(data).cast("B")
        size = len(view)
        with contextlib.suppress(OSError):
            while view:
                view = view[os.write(self._fd, view) :]
        return size


class _NonBlockingRaw(_StderrRaw):
    """A descriptor that accepts any write at once, with a buffer and a thread.

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
        """Write or buffer all of the data, without waiting."""
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
            self._broken = True  # it has no reader any more
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
        lines = "1 line" if count == 1 else f"{count} lines"
        return f"mcpkit: {lines} dropped here, because stderr was not read\n".encode()

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
        """Wait up to `_FLUSH_S` for the buffer, unless it has been stuck for longer than that."""
        super().flush()
        with self._changed:
            if self._waiting and not self._stuck and not self._empty_within(_FLUSH_S):
                self._stuck = True

    def finish(self) -> None:
        """Wait up to `_FINISH_S` for the buffer, at the end of the process."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        with self._changed:
            self._empty_within(_FINISH_S)

    def _empty_within(self, seconds: float) -> bool:
        return self._changed.wait_for(lambda: not (self._waiting or self._left_out), seconds)


def _attempt_for(fd: int) -> Callable[[memoryview], int] | None:
    """Return a function that writes without waiting, and returns the number of bytes.

    None if there is no such way.
    """
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


# --- writers that do not block --------------------------------------------------------------------


class PipeWriter:
    """Writes to a pipe through a second opening of it, which does not block.

    O_NONBLOCK belongs to the open file, which other processes may share.

    Args:
        fd: The pipe's end to write to.

    Raises:
        OSError: The pipe cannot be opened again, for example where there is no ``/proc``.
    """

    def __init__(self, fd: int) -> None:
        self._fd = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)

    def write(self, data: memoryview) -> int:
        """Write as many bytes as there is room for, and return their number.

        Raises:
            OSError: The other end is closed.
        """
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0

    def fileno(self) -> int:
        """Return the descriptor, to wait for room."""
        return self._fd

    def close(self) -> None:
        """Close the second opening."""
        os.close(self._fd)


class SocketWriter:
    """Writes to a socket without blocking; methods as of `PipeWriter`.

    Args:
        fd: The socket; it is duplicated.
    """

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))
        self.fileno, self.close = self._socket.fileno, self._socket.close

    def write(self, data: memoryview) -> int:
        """Write as many bytes as there is room for, and return their number."""
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0


NonBlockingWriter: TypeAlias = "PipeWriter | SocketWriter"


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
