"""Real server processes on real pipes, spoken to line by line; every wait has a timeout."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from tests.messages import (
    CLIENT,
    LAST_HANDSHAKE,
    MODERN,
    Message,
    announced,
    initialize,
    notification,
)
from tests.warm import Popen

REPOSITORY: Final = Path(__file__).resolve().parents[2]
SERVED: Final = REPOSITORY / "tests" / "transports" / "served.py"
TIMEOUT: Final = 20.0
"""Seconds after which a test fails; much more than anything here needs."""

LEGACY: Final = LAST_HANDSHAKE
_PREFIX: Final = "io.modelcontextprotocol/"

Command: TypeAlias = Sequence["str | os.PathLike[str]"]
Stream: TypeAlias = "int | IO[bytes] | socket.socket"
Ends: TypeAlias = "tuple[IO[bytes] | None, IO[bytes] | None]"


def modern(id: int | str, method: str, *, level: str | None = None, **params: Any) -> Message:
    """A request that announces itself and its client (META-1)."""
    meta: Message = {_PREFIX + "clientInfo": CLIENT}
    if level is not None:
        meta[_PREFIX + "logLevel"] = level
    return announced(id, method, **params, _meta=meta)


def call(id: int | str, tool: str, /, **arguments: Any) -> Message:
    """A call of a tool, by a request that announces itself."""
    return modern(id, "tools/call", name=tool, arguments=arguments)


def environment(**variables: str) -> dict[str, str]:
    """This process's environment, without what would change how a server runs."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("PYTHON") and name not in ("COLUMNS", "LINES", "NO_COLOR")
    }
    return kept | {"PYTHONPATH": str(REPOSITORY)} | variables


class Process:
    """A server, started. Each message that arrives is held against the official schema.

    Args:
        command: The program and its arguments.
        cwd: Where it runs.
        env: Variables in addition to those of this process.
        stdin, stdout, stderr: As for `subprocess.Popen`; a file or socket is closed here once the
            server has it.
        ends: This side's ends of ``stdin`` and ``stdout`` where those are not pipes.
        stderr_end: This side's end of ``stderr``, likewise.
        reading: Whether what it writes to stdout is read from the start.
        hearing: Whether what it writes to stderr is.
        cold: Whether Python is executed rather than forked from one that has everything imported,
            for what is about importing, or memory (`tests.warm`).
        within: Whether what it starts itself with this Python is forked too; those are not children
            of its own then, and what is done to it is not done to them.
    """

    def __init__(
        self,
        command: Command,
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: Stream = subprocess.PIPE,
        stdout: Stream = subprocess.PIPE,
        stderr: Stream = subprocess.PIPE,
        ends: Ends = (None, None),
        stderr_end: IO[bytes] | None = None,
        reading: bool = True,
        hearing: bool = True,
        cold: bool = False,
        within: bool = False,
    ) -> None:
        self.version = MODERN
        self.others: list[Message] = []
        self._asked: dict[int | str, tuple[str, str]] = {}
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._errors: list[str] = []
        self._told = threading.Condition()
        self._told_all = False
        self._popen = Popen(
            command,
            cold=cold,
            within=within,
            cwd=cwd,
            env=environment(**(env or {})),
            stdin=stdin if isinstance(stdin, int) else stdin.fileno(),
            stdout=stdout if isinstance(stdout, int) else stdout.fileno(),
            stderr=stderr if isinstance(stderr, int) else stderr.fileno(),
        )
        for stream in (stdin, stdout, stderr):
            if not isinstance(stream, int):
                stream.close()
        self.stdin = ends[0] or self._popen.stdin
        self.stdout = ends[1] or self._popen.stdout
        self.stderr_end = stderr_end or self._popen.stderr
        self._threads: list[threading.Thread] = []
        self._hearing = threading.Thread(target=self._read_stderr, daemon=True)
        self._reading = False
        if hearing:
            self.hear()
        if reading:
            self.read()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._popen.pid

    # --- reading ----------------------------------------------------------------------------------

    def read(self) -> None:
        """Begin to read what it writes to stdout."""
        if self.stdout is not None and not self._reading:
            self._reading = True
            self._threads.append(threading.Thread(target=self._read_stdout, daemon=True))
            self._threads[-1].start()

    def hear(self) -> None:
        """Begin to read what it writes to stderr."""
        self._threads.append(self._hearing)
        self._hearing.start()

    def _read_stdout(self) -> None:
        assert self.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self.stdout:
                self._lines.put(line)
        self._lines.put(None)

    def _read_stderr(self) -> None:
        for line in self.stderr_end or ():
            with self._told:
                self._errors.append(line.decode(errors="replace"))
                self._told.notify_all()
        with self._told:
            self._told_all = True
            self._told.notify_all()

    @property
    def stderr(self) -> str:
        """What it has written to stderr so far."""
        with self._told:
            return "".join(self._errors)

    def wait_for_stderr(self, text: str) -> None:
        """Wait until it has written a text to stderr."""
        with self._told:
            found = self._told.wait_for(
                lambda: text in "".join(self._errors) or self._told_all, TIMEOUT
            )
            assert found, f"no {text!r} on stderr: {''.join(self._errors)}"
            assert text in "".join(self._errors)

    def line(self) -> bytes | None:
        """The next line on stdout; None at the end."""
        try:
            return self._lines.get(timeout=TIMEOUT)
        except queue.Empty:
            raise AssertionError(f"no line within {TIMEOUT} s; stderr: {self.stderr}") from None

    def receive(self) -> Message:
        """The next message; it must be valid."""
        line = self.line()
        assert line is not None, f"the server has ended; stderr: {self.stderr}"
        return self._checked(line)

    def _checked(self, line: bytes) -> Message:
        from tests.schemas import check

        assert line.endswith(b"\n"), f"an unfinished line: {line[-100:]!r}"
        message: Message = json.loads(line)
        version, method = self.version, None
        if "method" not in message and "id" in message:
            version, method = self._asked.get(message["id"], (self.version, None))
        check(message, version, method)
        return message

    def answer(self, id: int | str) -> Message:
        """The response to a request; what comes before it is kept in `others`."""
        for index, message in enumerate(self.others):
            if "method" not in message and message.get("id") == id:
                return self.others.pop(index)
        while True:
            message = self.receive()
            if "method" not in message and message.get("id") == id:
                return message
            self.others.append(message)

    def rest(self) -> list[Message]:
        """Every further message, until it closes its stdout."""
        return [self._checked(line) for line in iter(self.line, None)]

    # --- writing ----------------------------------------------------------------------------------

    def send(self, *messages: Message | bytes) -> None:
        """Send messages, or lines as they are, in one write."""
        self.send_bytes(b"".join(map(self._encoded, messages)))

    def _encoded(self, message: Message | bytes) -> bytes:
        if isinstance(message, bytes):
            return message + b"\n"
        if "id" in message and "method" in message:
            meta = message.get("params", {}).get("_meta", {})
            version = meta.get(_PREFIX + "protocolVersion", self.version)
            self._asked[message["id"]] = (version, message["method"])
        return json.dumps(message, ensure_ascii=False).encode() + b"\n"

    def send_bytes(self, data: bytes) -> None:
        """Write bytes to its stdin."""
        assert self.stdin is not None
        self.stdin.write(data)
        self.stdin.flush()

    def fill(self, message: Message) -> None:
        """Send a message again and again, with ids of its own, until the server reads no more."""
        assert self.stdin is not None
        fd = self.stdin.fileno()
        os.set_blocking(fd, False)
        ids = itertools.count(1000)
        while select.select([], [fd], [], 0.3)[1]:
            with contextlib.suppress(BlockingIOError):
                os.write(fd, json.dumps({**message, "id": next(ids)}).encode() + b"\n")

    def ask(self, message: Message) -> Message:
        """Send a request and wait for its response."""
        self.send(message)
        return self.answer(message["id"])

    def text(self, message: Message) -> str:
        """Call a tool; the text it answers."""
        found = self.ask(message)["result"]["content"][0]["text"]
        assert isinstance(found, str)
        return found

    def shake_hands(self, version: str = LEGACY, **capabilities: Any) -> Message:
        """Open a session with a handshake; what the server says of itself."""
        self.version = version
        hello = initialize(version, "handshake", capabilities=capabilities)
        result: Message = self.ask(hello)["result"]
        self.send(notification("notifications/initialized"))
        return result

    # --- the end ----------------------------------------------------------------------------------

    def close_stdin(self) -> None:
        """Leave, as a client does."""
        assert self.stdin is not None
        self.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._popen.send_signal(number)

    def exit_code(self, within: float = TIMEOUT) -> int:
        """Wait until it has ended, and all that it has said on stderr is here.

        Raises:
            AssertionError: It has not after this many seconds.
        """
        try:
            code = self._popen.wait(within)
            if self._hearing in self._threads:
                self._hearing.join(TIMEOUT)
            return code
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {within} s: {self.stderr}") from None

    def end(self) -> None:
        """Kill it, if it still runs, and close every stream."""
        self._popen.kill()
        self._popen.wait(TIMEOUT)
        for thread in self._threads:
            thread.join(TIMEOUT)
            assert not thread.is_alive(), "another process holds the other end of a stream"
        for stream in (self.stdin, self.stdout, self.stderr_end):
            if stream is not None and not stream.closed:
                with contextlib.suppress(OSError):
                    stream.close()

    # --- what the system knows of it --------------------------------------------------------------

    def status(self, field: str) -> int:
        """A number from ``/proc/PID/status``, such as ``VmRSS`` in kB."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return int(value.split()[0])
        raise AssertionError(f"no {field}")


@contextlib.contextmanager
def started(command: Command, **options: Any) -> Iterator[Process]:
    """A process for as long as the block lasts; options as for `Process`."""
    process = Process(command, **options)
    try:
        yield process
    finally:
        process.end()


@contextlib.contextmanager
def served(backend: str = "asyncio", **options: Any) -> Iterator[Process]:
    """The server of these tests (``served.py``), for as long as the block lasts.

    Args:
        backend: ``asyncio`` or ``trio``.
        options: ``env`` with the variables that ``served.py`` reads, or others of `Process`.
    """
    env = {"BACKEND": backend, **options.pop("env", {})}
    with started([sys.executable, "-W", "error", SERVED], env=env, **options) as process:
        yield process


def sockets() -> tuple[Ends, socket.socket]:
    """A pair of sockets, as Node hosts use them: this side's ends, and the other side."""
    ours, theirs = socket.socketpair()
    with ours:
        return (ours.makefile("wb"), ours.makefile("rb")), theirs
