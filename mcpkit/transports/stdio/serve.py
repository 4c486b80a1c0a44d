"""Messages as lines on the standard streams: one JSON value per line, UTF-8 (STDIO-1).

Bytes are read when the descriptor is readable and written without blocking, in the event loop's
own thread where the platform can poll pipes, else in a thread each. Responses that become ready in
the same turn of the loop leave in one write.
"""

from __future__ import annotations

import contextvars
import errno
import functools
import os
import signal
import socket
import stat
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Final, NoReturn, Protocol

import anyio
import anyio.to_thread

from mcpkit.engine.loop import AsyncioTasks, Tasks, open_tasks
from mcpkit.engine.server import Server, log
from mcpkit.engine.session import Channel, Session
from mcpkit.errors import InvalidRequest
from mcpkit.protocol.connection import Request
from mcpkit.transports import Served
from mcpkit.transports.leaving import leave_at_once
from mcpkit.transports.stdio.guard import ProtocolStreams, take_over

__all__ = ["MAX_LINE", "run", "serve"]

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes a line may have by default."""

_CHUNK: Final = 64 * 1024
_HIGH_WATER: Final = 1024 * 1024
"""Bytes that may wait to be written before reading pauses."""

_LOW_WATER: Final = _HIGH_WATER // 4
_BATCH: Final = 256 * 1024
"""Bytes up to which messages are joined into one write."""

_CLEAN_UP: Final = 2.0
"""Seconds that cancelled handlers have to clean up."""

_LAST_LOOK: Final = 0.2
"""Seconds that threads have to see that they are cancelled, and to end."""

_PATIENCE: Final = 0.5
"""Seconds within which the client has to take some of what is left, once it has closed its side."""

Running = Callable[[], AbstractAsyncContextManager[Server]]


def run(
    served: Served,
    *,
    max_line: int = MAX_LINE,
    grace: float = 0.25,
    backend: str = "asyncio",
) -> None:
    """Serve an app on this process's standard streams until the client leaves.

    Args:
        served: The app.
        max_line: Bytes a line may have; a longer one is refused, and the connection lives on.
        grace: For how many seconds calls that run may still answer after the client has closed
            its side, or SIGTERM; they are cancelled then. SIGINT cancels them at once.
        backend: ``"asyncio"`` or ``"trio"``.

    Raises:
        SystemExit: With 130 after SIGINT.
    """
    streams = take_over()
    told: list[int] = []
    busy = anyio.run(_main, served.running, streams, max_line, grace, told, backend=backend)
    if busy:
        # A thread cannot be stopped, and the interpreter would wait for it.
        _leave_at_once(f"{busy} handlers still run in threads", told)
    if code := _exit_code(told):
        raise SystemExit(code)


def _exit_code(told: list[int]) -> int:
    return 130 if signal.SIGINT in told else 0


def _leave_at_once(reason: str, told: list[int]) -> NoReturn:
    log.warning("leaving, although %s", reason)
    leave_at_once(_exit_code(told))


async def _main(
    running: Running, streams: ProtocolStreams, max_line: int, grace: float, told: list[int]
) -> int:
    async with running() as server:
        return await serve(server, streams, max_line=max_line, grace=grace, told=told)


async def serve(
    server: Server,
    streams: ProtocolStreams,
    *,
    max_line: int = MAX_LINE,
    grace: float = 0.25,
    told: list[int] | None = None,
) -> int:
    """Serve one client on a pair of descriptors until it closes its side or a signal arrives.

    Args:
        server: What is served.
        streams: Where to read and write.
        max_line: Bytes a line may have.
        grace: Seconds that running calls have after the end of input.
        told: SIGTERM or SIGINT is appended when it ended the service. Given by who owns the
            process, which is left at once if a handler does not let itself be cancelled.

    Returns:
        How many handlers still run in threads.
    """
    ended = anyio.Event()
    async with open_tasks() as tasks:
        output = Output(streams.writer, tasks, on_broken=ended.set)
        session = Session(server, output, tasks)
        lines = Lines(session, max_line, lambda: session.saturated or output.congested)
        reader = make_reader(streams.reader, tasks)
        context = contextvars.copy_context()

        def settle() -> None:
            """Go on when nothing piles up any more."""
            if not output.congested:
                session.begin_waiting()
            if lines.go_on():
                reader.resume()

        def relieved() -> None:
            # It may be a handler that calls this, and what reads on must not have its context.
            context.copy().run(settle)

        def take(chunk: bytes) -> None:
            with output:
                if chunk:
                    lines.feed(chunk)
                else:
                    lines.end()
                    ended.set()
            if lines.blocked():
                reader.pause()

        output.on_relief = session.on_relief = relieved
        reader.start(take)
        tasks.start(_watch_signals(ended, told))
        await ended.wait()
        reader.stop()
        session.lose_client()
        if session.busy and not output.broken and signal.SIGINT not in (told or ()):
            with anyio.move_on_after(grace):
                await session.wait_idle()
        session.end_listens(announce=True)
        with anyio.move_on_after(_CLEAN_UP):
            await session.aclose()
        await output.finish(_PATIENCE)
        if session.busy and told is not None:
            _leave_at_once("a handler does not let itself be cancelled", told)
        with anyio.move_on_after(_LAST_LOOK):
            while session.busy_threads:
                await anyio.sleep(_LAST_LOOK / 20)
    output.close()
    return session.busy_threads


async def _watch_signals(ended: anyio.Event, told: list[int] | None) -> None:
    if told is None or threading.current_thread() is not threading.main_thread():
        return
    if sys.platform == "win32":
        return  # Ctrl-C arrives as KeyboardInterrupt there
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for number in received:
            told.append(number)
            ended.set()
            return


class Lines:
    """Cuts what is read into lines, bounds their length, and holds them back when asked to.

    Args:
        session: Takes the lines.
        max_line: Bytes a line may have.
        blocked: Whether no further line should be given now.
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
        """Give every line that is complete to the session."""
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
        """Give the lines that were held back; whether there are none any more, nor a reason."""
        held = self._held
        while not self.blocked():
            if not held:
                return True
            self._give(held.popleft())
        return False

    def end(self) -> None:
        """Take what has arrived of a line as a whole one: nothing follows."""
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
        if len(line) > self._max:
            self._refuse()
        elif line and not line.isspace():
            self._session.receive(line)

    def _refuse(self) -> None:
        self._session.refuse(InvalidRequest(f"A line has more than {self._max} bytes"))


# --- reading --------------------------------------------------------------------------------------


class Reader(Protocol):
    """Gives chunks of bytes as they arrive; an empty one at the end."""

    def start(self, take: Callable[[bytes], None]) -> None:
        """Begin."""
        ...

    def pause(self) -> None:
        """Take nothing more for now."""
        ...

    def resume(self) -> None:
        """Go on."""
        ...

    def stop(self) -> None:
        """Take nothing more at all."""
        ...


def make_reader(fd: int, tasks: Tasks) -> Reader:
    """The best reader for what a descriptor is: polled, or read in a thread."""
    if sys.platform != "win32" and _can_be_polled(fd):
        if isinstance(tasks, AsyncioTasks):
            return PolledReader(fd)
        return AwaitingReader(fd, tasks)
    return ThreadReader(fd, tasks)


def _can_be_polled(fd: int) -> bool:
    """Whether the event loop can wait for a descriptor; not so for files and most devices."""
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(fd)


def _read(fd: int) -> bytes | None:
    """What there is; empty at the end, None if there is nothing after all."""
    try:
        return os.read(fd, _CHUNK)
    except (BlockingIOError, InterruptedError):
        return None
    except OSError:  # a reset connection ends as well
        return b""


class PolledReader:
    """On asyncio: called by the loop itself, without a task in between."""

    def __init__(self, fd: int) -> None:
        import asyncio

        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._active = False
        self._stopped = False
        self._take: Callable[[bytes], None] = lambda chunk: None

    def start(self, take: Callable[[bytes], None]) -> None:
        """Begin."""
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
        """Take nothing more for now."""
        if self._active:
            self._active = False
            self._loop.remove_reader(self._fd)

    def resume(self) -> None:
        """Go on."""
        if not self._active and not self._stopped:
            self._active = True
            self._loop.add_reader(self._fd, self._ready)

    def stop(self) -> None:
        """Take nothing more at all."""
        self.pause()
        self._stopped = True


class AwaitingReader:
    """On trio: a task that waits for the descriptor."""

    def __init__(self, fd: int, tasks: Tasks) -> None:
        self._fd = fd
        self._tasks = tasks
        self._may_read = anyio.Event()
        self._scope = anyio.CancelScope()

    def start(self, take: Callable[[bytes], None]) -> None:
        """Begin."""
        self._may_read.set()
        self._tasks.start(self._loop(take))

    async def _loop(self, take: Callable[[bytes], None]) -> None:
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
        """Take nothing more for now."""
        if self._may_read.is_set():
            self._may_read = anyio.Event()

    def resume(self) -> None:
        """Go on."""
        self._may_read.set()

    def stop(self) -> None:
        """Take nothing more at all."""
        self._scope.cancel()


class ThreadReader:
    """For files, devices and Windows: a thread that blocks in the read, one chunk ahead."""

    def __init__(self, fd: int, tasks: Tasks) -> None:
        self._fd = fd
        self._tasks = tasks
        self._wanted = threading.Semaphore(1)
        self._held: deque[bytes] = deque()
        self._paused = False
        self._stopped = False
        self._take: Callable[[bytes], None] = lambda chunk: None

    def start(self, take: Callable[[bytes], None]) -> None:
        """Begin."""
        self._take = take
        # A daemon: a read that never returns must not keep the process.
        threading.Thread(target=self._work, name="mcpkit stdin", daemon=True).start()

    def _work(self) -> None:
        while not self._stopped:
            self._wanted.acquire()
            chunk = _read(self._fd)
            if chunk is None:
                self._wanted.release()
                continue
            self._tasks.soon(functools.partial(self._arrived, chunk))
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
        """Take nothing more for now."""
        self._paused = True

    def resume(self) -> None:
        """Go on."""
        if self._paused:
            self._paused = False
            self._hand_over()

    def stop(self) -> None:
        """Take nothing more at all."""
        self._stopped = True


# --- writing --------------------------------------------------------------------------------------


class Output(Channel):
    """The channel of a session that leaves through a descriptor.

    Args:
        fd: To write to.
        tasks: Of the loop that calls `send`.
        on_broken: Called once the client no longer reads.
    """

    def __init__(
        self,
        fd: int,
        tasks: Tasks,
        on_broken: Callable[[], None],
    ) -> None:
        self._sink = make_sink(fd)
        self._tasks = tasks
        self._on_broken = on_broken
        self._parts: list[bytes] = []
        self._size = 0
        self._scheduled = False
        self._waiting = False
        self._relieved = anyio.Event()
        self._empty = anyio.Event()
        self.broken = False
        self.congested = False
        self.on_relief: Callable[[], None] = lambda: None

    def __enter__(self) -> None:
        """Hold messages back, to let them leave together."""
        self._scheduled = True

    def __exit__(self, *error: object) -> None:
        self.flush()

    def send(self, text: bytes, about: Request | None = None) -> None:
        """Take one message; it leaves at the end of this turn of the loop."""
        if self.broken:
            return
        self._parts.append(text)
        self._size += len(text) + 1
        if self._size > _HIGH_WATER and not self.congested:
            self.congested = True
            self._relieved = anyio.Event()
        if not self._scheduled and not self._waiting:
            self._scheduled = True
            self._tasks.soon(self.flush)

    def flush(self) -> None:
        """Write as much as goes without waiting."""
        self._scheduled = False
        while self._parts and not self._waiting and not self.broken:
            rest = self._write(memoryview(self._batch()))
            if rest:
                self._waiting = True
                self._tasks.start(self._finish_later(rest))
        self._relieve()

    def _batch(self) -> bytes:
        """Messages to write together: all, or if that were a large copy, the first few."""
        parts = self._parts
        count, size = len(parts), self._size
        if size > _BATCH:
            count = size = 0
            while size < _BATCH and count < len(parts):
                size += len(parts[count])
                count += 1
        text = b"\n".join([*parts[:count], b""])
        del parts[:count]
        return text

    def _write(self, data: memoryview) -> memoryview:
        """Write without waiting; what is left."""
        try:
            while data:
                written = self._sink.write(data)
                if not written:
                    break
                data = data[written:]
                self._size -= written
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ESHUTDOWN, errno.EBADF):
                log.error("cannot write to the client: %s", error)
            self._break()
            return memoryview(b"")
        return data

    def _break(self) -> None:
        if not self.broken:
            self.broken = True
            self._parts.clear()
            self._size = 0
            self._on_broken()

    async def _finish_later(self, rest: memoryview) -> None:
        while rest:
            await self._sink.wait()
            rest = self._write(rest)
            self._relieve()
        self._waiting = False
        self.flush()

    def _relieve(self) -> None:
        if self._size == 0:
            self._empty.set()
        if self.congested and self._size < _LOW_WATER:
            self.congested = False
            self._relieved.set()
            self.on_relief()

    async def drain(self, about: Request | None = None) -> None:
        """Wait until the client keeps up."""
        if self.congested:
            await self._relieved.wait()

    async def finish(self, patience: float) -> None:
        """Wait until everything has left, or nobody reads any more.

        Args:
            patience: Seconds after which a client that takes nothing counts as gone.
        """
        self.flush()
        while self._size and not self.broken:
            before = self._size
            self._empty = anyio.Event()
            with anyio.move_on_after(patience):
                await self._empty.wait()
            if self._size == before:
                return
        with anyio.move_on_after(patience):
            await self._sink.finish()

    def close(self) -> None:
        """Let go of what was opened for writing."""
        self._sink.close()


class Sink(Protocol):
    """Something to write to that never blocks the event loop."""

    def write(self, data: memoryview) -> int:
        """Write some of it; how many bytes, 0 if it would have to wait.

        Raises:
            OSError: Nobody reads any more.
        """
        ...

    async def wait(self) -> None:
        """Wait until writing may go on."""
        ...

    async def finish(self) -> None:
        """Wait until everything that was taken has left."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def make_sink(fd: int) -> Sink:
    """The way to write to a descriptor without blocking, and without changing it for others.

    O_NONBLOCK belongs to the open file, which stderr or another process may share, so it is set on
    a descriptor of our own only.
    """
    mode = os.fstat(fd).st_mode
    if sys.platform != "win32":
        if stat.S_ISSOCK(mode):
            return SocketSink(fd)
        if stat.S_ISFIFO(mode):
            try:
                own = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                return ThreadSink(fd)
            return PipeSink(own)
    if stat.S_ISREG(mode):
        return FileSink(fd)
    return ThreadSink(fd)


class PipeSink:
    """A pipe, through a descriptor of our own that does not block."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: memoryview) -> int:
        """Write some of it."""
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0

    async def wait(self) -> None:
        """Wait until the pipe has room."""
        await anyio.wait_writable(self._fd)

    async def finish(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """Close our own descriptor."""
        os.close(self._fd)


class SocketSink:
    """A socket, asked each time not to block."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=os.dup(fd))

    def write(self, data: memoryview) -> int:
        """Write some of it."""
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0

    async def wait(self) -> None:
        """Wait until the socket has room."""
        await anyio.wait_writable(self._socket.fileno())

    async def finish(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """Close our own descriptor."""
        self._socket.close()


class FileSink:
    """A file, which takes everything."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def write(self, data: memoryview) -> int:
        """Write all of it."""
        return os.write(self._fd, data)

    async def wait(self) -> None:
        """Nothing to wait for."""

    async def finish(self) -> None:
        """Nothing is kept back."""

    def close(self) -> None:
        """Nothing was opened."""


class ThreadSink:
    """Terminals, pipes that cannot be opened anew, and Windows: a thread blocks in the write."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._data = memoryview(b"")
        self._error: OSError | None = None
        self._wake = threading.Condition()
        self._closed = False
        threading.Thread(target=self._work, name="mcpkit stdout", daemon=True).start()

    def write(self, data: memoryview) -> int:
        """Hand some of it to the thread, if that has nothing left to do."""
        with self._wake:
            if self._error is not None:
                raise self._error
            if self._data:
                return 0
            self._data = data
            self._wake.notify_all()
            return len(data)

    def _work(self) -> None:
        while True:
            with self._wake:
                while not self._data and not self._closed:
                    self._wake.wait()
                if not self._data:
                    return
                data = self._data
            try:
                while data:
                    data = data[os.write(self._fd, data) :]
            except OSError as error:
                self._error = error
            with self._wake:
                self._data = memoryview(b"")
                self._wake.notify_all()

    def _wait_for_thread(self) -> None:
        with self._wake:
            while self._data:
                self._wake.wait()

    async def wait(self) -> None:
        """Wait until the thread has written what it was given."""
        await anyio.to_thread.run_sync(self._wait_for_thread, abandon_on_cancel=True)

    async def finish(self) -> None:
        """Wait until the thread has nothing left to do."""
        await self.wait()

    def close(self) -> None:
        """Let the thread end."""
        with self._wake:
            self._closed = True
            self._wake.notify_all()
