"""The endpoint: admits requests, and serves them in a session or each by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, Literal

from anyio.lowlevel import checkpoint

from mcpkit._protocol.connection import Request
from mcpkit._protocol.messages import parse
from mcpkit._server.operations import Reading
from mcpkit._server.session import Session
from mcpkit._utils.json import is_array
from mcpkit._utils.logs import log
from mcpkit._utils.quota import RateLimit
from mcpkit._utils.text import single_line, truncate
from mcpkit.errors import InvalidRequest, ParseError
from mcpkit.http import BUFFERED, HttpRequest, Receive, Scope, Send, by_name
from mcpkit.transports.http.bodies import LARGE_BODY, not_json, parse_body, read_body
from mcpkit.transports.http.exchange import Exchange
from mcpkit.transports.http.headers import (
    agrees,
    check_length,
    check_media,
    check_repeated,
    is_announced,
    is_modern,
)
from mcpkit.transports.http.http_error import HttpError, retry_after, send_error
from mcpkit.transports.http.legacy import LegacySessions
from mcpkit.transports.http.lifespan import Lifespan, Lifespans
from mcpkit.transports.http.options import HttpSettings
from mcpkit.transports.http.quotas import owner_of
from mcpkit.transports.http.requests import STARTED, OpenRequests, Responded
from mcpkit.transports.http.security import (
    Guard,
    authenticate,
    finish_authentication,
    forbidden_challenge,
    principal_of,
)
from mcpkit.transports.http.sessions import stateless_session
from mcpkit.transports.http.sse import SseSessions
from mcpkit.transports.http.streams import ClientNotReading

if TYPE_CHECKING:
    from mcpkit.transports.http.authorization import Authorization

_METHODS: Final = b"GET, POST, DELETE"

_HANDSHAKE: Final = 3
"""Requests before the first useful one: to discover, to begin, and to confirm that."""

_MAX_PROXIES: Final = 100
"""Proxies that are not trusted, of which the log tells."""


class Endpoint:
    """The ASGI applications of an endpoint: its own, and the two of HTTP+SSE.

    Args:
        lifespans, settings: Of the app, and of this endpoint.
        loopback: True if the server listens on loopback addresses only; None if that is not known.
        authorization: The verification of tokens, if the server takes tokens.
        messages: The path for messages of HTTP+SSE.
    """

    def __init__(
        self,
        lifespans: Lifespans,
        settings: HttpSettings,
        *,
        loopback: bool | None = None,
        authorization: Authorization | None = None,
        messages: str = "",
    ) -> None:
        self.settings = settings
        self.authorization = authorization
        self.messages = messages
        self._lifespans = lifespans
        self._guard = Guard(settings, loopback)
        self._find_principal = settings.principal or principal_of
        if authorization is not None:
            self._find_principal = authorization.find
        limits, rate = settings.limits, settings.limits.rate_limit
        self._rate: RateLimit | None = None
        if rate is not None:
            self._rate = RateLimit(rate + _HANDSHAKE if rate >= 1 else 1, rate)
        self._authenticates = self._find_principal is not principal_of or self._rate is not None
        """True if principals or rates matter even where the scope names no user."""
        self._waits = iscoroutinefunction(settings.principal)
        """True if it may take a while to find the principal."""
        self._max_at_once = min(LARGE_BODY, limits.max_body, 2 * limits.max_values - 1)
        """Bytes of a body that is served where it arrives; its values need not be counted."""
        self._state: EndpointState | None = None
        self._unknown_proxies: set[str] = set()

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, part: Literal["", "sse", "messages"] = ""
    ) -> None:
        """Answer one HTTP request; `part` is one of the two endpoints of HTTP+SSE."""
        method = scope["method"]
        http: HttpRequest | None = None
        try:
            started: Exchange | None = scope.pop(STARTED, None)  # which refers to the scope
            if started is not None:
                await started.respond(send, receive)
                return
            http = HttpRequest(scope)
            pending = self._admit(http)
            state = await self._current_state()
            if pending is not None:
                await self._authenticate(http, pending, state)
            if method == "GET" and not http.streams:
                text = "There are no streams here: the host passes on whole responses only"
                raise HttpError(405, text, [(b"allow", b"POST, DELETE")])
            if part == "sse":
                await state.sse.get(http, receive, send)
            elif part == "messages":
                await state.sse.post(http, receive, send)
            elif method == "POST":
                await state.post(http, receive, send)
            elif method == "GET":
                await state.legacy.get(http, receive, send)
            elif method == "DELETE":
                await state.legacy.delete(http, send)
            else:
                raise HttpError(405, f"There is no {truncate(method)} here", [(b"allow", _METHODS)])
        except HttpError as error:
            self._note(error, http)
            await send_error(send, error)
        except ClientNotReading:
            log.debug("a client does not read its response")

    def _note(self, error: HttpError, http: HttpRequest | None) -> None:
        """Tell the observers that a request is not served."""
        if self._state is not None:
            self._state.open_requests.server.observers.reject(error.error, http, error.status)

    async def _current_state(self) -> EndpointState:
        """Return the state of the endpoint in this event loop; start to serve if need be.

        Raises:
            HttpError: The app could not be started; the log has the reason. The next request tries
                again.
        """
        try:
            lifespan = await self._lifespans.current()
        except RuntimeError:
            raise HttpError(500, "The server could not begin; its log says why") from None
        state = self._state
        if state is None or state.lifespan is not lifespan:
            state = self._state = EndpointState(self, lifespan)
        return state

    def start(
        self, scope: Scope, body: bytes, loop: asyncio.AbstractEventLoop
    ) -> Responded | Exchange | None:
        """Start to serve a POST that has arrived whole, up to where it has to wait.

        Returns:
            The response, if it is ready; the exchange that has started, for `__call__` to find in
            the scope under `STARTED`; None if nothing was done.
        """
        state = self._state
        if state is None or state.lifespan.token is not loop or state.lifespan.over:
            return None
        if self._waits or len(body) > self._max_at_once:
            return None  # others have their turn while the principal is found, or a long body read
        if self.settings.cors and any(name == b"origin" for name, _ in scope["headers"]):
            return None  # the middleware in front of the endpoint adds headers
        http: HttpRequest | None = None
        try:
            http = HttpRequest(scope)
            pending = self._admit(http)
            if pending is not None:
                # It may need a task of its own, as clients of databases do.
                if isinstance(pending, Coroutine):
                    pending.close()
                # A token is verified once, and its principal is cached then.
                self._waits = self.authorization is None
                return None
            check_media(http.raw)
            open_requests = state.open_requests
            if open_requests.draining or state.requests.used >= state.requests.each:
                open_requests.check_room(http)
            exchange = state.start(parse(body), http)
        except (HttpError, ParseError) as error:
            refusal = error if isinstance(error, HttpError) else not_json(body, error)
            self._note(refusal, http)
            return refusal.status, refusal.headers, refusal.body
        if not exchange.ready:
            open_requests.add(exchange)  # counts from now on, not from a task's first step
            return exchange
        exchange.close()
        return exchange.status, exchange.headers, exchange.body or b""

    def refuse_host(self, scope: Scope) -> str | None:
        """Return why a path beside the endpoint does not answer the ``Host`` of a request."""
        host = by_name(scope["headers"]).get(b"host")
        return self._guard.refusal(host, None, _address_in(scope))

    def _admit(self, http: HttpRequest) -> Awaitable[Any] | None:
        """Check the caller of a request, before anything is read or kept.

        The result is for `finish_authentication`, if that has to be awaited.
        """
        scope, raw = http.scope, http.raw
        if not self.settings.streaming:
            scope[BUFFERED] = True
        why = self._guard.refusal(raw.get(b"host"), raw.get(b"origin"), _address_in(scope))
        if why is not None:
            raise HttpError(403, why)
        if b"x-forwarded-for" in raw and len(self._unknown_proxies) < _MAX_PROXIES:
            self._check_proxy(http)
        if not self._authenticates and "user" not in scope:
            return None
        pending = authenticate(http, self._find_principal)
        if pending is None:
            self._check_rate(http)
        return pending

    def _check_proxy(self, http: HttpRequest) -> None:
        """Warn once of each proxy that is not trusted, so that all its clients look like one."""
        peer = http.client[0] if http.client else ""
        is_known = peer in self._unknown_proxies
        if not is_known and peer.encode() not in http.raw[b"x-forwarded-for"]:
            self._unknown_proxies.add(peer)
            log.warning(
                "a request has X-Forwarded-For, but %s is not a trusted proxy: quotas count all "
                "clients behind it as one; if it is yours, name it in FORWARDED_ALLOW_IPS",
                single_line(peer),
            )

    async def _authenticate(
        self, http: HttpRequest, pending: Awaitable[Any], state: EndpointState
    ) -> None:
        """Find the principal of a request, which is counted to its network until then."""
        try:
            self._check_rate(http, 0)
            state.open_requests.quotas.check("requests", http)
        except HttpError:
            if isinstance(pending, Coroutine):
                pending.close()
            raise
        slot = state.requests.charge(owner_of(http), 1)
        try:
            await finish_authentication(http, pending)
        except HttpError as error:
            if error.status < 500:  # an issuer that is unavailable is not the fault of the client
                self._check_rate(http)
            raise
        finally:
            slot.release()
        self._check_rate(http)

    def _check_rate(self, http: HttpRequest, requests: int = 1) -> None:
        if self._rate is not None and (wait := self._rate.take(owner_of(http), requests)):
            raise HttpError(429, "Too many requests", retry_after(wait))


def _address_in(scope: Scope) -> object:
    server = scope.get("server")
    return server[0] if server else None


class EndpointState:
    """An endpoint in an event loop: its requests, and the servers of the eras."""

    def __init__(self, endpoint: Endpoint, lifespan: Lifespan) -> None:
        self.lifespan = lifespan
        self.open_requests = open_requests = OpenRequests(
            endpoint.settings,
            lifespan.server,
            lifespan.loop,
            lifespan.threads,
            partial(forbidden_challenge, endpoint.authorization),
        )
        open_requests.draining = lifespan.draining
        self.requests = open_requests.quotas.requests
        self.legacy = LegacySessions(open_requests)
        self.sse = SseSessions(open_requests, endpoint.messages)
        self._limits = open_requests.limits
        self._registry = lifespan.server.registry
        self._idle_session: Session | None = None
        """The session of a request without a session of its own that is over, for the next one."""
        lifespan.busy.append(lambda: bool(self.requests.used or open_requests.requests))
        lifespan.on_drain.append(open_requests.drain)
        lifespan.grace = max(lifespan.grace, self._limits.grace)
        lifespan.on_end.append(self.aclose)
        self._stop_reading = lifespan.server.observers.read(self._read)

    def _read(self) -> Iterator[Reading]:
        quotas = self.open_requests.quotas
        in_flight = quotas.requests.used + quotas.waiting.used
        yield Reading("mcpkit.requests.in_flight", in_flight)
        yield Reading("mcpkit.requests.parked", quotas.waiting.used)
        yield Reading("mcpkit.sessions", quotas.sessions.used)
        yield Reading("mcpkit.streams", quotas.streams.used)
        yield Reading("mcpkit.unread", quotas.unread.used)

    async def post(self, http: HttpRequest, receive: Receive, send: Send) -> None:
        """Serve one message, or a batch."""
        check_media(http.raw)
        check_length(http.raw, self._limits.max_body)
        if self.open_requests.draining or self.requests.used >= self.requests.each:
            self.open_requests.check_room(http)
        body = await read_body(receive, http, self.open_requests)
        if body is None:
            return  # the client has disconnected
        if len(body) <= LARGE_BODY:
            exchange = self.start(parse_body(body, self._limits.max_values), http)
        else:
            arrived = self.open_requests.quotas.bodies.charge(owner_of(http), len(body))
            try:
                message = parse_body(body, self._limits.max_values)
                await checkpoint()  # others have their turn between the parts that take long
                exchange = self.start(message, http)
                exchange.keep_body(len(body))
                del message
            finally:
                arrived.release()
        del body
        await exchange.respond(send, receive)

    def start(self, message: dict[str, Any] | list[Any], http: HttpRequest) -> Exchange:
        """Start to serve the message of a POST, up to where it has to wait.

        An `HttpError` says that nothing was done.
        """
        try:
            if type(message) is not dict:
                if not is_array(message):
                    raise HttpError(400, "A message is an object")
                self.open_requests.check_batch(message)
            elif is_announced(message):
                return self._start_modern(message, http)
            is_legacy = not is_modern(message, http.raw)
            start = self.legacy.start if is_legacy else self._start_modern
            return start(message, http)
        except (HttpError, InvalidRequest) as error:
            refusal = error if isinstance(error, HttpError) else HttpError(400, error)
            raise refusal.about(message) from None

    def _start_modern(self, message: dict[str, Any] | list[Any], http: HttpRequest) -> Exchange:
        """Start to serve a request of a revision without sessions, which is served by itself."""
        if isinstance(message, list):
            raise HttpError(400, "A single message is expected, not a batch")  # HTTPM-1
        if "method" not in message and ("result" in message or "error" in message):
            raise HttpError(400, "The response does not belong to any request")
        session, self._idle_session = self._idle_session, None
        if session is None:
            session = stateless_session(self.open_requests)
        wants_answer = "id" in message
        exchange = Exchange(
            http, session, self.open_requests, 1 if wants_answer else 0, per_request=True
        )
        event = session.connection.take_one(message, exchange)
        request = event if type(event) is Request else None
        if request is None or not agrees(http.raw, request, self._registry):
            is_served = request is not None
            check_repeated(http.raw, message, self._registry, is_served=is_served)
        exchange.expect([event])
        if request is not None and request.known.operation == "listen":
            # A stream of changes is counted for as long as its client listens.
            self.open_requests.check_room(http, "streams")
            exchange.lasts = True
            exchange.end_on_expiry(partial(session.end_listens, announce=False))
            exchange.on_close(session.subscriptions.stop_notifying)
        session.act_on(event, exchange)
        if wants_answer and exchange.done and not (session.in_flight or session.has_state):
            self._idle_session = session
        return exchange

    async def aclose(self) -> None:
        """End all requests, streams and sessions."""
        self._stop_reading()
        self.open_requests.time_out_all()
        self.open_requests.close_responses()
        await self.legacy.table.aclose()
