"""Messages as lines on the standard streams of a real process (PROTOCOL 8.1)."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.kit import eventually
from tests.messages import LEGACY, cancelled, request
from tests.transports.processes import TIMEOUT, Process, call, modern, served, sockets, started

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX descriptors and signals")

PROMPTLY = 2.0
"""Seconds within which a server has to be gone."""

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def server(backend: str) -> Iterator[Process]:
    with served(backend) as process:
        yield process


def echo(id: int | str = 1) -> dict[str, Any]:
    return call(id, "echo", text="hello")


def encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


def ends_promptly(server: Process) -> int:
    """Its exit code; it must be gone soon."""
    return server.exit_code(within=PROMPTLY)


# --- lines (STDIO-1, STDIO-6) ---------------------------------------------------------------------


class TestLines:
    def test_a_line_ends_with_a_newline_and_nothing_else(self, server: Process) -> None:
        """U+2028, U+0085 and a carriage return in a string stay where they are."""
        text = "né€😀a\u2028b\u0085c\rd\x0be"
        assert server.text(call(1, "echo", text=text)) == text
        line = json.dumps(call(1, "echo", text=text), ensure_ascii=False).encode()
        for at in range(len(line)):
            if line[at] & 0xC0 == 0x80:  # in the middle of a character
                server.send_bytes(line[:at])
                server.send_bytes(line[at:] + b"\n")
                assert server.answer(1)["result"]["content"][0]["text"] == text
        server.send_bytes(b"\n\r\n  \t\n\n" + encoded(echo(2)) + b"\r\n\n")
        assert server.receive()["id"] == 2
        for size in (8 * 1024 * 1024, 64 * 1024, 64 * 1024 - 1):
            assert server.text(call(3, "echo", text="x" * size)) == "x" * size

    def test_a_byte_order_mark_is_skipped(self, server: Process) -> None:
        """Some hosts on Windows write one before `initialize`."""
        server.send_bytes(b"\xef\xbb\xbf")
        assert server.shake_hands()["serverInfo"]["name"] == "served"
        assert server.text(request(1, "tools/call", name="echo", arguments={"text": "a"})) == "a"

    def test_half_an_emoji_is_answered_with_its_id(self, backend: str) -> None:
        """Hosts in JavaScript cut texts so, and wait for the answer (ERR-5)."""
        for version in LEGACY:
            with served(backend) as server:
                server.shake_hands(version)
                server.send(json.dumps(call(1, "echo", text="a\ud83d")).encode())
                assert server.answer(1)["error"]["code"] == -32700
                server.wait_for_stderr("rejected a message: Not a JSON message")

    @pytest.mark.parametrize(("end", "code"), [(None, None), (-5, -32700)], ids=["whole", "cut"])
    def test_the_last_line_needs_no_end(
        self, server: Process, end: int | None, code: int | None
    ) -> None:
        """JSON text shows by itself where it ends; a shell's ``printf`` writes just this."""
        server.send_bytes(encoded(echo())[:end])
        server.close_stdin()
        (answer,) = server.rest()
        assert answer.get("error", {}).get("code") == code
        assert ("id" in answer) == (code is None)
        assert ends_promptly(server) == 0

    def test_a_line_above_the_bound_is_rejected_once_and_skipped(self, backend: str) -> None:
        line = encoded(echo(2))
        with served(backend, env={"MAX_LINE": str(len(line))}) as server:
            for length in (500_000, len(line) + 1):
                server.send(b"x" * length, line)
                rejection, answer = server.receive(), server.receive()
                assert (rejection["error"]["code"], "id" in rejection) == (-32600, False)
                assert f"{len(line)} bytes" in rejection["error"]["message"]
                assert answer["id"] == 2

    def test_a_line_of_too_many_values_is_rejected(self, server: Process) -> None:
        """Each takes many times the bytes that it was written in."""
        server.send(call(1, "length", text="x", more=[0] * 1_000_001), echo(2))
        rejection, answer = server.receive(), server.receive()
        assert (rejection["error"]["code"], "id" in rejection) == (-32600, False)
        assert "more than 1,000,000 values" in rejection["error"]["message"]
        assert answer["id"] == 2

    @needs_proc
    def test_a_line_without_end_takes_no_memory(self, backend: str) -> None:
        with served(backend, env={"MAX_LINE": "100000"}, cold=True) as server:
            server.ask(echo())
            before = server.status("VmHWM")
            for _ in range(50):
                server.send_bytes(b"x" * 1_000_000)
            server.send(b"", echo(2))
            server.answer(2)
            assert server.status("VmHWM") - before < 8_000


# --- kinds of streams -----------------------------------------------------------------------------


class TestStreams:
    def test_a_file_as_stdin_and_stdout(self, backend: str, tmp_path: Path) -> None:
        source, target = tmp_path / "in", tmp_path / "out"
        source.write_bytes(b"".join(encoded(echo(id)) + b"\n" for id in range(5000)))
        streams = {"stdin": source.open("rb"), "stdout": target.open("wb")}
        with served(backend, **streams) as server:
            assert server.exit_code() == 0
        answers = [json.loads(line) for line in target.read_bytes().splitlines()]
        assert sorted(each["id"] for each in answers) == list(range(5000))

    def test_a_socket_for_both(self, backend: str) -> None:
        """As Node hosts start their servers; it is shut down for writing at the end."""
        ends, theirs = sockets()
        with served(backend, stdin=theirs, stdout=theirs, ends=ends) as server:
            assert server.text(call(1, "echo", text="x" * 3_000_000)) == "x" * 3_000_000
            server.send(echo())
            assert server.stdin is not None
            with socket.socket(fileno=os.dup(server.stdin.fileno())) as ours:
                ours.shutdown(socket.SHUT_WR)
            assert [each["id"] for each in server.rest()] == [1]
            assert ends_promptly(server) == 0

    def test_a_named_pipe_as_stdin(self, backend: str, tmp_path: Path) -> None:
        path = tmp_path / "fifo"
        os.mkfifo(path)
        # Opened for both first, because opening one side alone waits for the other.
        both = open(os.open(path, os.O_RDWR), "wb", buffering=0)  # noqa: SIM115
        with both, served(backend, stdin=path.open("rb"), ends=(both, None)) as server:
            assert server.ask(echo())["id"] == 1
            server.close_stdin()
            assert ends_promptly(server) == 0

    def test_a_terminal_as_stdout(self, backend: str) -> None:
        """Written to in a thread; what that still holds at the end of input arrives as well."""
        ours, theirs = pty.openpty()
        ends = (None, open(ours, "rb"))  # noqa: SIM115
        with served(backend, stdout=open(theirs, "wb"), ends=ends, reading=False) as server:
            server.send(*(call(id, "large", size=300) for id in range(200)))
            server.close_stdin()
            server.read()
            lines = list(iter(server.line, None))
        assert sorted(json.loads(line)["id"] for line in lines) == list(range(200))

    def test_a_stdout_that_others_share_still_blocks_for_them(self, backend: str) -> None:
        """Only a descriptor of the server's own may be switched to not blocking."""
        reader, writer = os.pipe()
        shared = os.dup(writer)
        with served(backend, stdout=open(writer, "wb"), ends=(None, open(reader, "rb"))) as server:
            server.ask(echo())
            assert os.get_blocking(shared)
            os.close(shared)


# --- the end (STDIO-4) ----------------------------------------------------------------------------


ENDS = pytest.mark.parametrize(
    ("end", "code"),
    [
        (Process.close_stdin, 0),
        (lambda server: server.signal(signal.SIGTERM), 0),
        (lambda server: server.signal(signal.SIGINT), 130),
    ],
    ids=["EOF", "TERM", "INT"],
)
End: TypeAlias = Callable[[Process], None]


class TestEnd:
    @ENDS
    def test_calls_are_cancelled_and_streams_of_changes_end(
        self, server: Process, end: End, code: int
    ) -> None:
        """SUB-6, SUB-7: handlers and the lifespan clean up."""
        for id, wanted in (("A", {"toolsListChanged": True}), (2, {})):
            server.send(modern(id, "subscriptions/listen", notifications=wanted))
            server.receive()
        server.send(call(3, "forever", name="B"), call(4, "forever", name="C"))
        server.wait_for_stderr("C waits")
        end(server)
        assert ends_promptly(server) == code
        rest = server.rest()
        notices = [each["params"] for each in rest if "method" in each]
        assert {each["requestId"] for each in notices} == {"A", 2}
        results = {each["id"]: each["result"] for each in rest if "id" in each}
        assert results.keys() == {"A", 2}
        for id, result in results.items():
            assert (result["resultType"], result["_meta"][SUBSCRIPTION]) == ("complete", id)
        for line in ("B has cleaned up", "C has cleaned up", "the lifespan is left"):
            server.wait_for_stderr(line)
        assert "Traceback" not in server.stderr

    def test_calls_that_are_about_to_finish_are_answered(self, backend: str) -> None:
        with served(backend, env={"GRACE": "10"}) as server:
            server.send(call(1, "soon", seconds=0.1))
            server.close_stdin()
            assert [each["id"] for each in server.rest()] == [1]
            assert ends_promptly(server) == 0

    @ENDS
    def test_it_does_not_wait_for_a_blocked_thread(
        self, server: Process, end: End, code: int
    ) -> None:
        server.send(call(1, "block"))
        server.wait_for_stderr("a thread blocks")
        end(server)
        assert ends_promptly(server) == code
        server.wait_for_stderr("handlers still run in threads: 1")

    def test_it_does_not_wait_for_a_handler_that_ignores_its_cancellation(
        self, backend: str
    ) -> None:
        with served(backend, env={"_CLEAN_UP_S": "0.1"}) as server:
            server.send(call(1, "stubborn"), echo(2))
            server.answer(2)
            server.close_stdin()
            assert ends_promptly(server) == 0
            server.wait_for_stderr("a handler does not let itself be cancelled")

    def test_a_client_that_no_longer_reads_ends_the_server(self, backend: str) -> None:
        with served(backend, reading=False) as server:
            server.send(call(1, "forever", name="A"))
            server.wait_for_stderr("A waits")
            assert server.stdout is not None
            server.stdout.close()
            server.send(echo(2))
            assert ends_promptly(server) == 0
            server.wait_for_stderr("A has cleaned up")

    def test_a_client_that_neither_reads_nor_waits(self, backend: str) -> None:
        """Input ends, and the last answers do not fit into the pipe."""
        with served(backend, env={"_STALL_S": "0.1"}, reading=False) as server:
            server.send(*(call(id, "large", size=100_000) for id in range(5)))
            server.send(call(5, "soon", seconds=0))
            server.wait_for_stderr("soon waits")
            server.close_stdin()
            assert ends_promptly(server) == 0

    @pytest.mark.parametrize("kind", ["pipe", "socket"])
    def test_a_client_that_reads_nothing_and_leaves_much_unread(
        self, backend: str, kind: str
    ) -> None:
        """Its end is behind what the server does not read, because its answers are not read."""
        ends, theirs = sockets() if kind == "socket" else ((None, None), subprocess.PIPE)
        env, halves = {"_STALL_S": "0.1"}, (ends[0], None)
        with served(backend, env=env, stdin=theirs, ends=halves, reading=False) as server:
            server.fill(call(1, "large", size=100_000))
            if ends[1] is not None:
                ends[1].close()  # the socket's other name
            server.close_stdin()
            assert ends_promptly(server) == 0

    def test_a_client_that_reads_slowly_gets_everything(self, backend: str) -> None:
        """As long as it takes some of it, the server stays."""
        with served(backend, reading=False) as server:
            server.send(*(call(id, "large", size=100_000) for id in range(30)))
            server.close_stdin()
            assert server.stdout is not None
            count = 0
            until_now = 0.0
            while data := os.read(server.stdout.fileno(), 200_000):
                count += data.count(b"\n")
                time.sleep(0.02)
                until_now += 0.02
            assert count == 30
            assert until_now > 0.5, "that was slower than the patience for one that takes nothing"


# --- a client that does not keep up ---------------------------------------------------------------


def flood(server: Process, lines: Iterable[bytes]) -> threading.Thread:
    """Send lines in a thread, as fast as the server takes them."""

    def write() -> None:
        with contextlib.suppress(OSError):
            for line in lines:
                server.send(line)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


def comes_to_rest(server: Process) -> Callable[[], bool]:
    """Whether a process has used no time of the processor since it was last asked."""
    last: list[list[str]] = []

    def used() -> bool:
        last.append(Path(f"/proc/{server.pid}/stat").read_text().split()[13:15])
        return len(last) > 10 and all(each == last[-1] for each in last[-10:])

    return used


@needs_proc
class TestBackPressure:
    IN_FLIGHT = 50
    COUNT = 1800
    """They do not fit into a pipe and one read, nor their responses into the bound."""

    SIZE = 100_000
    BOUND = 40_000
    """kB: of 50 × 100 kB that are answered, what one read may bring, and the interpreter's air."""

    @pytest.mark.parametrize("tool", ["large", "large_later", "large_in_thread"])
    def test_reading_pauses_and_memory_stays_bounded(self, backend: str, tool: str) -> None:
        env = {"MAX_IN_FLIGHT": str(self.IN_FLIGHT)}
        with served(backend, env=env, reading=False, cold=True) as server:
            eventually(lambda: server.status("VmRSS") > 20_000)
            before = server.status("VmHWM")
            calls = (call(id, tool, size=self.SIZE) for id in range(self.COUNT))
            writer = flood(server, map(encoded, calls))
            eventually(comes_to_rest(server))
            assert writer.is_alive(), "the server reads on although its output is not read"

            server.read()
            lines = [server.line() for _ in range(self.COUNT)]
            writer.join(TIMEOUT)
            ids = [json.loads(line or b"")["id"] for line in lines]
            assert sorted(ids) == list(range(self.COUNT))
            grown = server.status("VmHWM") - before
            assert grown < self.BOUND + 25_000, "much more than its import needed"

    @pytest.mark.parametrize("tool", ["flood", "flood_from_thread"])
    def test_a_handler_that_logs_without_waiting(self, backend: str, tool: str) -> None:
        """100 MB of log messages: what the client does not take is dropped."""
        with served(backend, reading=False, cold=True) as server:
            message = modern(1, "tools/call", level="info", name=tool, arguments={"count": 100_000})
            server.send(message)
            eventually(comes_to_rest(server))
            assert server.status("VmHWM") < 100_000
            server.read()
            assert server.answer(1)["result"]["content"][0]["text"] == "flooded"
            server.wait_for_stderr("are dropped")

    def test_a_ping_flood(self, backend: str) -> None:
        with served(backend, reading=False, cold=True) as server:
            lines = [encoded(request("p" * 500, "ping"))] * 100
            writer = flood(server, [b"\n".join(lines)] * 1000)
            eventually(comes_to_rest(server))
            assert writer.is_alive()
            assert server.status("VmHWM") < 80_000
            server.end()
            writer.join(TIMEOUT)


# --- several at once (STDIO-5) --------------------------------------------------------------------


class TestConcurrency:
    def test_a_ping_overtakes_handlers_that_block_every_thread(self, server: Process) -> None:
        server.shake_hands()
        server.send(
            *(request(id, "tools/call", name="block", arguments={}) for id in range(100)),
            request("ping", "ping"),
        )
        assert server.receive()["id"] == "ping"

    def test_a_context_variable_does_not_reach_a_call_that_waited(self, backend: str) -> None:
        """A handler's end makes room for the next; that does not begin in its context."""
        with served(backend, env={"MAX_IN_FLIGHT": "1"}) as server:
            ids = range(1, 9)
            server.send(
                call(0, "wait", name="A"),
                *(call(id, "exchange_variable", value=str(id)) for id in ids),
            )
            server.wait_for_stderr("A waits")
            server.others.clear()
            server.send(cancelled(0))
            texts = [server.answer(id)["result"]["content"][0]["text"] for id in ids]
            assert texts == ["unset"] * len(ids)


# --- cancellation ---------------------------------------------------------------------------------


class TestCancellation:
    def test_in_the_same_write_as_the_request(self, server: Process) -> None:
        server.send(call(1, "forever", name="A"), cancelled(1), echo(2))
        server.wait_for_stderr("A has cleaned up")
        assert "reference" not in server.stderr, "a cancellation is not a failure"
        server.close_stdin()
        assert [each["id"] for each in server.rest()] == [2]
        assert ends_promptly(server) == 0

    def test_while_it_waits_its_turn(self, backend: str) -> None:
        with served(backend, env={"MAX_IN_FLIGHT": "1"}) as server:
            server.send(call(1, "wait", name="A"), call(2, "forever", name="B"), cancelled(2))
            server.send(call(3, "echo", text="C"), cancelled(1))
            assert server.receive()["id"] == 3
            assert "B waits" not in server.stderr


# --- nothing but messages on stdout (STDIO-2) -----------------------------------------------------

PROGRAM = """
import ctypes, os, subprocess
print("one at import")
ctypes.CDLL(None).puts(b"two at import")
from mcpkit import MCPKit
app = MCPKit("prints")

@app.tool
def go() -> str:
    print("three")
    ctypes.CDLL(None).puts(b"four"); ctypes.CDLL(None).fflush(None)
    subprocess.run("cat; echo five", shell=True)
    return "gone"
"""


def test_what_is_printed_lands_on_stderr(tmp_path: Path) -> None:
    """STDIO-2, STDIO-3: whatever prints it, also a child process that reads."""
    (tmp_path / "server.py").write_text(PROGRAM)
    with started([sys.executable, "-m", "mcpkit", "run", "server.py"], cwd=tmp_path) as server:
        assert server.text(call(1, "go")) == "gone"
        server.close_stdin()
        assert server.rest() == []
        assert ends_promptly(server) == 0
        for text in ("one at import", "two at import", "three", "four", "five"):
            server.wait_for_stderr(text)
