"""One POST and its answer: a JSON object, or an event stream as soon as something streams.

waiting ──last word──▶ JSON
   └──notification, question, or a few seconds──▶ stream ──last word──▶ end
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import anyio

from mcpkit._protocol.connection import Ignored, Rejected, Request, RequestSource
from mcpkit._protocol.messages import error_text
from mcpkit._server.channel import Channel
from mcpkit._server.session import Session
from mcpkit._utils.json import UNSET
from mcpkit._utils.quota import Exhausted, Hold, Holder
from mcpkit.errors import Forbidden, InternalError, ProtocolError
from mcpkit.http import HttpRequest
from mcpkit.transports.http.authorization import forbidden_challenge
from mcpkit.transports.http.http_error import HttpError, retry_after
from mcpkit.transports.http.quotas import Occupant, Watched
from mcpkit.transports.http.streams import Receive, Send, Stream, StreamResponse, write
from mcpkit.types import Principal

if TYPE_CHECKING:
    from mcpkit.transports.http.requests import InFlight

__all__ = ["JSON", "Exchange", "ExchangeChannel", "error_status"]

_WATCH_AFTER: Final = 0.1
"""Seconds after which it is worth noticing that a client has gone away; most calls end before."""

_PART: Final = 256 * 1024
_LARGE: Final = 64 * 1024
"""Bytes that no socket takes at once, so that a client may be slow to read them."""

JSON: Final = (b"content-type", b"application/json")
_BROKEN: Final = frozenset({-32700, -32600})
_MODERN_STATUS: Final = {
    -32601: 404,
    -32700: 400,
    -32600: 400,
    -32020: 400,
    -32021: 400,
    -32022: 400,
}


def error_status(error: ProtocolError, *, modern: bool, served: bool) -> int:
    """Return the HTTP status of an answer that is an error.

    Args:
        error: The error.
        modern: True if the request belongs to a revision without handshake.
        served: True if a handler had begun; otherwise the request was refused.
    """
    if isinstance(error, Forbidden):
        return error.status
    if modern:
        return _MODERN_STATUS.get(error.code, 200 if served else 400)
    return 400 if error.code in _BROKEN and not served else 200


class ExchangeChannel(Channel):
    """A channel that gives each message to the exchange that it belongs to."""

    def send(self, text: bytes, about: Request | None = None) -> None:
        """Put a message on the stream of its request."""
        if about is not None:
            exchange: Any = about.origin
            exchange.push(text)

    def answer(
        self, request: Request, text: bytes | None, error: ProtocolError | None = None
    ) -> None:
        """Take the answer to a request, or that it has none."""
        exchange: Any = request.origin
        exchange.settle(text, error)

    def reject(self, event: Rejected | Ignored, origin: RequestSource | None = None) -> None:
        """Take the error of a message that is not served."""
        exchange: Any = origin
        if exchange is not None:
            exchange.reject(event)

    def let_go(self, request: Request, retry: float | None) -> None:
        """Close the connection that a request's messages go to."""
        exchange: Any = request.origin
        exchange.leave(retry)

    def is_congested(self, about: Request) -> bool:
        """Return True if the client does not read what is sent with a request."""
        stream = self._stream_of(about)
        return stream is not None and stream.congested

    def reserve(self, size: int, about: Request) -> None:
        """Count bytes that are kept for the client of a request."""
        exchange: Any = about.origin
        exchange.reserve(size)

    def park(self, about: Request) -> Callable[[], None]:
        """Note that a request waits for its client's answer."""
        exchange: Any = about.origin
        parked: Callable[[], None] = exchange.flight.park(exchange)
        return parked

    async def drain(self, about: Request | None = None) -> None:
        """Wait until the client has read."""
        stream = None if about is None else self._stream_of(about)
        if stream is not None:
            await stream.drain()

    @staticmethod
    def _stream_of(request: Request) -> Stream | None:
        exchange: Any = request.origin
        stream: Stream | None = exchange.stream
        return stream


class Exchange(Occupant):
    """A POST whose message is being served.

    Args:
        http: The POST.
        session: The session that serves it.
        flight: The requests that it is one of.
        count: The number of answers that it wants: one, or one for each request of a batch.
        open_stream: Makes the stream that the answer becomes if something streams.
        modern: True if the client gives up on the request by going away.
    """

    # These change in few exchanges only. What every exchange is asked for is set in each, since
    # Python finds that faster.
    gone = False
    outlasts = False
    """True if it goes on when its client leaves, who may come back for the answer."""
    _response: StreamResponse | None = None
    _unwatch: Callable[[], object] | None = None
    _stop_timer: Callable[[], object] | None = None

    def __init__(
        self,
        http: HttpRequest,
        session: Session,
        flight: InFlight,
        count: int,
        open_stream: Callable[[Holder], Stream],
        *,
        modern: bool,
    ) -> None:
        self.http = http
        self.budget = None
        self._holds = ()
        self._watched: Watched | None = None
        """The bytes of the URIs that its client watches."""
        self.session = session
        self.flight = flight
        self._count = count
        self._open_stream = open_stream
        self._modern = modern
        self.done = count == 0
        """True if the answer is complete."""
        self.status = 202
        self.headers: Sequence[tuple[bytes, bytes]] = ()
        """Headers of the response, in addition."""
        self.body: bytes | None = None
        self.error: ProtocolError | None = None
        self.stream: Stream | None = None
        self.on_done: Callable[[], None] | None = None
        """Called when the answer is complete."""
        self.on_close: Callable[[], None] | None = None
        """Called when the client has its answer, or has left."""
        self._wake: anyio.Event | None = None
        self._stop_deadline: Callable[[], object] | None = None

    @property
    def principal(self) -> Principal | None:
        """The principal of the request; None if it has none."""
        return self.http.principal

    def reserve(self, size: int) -> None:
        """Count bytes that are kept of it for as long as it goes on.

        Raises:
            TooMuchWatched: There is no room for them.
        """
        if self._watched is None:
            self._watched = Watched(self.flight.accounts.watched, self.holder)
        self._watched.grow(size)

    # --- what the session says --------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """True if the answer is at hand, and of a size that sockets take."""
        return self.done and self.stream is None and len(self.body or b"") < _LARGE

    def push(self, text: bytes) -> None:
        """Take a notification or a question, with which the answer becomes a stream."""
        if self.done:
            return
        if self.stream is None:
            self._become_stream()
        assert self.stream is not None
        self.stream.put(text)

    def settle(self, text: bytes | None, error: ProtocolError | None) -> None:
        """Take the answer to a request; None if it has none, or its batch is incomplete."""
        if self.done:
            return
        self._count -= 1
        if text is None:
            if self._count > 0:
                return
            if self.stream is None and not self._modern:
                # CANC-4 wants no answer, and HTTPL-3 one object or a stream: so it is an empty one.
                self.stream = self.flight.open_stream(self.holder)
        status = 200
        if error is not None:
            status = error_status(error, modern=self._modern, served=True)
        self._finish(text, error, status)

    def reject(self, event: Rejected | Ignored) -> None:
        """Take the error of a message that is not served."""
        error = event.error
        if isinstance(event, Ignored):
            if error is not None and self.body is None:
                # Whatever a revision has a shape for: HTTP always has one (MSG-8).
                self.body = error_text(UNSET, error)
                self.status = 400
            if event.refused and not self.done:
                self._count -= 1
                if self._count <= 0:
                    self._finish(self.body, error, 400)
            return
        if self.done and (self.body is not None or self.stream is not None):
            return  # it is part of a batch that another part has completed
        self._count -= 1
        if event.text is not None or self._count <= 0:
            status = error_status(event.error, modern=self._modern, served=False)
            self._finish(event.text, event.error, status)

    def _finish(self, text: bytes | None, error: ProtocolError | None, status: int) -> None:
        self.done = True
        if self.stream is not None:
            if text is not None:
                self.stream.put(text)
            self.stream.end()
        else:
            self.body = text
            self.error = error
            self.status = status if text is not None else 202
            if error is not None and isinstance(error, Forbidden):
                if text is not None and text.startswith(b"["):
                    self.status = 200  # others in the batch are allowed
                else:
                    challenge = forbidden_challenge(self.flight.authorization, self.http, error)
                    self.headers = (*self.headers, *challenge)
        if self._stop_deadline is not None:
            self._stop_deadline()
        if self._wake is not None:
            self._wake.set()
        if self.on_done is not None:
            self.on_done()

    def _become_stream(self) -> None:
        self.stream = self._open_stream(self.holder)
        self.stream.expected = not self.gone
        if self._wake is not None:
            self._wake.set()

    def leave(self, retry: float | None) -> None:
        """Close the connection, because the client comes back for the rest."""
        if self.done:
            return
        if self.stream is None:
            self._become_stream()
        assert self.stream is not None
        if retry is not None:
            self.stream.put_retry(retry)
        self.gone = True
        response = self._response or self.stream.response
        if response is not None:
            response.let_go()

    # --- what the client sees ---------------------------------------------------------------------

    async def wait(self, receive: Receive) -> None:
        """Wait until there is an answer, something streams, or the client has gone away."""
        self._wake = anyio.Event()
        self._stop_timer = self.flight.loop.later(_WATCH_AFTER, lambda: self._first_tick(receive))
        try:
            await self._wake.wait()
        except BaseException:
            # The server ends this task, as some do when the client goes away.
            self.lose()
            raise
        finally:
            if self.stream is None:
                self._stop()

    def _first_tick(self, receive: Receive) -> None:
        if self._unwatch is None:
            self._unwatch = self.flight.loop.start(self._watch(receive))
        settings = self.flight.settings
        rest = settings.stream_after - _WATCH_AFTER
        self._stop_timer = self.flight.loop.later(max(rest, 0), self._second_tick)
        self._limit(_WATCH_AFTER)

    def _limit(self, elapsed: float = 0) -> None:
        """Let the request run no longer than it may."""
        limit = self.flight.settings.request_timeout
        if limit is not None and self._stop_deadline is None and not self.done:
            self._stop_deadline = self.flight.loop.later(
                max(limit - elapsed, 0),
                lambda: self.expire(f"The request took longer than {limit:g} seconds"),
            )

    def _second_tick(self) -> None:
        self._stop_timer = None
        if self.stream is None and not self.done:
            self._become_stream()

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._unwatch = None
        self.lose()

    def lose(self) -> None:
        """Note that the client has gone away (CANC-5, HTTPL-20)."""
        self.gone = True
        if self._response is not None:
            self._response.lose()
        elif self.stream is not None:
            self.stream.expected = False
            self.stream.relieve()
        if self._modern and not self.done:
            for request in self.session.requests_in(self):
                self.session.cancel(request)
        if self._wake is not None:
            self._wake.set()

    def _stop(self) -> None:
        if self._stop_timer is not None:
            self._stop_timer()
            self._stop_timer = None
        if self._unwatch is not None:
            self._unwatch()
            self._unwatch = None

    async def write_stream(self, send: Send, receive: Receive) -> None:
        """Answer with the stream."""
        assert self.stream is not None
        response = self._response = StreamResponse(
            self.stream,
            self.flight.loop,
            keep_alive=self.flight.settings.keep_alive,
            write_timeout=self.flight.settings.write_timeout,
        )
        if self.gone:
            response.let_go()
        if self._unwatch is None:
            self._unwatch = self.flight.loop.start(self._watch(receive))
        self._limit()
        try:
            await response.serve(send, list(self.headers))
        except BaseException:
            self.lose()
            raise
        finally:
            self._response = None
            self._stop()

    async def write_json(self, send: Send) -> None:
        """Answer with one JSON object, or with a status alone."""
        body = self.body or b""
        if len(body) >= _LARGE:
            await self._write_large(send, body)
        else:
            await send(self._start_of(body))
            await send({"type": "http.response.body", "body": body})

    def _start_of(self, body: bytes) -> dict[str, Any]:
        headers = [*self.headers, (b"content-length", b"%d" % len(body))]
        if body:
            headers.append(JSON)
        return {"type": "http.response.start", "status": self.status, "headers": headers}

    async def _write_large(self, send: Send, body: bytes) -> None:
        unread = Hold(self.flight.accounts.unread, self.holder)
        try:
            unread.grow(len(body))
        except Exhausted:
            self.body = None
            raise HttpError(
                503,
                "Too many answers wait to be read; come back later "
                "(the server's setting is max_unread)",
                headers=retry_after(1),
            ) from None
        try:
            await send(self._start_of(body))
            # Servers wait for the client before a part of a body, and not after the last one.
            for start in range(0, len(body), _PART):
                part = body[start : start + _PART]
                more = start + _PART < len(body)
                message = {"type": "http.response.body", "body": part, "more_body": more}
                await write(send, message, self.flight.settings.write_timeout)
        finally:
            unread.release()

    def close(self) -> None:
        """Give back what it holds: the client has the answer, or has left."""
        if self._holds:
            self.release()
        if self._watched is not None:
            self._watched.release()
        if self.stream is not None and not self.outlasts:
            self.stream.discard()
        if self.on_close is not None:
            self.on_close()

    def expire(self, why: str) -> None:
        """Stop the work, and answer why."""
        for request in self.session.requests_in(self):
            if request.known.operation != "listen":
                self.session.end(request, InternalError(why))
