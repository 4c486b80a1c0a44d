"""A process that is forked from one that has everything imported is what Python would be."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.transports.processes import TIMEOUT, environment, until

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or "TESTS_COLD" in os.environ, reason="nothing is forked"
)

PROGRAMS = {
    "nothing": "",
    "what it is told": "import os, sys\nprint(sys.argv, sys.path, sys.orig_argv, os.getcwd())",
    "what it is": "print(\n"
    "__name__, __file__, __spec__ and __spec__.name, __package__, type(__loader__), __doc__)",
    "its streams": "import sys\nfor each in (sys.stdin, sys.stdout, sys.stderr): print(\n"
    "each, each.errors, each.line_buffering, each.write_through, each is sys.__stdin__)",
    "its signals": "import signal\nfor each in signal.valid_signals():\n"
    "    print(each, signal.getsignal(each))",
    "its warnings": "import sys, warnings\nprint(sys.warnoptions)\nwarnings.warn('beware')",
    "what it reads": "import sys\nprint(sys.stdin.read())",
    "its threads": "from threading import current_thread, enumerate, main_thread\n"
    "print(current_thread().name, current_thread() is main_thread(), len(enumerate()))",
    "a word at the end": "import sys\nsys.exit('no')",
    "a number at the end": "import sys\nsys.exit(3)",
    "a number that is too large": "import sys\nsys.exit(259)",
    "what cannot be written": "import os\nprint('lost')\nos.close(1)",
    "an exception": "def f():\n    1 / 0\nf()",
    "an interrupt": "raise KeyboardInterrupt",
    "a missing module": "import mcpkit.nothing",
    "no Python": "def f(:",
    "a signal": "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)",
    "a sudden end": "import os\nprint('lost')\nos._exit(7)",
    "what is left to do": "import atexit\natexit.register(print, 'bye')\nprint('hello')",
    "what lives on": "class A:\n    def __del__(self): print('gone')\na = A()",
    "what a module of its own holds": "import sys, types\n"
    "class A:\n    def __del__(self): print('gone', sys.stdout is sys.__stdout__)\n"
    "sys.modules['held'] = held = types.ModuleType('held')\nheld.a = A()\nheld.itself = held",
    "what others hold of its modules": "import sys, threading, types\n"
    "class A:\n    def __del__(self): print('gone')\n"
    "sys.modules['held'] = threading.held = types.ModuleType('held')\nthreading.held.a = A()",
    "a file that is left open": "file = open(__file__)",
    "a stream of its own": "import sys\nsys.stdout = open(1, 'w', closefd=False)\nprint('kept')",
    "a thread that never ends": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()",
    "a thread that lives on": "import threading, time\n"
    "threading.Thread(target=lambda: time.sleep(0.05) or print('late')).start()",
    "a loop that is left open": "import asyncio\nloop = asyncio.new_event_loop()",
    "its own hook": "import sys\nsys.excepthook = lambda *a: print('mine', a[0])\n1 / 0",
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
def test_a_file_ends_and_prints_as_ever(tmp_path: Path, program: str) -> None:
    (tmp_path / "file.py").write_text(program)
    executed, forked = both("-W", "error", "file.py", "a", "-b", cwd=tmp_path, input="é\n")
    assert forked == executed


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_a_module_ends_and_prints_as_ever(tmp_path: Path, program: str) -> None:
    (tmp_path / "module.py").write_text(program)
    executed, forked = both("-m", "module", "a", "-b", cwd=tmp_path, input="é\n")
    assert forked == executed


@pytest.mark.parametrize(
    "args",
    [
        ["missing.py"],
        ["-m", "missing"],
        ["-c", "import sys; print(sys.argv, sys.path, __name__)", "a"],
        ["-c", "1 / 0"],
        ["-B", "-c", "import sys; print(sys.dont_write_bytecode)"],
        ["-m", "mcpkit", "--version"],
        ["-m", "mcpkit", "run", "missing.py"],
    ],
    ids=" ".join,
)
def test_a_command_ends_and_prints_as_ever(tmp_path: Path, args: list[str]) -> None:
    executed, forked = both(*args, cwd=tmp_path)
    assert forked == executed


@pytest.mark.parametrize(
    ("name", "value"),
    [("PYTHONUNBUFFERED", "1"), ("PYTHONUTF8", "1"), ("LC_ALL", "POSIX"), ("TZ", "Asia/Tokyo")],
)
def test_variables_count_as_ever(tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / "file.py").write_text(
        "import os, sys, time\nfor each in (sys.stdin, sys.stdout, sys.stderr):\n"
        "    print(each, each.line_buffering, each.write_through)\n"
        "print(sys.flags.utf8_mode, time.localtime(0), sorted(os.environ.items()))"
    )
    executed, forked = both("file.py", cwd=tmp_path, env=environment(**{name: value}))
    assert forked == executed


def test_it_has_no_descriptors_but_its_own() -> None:
    code = "import os; print(os.listdir('/proc/self/fd'))"
    executed, forked = both("-c", code)
    assert forked == executed == (0, "['0', '1', '2', '3']\n", "")


@pytest.fixture
def reader() -> Any:
    """A process that reads to the end."""
    command = [sys.executable, "-c", "import sys; sys.exit(len(sys.stdin.read()))"]
    pipe = subprocess.PIPE
    with warm.Popen(command, stdin=pipe, env=environment()) as process:
        yield process
        process.kill()


def test_no_other_holds_its_streams(reader: warm.Popen) -> None:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with warm.Popen(command, stdin=pipe, env=environment()) as later:
        assert reader.stdin is not None
        reader.stdin.write(b"four")
        reader.stdin.close()
        assert reader.wait(TIMEOUT) == 4
        assert later.poll() is None


def test_it_is_waited_for_no_longer_than_asked(reader: warm.Popen) -> None:
    before = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        reader.wait(0.05)
    assert time.monotonic() - before >= 0.05
    assert reader.poll() is None


def test_it_gets_signals(reader: warm.Popen) -> None:
    reader.send_signal(signal.SIGTERM)
    assert reader.wait(TIMEOUT) == reader.poll() == reader.returncode == -signal.SIGTERM


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
        kind, pid = warm._told(asked_on)
        assert kind == "pid"
        assert os.getsid(pid) == pid
        starter.stop()
        until(lambda: not Path(f"/proc/{pid}").exists())
    assert not Path(starter.python).exists()


class TestAProgramThatStandsForPython:
    def test_it_prints_and_ends_as_ever(self, tmp_path: Path) -> None:
        (tmp_path / "file.py").write_text("import os, sys\nprint(sys.argv, input())\nsys.exit(4)")
        done = subprocess.run(
            [warm.python(), "file.py", "a b"],
            cwd=tmp_path,
            env=environment(),
            input=b"hello\n",
            capture_output=True,
            timeout=TIMEOUT,
        )
        assert (done.returncode, done.stderr) == (4, b"")
        assert done.stdout == b"['file.py', 'a b'] hello\n"

    def test_what_cannot_be_forked_is_executed(self) -> None:
        done = subprocess.run(
            [warm.python(), "-X", "utf8", "-c", "import sys; print(sys.flags.utf8_mode)"],
            env=environment(),
            capture_output=True,
            timeout=TIMEOUT,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"1\n", b"")

    def test_descriptors_are_inherited(self) -> None:
        code = "import os, sys; os.write(int(sys.argv[1]), b'heard')"
        ours, theirs = os.pipe()
        with open(ours, "rb") as reader:
            command = [warm.python(), "-c", code, str(theirs)]
            subprocess.run(command, env=environment(), pass_fds=[theirs], timeout=TIMEOUT)
            os.close(theirs)
            assert reader.read() == b"heard"

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
    def test_it_ends_by_the_signal_that_ends_the_process(self, number: signal.Signals) -> None:
        code = f"import os; os.kill(os.getpid(), {int(number)})"
        done = subprocess.run(
            [warm.python(), "-c", code], env=environment(), capture_output=True, timeout=TIMEOUT
        )
        assert done.returncode == -number
        assert b"relay.py" not in done.stderr

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
    def test_it_passes_signals_on(self, tmp_path: Path, number: signal.Signals) -> None:
        code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
        command = [warm.python(), "-c", code]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=environment(), stdout=pipe, stderr=pipe) as process:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            process.send_signal(number)
            assert process.wait(TIMEOUT) == -number
            until(lambda: not Path(f"/proc/{pid}").exists())
