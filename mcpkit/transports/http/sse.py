"""HTTP+SSE of 2024-11-05: a GET that stays open, and POSTs to the address that it names.

A session lives and dies with its GET, and all messages of the server go that way (SSE-1 … SSE-8).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import parse_qs, quote

from typing_extensions import Unpack

from mcpkit._protocol.connection import Request
from mcpkit._server.channel import Channel
from mcpkit._server.server import log
from mcpkit._server.session import Session
from mcpkit.errors import InternalError, ProtocolError
from mcpkit.http import HttpOptions, HttpRequest, Scope
from mcpkit.transports import Served
from mcpkit.transports.http.bodies import LARGE_BODY, parse_body
from mcpkit.transports.http.endpoint import Endpoint
from mcpkit.transports.http.headers import TOO_LONG, check_coding, is_too_long
from mcpkit.transports.http.http_error import HttpError, send_error
from mcpkit.transports.http.quotas import Occupant, Watched, holder_of
from mcpkit.transports.http.requests import InFlight
from mcpkit.transports.http.security import principal_id
from mcpkit.transports.http.streams import ClientNotReading, Receive, Send, Stream
from mcpkit.types import Principal

__all__ = ["SseEndpoints", "run"]

_PARAMETER: Final = "session_id"


def run(
    served: Served, *, host: str = "127.0.0.1", port: int = 8000, **options: Unpack[HttpOptions]
) -> None:
    """Serve an app over HTTP with the endpoints of HTTP+SSE, beside the one of today (SSE-9).

    Args:
        served: The app.
        host, port, options: As for the transport ``http``.
    """
    from mcpkit.transports.http.server import serve

    serve(served, host, port, {**options, "sse": True})


async def serve_here(
    served: Served, *, host: str = "127.0.0.1", port: int = 8000, **options: Unpack[HttpOptions]
) -> None:
    """Serve an app as `run` does, in the event loop that runs, until the task is cancelled.

    Args:
        served: The app.
        host, port, options: As for the transport ``http``.
    """
    from mcpkit.transports.http.server import serve_here

    await serve_here(served, host, port, {**options, "sse": True})


class _StreamChannel(Channel):
    """A channel that puts all messages of a session on its one stream."""

    def __init__(self, stream: Stream, watched: Watched) -> None:
        self._stream = stream
        self._watched = watched

    def close(self) -> None:
        """Give back what is kept for the client."""
        self._watched.release()

    def answer(
        self, request: Request, text: bytes | None, error: ProtocolError | None = None
    ) -> None:
        """Put the answer to a request on the stream."""
        super().answer(request, text, error)
        cast("_Posted", request.origin).settle()

    def send(self, text: bytes, about: Request | None = None) -> None:
        """Put a message on the stream."""
        self._stream.put(text)

    def reserve(self, size: int, about: Request) -> None:
        """Count bytes that are kept for the client."""
        self._watched.grow(size)

    def park(self, about: Request) -> Callable[[], None]:
        """Note that a request waits for its client's answer."""
        return cast("_Posted", about.origin).park()

    def is_congested(self, about: Request) -> bool:
        """Return True if the client does not read; the stream itself bounds what waits."""
        return self._stream.congested

    async def drain(self, about: Request | None = None) -> None:
        """Wait until the client has read."""
        await self._stream.drain()


class _SseSession:
    """A session over the two endpoints, and the id of the principal that it belongs to."""

    def __init__(self, session: Session, owner: str | None) -> None:
        self.session = session
        self.owner = owner


class _Posted(Occupant):
    """A POST, until all requests in its message are answered.

    Args:
        http: The POST.
        flight: The requests that it is one of.
        session: The session that serves it.
    """

    def __init__(self, http: HttpRequest, flight: InFlight, session: Session) -> None:
        super().__init__(http)
        self._flight = flight
        self._session = session
        self._stop_deadline: Callable[[], object] | None = None
        self._left = 0
        """The number of its requests that are not answered, once it has begun."""

    @property
    def principal(self) -> Principal | None:
        """The principal of the request; None if it has none."""
        return self.http.principal

    def begin(self) -> None:
        """Count the POST, unless all of its requests are answered already."""
        self._left = len(self._session.requests_in(self))
        if not self._left:
            self.release()
            return
        self._flight.posted.add(self)
        self._flight.place(self)
        limit = self._flight.settings.request_timeout
        if limit is not None:
            why = f"The request took longer than {limit:g} seconds"
            self._stop_deadline = self._flight.loop.later(limit, lambda: self.expire(why))

    def park(self) -> Callable[[], None]:
        """Note that it waits for its client's answer to a question."""
        return self._flight.park(self)

    def settle(self) -> None:
        """Count the POST no more, if none of its requests is left."""
        self._left -= 1
        if self._left == 0:
            self._flight.posted.discard(self)
            self.occupy(None)
            self.release()
            if self._stop_deadline is not None:
                self._stop_deadline()

    def expire(self, why: str) -> None:
        """Stop the work, and answer why."""
        for request in self._session.requests_in(self):
            self._session.end(request, InternalError(why))


class SseEndpoints:
    """The two endpoints of HTTP+SSE.

    Args:
        endpoint: The endpoint of today, whose app and limits they share.
        messages: The path of the second one, below the prefix that the app is mounted at.
    """

    def __init__(self, endpoint: Endpoint, messages: str) -> None:
        self._endpoint = endpoint
        self._messages = messages
        self._sessions: dict[str, _SseSession] = {}

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Open a session: the first event says where to send messages (SSE-2)."""
        http = HttpRequest(scope)
        try:
            if scope["method"] != "GET":
                raise HttpError(405, "Only GET is answered here", headers=((b"allow", b"GET"),))
            await self._endpoint.admit(http)
            flight = (await self._endpoint.state()).flight
            flight.check_streams(http)
            await self._hold(http, flight, receive, send)
        except HttpError as error:
            await send_error(send, error)
        except ClientNotReading:
            log.debug("a client does not read its stream")

    async def _hold(
        self, http: HttpRequest, flight: InFlight, receive: Receive, send: Send
    ) -> None:
        stream = Stream(kind="message", holder=holder_of(http), unread=flight.accounts.unread)
        lifespan = flight.lifespan
        channel = _StreamChannel(stream, Watched(flight.accounts.watched, stream.holder))
        session = Session(lifespan.server, channel, lifespan.loop, threads=lifespan.threads)
        id = secrets.token_urlsafe(24)
        root: str = http.scope.get("root_path", "")
        stream.put_address(f"{quote(root)}{self._messages}?{_PARAMETER}={id}")
        response = flight.open_response(stream, http)
        self._sessions[id] = _SseSession(session, principal_id(http))
        try:
            await response.serve(send, [], receive)
        finally:
            flight.close_response(response)
            stream.discard()
            channel.close()
            del self._sessions[id]
            await session.aclose()

    async def post(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a message, whose answer goes to the stream (SSE-3, SSE-4)."""
        http = HttpRequest(scope)
        try:
            if scope["method"] != "POST":
                raise HttpError(405, "Only POST is answered here", headers=((b"allow", b"POST"),))
            await self._endpoint.admit(http)
            flight = (await self._endpoint.state()).flight
            [id, *_] = parse_qs(scope["query_string"].decode("latin-1")).get(_PARAMETER, [""])
            old = self._sessions.get(id)
            if old is None or old.owner != principal_id(http):  # SSE-6
                raise HttpError(404, "Session not found: open the stream first")
            check_coding(http.raw)
            if is_too_long(http.raw, flight.settings.max_body):
                raise HttpError(413, TOO_LONG % flight.settings.max_body)
            flight.check_room(http)
            body = await flight.bodies.read(receive, http)
            if body is None:
                return
            message = parse_body(body, flight.settings.max_values)
            flight.check_batch(message)
            posted = _Posted(http, flight, old.session)
            if len(body) > LARGE_BODY:
                posted.keep(flight.accounts.bodies, len(body))
            old.session.take(message, posted)
            posted.begin()
            await _accept(send)
        except HttpError as error:
            await send_error(send, error)


async def _accept(send: Send) -> None:
    """Answer that a message has been taken."""
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": 202, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
