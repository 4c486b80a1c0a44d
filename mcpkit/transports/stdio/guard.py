"""Keeps everything but protocol messages off standard output.

On stdio a server "MUST NOT write anything to its stdout that is not a valid MCP message". A rule
for authors does not hold: a dependency prints while it is imported, a C library uses ``puts``, a
child process inherits the descriptor. So the descriptors themselves are exchanged. The protocol
moves to two private ones, and number 1 becomes another name for stderr.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from dataclasses import dataclass

TYPE_CHECKING = False  # Type checkers know the name; importing `typing` for it would take longer.
if TYPE_CHECKING:
    from types import FrameType
    from typing import TextIO

    from _typeshed import ReadableBuffer

GUARDS_STDOUT = True
"""Marks modules between the code that prints and the descriptor; none is an offender."""

_STDIN, _STDOUT, _STDERR = 0, 1, 2

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

    - descriptor 0 and `sys.stdin` are at their end, for this process and its children;
    - descriptor 1 is stderr, or the null device if stderr is closed, for this process and its
      children; text that was still buffered for stdout goes there, too;
    - `sys.stdout` and `sys.__stdout__` write there, escape what the encoding lacks, and tell on
      stderr, once, which line of Python wrote first.

    A `sys.stdin` or `sys.stdout` that the program has replaced by something else than descriptor
    0 or 1, a `StringIO` say, is left alone.

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

# A wrapper that is collected closes the buffer below it, which somebody else may still hold.
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
                pass  # Stderr is broken, or the stream is closed: the text has no place left.

    # `open` rather than FileIO, because it knows how to write to a Windows console.
    # They stay open for good, and their descriptors are not theirs to close.
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
    """The bytes below `GuardedText`: the first write names the line of Python that makes it."""

    def write(self, buffer: ReadableBuffer, /) -> int:
        """Write bytes, after the note on who prints."""
        # The text layer may hand down an empty write of its own when it is flushed.
        if memoryview(buffer).nbytes:
            _name_offender("utf-8")
        return super().write(buffer)


class GuardedText(io.TextIOWrapper):
    """A `sys.stdout` whose first write names, on stderr, the line of Python that makes it."""

    @property
    def mode(self) -> str:
        """The mode of a text stream, ``"w"``."""
        return "w"

    def write(self, text: str, /) -> int:
        """Write text, after the note on who prints."""
        # An empty write reaches nobody, and libraries use it to probe the stream.
        if text:
            _name_offender(self.encoding)
        return super().write(text)


def is_offender_named() -> bool:
    """Return True once the note on who prints has been taken."""
    return _note_taken.locked()


def take_note() -> str | None:
    """Return the note on who prints, to be written by the caller; None if somebody has it already.

    The note names the nearest line of Python outside the standard library that led here. Who logs
    has often not chosen where to, so the note says then what to look for.
    """
    if not _note_taken.acquire(blocking=False):
        return None
    offender, has_logged = _offender()
    return (_LOGGED if has_logged else _NOTE).format(offender=offender)


def _name_offender(encoding: str) -> None:
    note = take_note()
    if note is None:
        return
    try:
        os.write(_STDOUT, note.encode(encoding, "backslashreplace"))
    except OSError:
        pass  # The write that follows meets the same trouble and reports it to its caller.


def _offender() -> tuple[str, bool]:
    """Find the nearest line outside the standard library, or else the nearest.

    Returns:
        The line, and whether `logging` led from there to here.
    """
    nearest: FrameType | None = None
    frame: FrameType | None = sys._getframe()
    has_logged = False
    while frame is not None:
        if "GUARDS_STDOUT" not in frame.f_globals:
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
