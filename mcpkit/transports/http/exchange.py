"""One POST and its response: a JSON object, or an event stream as soon as something streams.

waiting ──last word──▶ JSON
   └──notification, question, or a few seconds──▶ stream ──last word──▶ end
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, cast

import anyio

from mcpkit._protocol.connection import Ignored, Rejected, Request
from mcpkit._protocol.messages import error_text
from mcpkit._server.channel import Channel
from mcpkit._utils.json import UNSET
from mcpkit._utils.quota import QuotaExceeded, Reservation
from mcpkit.errors import Forbidden, LimitExceeded, ProtocolError
from mcpkit.http import HttpRequest, Receive, Send
from mcpkit.transports.http.http_error import JSON, HttpError, retry_after
from mcpkit.transports.http.quotas import watch
from mcpkit.transports.http.requests import OpenRequest, OpenRequests
from mcpkit.transports.http.streams import PART, Stream, StreamResponse, await_disconnect, write

_WATCH_AFTER: Final = 0.1
"""Seconds after which it is worth noticing that a client disconnects; most calls end before."""

_LARGE: Final = 64 * 1024
"""Bytes that no socket takes at once, so that a client may be slow to read them."""

_BROKEN: Final = frozenset({-32700, -32600})
_STATUS_PER_REQUEST: Final = {
    **dict.fromkeys((*_BROKEN, -32020, -32021, -32022), 400),
    -32601: 404,
}


def error_status(error: ProtocolError, *, per_request: bool, served: bool) -> int:
    """Return the HTTP status of an error, which a handler has raised if `served` is True."""
    if per_request:
        return _STATUS_PER_REQUEST.get(error.code, 200 if served else 400)
    return 400 if error.code in _BROKEN and not served else 200


class ExchangeChannel(Channel):
    """A channel that gives each message to its exchange, the origin of its request."""

    def send(self, text: bytes, request: Any = None) -> None:
        """Put a message on the stream of its request."""
        if request is not None:
            request.origin.push(text)

    def answer(self, request: Any, text: bytes | None, error: ProtocolError | None = None) -> None:
        """Take the response to a request; None if it has no response."""
        request.origin.complete(text, error)

    def reject(self, event: Rejected | Ignored, origin: Any = None) -> None:
        """Take the error of a message that is not served."""
        if origin is not None:
            origin.reject(event)

    def close_stream(self, request: Any, retry: float | None) -> None:
        """Close the connection that a request's messages go to."""
        request.origin.detach(retry)

    def is_congested(self, request: Any) -> bool:
        """Return True if the client does not read the messages of a request."""
        stream: Stream | None = request.origin.stream
        return stream is not None and stream.is_congested

    def reserve(self, size: int, request: Any) -> None:
        """Count bytes that are kept for the client of a request."""
        request.origin.reserve(size)

    def wait_for_client(self, request: Request) -> Callable[[], None]:
        """Note that a request waits for its client's answer."""
        exchange = cast("Exchange", request.origin)
        return exchange.open_requests.wait_for_client(exchange)

    async def drain(self, request: Any = None) -> None:
        """Wait until the client has read."""
        if request is not None and request.origin.stream is not None:
            await request.origin.stream.drain()


CHANNEL: Final = ExchangeChannel()


class Exchange(OpenRequest):
    """A POST whose message is being served.

    Args:
        http, session, open_requests: As for every `OpenRequest`.
        count: The number of responses that it wants: one, or one for each request of a batch.
        per_request: True if the request is in no session: its client cancels it by disconnecting,
            and errors have statuses of their own.
    """

    # These change in few exchanges only. Attributes that are read in every exchange are set in
    # each, since Python finds them faster.
    disconnected = False
    may_stream = True
    """False if the response is a status, however long it takes."""
    _held: tuple[bytes | None, ProtocolError | None, int | None] | None = None
    """The response, until nothing runs any more; see `complete`."""
    _response: StreamResponse | None = None
    _watched: Reservation | None = None
    """The bytes of the URIs that its client watches."""
    _wake: anyio.Event | None = None
    _unwatch: Callable[[], object] | None = None
    _stop_timer: Callable[[], object] | None = None

    def __init__(
        self,
        http: HttpRequest,
        session: Any,
        open_requests: OpenRequests,
        count: int,
        *,
        per_request: bool,
    ) -> None:
        self.http = http
        self.slot = None
        self._on_close = ()
        self.session = session
        self.open_requests = open_requests
        self._count = count
        self._per_request = per_request
        self.done = count == 0
        self.ready = count == 0
        """True if the response is at hand, and of a size that sockets take."""
        self.status = 202
        self.headers: Sequence[tuple[bytes, bytes]] = ()
        """Headers of the response, in addition."""
        self.body: bytes | None = None
        self.error: ProtocolError | None = None
        self.stream: Stream | None = None

    def open_stream(self) -> Stream:
        """Return a stream for the response, which the client cannot resume."""
        return Stream(owner=self.owner, unread=self.open_requests.quotas.unread)

    def reserve(self, size: int) -> None:
        """Count bytes that are kept of it until it is closed; see `watch`."""
        if self._watched is None:
            self._watched = self.open_requests.quotas.watched.charge(self.owner)
            self.on_close(self._watched.release)
        watch(self._watched, size)

    def take(self, message: dict[str, Any] | list[Any]) -> None:
        """Hand a message, or a batch, to the session."""
        events = self.session.connection.take(message, self)
        self.expect(events)
        for event in events:
            self.session.act_on(event, self)

    def expect(self, events: Sequence[object]) -> None:
        """Wait for the notifications among some events that are served as requests are."""
        count = sum(type(each) is Request and each.known.is_notification for each in events)
        if count:
            self.may_stream = self._count > 0
            self._count += count
            self.done = self.ready = False

    # --- from the session -------------------------------------------------------------------------

    def push(self, text: bytes) -> None:
        """Take a notification or a question, with which the response becomes a stream."""
        if not self.done and self.may_stream:
            self._streaming().put(text)

    def complete(
        self, text: bytes | None, error: ProtocolError | None, status: int | None = None
    ) -> None:
        """Take the response to a request.

        Args:
            text: The response; None if it has none, or its batch is incomplete.
            error: The error that it is.
            status: Of an error whose request was not served.
        """
        if self.done:
            return
        self._count -= 1
        if self._count > 0:
            if text is not None:  # notifications of its batch still run
                self._held = text, error, status
            return
        if text is None and self._held is not None:
            text, error, status = self._held
        streams = self.may_stream and not self._per_request
        if text is None and status is None and self.stream is None and streams:
            # CANC-4 wants no response, and HTTPL-3 one object or a stream: so it is an empty one.
            self.stream = self.open_stream()
        self.done = True
        if self.stream is not None:
            if text is not None:
                self.stream.put(text)
            self.stream.end()
        else:
            self.body = text
            self.error = error
            if error is not None:  # its frames would keep this exchange in a cycle
                error.__traceback__ = error.__context__ = error.__cause__ = None
            self.ready = text is None or len(text) < _LARGE
            if text is None:
                self.status = 202
            elif error is None:
                self.status = status or 200
            elif isinstance(error, Forbidden):
                self.status = 200
                if not text.startswith(b"["):  # other requests of a batch are allowed
                    self.status = error.status
                    self.headers = self.open_requests.challenge(self.http, error)
            elif isinstance(error, LimitExceeded) and self._per_request:
                self.status, self.headers = 429, retry_after(error.retry_after)
            else:
                self.status = status or error_status(
                    error, per_request=self._per_request, served=True
                )
        if self._wake is not None:
            self._wake.set()
        if self.is_detached:
            self.open_requests.end(self)

    def reject(self, event: Rejected | Ignored) -> None:
        """Take the error of a message that is not served."""
        error = event.error
        if isinstance(event, Ignored):
            if error is not None and self.body is None:
                # Also where the revision has no shape for it: HTTP always has one (MSG-8).
                self.body = error_text(UNSET, error)
                self.status = 400
            if event.refused and not self.done:
                self._held = self._held or (self.body, error, 400)
                self.complete(None, None)
            return
        if self.done:
            if self.body is not None or self.stream is not None:
                return  # it is part of a batch that another part has completed
            self.done = False  # nothing was expected of it but 202
        status = error_status(event.error, per_request=self._per_request, served=False)
        self.complete(event.text, event.error, status)

    def _streaming(self) -> Stream:
        """Return the stream of the response, which it becomes."""
        if self.stream is None:
            self.stream = self.open_stream()
            self.stream.expected = not self.disconnected
            if self._wake is not None:
                self._wake.set()
        return self.stream

    def detach(self, retry: float | None) -> None:
        """Close the connection, because the client reconnects for the rest."""
        if self.done or not self.may_stream or not self.http.streams:
            return
        stream = self._streaming()
        if retry is not None:
            stream.put_retry(retry)
        self.disconnected = True
        if stream.response is not None:
            stream.response.close()

    # --- to the client ----------------------------------------------------------------------------

    async def respond(self, send: Send, receive: Receive) -> None:
        """Write the response, as soon as there is one or something streams."""
        if not self.ready:
            self.open_requests.add(self)
        try:
            if self.stream is None and not self.done:
                self._wake = anyio.Event()
                tick = partial(self._first_tick, receive)
                self._stop_timer = self.open_requests.loop.later(_WATCH_AFTER, tick)
                await self._wake.wait()
            if self.stream is not None:
                await self._write_stream(send, receive)
            elif self.done and not self.disconnected:
                await self._write_json(send)
        except BaseException:
            # Some servers cancel this task when the client disconnects.
            self.disconnect()
            raise
        finally:
            for stop in (self._stop_timer, self._unwatch):
                if stop is not None:
                    stop()
            self.open_requests.end(self)

    def _first_tick(self, receive: Receive) -> None:
        self._watch(receive)
        rest = max(self.open_requests.settings.stream_after - _WATCH_AFTER, 0)
        if self.may_stream:
            self._stop_timer = self.open_requests.loop.later(
                rest, lambda: None if self.done else self._streaming()
            )

    def _watch(self, receive: Receive) -> None:
        """Notice from now on that the client disconnects, or that the request takes too long."""
        if self._unwatch is None:
            watching = await_disconnect(receive, self.disconnect)
            self._unwatch = self.open_requests.loop.start(watching)
            self.set_deadline()

    def disconnect(self) -> None:
        """Note that the client has disconnected (CANC-5, HTTPL-20)."""
        self.disconnected = True
        if self._response is not None:
            self._response.disconnect()
        elif self.stream is not None:
            self.stream.expected = False
            self.stream.on_writable()
        if self._per_request and not self.done:
            for request in self.session.requests_in(self):
                self.session.cancel(request)
        if self._wake is not None:
            self._wake.set()

    async def _write_stream(self, send: Send, receive: Receive) -> None:
        assert self.stream is not None
        self._response = StreamResponse(self.stream, self.open_requests.settings)
        if self.disconnected:
            self._response.close()
        self._watch(receive)
        await self._response.serve(send, self.headers)

    async def _write_json(self, send: Send) -> None:
        """Respond with one JSON object, or with a status alone."""
        body = self.body or b""
        headers = [*self.headers, (b"content-length", b"%d" % len(body))]
        if body:
            headers.append(JSON)
        start = {"type": "http.response.start", "status": self.status, "headers": headers}
        if len(body) < _LARGE:
            await send(start)
            await send({"type": "http.response.body", "body": body})
            return
        try:
            unread = self.open_requests.quotas.unread.take(self.owner, len(body))
        except QuotaExceeded:
            self.body = None
            raise HttpError(
                503,
                "Too many responses wait to be read; try again later "
                "(the server's limit is max_unread)",
                retry_after(1),
            ) from None
        try:
            await send(start)
            # Servers wait for the client before a part of a body, and not after the last one.
            for index in range(0, len(body), PART):
                part = body[index : index + PART]
                more = index + PART < len(body)
                message = {"type": "http.response.body", "body": part, "more_body": more}
                await write(send, message, self.open_requests.limits.write_timeout)
        finally:
            unread.release()

    def close(self) -> None:
        """Give back everything that it holds."""
        if self.slot is not None or self._on_close:
            OpenRequest.close(self)
        if self.stream is not None and not self.outlasts:
            self.stream.discard()
