"""Keeps everything but protocol messages off stdout, and stderr from blocking the server.

A rule for authors would not be enough (STDIO-2): a dependency prints while it is imported, a C
library uses ``puts``, a child process inherits the descriptor. So `take_over` exchanges the
descriptors themselves: the protocol moves to two private ones, and descriptor 1 becomes another
name for stderr.

A write to a pipe that is full blocks until the other end is read: a few hundred log records would
stop the event loop. So `never_block` buffers what Python writes to stderr; what exceeds the buffer
is dropped and counted, and a write that fails is ignored.
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
from functools import partial

TYPE_CHECKING = False  # importing `typing` for it would take longer
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Final, TextIO

    from _typeshed import ReadableBuffer

MAX_WAITING_BYTES: Final = 1024 * 1024
"""Bytes of stderr that are buffered."""

_STDIN, _STDOUT, _STDERR = 0, 1, 2

_FINISH_S: Final = 0.5
"""Seconds that the end of the process waits for the buffer."""

_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep
_INSTALLED_PACKAGES = "-packages" + os.sep


# --- stdout ---------------------------------------------------------------------------------------


class ProtocolStreams:
    """The descriptors of the protocol once `take_over` has moved it.

    Both are blocking descriptors above 2 that child processes do not inherit, in binary mode on
    Windows. They stay open until the process ends, unless their user closes them.

    Args:
        reader: The process's original stdin; at its end at once if stdin arrived closed.
        writer: The process's original stdout.
    """

    def __init__(self, reader: int, writer: int) -> None:
        self.reader = reader
        self.writer = writer


def take_over() -> ProtocolStreams:
    """Reserve stdin and stdout of this process for the protocol.

    Call it before importing anything that might print. Afterwards, for this process and its
    children, descriptor 0 is empty, and descriptor 1 is stderr, or the null device if stderr is
    closed. `sys.stdout` writes there, escapes characters that the encoding lacks, and logs once
    which line of Python wrote first. A `sys.stdin` or `sys.stdout` that the program has replaced is
    kept.

    Returns:
        The descriptors that carry the protocol. Every later call returns the same and changes
        nothing.

    Raises:
        RuntimeError: stdout is closed. Nothing has been changed.
        OSError: No descriptors are left.
    """
    global _taken
    if _taken is None:
        _taken = _exchange_descriptors()
        _replace_streams()
    return _taken


_taken: ProtocolStreams | None = None

# A stream that is garbage-collected closes the buffer below it, which may still be in use.
_retired: list[TextIO | None] = []

# The thread that locks it writes the note, and it stays locked. Unlike a flag under a lock, this
# cannot block a signal handler that prints in the middle of the first print.
_note_taken = threading.Lock()


def _exchange_descriptors() -> ProtocolStreams:
    if not _arrived_open(_STDOUT, sys.__stdout__):
        raise RuntimeError(
            "stdout is closed, so protocol messages have nowhere to go; "
            "start the server with its stdout connected to the client"
        )
    has_stdin = _arrived_open(_STDIN, sys.__stdin__)
    has_stderr = _arrived_open(_STDERR, sys.__stderr__)
    _open_closed()  # so that the private descriptors are above 2
    with contextlib.ExitStack() as on_error:
        null = os.open(os.devnull, os.O_RDWR)
        on_error.callback(os.close, null)
        reader = os.dup(_STDIN if has_stdin else null)
        on_error.callback(os.close, reader)
        writer = os.dup(_STDOUT)
        on_error.pop_all()
    os.dup2(null, _STDIN)
    os.dup2(_STDERR if has_stderr else null, _STDOUT)
    os.close(null)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(reader, os.O_BINARY)
        msvcrt.setmode(writer, os.O_BINARY)
    return ProtocolStreams(reader, writer)


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _arrived_open(descriptor: int, stream: TextIO | None) -> bool:
    # The interpreter makes no stream for a descriptor that is closed when it starts. By now an
    # unrelated file may have been given that number, so looking at the number is not enough.
    return stream is not None and _is_open(descriptor)


def _open_closed() -> None:
    """Open the null device for standard descriptors that are closed.

    The next file that is opened would get their numbers, and with it the text for stderr.
    """
    for descriptor in (_STDIN, _STDOUT, _STDERR):
        if not _is_open(descriptor):
            # It gets the lowest number that is free, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def _replace_streams() -> None:
    stderr = sys.__stderr__
    encoding = "utf-8" if stderr is None else stderr.encoding
    for stream in (sys.stdout, sys.__stdout__):
        if stream is not None:
            # If stderr is broken or the stream closed, the text is lost.
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    _retired.extend((sys.stdin, sys.__stdin__, sys.stdout, sys.__stdout__))
    # `open` rather than FileIO, because it knows how to write to a Windows console.
    # They are never closed, and do not own their descriptors.
    nothing = open(_STDIN, encoding=encoding, closefd=False)  # noqa: SIM115
    guarded = _guarded(open(_STDOUT, "wb", buffering=0, closefd=False), encoding)  # noqa: SIM115
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


def _guarded(raw: io.RawIOBase, encoding: str, errors: str = "backslashreplace") -> GuardedText:
    return GuardedText(GuardedBuffer(raw), encoding, errors, line_buffering=True)


class GuardedBuffer(io.BufferedWriter):
    """The bytes below `GuardedText`."""

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Write bytes; the first write logs the line of Python that makes it."""
        # The text layer may hand down an empty write of its own when it is flushed.
        if memoryview(buffer).nbytes:
            _name_offender(self)
        return super().write(buffer)


class GuardedText(io.TextIOWrapper):
    """A `sys.stdout` whose first write logs, on stderr, the line of Python that makes it."""

    def write(self, text: str, /) -> int:
        """Write text; the first write logs the line of Python that makes it."""
        if text:  # libraries probe the stream with empty writes
            _name_offender(self.buffer)
        return super().write(text)


def _name_offender(buffer: Any) -> None:
    if _note_taken.acquire(blocking=False):
        note = (
            f"mcpkit: {_offender()} printed to stdout, which carries the protocol; "
            "it goes to stderr instead (shown once)\n"
        )
        # If this fails, so does the write that follows, which reports it to its caller.
        with contextlib.suppress(OSError):
            buffer.raw.write(note.encode("utf-8", "backslashreplace"))


def _offender() -> str:
    """Return the nearest line of Python outside the standard library, or else the nearest."""
    nearest: FrameType | None = None
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if frame.f_globals is not globals():
            if not file.startswith(("<frozen ", _STANDARD_LIBRARY)) or _INSTALLED_PACKAGES in file:
                return _line_of(frame)
            nearest = nearest or frame
        frame = frame.f_back
    return "native code" if nearest is None else _line_of(nearest)


def _line_of(frame: FrameType) -> str:
    filename = frame.f_code.co_filename
    with contextlib.suppress(OSError):  # the working directory may be gone
        filename = filename.removeprefix(os.getcwd() + os.sep)
    return f"{filename}:{frame.f_lineno}"


# --- stderr ---------------------------------------------------------------------------------------


def never_block() -> None:
    """Replace `sys.stderr`, and `sys.stdout` after `take_over`, by streams that accept any write.

    They never fail, and block on terminals and files only. Streams that the program has replaced
    are kept, and so are consoles of Windows. Other writers may still block and fail: `os.write`, C
    libraries, other processes. Standard descriptors that are closed become the null device.
    """
    _open_closed()
    stream: Any = sys.stderr
    if stream is None:
        sys.stderr = sys.__stderr__ = open(os.devnull, "w")  # type: ignore[misc]  # noqa: SIM115
        return
    if (
        not _uses(stream, _STDERR)
        or isinstance(stream.buffer, StderrRaw)
        or (sys.platform == "win32" and stream.isatty())
    ):
        return
    raw = StderrRaw(_STDERR)
    _retired.extend((stream, sys.stdout))
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(  # type: ignore[misc]
        raw, stream.encoding, stream.errors, line_buffering=True
    )
    guarded = sys.stdout
    if isinstance(guarded, GuardedText):
        sys.stdout = sys.__stdout__ = _guarded(  # type: ignore[misc]
            raw, guarded.encoding, guarded.errors or "backslashreplace"
        )
    atexit.register(raw.finish)


class StderrRaw(io.RawIOBase):
    """A descriptor that accepts any write and ignores errors.

    Text for a pipe or socket that is full is buffered, and written by a thread.
    """

    name = "<stderr>"

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._dropped = 0
        self._backlog = ThreadWriter(fd, "mcpkit stderr", self._report_dropped)
        writer = open_writer(fd)
        self._attempt: Callable[[memoryview], int]
        if writer is not None:
            self._attempt = writer.write
        elif stat.S_ISCHR(os.fstat(fd).st_mode):
            self._attempt = partial(os.write, fd)
        else:  # all is left to the thread
            self._attempt = lambda view: 0

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
        """Write or buffer all of the data, without waiting for a reader."""
        view = memoryview(data).cast("B")
        size = len(view)
        backlog = self._backlog
        with backlog.changed, contextlib.suppress(OSError):
            while view and not backlog.size and (written := self._attempt(view)):
                view = view[written:]
            if view:
                self._keep(bytes(view))
        return size

    def _keep(self, data: bytes) -> None:
        backlog = self._backlog
        if backlog.size and backlog.size + len(data) > MAX_WAITING_BYTES:
            self._dropped += data.count(b"\n") or 1
            return
        with contextlib.suppress(RuntimeError):  # the interpreter ends, and starts no thread
            self._report_dropped()
            backlog.append(data)

    def _report_dropped(self) -> None:
        if self._dropped:
            lines = "1 line" if self._dropped == 1 else f"{self._dropped} lines"
            self._dropped = 0
            note = f"mcpkit: {lines} dropped here, because stderr was not read\n"
            self._backlog.append(note.encode())

    def finish(self) -> None:
        """Wait up to `_FINISH_S` for the buffer, at the end of the process."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        self._backlog.join(_FINISH_S)


# --- writers --------------------------------------------------------------------------------------


class ThreadWriter:
    """Writes to a descriptor in a daemon thread, which starts when it is needed.

    For terminals, for pipes that cannot be opened again, and for all on Windows. `on_empty` is
    called in the thread whenever it has written everything.
    """

    def __init__(self, fd: int, name: str, on_empty: Callable[[], None] = lambda: None) -> None:
        # Reentrant: a signal handler may print in the middle of a print.
        self.changed = threading.Condition(threading.RLock())
        self.size = 0
        """Bytes that are not written yet."""
        self.error: OSError | None = None
        """The error of the last write that failed; `write` raises it."""
        self._fd = fd
        self._name = name
        self._on_empty = on_empty
        self._waiting: deque[bytes | memoryview] = deque()
        self._thread: threading.Thread | None = None

    def write(self, data: memoryview) -> int:
        """Hand the data to the thread if it is idle, and return the number of bytes.

        Raises:
            OSError: The other end is closed.
        """
        if self.error is not None:
            raise self.error
        if self.size:
            return 0
        self.append(data)
        return len(data)

    async def wait_writable(self) -> None:
        """Wait until the thread is idle."""
        from anyio import to_thread  # a command that only prints needs no event loop

        await to_thread.run_sync(self.join, abandon_on_cancel=True)

    finish = wait_writable

    def close(self) -> None:
        """End the thread."""
        self.append(b"")

    def append(self, data: bytes | memoryview) -> None:
        """Have data written; without any, the thread ends.

        Raises:
            RuntimeError: No thread can be started.
        """
        with self.changed:
            if self._thread is None:
                thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                thread.start()
                self._thread = thread
            self._waiting.append(data)
            self.size += len(data)
            self.changed.notify_all()

    def join(self, timeout: float | None = None) -> None:
        """Wait until everything is written."""
        with self.changed:
            self.changed.wait_for(lambda: not self.size, timeout)

    def _work(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self._waiting)
                data = self._waiting.popleft()
            if not data:
                return
            try:
                self._write_all(memoryview(data))
            except OSError as error:  # there is no reader any more
                self.error = error
            with self.changed:
                self.size -= len(data)
                if not self.size:
                    self._on_empty()
                self.changed.notify_all()

    def _write_all(self, view: memoryview) -> None:
        while view:
            try:
                view = view[os.write(self._fd, view) :]
            except BlockingIOError:  # another process has made it non-blocking
                select.select([], [self._fd], [])


class NonBlockingWriter:
    """Writes to a pipe or a socket without blocking, or to a file, which always has room.

    Args:
        fd: To wait for room.
        send: Writes to it, or raises `BlockingIOError`.
        close: Closes it.
    """

    def __init__(
        self, fd: int, send: Callable[[memoryview], int], close: Callable[[], None]
    ) -> None:
        self.close = close
        self._fd = fd
        self._send = send

    def write(self, data: memoryview) -> int:
        """Write as many bytes as there is room for, and return their number.

        Raises:
            OSError: The other end is closed.
        """
        try:
            return self._send(data)
        except BlockingIOError:
            return 0

    async def wait_writable(self) -> None:
        """Wait until there is room."""
        from anyio import wait_writable

        await wait_writable(self._fd)

    async def finish(self) -> None:
        """Return at once, because nothing is buffered."""


def open_writer(fd: int) -> NonBlockingWriter | None:
    """Return a non-blocking writer to a pipe, a socket or a file.

    The descriptor stays as it is, because other processes may share the open file, to which
    O_NONBLOCK belongs. So a pipe is opened a second time.

    Returns:
        None if the descriptor is something else, and where the platform has no such way.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return NonBlockingWriter(fd, partial(os.write, fd), lambda: None)
    if sys.platform == "win32":
        return None
    if stat.S_ISSOCK(mode):
        sender = socket.socket(fileno=os.dup(fd))
        return NonBlockingWriter(
            sender.fileno(), lambda data: sender.send(data, socket.MSG_DONTWAIT), sender.close
        )
    if stat.S_ISFIFO(mode):
        with contextlib.suppress(OSError):  # there is no ``/proc``
            again = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            return NonBlockingWriter(again, partial(os.write, again), partial(os.close, again))
    return None
