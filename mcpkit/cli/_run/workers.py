"""Processes that serve over HTTP: kept running, or restarted when a file changes.

The parent holds the socket, so that no connection is refused while a process is replaced, and does
not serve. It handles all signals, and stops the workers.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from types import FrameType
from typing import Any, Final, NamedTuple

from mcpkit._utils.targets import TargetError
from mcpkit._utils.text import exit_reason
from mcpkit.app import MCPKit
from mcpkit.cli._run.files import FileWatcher
from mcpkit.cli._terminal import note
from mcpkit.transports import stop_signals
from mcpkit.transports.stdio.redirect import never_block

_START_PAUSE_S: Final = 1.0
"""Seconds before another attempt to start a worker."""

_BLOCKED_S: Final = 60
"""Seconds after which a worker is replaced whose event loop does not run."""

_LOOK_S: Final = 1.0
"""Seconds between two looks at workers that are watched."""


# --- in a worker ----------------------------------------------------------------------------------


class Order(NamedTuple):
    """The settings of a worker, which it gets from the parent."""

    load: Callable[[], MCPKit[Any]]
    log: Callable[[], object]
    options: dict[str, Any]  # of `MCPKit.asgi`
    reload: bool


def work(order: Order, bound: socket.socket, ready: Connection) -> None:
    """Serve until SIGTERM, or until the parent ends; send a byte once the app is served.

    If the app is to be watched, another byte follows every second in which the event loop runs.

    The exit code is 2 if the app cannot be imported, 3 if it cannot be started.
    """

    def ignore(number: int, frame: FrameType | None) -> None: ...

    # Ctrl-C reaches every process of a terminal, but the parent stops this one. A handler, because
    # SIG_IGN would be inherited by the processes that the server starts.
    for each in stop_signals():
        if each != signal.SIGTERM:
            signal.signal(each, ignore)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGHUP])
    never_block()

    def follow_parent() -> None:
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=follow_parent, daemon=True, name="mcpkit parent").start()
    # Two versions of a file may have the same size and be of the same second.
    sys.dont_write_bytecode = sys.dont_write_bytecode or order.reload
    try:
        app = order.load()
    except TargetError as error:
        note(str(error))
        raise SystemExit(2) from None
    order.log()

    from mcpkit.transports.http.server import serve_on

    application = app.asgi(**order.options)

    def announce() -> None:
        ready.send_bytes(b"!")
        if not application.settings.watch_loop:
            ready.close()

    def alive() -> None:
        with suppress(OSError):  # the parent has ended
            ready.send_bytes(b".")

    application.lifespans.on_alive.append(alive)
    serve_on(
        application,
        bound,
        announce,
        numbers=[signal.SIGTERM],
        is_last=not order.reload,
    )


# --- in the parent --------------------------------------------------------------------------------


class _Worker:
    """A process that serves, or starts to."""

    def __init__(self, order: Order, bound: socket.socket) -> None:
        context = multiprocessing.get_context("spawn")
        self.ready, ready = context.Pipe(duplex=False)
        self.process = context.Process(target=work, args=(order, bound, ready))
        self.serving = False
        self.silent: float | None = None
        """Seconds since its event loop is known to have run; None if it is not watched."""
        signals = [] if sys.platform == "win32" else [signal.SIGINT, signal.SIGHUP]
        try:
            # Blocked until the worker has its handlers.
            if signals:
                signal.pthread_sigmask(signal.SIG_BLOCK, signals)
            self.process.start()
        except OSError:
            self.ready.close()
            raise
        finally:
            if signals:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            ready.close()

    @property
    def ended(self) -> bool:
        return self.process.exitcode is not None

    @property
    def how(self) -> str:
        """The exit code or the signal, for messages."""
        return exit_reason(self.process.exitcode or 0)

    def receive(self, waited: float) -> None:
        """Receive its bytes, after some seconds; the pipe of one that never serves just ends."""
        if self.silent is not None:
            self.silent += waited
        while not self.ready.closed and self.ready.poll():
            try:
                received = self.ready.recv_bytes()
            except (EOFError, OSError):
                self.silent = None
                self.ready.close()
                return
            if received == b"!":
                self.serving = True
            else:
                self.silent = 0


@dataclass
class Supervisor:
    """Runs workers on a bound socket.

    Its own copy of the socket is closed before the last of them end, because later clients would
    wait for a process that accepts. `announce` is called once, when the first worker serves.
    """

    order: Order
    bound: socket.socket
    drain_delay: float
    end_limit: float
    announce: Callable[[], object] | None

    def __post_init__(self) -> None:
        self._received: list[int] = []
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._wake_reader.setblocking(False)
        self._wake_writer.setblocking(False)
        self._workers: list[_Worker] = []

    def keep(self, count: int) -> int:
        """Keep `count` workers running until SIGINT or SIGTERM, and replace those that end.

        The first one starts alone, so that an app that cannot be started is reported once; its
        exit code is returned then. It is 130 after SIGINT and 0 after SIGTERM.
        """
        workers, not_before, has_served = self._workers, 0.0, False
        with self._running():
            while not self._received:
                serving = any(each.serving for each in workers)
                has_served = has_served or serving
                wanted = count if serving else 1
                now = time.monotonic()
                try:
                    while len(workers) < wanted and now >= not_before and not self._received:
                        workers.append(_Worker(self.order, self.bound))
                except OSError as error:  # too many processes or descriptors
                    if not has_served:
                        raise
                    note(f"a worker could not be started: {error.strerror}; once more")
                    not_before = now + _START_PAUSE_S
                self._wait(max(not_before - now, 0) if len(workers) < wanted else None)
                for each in workers:
                    if each.silent is not None and each.silent >= _BLOCKED_S:
                        note(f"a worker has been blocked for {_BLOCKED_S} seconds, and is killed")
                        each.silent = None
                        each.process.kill()
                ended = [] if self._received else [each for each in workers if each.ended]
                for each in ended:
                    workers.remove(each)
                    if each.serving:
                        note(f"a worker has ended {each.how}; another takes its place")
                    elif has_served:
                        note(f"a worker could not be started, and ended {each.how}; once more")
                        not_before = time.monotonic() + _START_PAUSE_S
                    else:
                        return each.process.exitcode or 1
        return self._code

    def renew(self, watched: FileWatcher) -> int:
        """Keep a worker running, and restart it when a file changes."""
        workers = self._workers
        with self._running():
            workers.append(_Worker(self.order, self.bound))
            while not self._received:
                self._wait(watched.pause)
                if self._received:
                    break
                if workers and workers[0].ended:
                    how = workers.pop().how
                    note(f"the server has ended {how}; it reloads when a file changes")
                if changes := watched.changes():
                    self._stop()
                    # Not earlier: clients that connect from now on reach the new one.
                    note(f"{watched.describe(changes)} changed: reloading")
                    workers.append(_Worker(self.order, self.bound))
        return self._code

    @property
    def _code(self) -> int:
        return 130 if signal.SIGINT in self._received else 0

    @contextmanager
    def _running(self) -> Generator[None, None, None]:
        """Receive signals inside the context, and stop the workers at its end."""
        before = {each: signal.signal(each, self._on_signal) for each in stop_signals()}
        try:
            yield
        finally:
            self.bound.close()
            self._stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._received.append(number)
        try:
            self._wake_writer.send(b"!")
        except OSError:  # many signals are waiting already
            return

    def _wait(self, timeout: float | None) -> None:
        """Wait until a worker changes its state or a signal arrives."""
        pipes = [each.ready for each in self._workers if not each.ready.closed]
        ends = [each.process.sentinel for each in self._workers]
        if any(each.silent is not None for each in self._workers):
            timeout = _LOOK_S if timeout is None else min(timeout, _LOOK_S)
        started = time.monotonic()
        if self._wake_reader in wait([*ends, *pipes, self._wake_reader], timeout):
            self._wake_reader.recv(4096)
        # Not longer than it was to take: this machine, or all of its processes, may have slept.
        waited = min(time.monotonic() - started, _LOOK_S)
        for each in self._workers:
            each.receive(waited)
        if self.announce is not None and any(each.serving for each in self._workers):
            self.announce()
            self.announce = None

    def _stop(self) -> None:
        """End the workers, or kill them after the limit or a second Ctrl-C."""
        delay_ends = time.monotonic() + self.drain_delay
        deadline = time.monotonic() + self.end_limit
        workers = self._workers
        for each in workers:
            each.process.terminate()
        counted = 1  # signals that do not kill
        while workers and (rest := deadline - time.monotonic()) > 0:
            if signal.SIGINT in self._received and time.monotonic() < delay_ends:
                delay_ends, counted = 0, len(self._received)
                for each in workers:
                    with suppress(ProcessLookupError):
                        os.kill(each.process.pid or 0, signal.SIGINT)  # skips the delay
            if len(self._received) > counted and self._received[-1] == signal.SIGINT:
                break
            self._wait(rest)
            workers[:] = [each for each in workers if not each.ended]
        for each in workers:
            each.process.kill()
            each.process.join()
        workers.clear()
