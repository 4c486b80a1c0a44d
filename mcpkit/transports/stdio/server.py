"""Messages as lines on the standard streams: one JSON value per line, UTF-8 (STDIO-1).

Bytes are read when the descriptor is readable and written without blocking, in the event loop's
own thread where the platform can poll pipes, else in a thread each. Responses that become ready in
the same turn of the loop leave in one write.
"""

from __future__ import annotations

import contextvars
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn

import anyio

from mcpkit._concurrency.loop import open_loop, run_loop
from mcpkit._server.server import Server
from mcpkit._server.serving import serving
from mcpkit._server.session import Session
from mcpkit._utils.logs import log
from mcpkit.context import do_nothing
from mcpkit.transports import Served, exit_now, stop_signals
from mcpkit.transports.stdio.reader import MAX_LINE, Lines, is_deserted, make_reader
from mcpkit.transports.stdio.redirect import ProtocolStreams, take_over
from mcpkit.transports.stdio.writer import Output

_CLEAN_UP_S: Final = 2.0
"""Seconds for cancelled handlers to clean up."""

_THREADS_END_S: Final = 0.2
"""Seconds for cancelled threads to end."""

_STALL_S: Final = 0.5
"""Seconds within which a client that has closed its side must read some of the output."""


def run(
    served: Served,
    *,
    max_line: int = MAX_LINE,
    grace: float = 0.25,
    backend: str = "asyncio",
) -> None:
    """Serve an app on this process's standard streams until the client leaves.

    Args:
        max_line: Bytes that a line may have; a longer one gets an error.
        grace: Seconds for running calls to respond after the client has closed its side, or
            SIGTERM; then they are cancelled. SIGINT cancels them at once.
        backend: ``"asyncio"`` or ``"trio"``.

    Raises:
        SystemExit: With 130 after SIGINT.
        RuntimeError: stdout is closed.
    """
    streams = take_over()
    signals: list[int] = []

    async def main() -> int:
        async with served.running() as server:
            return await serve(server, streams, max_line=max_line, grace=grace, signals=signals)

    busy = run_loop(main, backend=backend)
    if busy:
        # A thread cannot be stopped, and the interpreter would wait for it.
        _leave_at_once(f"handlers still run in threads: {busy}", signals)
    if signal.SIGINT in signals:
        raise SystemExit(130)


async def serve_here(served: Served, *, max_line: int = MAX_LINE, grace: float = 0.25) -> None:
    """Serve an app as `run` does, in the event loop that runs.

    It ends when the client leaves or the task is cancelled. Signals are left to the caller.

    Raises:
        RuntimeError: stdout is closed.
    """
    streams = take_over()
    async with served.running() as server:
        await serve(server, streams, max_line=max_line, grace=grace)


def _leave_at_once(reason: str, signals: list[int]) -> NoReturn:
    log.warning("exiting while %s", reason)
    exit_now(130 if signal.SIGINT in signals else 0)


async def serve(
    server: Server,
    streams: ProtocolStreams,
    *,
    max_line: int = MAX_LINE,
    grace: float = 0.25,
    signals: list[int] | None = None,
) -> int:
    """Serve one client on a pair of descriptors until it closes its side or a signal arrives.

    Args:
        streams: The descriptors to read from and to write to.
        max_line, grace: As for `run`.
        signals: Gets the signal that ended the service. For the owner of the process only,
            which exits at once if a handler cannot be cancelled. None: signals are ignored.

    Returns:
        The number of handlers that still run in threads.
    """
    ended = anyio.Event()
    async with open_loop() as loop, serving(server, loop) as (served, services):
        output = Output(streams.writer, loop, on_broken=ended.set)
        session = Session(served, output, loop)
        services.sessions.append(session)
        lines = Lines(session, max_line, lambda: session.is_full or output.congested)
        context = contextvars.copy_context()
        stop_watching: Callable[[], object] = do_nothing

        def go_on() -> None:
            """Start waiting requests and resume reading, as far as there is room."""
            if not output.congested:
                session.start_waiting()
            if lines.go_on():
                stop_watching()
                reader.resume()

        def watch(written: int) -> None:
            """End the session if the client has left and reads nothing, while reading is paused.

            The end of its input is behind chunks that are not read yet. `written` is
            `output.written` at the last check, -1 at first.
            """
            nonlocal stop_watching
            if output.written == written and is_deserted(streams.reader):
                ended.set()
            else:
                stop_watching = loop.later(_STALL_S, partial(watch, output.written))

        def take(chunk: bytes) -> None:
            with output:
                if chunk:
                    lines.feed(chunk)
                else:
                    lines.end()
                    ended.set()
            if lines.blocked():
                reader.pause()
                stop_watching()
                watch(-1)

        # A handler may call this, and reading must not run in the handler's context.
        output.on_writable = session.on_writable = lambda: context.copy().run(go_on)
        watching = anyio.Event()
        loop.start(_watch_signals(watching, ended, signals))
        await watching.wait()  # before a client can know that it is served
        reader = make_reader(streams.reader, loop, take)
        try:
            await ended.wait()
        except anyio.get_cancelled_exc_class():
            with anyio.move_on_after(_CLEAN_UP_S, shield=True):
                await session.aclose()
                await output.finish(_STALL_S)
            output.close()
            raise
        finally:
            reader.stop()
            stop_watching()
        session.disconnect()
        if signal.SIGINT in (signals or ()):
            grace = 0
        if not output.broken:
            with anyio.move_on_after(grace):
                await session.wait_idle()
        session.end_listens(announce=True)
        with anyio.move_on_after(_CLEAN_UP_S):
            await session.aclose()
        await output.finish(_STALL_S)
        await served.suspended.aclose()
        await services.aclose(grace)
        if session.in_flight and signals is not None:
            _leave_at_once("a handler does not let itself be cancelled", signals)
        with anyio.move_on_after(_THREADS_END_S):
            while session.threads.busy or services.busy_threads:
                await anyio.sleep(_THREADS_END_S / 20)
    output.close()
    return session.threads.busy + services.busy_threads


async def _watch_signals(
    watching: anyio.Event, ended: anyio.Event, signals: list[int] | None
) -> None:
    is_main = threading.current_thread() is threading.main_thread()
    # On Windows, Ctrl-C arrives as KeyboardInterrupt.
    if signals is None or not is_main or sys.platform == "win32":
        watching.set()
        return
    with anyio.open_signal_receiver(*stop_signals()) as received:
        watching.set()
        async for number in received:
            signals.append(number)
            ended.set()
            return
