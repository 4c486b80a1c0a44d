"""The way to a server that is a child process and speaks on its standard streams."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import anyio
from anyio import DelimiterNotFound
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from mcpkit._utils.text import exit_reason
from mcpkit.errors import ConnectionClosed

MAX_LINE: Final = 64 * 1024 * 1024
"""Bytes that a line of the server may have."""

_END_STEP_S = 2.0
"""Seconds between the steps that end a server: closed input, SIGTERM, SIGKILL (STDIO-4)."""

_EXIT_CODE_S = 0.5
"""Seconds to wait for the exit code of a server whose output has ended."""

_ENDED: Final = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
)


class ProcessLink:
    """A server in a child process.

    Args:
        command: The program and its arguments.
        on_text: Called with each line of the server's output.
        on_close: Called when its output ends or is no longer read, with the reason if there is one.
        env: Environment variables in addition to those of this process.
        cwd: Its working directory; this process's own if None.
        stderr: A file descriptor for its stderr; this process's own if None.
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
            # Ctrl-C in a terminal must reach only the client, which then stops the server.
            start_new_session=True,
        )

    @property
    def process(self) -> Process:
        """The child process."""
        assert self._process is not None
        return self._process

    async def read(self) -> None:
        """Pass on the server's lines until its output ends. Runs as a task."""
        stdout = self.process.stdout
        assert stdout is not None
        lines = BufferedByteReceiveStream(stdout)
        try:
            while True:
                line = await lines.receive_until(b"\n", MAX_LINE + 1)
                if len(line) > MAX_LINE:
                    raise DelimiterNotFound(MAX_LINE)
                if line and not line.isspace():
                    self._on_text(line)
        except DelimiterNotFound:
            reason = f"The server sends too much: a line of more than {MAX_LINE} bytes"
            self._on_close(ConnectionClosed(reason))
            with suppress(ProcessLookupError):
                self.process.terminate()
            with suppress(*_ENDED):
                while True:  # output that is not read would keep the process from ending
                    await stdout.receive()
        except _ENDED:
            self._on_close(await self._ended())
        finally:
            self._on_close(None)

    async def _ended(self) -> ConnectionClosed:
        """Return the exception that says how the server has ended."""
        with anyio.move_on_after(_EXIT_CODE_S):
            code = await self.process.wait()
            return ConnectionClosed(f"The server ended {exit_reason(code)}", exit_code=code)
        return ConnectionClosed("The server closed its output")

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
        # Also closes its pipes: a child of the server may still hold their other ends.
        await process.aclose()
