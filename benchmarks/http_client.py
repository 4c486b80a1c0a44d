"""The load client over HTTP: raw keep-alive connections, and nothing parsed that need not be.

Requests are encoded before the clock starts, and answers are parsed and checked after it stops.
While it runs, an answer is only searched for its end.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.client import (
    ADD,
    INITIALIZED,
    LEGACY,
    MODERN,
    PATIENCE_S,
    Call,
    Process,
    initialize,
)

HOST = "127.0.0.1"
_READ_SIZE = 1 << 16


class HttpServer(Process):
    """An MCP server on a port of this machine; `{port}` in its command is replaced.

    Raises:
        Dropout: If it does not accept a connection in time.
    """

    def __init__(self, command: Sequence[str], revision: str = LEGACY) -> None:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self.port: int = probe.getsockname()[1]
        super().__init__([part.format(port=self.port) for part in command], revision)
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.running:
            try:
                socket.create_connection((HOST, self.port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        error = self.failed("did not accept a connection" if self.running else "ended")
        self.close()
        raise error

    def move_to(self, cpu: int) -> None:
        """Keep all its threads on this CPU from now on, where the system can."""
        if hasattr(os, "sched_setaffinity"):
            for task in Path(f"/proc/{self.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {cpu})

    def cpu_seconds(self) -> float | None:
        """Processor time of all its threads so far, if the system tells."""
        if sys.platform != "linux":
            return None
        # The clock that clock_getcpuclockid(3) finds for a process, to the nanosecond.
        return time.clock_gettime(~self.pid << 3 | 2)

    def post(self, body: bytes, session: str, method: str, name: str = "") -> bytes:
        """A request, head and body."""
        body = body.rstrip()
        modern = self.revision == MODERN
        headers = {
            "Host": f"{HOST}:{self.port}",
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": self.revision if modern or method != "initialize" else "",
            "MCP-Session-Id": session,
            "Mcp-Method": method if modern else "",
            "Mcp-Name": name if modern else "",
            "Content-Length": str(len(body)),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items() if value)
        return f"POST /mcp HTTP/1.1\r\n{lines}\r\n".encode() + body

    @contextmanager
    def connected(self, count: int) -> Generator[list[socket.socket]]:
        """That many open connections."""
        with ExitStack() as stack:
            sockets: list[socket.socket] = []
            for _ in range(count):
                made = socket.create_connection((HOST, self.port), timeout=PATIENCE_S)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sockets.append(stack.enter_context(made))
            yield sockets

    def open_session(self) -> str:
        """Shake hands; return the id of the session, empty if the server gives none."""
        with self.connected(1) as sockets:
            first = self.post(initialize(self.revision), "", "initialize")
            _, ((answer,),) = exchange(self, sockets, [[first]])
            head, _, _ = answer.partition(b"\r\n\r\n")
            lines = [line.partition(":") for line in head.decode("latin-1").split("\r\n")]
            headers = {name.lower(): value.strip() for name, _, value in lines}
            session = headers.get("mcp-session-id", "")
            ready = self.post(INITIALIZED, session, "notifications/initialized")
            _, ((accepted,),) = exchange(self, sockets, [[ready]])
        if not answer.startswith(b"HTTP/1.1 200") or not accepted.startswith(b"HTTP/1.1 202"):
            raise self.failed(f"answered {answer[:200]!r} and {accepted[:100]!r}")
        return session


class Load:
    """Clients of a server, each with a connection, and with a session where there are sessions.

    The sessions last; the connections are made for every round, since a server may close one that
    was idle while others were measured. The server must outlive the load.
    """

    def __init__(self, server: HttpServer, clients: int, call: Call = ADD) -> None:
        self.server = server
        self._made = call
        modern = server.revision == MODERN
        self._sessions = ["" if modern else server.open_session() for _ in range(clients)]

    def calls(self, calls: int) -> tuple[float, float | None]:
        """Make the call as all clients at once, as each again when the answer is there.

        Return calls per second, and the server's processor seconds per call if known.
        """
        share = max(calls // len(self._sessions), 1)
        with self.server.connected(len(self._sessions)) as sockets:
            self._call(sockets, 1)  # so that no connection is new
            before = self.server.cpu_seconds()
            elapsed = self._call(sockets, share)
            after = self.server.cpu_seconds()
        total = share * len(sockets)
        used = None if before is None or after is None else (after - before) / total
        return total / elapsed, used

    def _call(self, sockets: Sequence[socket.socket], share: int) -> float:
        server, call = self.server, self._made
        first_id = server.next_ids(share)  # every client counts for itself
        bodies = call.requests(first_id, share, server.revision)
        requests = [
            [server.post(body, session, call.method, call.name) for body in bodies]
            for session in self._sessions
        ]
        elapsed, answers = exchange(server, sockets, requests)
        for given in answers:
            found = [each.partition(b"\r\n\r\n") for each in given]
            for head, _, body in found:
                if not head.startswith(b"HTTP/1.1 200") or b"application/json" not in head:
                    raise server.failed(f"answered {head[:200]!r} {body[:100]!r}")
            call.check(server, [body for _, _, body in found], first_id, share)
        return elapsed


def exchange(
    server: HttpServer, sockets: Sequence[socket.socket], requests: Sequence[Sequence[bytes]]
) -> tuple[float, list[list[bytes]]]:
    """Send each connection its requests, each when the answer to the one before is there.

    Return the seconds from the first request to the last answer, and the answers.
    """
    with selectors.DefaultSelector() as selector:
        clients = [_Client(server, *each) for each in zip(sockets, requests, strict=True)]
        running = len(clients)
        started = time.perf_counter()
        for client in clients:
            client.connection.sendall(next(client.requests))
            selector.register(client.connection, selectors.EVENT_READ, client)
        while running:
            ready = selector.select(PATIENCE_S)
            if not ready:
                raise server.failed("stayed silent")
            for key, _ in ready:
                client = key.data
                if not client.read():
                    selector.unregister(client.connection)
                    running -= 1
        return time.perf_counter() - started, [client.answers for client in clients]


class _Client:
    """A connection whose next answer is due, and the part of it that has arrived."""

    __slots__ = ("answers", "connection", "received", "requests", "server", "whole")

    def __init__(
        self, server: HttpServer, connection: socket.socket, requests: Sequence[bytes]
    ) -> None:
        self.server = server
        self.connection = connection
        self.requests: Iterator[bytes] = iter(requests)
        self.answers: list[bytes] = []
        self.received = b""
        self.whole = 0  # the length of the answer, once its head says it

    def read(self) -> bool:
        """Take what has arrived; if the answer is whole, send the next request if there is one."""
        data = self.connection.recv(_READ_SIZE)
        if not data:
            raise self.server.failed(f"closed the connection after {self.received[:200]!r}")
        if self.received:
            data = self.received + data
        if not self.whole:
            end = data.find(b"\r\n\r\n")
            if end >= 0:
                head = data[: end + 2].lower()
                at = head.find(b"\r\ncontent-length:")
                length = head[at + 17 : head.index(b"\r\n", at + 2)] if at >= 0 else b"0"
                self.whole = end + 4 + int(length)
        if not self.whole or len(data) < self.whole:
            self.received = data
            return True
        if len(data) > self.whole:
            raise self.server.failed(f"answered with another length: {data[:300]!r}")
        self.received, self.whole = b"", 0
        self.answers.append(data)
        following = next(self.requests, None)
        if following is None:
            return False
        self.connection.sendall(following)
        return True
