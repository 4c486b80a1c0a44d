"""A process that has imported what commands import, and forks a child to start another.

Starting Python and importing takes a command longer than most of what it is started for. Here that
is done once, and whoever asks (`tests.warm`, and ``tests/relay.py`` for those who can only start
programs) gets a process that is from then on what the interpreter would have made of the same
arguments: a process of its own with the descriptors, the folder, the environment and the signals
it was to have, whose end is that of the real interpreter too.

It has one thread and no event loop, and knows three things: a Unix socket on which it is asked, its
children, and its stdin, whose end means that nobody needs it any more.

A request is one message: a dictionary in the format of `marshal`, with the descriptors of the child
beside it, which are 0, 1 and 2 if it names no others. It is answered with the child's process id,
by the child once it is all it is to be, and in the end with its exit code (see `told`); or refused,
if a fork cannot be what Python would be with these arguments and variables. If whoever has asked
leaves, the child is killed.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import gc
import importlib
import io
import linecache
import marshal
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import sys
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import PathFinder
from itertools import pairwise, takewhile
from types import FrameType, ModuleType, TracebackType
from typing import Any, Final, NamedTuple, NoReturn, cast

PRELOADED: Final = (
    "annotated_types",
    "anyio._backends._asyncio",
    "anyio._backends._trio",
    "anyio._core._signals",
    "anyio._core._subprocesses",
    "anyio.streams.buffered",
    "concurrent.futures.thread",
    "cryptography.hazmat.primitives.ciphers.aead",
    "encodings.idna",
    "encodings.unicode_escape",
    "httpcore2",
    "httpx2",
    "jwt",
    "multiprocessing.popen_spawn_posix",
    "multiprocessing.resource_tracker",
    "multiprocessing.spawn",
    "pydantic._internal._dataclasses",
    "pydantic.main",
    "pydantic.plugin._loader",
    "pydantic.plugin._schema_validator",
    "pydantic.type_adapter",
    "pydantic.types",
    "rich.console",
    "rich.progress",
    "shellingham",
    "tomlkit",
    "trio",
    "typer._adapters",
    "typer._click._textwrap",
    "typer._click.decorators",
    "typer.testing",
    "truststore",
    "uvicorn.lifespan.off",
    "uvicorn.lifespan.on",
    "uvicorn.logging",
    "uvicorn.loops.auto",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.h11_impl",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
    "zoneinfo",
)
"""What commands import beside mcpkit itself, if it is installed."""

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


def told(kind: str, number: int) -> bytes:
    """A message about a process: its ``pid``, its exit ``code``, or that it is ``refused``."""
    return f"{kind} {number}".encode()


class _Program(NamedTuple):
    """What the arguments of Python say.

    Args:
        options: Of its warnings.
        writes: Whether it may write down what it compiles.
        kind: ``-m`` if it is a module, ``-c`` if it is code, or ``file``.
        name: Of the module or file, or the code.
        argv: As the program is to see it.
    """

    options: list[str]
    writes: bool
    kind: str
    name: str
    argv: list[str]


@dataclass
class _Child:
    pid: int
    asked_on: socket.socket


class _Starter:
    """Who is listening, and who has been started."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        os.set_blocking(self._woken, False)
        self._children: dict[int, _Child] = {}
        self._path = sys.path[1:]  # the first entry stands for this process's own program
        self._installed = PathFinder.find_spec("mcpkit", self._path) is not None
        self._locale = _locale(os.environ)

    def serve(self) -> Callable[[], object]:
        """Start whatever is asked for.

        Returns:
            In a child only: what that has to do.
        """
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests
        while True:
            asking = {each.asked_on.fileno(): each for each in self._children.values()}
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
                elif self._children.get(asking[number].pid) is asking[number]:
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
            asked_on = self._children.pop(pid).asked_on
            with asked_on, suppress(OSError):
                asked_on.send(told("code", os.waitstatus_to_exitcode(status)))

    def _end(self, child: _Child) -> None:
        """Nobody asks for it any more."""
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        self._children.pop(child.pid).asked_on.close()

    def _accept(self) -> Callable[[], object] | None:
        asked_on, _ = self._listener.accept()
        asked_on.settimeout(10)
        data, descriptors = b"", list[int]()
        with suppress(OSError):
            data, descriptors, _, _ = socket.recv_fds(asked_on, LONGEST, MOST)
        request = marshal.loads(data) if data else {"args": [], "env": {}}
        found = self._installed or _ROOT in (request.get("cwd"), *_folders(request["env"]))
        parsed = self._parsed(request["args"], request["env"]) if found else None
        pid = None if parsed is None else os.fork()
        if parsed is not None and pid == 0:
            for each in self._children.values():
                each.asked_on.detach()  # or it would close a descriptor of the child's one day
            self._listener.detach()
            return _child(request, parsed, descriptors, asked_on, self._path)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid is None:
            with asked_on, suppress(OSError):
                asked_on.send(told("refused", 0))
        else:
            self._children[pid] = _Child(pid, asked_on)
        return None

    def _parsed(self, args: list[str], env: dict[str, str]) -> _Program | None:
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
        if args and args[0].endswith(".py") and not args[0].startswith("-"):
            return _Program(options, writes, "file", args[0], args)
        return None


def _folders(env: Mapping[str, str]) -> list[str]:
    """Where modules are looked for as well."""
    return [each for each in env.get("PYTHONPATH", "").split(os.pathsep) if each]


def _locale(env: Mapping[str, str]) -> str:
    """What decides about encodings."""
    return env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or "C"


def _nothing(number: int, frame: FrameType | None) -> None:
    """A handler is needed for the descriptor to be written to."""


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

    os.write(telling, told("pid", os.getpid()))
    for last, number in pairwise(numbers[2:]):
        os.closerange(last + 1, number)
    os.closerange(above, 65536)

    def run() -> None:
        try:
            if program.kind == "-m":
                runpy._run_module_as_main(program.name)  # type: ignore[attr-defined]
            elif program.kind == "-c":
                _run_code(program.name, space)
            else:
                _run_file(program.name, space)
            _END.code = 0
        except SystemExit as left:
            _END.code = 0 if left.code is None else left.code
            raise
        except BaseException as error:
            _END.code = None if isinstance(error, KeyboardInterrupt) else 1
            own = _own(error.__traceback__)
            sys.excepthook(type(error), error.with_traceback(own), own)
            sys.excepthook = _shown
            raise

    return run


class _End:
    """Ends a child as the interpreter would, without what nobody could see of that.

    The interpreter takes apart every module, and gives back its memory piece by piece. Most of
    both is there since before the fork and shared with the starter: to touch it is to copy it,
    page by page, which takes longer than all else. So only what the child itself has imported is
    taken apart here, and then the process ends.

    Attributes:
        code: What the process ends with. If it is not a number from 0 to 255, the end is left to
            the interpreter, as it is if something cannot be written.
    """

    def __init__(self) -> None:
        self.code: object = None
        self._before: dict[str, Any] = {}
        self._last = ""
        self._names: list[str] = []
        self._left: list[weakref.ref[ModuleType]] = []
        self._spaces: list[dict[str, Any]] = []
        self._nothings: list[dict[str, None]] = []
        self._generations: list[int] = []

    def prepare(self) -> None:
        """Have it come after everything else that is left to do when a process ends."""
        # Whatever else has something to do at the end is imported later.
        assert not atexit._ncallbacks()  # type: ignore[attr-defined, unused-ignore]
        # The last is called first. What is freed here is freed by functions in C, as it is by the
        # interpreter: no line of this file is in the traceback of what fails then.
        at_once = deque[object](maxlen=0).extend
        atexit.register(self._leave)
        atexit.register(at_once, map(gc.collect, self._generations))
        atexit.register(at_once, map(dict[str, Any].update, self._spaces, self._nothings))
        atexit.register(self._look)
        atexit.register(gc.collect)
        atexit.register(at_once, map(sys.modules.pop, self._names))
        atexit.register(self._begin)

    def know(self) -> None:
        """The modules that are there now are there before every child."""
        # In a cycle that is frozen, and so never collected.
        self._before.update(sys.modules, itself=self._before)
        for name in ("builtins", "sys"):
            del self._before[name]
        self._last = next(reversed(sys.modules))

    def _begin(self) -> None:
        """Find the modules of the child."""
        if not isinstance(self.code, int) or not 0 <= self.code <= 255:
            self._leave_alone()
            return
        sys.setswitchinterval(600)  # no other thread runs any more
        vars(sys)["modules"]["io"] = None  # no traceback has lines of the source any more
        for name in (*takewhile(self._last.__ne__, reversed(sys.modules)), *_MAIN):
            module = sys.modules.get(name)
            if isinstance(module, ModuleType) and self._before.get(name) is not module:
                self._names.append(name)
                self._left.append(weakref.ref(module))

    def _look(self) -> None:
        """Find those of them that something else holds."""
        for each in self._left:
            module = each()
            if module is not None:
                space = vars(module)
                private = [name for name in space if name[:1] == "_" and name[1:2] != "_"]
                public = [name for name in space if name != "__builtins__"]
                self._spaces += space, space
                self._nothings += dict.fromkeys(private), dict.fromkeys(public)
                self._generations[:] = [2]

    def _leave(self) -> None:
        """End the process, unless that is left to the interpreter."""
        if not self._names:
            return
        with suppress(Exception):
            for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
                if stream is not None and not stream.closed:
                    stream.flush()
            os._exit(cast(int, self.code))
        self._leave_alone()

    def _leave_alone(self) -> None:
        """Keep the interpreter from taking apart what was there before."""
        for name, module in list(sys.modules.items()):
            if self._before.get(name) is module:
                del sys.modules[name]


_END: Final = _End()


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


def _run_code(source: str, space: dict[str, Any]) -> None:
    code = compile(source, "<string>", "exec", dont_inherit=True)
    register: Any = getattr(linecache, "_register_code", None)  # for tracebacks, since Python 3.13
    if register is not None:
        register(code if sys.version_info >= (3, 14) else "<string>", source, "<string>")
    exec(code, space)


def _run_file(file: str, space: dict[str, Any]) -> None:
    from importlib.machinery import SourceFileLoader

    whole = os.path.abspath(file)
    try:
        with io.open_code(whole) as opened:
            source = opened.read()
    except OSError as error:
        said = f"[Errno {error.errno}] {os.strerror(error.errno or errno.EIO)}"
        print(f"{sys.executable}: can't open file {whole!r}: {said}", file=sys.stderr)
        raise SystemExit(2) from None
    loader = SourceFileLoader("__main__", whole)
    space |= {"__file__": whole, "__cached__": None, "__loader__": loader}
    exec(compile(source, whole, "exec", dont_inherit=True), space)


def _own(traceback: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this file."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


def _shown(*_: object) -> None:
    """An exception that has been shown already, which the interpreter is to end with."""


# --- before ---------------------------------------------------------------------------------------


def _import() -> None:
    import mcpkit

    own = [each.name for each in pkgutil.walk_packages(mcpkit.__path__, "mcpkit.")]
    for name in (*own, *PRELOADED):
        if name not in ("mcpkit.__main__", "mcpkit.pytest_plugin"):
            with suppress(ImportError):
                importlib.import_module(name)


def _practise() -> None:
    """Do what every command begins with: what is found out and compiled by that is kept."""
    import typer
    from pydantic.plugin._loader import get_plugins

    from mcpkit import cli
    from mcpkit.cli import COMMANDS

    get_plugins()
    group: Any = typer.main.get_command(cli.app)
    for name in COMMANDS:
        with suppress(Exception):  # not every one takes such an argument
            context = group.make_context("mcpkit", [name, "server.py"])
            group.get_command(context, name).make_context(name, ["server.py"], parent=context)
    runpy.run_path(os.path.join(os.path.dirname(__file__), "cli", "offering.py"))


def main(address: str) -> Callable[[], object]:
    """Listen, say so on stdout, and serve.

    Returns:
        In a child, what is left to be called by the program of the interpreter, so that its end is
        that of the interpreter.
    """
    _END.prepare()
    _import()
    _practise()
    _END.know()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(address)
    listener.listen(64)
    gc.collect()
    gc.freeze()  # or every child would copy what the collector writes into
    os.write(1, b"\n")
    return _Starter(listener).serve()
