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
from contextlib import AbstractAsyncContextManager
from typing import Final, NoReturn

import anyio

from mcpkit.engine.loop import open_tasks
from mcpkit.engine.server import Server, log
from mcpkit.engine.session import Session
from mcpkit.transports import Served
from mcpkit.transports.leaving import leave_at_once
from mcpkit.transports.stdio.guard import ProtocolStreams, take_over
from mcpkit.transports.stdio.lines import MAX_LINE, Lines
from mcpkit.transports.stdio.reading import make_reader
from mcpkit.transports.stdio.writing import Output

__all__ = ["run", "serve"]

_CLEAN_UP_S: Final = 2.0
"""Seconds that cancelled handlers have to clean up."""

_THREADS_END_S: Final = 0.2
"""Seconds that threads have to see that they are cancelled, and to end."""

_STALL_S: Final = 0.5
"""Seconds within which the client has to take some of what is left, once it has closed its side."""

Running = Callable[[], AbstractAsyncContextManager[Server]]


def run(
    served: Served,
    *,
    max_line: int = MAX_LINE,
    grace: float = 0.25,
    backend: str = "asyncio",
) -> None:
    """Serve an app on this process's standard streams until the client leaves.

    Args:
        served: The app.
        max_line: Bytes a line may have; a longer one is refused, and the connection lives on.
        grace: For how many seconds calls that run may still answer after the client has closed
            its side, or SIGTERM; they are cancelled then. SIGINT cancels them at once.
        backend: ``"asyncio"`` or ``"trio"``.

    Raises:
        SystemExit: With 130 after SIGINT.
    """
    streams = take_over()
    told: list[int] = []
    busy = anyio.run(_main, served.running, streams, max_line, grace, told, backend=backend)
    if busy:
        # A thread cannot be stopped, and the interpreter would wait for it.
        _leave_at_once(f"{busy} handlers still run in threads", told)
    if code := _exit_code(told):
        raise SystemExit(code)


def _exit_code(told: list[int]) -> int:
    return 130 if signal.SIGINT in told else 0


def _leave_at_once(reason: str, told: list[int]) -> NoReturn:
    log.warning("leaving, although %s", reason)
    leave_at_once(_exit_code(told))


async def _main(
    running: Running, streams: ProtocolStreams, max_line: int, grace: float, told: list[int]
) -> int:
    async with running() as server:
        return await serve(server, streams, max_line=max_line, grace=grace, told=told)


async def serve(
    server: Server,
    streams: ProtocolStreams,
    *,
    max_line: int = MAX_LINE,
    grace: float = 0.25,
    told: list[int] | None = None,
) -> int:
    """Serve one client on a pair of descriptors until it closes its side or a signal arrives.

    Args:
        server: What is served.
        streams: Where to read and write.
        max_line: Bytes a line may have.
        grace: Seconds that running calls have after the end of input.
        told: SIGTERM or SIGINT is appended when it ended the service. Given by who owns the
            process, which is left at once if a handler does not let itself be cancelled.

    Returns:
        How many handlers still run in threads.
    """
    ended = anyio.Event()
    async with open_tasks() as tasks:
        output = Output(streams.writer, tasks, on_broken=ended.set)
        session = Session(server, output, tasks)
        lines = Lines(session, max_line, lambda: session.saturated or output.congested)
        reader = make_reader(streams.reader, tasks)
        context = contextvars.copy_context()

        def settle() -> None:
            """Go on when nothing piles up any more."""
            if not output.congested:
                session.begin_waiting()
            if lines.go_on():
                reader.resume()

        def relieved() -> None:
            # It may be a handler that calls this, and what reads on must not have its context.
            context.copy().run(settle)

        def take(chunk: bytes) -> None:
            with output:
                if chunk:
                    lines.feed(chunk)
                else:
                    lines.end()
                    ended.set()
            if lines.blocked():
                reader.pause()

        output.on_relief = session.on_relief = relieved
        reader.start(take)
        tasks.start(_watch_signals(ended, told))
        await ended.wait()
        reader.stop()
        session.lose_client()
        if session.busy and not output.broken and signal.SIGINT not in (told or ()):
            with anyio.move_on_after(grace):
                await session.wait_idle()
        session.end_listens(announce=True)
        with anyio.move_on_after(_CLEAN_UP_S):
            await session.aclose()
        await output.finish(_STALL_S)
        if session.busy and told is not None:
            _leave_at_once("a handler does not let itself be cancelled", told)
        with anyio.move_on_after(_THREADS_END_S):
            while session.busy_threads:
                await anyio.sleep(_THREADS_END_S / 20)
    output.close()
    return session.busy_threads


async def _watch_signals(ended: anyio.Event, told: list[int] | None) -> None:
    if told is None or threading.current_thread() is not threading.main_thread():
        return
    if sys.platform == "win32":
        return  # Ctrl-C arrives as KeyboardInterrupt there
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as received:
        async for number in received:
            told.append(number)
            ended.set()
            return
