"""The door of an endpoint: it checks who asks, and chooses the era that serves a request."""

from __future__ import annotations

import asyncio
from inspect import iscoroutinefunction
from typing import Any, Final

from anyio.lowlevel import checkpoint

from mcpkit._server.server import log
from mcpkit._utils.json import is_array
from mcpkit._utils.quota import Hold
from mcpkit._utils.text import truncate
from mcpkit.http import HttpRequest, HttpSettings, Scope
from mcpkit.transports.http.authorization import Authorization
from mcpkit.transports.http.bodies import LARGE_BODY, parse_body
from mcpkit.transports.http.era import era_of
from mcpkit.transports.http.exchange import Exchange
from mcpkit.transports.http.headers import TOO_LONG, check_media, is_too_long
from mcpkit.transports.http.http_error import HttpError, retry_after, send_error
from mcpkit.transports.http.legacy import LegacySessions
from mcpkit.transports.http.lifespan import Lifespan, Lifespans
from mcpkit.transports.http.modern import ModernRequests
from mcpkit.transports.http.quotas import holder_of, owner_of
from mcpkit.transports.http.requests import InFlight
from mcpkit.transports.http.security import Guard, Later, RateLimit, identify, principal_of
from mcpkit.transports.http.session_store import LocalStore
from mcpkit.transports.http.streams import ClientNotReading, Receive, Send
from mcpkit.transports.http.uvicorn import BEGUN, Answered

__all__ = ["Endpoint", "EndpointState"]

_METHODS: Final = b"GET, POST, DELETE"


class Endpoint:
    """An ASGI application at one path.

    Args:
        lifespans: The lifespans of the app.
        settings: The settings of this endpoint.
        loopback: True if the server listens on loopback addresses only; None if that is not known.
        authorization: Of those who send requests, if the server takes tokens.
    """

    def __init__(
        self,
        lifespans: Lifespans,
        settings: HttpSettings,
        *,
        loopback: bool | None = None,
        authorization: Authorization | None = None,
    ) -> None:
        self.settings = settings
        self._authorization = authorization
        self._lifespans = lifespans
        self._guard = Guard(settings, loopback)
        self._find_principal = settings.principal or principal_of
        if authorization is not None:
            self._find_principal = authorization.find
        self._rate = None if settings.rate_limit is None else RateLimit(settings.rate_limit)
        self._identifies = self._find_principal is not principal_of or self._rate is not None
        """True if principals or rates are of interest even where the scope names no user."""
        self._waits = iscoroutinefunction(settings.principal)
        """True if it may take a while to find out who asks."""
        self._at_once = min(LARGE_BODY, settings.max_body)
        """Bytes of a body that is served where it arrives."""
        self._state: EndpointState | None = None

    async def state(self) -> EndpointState:
        """Return the state of the endpoint in this event loop; begin to serve if need be.

        Raises:
            HttpError: The app could not be begun; the log says why. The next request tries again.
        """
        try:
            lifespan = await self._lifespans.current()
        except RuntimeError:
            raise HttpError(500, "The server could not begin; its log says why") from None
        state = self._state
        if state is None or state.lifespan is not lifespan:
            state = self._state = EndpointState(lifespan, self.settings, self._authorization)
        return state

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        method = scope["method"]
        try:
            begun: Exchange | None = scope.pop(BEGUN, None)  # which refers to the scope
            if begun is not None and self._state is not None:
                await self._state.finish(begun, receive, send)
                return
            http = HttpRequest(scope)
            await self.admit(http)
            state = self._state
            if state is None or not state.lifespan.is_here:
                state = await self.state()
            if method == "POST":
                await state.post(http, receive, send)
            elif method == "GET":
                await state.legacy.get(http, receive, send)
            elif method == "DELETE":
                await state.legacy.delete(http, send)
            else:
                raise HttpError(
                    405, f"There is no {truncate(method)} here", headers=((b"allow", _METHODS),)
                )
        except HttpError as error:
            await send_error(send, error)
        except ClientNotReading:
            log.debug("a client does not read its answer")

    def begin(
        self, scope: Scope, body: bytes, loop: asyncio.AbstractEventLoop
    ) -> Answered | Exchange | None:
        """Begin a POST that has arrived whole, and go on with it until it has to wait.

        Args:
            scope: The scope of the request.
            body: The whole body.
            loop: The running event loop.

        Returns:
            The answer, if it is at hand; the exchange that has begun, for `__call__` to find in the
            scope under `BEGUN`; None if nothing was done.
        """
        state = self._state
        if state is None or not state.lifespan.is_in(loop):
            return None
        if len(body) > self._at_once:
            return None  # others are to have their turn while it is served, or it is too long
        if self._waits:
            return None  # for whoever finds out who asks
        if self.settings.cors and any(name == b"origin" for name, _ in scope["headers"]):
            return None  # what stands in front of the endpoint adds headers
        try:
            http = HttpRequest(scope)
            later = self._admit(http)
            if later is not None:
                # It may need a task of its own, as clients of databases do.
                later.close()
                # A token is found out about once, and then known.
                self._waits = self._authorization is None
                return None
            check_media(http.raw)
            state.flight.check_room(http)
            exchange = state.begin(body, http)
        except HttpError as error:
            return error.status, error.headers, error.body
        if exchange.is_ready:
            state.flight.end(exchange)
            return exchange.status, exchange.headers, exchange.body or b""
        state.flight.add(exchange)  # counts from now on, not from a task's first step
        return exchange

    async def admit(self, http: HttpRequest) -> None:
        """Check who sent a request, before anything is read or kept for them.

        Raises:
            HttpError: They may not send it, or not now.
        """
        later = self._admit(http)
        if later is not None:
            await later
            self._check_rate(http)

    def _admit(self, http: HttpRequest) -> Later | None:
        """Do what `admit` does without waiting; return what is still to be awaited."""
        scope = http.scope
        why = self._guard.refusal(http.raw, scope.get("server"))
        if why is not None:
            raise HttpError(403, why)
        if not self._identifies and "user" not in scope:
            return None
        later = identify(http, self._find_principal)
        if later is None:
            self._check_rate(http)
        return later

    def _check_rate(self, http: HttpRequest) -> None:
        if self._rate is not None:
            wait = self._rate.wait(owner_of(http))
            if wait:
                raise HttpError(429, "Too many requests", headers=retry_after(wait))


class EndpointState:
    """An endpoint in an event loop: its requests, and the servers of the two eras.

    Args:
        lifespan: The lifespan of the app.
        settings: The settings of the endpoint.
        authorization: As for `Endpoint`.
    """

    def __init__(
        self,
        lifespan: Lifespan,
        settings: HttpSettings,
        authorization: Authorization | None = None,
    ) -> None:
        self.lifespan = lifespan
        self.flight = InFlight(lifespan, settings, authorization)
        self.modern = ModernRequests(self.flight)
        self.legacy = LegacySessions(self.flight, LocalStore(settings))
        self._max_body = settings.max_body
        self._max_values = settings.max_values
        lifespan.busy.append(lambda: self.flight.busy)
        lifespan.on_drain.append(self.flight.drain)
        lifespan.grace = max(lifespan.grace, settings.grace)
        lifespan.on_end.append(self.aclose)

    async def post(self, http: HttpRequest, receive: Receive, send: Send) -> None:
        """Serve one message, or a batch."""
        check_media(http.raw)
        if is_too_long(http.raw, self._max_body):
            raise HttpError(413, TOO_LONG % self._max_body)
        self.flight.check_room(http)
        body = await self.flight.bodies.read(receive, http)
        if body is None:
            return  # the client has gone
        if len(body) > LARGE_BODY:
            exchange = await self._begin_large(body, http)
        else:
            exchange = self.begin(body, http)
        del body
        await self.finish(exchange, receive, send)

    async def _begin_large(self, body: bytes, http: HttpRequest) -> Exchange:
        """Begin to serve a large POST, with a turn for others between its parts that take long."""
        hold = Hold(self.flight.accounts.bodies, holder_of(http))
        hold.set(len(body))
        try:
            message = parse_body(body, self._max_values)
            await checkpoint()
            exchange = self._begin_parsed(message, http)
            exchange.keep(self.flight.accounts.bodies, len(body))
            return exchange
        finally:
            hold.release()

    def begin(self, body: bytes, http: HttpRequest) -> Exchange:
        """Begin to serve a POST, and go on with it until it has to wait.

        Raises:
            HttpError: It is not served; nothing was done.
        """
        return self._begin_parsed(parse_body(body, self._max_values), http)

    def _begin_parsed(self, message: dict[str, Any] | list[Any], http: HttpRequest) -> Exchange:
        if type(message) is not dict:
            if not is_array(message):
                raise HttpError(400, "A message is an object")
            self.flight.check_batch(message)
        serving = self.modern if era_of(message, http.raw) == "modern" else self.legacy
        return serving.begin(message, http)

    async def finish(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        """Answer a POST that has been begun."""
        if exchange.is_ready:
            # It may have been counted: it has begun where it arrived, and was not ready there.
            self.flight.end(exchange)
            await exchange.write_json(send)
            return
        self.flight.add(exchange)
        try:
            if exchange.stream is None and not exchange.done:
                await exchange.wait(receive)
            if exchange.stream is not None:
                await exchange.write_stream(send, receive)
            elif exchange.done and not exchange.gone:
                await exchange.write_json(send)
        finally:
            self.flight.end(exchange)

    async def aclose(self) -> None:
        """End all requests, streams and sessions."""
        self.flight.expire_all()
        self.flight.let_go_all()
        await self.legacy.aclose()
