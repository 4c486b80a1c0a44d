"""Processes that serve: kept running, or restarted when a file changes.

The parent holds the socket, so that no connection is refused while a process is replaced, and does
not serve. All signals are for the parent, which ends the others.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any, Final

from mcpkit._utils.text import exit_reason
from mcpkit.cli._terminal import note
from mcpkit.transports import stop_signals

_START_PAUSE_S: Final = 1.0
"""Seconds after which a worker is started again that could not be started."""

_LOOK_S: Final = 0.3
"""Seconds between looks at files."""

_MIN_PAUSE_RATIO: Final = 10
"""The time between two looks at the files is at least as many times as long as one look."""

_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages"})


class Watched:
    """The Python files in a folder and below it, and their times and sizes.

    Args:
        folder: The folder; hidden folders and virtual environments in it are left out.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known = self._look()
        self.pause = _LOOK_S
        """Seconds until the next look."""

    def changes(self) -> list[Path]:
        """Return the files that were changed, added or removed since the last look."""
        before, began = self._known, time.monotonic()
        self._known = now = self._look()
        self.pause = max(_LOOK_S, _MIN_PAUSE_RATIO * (time.monotonic() - began))
        return sorted(
            path for path in before.keys() | now.keys() if before.get(path) != now.get(path)
        )

    def covers(self, file: str | None) -> bool:
        """Return True if a file is one of those that are looked at."""
        return file is not None and Path(file) in self._known

    def described(self, paths: Sequence[Path]) -> str:
        """Return paths for a message: relative to the folder, and not all if they are many."""
        names = [str(path.relative_to(self._folder)) for path in paths]
        if len(names) <= 3:
            return ", ".join(names)
        return f"{names[0]}, {names[1]} and {len(names) - 2} other files"

    def _look(self) -> Mapping[Path, tuple[int, int]]:
        found: dict[Path, tuple[int, int]] = {}
        for path in _python_files(self._folder):
            try:
                facts = path.stat()
            except OSError:  # it has just gone
                continue
            found[path] = (facts.st_mtime_ns, facts.st_size)
        return found


def _python_files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [
            each
            for each in folders
            if not (each.startswith(".") or each in _SKIPPED)
            and not os.path.exists(os.path.join(place, each, "pyvenv.cfg"))
        ]
        yield from (Path(place, each) for each in files if each.endswith(".py"))


class _Child:
    """A process that serves, or is about to."""

    def __init__(self, process: SpawnProcess, ready: Connection) -> None:
        self.process = process
        self.ready = ready
        self.serving = False

    @property
    def ended(self) -> bool:
        return self.process.exitcode is not None

    @property
    def how(self) -> str:
        """The end of the process, in words: its exit code or its signal."""
        return exit_reason(self.process.exitcode or 0)

    def receive_ready(self) -> None:
        """Receive the byte of a process that serves; if the pipe ends without, it never will."""
        try:
            self.ready.recv_bytes()
            self.serving = True
        except (EOFError, OSError):
            pass
        self.ready.close()


class Supervisor:
    """Runs a function in processes of its own.

    Args:
        target: Serves until SIGTERM. Called with `arguments`, the socket, and a connection on which
            it sends a byte once it serves; the processes import it by its name.
        arguments: For the function; they are pickled.
        bound: The socket that they serve on. It is closed here before the last of them end, because
            whoever connects later must not wait for somebody who accepts.
        end_limit: Seconds that a process has to end after SIGTERM.
        announce: Called once, when the first process serves.
    """

    def __init__(
        self,
        target: Callable[..., None],
        arguments: Sequence[Any],
        *,
        bound: socket.socket,
        end_limit: float,
        announce: Callable[[], object],
    ) -> None:
        self._target = target
        self._arguments = tuple(arguments)
        self._bound = bound
        self._end_limit = end_limit
        self._announce: Callable[[], object] | None = announce
        self._received: list[int] = []
        self._wake_reader, self._wake_writer = socket.socketpair()
        for end in (self._wake_reader, self._wake_writer):
            end.setblocking(False)

    # --- what it does -----------------------------------------------------------------------------

    def keep(self, count: int) -> int:
        """Keep a number of processes running, until SIGINT or SIGTERM.

        A process that has ended is replaced. The first one starts alone: if the app cannot be
        started, that is said once.

        Args:
            count: Of the processes, at least 1.

        Returns:
            The exit code: 130 after SIGINT, 0 after SIGTERM, that of the first process if it could
            not be started.
        """
        children: list[_Child] = []
        not_before = 0.0
        has_served = False
        with self._catching_signals():
            try:
                while not self._received:
                    serving = any(child.serving for child in children)
                    has_served = has_served or serving
                    wanted = count if serving else 1
                    now = time.monotonic()
                    if now >= not_before:
                        try:
                            while len(children) < wanted and not self._received:
                                children.append(self._start())
                        except OSError as error:  # too many processes, or descriptors
                            if not has_served:
                                raise
                            note(f"a worker could not be started: {error.strerror}; once more")
                            not_before = now + _START_PAUSE_S
                    short = len(children) < wanted
                    self._wait(children, max(not_before - now, 0) if short else None)
                    for child in [each for each in children if each.ended]:
                        children.remove(child)
                        if self._received:
                            continue
                        if child.serving:
                            note(f"a worker has ended {child.how}; another takes its place")
                        elif has_served:
                            note(f"a worker could not be started, and ended {child.how}; once more")
                            not_before = time.monotonic() + _START_PAUSE_S
                        else:
                            return child.process.exitcode or 1
            finally:
                self._bound.close()
                self._stop(children)
        return self._code

    def renew(self, watched: Watched) -> int:
        """Keep a process running, and restart it when a file changes.

        Args:
            watched: The files.

        Returns:
            The exit code: 130 after SIGINT, 0 after SIGTERM.
        """
        child: _Child | None = self._start()
        with self._catching_signals():
            try:
                while not self._received:
                    self._wait([] if child is None else [child], watched.pause)
                    if child is not None and child.ended:
                        if not self._received:
                            note(
                                f"the server has ended {child.how}; it reloads when a file changes"
                            )
                        child = None
                    changes = [] if self._received else watched.changes()
                    if not changes:
                        continue
                    if child is not None:
                        self._stop([child])
                        child = None
                    if not self._received:
                        # Not earlier: clients that connect from now on reach the new one.
                        note(f"{watched.described(changes)} changed: reloading")
                        child = self._start()
            finally:
                self._bound.close()
                if child is not None:
                    self._stop([child])
        return self._code

    @property
    def _code(self) -> int:
        return 130 if signal.SIGINT in self._received else 0

    # --- signals ----------------------------------------------------------------------------------

    @contextmanager
    def _catching_signals(self) -> Generator[None, None, None]:
        before = {each: signal.signal(each, self._on_signal) for each in stop_signals()}
        try:
            yield
        finally:
            for number, found in before.items():
                signal.signal(number, found)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._received.append(number)
        try:
            self._wake_writer.send(b"!")
        except OSError:  # it has been told often enough
            return

    # --- processes --------------------------------------------------------------------------------

    def _start(self) -> _Child:
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)
        arguments = (*self._arguments, self._bound, theirs)
        process = context.Process(target=self._target, args=arguments)
        try:
            with _held_back():
                process.start()
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        return _Child(process, ours)

    def _wait(self, children: Sequence[_Child], timeout: float | None) -> None:
        """Wait until something happens to a process or a signal arrives."""
        starting = [child for child in children if not child.ready.closed]
        for each in wait(
            [
                *(child.process.sentinel for child in children),
                *(child.ready for child in starting),
                self._wake_reader,
            ],
            timeout,
        ):
            if each is self._wake_reader:
                self._wake_reader.recv(4096)
        for child in starting:
            if child.ready.poll():
                child.receive_ready()
        if self._announce is not None and any(child.serving for child in children):
            self._announce()
            self._announce = None

    def _stop(self, children: Sequence[_Child]) -> None:
        """End processes in order, or kill them after the limit or a second Ctrl-C."""
        deadline = time.monotonic() + self._end_limit
        left = [child for child in children if not child.ended]
        for child in left:
            child.process.terminate()
        while left:
            rest = deadline - time.monotonic()
            if rest <= 0 or (len(self._received) > 1 and self._received[-1] == signal.SIGINT):
                for child in left:
                    child.process.kill()
                    child.process.join()
                return
            self._wait(left, rest)
            left = [child for child in left if not child.ended]


@contextmanager
def _held_back() -> Generator[None, None, None]:
    """Hold signals of a terminal back from a process until it is ready for them.

    That is what `mcpkit.cli._run.worker` says.
    """
    if sys.platform == "win32":
        yield
        return
    of_terminals = [signal.SIGINT, signal.SIGHUP]
    signal.pthread_sigmask(signal.SIG_BLOCK, of_terminals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, of_terminals)
