"""Connections as uvicorn serves them, with bounds of our own for clients that do not go on.

Uvicorn waits for ever for the head of a request, for the rest of a body that has been refused, and
for a client that does not read what was written; and with its fast parser it takes heads of any
length, and lets requests go on for ever whose client has sent another one before it left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Served
else:
    Served = object  # whichever of its protocols uvicorn can use

__all__ = ["bounded"]

_LONGEST_HEAD: Final = 64 * 1024
"""Bytes of a request line and headers: as many as h11 takes."""

_LAST_WORDS: Final = 0.5
"""Seconds to read the answer to a request that has used up its grace."""

_REFUSED: Final = b"The headers are too long"
_TOO_LONG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_REFUSED), _REFUSED)
)


def bounded(*, read_timeout: float, write_timeout: float, grace: float) -> type[asyncio.Protocol]:
    """The protocol that uvicorn would choose, with bounds.

    Args:
        read_timeout: Seconds that the head of a request may take to arrive, and the rest of a
            request that was answered before all of it had.
        write_timeout: Seconds that a client may take nothing of what was written to it.
        grace: Seconds that a request may go on when the server is told to stop.
    """
    bases: tuple[type[Any], ...]
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        bases = (_Patient, H11Protocol)
    else:
        bases = (_Patient, _Strict, HttpToolsProtocol)
    timeouts = {"read_timeout": read_timeout, "write_timeout": write_timeout, "grace": grace}
    return type("BoundedProtocol", bases, timeouts)


class _Patient(Served):
    """A connection that is dropped if it does not go on."""

    read_timeout: float
    write_timeout: float
    grace: float
    _reading: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None
    _ending: asyncio.TimerHandle | None = None
    _unwritten = 0

    def connection_made(self, transport: Any) -> None:
        """A client has connected."""
        super().connection_made(transport)
        self._reading = self.loop.call_later(self.read_timeout, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone, or was dropped."""
        super().connection_lost(exc)
        timers = self._reading, self._writing, self._ending, self.timeout_keep_alive_task
        for timer in timers:
            if timer is not None:
                timer.cancel()

    # --- what the client sends --------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            if self._reading is not None:
                self._reading.cancel()
                self._reading = None
        elif self._reading is None and (before is None or before.response_complete):
            # Uvicorn has just forgotten its own timer, which is for silence.
            self._reading = self.loop.call_later(self.read_timeout, self._give_up)
        if self.transport.is_closing():
            self._watch_output()

    def _give_up(self) -> None:
        self.transport.close()
        self._watch_output()

    # --- what the client reads --------------------------------------------------------------------

    def on_response_complete(self) -> None:
        """All of an answer has been written."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_output()

    def timeout_keep_alive_handler(self) -> None:
        """The client wants nothing more."""
        super().timeout_keep_alive_handler()
        self._watch_output()

    def shutdown(self) -> None:
        """The server is told to stop."""
        super().shutdown()
        # The last answers are written when the grace ends; whoever has not read them a little later
        # does not read.
        self._ending = self.loop.call_later(self.grace + _LAST_WORDS, self.transport.abort)

    def pause_writing(self) -> None:
        """More is written than the client has taken."""
        super().pause_writing()
        self._watch_output()

    def resume_writing(self) -> None:
        """The client has taken enough of it."""
        super().resume_writing()
        if self._writing is not None and not self.transport.is_closing():
            self._writing.cancel()
            self._writing = None

    def _watch_output(self) -> None:
        if self._writing is None:
            self._unwritten = self.transport.get_write_buffer_size()
            if self._unwritten:
                self._writing = self.loop.call_later(self.write_timeout, self._look_at_output)

    def _look_at_output(self) -> None:
        self._writing = None
        if self.transport.get_write_buffer_size() < self._unwritten:
            self._watch_output()
        else:
            self.transport.abort()


class _Strict(Served):
    """What the h11 protocol does by itself.

    It refuses heads that do not end, and tells each of several requests that were sent at once that
    the client has gone, where the fast one tells the last.
    """

    _in_head = False
    _head = 0
    _earlier: Sequence[Any] = ()

    def on_message_begin(self) -> None:
        """A request begins."""
        self._in_head = True
        self._head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its headers have arrived."""
        self._in_head = False
        before: Any = self.cycle
        super().on_headers_complete()
        if before is not None and not before.response_complete:
            earlier = (*self._earlier, before)
            self._earlier = [each for each in earlier if not each.response_complete]

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone, or was dropped."""
        super().connection_lost(exc)
        self.pipeline.clear()
        for cycle in self._earlier:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._earlier = ()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._head += len(data)
            if self._head > _LONGEST_HEAD:
                if self.cycle is None or self.cycle.response_complete:
                    self.transport.write(_TOO_LONG)
                self.transport.close()
