"""A host that does not read stderr does not hold up ``mcpkit run`` on stdio."""

from __future__ import annotations

import io
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from mcpkit.transports.stdio import redirect as stderr
from tests.kit import eventually
from tests.transports.processes import call, started

COMMAND = [sys.executable, "-m", "mcpkit", "run", "server.py"]
SERVER = """
import logging, os, sys, warnings
from mcpkit import Context, MCPKit

if "FINISH" in os.environ:
    from mcpkit.transports.stdio import redirect
    assert redirect._FINISH_S
    redirect._FINISH_S = float(os.environ["FINISH"])

app = MCPKit("noisy")
LINE = "x" * 99
log = logging.getLogger("noisy")

def flood(line):
    how = os.environ["HOW"]
    if how == "log":
        log.warning(line)
    elif how == "print to stderr":
        print(line, file=sys.stderr, flush=True)
    elif how == "print":
        print(line)
    elif how == "bytes":
        sys.stderr.buffer.write(line.encode() + b"\\n")

@app.tool
async def noise(lines: int, text: str = LINE) -> int:
    for number in range(lines):
        flood(f"{number} {text}")
    return lines

@app.tool
async def fail() -> None:
    raise ValueError("on purpose")

@app.tool
async def printed() -> None:
    print("printed")

@app.tool
async def last_words() -> None:
    print("the last words", file=sys.stderr)
    os._exit(3)
"""
HOW = ["log", "print to stderr", "print", "bytes"]
NOTE = "dropped here, because stderr was not read"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "server.py").write_text(SERVER)
    return tmp_path


KINDS = [*((how, "pipe") for how in HOW), ("log", "socket")]
if sys.platform == "win32":  # sockets are not file descriptors there
    KINDS.pop()

MUCH = 20_000
"""Lines, of which neither a pipe nor what waits in memory holds all."""


@pytest.mark.parametrize(("how", "kind"), KINDS)
def test_a_host_that_does_not_read_stderr_is_served(folder: Path, how: str, kind: str) -> None:
    """What is left out is counted."""
    options: dict[str, Any] = {}
    if kind == "socket":  # as of hosts on Node
        ours, options["stderr"] = socket.socketpair()
        options["stderr_end"] = ours.makefile("rb")
        ours.close()
    with started(COMMAND, cwd=folder, env={"HOW": how}, hearing=False, **options) as server:
        answer = server.ask(call(1, "noise", lines=MUCH))
        assert answer["result"]["structuredContent"] == {"result": MUCH}
        server.hear()
        server.wait_for_stderr(NOTE)
        server.ask(call(2, "noise", lines=1, text="again"))
        server.close_stdin()
        assert server.exit_code() == 0
    lines = [line for line in server.stderr.splitlines() if "printed to stdout" not in line]
    [place] = [index for index, line in enumerate(lines) if NOTE in line]
    count = int(lines[place].split()[1])
    assert lines[place] == f"mcpkit: {count} lines {NOTE}"
    assert place + count == MUCH
    assert lines[-1].endswith("0 again")


def test_a_host_may_leave_without_having_read_stderr(folder: Path) -> None:
    env = {"HOW": "log", "FINISH": "0.05"}
    with started(COMMAND, cwd=folder, env=env, hearing=False) as server:
        server.ask(call(1, "noise", lines=MUCH))
        server.close_stdin()
        assert server.exit_code() == 0


def test_the_first_print_after_many_log_records_does_not_wait(folder: Path) -> None:
    """The line that prints to stdout is named."""
    with started(COMMAND, cwd=folder, env={"HOW": "log"}, hearing=False) as server:
        server.ask(call(1, "noise", lines=700))  # more than a pipe takes
        server.ask(call(2, "printed"))
        server.hear()
        server.close_stdin()
        assert server.exit_code() == 0
    *_, place, printed = server.stderr.splitlines()
    assert re.match(r"mcpkit: server\.py:.* printed to stdout", place)
    assert printed == "printed"


@pytest.mark.parametrize("how", HOW)
def test_everything_arrives_in_order_where_stderr_is_read(folder: Path, how: str) -> None:
    with started(COMMAND, cwd=folder, env={"HOW": how}) as server:
        server.ask(call(1, "noise", lines=3000, text="ü"))
        server.close_stdin()
        assert server.exit_code() == 0
        eventually(lambda: server.stderr.endswith("2999 ü\n"))
        lines = [line for line in server.stderr.splitlines() if "printed to stdout" not in line]
    assert [int(line.split()[-2]) for line in lines] == list(range(3000))


def test_what_others_write_is_shown(folder: Path) -> None:
    """A traceback, the output of a process that the server starts, and its last words."""
    (folder / "server.py").write_text(
        SERVER + "\nimport subprocess\n@app.tool\ndef other() -> None:\n"
        "    subprocess.run(['echo', 'from another'], stdout=sys.stderr, check=True)\n"
    )
    with started(COMMAND, cwd=folder) as server:
        server.ask(call(1, "fail"))
        server.wait_for_stderr("ValueError: on purpose")
        server.ask(call(2, "other"))
        server.wait_for_stderr("from another\n")
        if sys.platform != "win32":  # where a thread writes
            server.send(call(3, "last_words"))
            assert server.exit_code() == 3
            server.wait_for_stderr("the last words\n")


def test_a_server_behind_reload_is_not_held_up_either(folder: Path) -> None:
    more = "\n@app.tool\ndef more() -> int:\n    return 1\n"
    command, env = [*COMMAND, "--reload"], {"HOW": "log"}
    with started(command, cwd=folder, env=env, hearing=False) as server:
        server.ask(call(1, "noise", lines=MUCH))
        (folder / "server.py").write_text(SERVER + more)
        number = iter(range(2, 10_000))

        def is_reloaded() -> bool:
            result = server.ask(call(next(number), "more")).get("result", {"isError": True})
            return result.get("isError") is not True

        eventually(is_reloaded)
        server.close_stdin()
        assert server.exit_code() == 0


@pytest.mark.parametrize("how", [*HOW, "closed"])
def test_a_stderr_that_takes_nothing(folder: Path, how: str) -> None:
    """A full disk, or a host that has closed it."""
    if how != "closed" and not os.path.exists("/dev/full"):
        pytest.skip("no full device there")
    env = {"HOW": "log" if how == "closed" else how}
    full = subprocess.PIPE if how == "closed" else open("/dev/full", "wb")  # noqa: SIM115
    with started(COMMAND, cwd=folder, env=env, stderr=full, hearing=False) as server:
        if server.stderr_end is not None:
            server.stderr_end.close()
        answer = server.ask(call(1, "noise", lines=10))
        assert answer["result"]["structuredContent"] == {"result": 10}
        server.close_stdin()
        assert server.exit_code() == 0


# --- by itself ------------------------------------------------------------------------------------


class TestStderrRaw:
    @pytest.fixture
    def pipe(self) -> Iterator[tuple[IO[bytes], int]]:
        ours, theirs = os.pipe()
        with open(ours, "rb") as reader:
            yield reader, theirs
            os.close(theirs)

    @pytest.mark.parametrize("in_thread", [False, True])
    def test_it_never_waits(
        self, pipe: tuple[IO[bytes], int], monkeypatch: pytest.MonkeyPatch, in_thread: bool
    ) -> None:
        if in_thread:
            monkeypatch.setattr(stderr, "open_writer", lambda fd: None)
        reader, fd = pipe
        raw = stderr.StderrRaw(fd)
        line = b"x" * 99 + b"\n"
        for _ in range(MUCH):
            assert raw.write(line) == len(line)
            raw.flush()
        count = 0
        while count < MUCH:  # a thread may make room in between
            found = reader.readline()
            note = re.fullmatch(rb"mcpkit: (\d+) lines? (.*)\n", found)
            assert found == line or (note is not None and note[2] == NOTE.encode())
            count += 1 if note is None else int(note[1])
        assert count == MUCH
        raw.write(b"again\n")
        assert reader.readline() == b"again\n"

    @pytest.mark.parametrize(
        ("end", "lines"), [(b"", "1 line"), (b"\n", "1 line"), (b"\n\n", "2 lines")]
    )
    def test_lines_that_are_left_out_are_counted(
        self, pipe: tuple[IO[bytes], int], end: bytes, lines: str
    ) -> None:
        reader, fd = pipe
        raw = stderr.StderrRaw(fd)
        raw.write(b"x" * stderr.MAX_WAITING_BYTES + b"\n")
        raw.write(b"y" * stderr.MAX_WAITING_BYTES + end)
        raw.write(b"z\n")
        assert reader.readline() == b"x" * stderr.MAX_WAITING_BYTES + b"\n"
        note = f"mcpkit: {lines} dropped here, because stderr was not read\n"
        assert reader.readline() == note.encode()
        assert reader.readline() == b"z\n"


def test_a_stream_that_the_program_has_replaced_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine = io.StringIO()
    monkeypatch.setattr(sys, "stderr", mine)
    stderr.never_block()
    assert sys.stderr is mine
