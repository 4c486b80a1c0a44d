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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import eventually
from tests.messages import (
    MODERN,
    cancelled,
    request,
)
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


@pytest.fixture(scope="module")
def all_shared() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture(scope="module")
def fine() -> dict[str, Process]:
    """The servers in which nothing has gone wrong so far, by their event loops."""
    return {}


@pytest.fixture
def shared(
    backend: str, all_shared: contextlib.ExitStack, fine: dict[str, Process]
) -> Iterator[Process]:
    """A server that others use as well, one after the other, and that has nothing left to say."""
    process = fine.pop(backend, None) or all_shared.enter_context(served(backend))
    yield process
    process.send(call("after", "echo", text="nothing"))
    assert process.receive()["id"] == "after"
    assert process.others == []
    fine[backend] = process


def echo(id: int | str = 1) -> dict[str, Any]:
    return call(id, "echo", text="hello")


def encoded(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()


def ends_promptly(server: Process) -> int:
    """Its exit code; it must be gone soon."""
    return server.exit_code(within=PROMPTLY)


# --- lines (STDIO-1, STDIO-6) ---------------------------------------------------------------------


class TestLines:
    def test_a_character_cut_in_two(self, shared: Process) -> None:
        line = json.dumps(call(1, "echo", text="né€😀"), ensure_ascii=False).encode()
        for at in range(len(line)):
            if line[at] & 0xC0 == 0x80:  # in the middle of a character
                shared.send_bytes(line[:at])
                shared.send_bytes(line[at:] + b"\n")
                assert shared.answer(1)["result"]["content"][0]["text"] == "né€😀"

    def test_blank_lines_and_returns_mean_nothing(self, shared: Process) -> None:
        shared.send_bytes(b"\n\r\n  \t\n\n" + encoded(echo()) + b"\r\n\n")
        assert shared.receive()["id"] == 1

    def test_a_line_separator_inside_a_string_ends_no_line(self, shared: Process) -> None:
        """Only the newline does; U+2028, U+0085 and a carriage return stay where they are."""
        text = "a\u2028b\u0085c\rd\x0be"
        assert shared.text(call(1, "echo", text=text)) == text

    def test_a_last_line_without_its_end_is_served(self, server: Process) -> None:
        """JSON text tells by itself where it ends; a shell's ``printf`` writes just this."""
        server.send_bytes(encoded(echo()))
        server.close_stdin()
        assert [each["id"] for each in server.rest()] == [1]
        assert ends_promptly(server) == 0

    def test_a_last_line_that_was_cut_off_is_refused(self, server: Process) -> None:
        server.send_bytes(encoded(echo())[:-5])
        server.close_stdin()
        (refusal,) = server.rest()
        assert (refusal["error"]["code"], "id" in refusal) == (-32700, False)
        assert ends_promptly(server) == 0

    @pytest.mark.parametrize("size", [8 * 1024 * 1024, 64 * 1024, 64 * 1024 - 1])
    def test_a_large_message_arrives_whole(self, shared: Process, size: int) -> None:
        text = shared.text(call(1, "echo", text="x" * size))
        assert text == "x" * size

    def test_a_line_above_the_bound_is_refused_once_and_skipped(self, backend: str) -> None:
        with served(backend, env={"MAX_LINE": "100000"}) as server:
            server.send(call(1, "length", text="x" * 500_000), echo(2))
            refusal, answer = server.receive(), server.receive()
            assert (refusal["error"]["code"], "id" in refusal) == (-32600, False)
            assert "100000 bytes" in refusal["error"]["message"]
            assert answer["id"] == 2

    def test_a_line_of_exactly_the_bound_is_served(self, backend: str) -> None:
        line = encoded(echo())
        with served(backend, env={"MAX_LINE": str(len(line))}) as server:
            server.send(line)
            assert server.receive()["id"] == 1

    def test_a_line_of_too_many_values_is_refused(self, backend: str) -> None:
        """Each takes many times the bytes that it was written in."""
        with served(backend) as server:
            server.send(call(1, "length", text="x", more=[0] * 1_000_001), echo(2))
            refusal, answer = server.receive(), server.receive()
            assert (refusal["error"]["code"], "id" in refusal) == (-32600, False)
            assert "more than 1,000,000 values" in refusal["error"]["message"]
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


BROKEN = {
    "no JSON": b"hello",
    "cut off": b'{"jsonrpc": "2.0", "id": 1',
    "not UTF-8": b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}',
    "NaN": b'{"jsonrpc": "2.0", "id": NaN, "method": "ping"}',
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
class TestBrokenLines:
    """MSG-8: answered without an id where the revision has a shape for that, else dropped."""

    def test_answered_after_a_handshake(self, server: Process, line: bytes) -> None:
        server.shake_hands("2025-11-25")
        server.send(line, request(1, "ping"))
        refusal = server.receive()
        assert (refusal["error"]["code"], "id" in refusal) == (-32700, False)
        assert server.receive()["id"] == 1

    @pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18"])
    def test_dropped_where_errors_have_ids(self, line: bytes, version: str) -> None:
        with served() as server:
            server.shake_hands(version)
            server.send(line, request(1, "ping"))
            assert server.receive()["id"] == 1


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
        """As Node hosts start their servers."""
        ends, theirs = sockets()
        with served(backend, stdin=theirs, stdout=theirs, ends=ends) as server:
            assert server.text(call(1, "echo", text="x" * 3_000_000)) == "x" * 3_000_000

    def test_a_socket_that_is_shut_down_for_writing(self, backend: str) -> None:
        ends, theirs = sockets()
        with served(backend, stdin=theirs, stdout=theirs, ends=ends) as server:
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


class TestEnd:
    def test_calls_that_run_are_cancelled_and_clean_up(self, server: Process) -> None:
        server.send(call(1, "forever", name="A"), call(2, "forever", name="B"))
        server.wait_for_stderr("B waits")
        server.close_stdin()
        assert ends_promptly(server) == 0
        assert server.rest() == []
        server.wait_for_stderr("A has cleaned up")
        server.wait_for_stderr("B has cleaned up")

    def test_calls_that_are_about_to_finish_are_answered(self, backend: str) -> None:
        with served(backend, env={"GRACE": "10"}) as server:
            server.send(call(1, "soon", seconds=0.1))
            server.close_stdin()
            assert [each["id"] for each in server.rest()] == [1]
            assert ends_promptly(server) == 0

    @pytest.mark.parametrize(
        ("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)], ids=["TERM", "INT"]
    )
    def test_a_signal_ends_the_process(
        self, server: Process, number: signal.Signals, code: int
    ) -> None:
        server.send(call(1, "forever", name="A"))
        server.wait_for_stderr("A waits")
        server.signal(number)
        assert ends_promptly(server) == code
        assert server.rest() == []
        server.wait_for_stderr("A has cleaned up")
        assert "Traceback" not in server.stderr

    @pytest.mark.parametrize(
        ("end", "code"),
        [
            (Process.close_stdin, 0),
            (lambda server: server.signal(signal.SIGTERM), 0),
            (lambda server: server.signal(signal.SIGINT), 130),
        ],
        ids=["EOF", "TERM", "INT"],
    )
    def test_a_blocked_thread_keeps_nobody(
        self, server: Process, end: Callable[[Process], None], code: int
    ) -> None:
        server.send(call(1, "block"))
        server.wait_for_stderr("a thread blocks")
        end(server)
        assert ends_promptly(server) == code
        server.wait_for_stderr("1 handlers still run in threads")

    def test_a_handler_that_refuses_to_be_cancelled_keeps_nobody(self, backend: str) -> None:
        with served(backend, env={"_CLEAN_UP_S": "0.1"}) as server:
            server.send(call(1, "stubborn"), echo(2))
            server.answer(2)
            server.close_stdin()
            assert ends_promptly(server) == 0
            server.wait_for_stderr("a handler does not let itself be cancelled")

    def test_the_lifespan_is_left(self, backend: str, tmp_path: Path) -> None:
        (tmp_path / "server.py").write_text(
            "import contextlib, sys\n"
            "from mcpkit import MCPKit\n"
            "@contextlib.asynccontextmanager\n"
            "async def lifespan(app):\n"
            "    try:\n"
            "        yield\n"
            "    finally:\n"
            "        print('left', file=sys.stderr)\n"
            f"MCPKit('x', lifespan=lifespan).run(backend={backend!r})\n"
        )
        with started([sys.executable, "server.py"], cwd=tmp_path) as server:
            server.ask(modern(1, "server/discover"))
            server.signal(signal.SIGTERM)
            assert ends_promptly(server) == 0
            server.wait_for_stderr("left")

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


def flood_with_calls(server: Process, tool: str, count: int, size: int) -> threading.Thread:
    """Send calls in a thread, as fast as the server takes them."""

    def write() -> None:
        for id in range(count):
            server.send(call(id, tool, size=size))

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
    """So many that they do not fit into a pipe and what is read at once, nor their answers into
    the bound."""

    SIZE = 100_000
    BOUND = 40_000
    """kB: of 50 × 100 kB that are answered, what one read may bring, and the interpreter's air."""

    @pytest.mark.parametrize("tool", ["large", "large_later", "large_in_thread"])
    def test_reading_pauses_and_memory_stays_bounded(self, backend: str, tool: str) -> None:
        env = {"MAX_IN_FLIGHT": str(self.IN_FLIGHT)}
        with served(backend, env=env, reading=False, cold=True) as server:
            eventually(lambda: server.status("VmRSS") > 20_000)
            before = server.status("VmHWM")
            writer = flood_with_calls(server, tool, self.COUNT, self.SIZE)
            eventually(comes_to_rest(server))
            assert writer.is_alive(), "the server reads on although nobody reads it"

            server.read()
            lines = [server.line() for _ in range(self.COUNT)]
            writer.join(TIMEOUT)
            ids = [json.loads(line or b"")["id"] for line in lines]
            assert sorted(ids) == list(range(self.COUNT))
            grown = server.status("VmHWM") - before
            assert grown < self.BOUND + 25_000, "much more than its import needed"

    @pytest.mark.parametrize("tool", ["flood", "flood_from_thread"])
    def test_a_handler_that_logs_without_waiting(self, backend: str, tool: str) -> None:
        """100 MB of log messages: what the client does not take is left out."""
        with served(backend, reading=False, cold=True) as server:
            message = modern(1, "tools/call", level="info", name=tool, arguments={"count": 100_000})
            server.send(message)
            eventually(comes_to_rest(server))
            assert server.status("VmHWM") < 100_000
            server.read()
            assert server.answer(1)["result"]["content"][0]["text"] == "flooded"
            server.wait_for_stderr("left out")

    def test_a_ping_flood(self, backend: str) -> None:
        with served(backend, reading=False, cold=True) as server:
            line = encoded(request("p" * 500, "ping")) + b"\n"
            block = line * 100

            def write() -> None:
                with contextlib.suppress(OSError):
                    for _ in range(1000):
                        server.send_bytes(block)

            writer = threading.Thread(target=write, daemon=True)
            writer.start()
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
        assert "reference" not in server.stderr, "that was no failure"
        server.close_stdin()
        assert [each["id"] for each in server.rest()] == [2]
        assert ends_promptly(server) == 0

    def test_while_it_waits_its_turn(self, backend: str) -> None:
        with served(backend, env={"MAX_IN_FLIGHT": "1"}) as server:
            server.send(call(1, "wait", name="A"), call(2, "forever", name="B"), cancelled(2))
            server.send(call(3, "echo", text="C"), cancelled(1))
            assert server.receive()["id"] == 3
            assert "B waits" not in server.stderr

    def test_a_thread_sees_it(self, server: Process) -> None:
        server.send(call(1, "look"))
        server.wait_for_stderr("a thread looks")
        server.send(cancelled(1))
        server.wait_for_stderr("a thread saw the cancellation")
        server.close_stdin()
        assert server.rest() == []
        assert ends_promptly(server) == 0


# --- both eras ------------------------------------------------------------------------------------


# --- streams of changes ---------------------------------------------------------------------------


class TestListening:
    @staticmethod
    def listen(server: Process, id: int | str, **wanted: Any) -> dict[str, Any]:
        server.version = MODERN
        server.send(modern(id, "subscriptions/listen", notifications=wanted))
        return server.receive()

    @pytest.mark.parametrize(
        "end",
        [Process.close_stdin, lambda server: server.signal(signal.SIGTERM)],
        ids=["EOF", "TERM"],
    )
    def test_at_the_end_each_is_cancelled_and_answered(
        self, server: Process, end: Callable[[Process], None]
    ) -> None:
        """SUB-6, SUB-7."""
        self.listen(server, "A", toolsListChanged=True)
        self.listen(server, 2)
        end(server)
        rest = server.rest()
        for id in ("A", 2):
            notice, result = (
                each
                for each in rest
                if id in (each.get("id"), each.get("params", {}).get("requestId"))
            )
            assert notice["method"] == "notifications/cancelled"
            assert notice["params"]["requestId"] == id
            assert result["id"] == id
            assert result["result"]["resultType"] == "complete"
            assert result["result"]["_meta"][SUBSCRIPTION] == id
        assert ends_promptly(server) == 0


# --- nothing but messages on stdout (STDIO-2) -----------------------------------------------------

PRINTS = {
    "at import": ("print('stray')", ""),
    "in a C library, at import": ("ctypes.CDLL(None).puts(b'stray')", ""),
    "in a tool": ("", "print('stray')"),
    "in a C library": ("", "ctypes.CDLL(None).puts(b'stray'); ctypes.CDLL(None).fflush(None)"),
    "in a child process that reads": ("", "subprocess.run('cat; echo stray', shell=True)"),
}


@pytest.mark.parametrize(("at_import", "in_tool"), PRINTS.values(), ids=PRINTS.keys())
def test_what_is_printed_lands_on_stderr(tmp_path: Path, at_import: str, in_tool: str) -> None:
    """STDIO-2, STDIO-3."""
    (tmp_path / "server.py").write_text(
        "import ctypes, os, subprocess\n"
        f"{at_import}\n"
        "from mcpkit import MCPKit\n"
        "app = MCPKit('prints')\n"
        "@app.tool\n"
        "def go() -> str:\n"
        f"    {in_tool or 'pass'}\n"
        "    return 'gone'\n"
    )
    with started([sys.executable, "-m", "mcpkit", "run", "server.py"], cwd=tmp_path) as server:
        assert server.text(call(1, "go")) == "gone"
        server.close_stdin()
        assert server.rest() == []
        assert ends_promptly(server) == 0
        server.wait_for_stderr("stray")
