"""The load client over HTTP: raw keep-alive connections, and nothing parsed that need not be.

Requests are encoded before the clock starts, and answers are parsed and checked after it stops.
While it runs, an answer is only searched for its end. A conversation is a generator: it yields the
bytes of a request and is sent the whole answer, and every connection holds one conversation.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.client import (
    ADD,
    LEGACY,
    MODERN,
    PATIENCE_S,
    Call,
    Process,
    check_answer,
    encode,
    initialize,
    request,
)

HOST = "127.0.0.1"
STEPS = 100
"""Progress notifications in one call of `count`."""

_READ_SIZE = 1 << 16
_FIRST_ID = 1_000_000  # ids of one width make requests of one length
_TOKEN = "progress"

_COUNT = Call(
    "tools/call",
    {"name": "count", "arguments": {"steps": STEPS}, "_meta": {"progressToken": _TOKEN}},
    lambda result: result["content"][0]["text"] == str(STEPS),
)

Conversation = Generator[bytes, bytes, None]


@dataclass(frozen=True)
class Answer:
    """One HTTP response: lower-case headers, and the body without its framing."""

    status: int
    headers: dict[str, str]
    body: bytes

    @classmethod
    def parse(cls, data: bytes) -> Answer:
        """Take apart what `exchange` has found to be complete."""
        head, _, body = data.partition(b"\r\n\r\n")
        status, *lines = head.decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        if headers.get("transfer-encoding") == "chunked":
            body = b"".join(_chunks(body))
        return cls(int(status.split()[1]), headers, body)

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip()

    def messages(self) -> list[Any]:
        """The JSON-RPC messages in an event stream or a JSON body, in their order."""
        if self.media_type != "text/event-stream":
            return [json.loads(self.body)]
        lines = self.body.replace(b"\r\n", b"\n").split(b"\n")
        data = (line[5:].strip() for line in lines if line.startswith(b"data:"))
        return [json.loads(item) for item in data if item]  # a priming event has empty data


def _chunks(body: bytes) -> Iterator[bytes]:
    at = 0
    while True:
        end = body.index(b"\r\n", at)
        size = int(body[at:end], 16)
        if not size:
            return
        yield body[end + 2 : end + 2 + size]
        at = end + 2 + size + 2


class HttpServer(Process):
    """An MCP server on a port of this machine, and the requests that it is sent.

    It starts on the CPU of this process.

    Args:
        command: Program and arguments; `{port}` in them is replaced.

    Raises:
        ServerFailed: If it does not accept a connection in time.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        directory: str,
        revision: str = LEGACY,
    ) -> None:
        self.revision = revision
        self._next_id = _FIRST_ID
        self.port = _free_port()
        super().__init__(
            [part.format(port=self.port) for part in command],
            environment=environment,
            directory=directory,
        )
        try:
            self._wait_until_it_accepts()
        except BaseException:
            self.close()
            raise

    def _wait_until_it_accepts(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.running:
            try:
                socket.create_connection((HOST, self.port), timeout=1).close()
            except OSError:
                time.sleep(0.02)
            else:
                return
        raise self.failed("did not accept a connection" if self.running else "ended")

    def move_to(self, cpu: int) -> None:
        """Keep all its threads on this CPU from now on, where the system can."""
        if hasattr(os, "sched_setaffinity"):
            for task in Path(f"/proc/{self.pid}/task").iterdir():
                os.sched_setaffinity(int(task.name), {cpu})

    def cpu_seconds(self) -> float | None:
        """Processor time of all its threads so far, those included that have ended.

        None where the system does not tell.
        """
        if sys.platform != "linux":
            return None
        try:
            # The clock that clock_getcpuclockid(3) finds for a process, to the nanosecond.
            return time.clock_gettime(~self.pid << 3 | 2)
        except OSError:
            return None

    def memory_used(self) -> tuple[float, float]:
        """Resident memory, and the interpreter's count of allocated blocks, after a collection.

        Only programs that use `benchmarks.servers.sampling` can be asked.
        """
        report = self.ask(b"sample\n")
        return report["resident"], report["blocks"]

    def head(self, session: str | None, method: str, name: str = "") -> Callable[[int], bytes]:
        """Everything before the body, given the body's length."""
        lines = [
            "POST /mcp HTTP/1.1",
            f"Host: {HOST}:{self.port}",
            "Content-Type: application/json",
            "Accept: application/json, text/event-stream",
        ]
        if self.revision == MODERN or method != "initialize":
            lines.append(f"MCP-Protocol-Version: {self.revision}")
        if session is not None:
            lines.append(f"MCP-Session-Id: {session}")
        if self.revision == MODERN:
            lines.append(f"Mcp-Method: {method}")
            lines += [f"Mcp-Name: {name}"] if name else []
        text = "\r\n".join([*lines, "Content-Length: "])
        return lambda length: f"{text}{length}\r\n\r\n".encode()

    def call(self, session: str | None, request_id: int, call: Call) -> bytes:
        """One request, head and body."""
        body = request(request_id, call.method, call.params, revision=self.revision).rstrip()
        return self.head(session, call.method, call.name)(len(body)) + body

    def opening(self, sessions: list[str | None]) -> Conversation:
        """The handshake, if the revision has one; appends the session id to `sessions`.

        A server without sessions gives no id, and is sent none.
        """
        if self.revision == MODERN:
            sessions.append(None)
            return
        body = initialize(self.revision).rstrip()
        data = yield self.head(None, "initialize")(len(body)) + body
        answer = Answer.parse(data)
        session = answer.headers.get("mcp-session-id")
        if answer.status != 200 or (
            answer.messages()[-1].get("result", {}).get("protocolVersion") != self.revision
        ):
            raise self.failed(f"answered initialize with {data[:300]!r}")
        body = encode({"jsonrpc": "2.0", "method": "notifications/initialized"}).rstrip()
        data = yield self.head(session, "notifications/initialized")(len(body)) + body
        if (status := Answer.parse(data).status) != 202:
            raise self.failed(f"answered notifications/initialized with {status}")
        sessions.append(session)

    def open_sessions(
        self, count: int, *, connections: int = 8, finished: bool = True
    ) -> list[str]:
        """Open sessions and leave them; returns their ids.

        Args:
            count: How many, divided evenly over the connections.
            connections: Connections used, one session after the other on each.
            finished: Whether each is told `notifications/initialized` and called once, or left
                after the answer to `initialize`.
        """
        opened: list[str | None] = []

        def one_after_the_other() -> Conversation:
            for _ in range(count // connections):
                if finished:
                    yield from self.opening(opened)
                    data = yield self.call(opened[-1], _FIRST_ID, ADD)
                    self.check_answers([data], _FIRST_ID, ADD)
                else:
                    body = initialize(self.revision).rstrip()
                    data = yield self.head(None, "initialize")(len(body)) + body
                    opened.append(Answer.parse(data).headers.get("mcp-session-id"))

        with self.connected(connections) as sockets:
            exchange(self, sockets, [one_after_the_other() for _ in sockets])
        named = [session for session in opened if session]
        if len(set(named)) != count // connections * connections:
            raise self.failed(f"opened {len(set(named))} sessions instead of {count}")
        return named

    @contextmanager
    def connected(self, count: int) -> Generator[list[socket.socket]]:
        """That many open connections."""
        sockets: list[socket.socket] = []
        try:
            for _ in range(count):
                connection = socket.create_connection((HOST, self.port), timeout=PATIENCE_S)
                sockets.append(connection)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield sockets
        finally:
            for connection in sockets:
                connection.close()

    def check_answers(self, answers: Sequence[bytes], first_id: int, call: Call) -> None:
        """Each answer is one JSON object and the right one, in the order of the requests."""
        for request_id, data in enumerate(answers, first_id):
            answer = Answer.parse(data)
            if answer.status != 200 or answer.media_type != "application/json":
                raise self.failed(f"answered {data[:300]!r}")
            check_answer(self, answer.body, (request_id,), call)


class Load:
    """Clients of a server, each with a connection, and with a session where there are sessions.

    The sessions last; the connections are made for every round, since a server may close one that
    was idle while others were measured.

    Args:
        server: The server; it must outlive the load.
        clients: How many.
        call: What they ask for.
    """

    def __init__(self, server: HttpServer, clients: int, call: Call = ADD) -> None:
        self.server = server
        self._made = call
        self._sessions: list[str | None] = []
        self._next_id = _FIRST_ID
        with server.connected(1) as sockets:
            for _ in range(clients):
                exchange(server, sockets, [server.opening(self._sessions)])

    def calls(self, calls: int) -> tuple[float, float | None]:
        """Make the call as all clients at once, as each again when the answer is there.

        Returns:
            Calls per second, and the server's processor seconds per call if known.
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
        first_id = self._next_id
        self._next_id += share  # every client counts its own, and an id's width never changes
        answers: list[list[bytes]] = [[] for _ in sockets]
        conversations = [
            _repeat(self._prepare(session, first_id, share), answers[number])
            for number, session in enumerate(self._sessions)
        ]
        elapsed = exchange(self.server, sockets, conversations)
        for given in answers:
            self.server.check_answers(given, first_id, self._made)
            if len(given) != share:
                raise self.server.failed(f"answered {len(given)} of {share} calls")
        return elapsed

    def _prepare(self, session: str | None, first_id: int, count: int) -> list[bytes]:
        first = self.server.call(session, first_id, self._made)
        before, after = first.split(str(first_id).encode())
        return [b"%b%d%b" % (before, n, after) for n in range(first_id, first_id + count)]

    def streams(self, calls: int) -> float:
        """Call `count` again and again as the first client.

        Returns:
            Progress notifications per second.

        Raises:
            ServerFailed: If a stream lacks a notification, or they or the result are not right.
        """
        first_id = self._next_id
        self._next_id += calls
        session = self._sessions[0]
        requests = [self.server.call(session, n, _COUNT) for n in range(first_id, first_id + calls)]
        answers: list[bytes] = []
        with self.server.connected(1) as sockets:
            elapsed = exchange(self.server, sockets, [_repeat(requests, answers)])
        for request_id, data in enumerate(answers, first_id):
            self._check_stream(data, request_id)
        return calls * STEPS / elapsed

    def _check_stream(self, data: bytes, request_id: int) -> None:
        answer = Answer.parse(data)
        *progress, last = answer.messages()
        reported = [
            message["params"]["progress"]
            for message in progress
            if message.get("method") == "notifications/progress"
            and message["params"]["progressToken"] == _TOKEN
        ]
        if (
            answer.media_type != "text/event-stream"
            or reported != list(range(1, STEPS + 1))
            or last.get("id") != request_id
            or not _COUNT.is_right(last["result"])
        ):
            raise self.server.failed(f"streamed {len(reported)} of {STEPS}, then {last!s:.200}")


def exchange(
    server: HttpServer, sockets: Sequence[socket.socket], conversations: Sequence[Conversation]
) -> float:
    """Hold one conversation on each connection, all at once, until all have ended.

    Returns:
        The seconds from the first request to the last answer.

    Raises:
        ServerFailed: If the server closes a connection, or is silent for too long.
    """
    with selectors.DefaultSelector() as selector:
        running = 0
        started = time.perf_counter()
        for connection, conversation in zip(sockets, conversations, strict=True):
            first = next(conversation, None)
            if first is not None:
                connection.sendall(first)
                state = _Waiting(connection, conversation)
                selector.register(connection, selectors.EVENT_READ, state)
                running += 1
        while running:
            ready = selector.select(PATIENCE_S)
            if not ready:
                raise server.failed("stayed silent")
            for key, _ in ready:
                waiting: _Waiting = key.data
                if not waiting.read(server):
                    selector.unregister(waiting.connection)
                    running -= 1
        return time.perf_counter() - started


class _Waiting:
    """A connection whose next answer is due, and what of it has arrived."""

    __slots__ = ("connection", "received", "send", "whole")

    def __init__(self, connection: socket.socket, conversation: Conversation) -> None:
        self.connection = connection
        self.send = conversation.send
        self.received = b""
        self.whole: int | None = None  # the length of the answer, once its head says it

    def read(self, server: HttpServer) -> bool:
        """Take what has arrived; with it the answer may be whole, and the next request goes out.

        Returns:
            Whether the conversation goes on.
        """
        data = self.connection.recv(_READ_SIZE)
        if not data:
            raise server.failed(f"closed the connection after {self.received[:200]!r}")
        if self.received:
            data = self.received + data
        if not self._complete(data, server):
            self.received = data
            return True
        self.received, self.whole = b"", None
        try:
            self.connection.sendall(self.send(data))
        except StopIteration:
            return False
        return True

    def _complete(self, data: bytes, server: HttpServer) -> bool:
        if self.whole is None:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                return False
            head = data[:end].lower()
            at = head.find(b"\r\ncontent-length:")
            if at >= 0:
                stop = head.find(b"\r\n", at + 2)
                length = head[at + 17 : stop] if stop >= 0 else head[at + 17 :]
                self.whole = end + 4 + int(length)
            elif b"\r\ntransfer-encoding: chunked" in head:
                self.whole = -1
            else:
                raise server.failed(f"answered without a length: {data[:300]!r}")
        if self.whole < 0:
            return data.endswith(b"\r\n0\r\n\r\n")
        if len(data) > self.whole:
            raise server.failed(f"answered more than was asked: {data[self.whole :][:200]!r}")
        return len(data) == self.whole


def _repeat(requests: Sequence[bytes], answers: list[bytes]) -> Conversation:
    keep = answers.append
    for item in requests:
        keep((yield item))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
