"""Event streams to clients, and the buffer from which they fetch what they have missed.

The format is that of server-sent events (WHATWG).

A stream outlives the connections it is written to. It numbers its events where a client may come
back for what it has missed, and keeps them within a bound that all streams share.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import anyio

from mcpkit._concurrency.loop import Loop
from mcpkit._utils.quota import ANONYMOUS, Budget, Hold, Holder

__all__ = ["HEADERS", "ClientNotReading", "ReplayBuffer", "Stream", "StreamResponse", "write"]

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

HEADERS: Final = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)
"""Headers of streams, because no proxy may hold events back or change them (HTTPM-11)."""

_HIGH_WATER: Final = 256 * 1024
"""Bytes that may wait to be written before log messages and progress are left out."""

_PART: Final = 256 * 1024
"""Bytes that are given to the server at once."""

_LOW_WATER: Final = _HIGH_WATER // 4
_MOST_WAITING: Final = 64 * _HIGH_WATER
"""Bytes of events that may wait for a client that does not read; it has to come back then."""

_OVERHEAD: Final = 1024
"""Bytes that a stream takes beside its events, if it is kept for a client that comes back."""

_COMMENT: Final = b": still here\n\n"


class ClientNotReading(Exception):
    """A client does not take what is written to it."""


async def write(send: Send, message: MutableMapping[str, Any], patience: float) -> None:
    """Send a part of a response.

    Args:
        send: The send function of the ASGI application.
        message: The part, as ASGI has it.
        patience: Seconds that the client may take nothing.

    Raises:
        ClientNotReading: The client has taken nothing for so long.
    """
    try:
        with anyio.fail_after(patience):
            await send(message)
    except TimeoutError:
        raise ClientNotReading from None


class ReplayBuffer:
    """The bound on what all streams together keep for clients that come back.

    A client that misses too much loses events of its own streams, the oldest first.

    Args:
        budget: The bytes that there are, and who has them.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self._streams: dict[str, OrderedDict[Stream, None]] = {}
        """The streams that may have events to spare, by their owners."""

    @property
    def streams(self) -> int:
        """The number of streams that may have events to spare."""
        return sum(map(len, self._streams.values()))

    def add(self, stream: Stream, size: int) -> None:
        """Count more bytes of a stream; let the oldest of its owner forget if it is too much."""
        self.budget.add(stream.holder, size)
        self.trim(stream)

    def trim(self, stream: Stream) -> None:
        """Note that a stream may have events to spare, because they are written by now."""
        owner = stream.holder.owner
        streams = self._streams.setdefault(owner, OrderedDict())
        streams[stream] = None
        while streams and self.budget.exceeds(stream.holder):
            oldest = next(iter(streams))
            if not oldest.forget_first():
                del streams[oldest]
                if oldest.on_spent is not None and not oldest.is_read:
                    oldest.on_spent()
        if not streams:
            self._streams.pop(owner, None)

    def remove(self, stream: Stream, size: int) -> None:
        """Count fewer bytes of a stream."""
        self.budget.give_back(stream.holder, size)

    def forget(self, stream: Stream) -> None:
        """Ask a stream for no more events, because it is over."""
        owner = stream.holder.owner
        streams = self._streams.get(owner)
        if streams is not None:
            streams.pop(stream, None)
            if not streams:
                del self._streams[owner]


class Stream:
    """A sequence of events for one client.

    Args:
        name: The beginning of its event ids; None for a stream that nobody comes back to.
        buffer: The bound on what it keeps; None if it keeps nothing.
        kind: The name of its events; None for the unnamed ones that mean the same to a browser.
        holder: Whoever has caused it.
        unread: The bytes that may wait for clients to read; None: any number.
    """

    __slots__ = (
        "__weakref__",
        "_buffer",
        "_events",
        "_head",
        "_is_over",
        "_relieved",
        "_unread",
        "_unsent",
        "cursor",
        "ended",
        "expected",
        "holder",
        "name",
        "number",
        "on_spent",
        "response",
    )

    def __init__(
        self,
        name: str | None = None,
        buffer: ReplayBuffer | None = None,
        *,
        kind: str | None = None,
        holder: Holder = ANONYMOUS,
        unread: Budget | None = None,
    ) -> None:
        self.name = name
        self._unread = None if unread is None else Hold(unread, holder)
        self.holder = holder
        self.number = 0
        """The number of the last event."""
        self.cursor = 0
        """The number of the last event that was written."""
        self.ended = False
        self.response: StreamResponse | None = None
        self.expected = False
        """True while its first response is about to be made."""
        self.on_spent: Callable[[], None] | None = None
        """Called when there is no room for it, and it has no event that can be spared."""
        self._buffer = buffer
        if buffer is not None:
            buffer.budget.add(holder, _OVERHEAD)
        self._head = b"" if kind is None else b"event: %b\n" % kind.encode()
        self._events: deque[tuple[int, bytes]] = deque()
        self._unsent = 0
        self._is_over = False
        self._relieved: anyio.Event | None = None

    @property
    def _is_full(self) -> bool:
        # What has no buffer is bounded by nothing else, and its client has been given up.
        return self._buffer is None and self._unsent > _MOST_WAITING

    # --- what goes in -----------------------------------------------------------------------------

    def put(self, text: bytes) -> None:
        """Add a message: one line of JSON."""
        self._add(self._head + b"data: " + text + b"\n\n")

    def prime(self, retry: float) -> None:
        """Give the client an event id to come back with, before there is anything to say (HTTPL-6).

        Args:
            retry: Seconds after which it should.
        """
        self._add(b"retry: %d\ndata:\n\n" % round(retry * 1000))

    def put_retry(self, retry: float) -> None:
        """Tell the client to come back after some seconds (HTTPL-7)."""
        self._add(b"retry: %d\ndata:\n\n" % round(retry * 1000))

    def put_address(self, uri: str) -> None:
        """Tell the client the address for its messages, as HTTP+SSE begins (SSE-2)."""
        self._add(b"event: endpoint\ndata: %b\n\n" % uri.encode())

    def _add(self, event: bytes) -> None:
        if self._is_full or self._is_over:
            return
        self.number += 1
        if self.name is not None:
            event = b"id: %b.%d\n%b" % (self.name.encode(), self.number, event)
        self._events.append((self.number, event))
        self._unsent += len(event)
        if self._buffer is not None:
            self._buffer.add(self, len(event))
        else:
            self._count(len(event))
        if self.response is not None:
            if self._unsent > _MOST_WAITING or self._burdens():
                self.response.give_up()
            else:
                self.response.wake()

    def _count(self, size: int) -> None:
        """Count bytes that only the client's reading will free."""
        if self._unread is not None:
            self._unread.set(self._unread.amount + size)

    def _burdens(self) -> bool:
        """True if its owner makes too much wait, and this stream has part in that."""
        return self.congested and self._unread is not None and self._unread.exceeds

    def end(self) -> None:
        """End the stream: no event follows."""
        self.ended = True
        if self.response is not None:
            self.response.wake()

    # --- what comes out ---------------------------------------------------------------------------

    def rewind(self, number: int) -> bool:
        """Go back to what follows an event; return False if that is no longer known."""
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
        parts = [events[place][1] for place in range(-waiting, 0)]
        self.cursor = self.number
        self._unsent = 0
        text = parts[0] if len(parts) == 1 else b"".join(parts)
        if self._buffer is None:
            self._events.clear()
        else:
            self.spare()
            if self._unread is not None:
                self._unread.set(len(text))  # what another response has taken, it has given up
        return text

    def written(self) -> None:
        """Note that the client's side has what was taken last."""
        if self._unread is not None:
            self._unread.set(self._unsent if self._buffer is None else 0)

    @property
    def has_more(self) -> bool:
        """True if an event was not written yet."""
        return self.cursor < self.number

    def forget_first(self) -> bool:
        """Forget the first event; return False if it cannot be spared."""
        if not self._events or self._buffer is None:
            return False
        number, event = self._events[0]
        if number > self.cursor:
            if self.is_read:
                return False  # it is about to be written
            self._unsent -= len(event)
        self._events.popleft()
        self._buffer.remove(self, len(event))
        return True

    def spare(self) -> None:
        """Let the buffer know that there may be events that can be spared."""
        if self._buffer is not None:
            self._buffer.trim(self)

    def discard(self) -> None:
        """Forget all events, and those that may still come: nobody comes back for them."""
        self._is_over = True
        if self._buffer is not None:
            kept = sum(len(event) for _, event in self._events)
            self._buffer.remove(self, _OVERHEAD + kept)
            self._buffer.forget(self)
            self._buffer = None
        self._events.clear()
        self._unsent = 0
        self.written()
        self.relieve()

    # --- pressure ---------------------------------------------------------------------------------

    @property
    def congested(self) -> bool:
        """True if so much waits to be written that the client does not keep up."""
        return self._unsent > _HIGH_WATER

    @property
    def is_read(self) -> bool:
        """True if a response is written, or is about to be."""
        return self.response is not None or self.expected

    async def drain(self) -> None:
        """Wait until the stream is not congested, or nobody reads it."""
        if self.congested and self.is_read:
            if self._relieved is None:
                self._relieved = anyio.Event()
            await self._relieved.wait()

    def relieve(self) -> None:
        """Let those go on who wait for the client to keep up, if it does."""
        if self._relieved is not None and (self._unsent < _LOW_WATER or not self.is_read):
            self._relieved.set()
            self._relieved = None


class StreamResponse:
    """A response that a stream is written to.

    Args:
        stream: The stream.
        loop: The event loop.
        keep_alive: Silent seconds after which a comment is written.
        write_timeout: Seconds that the client may take nothing.
    """

    def __init__(
        self, stream: Stream, loop: Loop, *, keep_alive: float, write_timeout: float
    ) -> None:
        self.stream = stream
        self.comment = False
        self.lost = False
        """True if the client went away before the stream or our side ended it."""
        self._loop = loop
        self._keep_alive = keep_alive
        self._write_timeout = write_timeout
        self._leaving = False
        self._is_given_up = False
        self._writing: anyio.CancelScope | None = None
        self._event = anyio.Event()
        self._written = False
        if stream.response is not None:
            stream.response.replace()  # HTTPL-22: the client has come back, whatever became of it
        stream.response = self
        stream.expected = False

    def wake(self) -> None:
        """Look for something to write, or for the end."""
        self._event.set()

    def replace(self) -> None:
        """Leave the stream to another response, at once if the client does not read this one."""
        if self._writing is None:
            self.let_go()
        else:
            self.give_up()

    def let_go(self) -> None:
        """Write what there is, and leave the rest of the stream to another response."""
        self._leaving = True
        self._event.set()

    def give_up(self) -> None:
        """Drop the connection of a client that does not read, also while something is written."""
        self._is_given_up = True
        if self.stream.response is self:
            self.stream.response = None
            self.stream.relieve()
        if self._writing is not None:
            self._writing.cancel()
        self._event.set()

    def lose(self) -> None:
        """Note that the client is gone."""
        self.lost = True
        self._event.set()

    def _tick(self) -> None:
        if not self._written:
            self.comment = True
            self._event.set()
        self._written = False
        self._stop_ticking = self._loop.later(self._keep_alive, self._tick)

    async def serve(
        self, send: Send, headers: list[tuple[bytes, bytes]], receive: Receive | None = None
    ) -> None:
        """Answer with the stream, until it ends, the client leaves, or it is to be let go.

        Args:
            send: The send function of the ASGI application.
            headers: Headers of the response, in addition to those of every stream.
            receive: The receive function, to notice that the client leaves; None if the caller
                notices that.
        """
        watching = None if receive is None else self._loop.start(self._watch(receive))
        self._stop_ticking = self._loop.later(self._keep_alive, self._tick)
        try:
            start = {
                "type": "http.response.start",
                "status": 200,
                "headers": [*HEADERS, *headers],
            }
            await self._write(send, start)
            while not self.lost:
                await self._write_events(send)
                if self._leaving or self.stream.ended:
                    break
                await self._event.wait()
                self._check_given_up()
            if not self.lost:
                await self._write(send, {"type": "http.response.body", "body": b""})
        except (OSError, ClientNotReading):
            self.lost = True
            raise
        finally:
            self._stop_ticking()
            if watching is not None:
                watching()
            if self.stream.response is self:
                self.stream.response = None
                self.stream.relieve()
            if self.stream.response is None:
                self.stream.written()

    async def _write_events(self, send: Send) -> None:
        while True:
            self._event = anyio.Event()
            # Once another connection has the stream, what is left is for that one to write.
            mine = self.stream.response is self
            text = self.stream.take() if mine and self.stream.has_more else b""
            if self.comment and not text:
                text = _COMMENT
            self.comment = False
            if not text or self.lost:
                return
            self._written = True
            # In parts, since a server keeps the whole of one until the client has read it.
            for start in range(0, len(text), _PART):
                part = text[start : start + _PART]
                body = {"type": "http.response.body", "body": part, "more_body": True}
                await self._write(send, body)
            self.stream.written()
            self.stream.relieve()

    async def _write(self, send: Send, message: MutableMapping[str, Any]) -> None:
        with anyio.CancelScope() as self._writing:
            await write(send, message, self._write_timeout)
        self._writing = None
        self._check_given_up()

    def _check_given_up(self) -> None:
        if self._is_given_up:
            raise ClientNotReading

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.lose()
