"""The way to a server that is a child process and speaks on its standard streams."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio
from anyio import DelimiterNotFound
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from mcpkit._protocol.client_connection import IsAnswered, OutgoingMessage
from mcpkit._utils.text import exit_reason
from mcpkit.errors import ConnectionClosed

MAX_LINE: Final = 64 * 1024 * 1024  # bytes that a line of the server may have
_END_STEP_S = 2.0
"""Seconds between the steps that end a server: closed input, SIGTERM, SIGKILL (STDIO-4)."""

_EXIT_CODE_S = 0.5  # seconds to wait for the exit code of a server whose output has ended
_ENDED: Final = (
    anyio.EndOfStream,
    anyio.IncompleteRead,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
)


class ProcessLink:
    """A server in a child process.

    Args:
        process: The child process, with pipes to its input and output.
        on_text: Called with each line of the server's output.
        on_close: Called when its output ends or is no longer read, with the reason if there is one.
    """

    def __init__(
        self,
        process: Process,
        on_text: Callable[[bytes], None],
        on_close: Callable[[ConnectionClosed | None], None],
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._on_text = on_text
        self._on_close = on_close
        self._lock = anyio.Lock()

    async def read(self) -> None:
        """Pass on the server's lines until its output ends. Runs as a task."""
        lines = BufferedByteReceiveStream(self._stdout)
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
                self._process.terminate()
            with suppress(*_ENDED):
                while True:  # output that is not read would keep the process from ending
                    await self._stdout.receive()
        except _ENDED:
            self._on_close(await self._ended())
        finally:
            self._on_close(None)

    async def _ended(self) -> ConnectionClosed:
        """Return the exception that says how the server has ended."""
        with anyio.move_on_after(_EXIT_CODE_S):
            code = await self._process.wait()
            return ConnectionClosed(f"The server ended {exit_reason(code)}", exit_code=code)
        return ConnectionClosed("The server closed its output")

    async def exchange(self, sent: OutgoingMessage, answered: IsAnswered | None = None) -> None:
        """Send one message; raises `ConnectionClosed` if the server has ended."""
        try:
            async with self._lock:
                await self._stdin.send(sent.text + b"\n")
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            raise await self._ended() from None

    async def aclose(self) -> None:
        """End the server: close its input, then SIGTERM, then SIGKILL."""
        process = self._process
        await self._stdin.aclose()
        for end in (process.terminate, process.kill):
            with anyio.move_on_after(_END_STEP_S):
                await process.wait()
                break
            end()
        else:
            await process.wait()
        # Also closes its pipes: a child of the server may still hold their other ends.
        await process.aclose()
