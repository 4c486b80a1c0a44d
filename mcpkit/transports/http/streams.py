"""Event streams to clients, their replay buffer, and the responses that carry them.

The format is that of server-sent events (WHATWG). A stream outlives the connections that it is
written to: it numbers its events where a client may reconnect for those that it has missed, and
keeps them within a bound that all streams share.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Final

import anyio

from mcpkit._utils.quota import Quota
from mcpkit.context import do_nothing
from mcpkit.http import Receive, Send
from mcpkit.transports.http.options import HttpSettings

HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""Headers of streams, because a proxy may not hold events back or change them (HTTPM-11)."""

HIGH_WATER: Final = 256 * 1024
"""Bytes that may wait to be written before log messages and progress are dropped."""

_LOW_WATER: Final = HIGH_WATER // 4
MAX_UNSENT: Final = 64 * HIGH_WATER
"""Bytes of events that may wait for a client that does not read; it has to reconnect then."""

PART: Final = 256 * 1024
"""Bytes that are given to the server at once."""

_OVERHEAD: Final = 1024
"""Bytes that a stream takes beside its events, if it is kept for a client that reconnects."""

_COMMENT: Final = b": still here\n\n"


class ClientNotReading(Exception):
    """A client does not read its response."""


async def write(send: Send, message: MutableMapping[str, Any], timeout: float) -> None:
    """Send a part of a response; `ClientNotReading` says that the client does not take it."""
    with anyio.move_on_after(timeout) as scope:
        await send(message)
    if scope.cancelled_caught:
        raise ClientNotReading


async def await_disconnect(receive: Receive, disconnect: Callable[[], object]) -> None:
    """Call a function when a client disconnects."""
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnect()


class ReplayBuffer:
    """The bound on the events that all streams together keep for clients that reconnect.

    A client that misses too much loses events of its own streams, the oldest first.
    """

    def __init__(self, quota: Quota) -> None:
        self.quota = quota
        self._streams: dict[str, OrderedDict[Stream, None]] = {}
        """The streams that may have events to spare, by their owners."""

    def trim(self, stream: Stream) -> None:
        """Note that a stream may have events to spare; let its owner forget some if need be."""
        owner = stream.owner
        streams = self._streams.setdefault(owner, OrderedDict())
        streams[stream] = None
        while streams and self.quota.exceeds(owner):
            oldest = next(iter(streams))
            if not oldest.forget_first():
                del streams[oldest]
                if oldest.on_spent is not None and not oldest.is_read:
                    oldest.on_spent()
        if not streams:
            self._streams.pop(owner, None)

    def forget(self, stream: Stream) -> None:
        """Ask a stream for no more events, because it is over."""
        streams = self._streams.get(stream.owner)
        if streams is not None:
            streams.pop(stream, None)
            if not streams:
                del self._streams[stream.owner]


class Stream:
    """A sequence of events for one client.

    Args:
        name: The beginning of its event ids; None for a stream that cannot be resumed.
        buffer: The bound on the events that it keeps; None if it keeps none.
        kind: The name of its events; None for the unnamed ones that mean the same to a browser.
        owner: The owner that its bytes are counted to.
        unread: The quota of bytes that wait for clients to read.
    """

    def __init__(
        self,
        name: str | None = None,
        buffer: ReplayBuffer | None = None,
        *,
        kind: str | None = None,
        owner: str,
        unread: Quota,
    ) -> None:
        self.name = name
        self.owner = owner
        self._unread = unread.charge(owner)
        self.number = 0
        """The number of the last event."""
        self.cursor = 0
        """The number of the last event that was written."""
        self.ended = False
        self.response: StreamResponse | None = None
        self.expected = False
        """True while its first response is about to be made."""
        self.on_spent: Callable[[], None] | None = None
        """Called when there is no room for it, and it has no event that can be forgotten."""
        self.stop_timer: Callable[[], object] = do_nothing
        """Called when it is discarded."""
        self._buffer = buffer
        if buffer is not None:
            buffer.quota.add(owner, _OVERHEAD)
        self._head = b"" if kind is None else b"event: %b\n" % kind.encode()
        self._events: deque[tuple[int, bytes]] = deque()
        self._unsent = 0
        self._is_over = False
        self._writable: anyio.Event | None = None

    # --- events in --------------------------------------------------------------------------------

    def put(self, text: bytes) -> None:
        """Add a message: one line of JSON."""
        self._add(self._head + b"data: " + text + b"\n\n")

    def put_retry(self, retry: float) -> None:
        """Tell the client to reconnect after some seconds (HTTPL-7).

        As the first event, it gives the client an event id to reconnect with (HTTPL-6).
        """
        self._add(b"retry: %d\ndata:\n\n" % round(retry * 1000))

    def put_address(self, uri: str) -> None:
        """Tell the client the address for its messages, as HTTP+SSE begins (SSE-2)."""
        self._add(b"event: endpoint\ndata: %b\n\n" % uri.encode())

    def _add(self, event: bytes) -> None:
        # A stream without a buffer is bounded by nothing else, and its client has been dropped.
        is_full = self._buffer is None and self._unsent > MAX_UNSENT
        if is_full or self._is_over:
            return
        self.number += 1
        if self.name is not None:
            event = b"id: %b.%d\n%b" % (self.name.encode(), self.number, event)
        self._events.append((self.number, event))
        self._unsent += len(event)
        if self._buffer is not None:
            self._buffer.quota.add(self.owner, len(event))
            self._buffer.trim(self)
        else:
            self._unread.set(self._unread.amount + len(event))
        if self.response is not None:
            too_much = self.is_congested and self._unread.exceeds
            if self._unsent > MAX_UNSENT or too_much:
                self.response.abandon()
            else:
                self.response.wake()

    def end(self) -> None:
        """End the stream: no event follows."""
        self.ended = True
        if self.response is not None:
            self.response.wake()

    # --- events out -------------------------------------------------------------------------------

    def rewind(self, number: int) -> bool:
        """Go back to the events after a number; return False if they are not all there."""
        if number > self.number:
            return False
        first = self._events[0][0] if self._events else self.number + 1
        if number + 1 < first:
            return False
        self.cursor = number
        self._unsent = sum(len(event) for each, event in self._events if each > number)
        return True

    def take(self) -> bytes:
        """Return all events that were not written yet, to be written now."""
        events = self._events
        waiting = min(self.number - self.cursor, len(events))
        parts = [events[index][1] for index in range(-waiting, 0)]
        self.cursor = self.number
        self._unsent = 0
        text = parts[0] if len(parts) == 1 else b"".join(parts)
        if self._buffer is None:
            self._events.clear()
        else:
            self._buffer.trim(self)
            self._unread.set(len(text))  # an earlier response has given up its own
        return text

    def written(self) -> None:
        """Note that the events taken last have reached the client's side."""
        self._unread.set(self._unsent if self._buffer is None else 0)

    @property
    def has_more(self) -> bool:
        """True if an event was not written yet."""
        return self.cursor < self.number

    def forget_first(self) -> bool:
        """Forget the first event; return False if it is still needed."""
        if not self._events or self._buffer is None:
            return False
        number, event = self._events[0]
        if number > self.cursor:
            if self.is_read:
                return False  # it is about to be written
            self._unsent -= len(event)
        self._events.popleft()
        self._buffer.quota.add(self.owner, -len(event))
        return True

    def spare(self) -> None:
        """Tell the buffer that there may be events that can be forgotten."""
        if self._buffer is not None:
            self._buffer.trim(self)

    def discard(self) -> None:
        """Forget all events, and those that may still be added: the client does not reconnect."""
        self._is_over = True
        self.stop_timer()
        if self._buffer is not None:
            kept = sum(len(event) for _, event in self._events)
            self._buffer.quota.add(self.owner, -(_OVERHEAD + kept))
            self._buffer.forget(self)
            self._buffer = None
        self._events.clear()
        self._unsent = 0
        self.written()
        self.on_writable()

    # --- back-pressure ----------------------------------------------------------------------------

    @property
    def is_congested(self) -> bool:
        """True if so much waits to be written that the client does not keep up."""
        return self._unsent > HIGH_WATER

    @property
    def is_read(self) -> bool:
        """True if a response is written, or is about to be."""
        return self.response is not None or self.expected

    async def drain(self) -> None:
        """Wait until the stream is not congested, or has no response."""
        if self.is_congested and self.is_read:
            if self._writable is None:
                self._writable = anyio.Event()
            await self._writable.wait()

    def on_writable(self) -> None:
        """Wake up those in `drain`, if the client keeps up."""
        if self._writable is not None and (self._unsent < _LOW_WATER or not self.is_read):
            self._writable.set()
            self._writable = None


class StreamResponse:
    """A response that a stream is written to."""

    def __init__(self, stream: Stream, settings: HttpSettings) -> None:
        self.stream = stream
        self.disconnected = False
        """True if the client disconnected before the stream or our side ended it."""
        self._keep_alive = settings.keep_alive
        self._write_timeout = settings.limits.write_timeout
        self._closing = False
        self._writing = False
        self._scope = anyio.CancelScope()
        self._event = anyio.Event()
        earlier = stream.response
        if earlier is not None:  # HTTPL-22: the client has reconnected
            if earlier._writing:
                earlier.abandon()  # the client does not read that one
            else:
                earlier.close()
        stream.response = self
        stream.expected = False

    def wake(self) -> None:
        """Look for something to write, or for the end."""
        self._event.set()

    def close(self) -> None:
        """Write the events that there are, and leave the rest of the stream to another response."""
        self._closing = True
        self._event.set()

    def abandon(self) -> None:
        """Drop the connection of a client that does not read, also during a write."""
        if self.stream.response is self:
            self.stream.response = None
            self.stream.on_writable()
        self._scope.cancel()

    def disconnect(self) -> None:
        """Note that the client has disconnected."""
        self.disconnected = True
        self._event.set()

    async def serve(self, send: Send, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Respond with the stream, until it ends, `disconnect` is called, or it is closed."""
        try:
            with self._scope:
                await self._respond(send, headers)
            if self._scope.cancel_called:
                raise ClientNotReading
        finally:
            if self.stream.response in (self, None):
                self.stream.response = None
                self.stream.on_writable()
                self.stream.written()

    async def _respond(self, send: Send, headers: Sequence[tuple[bytes, bytes]]) -> None:
        start = [*HEADERS, *headers]
        await self._write(send, {"type": "http.response.start", "status": 200, "headers": start})
        while not self.disconnected:
            await self._write_events(send)
            if self._closing or self.stream.ended:
                break
            with anyio.move_on_after(self._keep_alive) as silence:
                await self._event.wait()
            if silence.cancelled_caught and not self.disconnected:
                await self._write_part(send, _COMMENT)
        if not self.disconnected:
            await self._write(send, {"type": "http.response.body", "body": b""})

    async def _write_events(self, send: Send) -> None:
        while True:
            self._event = anyio.Event()
            # Once another connection has the stream, the rest is for that one to write.
            mine = self.stream.response is self
            text = self.stream.take() if mine and self.stream.has_more else b""
            if not text or self.disconnected:
                return
            # In parts, since a server keeps the whole of one until the client has read it.
            for start in range(0, len(text), PART):
                await self._write_part(send, text[start : start + PART])
            self.stream.written()
            self.stream.on_writable()

    async def _write_part(self, send: Send, part: bytes) -> None:
        await self._write(send, {"type": "http.response.body", "body": part, "more_body": True})

    async def _write(self, send: Send, message: MutableMapping[str, Any]) -> None:
        self._writing = True
        await write(send, message, self._write_timeout)
        self._writing = False
