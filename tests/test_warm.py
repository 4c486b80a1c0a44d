"""A process that is forked from one that has everything imported is what Python would be."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.kit import eventually
from tests.transports.processes import TIMEOUT, environment

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or "TESTS_COLD" in os.environ, reason="nothing is forked"
)

PROGRAMS = {
    "its arguments": "import os, sys\nprint(sys.argv, sys.path, sys.orig_argv, os.getcwd())",
    "what it is": "print(__name__, __file__, __package__, type(__loader__), __doc__)",
    "its streams": "import sys\nfor each in (sys.stdin, sys.stdout, sys.stderr): print(\n"
    "each, each.errors, each.line_buffering, each.write_through, each is sys.__stdin__)",
    "its signals": "import signal\nfor each in signal.valid_signals():\n"
    "    print(each, signal.getsignal(each))",
    "its warnings": "import sys, warnings\nprint(sys.warnoptions)\nwarnings.warn('beware')",
    "what it reads": "import sys\nprint(sys.stdin.read())",
    "a word at the end": "import sys\nsys.exit('no')",
    "an exception": "def f():\n    1 / 0\nf()",
    "an interrupt": "raise KeyboardInterrupt",
    "a syntax error": "def f(:",
    "a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "what is left to do": "import atexit\natexit.register(print, 'bye')\nprint('hello')",
    "a thread that never ends": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    "a thread that lives on": "import threading, time\n"
    "threading.Thread(target=lambda: time.sleep(0.05) or print('late')).start()",
}


def both(*args: str, **options: Any) -> list[tuple[int, str, str]]:
    """What comes of a command when Python is executed, and when it is forked."""
    options = {"env": environment(), "timeout": TIMEOUT, "encoding": "utf-8", **options}
    found = []
    for cold in (True, False):
        done = warm.run([sys.executable, *args], cold=cold, capture_output=True, **options)
        found.append((done.returncode, done.stdout, re.sub("0x[0-9a-f]+", "0x…", done.stderr)))
    return found


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_ends_and_prints_the_same(tmp_path: Path, program: str) -> None:
    (tmp_path / "file.py").write_text(program)
    executed, forked = both("-W", "error", "file.py", "a", "-b", cwd=tmp_path, input="é\n")
    assert forked == executed


STREAMS = (
    "import os, sys, time\nfor each in (sys.stdin, sys.stdout, sys.stderr):\n"
    "    print(each, each.line_buffering, each.write_through)\n"
    "print(sys.flags.utf8_mode, time.localtime(0), sorted(os.environ.items()))"
)


@pytest.mark.parametrize(
    ("args", "variables"),
    [
        (["missing.py"], {}),
        (["-m", "missing"], {}),
        (["-c", "import sys; print(sys.argv, sys.path, __name__)", "a"], {}),
        (["-c", "import os; print(os.listdir('/proc/self/fd'))"], {}),
        (["-B", "-c", "import sys; print(sys.dont_write_bytecode)"], {}),
        (["-m", "mcpkit", "--version"], {}),
        (["-X", "utf8", "-c", "import sys; print(sys.flags.utf8_mode)"], {}),
        (["-c", STREAMS], {"PYTHONUNBUFFERED": "1", "PYTHONUTF8": "1", "TZ": "Asia/Tokyo"}),
        (["-c", STREAMS], {"LC_ALL": "POSIX"}),
    ],
)
def test_a_command_ends_and_prints_the_same(
    tmp_path: Path, args: list[str], variables: dict[str, str]
) -> None:
    executed, forked = both(*args, cwd=tmp_path, env=environment(**variables))
    assert forked == executed


def test_no_other_process_holds_its_streams() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit(len(sys.stdin.read()))"]
    options: Any = {"stdin": subprocess.PIPE, "env": environment()}
    with warm.Popen(command, **options) as reader, warm.Popen(command, **options) as later:
        assert reader.stdin is not None
        reader.stdin.write(b"four")
        reader.stdin.close()
        assert reader.wait(TIMEOUT) == reader.poll() == reader.returncode == 4
        assert later.poll() is None


def test_it_ends_with_the_starter() -> None:
    starter = warm._Starter()
    request = {
        "executable": sys.executable,
        "args": ["-c", "import time; time.sleep(600)"],
        "cwd": "/",
        "env": environment(),
        "session": True,
    }
    with open(os.devnull, "r+b") as null, starter.ask(request, [null.fileno()] * 3) as asked_on:
        kind, pid = warm.read_report(asked_on)
        assert kind == "pid"
        assert os.getsid(pid) == pid
        starter.stop()
        eventually(lambda: not Path(f"/proc/{pid}").exists())
    assert not Path(starter.python).exists()


class TestAProgramThatStandsForPython:
    @staticmethod
    def run(code: str, *args: str, **options: Any) -> Any:
        return subprocess.run(
            [warm.python(), "-c", code, *args], env=environment(), timeout=TIMEOUT, **options
        )

    def test_it_prints_and_ends_as_ever(self) -> None:
        code = "import sys\nprint(sys.argv, input())\nsys.exit(4)"
        done = self.run(code, "a b", input=b"hello\n", capture_output=True)
        assert (done.returncode, done.stdout, done.stderr) == (4, b"['-c', 'a b'] hello\n", b"")

    def test_descriptors_are_inherited(self) -> None:
        ours, theirs = os.pipe()
        with open(ours, "rb") as reader:
            code = "import os, sys; os.write(int(sys.argv[1]), b'heard')"
            self.run(code, str(theirs), pass_fds=[theirs])
            os.close(theirs)
            assert reader.read() == b"heard"

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
    def test_signals_pass_in_both_directions(self, number: signal.Signals) -> None:
        done = self.run(f"import os; os.kill(os.getpid(), {int(number)})", capture_output=True)
        assert (done.returncode, done.stderr) == (-number, b"")
        code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
        command = [warm.python(), "-c", code]
        with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            process.send_signal(number)
            assert process.wait(TIMEOUT) == -number
            eventually(lambda: not Path(f"/proc/{pid}").exists())
