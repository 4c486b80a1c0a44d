"""A client's way to a server that runs as a child process and speaks on its standard streams."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

import anyio
from anyio.abc import Process

from mcpkit.errors import ConnectionClosed
from mcpkit.transports.stdio.lines import LineSplitter

__all__ = ["ProcessLink"]

_END_STEP_S = 2.0
"""Seconds between the steps that end a server: closed input, SIGTERM, SIGKILL (STDIO-4)."""


class ProcessLink:
    """A server in a child process.

    Args:
        command: The program and its arguments.
        on_text: Called with each line the server writes.
        on_close: Called once it writes no more.
        env: Variables in addition to those of this process.
        cwd: Where it runs.
        stderr: A file descriptor for what it writes to stderr; this process's own if None.
    """

    def __init__(
        self,
        command: Sequence[str],
        on_text: Callable[[bytes], None],
        on_close: Callable[[], None],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stderr: int | None = None,
    ) -> None:
        self._command = list(command)
        self._on_text = on_text
        self._on_close = on_close
        self._env = env
        self._cwd = cwd
        self._stderr = stderr
        self._process: Process | None = None
        self._lock: anyio.Lock | None = None

    async def start(self) -> None:
        """Start the server.

        Raises:
            OSError: The program cannot be run.
        """
        self._lock = anyio.Lock()
        self._process = await anyio.open_process(
            self._command,
            stderr=self._stderr,
            env=None if self._env is None else {**os.environ, **self._env},
            cwd=self._cwd,
            # Ctrl-C in a terminal is for the client, which then leaves its server in good order.
            start_new_session=True,
        )

    @property
    def process(self) -> Process:
        """The child process."""
        assert self._process is not None
        return self._process

    async def read(self) -> None:
        """Pass on what the server writes, until it writes no more. Runs as a task."""
        stdout = self.process.stdout
        assert stdout is not None
        splitter = LineSplitter()
        try:
            while True:
                for line in splitter.feed(await stdout.receive()):
                    self._on_text(line)
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            pass
        finally:
            self._on_close()

    async def send_text(self, text: bytes) -> None:
        """Send one message.

        Raises:
            ConnectionClosed: The server has ended.
        """
        stdin, lock = self.process.stdin, self._lock
        assert stdin is not None
        assert lock is not None
        try:
            async with lock:
                await stdin.send(text + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise ConnectionClosed("The server's process has ended") from None

    async def aclose(self) -> None:
        """End the server: close its input, then SIGTERM, then SIGKILL."""
        process = self.process
        if process.stdin is not None:
            await process.stdin.aclose()
        for end in (process.terminate, process.kill):
            with anyio.move_on_after(_END_STEP_S):
                await process.wait()
                break
            end()
        else:
            await process.wait()
        if process.stdout is not None:
            await process.stdout.aclose()
