"""A client's way to a server that runs as a child process and speaks on its standard streams."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import anyio
from anyio.abc import Process

from mcpkit._protocol.messages import MAX_LINE, LineSplitter
from mcpkit._utils.text import exit_reason
from mcpkit.errors import ConnectionClosed

__all__ = ["LineTooLong", "ProcessLink"]

_END_STEP_S = 2.0
"""Seconds between the steps that end a server: closed input, SIGTERM, SIGKILL (STDIO-4)."""

_LAST_WORD_S = 0.5
"""Seconds from the end of a server's output to that of its process, whose exit code is told."""


class LineTooLong(ConnectionClosed):
    """The server has sent a longer line than it may, and is not listened to any more."""


class ProcessLink:
    """A server in a child process.

    Args:
        command: The program and its arguments.
        on_text: Called with each line the server writes.
        on_close: Called when the server writes no more, or before that with the reason why it is
            not listened to any more.
        env: Variables in addition to those of this process.
        cwd: The folder it runs in; this process's own if None.
        stderr: A file descriptor for the server's stderr; this process's own if None.
    """

    def __init__(
        self,
        command: Sequence[str],
        on_text: Callable[[bytes], None],
        on_close: Callable[[ConnectionClosed | None], None],
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
        """Pass on the lines that the server writes, until it writes no more. Runs as a task."""
        try:
            await self._read_lines()
            self._on_close(await self._ended())
        except LineTooLong as error:
            self._on_close(error)
            with suppress(ProcessLookupError):
                self.process.terminate()
            await self._drop_the_rest()
        finally:
            self._on_close(None)

    async def _ended(self) -> ConnectionClosed:
        """Return the error that tells how the server has ended."""
        with anyio.move_on_after(_LAST_WORD_S):
            code = await self.process.wait()
            return ConnectionClosed(f"The server ended {exit_reason(code)}", exit_code=code)
        return ConnectionClosed("The server closed its output")

    async def _read_lines(self) -> None:
        splitter = LineSplitter(MAX_LINE + 1)
        while chunk := await self._chunk():
            for line in splitter.feed(chunk):
                _check_length(len(line))
                self._on_text(line)
            _check_length(splitter.kept)

    async def _drop_the_rest(self) -> None:
        # What is not read would keep the process from ending.
        while await self._chunk():
            pass

    async def _chunk(self) -> bytes:
        stdout = self.process.stdout
        assert stdout is not None
        try:
            return await stdout.receive()
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            return b""

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
            raise await self._ended() from None

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
        # Also its pipes: a process that the server has left behind may hold their other ends.
        await process.aclose()


def _check_length(size: int) -> None:
    if size > MAX_LINE:
        raise LineTooLong(f"The server sends too much: a line of more than {MAX_LINE} bytes")
