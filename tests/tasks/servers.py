"""Servers that keep tasks: Redis, Valkey, PostgreSQL, from `.ci/databases` or the system."""

from __future__ import annotations

import asyncio
import atexit
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from mcpkit._stores.connections import LoopThread

PATIENCE: Final = 30.0
UNPACKED: Final = Path(__file__).resolve().parents[2] / ".cache" / "databases"


class Server(ABC):
    """A server with its own folder, and a socket in it.

    When it is killed it loses nothing that it has written; with `fsync` the disk confirms that.
    """

    def __init__(self, program: Path, *, fsync: bool = False) -> None:
        self._program = program
        self._fsync = fsync
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="mcpkit-server-"))
        self.log = self.folder / "log"
        if self.user:
            shutil.chown(self.folder, **self.user)
        try:
            self.prepare()
            self.start()
        except BaseException:
            self.end()
            raise

    user: ClassVar[dict[str, str]] = {}
    """The user it runs as, if not the user of the tests."""

    @property
    @abstractmethod
    def url(self) -> str: ...

    @property
    @abstractmethod
    def command(self) -> Sequence[str]: ...

    @abstractmethod
    def is_ready(self) -> bool: ...

    def prepare(self) -> None:  # noqa: B027
        """Make what it needs before its first start."""

    def start(self) -> None:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self.as_user()
            )
        deadline = time.monotonic() + PATIENCE
        while not self.is_ready():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.005)

    @classmethod
    def as_user(cls) -> dict[str, Any]:
        return {**cls.user, "extra_groups": []} if cls.user else {}

    def kill(self) -> None:
        """End it at once, as a fault of the machine would."""
        self._send(signal.SIGKILL)
        assert self._process is not None
        self._process.wait(PATIENCE)

    def pause(self) -> None:
        self._send(signal.SIGSTOP)

    def go_on(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


class Redis(Server):
    @property
    def url(self) -> str:
        return f"unix://{self.folder / 'socket'}"

    @property
    def command(self) -> Sequence[str]:
        options = {
            "port": "0",
            "unixsocket": str(self.folder / "socket"),
            "dir": str(self.folder),
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always" if self._fsync else "no",
        }
        words = [word for name, value in options.items() for word in (f"--{name}", value)]
        return [str(self._program), *words]

    def is_ready(self) -> bool:
        try:
            return self.ask("PING") == "+PONG\r\n"
        except (FileNotFoundError, ConnectionError):
            return False

    def ask(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE)
            connection.connect(str(self.folder / "socket"))
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(10_000).decode()


class Postgres(Server):
    # It refuses to run as root.
    user: ClassVar[dict[str, str]] = (
        {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    )

    @property
    def url(self) -> str:
        return f"postgresql://postgres@/postgres?host={self.folder}"

    @property
    def command(self) -> Sequence[str]:
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "fsync": "on" if self._fsync else "off",
            "jit": "off",
            "max_connections": "60",
            "shared_buffers": "16MB",
            "autovacuum": "off",
        }
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        return [str(self._program), "-D", str(self.folder / "data"), *words]

    def prepare(self) -> None:
        # To make a database takes longer than to copy one.
        _run("cp", "-a", _made_by(self._program) / "data", self.folder)

    def kill(self) -> None:
        super().kill()
        # As long as one of its processes lives no other server can start.
        deadline = time.monotonic() + PATIENCE
        while _processes_in(self.folder):
            self._send(signal.SIGKILL)
            assert time.monotonic() < deadline
            time.sleep(0.005)
        (self.folder / "data" / "postmaster.pid").unlink(missing_ok=True)

    def _send(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes, which do not form a group."""
        for each in _processes_in(self.folder):
            with suppress(ProcessLookupError):
                os.kill(each, number)

    def is_ready(self) -> bool:
        return b"ready to accept connections" in self.log.read_bytes()


def _run(*command: str | Path) -> None:
    subprocess.run(
        command, capture_output=True, timeout=2 * PATIENCE, check=True, **Postgres.as_user()
    )


@cache
def _made_by(program: Path) -> Path:
    """Return a folder with a new database."""
    folder = Path(tempfile.mkdtemp(prefix="mcpkit-server-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if Postgres.user:
        shutil.chown(folder, **Postgres.user)
    _run(
        *(program.with_name("initdb"), "-D", folder / "data", "-U", "postgres"),
        *("-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"),
    )
    return folder


def _processes_in(folder: Path) -> Sequence[int]:
    found: list[int] = []
    for each in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if each.readlink().is_relative_to(folder):
                found.append(int(each.parent.name))
    return found


SERVERS: Final[dict[str, tuple[type[Server], str, str]]] = {
    "redis": (Redis, "redis-server", "usr/bin/redis-server"),
    "valkey": (Redis, "valkey-server", "usr/bin/valkey-server"),
    "postgres": (Postgres, "postgres", "usr/lib/postgresql/*/bin/postgres"),
}
"""Name → how it is run, what it is called on the PATH, and where it is if it was unpacked."""


@cache
def program_of(name: str) -> Path | None:
    """Return the executable of a server; None if there is none that can be run."""
    kind, command, unpacked = SERVERS[name]
    on_path = shutil.which(command)
    for each in [*sorted(UNPACKED.glob(unpacked)), *([Path(on_path)] if on_path else [])]:
        try:
            subprocess.run(
                [each.resolve() if kind is Postgres else each, "--version"],
                capture_output=True,
                timeout=PATIENCE,
                check=True,
                **kind.as_user(),
            )
        except (OSError, subprocess.SubprocessError):
            continue
        return each.resolve() if kind is Postgres else each
    return None


class Line:
    """A line to a server that can be disturbed: `url` leads through it."""

    state = "open"
    delay = 0.0
    """Seconds by which everything arrives late."""

    def __init__(self, server: Server) -> None:
        is_postgres = isinstance(server, Postgres)
        self._there = server.folder / (".s.PGSQL.5432" if is_postgres else "socket")
        self._ends: list[asyncio.StreamWriter] = []
        self._thread = LoopThread("line")
        listening = asyncio.start_server(self._connect, "127.0.0.1", 0)
        self._server = self._thread.start(listening).result(PATIENCE)
        where = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.url = f"postgresql://postgres@{where}/postgres" if is_postgres else f"redis://{where}"

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.state == "cut":
            writer.transport.abort()
            return
        with suppress(OSError):
            back, there = await asyncio.open_unix_connection(self._there)
            self._ends += [writer, there]
            await asyncio.gather(self._copy(reader, there), self._copy(back, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await asyncio.sleep(self.delay)
                while self.state == "held":
                    await asyncio.sleep(0.01)
                writer.write(data)
        writer.close()

    def be(self, state: str) -> None:
        """Be ``"open"``; ``"held"``, so that nothing arrives; or ``"cut"``: reset connections."""
        self.state = state
        while state == "cut" and self._ends:
            self._thread.loop.call_soon_threadsafe(self._ends.pop().transport.abort)

    def end(self) -> None:
        self._thread.loop.call_soon_threadsafe(self._server.close)
        self.be("cut")
        self._thread.stop()


class Servers:
    """The servers of a run of the tests, each started when it is used first."""

    def __init__(self) -> None:
        self._started: dict[str, Server] = {}

    def url(self, name: str) -> str:
        """Return where a server is; skip the test if it is missing."""
        if name not in self._started:
            self._started[name] = self.new(name)
        return self._started[name].url

    def new(self, name: str, *, fsync: bool = False) -> Server:
        if (program := program_of(name)) is None:
            pytest.skip(f"there is no {name} here: .ci/databases")
        return SERVERS[name][0](program, fsync=fsync)

    def end(self) -> None:
        for each in self._started.values():
            each.end()
