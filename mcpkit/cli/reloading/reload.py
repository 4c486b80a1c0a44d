"""``mcpkit run --reload`` on stdio: the host keeps its pipe while the server behind it changes.

This process owns the host's pipe and serves nothing itself. Each version of the server is a child
process on pipes of its own. Threads read and write, because blocking pipes are the only ones that
every platform has; `mcpkit.cli.reloading.relay` decides which line goes where. The main thread
looks after files, processes and signals, and never writes to anybody, so that nothing blocks it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Final, Literal, NamedTuple

from typing_extensions import ParamSpec

from mcpkit.asking.sealing import SECRET, new_secret, secrets_from_environment
from mcpkit.cli.reloading.relay import KINDS, Relay, Step, Version
from mcpkit.cli.reloading.relayed import LIFELINE
from mcpkit.cli.reloading.supervise import Watched
from mcpkit.cli.terminal import note
from mcpkit.protocol.messages import notification_text, request_text
from mcpkit.support.target import run_command
from mcpkit.support.text import how_ended
from mcpkit.transports.leaving import stop_signals
from mcpkit.transports.stdio.guard import ProtocolStreams
from mcpkit.transports.stdio.lines import MAX_LINE, LineSplitter
from mcpkit.transports.stdio.reading import is_deserted
from mcpkit.types import is_array, is_object

__all__ = ["Reloader", "serve_anew"]

_P = ParamSpec("_P")

_CHUNK_BYTES: Final = 64 * 1024
_HIGH_WATER_BYTES: Final = 1024 * 1024
"""Bytes that may wait in an outlet before the threads that fill it have to wait."""

_HOLD_S: Final = 4.0
"""Seconds for which a request waits for a version that is on its way, or for none at all. Some
hosts give a server no more than five seconds to start."""

_FINISH_S: Final = 3.0
"""Seconds that calls have to finish on the version that began them."""

_END_S: Final = 4.0
"""Seconds that a version has to end once its stdin is at its end; it takes fewer by itself."""

_START_PAUSE_S: Final = 1.0
"""Seconds between two starts that no file has asked for."""

_START_AGAIN_S: Final = 10.0
"""Seconds after which a request has a version started again that could not be started."""

_LISTING_S: Final = 2.0
"""Seconds that a version has to list what it offers; else all lists count as changed."""

_MAX_PAGES: Final = 100

_LISTS: Final = {
    "tools": (("tools/list", "tools"),),
    "resources": (
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
    ),
    "prompts": (("prompts/list", "prompts"),),
}

_STALL_S: Final = 0.5
"""Seconds within which the host has to take some of what is left, once everything has ended."""

_NOT_STARTED: Final = "The server could not be started; its stderr says why. Mend it and try again"


def serve_anew(
    target: str,
    flags: Sequence[str],
    streams: ProtocolStreams,
    watched: Watched,
    *,
    options: Sequence[str] = (),
) -> int:
    """Serve a target to one host, and start it anew when a file changes.

    Args:
        target: As on the command line.
        flags: Of the server itself.
        streams: Those of the host.
        watched: The files that make a new version when they change.
        options: Of the command that runs the server.

    Returns:
        The exit code: that of the server; after a signal, 130 for SIGINT and 0 for SIGTERM.
    """
    # So that a request that is continued (2026-07-28) can be continued by the next version.
    if not secrets_from_environment():
        os.environ[SECRET] = new_secret()
    inherited: list[str] = getattr(subprocess, "_args_from_interpreter_flags")()  # noqa: B009
    # -B: two versions of a file may have the same size and be of the same second.
    command = [*run_command(target, *inherited, "-B"), *options]
    command += ["--", *flags] if flags else []
    return Reloader(command, streams, watched).run()


class _Outlet:
    """Lines that leave through a descriptor. The first thread that comes writes for the others too.

    Args:
        fd: A descriptor that blocks.
        close: Closes the descriptor.
        on_broken: Called once nobody reads any more.
    """

    def __init__(
        self, fd: int, close: Callable[[], object], on_broken: Callable[[], object]
    ) -> None:
        self._fd = fd
        self._close: Callable[[], object] | None = close
        self._on_broken = on_broken
        self._changed = threading.Condition()
        self._lines: list[bytes] = []
        self._size = 0
        self._writing = False
        self._closed = False
        self.written = 0

    def put(self, line: bytes) -> bool:
        """Take a line without waiting; return False if nobody reads any more."""
        with self._changed:
            if self._closed:
                return False
            self._lines.append(line)
            self._size += len(line)
            return True

    def drain(self) -> None:
        """Write the lines that were put, or leave that to a thread that writes already. Blocks."""
        while True:
            with self._changed:
                if self._writing:
                    while self._writing and self._size > _HIGH_WATER_BYTES:
                        self._changed.wait()
                    return
                if not self._lines:
                    self._close_if_done()
                    return
                self._writing = True
                lines, self._lines = self._lines, []
            broken = not self._write(b"\n".join([*lines, b""]))
            with self._changed:
                self._writing = False
                self._size = sum(map(len, self._lines))
                if broken:
                    self._closed = True
                    self._lines.clear()
                    self._size = 0
                    self._close_if_done()
                self._changed.notify_all()
            if broken:
                self._on_broken()
                return

    def _write(self, text: bytes) -> bool:
        data = memoryview(text)
        try:
            while data:
                try:
                    count = os.write(self._fd, data)
                except BlockingIOError:  # another process that shares the pipe has made it so
                    select.select([], [self._fd], [])
                    continue
                self.written += count
                data = data[count:]
        except OSError:
            return False
        return True

    @property
    def is_busy(self) -> bool:
        """True while anything is to be written."""
        with self._changed:
            return self._writing or bool(self._lines)

    def close(self) -> None:
        """Take nothing more, and close the descriptor when all is written."""
        with self._changed:
            self._closed = True
            if not self._writing and not self._lines:
                self._close_if_done()

    def _close_if_done(self) -> None:
        if self._closed and self._close is not None:
            close, self._close = self._close, None
            with contextlib.suppress(OSError):
                close()


class _Ended(Exception):
    """A version has ended that was asked something."""


class _Child(Version):
    """A version of the server, as a process."""

    def __init__(self, popen: subprocess.Popen[bytes], because: str) -> None:
        assert popen.stdin is not None
        assert popen.stdout is not None
        self.popen = popen
        self.because = because
        """The reason for its start, in words; empty for the first one."""
        self.pipe = _Outlet(popen.stdin.fileno(), popen.stdin.close, _do_nothing)
        self.lists: dict[str, list[Any]] | None = None
        self.listed = threading.Event()
        self.unfinished = ""
        """The error for calls that it does not finish; empty as long as none is expected."""
        super().__init__(self.pipe)

    @property
    def code(self) -> int:
        """The exit code, as a shell has it; 0 while the process runs."""
        code = self.popen.poll() or 0
        return code if code >= 0 else 128 - code

    @property
    def how(self) -> str:
        """The end of the process, in words: its exit code or its signal."""
        return how_ended(self.popen.poll() or 0)

    def ask(self, id: str, text: bytes, timeout: float | None = None) -> dict[str, Any]:
        """Return the version's answer to a request.

        Args:
            id: Of the request.
            text: The request.
            timeout: Seconds; None waits as long as it takes.

        Raises:
            _Ended: The version has ended.
            TimeoutError: The version did not answer in time.
        """
        answer: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self.questions[id] = answer
        if self.over or not self.pipe.put(text):
            raise _Ended
        self.pipe.drain()
        try:
            found = answer.get(timeout=timeout)
        except Empty:
            raise TimeoutError from None
        if found is None:
            raise _Ended
        return found


class _Event(NamedTuple):
    """News for the main thread."""

    kind: Literal["signal", "left", "waiting", "ready", "ended"]
    child: _Child | None = None


class Reloader:
    """Serves one host by a process that is replaced when a file changes.

    Args:
        command: Starts the server.
        streams: Those of the host.
        watched: The files that make a new version when they change.
    """

    def __init__(self, command: Sequence[str], streams: ProtocolStreams, watched: Watched) -> None:
        self._command = list(command)
        self._watched = watched
        self._reader = streams.reader
        self._events: SimpleQueue[_Event] = SimpleQueue()
        left = _Event("left")
        self._host = _Outlet(streams.writer, _do_nothing, lambda: self._events.put(left))
        self._relay = Relay(self._host, lambda: self._events.put(_Event("waiting")))
        self._children: list[_Child] = []
        self._current: _Child | None = None
        self._next: _Child | None = None
        self._received: list[int] = []
        self._left = False
        self._deserted = False
        """True if the host has left without reading what was written to it."""
        self._written = 0
        self._stalled_at = time.monotonic()
        self._failed_at: float | None = None
        self._not_before = 0.0
        self._held_until = float("inf")
        self._code = 0
        self._lifeline = None if sys.platform == "win32" else os.pipe()

    # --- the main thread --------------------------------------------------------------------------

    def run(self) -> int:
        """Serve until the host leaves, or SIGINT or SIGTERM.

        Returns:
            The exit code.
        """
        with self._catching_signals():
            self._start("")
            self._in_thread(self._read_host)
            look = time.monotonic() + self._watched.pause
            while not (self._left or self._received):
                self._take(max(look - time.monotonic(), 0))
                if time.monotonic() >= look:
                    if changes := self._watched.changes():
                        self._renew(self._watched.described(changes))
                    look = time.monotonic() + self._watched.pause
                self._tend()
                self._look_at_host()
            return self._end()

    def _take(self, timeout: float) -> None:
        """Wait for an event, then handle all that there are.

        Args:
            timeout: Seconds to wait.
        """
        with contextlib.suppress(Empty):
            self._handle(self._events.get(timeout=timeout))
            while True:
                self._handle(self._events.get_nowait())

    def _handle(self, event: _Event) -> None:
        child = event.child
        if event.kind == "left":
            self._left = True
        elif event.kind == "ready" and child is not None:
            self._switched(child)
        elif event.kind == "ended" and child is not None:
            self._ended(child)

    def _renew(self, what: str) -> None:
        """Start a new version because files have changed.

        Args:
            what: The names of the files.
        """
        self._relay.hold()
        self._held_until = time.monotonic() + _HOLD_S
        note(f"{what} changed: starting anew")
        self._start(f"{what} changed")

    def _start(self, because: str) -> None:
        if self._next is not None:
            self._next.unfinished = "The server is started anew; try again"
            self._next.popen.kill()
        self._failed_at = None
        self._not_before = time.monotonic() + _START_PAUSE_S
        self._next = child = _Child(self._spawn(), because)
        self._children.append(child)
        before = self._current
        if before is not None:
            before.lists = None
            if self._relay.has_audience:
                before.listed.clear()
                self._in_thread(self._list, before)
            else:
                before.listed.set()
        self._in_thread(self._read_child, child)
        self._in_thread(self._bring_up, child, before)

    def _spawn(self) -> subprocess.Popen[bytes]:
        env = dict(os.environ)
        inherited: list[int] = []
        if self._lifeline is not None:
            inherited.append(self._lifeline[0])
            env[LIFELINE] = str(self._lifeline[0])
        # When it ends is for this process to say, also when Ctrl-C reaches a whole terminal.
        apart: int = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        return subprocess.Popen(
            self._command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            pass_fds=inherited,
            creationflags=apart,
            start_new_session=sys.platform != "win32",
        )

    def _tend(self) -> None:
        """Do what has become due: release, start anew, or refuse."""
        relay, now = self._relay, time.monotonic()
        if self._next is not None:
            if self._current is not None and now >= self._held_until:
                self._release()
            return
        since = relay.waiting_since
        if self._current is not None or since is None:
            return
        if self._failed_at is None or now - self._failed_at >= _START_AGAIN_S:
            if now >= self._not_before:
                self._start("")
        elif now - since >= _HOLD_S:
            relay.refuse_held(_NOT_STARTED, now - _HOLD_S)
            self._in_thread(self._drain)

    def _look_at_host(self) -> None:
        """Note that the host has left, if it takes nothing and its end is behind what is unread."""
        now = time.monotonic()
        if not self._host.is_busy or self._host.written != self._written:
            self._written, self._stalled_at = self._host.written, now
        elif now - self._stalled_at >= _STALL_S and (self._left or is_deserted(self._reader)):
            self._left = self._deserted = True

    def _release(self) -> None:
        self._held_until = float("inf")
        self._relay.release()
        self._in_thread(self._drain)

    def _switched(self, child: _Child) -> None:
        """Note that a version has taken over, and end the one before it."""
        before, self._current = self._current, None if child.over else child
        if child is self._next:
            self._next = None
        if missing := self._relay.missing:
            note(
                f"the server has {' and '.join(missing)} now, which its host was not told of; "
                f"the host has to connect anew for that"
            )
        if before is not None:
            before.unfinished = f"The server was started anew: {child.because}. Try again"
            self._in_thread(self._retire, before)

    def _ended(self, child: _Child) -> None:
        """Note that a process is over and its output read."""
        self._children.remove(child)
        self._code = child.code
        leaving = self._left or self._received
        if child is self._next:
            self._next = None
            self._code = self._code or (0 if leaving else 1)
            self._failed_at = time.monotonic()
            if leaving:
                return
            if self._current is None:
                note(f"the server has ended {child.how}; it starts anew when a file changes")
            else:
                note(f"this version has ended {child.how}; the one before it goes on")
                self._release()
        elif child is self._current:
            self._current = None
            if not leaving:
                note(
                    f"the server has ended {child.how}; "
                    f"it starts anew with the next request, or when a file changes"
                )

    # --- the end ----------------------------------------------------------------------------------

    def _end(self) -> int:
        """Let the version that serves finish, as it would without a relay; return the exit code."""
        relay = self._relay
        while not self._received and self._next is not None and relay.waiting_since is not None:
            self._take(0.1)
        last = self._current or self._next
        deadline = float("inf")
        if not self._received:
            relay.release()
            relay.refuse_held(_NOT_STARTED, time.monotonic())
            self._in_thread(self._drain)
            for child in self._children:
                if child is self._next and child is not last:
                    child.popen.kill()
                child.pipe.close()
        while self._children and any(child.popen.poll() is None for child in self._children):
            self._look_at_host()
            if (self._received or self._deserted) and deadline == float("inf"):
                # What waits for a version keeps its stdin open, if nobody takes its answers.
                self._signal_children(self._received[0] if self._received else signal.SIGTERM)
                deadline = time.monotonic() + _END_S
            again = len(self._received) > 1 and self._received[-1] == signal.SIGINT
            if again or time.monotonic() >= deadline:
                for child in self._children:
                    child.popen.kill()
            self._take(0.1)
        self._pass_on_the_rest()
        if self._received:
            return 130 if signal.SIGINT in self._received else 0
        return self._code if last is None else last.code

    def _signal_children(self, number: int) -> None:
        for child in self._children:
            if sys.platform == "win32":
                child.pipe.close()
            elif child is self._next:
                child.popen.kill()
            else:
                child.popen.send_signal(number)

    def _pass_on_the_rest(self) -> None:
        """Pass on the rest of what was written, as long as the host reads it."""
        before = -1
        while (self._children or self._host.is_busy) and self._host.written != before:
            before = self._host.written
            self._take(_STALL_S)

    # --- signals ----------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _catching_signals(self) -> Generator[None, None, None]:
        before = {each: signal.signal(each, self._on_signal) for each in stop_signals()}
        try:
            yield
        finally:
            for number, found in before.items():
                signal.signal(number, found)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._received.append(number)
        self._events.put(_Event("signal"))

    # --- other threads ----------------------------------------------------------------------------

    @staticmethod
    def _in_thread(do: Callable[_P, object], *args: _P.args, **kwargs: _P.kwargs) -> None:
        threading.Thread(target=do, args=args, kwargs=kwargs, name="mcpkit", daemon=True).start()

    def _drain(self) -> None:
        """Write the lines that the relay has put into outlets. Blocks."""
        current = self._current
        if current is not None:
            current.pipe.drain()
        for child in tuple(self._children):
            if child.took_over:  # what it is told before may wait until it is imported
                child.pipe.drain()
        self._host.drain()

    def _read_host(self) -> None:
        # One byte more than a server takes, so that it says itself what is wrong with the line.
        splitter = LineSplitter(MAX_LINE + 1)
        try:
            while chunk := _read(self._reader):
                for line in splitter.feed(chunk):
                    self._relay.from_host(line)
                self._drain()
                self._relay.wait_for_room()
            if rest := splitter.take_rest():
                self._relay.from_host(rest)
                self._drain()
        finally:
            self._events.put(_Event("left"))

    def _read_child(self, child: _Child) -> None:
        assert child.popen.stdout is not None
        fd = child.popen.stdout.fileno()
        splitter = LineSplitter()
        try:
            while chunk := _read(fd):
                for line in splitter.feed(chunk):
                    self._relay.from_version(child, line)
                self._host.drain()
        finally:
            self._answer_for_ended(child)

    def _answer_for_ended(self, child: _Child) -> None:
        """End a version that writes no more, and answer in its place."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.popen.wait(_END_S)
        child.popen.kill()
        child.popen.wait()
        child.pipe.close()
        surprise = f"The server has ended {child.how}; it is started again with the next request"
        self._relay.lost(child, child.unfinished or surprise)
        child.listed.set()
        self._host.drain()
        if child.popen.stdout is not None:
            child.popen.stdout.close()
        self._events.put(_Event("ended", child))

    def _retire(self, child: _Child) -> None:
        """End a version that another has taken over from."""
        if not child.idle.wait(_FINISH_S):
            self._relay.give_up(child, child.unfinished)
            self._in_thread(self._host.drain)
        child.pipe.close()
        for end in (child.popen.terminate, child.popen.kill):
            try:
                child.popen.wait(_END_S)
                return
            except subprocess.TimeoutExpired:
                end()

    def _bring_up(self, child: _Child, before: _Child | None) -> None:
        """Tell a version the agreements with those before it, and let it take over."""
        relay = self._relay
        try:
            ping = relay.new_id()
            child.ask(ping, request_text(ping, "ping"))
            while steps := relay.lacks(child):
                self._tell(child, steps)
            changed: Sequence[str] = KINDS
            if relay.has_audience:
                self._list(child)
                if before is not None:
                    before.listed.wait(_LISTING_S)
                    changed = _differences(before.lists, child.lists)
            while steps := relay.switch(child, changed):
                self._tell(child, steps)
        except _Ended:
            return
        if not child.took_over:
            return
        # Before anything is written: it may block, and the version before must end nevertheless.
        self._events.put(_Event("ready", child))
        child.pipe.drain()
        self._host.drain()

    def _tell(self, child: _Child, steps: Sequence[Step]) -> None:
        for step in steps:
            if step.id is not None:
                child.pipe.put(request_text(step.id, step.method, step.params))
                child.pipe.drain()
                first = child.listening[step.id]
                first.put(said := first.get())
                if said is None and child.over:
                    raise _Ended
            elif step.done is not None:
                id = self._relay.new_id()
                step.done(child.ask(id, request_text(id, step.method, step.params)).get("result"))
            else:
                child.pipe.put(notification_text(step.method, step.params))

    def _list(self, child: _Child) -> None:
        """Ask a version for all its lists, and keep them."""
        child.lists = None
        deadline = time.monotonic() + _LISTING_S
        with contextlib.suppress(_Ended, TimeoutError):
            child.lists = {
                kind: [
                    item
                    for method, member in requests
                    for item in self._all(child, method, member, deadline)
                ]
                for kind, requests in _LISTS.items()
            }
        child.listed.set()

    def _all(self, child: _Child, method: str, member: str, deadline: float) -> list[Any]:
        """Return the entries of a list, from all its pages; none if there is no such list."""
        found: list[Any] = []
        cursor: object = None
        for _ in range(_MAX_PAGES):
            id, text = self._relay.list_request(method, cursor)
            answer = child.ask(id, text, max(deadline - time.monotonic(), 0.01))
            result = answer.get("result")
            if not is_object(result):
                break
            entries = result.get(member)
            found.extend(entries if is_array(entries) else [])
            cursor = result.get("nextCursor")
            if cursor is None:
                break
        return found


def _differences(
    before: Mapping[str, list[Any]] | None, now: Mapping[str, list[Any]] | None
) -> list[str]:
    if before is None or now is None:
        return list(KINDS)
    return [kind for kind in KINDS if before[kind] != now[kind]]


def _read(fd: int) -> bytes:
    """Read a chunk; empty at the end."""
    while True:
        try:
            return os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:  # another process that shares the pipe has made it so
            select.select([fd], [], [])
        except OSError:
            return b""


def _do_nothing() -> None:
    """Take no notice."""
