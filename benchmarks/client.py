"""The load client: raw pipes to a server process, and as little of its own between them as can be.

Requests are encoded before the clock starts and answers are checked after it stops, so a timing
holds one write, the server, and the reads. Every server is sent the same bytes. Nothing here
waits for ever: a watchdog ends a server that does not answer.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Container, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
IN_FLIGHT = 64

PATIENCE_S = 30.0

_SUM = 42
_FIRST_ID = 1_000_000  # ids of one width make requests of one length
_READ_SIZE = 1 << 16  # a larger buffer costs 10 µs: the allocator returns it to the system


@dataclass(frozen=True)
class Call:
    """A request that is made again and again.

    Args:
        method: Of the request.
        params: Without the envelope of the modern revision.
        is_right: Judges a result.
    """

    method: str
    params: Mapping[str, Any]
    is_right: Callable[[Any], bool]

    @property
    def name(self) -> str:
        """What an HTTP header repeats of it on the modern revision; empty if none does."""
        name: str = self.params.get("name", self.params.get("uri", ""))
        return name


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


class ServerFailed(Exception):
    """A server ended, stayed silent or answered wrongly; the message says which, and its stderr."""


def encode(message: Mapping[str, object]) -> bytes:
    """One message as one line."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def request(
    request_id: int, method: str, params: Mapping[str, Any], *, revision: str = LEGACY
) -> bytes:
    """One request as one line; on the modern revision with its envelope in `_meta`."""
    if revision == MODERN:
        params = {**params, "_meta": {**ENVELOPE, **params.get("_meta", {})}}
    return encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})


def initialize(revision: str) -> bytes:
    """The first request of a handshake, as one line."""
    client = {"name": "bench", "version": "1"}
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": client}
    return request(1, "initialize", params, revision=revision)


class Process:
    """A child that is spoken to in lines over its stdin and stdout.

    Args:
        command: Program and arguments.
        environment: The whole environment of the child.
        directory: Its working directory.
    """

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], directory: str
    ) -> None:
        # A file, so that a child that writes much there is never held up.
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed in close()
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            cwd=directory,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self.stdin = self._process.stdin.fileno()
        self.stdout = self._process.stdout.fileno()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process.poll() is None

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
        data = os.read(self.stdout, _READ_SIZE)
        if data.endswith(b"\n"):
            return data
        chunks = [data]
        while data and not data.endswith(b"\n"):
            data = os.read(self.stdout, _READ_SIZE)
            chunks.append(data)
        if not data:
            raise self.failed("ended or stayed silent")
        return b"".join(chunks)

    def ask(self, line: bytes) -> Any:
        """Write a line and return the parsed answer."""
        with self.watchdog():
            self.write(line)
            answer = self.read_line()
        try:
            return json.loads(answer)
        except ValueError:
            raise self.failed(f"wrote {answer[:200]!r}") from None

    def stderr(self) -> str:
        """What the child has written to stderr so far."""
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), size, 0).decode(errors="replace")

    def failed(self, what: str) -> ServerFailed:
        """An error that says what happened, with the last line of stderr that says something."""
        lines = [line for line in self.stderr().splitlines() if any(map(str.isalnum, line))]
        return ServerFailed(f"{what}: {lines[-1].strip() if lines else 'nothing on stderr'}")

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
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._errors.close()


def check_answer(server: Process, line: bytes, due: Container[int], call: Call) -> int:
    """The id of an answer to a call.

    Raises:
        ServerFailed: If the answer is wrong, or to none of the requests in `due`.
    """
    answer = json.loads(line)
    if answer.get("id") not in due or not call.is_right(answer.get("result", {})):
        raise server.failed(f"answered {line[:200]!r}")
    request_id: int = answer["id"]
    return request_id


class StdioServer(Process):
    """An MCP server on stdio, with its handshake done or, on the modern revision, discovered.

    The time from before the spawn to the answer to the first request is `started_s`.

    Raises:
        ServerFailed: If it does not speak the revision.
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
        opening = self._opening()
        started = time.perf_counter()
        super().__init__(command, environment=environment, directory=directory)
        try:
            with self.watchdog():
                self.write(opening)
                line = self.read_line()
                self.started_s = time.perf_counter() - started
            self._check_opening(json.loads(line))
            if revision == LEGACY:
                self.write(encode({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        except BaseException:
            self.close()
            raise

    def _opening(self) -> bytes:
        if self.revision == MODERN:
            return request(1, "server/discover", {}, revision=MODERN)
        return initialize(self.revision)

    def _check_opening(self, answer: Any) -> None:
        result = answer.get("result", {})
        spoken = (
            self.revision in result.get("supportedVersions", ())
            if self.revision == MODERN
            else result.get("protocolVersion") == self.revision
        )
        if not spoken:
            raise self.failed(f"does not speak {self.revision}: {json.dumps(answer)[:200]}")

    def timed(self, method: str, params: Mapping[str, object]) -> tuple[float, Any, int]:
        """Send one request; returns seconds, the result, and the length of the answer in bytes.

        Raises:
            ServerFailed: If the answer is an error, or another request's.
        """
        self._next_id += 1
        line = request(self._next_id, method, params, revision=self.revision)
        with self.watchdog():
            started = time.perf_counter()
            self.write(line)
            data = self.read_line()
            seconds = time.perf_counter() - started
        answer = json.loads(data)
        if answer.get("id") != self._next_id or "result" not in answer:
            raise self.failed(f"answered {method} with {data[:200]!r}")
        return seconds, answer["result"], len(data)

    def sequential(self, calls: int, call: Call = ADD) -> list[float]:
        """Make a call again and again, each after the answer to the one before.

        Returns:
            The latency of every call, in seconds.
        """
        first_id, requests, width = self._prepare(calls, call)
        stdin, stdout, clock = self.stdin, self.stdout, time.perf_counter_ns
        latencies: list[int] = []
        answers: list[bytes] = []
        with self.watchdog():
            for offset in range(0, len(requests), width):
                line = requests[offset : offset + width]
                started = clock()
                os.write(stdin, line)
                data = os.read(stdout, _READ_SIZE)
                while not data.endswith(b"\n"):
                    more = os.read(stdout, _READ_SIZE)
                    if not more:
                        raise self.failed("ended or stayed silent")
                    data += more
                latencies.append(clock() - started)
                answers.append(data)
        self._check(b"".join(answers), first_id, calls, call)
        return [latency / 1e9 for latency in latencies]

    def pipelined(self, calls: int, call: Call = ADD) -> float:
        """Keep `IN_FLIGHT` calls unanswered; a chunk of answers is replaced at once.

        Returns:
            Calls per second.
        """
        first_id, requests, width = self._prepare(calls, call)
        stdout = self.stdout
        chunks: list[bytes] = []
        answered = 0
        with self.watchdog():
            started = time.perf_counter()
            sent = min(IN_FLIGHT, calls)
            self.write(requests[: sent * width])
            while answered < calls:
                chunk = os.read(stdout, _READ_SIZE)
                if not chunk:
                    raise self.failed("ended or stayed silent")
                chunks.append(chunk)
                answered += (new := chunk.count(b"\n"))
                upto = min(sent + new, calls)
                if upto > sent:
                    self.write(requests[sent * width : upto * width])
                    sent = upto
            elapsed = time.perf_counter() - started
        self._check(b"".join(chunks), first_id, calls, call)
        return calls / elapsed

    def _prepare(self, calls: int, call: Call) -> tuple[int, memoryview, int]:
        """The first id, all requests in one block, and the length of each."""
        first_id = self._next_id + 1
        self._next_id += calls
        first = request(first_id, call.method, call.params, revision=self.revision)
        before, after = first.split(str(first_id).encode())
        block = b"".join(
            b"%b%d%b" % (before, request_id, after)
            for request_id in range(first_id, first_id + calls)
        )
        return first_id, memoryview(block), len(block) // calls

    def _check(self, data: bytes, first_id: int, calls: int, call: Call) -> None:
        """Every request has its answer, and every answer is right."""
        due = set(range(first_id, first_id + calls))
        for line in data.splitlines():
            due.remove(check_answer(self, line, due, call))
        if due:
            raise self.failed(f"left {len(due)} of {calls} calls unanswered")
