"""Processes of this Python that do not wait for it to start and to import.

`Popen` and `run` are those of `subprocess`. A command that is this Python with a module or a file
is forked from a process that has imported everything already (`tests.starter`): one for each
process that runs tests, which starts on first use and ends with it. What comes of it is a real
process with real streams, signals, folder, environment and end. Executed as ever is every other
command, every one that is ``cold``, and everything

- with options or variables that act when Python starts (but for ``-W``, ``-B`` and a few
  variables), or in another locale,
- in a folder and with a path where no mcpkit is found, since the starter has imported it,
- on systems other than Linux: Windows cannot fork, and macOS's frameworks do not survive it,
- while the environment has ``TESTS_COLD``, which is how to see whether a failure is due to this.

What such a process does not show is whatever has to do with importing: that a module lacks an
import which another one makes, when modules load, warnings while mcpkit is imported; nor how much
memory it needs, nor what libraries in C do when a process ends. Tests of those execute Python, and
so does at least one test of each command.
"""

from __future__ import annotations

import atexit
import marshal
import math
import os
import select
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Final

_ROOT: Final = Path(__file__).resolve().parents[1]
_PATIENCE: Final = 30.0
"""Seconds that the starter may take to start, and to start another."""


class _Starter:
    """The process that forks.

    Attributes:
        python: A program that stands for this Python and has the starter run its arguments.
        within: The same, and what it runs takes it for the Python that it runs with.
    """

    def __init__(self) -> None:
        folder = tempfile.mkdtemp(prefix="mcpkit-tests-")
        self._address = os.path.join(folder, "starter")
        self._popen = subprocess.Popen(
            [sys.executable, "-c", f"from tests.starter import main; main({self._address!r})()"],
            cwd=_ROOT,
            env={name: value for name, value in os.environ.items() if "PYTHON" not in name},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the tests
        )
        assert self._popen.stdout is not None
        assert self._popen.stderr is not None
        ready = _readable(self._popen.stdout, _PATIENCE) and self._popen.stdout.read(1)
        if not ready:
            self._popen.kill()
            raise RuntimeError(f"the starter does not start: {self._popen.stderr.read().decode()}")
        self.python = os.path.join(folder, "python")
        self.within = os.path.join(folder, "python-within")
        for program, executable in ((self.python, sys.executable), (self.within, self.within)):
            _write_program(program, f'exec {self.relay(executable)} "$@"')

    def relay(self, executable: str) -> str:
        """A command of a shell that stands for Python.

        Args:
            executable: What it has as `sys.executable`.
        """
        file = str(_ROOT / "tests" / "relay.py")
        return shlex.join([sys.executable, "-I", "-S", file, self._address, executable])

    def ask(self, request: dict[str, Any], streams: Sequence[int]) -> socket.socket:
        """Ask for a process; return the socket that reports its id and its exit code."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.settimeout(_PATIENCE)
            connection.connect(self._address)
            socket.send_fds(connection, [marshal.dumps(request)], streams)
        except BaseException:
            connection.close()
            raise
        return connection

    def stop(self) -> None:
        """End it."""
        with self._popen as popen:
            assert popen.stdin is not None
            popen.stdin.close()


_starter: _Starter | None = None
_starting: Final = threading.Lock()


def _started() -> _Starter | None:
    """The starter; None where there is none."""
    global _starter
    if sys.platform != "linux" or "TESTS_COLD" in os.environ:
        return None
    with _starting:
        if _starter is None:
            _starter = _Starter()
            atexit.register(_starter.stop)
        return _starter


def python(*, within: bool = False) -> str:
    """A program that stands for this Python, for what starts processes by itself.

    Its arguments are run in a fork, as by `Popen`. That is a process beside its own, which gets
    its signals and ends with it; but the process id is another.

    Args:
        within: As for `Popen`.
    """
    starter = _started()
    if starter is None:
        return sys.executable
    return starter.within if within else starter.python


def put_programs(folder: Path) -> None:
    """Write programs ``mcpkit`` and ``python``, for shells.

    They and what they start are forked, as by `Popen`; but pytest is executed, which wants to
    import modules itself. The Python that ``mcpkit install`` writes down is that of the tests.
    """
    starter = _started()
    if starter is not None:
        code = "import sys; sys.argv[0] = 'mcpkit'; from mcpkit.cli import main; main()"
        main = f'-c {shlex.quote(code)} "$@"'
        install = f'[ "$1" != install ] || exec {starter.relay(sys.executable)} {main}'
        within = starter.relay(starter.within)
        _write_program(str(folder / "mcpkit"), f"{install}\nexec {within} {main}")
        pytest = f'[ "$1 $2" != "-m pytest" ] || exec {shlex.quote(sys.executable)} "$@"'
        _write_program(str(folder / "python"), f'{pytest}\nexec {within} "$@"')


def _write_program(path: str, script: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{script}\n")
    os.chmod(path, 0o700)


class Popen(subprocess.Popen[Any]):
    """As in `subprocess`.

    Args:
        cold: Whether Python is to be executed, even where that could be saved.
        within: Whether what it starts itself with `sys.executable` is forked too: that is then
            `python`.
    """

    def __init__(
        self, args: Any, *, cold: bool = False, within: bool = False, **options: Any
    ) -> None:
        self._asked_on: socket.socket | None = None
        self._asking = threading.Lock()
        self._cold = cold
        self._within = within
        super().__init__(args, **options)

    # The one place where `subprocess` starts something, with everything prepared.
    def _execute_child(self, *given: Any) -> None:
        args, executable, before, _, kept, cwd, env, _, _, shell, *rest = given
        plain = not (executable or before or kept or shell) and rest[12:] in ([], [-1])
        whole = [] if isinstance(args, (str, os.PathLike)) else [os.fspath(each) for each in args]
        plain = plain and whole[:1] == [sys.executable] and (cwd is None or os.path.isdir(cwd))
        starter = _started() if plain and not self._cold else None
        if starter is not None:
            streams = rest[:6]
            request = {
                "executable": starter.within if self._within else sys.executable,
                "args": whole[1:],
                "cwd": os.path.abspath(os.getcwd() if cwd is None else os.fspath(cwd)),
                "env": dict(os.environ if env is None else env),
                "session": bool(rest[11]),
            }
            theirs = (streams[0], streams[3], streams[5])
            asked_on = starter.ask(
                request, [own if each == -1 else each for own, each in enumerate(theirs)]
            )
            kind, self.pid = read_report(asked_on)
            if kind == "pid":
                self._asked_on = asked_on
                self._child_created = True
                self._close_pipe_fds(*streams)  # type: ignore[attr-defined]
                return
            asked_on.close()
        super()._execute_child(*given)  # type: ignore[misc]

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        return super().poll() if self._asked_on is None else self._ended(self._asked_on, 0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended."""
        if self._asked_on is None:
            return super().wait(timeout)
        code = self._ended(self._asked_on, timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended(self, asked_on: socket.socket, timeout: float | None) -> int | None:
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            with self._asking:
                if self.returncode is None and _readable(asked_on, 0):
                    _, self.returncode = read_report(asked_on)
                    asked_on.close()
                if self.returncode is not None:
                    return self.returncode
                number = asked_on.fileno()
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                return None
            _readable(number, left)  # without the lock: others may ask meanwhile


def _readable(stream: Any, within: float | None) -> bool:
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    return bool(poll.poll(None if within is None else math.ceil(within * 1000)))


def read_report(asked_on: socket.socket) -> tuple[str, int]:
    data = asked_on.recv(64)
    assert data, "the starter has ended"
    kind, number = data.decode().split()
    return kind, int(number)


def run(
    args: Any,
    *,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **options: Any,
) -> subprocess.CompletedProcess[Any]:
    """As in `subprocess`, with `Popen`."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Popen(args, **options) as process:
        try:
            stdout, stderr = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(process.args, process.wait(), stdout, stderr)
    if check:
        done.check_returncode()
    return done
