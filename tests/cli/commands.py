"""Commands as processes: on pipes, and at a terminal with a user."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.transports.processes import TIMEOUT, environment
from tests.warm import Popen, run

MCPKIT: Final = [sys.executable, "-m", "mcpkit"]
OFFERING: Final = str(Path(__file__).with_name("offering.py"))
"""A server with every kind of tool."""

SERVER: Final = (
    "from mcpkit import MCPKit\n"
    "app = MCPKit('hello')\n"
    "@app.tool\n"
    "def greet(name: str) -> str:\n"
    "    return f'Hello, {name}'\n"
)
"""The source of a server with one tool."""

ELICITING: Final = ("2025-06-18", "2025-11-25", "2026-07-28")
"""The revisions that can ask the user."""

_COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


_STUB: Final = """
import json, sys
answers = json.loads(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    found = answers.get(asked["method"], {"error": {"code": -32601, "message": "none"}})
    for each in found.get("before", ()):
        each.get("params", {}).setdefault("progressToken", asked["id"])
        print(json.dumps({"jsonrpc": "2.0", **each}), flush=True)
    kind = {name: found[name] for name in ("result", "error") if name in found}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **kind}), flush=True)
"""


def answering(answers: Mapping[str, Any], first: str = "") -> str:
    """The command of a server that answers methods with a result or error, after messages."""
    return shlex.join([sys.executable, "-c", f"{first}\n{_STUB}", json.dumps(answers)])


class Ended(NamedTuple):
    """What came of a command."""

    code: int
    stdout: str
    stderr: str

    @property
    def output(self) -> str:
        """What a command has printed that succeeds without a message."""
        assert (self.code, self.stderr) == (0, "")
        return self.stdout

    @property
    def refusal(self) -> str:
        """The only line of a command that could not do what it was told."""
        return single_line(self, 2)


def mcpkit(
    *arguments: str,
    input: bytes = b"",
    cwd: Path | None = None,
    env: Mapping[str, str] = {},
    cold: bool = False,
) -> Ended:
    """Run a command on pipes, to its end; `cold` as in `tests.warm`."""
    ended = run(
        [*MCPKIT, *arguments],
        cold=cold,
        within=True,
        input=input,
        cwd=cwd,
        env=environment(**env),
        capture_output=True,
        timeout=TIMEOUT,
    )
    return Ended(
        ended.returncode,
        ended.stdout.decode("utf-8", "surrogateescape"),
        ended.stderr.decode(),
    )


def single_line(ended: Ended, code: int = 2) -> str:
    """The only line of a command, which ends with this code."""
    assert (ended.code, ended.stdout) == (code, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith("mcpkit: ")
    return line.removeprefix("mcpkit: ")


class Step(NamedTuple):
    """Once `expected` has been shown: type `typed`, or do `done` with the process id."""

    expected: str
    typed: str = ""
    done: Callable[[int], object] | None = None


def at_terminal(
    *arguments: str,
    steps: Sequence[Step] = (),
    columns: int = 80,
    env: Mapping[str, str] = {},
    raw: bool = False,
    code: int = 0,
) -> str:
    """Run a command at a terminal, and return everything that was shown.

    All steps must be reached, and the exit code. `raw` leaves colours and movements in.
    """
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    variables = environment(**{"TERM": "xterm-256color", **env})
    for name in ("NO_COLOR", "COLUMNS", "TERM_PROGRAM"):
        if name not in env:
            variables.pop(name, None)
    process = Popen(
        [*MCPKIT, *arguments],
        within=True,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=variables,
        start_new_session=True,
    )
    os.close(slave)
    try:
        shown = _converse(master, process.pid, list(steps))
        found = process.wait(TIMEOUT)
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert found == code, shown
    text = shown.decode("utf-8", "replace").replace("\r\n", "\n")
    return text if raw else _COLOURS.sub("", text)


def _converse(master: int, pid: int, steps: list[Step]) -> bytes:
    shown, seen = b"", 0
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        if select.select([master], [], [], 0.1)[0]:
            try:
                data = os.read(master, 65536)
            except OSError:  # Linux: all other ends are closed
                data = b""
            if not data:
                assert not steps, f"{steps[0].expected!r} was not shown: {shown!r}"
                return shown
            shown += data
        while steps and steps[0].expected.encode() in shown[seen:]:
            step = steps.pop(0)
            seen = shown.index(step.expected.encode(), seen) + len(step.expected.encode())
            if step.done is not None:
                step.done(pid)
            else:
                os.write(master, step.typed.encode())
    raise AssertionError(f"not at its end after {TIMEOUT} s: {shown!r}")


def change(folder: Path, source: str) -> None:
    """Change a server, without a moment at which half of it is there."""
    (folder / "server.new").write_text(source)
    (folder / "server.new").replace(folder / "server.py")


def interrupt(pid: int) -> None:
    """Press Ctrl-C, for one process only."""
    os.kill(pid, signal.SIGINT)
