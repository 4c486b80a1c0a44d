"""The endpoint: an ASGI application that serves every revision of Streamable HTTP at one path."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from mcpkit.asking.sealing import SealBroken
from mcpkit.engine.server import log
from mcpkit.engine.session import Session
from mcpkit.errors import HeaderMismatch, InvalidRequest
from mcpkit.protocol.connection import Connection, wants_answer
from mcpkit.protocol.headers import HeaderParameter
from mcpkit.protocol.messages import Id, check_envelope, encode, readable_id
from mcpkit.protocol.revisions import HANDSHAKE
from mcpkit.transports.http.access import Guard, RateLimit, principal_of
from mcpkit.transports.http.bodies import LARGE_BODY, Bodies, parse_body
from mcpkit.transports.http.era import era_of, has_session_version, is_announced
from mcpkit.transports.http.exchange import Exchange, ExchangeChannel
from mcpkit.transports.http.http_error import HttpError, retry_after, send_error
from mcpkit.transports.http.lifespans import Lifespan, Lifespans
from mcpkit.transports.http.post_headers import (
    TOO_LONG,
    accepts,
    check_head,
    check_repeated,
    session_token,
)
from mcpkit.transports.http.session_ids import SessionId, SessionIds
from mcpkit.transports.http.sessions import LiveSession, SessionTable, Unknown
from mcpkit.transports.http.streams import Receive, Send, Stream, StreamResponse, Unread
from mcpkit.transports.http.uvicorn_protocol import BEGUN, Answered
from mcpkit.types import UNSET, Unset, is_array, is_object
from mcpkit.web import HttpRequest, HttpSettings, Scope

__all__ = ["Endpoint", "EndpointState", "Expirable", "accept"]

_METHODS: Final = b"GET, POST, DELETE"
_CHANNEL: Final = ExchangeChannel()
_WORKERS: Final = "MCPKIT_WORKERS"
"""How many processes serve the app, if more than one: set by who starts them."""


class Endpoint:
    """An ASGI application at one path.

    Args:
        lifespans: Serves the app.
        settings: Of this endpoint.
        loopback: Whether the server listens on loopback addresses only; None if that is not known.
    """

    def __init__(
        self, lifespans: Lifespans, settings: HttpSettings, *, loopback: bool | None = None
    ) -> None:
        self.settings = settings
        self._lifespans = lifespans
        self._guard = Guard(settings, loopback)
        self._principal = settings.principal or principal_of
        self._rate = None if settings.rate_limit is None else RateLimit(settings.rate_limit)
        self._identifies = settings.principal is not None or self._rate is not None
        """True if a request has to be looked at whose scope names no user."""
        self._state: EndpointState | None = None

    async def state(self) -> EndpointState:
        """What serves in this event loop.

        Raises:
            HttpError: The app could not be begun; the log says why. The next request tries again.
        """
        try:
            lifespan = await self._lifespans.current()
        except RuntimeError:
            raise HttpError(500, "The server could not begin; its log says why") from None
        state = self._state
        if state is None or state.lifespan is not lifespan:
            state = self._state = EndpointState(lifespan, self.settings)
        return state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        method = scope["method"]
        try:
            begun: Exchange | None = scope.get(BEGUN)
            if begun is not None and self._state is not None:
                await self._state.finish(begun, receive, send)
                return
            http = HttpRequest(scope)
            self.admit(http)
            state = self._state
            if state is None or not state.lifespan.is_here:
                state = await self.state()
            if method == "POST":
                await state.post(http, receive, send)
            elif method == "GET":
                await state.get(http, receive, send)
            elif method == "DELETE":
                await state.delete(http, send)
            else:
                raise HttpError(405, f"There is no {method} here", headers=((b"allow", _METHODS),))
        except HttpError as error:
            await send_error(send, error)
        except Unread:
            log.debug("a client does not read its answer")

    def begin(self, scope: Scope, body: bytes) -> Answered | Exchange | None:
        """Begin a POST that has arrived whole, and go on with it until it has to wait.

        Args:
            scope: Of the request.
            body: The whole of it.

        Returns:
            The answer, if it is at hand; what has been begun, for `__call__` to find in the scope
            under `BEGUN`; None if nothing was done.
        """
        state = self._state
        if state is None or not state.lifespan.is_here:
            return None
        if self.settings.cors and any(name == b"origin" for name, _ in scope["headers"]):
            return None  # what stands in front of the endpoint adds headers
        try:
            http = HttpRequest(scope)
            self.admit(http)
            state.check(http)
            if len(body) > self.settings.max_body:
                raise HttpError(413, TOO_LONG % self.settings.max_body)
            exchange = state.begin(body, http)
        except HttpError as error:
            return Answered(error.status, error.headers, error.body)
        if exchange.is_ready:
            state.end(exchange)
            return Answered(exchange.status, exchange.headers, exchange.body or b"")
        state.exchanges.add(exchange)  # it counts from now on, not from its task's first step
        return exchange

    def admit(self, http: HttpRequest) -> None:
        """Check who asks, before anything is read or kept for them.

        Raises:
            HttpError: They may not ask, or not now.
        """
        scope = http.scope
        why = self._guard.refusal(http.raw, scope.get("server"))
        if why is not None:
            raise HttpError(403, why)
        if self._identifies or "user" in scope:
            self._identify(http)

    def _identify(self, http: HttpRequest) -> None:
        http.principal = self._principal(http)
        if self._rate is not None:
            client = http.client
            wait = self._rate.wait(http.principal or (client[0] if client else ""))
            if wait:
                raise HttpError(429, "Too many requests", headers=retry_after(wait))


class Expirable(Protocol):
    """Something that clients wait for, and that may take too long."""

    def expire(self, why: str) -> None:
        """Stop it, and say why."""
        ...


class EndpointState:
    """An endpoint in an event loop: its sessions, and what is in flight.

    Args:
        lifespan: Of the app.
        settings: Of the endpoint.
    """

    def __init__(self, lifespan: Lifespan, settings: HttpSettings) -> None:
        self.lifespan = lifespan
        self.settings = settings
        server = lifespan.server
        self._server = server
        self._tasks = lifespan.tasks
        self._ids = SessionIds(server.sealer("session"), settings.session_lifetime)
        self.table = SessionTable(server, settings, lifespan.tasks, lifespan.threads)
        self.exchanges: set[Exchange] = set()
        self.streams: set[StreamResponse] = set()
        """Connections that clients hold open."""
        self.posted: set[Expirable] = set()
        """What is answered on such a connection, not where it was posted."""
        self.bodies = Bodies(settings, lifespan.loop)
        self._listening = 0
        self._spare: Session | None = None
        """Of a request that announced itself, and is over: the next one can have it."""
        self._nobody = self._stateless_session()
        """Of messages that are accepted, and nothing else."""
        self._workers = int(os.environ.get(_WORKERS) or 1)
        lifespan.busy.append(lambda: bool(self.bodies.arriving or self.exchanges or self.posted))
        lifespan.on_drain.append(self.drain)
        lifespan.on_end.append(self.aclose)

    # --- POST -------------------------------------------------------------------------------------

    async def post(self, http: HttpRequest, receive: Receive, send: Send) -> None:
        """Serve one message, or a batch."""
        self.check(http)
        body = await self.bodies.read(receive)
        if body is None:
            return  # the client has gone
        exchange = self.begin(body, http)
        del body
        await self.finish(exchange, receive, send)

    def check(self, http: HttpRequest) -> None:
        """Refuse a POST whose body need not even be read."""
        check_head(http.raw, self.settings.max_body)
        self.check_room()

    def begin(self, body: bytes, http: HttpRequest) -> Exchange:
        """Begin what a POST asks for, and go on with it until it has to wait.

        Raises:
            HttpError: It is not served; nothing was done.
        """
        message: dict[str, Any] | list[Any] = parse_body(body)
        if type(message) is not dict:
            if not is_array(message):
                raise HttpError(400, "A message is an object")
            self.check_batch(message)
        if era_of(message, http.raw) == "modern":
            exchange = self._begin_alone(message, http)
        elif b"mcp-session-id" not in http.raw and isinstance(message, dict):
            exchange = self._begin_handshake(message, http)
        else:
            exchange = self._begin_in_session(message, http, session_token(http.raw))
        if len(body) > LARGE_BODY:
            exchange.size = len(body)
            self.bodies.size += len(body)
        return exchange

    async def finish(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        """Answer a POST that has been begun."""
        self.exchanges.add(exchange)
        try:
            if exchange.stream is None and not exchange.done:
                await exchange.wait(receive)
            if exchange.stream is not None:
                await exchange.write_stream(send, receive)
            elif exchange.done and not exchange.gone:
                await exchange.write_json(send)
        finally:
            self.end(exchange)

    def end(self, exchange: Exchange) -> None:
        """The client has its answer, or has left."""
        self.exchanges.discard(exchange)
        self.bodies.size -= exchange.size
        if exchange.on_end is not None:
            exchange.on_end()
        live = exchange.live
        if live is not None:
            if exchange.done:
                self._settle(live, exchange)
            else:
                # The client has left; what it asked for goes on, and is kept for its return.
                self.exchanges.add(exchange)
                exchange.on_done = lambda: self._settle(live, exchange)

    def check_room(self) -> None:
        """Refuse one more request, if there are enough."""
        if self.lifespan.draining:
            raise HttpError(503, "The server is about to stop", headers=retry_after(1))
        running = self.bodies.arriving + len(self.exchanges) + len(self.posted)
        if running >= self.settings.max_requests:
            raise HttpError(
                503,
                f"{self.settings.max_requests} requests are being served; come back later "
                f"(the server's setting is max_requests)",
                headers=retry_after(1),
            )

    def check_batch(self, message: Any) -> None:
        """Refuse a batch that is too long."""
        if is_array(message) and len(message) > self.settings.max_batch:
            raise HttpError(
                413,
                f"The batch has more than {self.settings.max_batch} messages "
                f"(the server's setting is max_batch)",
            )

    def _stateless_session(self) -> Session:
        return Session(
            self._server,
            _CHANNEL,
            self._tasks,
            connection=Connection(announced=True),
            threads=self.lifespan.threads,
            attached=False,
        )

    def _alone(self, http: HttpRequest, session: Session, count: int) -> Exchange:
        return Exchange(http, session, self.settings, self._tasks, count, Stream, modern=True)

    def _in_session(self, http: HttpRequest, live: LiveSession, count: int) -> Exchange:
        exchange = Exchange(
            http,
            live.session,
            self.settings,
            self._tasks,
            count,
            live.open_stream,
            modern=False,
        )
        exchange.live = live
        return exchange

    def _begin_alone(self, message: Any, http: HttpRequest) -> Exchange:
        """A request of a revision without sessions."""
        if not is_object(message):
            raise HttpError(400, "A single message is expected, not a batch")  # HTTPM-1
        if "method" not in message and ("result" in message or "error" in message):
            raise HttpError(400, "There is no question that this could answer")
        self._check_repeated(http, message)
        session, self._spare = self._spare or self._stateless_session(), None
        exchange = self._alone(http, session, 1 if "id" in message else 0)
        if message.get("method") == "subscriptions/listen":
            self.check_streams(readable_id(message))
            self._listening += 1
            exchange.on_end = lambda: self._stop_listening(session)
        session.take(message, exchange)
        if "id" in message and exchange.done and not (session.busy or session.has_state):
            self._spare = session  # nothing of the request is left in it
        return exchange

    def _check_repeated(self, http: HttpRequest, message: Mapping[str, Any]) -> None:
        try:
            check_repeated(http.raw, message, self._declared_by)
        except HeaderMismatch as error:
            raise HttpError(400, error, readable_id(message)) from None

    def _declared_by(self, name: str) -> Sequence[HeaderParameter]:
        tool = self._server.registry.tools.get(name)
        return () if tool is None else tool.headers

    def _stop_listening(self, session: Session) -> None:
        self._listening -= 1
        session.detach()

    def _begin_handshake(self, message: dict[str, Any], http: HttpRequest) -> Exchange:
        """A handshake begins, or a client has forgotten its session id."""
        id = readable_id(message)
        if message.get("method") != "initialize":
            raise HttpError(
                400,
                "The header Mcp-Session-Id is missing: begin with initialize, or send a request "
                "that carries its own _meta",
                id,
            )
        session = Session(
            self._server,
            _CHANNEL,
            self._tasks,
            threads=self.lifespan.threads,
            attached=False,
        )
        exchange = Exchange(http, session, self.settings, self._tasks, 1, Stream, modern=False)
        session.take(message, exchange)
        revision = session.revision
        if revision is not None and exchange.error is None and exchange.status == 200:
            token = self._ids.mint(revision, session.client, http.principal)
            exchange.headers = ((b"mcp-session-id", token.encode("ascii")),)
        return exchange

    def _begin_in_session(self, message: Any, http: HttpRequest, token: str) -> Exchange:
        known, live = self._session_of(http, token, message)
        batch = is_array(message)
        if batch and not known.revision.batching:
            raise HttpError(400, "Batches do not exist in this revision")  # MSG-11
        for part in message if batch else ():
            if is_object(part) and is_announced(part):
                self._check_repeated(http, part)  # HTTPM-1: a batch has no headers of its own
        if is_object(message) and "method" not in message:
            about = readable_id(message)
            if live is None or isinstance(about, Unset) or not (live.session.awaits(about)):
                self._pass_on(message, known)
                return self._alone(http, self._nobody, 0)
        count = (
            sum(map(wants_answer, message))
            if batch
            else int("id" in message and "method" in message)
        )
        if count == 0 and is_object(message) and live is None:
            # Nothing is kept for it that a notification could change.
            try:
                check_envelope(message)
            except InvalidRequest as error:
                raise HttpError(400, error) from None
            return self._alone(http, self._nobody, 0)
        if live is None:
            live = self._open(known, token, readable_id(message))
        if self._workers > 1 and is_object(message):
            self._check_worker(message, live, readable_id(message))
        exchange = self._in_session(http, live, count)
        live.session.take(message, exchange)
        return exchange

    def _settle(self, live: LiveSession, exchange: Exchange) -> None:
        self.exchanges.discard(exchange)
        if exchange.stream is not None:
            live.retire(exchange.stream)
        self.table.settle(live)

    def _open(self, known: SessionId, token: str, id: Id | Unset) -> LiveSession:
        try:
            return self.table.open(known, token)
        except Unknown as why:
            raise HttpError(503, str(why), id, retry_after(10)) from None

    def _session_of(
        self, http: HttpRequest, token: str, message: Any
    ) -> tuple[SessionId, LiveSession | None]:
        """The session of a request: what its id says, and its state if it has any here."""
        live = self.table.find(token)
        if live is not None:
            known = live.id
            valid = known.expires > time.time()
        elif not token:
            raise HttpError(400, "The header Mcp-Session-Id is missing", readable_id(message))
        else:
            try:
                known = self._ids.read(token)
            except SealBroken:
                known, valid = _NOBODY, False
            else:
                valid = not self.table.is_ended(known)
        # One answer for every cause (SEC-6): nobody is to learn which ids exist.
        if not valid or known.principal != http.principal:
            raise HttpError(
                404, "Session not found: begin again with initialize", readable_id(message)
            )
        return known, live

    def _pass_on(self, message: Mapping[str, Any], known: SessionId) -> None:
        """The client answers a question that nobody has put here."""
        try:
            check_envelope(message)
            answer = message.get("id")
            if answer is None:
                raise InvalidRequest("An answer without an id")
            self.table.pass_on(known, answer, encode(message))
        except InvalidRequest as error:
            raise HttpError(400, error) from None
        except Unknown as why:
            raise HttpError(409, str(why)) from None

    def _check_worker(self, message: Mapping[str, Any], live: LiveSession, id: Id | Unset) -> None:
        """Refuse to subscribe where no stream could tell of changes."""
        standalone = live.standalone
        here = standalone is not None and standalone.response is not None
        if message.get("method") == "resources/subscribe" and not here:
            raise HttpError(
                409,
                f"This is one of {self._workers} workers, and not the one that holds the session's "
                f"stream: route sessions to workers by Mcp-Session-Id, or run one worker",
                id,
            )

    # --- GET and DELETE ---------------------------------------------------------------------------

    async def get(self, http: HttpRequest, receive: Receive, send: Send) -> None:
        """Open the stream of a session, or go on with one that was lost (HTTPL-8, HTTPL-13)."""
        raw = http.raw
        if not has_session_version(raw):
            raise HttpError(405, "This revision has no GET", headers=((b"allow", b"POST"),))
        if not accepts(raw.get(b"accept"), b"text/event-stream"):
            raise HttpError(406, "The Accept header must list text/event-stream")
        token = session_token(raw)
        known, live = self._session_of(http, token, None)
        self.check_streams(UNSET)
        if live is None:
            live = self._open(known, token, UNSET)
        last = raw.get(b"last-event-id")
        try:
            stream = live.open_standalone() if last is None else live.resume(last.decode("latin-1"))
        except Unknown as why:
            raise HttpError(400, str(why)) from None
        connection = self.hold(stream)
        try:
            await connection.serve(send, [], receive)
        finally:
            self.streams.discard(connection)
            if stream is live.standalone:
                live.leave_standalone()
            self.table.settle(live)

    def hold(self, stream: Stream) -> StreamResponse:
        """A connection that a client holds open; to be discarded from `streams` in the end."""
        connection = StreamResponse(
            stream,
            self._tasks,
            keep_alive=self.settings.keep_alive,
            write_timeout=self.settings.write_timeout,
        )
        self.streams.add(connection)
        return connection

    def check_streams(self, id: Id | Unset = UNSET) -> None:
        """Refuse one more stream that a client would hold open, if there are enough."""
        if self.lifespan.draining:
            raise HttpError(503, "The server is about to stop", id, retry_after(1))
        if len(self.streams) + self._listening >= self.settings.max_streams:
            raise HttpError(
                503,
                f"{self.settings.max_streams} streams are open; come back later "
                f"(the server's setting is max_streams)",
                id,
                retry_after(10),
            )

    async def delete(self, http: HttpRequest, send: Send) -> None:
        """End a session (HTTPL-17)."""
        if not has_session_version(http.raw):
            raise HttpError(405, "This revision has no DELETE", headers=((b"allow", b"POST"),))
        known, _ = self._session_of(http, session_token(http.raw), None)
        await self.table.end(known)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    # --- the end ----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Take nothing new, end what only waits, and give calls their time."""
        for connection in list(self.streams):
            connection.let_go()
        for exchange in list(self.exchanges):
            exchange.session.end_listens(announce=False)
        if self.exchanges:
            log.info("waiting for %d requests", len(self.exchanges))
        self._tasks.later(self.settings.grace, self._expire_all)

    def _expire_all(self) -> None:
        for each in [*self.exchanges, *self.posted]:
            each.expire("The server is stopping")

    async def aclose(self) -> None:
        """End everything."""
        self._expire_all()
        for connection in list(self.streams):
            connection.let_go()
        await self.table.aclose()


_NOBODY: Final = SessionId("", HANDSHAKE[0], Connection().client, None, 0)


async def accept(send: Send) -> None:
    """Answer that a message has been taken."""
    await send(
        {"type": "http.response.start", "status": 202, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})
