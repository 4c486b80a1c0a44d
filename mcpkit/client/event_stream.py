"""Event streams as a client reads them: bytes → events (WHATWG HTML, section 9.2.6).

Without input or output, and without decoding: the data of an event stays the bytes that were sent,
so a character that arrives in two pieces needs no care.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from mcpkit._utils.json import BYTE_ORDER_MARK

MAX_EVENT_BYTES: Final = 64 * 1024 * 1024  # bytes that an event may have, its field names included
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")
_MAX_RETRY_DIGITS: Final = 10
"""A wait of as many digits, in milliseconds, is four months and a mistake."""

_MAX_ID_BYTES: Final = 8 * 1024
"""Bytes of an id that can be sent back: servers take no longer header."""


class Event(NamedTuple):
    """An event that has data, if only empty data."""

    type: str  # "message" if the stream does not say
    data: bytes  # its lines, joined by newlines


class EventTooLarge(ValueError):
    """An event is larger than the limit."""


class EventStream:
    """A stream of events of at most `limit` bytes each, over as many connections as it takes.

    Attributes:
        last_id: The id of the last event that was complete; empty if none had one.
        retry: Milliseconds to wait before connecting again.
    """

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self.last_id = b""
        self.retry = 1000
        self._limit = limit
        self.connect()

    def connect(self) -> None:
        """Begin a connection, and forget the event that the last one left incomplete."""
        self._rest: list[bytes] = []
        self._size = 0
        self._is_first_line = True
        self._after_return = False
        self._id = self.last_id
        self._is_blank = False
        self._type = ""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that a piece of the stream completes; may raise `EventTooLarge`."""
        if self._after_return and chunk:
            # The return has ended its line already: an event must not wait for what may follow it.
            self._after_return = False
            chunk = chunk.removeprefix(b"\n")
        first, *lines = _LINE_END.split(chunk)
        self._grow(first)
        self._rest.append(first)
        if not lines:
            return
        self._after_return = chunk.endswith(b"\r")
        yield from self._line(b"".join(self._rest))
        last = lines.pop()
        for line in lines:
            # Lines that say nothing cost their sender next to nothing, so they must here too.
            if not line and self._is_blank:
                continue
            self._grow(line)
            yield from self._line(line)
        self._grow(last)
        self._rest = [last]

    def _grow(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise EventTooLarge(f"an event is larger than {self._limit} bytes")

    def _line(self, line: bytes) -> Iterator[Event]:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(BYTE_ORDER_MARK)
        self._is_blank = not line
        if line.startswith(b":"):
            self._size -= len(line)  # keep-alives do not add up to an event
            return
        if line:
            self._field(line)
            return
        self.last_id = self._id
        self._size = 0
        if self._data:
            yield Event(self._type or "message", b"\n".join(self._data))
        self._type, self._data = "", []

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._type = value.decode(errors="replace")
        elif name == b"id":
            if b"\0" not in value and len(value) <= _MAX_ID_BYTES:
                self._id = value
        elif name == b"retry" and value.isdigit() and len(value) < _MAX_RETRY_DIGITS:
            self.retry = int(value)
