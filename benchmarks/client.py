"""The load client: raw pipes to a server process, and as little as possible between them.

Requests are encoded before the clock starts and answers are checked after it stops, so a timing
holds one write, the server, and the reads. Every server is sent the same bytes. A watchdog ends a
server that does not answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from benchmarks.contenders import environment
from benchmarks.measure import Dropout
from benchmarks.peers import ROOT

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
CLIENT = {"name": "bench", "version": "1"}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": CLIENT,
    "io.modelcontextprotocol/clientCapabilities": {},
}
IN_FLIGHT = 64
PATIENCE_S = 30.0
FIRST_ID = 1_000_000  # ids of one width make requests of one length

_SUM = 42
_READ_SIZE = 1 << 16  # a larger buffer costs 10 µs: the allocator returns it to the system


class Call(NamedTuple):
    """A request that is made again and again, without the envelope of the modern revision."""

    method: str
    params: Mapping[str, Any]
    is_right: Callable[[Any], bool]  # judges a result

    @property
    def name(self) -> str:
        """The name or URI that an HTTP header repeats on the modern revision, if any."""
        name: str = self.params.get("name", self.params.get("uri", ""))
        return name

    def requests(self, first_id: int, count: int, revision: str) -> list[bytes]:
        """The call as lines of one length, with ids from `first_id` on."""
        first = request(first_id, self.method, self.params, revision=revision)
        before, after = first.split(str(first_id).encode())
        return [b"%b%d%b" % (before, id, after) for id in range(first_id, first_id + count)]

    def check(self, server: Process, lines: Sequence[bytes], first_id: int, count: int) -> None:
        """Drop a server out unless each request has one answer, and each answer is right."""
        due = set(range(first_id, first_id + count))
        for line in lines:
            answer = json.loads(line)
            if answer.get("id") not in due or not self.is_right(answer.get("result", {})):
                raise server.failed(f"answered {line[:200]!r}")
            due.remove(answer["id"])
        if due:
            raise server.failed(f"left {len(due)} of {count} calls unanswered")


def adding(tool: str) -> Call:
    """The call of a tool that adds 17 and 25."""
    return Call("tools/call", {"name": tool, "arguments": {"a": 17, "b": 25}}, _is_sum)


def _is_sum(result: Any) -> bool:
    return (
        result.get("structuredContent") in ({"result": _SUM}, _SUM)
        and result["content"][0]["text"] == str(_SUM)
        and not result.get("isError", False)
    )


ADD = adding("add")


def encode(message: Mapping[str, object]) -> bytes:
    """One message as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


INITIALIZED = encode({"jsonrpc": "2.0", "method": "notifications/initialized"})


def request(
    request_id: int, method: str, params: Mapping[str, Any], *, revision: str = LEGACY
) -> bytes:
    """One request as one line; on the modern revision with its envelope in `_meta`."""
    if revision == MODERN:
        params = {**params, "_meta": ENVELOPE}
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def initialize(revision: str) -> bytes:
    """The first request of a handshake, as one line."""
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": CLIENT}
    return request(1, "initialize", params)


class Process:
    """A child with pipes to its stdin and stdout, to be spoken to in a revision."""

    def __init__(self, command: Sequence[str], revision: str = LEGACY) -> None:
        self.revision = revision
        self._next_id = FIRST_ID
        # A file, so that a child that writes much there is never held up.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed in close()
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment(),
            cwd=ROOT,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._pipes = self._process.stdin, self._process.stdout
        self.pid = self._process.pid
        self.stdin, self.stdout = (pipe.fileno() for pipe in self._pipes)

    @property
    def running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.poll() is None

    def next_ids(self, count: int) -> int:
        """The first of that many ids."""
        self._next_id += count
        return self._next_id - count

    def stderr(self) -> str:
        """The child's stderr so far."""
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), size, 0).decode(errors="replace")

    def failed(self, what: str) -> Dropout:
        """An error that says what happened, with the last line of stderr that says something."""
        lines = [line for line in self.stderr().splitlines() if any(map(str.isalnum, line))]
        return Dropout(f"{what}: {lines[-1].strip() if lines else 'nothing on stderr'}")

    @contextmanager
    def watchdog(self) -> Generator[None, None, None]:
        """Kill the child if the block takes too long, so that a blocking read in it returns."""
        timer = threading.Timer(PATIENCE_S, self._process.kill)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def close(self) -> None:
        """End the child by force: how it would leave by itself is not measured."""
        self._process.kill()
        self._process.wait()
        for file in (*self._pipes, self._errors):
            file.close()


class StdioServer(Process):
    """An MCP server on stdio, with its handshake done or, on the modern revision, discovered.

    The time from before the spawn to the answer to the first request is `started_s`.

    Raises:
        Dropout: If it does not speak the revision.
    """

    def __init__(self, command: Sequence[str], revision: str = LEGACY) -> None:
        modern = revision == MODERN
        opening = (
            request(1, "server/discover", {}, revision=revision) if modern else initialize(revision)
        )
        started = time.perf_counter()
        super().__init__(command, revision)
        try:
            with self.watchdog():
                self.write(opening)
                line = self.read_line()
                self.started_s = time.perf_counter() - started
            result = json.loads(line).get("result", {})
            if revision not in result.get("supportedVersions", [result.get("protocolVersion")]):
                raise self.failed(f"does not speak {revision}: {line[:200]!r}")
            if not modern:
                self.write(INITIALIZED)
        except BaseException:
            self.close()
            raise

    def write(self, data: bytes | memoryview) -> None:
        """Write all of it."""
        try:
            written = os.write(self.stdin, data)
            while written < len(data):
                written += os.write(self.stdin, data[written:])
        except BrokenPipeError:
            raise self.failed("closed its stdin") from None

    def read_line(self) -> bytes:
        """One line. Nothing may follow it, since only one answer is ever due."""
        data = self.read()
        if data.endswith(b"\n"):
            return data
        chunks = [data]
        while not chunks[-1].endswith(b"\n"):
            chunks.append(self.read())
        return b"".join(chunks)

    def read(self) -> bytes:
        """All bytes that have arrived, at least one."""
        data = os.read(self.stdout, _READ_SIZE)
        if not data:
            raise self.failed("ended or stayed silent")
        return data

    def timed(self, method: str, params: Mapping[str, object]) -> tuple[float, Any, int]:
        """Send one request; return seconds, the result, and the length of the answer in bytes."""
        id = self.next_ids(1)
        line = request(id, method, params, revision=self.revision)
        with self.watchdog():
            started = time.perf_counter()
            self.write(line)
            data = self.read_line()
            seconds = time.perf_counter() - started
        answer = json.loads(data)
        if answer.get("id") != id or "result" not in answer:
            raise self.failed(f"answered {method} with {data[:200]!r}")
        return seconds, answer["result"], len(data)

    def sequential(self, calls: int, call: Call = ADD) -> list[float]:
        """Make a call again and again; return the latency of each in seconds."""
        first_id = self.next_ids(calls)
        requests = call.requests(first_id, calls, self.revision)
        stdin, read_line, clock = self.stdin, self.read_line, time.perf_counter_ns
        latencies: list[int] = []
        answers: list[bytes] = []
        with self.watchdog():
            for line in requests:
                started = clock()
                os.write(stdin, line)
                data = read_line()
                latencies.append(clock() - started)
                answers.append(data)
        call.check(self, answers, first_id, calls)
        return [latency / 1e9 for latency in latencies]

    def pipelined(self, calls: int, call: Call = ADD) -> float:
        """Keep `IN_FLIGHT` calls unanswered; return calls per second.

        Answered calls are replaced at once, in one write.
        """
        first_id = self.next_ids(calls)
        block = b"".join(call.requests(first_id, calls, self.revision))
        requests, width = memoryview(block), len(block) // calls
        chunks: list[bytes] = []
        answered = 0
        with self.watchdog():
            started = time.perf_counter()
            sent = min(IN_FLIGHT, calls)
            self.write(requests[: sent * width])
            while answered < calls:
                chunk = self.read()
                chunks.append(chunk)
                answered += (new := chunk.count(b"\n"))
                upto = min(sent + new, calls)
                if upto > sent:
                    self.write(requests[sent * width : upto * width])
                    sent = upto
            elapsed = time.perf_counter() - started
        call.check(self, b"".join(chunks).splitlines(), first_id, calls)
        return calls / elapsed
