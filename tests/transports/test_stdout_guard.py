"""On stdio, nothing but protocol messages reaches stdout (STDIO-1, STDIO-2).

Every test starts a process and looks at its descriptors. Most import the guard by itself: the rest
of mcpkit takes longer to import than Python takes to start.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TIMEOUT = 30.0
NOTE = "which carries the protocol; it goes to stderr instead (shown once)"
GUARD = REPOSITORY / "mcpkit" / "transports" / "stdio"
IMPORT = "from redirect import take_over\n"
TAKE_OVER = "import os, sys\n" + IMPORT + "streams = take_over()\n"
FIRST_LINE_AFTER = TAKE_OVER.count("\n") + 1
ANSWER = 'os.write(streams.writer, b"answer\\n")\n'

needs_posix = pytest.mark.skipif(os.name == "nt", reason="uses a POSIX shell or C library")


Run: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a program as `server.py`, with the given shell redirections applied (`closed=">&-"`)."""

    def start(
        program: str, *, stdin: str = "", closed: str = "", encoding: str = "utf-8"
    ) -> subprocess.CompletedProcess[str]:
        (tmp_path / "server.py").write_text(program, encoding="utf-8")
        command = [sys.executable, "-B", "-X", "dev", "-W", "error", "server.py"]
        if closed:
            command = ["sh", "-c", f'exec "$0" "$@" {closed}', *command]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environment |= {
            "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{GUARD}",
            "PYTHONIOENCODING": encoding,
        }
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=TIMEOUT,
        )

    return start


WAYS_TO_PRINT = {
    "print": "print('stray')",
    "print, flushed": "print('stray', flush=True)",
    "print without a line end": "print('stray', end='')",
    "sys.stdout.writelines": "sys.stdout.writelines(['stray\\n'])",
    "sys.__stdout__": "print('stray', file=sys.__stdout__)",
    "sys.stdout.buffer": "sys.stdout.buffer.write(b'stray\\n')",
    "sys.stdout.buffer.raw": "sys.stdout.buffer.raw.write(b'stray\\n')",
    "a wrapper around the buffer": (
        "import io; sys.stdout = io.TextIOWrapper(sys.stdout.detach()); print('stray')"
    ),
    "descriptor 1": "os.write(1, b'stray\\n')",
    "logging": ("import logging; logging.basicConfig(stream=sys.stdout); logging.warning('stray')"),
    "a thread": (
        "import threading; t = threading.Thread(target=print, args=('stray',)); t.start(); t.join()"
    ),
    "an exit handler": "import atexit; atexit.register(print, 'stray')",
    "a Python child process": (
        "import subprocess; subprocess.run([sys.executable, '-c', 'print(\"stray\")'], check=True)"
    ),
    "a shell command": "os.system('echo stray')",
    "a spawned worker": (
        "import multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    p = multiprocessing.get_context('spawn').Process(target=print, args=('stray',))\n"
        "    p.start(); p.join()"
    ),
}


@pytest.mark.parametrize("statement", WAYS_TO_PRINT.values(), ids=WAYS_TO_PRINT.keys())
def test_a_print_arrives_on_stderr_only(run: Run, statement: str) -> None:
    """STDIO-2."""
    guarded = TAKE_OVER.replace("streams = ", "streams = __name__ == '__main__' and ")
    answer = "if __name__ == '__main__': " + ANSWER
    outcome = run(guarded + statement + "\n" + answer)

    assert outcome.stdout == "answer\n"
    assert "stray" in outcome.stderr
    assert outcome.returncode == 0


@needs_posix
def test_a_c_library_and_text_buffered_before_go_to_stderr(run: Run) -> None:
    """STDIO-2."""
    puts = "import ctypes; c = ctypes.CDLL(None); c.puts(b'stray'); c.fflush(None)\n"
    outcome = run("print('early ', end='')\n" + TAKE_OVER + puts + ANSWER + "os._exit(0)\n")

    assert (outcome.stdout, outcome.stderr) == ("answer\n", "early stray\n")


def test_the_input_is_hidden_from_the_program(run: Run) -> None:
    """`input` raises instead of waiting."""
    read = (
        "import subprocess\n"
        "print(repr(sys.stdin.read()), file=sys.stderr)\n"
        "print(repr(sys.__stdin__.read()), file=sys.stderr)\n"
        "print(repr(os.read(0, 99).decode()), file=sys.stderr, flush=True)\n"
        "child = 'import sys; print(repr(sys.stdin.read()), file=sys.stderr)'\n"
        "subprocess.run([sys.executable, '-c', child], check=True)\n"
        "input('name? ')\n"
    )
    outcome = run(TAKE_OVER + read, stdin="ping\n")

    assert outcome.stderr.splitlines()[:4] == ["''"] * 4
    assert outcome.stderr.endswith("EOFError: EOF when reading a line\n")


@pytest.mark.parametrize(
    "closed",
    [
        "",
        pytest.param("<&-", marks=needs_posix),
        pytest.param("2>&-", marks=needs_posix),
        pytest.param("<&- 2>&-", marks=needs_posix),
    ],
)
def test_only_two_private_descriptors_are_added(run: Run, closed: str) -> None:
    """Above 2, and not inheritable."""
    program = (
        "import os\n" + IMPORT + "def in_use(): return {d for d in range(64) if is_open(d)}\n"
        "def is_open(d):\n"
        "    try: os.fstat(d)\n"
        "    except OSError: return False\n"
        "    return True\n"
        "before = {0, 1, 2} | in_use(); streams = take_over()\n"
        "both = {streams.reader, streams.writer}\n"
        "report = [in_use() - before == both, *(os.get_inheritable(d) for d in both)]\n"
        "os.write(streams.writer, repr(report).encode())\n"
    )
    assert run(program, closed=closed).stdout == "[True, False, False]"


# The note


def test_the_first_offender_is_named_by_file_and_line(run: Run) -> None:
    """Here with the guard as it is imported in a server."""
    module = "mcpkit.transports.stdio.redirect"
    outcome = run(TAKE_OVER.replace("redirect", module) + "print('stray')\n")

    place = f"server.py:{FIRST_LINE_AFTER}"
    assert outcome.stderr == f"mcpkit: {place} printed to stdout, {NOTE}\nstray\n"


def test_one_of_many_printing_threads_is_named(run: Run) -> None:
    race = (
        "import threading\n"
        "start = threading.Barrier(8, timeout=20)\n"
        "def stray(): start.wait(); print('stray')\n"
        "threads = [threading.Thread(target=stray) for _ in range(8)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
    )
    outcome = run(TAKE_OVER + race)

    assert (outcome.stderr.count(NOTE), outcome.stderr.count("stray\n")) == (1, 8)


@pytest.mark.parametrize(
    ("statement", "place"),
    [
        ("sys.stdout.buffer.write(b'x')", f"server.py:{FIRST_LINE_AFTER}"),
        (
            "import codecs; codecs.getwriter('utf-8')(sys.stdout.buffer).write('x')",
            f"server.py:{FIRST_LINE_AFTER}",
        ),
        (WAYS_TO_PRINT["logging"], f"server.py:{FIRST_LINE_AFTER}"),
        ("import noisy", "noisy.py:3"),
        (WAYS_TO_PRINT["an exit handler"], "native code"),
    ],
    ids=["buffer", "a frozen module", "logging", "at import", "without a line of Python"],
)
def test_the_line_named_is_not_in_the_standard_library(
    run: Run, tmp_path: Path, statement: str, place: str
) -> None:
    (tmp_path / "noisy.py").write_text("\n\nprint('stray')\n")
    outcome = run(TAKE_OVER + statement)

    assert outcome.stderr.startswith(f"mcpkit: {place} printed")


@needs_posix
def test_a_signal_handler_may_print_during_the_first_print(run: Run) -> None:
    interrupted = (
        "import signal\n"
        "signal.signal(signal.SIGUSR1, lambda *_: print('inner'))\n"
        "original = os.getcwd\n"
        "def interrupt():\n"
        "    os.getcwd = original; os.kill(os.getpid(), signal.SIGUSR1); return original()\n"
        "os.getcwd = interrupt\n"
        "print('outer')\n"
    )
    outcome = run(TAKE_OVER + interrupted)

    assert (outcome.stderr.count(NOTE), outcome.returncode) == (1, 0)
    assert "inner\n" in outcome.stderr
    assert "outer\n" in outcome.stderr


# The streams that take the place of sys.stdin and sys.stdout


FACTS = [
    "sys.stdout.fileno() == 1",
    "sys.stdout.isatty() is False",
    "sys.stdout.encoding == sys.stderr.encoding",
    "sys.stdout.errors == 'backslashreplace'",
    "sys.stdout.line_buffering is True",
    "sys.stdout.writable() and not sys.stdout.readable()",
    "sys.stdout.write('four') == 4",
    "sys.stdout.buffer.write(b'four') == 4",
    "sys.stdout is sys.__stdout__",
    "sys.stdin is sys.__stdin__",
    "sys.stdin.fileno() == 0",
    "take_over() is streams",
    "before == (sys.stdin, sys.stdout)",
]


def test_the_new_streams_behave_like_the_usual_ones(run: Run) -> None:
    """A second call changes nothing, and what is empty is not logged."""
    empty = (
        "before = sys.stdin, sys.stdout\n"
        "print('', end='', flush=True)\n"
        "assert sys.stdout.buffer.write(b'') == 0\n"
        "os.write(2, b'nothing before')\n"
    )
    look = f"wrong = [fact for fact in {FACTS!r} if not eval(fact)]\n"
    outcome = run(TAKE_OVER + empty + look + "os.write(streams.writer, repr(wrong).encode())\n")

    assert (outcome.stdout, outcome.returncode) == ("[]", 0), outcome.stderr
    assert outcome.stderr.startswith("nothing before")


def test_characters_that_stderr_lacks_are_escaped(run: Run) -> None:
    outcome = run(TAKE_OVER + "print('caf\\u00e9 \\udc80')\n", encoding="ascii")

    assert outcome.stderr.endswith("\ncaf\\xe9 \\udc80\n")


def test_a_stdout_that_already_goes_elsewhere_is_kept(run: Run) -> None:
    redirected = (
        "import contextlib, io, os\n"
        + IMPORT
        + "with contextlib.redirect_stdout(io.StringIO()) as text:\n"
        "    streams = take_over(); print('caught')\n"
        "os.write(streams.writer, text.getvalue().encode())\n"
    )
    outcome = run(redirected)

    assert (outcome.stdout, outcome.stderr) == ("caught\n", "")


# Descriptors that arrive closed


@needs_posix
def test_a_closed_stdin_is_at_its_end(run: Run) -> None:
    """STDIO-4: the server sees EOF and can exit."""
    read = "os.write(streams.writer, repr((os.read(streams.reader, 9), sys.stdin.read())).encode())"
    outcome = run(TAKE_OVER + read, stdin="ping", closed="<&-")

    assert (outcome.stdout, outcome.stderr) == ("(b'', '')", "")


@needs_posix
@pytest.mark.parametrize("closed", [">&-", "<&- >&-"])
@pytest.mark.parametrize(
    "before", ["", "import os\nassert os.open('data', os.O_CREAT | os.O_WRONLY) <= 1\n"]
)
def test_a_closed_stdout_is_an_error_of_one_line(run: Run, closed: str, before: str) -> None:
    """Also if a file has taken its number."""
    outcome = run(before + TAKE_OVER, closed=closed)

    assert outcome.stderr.splitlines()[-1].startswith("RuntimeError: stdout is closed, so ")


@needs_posix
@pytest.mark.parametrize("closed", ["2>&-", "<&- 2>&-"])
def test_with_stderr_closed_a_print_is_lost(run: Run, closed: str, tmp_path: Path) -> None:
    """Nor to a file that has taken its number."""
    program = TAKE_OVER + "print('stray', flush=True)\nos.write(1, b'stray')\n" + ANSWER
    opened = "import os\nos.open('data', os.O_CREAT | os.O_WRONLY)\n"
    for before in ("", opened):
        outcome = run(before + program, closed=closed)
        assert (outcome.stdout, outcome.returncode) == ("answer\n", 0)
    assert (tmp_path / "data").read_bytes() == b""


@needs_posix
def test_a_failure_leaves_everything_as_it_was(run: Run) -> None:
    program = (
        "import os, resource, sys\n" + IMPORT + "import encodings.ascii\n"
        "limits = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "free = os.dup(1); os.close(free)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (free + 2, limits[1]))\n"
        "try:\n"
        "    take_over()\n"
        "except OSError as error:\n"
        "    print('refused', os.dup(1) == free)\n"
    )
    outcome = run(program)

    assert (outcome.stdout, outcome.stderr) == ("refused True\n", "")


# Cost


def test_the_module_imports_no_event_loop_and_no_subprocess() -> None:
    program = (
        "import sys; sys.path.insert(0, 'mcpkit/transports/stdio'); import redirect\n"
        "print({'asyncio', 'logging', 'subprocess', 'typing'} & set(sys.modules) or 'none')"
    )
    outcome = subprocess.run(
        [sys.executable, "-B", "-S", "-c", program],
        cwd=REPOSITORY,
        capture_output=True,
        encoding="utf-8",
        timeout=TIMEOUT,
    )
    assert (outcome.stdout, outcome.stderr) == ("none\n", "")
