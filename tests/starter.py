"""A process that has imported what commands import, and forks a child to start another.

Starting Python and importing takes a command four times as long as a fork. `tests.warm` asks for
processes, and so does ``tests/relay.py`` where only a program can be named. Each gets a process of
its own with the descriptors, the folder, the environment and the signals that it was to have. It
ends as the interpreter does, except that only the main module is taken apart.

A request is one message on a Unix socket: a dictionary in the format of `marshal`, with the
descriptors of the child beside it, which are 0, 1 and 2 if it names no others. The child responds
with its process id once it is ready, and the starter with its exit code (see `report`); or the
starter refuses, if a fork cannot be what Python would be with these arguments and variables. If the
connection is closed, the child is killed. At the end of its stdin, the starter ends.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import io
import marshal
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.machinery import PathFinder, SourceFileLoader
from itertools import pairwise
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Final, NamedTuple, NoReturn

PRELOADED: Final = (
    "anyio._backends._asyncio",
    "anyio._backends._trio",
    "anyio._core._signals",
    "anyio._core._subprocesses",
    "cryptography.hazmat.primitives.ciphers.aead",
    "encodings.idna",
    "encodings.unicode_escape",
    "httpcore2",
    "jwt",
    "multiprocessing.popen_spawn_posix",
    "multiprocessing.resource_tracker",
    "rich.progress",
    "tomlkit",
    "typer._adapters",
    "typer._click._textwrap",
    "typer._click.decorators",
    "typer.testing",
    "uvicorn.lifespan.off",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.h11_impl",
    "uvicorn.protocols.http.httptools_impl",
)
"""What commands import beside mcpkit itself and what that imports, if it is installed."""

IMITATED: Final = frozenset({"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"})
"""The variables of Python that a child heeds."""

LONGEST: Final = 1024 * 1024
"""Bytes of a request; the environment is most of it."""

MOST: Final = 16
"""Descriptors of a request."""


_ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
"""Where mcpkit is found, which a child has imported already."""

_MAIN: Final = ("__main__", "__mp_main__")
"""The names of the module that is run; the second is that of multiprocessing."""


def report(kind: str, number: int) -> bytes:
    """A message about a process: its ``pid``, its exit ``code``, or that it is ``refused``."""
    return f"{kind} {number}".encode()


class _Program(NamedTuple):
    """The meaning of the arguments of Python."""

    options: list[str]  # of its warnings
    writes: bool  # bytecode
    kind: str  # `-m` of a module, `-c` of code, or `file`
    name: str  # of the module or file, or the code
    argv: list[str]  # as the program is to see it


_NONE: Final = marshal.dumps({})


class _Starter:
    """Forks a child for each request, and reports its end."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        os.set_blocking(self._woken, False)
        self._children: dict[int, socket.socket] = {}
        self._path = sys.path[1:]  # the first entry stands for this process's own program
        self._installed = PathFinder.find_spec("mcpkit", self._path) is not None
        self._locale = _locale(os.environ)

    def serve(self) -> Callable[[], object]:
        """Serve requests; in a child only, return the function that it has to call."""
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # or the descriptor is not written to
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
        while True:
            asking = {each.fileno(): pid for pid, each in self._children.items()}
            poll = select.poll()
            for number in (0, self._listener.fileno(), self._woken, *asking):
                poll.register(number, select.POLLIN)
            for number, _ in poll.poll():
                if number == 0:
                    self._leave()
                elif number == self._woken:
                    self._reap()
                elif number == self._listener.fileno():
                    task = self._accept()
                    if task is not None:
                        return task
                elif asking[number] in self._children:
                    self._end(asking[number])

    def _leave(self) -> NoReturn:
        for each in self._children:
            os.kill(each, signal.SIGKILL)
        shutil.rmtree(os.path.dirname(self._listener.getsockname()), ignore_errors=True)
        os._exit(0)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._woken, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            asked_on = self._children.pop(pid)
            with asked_on, suppress(OSError):
                asked_on.send(report("code", os.waitstatus_to_exitcode(status)))

    def _end(self, pid: int) -> None:
        """Kill a child whose caller has left."""
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self._children.pop(pid).close()

    def _accept(self) -> Callable[[], object] | None:
        asked_on, _ = self._listener.accept()
        asked_on.settimeout(10)
        data, descriptors = b"", list[int]()
        with suppress(OSError):
            data, descriptors, _, _ = socket.recv_fds(asked_on, LONGEST, MOST)
        # A caller may leave before it asks.
        request: dict[str, Any] = {"args": [], "env": {}, "cwd": "", **marshal.loads(data or _NONE)}
        found = self._installed or _ROOT in (request.get("cwd"), *_folders(request["env"]))
        parsed = self._parsed(request["args"], request["env"], request["cwd"]) if found else None
        pid = None if parsed is None else os.fork()
        if parsed is not None and pid == 0:
            for each in self._children.values():
                each.detach()  # or it would close a descriptor of the child's one day
            self._listener.detach()
            return _child(request, parsed, descriptors, asked_on, self._path)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid is None:
            with asked_on, suppress(OSError):
                asked_on.send(report("refused", 0))
        else:
            self._children[pid] = asked_on
        return None

    def _parsed(self, args: list[str], env: dict[str, str], cwd: str) -> _Program | None:
        """What Python is asked to run; None if it has to be executed for that."""
        own = {name for name in env if name.startswith("PYTHON")}
        if _locale(env) != self._locale or not own <= IMITATED:
            return None
        options: list[str] = []
        writes = not env.get("PYTHONDONTWRITEBYTECODE")
        while len(args) > 1 and args[0] in ("-W", "-B"):
            if args[0] == "-B":
                writes, args = False, args[1:]
            else:
                options.append(args[1])
                args = args[2:]
        if len(args) > 1 and args[0] in ("-m", "-c"):
            return _Program(options, writes, args[0], args[1], [args[0], *args[2:]])
        if args and args[0].endswith(".py") and os.path.isfile(os.path.join(cwd, args[0])):
            return _Program(options, writes, "file", args[0], args)
        return None


def _folders(env: Mapping[str, str]) -> list[str]:
    """Where modules are looked for as well."""
    return [each for each in env.get("PYTHONPATH", "").split(os.pathsep) if each]


def _locale(env: Mapping[str, str]) -> str:
    """What decides about encodings."""
    return env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "C"


# --- in a child -----------------------------------------------------------------------------------


def _child(
    request: dict[str, Any],
    program: _Program,
    descriptors: list[int],
    asked_on: socket.socket,
    path: list[str],
) -> Callable[[], object]:
    """Become what the interpreter is when it begins with a program."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, request.get("blocked", []))
    if request["session"]:
        os.setsid()
    numbers: list[int] = request.get("descriptors", [0, 1, 2])
    above = numbers[-1] + 1
    aside = [fcntl.fcntl(each, fcntl.F_DUPFD, above) for each in descriptors]
    telling = fcntl.fcntl(asked_on.detach(), fcntl.F_DUPFD, above)
    for number, given in zip(numbers, aside, strict=True):
        os.dup2(given, number)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()

    sys.dont_write_bytecode = not program.writes
    sys.warnoptions[:] = program.options
    warnings._processoptions(sys.warnoptions)  # type: ignore[attr-defined]
    sys.executable = request["executable"]
    sys.modules["multiprocessing.spawn"].set_executable(sys.executable)
    sys.orig_argv[:] = [sys.executable, *request["args"]]
    sys.argv[:] = program.argv
    more = _folders(os.environ)
    sys.path[:] = [_first(program), *more, *(each for each in path if each not in more)]
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = _stream(0, "stdin", unbuffered)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "stdout", unbuffered)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "stderr", unbuffered)  # type: ignore[misc]

    for name in ("tests", __name__):
        del sys.modules[name]
    fresh = ModuleType("__main__")
    sys.modules |= dict.fromkeys(_MAIN, fresh)
    space = vars(fresh)
    space["__builtins__"] = sys.modules["builtins"]

    os.write(telling, report("pid", os.getpid()))
    for last, number in pairwise(numbers[2:]):
        os.closerange(last + 1, number)
    os.closerange(above, 65536)

    def run() -> NoReturn:
        code: object = 0
        try:
            if program.kind == "-m":
                runpy._run_module_as_main(program.name)  # type: ignore[attr-defined]
            else:
                _run_source(program, space)
        except SystemExit as left:
            code = left.code
        except BaseException as error:
            own = _own(error.__traceback__)
            sys.excepthook(type(error), error.with_traceback(own), own)
            code = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        _end(code, space)

    return run


def _end(code: object, space: dict[str, Any]) -> NoReturn:
    """End as the interpreter does, but leave the modules alone.

    They are shared with the starter: to touch them is to copy them, which takes longer than the
    rest.
    """
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    number = code or 0
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        number = 120
    space.clear()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if "ctypes" in sys.modules:
        sys.modules["ctypes"].CDLL(None).fflush(None)  # what C libraries have printed
    if number == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(number & 0xFF)


def _stream(number: int, name: str, unbuffered: bool) -> io.TextIOWrapper:
    """A standard stream as the interpreter makes it."""
    old: io.TextIOWrapper = getattr(sys, name)  # of the same locale
    reads = number == 0
    buffering = 0 if unbuffered and not reads else -1
    binary = open(number, "rb" if reads else "wb", buffering, closefd=False)  # noqa: SIM115
    raw: Any = getattr(binary, "raw", binary)
    raw.name = f"<{name}>"
    stream = io.TextIOWrapper(
        binary,
        old.encoding,
        old.errors,
        "\n",
        line_buffering=not unbuffered and (number == 2 or raw.isatty()),
        write_through=unbuffered,
    )
    stream.mode = "r" if reads else "w"  # type: ignore[misc]
    return stream


def _first(program: _Program) -> str:
    """Where modules are looked for first."""
    if program.kind == "file":
        return os.path.dirname(os.path.realpath(program.name))
    return os.getcwd() if program.kind == "-m" else ""


def _run_source(program: _Program, space: dict[str, Any]) -> None:
    if program.kind == "-c":
        exec(compile(program.name, "<string>", "exec", dont_inherit=True), space)
        return
    whole = os.path.abspath(program.name)
    loader = SourceFileLoader("__main__", whole)
    space |= {"__file__": whole, "__cached__": None, "__loader__": loader}
    exec(compile(Path(whole).read_bytes(), whole, "exec", dont_inherit=True), space)


def _own(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this file."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


# --- before ---------------------------------------------------------------------------------------


def main(address: str) -> Callable[[], object]:
    """Listen, say so on stdout, and serve; return what is left to be called in a child."""
    import mcpkit

    own = [each.name for each in pkgutil.walk_packages(mcpkit.__path__, "mcpkit.")]
    for name in (*own, *PRELOADED):
        if name not in ("mcpkit.__main__", "mcpkit.pytest_plugin"):
            with suppress(ImportError):
                importlib.import_module(name)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(64)
    gc.collect()
    gc.freeze()  # or every child would copy what the collector writes into
    os.write(1, b"\n")
    return _Starter(listener).serve()
