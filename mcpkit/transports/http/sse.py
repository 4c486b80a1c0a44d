"""HTTP+SSE of 2024-11-05: a GET that stays open, and POSTs to the address that it names.

A session lives as long as its GET, which carries all messages of the server (SSE-1 … SSE-8).
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import parse_qs, quote

from mcpkit._protocol.connection import Request
from mcpkit._server.channel import Channel
from mcpkit._server.session import Session
from mcpkit._utils.json import is_array
from mcpkit._utils.quota import Reservation
from mcpkit.errors import ProtocolError
from mcpkit.http import HttpRequest, Receive, Send
from mcpkit.transports.http.bodies import LARGE_BODY, parse_body, read_body
from mcpkit.transports.http.headers import check_coding, check_length
from mcpkit.transports.http.http_error import HttpError, respond
from mcpkit.transports.http.quotas import owner_of, watch
from mcpkit.transports.http.requests import OpenRequest, OpenRequests
from mcpkit.transports.http.security import principal_id
from mcpkit.transports.http.sessions import new_session
from mcpkit.transports.http.streams import Stream

_PARAMETER: Final = "session_id"


class _StreamChannel(Channel):
    """A channel that puts all messages of a session on its one stream."""

    def __init__(self, stream: Stream, watched: Reservation) -> None:
        self._stream = stream
        self._watched = watched

    def answer(
        self, request: Request, text: bytes | None, error: ProtocolError | None = None
    ) -> None:
        """Put the response to a request on the stream."""
        super().answer(request, text, error)
        cast("_Posted", request.origin).finish_one()

    def send(self, text: bytes, request: Request | None = None) -> None:
        """Put a message on the stream."""
        self._stream.put(text)

    def reserve(self, size: int, request: Request) -> None:
        """Count bytes that are kept for the client."""
        watch(self._watched, size)

    def wait_for_client(self, request: Request) -> Callable[[], None]:
        """Note that a request waits for its client's answer."""
        posted = cast("_Posted", request.origin)
        return posted.open_requests.wait_for_client(posted)

    def is_congested(self, request: Request) -> bool:
        """Return True if the client does not read; the stream itself bounds what waits."""
        return self._stream.is_congested

    async def drain(self, request: Request | None = None) -> None:
        """Wait until the client has read."""
        await self._stream.drain()


class _Posted(OpenRequest):
    """A POST, until all requests in its message are answered."""

    _left = 0
    """The number of its requests that are not answered, once it has started."""

    def start(self) -> None:
        """Count the POST, unless all of its requests are answered already."""
        self._left = len(self.session.requests_in(self))
        if self._left:
            self.open_requests.add(self)
            self.set_deadline()
        else:
            self.close()

    def finish_one(self) -> None:
        """Note that one of its requests is answered."""
        self._left -= 1
        if self._left == 0:
            self.open_requests.end(self)


class SseSessions:
    """The server of the two endpoints of HTTP+SSE; `messages` is the path of the second one."""

    def __init__(self, open_requests: OpenRequests, messages: str) -> None:
        self._open_requests = open_requests
        self._messages = messages
        self._sessions: dict[str, tuple[Session, str | None]] = {}
        """The open sessions by id, each with the id of its principal."""

    async def get(self, http: HttpRequest, receive: Receive, send: Send) -> None:
        """Open a session: the first event is the address to send messages to (SSE-2)."""
        if http.method != "GET":
            raise HttpError(405, "Only GET is answered here", [(b"allow", b"GET")])
        open_requests = self._open_requests
        open_requests.check_room(http, "streams")
        owner, quotas = owner_of(http), open_requests.quotas
        stream = Stream(kind="message", owner=owner, unread=quotas.unread)
        watched = quotas.watched.charge(owner)
        channel = _StreamChannel(stream, watched)
        session = new_session(open_requests, channel)
        session.subscriptions.start_notifying()
        id = secrets.token_urlsafe(24)
        root: str = http.scope.get("root_path", "")
        stream.put_address(f"{quote(root)}{self._messages}?{_PARAMETER}={id}")
        self._sessions[id] = session, principal_id(http)
        try:
            await open_requests.serve_stream(stream, http, receive, send)
        finally:
            stream.discard()
            watched.release()
            del self._sessions[id]
            await session.aclose()

    async def post(self, http: HttpRequest, receive: Receive, send: Send) -> None:
        """Take a message, whose response goes to the stream (SSE-3, SSE-4)."""
        if http.method != "POST":
            raise HttpError(405, "Only POST is answered here", [(b"allow", b"POST")])
        query: bytes = http.scope["query_string"]
        [id, *_] = parse_qs(query.decode("latin-1")).get(_PARAMETER, [""])
        session, principal = self._sessions.get(id, (None, None))
        if session is None or principal != principal_id(http):  # SSE-6
            raise HttpError(404, "Session not found: open the stream first")
        open_requests = self._open_requests
        limits = open_requests.limits
        check_coding(http.raw)
        check_length(http.raw, limits.max_body)
        open_requests.check_room(http)
        body = await read_body(receive, http, open_requests)
        if body is None:
            return
        message = parse_body(body, limits.max_values)
        if is_array(message):
            open_requests.check_batch(message)
        posted = _Posted(http, open_requests, session)
        if len(body) > LARGE_BODY:
            posted.keep_body(len(body))
        session.take(message, posted)
        posted.start()
        await respond(send, 202, [])
