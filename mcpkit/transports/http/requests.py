"""Requests and streams of an endpoint in one event loop, and the limits on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from mcpkit._protocol.messages import Id
from mcpkit._server.server import log
from mcpkit._utils.json import UNSET, Unset, is_array
from mcpkit._utils.quota import Holder
from mcpkit.errors import InputRequestError
from mcpkit.http import HttpRequest, HttpSettings
from mcpkit.transports.http.authorization import Authorization
from mcpkit.transports.http.bodies import Bodies
from mcpkit.transports.http.exchange import Exchange
from mcpkit.transports.http.http_error import HttpError, retry_after
from mcpkit.transports.http.lifespan import Lifespan
from mcpkit.transports.http.quotas import Accounts, Occupant
from mcpkit.transports.http.streams import Stream, StreamResponse

__all__ = ["Expirable", "InFlight"]


class Expirable(Protocol):
    """Work that clients wait for, and that may take too long."""

    def expire(self, why: str) -> None:
        """Stop the work, and tell the client why."""
        ...


class InFlight:
    """The requests and streams that clients wait for.

    Args:
        lifespan: The lifespan of the app.
        settings: The settings of the endpoint.
        authorization: Of those who send requests, if the server takes tokens.
    """

    def __init__(
        self,
        lifespan: Lifespan,
        settings: HttpSettings,
        authorization: Authorization | None = None,
    ) -> None:
        self.lifespan = lifespan
        self.settings = settings
        self.authorization = authorization
        self.server = lifespan.server
        self.loop = lifespan.loop
        self.accounts = Accounts(settings)
        self.exchanges: set[Exchange] = set()
        self.posted: set[Expirable] = set()
        """Messages that are answered on a stream of HTTP+SSE, not where they were posted."""
        self.streams: dict[StreamResponse, Occupant] = {}
        """Responses that clients hold open."""
        self.bodies = Bodies(settings, lifespan.token, self.accounts)

    @property
    def busy(self) -> bool:
        """True while a request arrives or is served."""
        return bool(self.bodies.arriving or self.exchanges or self.posted)

    # --- limits -----------------------------------------------------------------------------------

    def check_room(self, http: HttpRequest) -> None:
        """Refuse one more request, if there are enough."""
        if self.lifespan.draining:
            raise HttpError(503, "The server is about to stop", headers=retry_after(1))
        requests = self.accounts.requests
        if requests.used >= requests.plenty:
            self.accounts.check_request(http)

    def check_batch(self, message: Any) -> None:
        """Refuse a batch that is too long."""
        if is_array(message) and len(message) > self.settings.max_batch:
            raise HttpError(
                413,
                f"The batch has more than {self.settings.max_batch} messages "
                f"(the server's setting is max_batch)",
            )

    def check_streams(self, http: HttpRequest, id: Id | Unset = UNSET) -> None:
        """Refuse one more stream that a client would hold open, if there are enough."""
        if self.lifespan.draining:
            raise HttpError(503, "The server is about to stop", id, retry_after(1))
        self.accounts.check_stream(http, id)

    # --- what is open -----------------------------------------------------------------------------

    def open_stream(self, holder: Holder) -> Stream:
        """Return a stream whose client does not come back for what it has missed."""
        return Stream(holder=holder, unread=self.accounts.unread)

    def open_response(self, stream: Stream, http: HttpRequest) -> StreamResponse:
        """Return a response that a client holds open; `close_response` ends that."""
        response = StreamResponse(
            stream,
            self.loop,
            keep_alive=self.settings.keep_alive,
            write_timeout=self.settings.write_timeout,
        )
        place = self.streams[response] = Occupant(http)
        place.occupy(self.accounts.streams)
        place.on_expiry(self.loop, response.let_go)
        return response

    def close_response(self, response: StreamResponse) -> None:
        """Forget a response that no client holds open any more."""
        place = self.streams.pop(response)
        place.occupy(None)
        place.stop_expiry()

    def add(self, exchange: Exchange) -> None:
        """Count an exchange for as long as it goes on."""
        self.exchanges.add(exchange)
        self.place(exchange)

    def place(self, occupant: Occupant) -> None:
        """Count something that goes on as what it is at the moment."""
        accounts = self.accounts
        if occupant.lasts:
            occupant.occupy(accounts.streams)
        elif occupant.asking or occupant.is_left:
            occupant.occupy(accounts.parked)
        else:
            occupant.occupy(accounts.requests)

    def park(self, occupant: Occupant) -> Callable[[], None]:
        """Count a request among those that wait for their client; the result ends that.

        Raises:
            InputRequestError: There are too many.
        """
        parked = self.accounts.parked
        if occupant.budget is not parked and not parked.has_room(occupant.holder):
            raise InputRequestError("Too many questions wait for an answer; ask again later")
        occupant.asking += 1
        if occupant.budget is not None:
            self.place(occupant)

        def unpark() -> None:
            occupant.asking -= 1
            if occupant.budget is not None:
                self.place(occupant)

        return unpark

    def end(self, exchange: Exchange) -> None:
        """Forget an exchange whose client has its answer or has left, unless it is to go on."""
        if not exchange.done and exchange.outlasts:
            self._leave(exchange)
        if exchange.done or not exchange.outlasts:
            if exchange.budget is not None:  # it was added
                self.exchanges.discard(exchange)
                exchange.occupy(None)
            exchange.close()

    def _leave(self, exchange: Exchange) -> None:
        """Let an exchange go on without its client, if there is room for it."""
        exchange.is_left = True
        parked = self.accounts.parked
        if exchange.budget is parked or parked.has_room(exchange.holder):
            self.place(exchange)
            exchange.on_done = lambda: self.end(exchange)
        else:
            exchange.expire("Too many requests go on whose clients have left")

    # --- the end ----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Take no new request, end streams that only wait, and give calls their time."""
        self.let_go_all()
        for exchange in list(self.exchanges):
            exchange.session.end_listens(announce=False)
        if self.exchanges:
            log.info("waiting for %d requests", len(self.exchanges))
        self.loop.later(self.settings.grace, self.expire_all)

    def expire_all(self) -> None:
        """Stop every request that still runs."""
        for each in [*self.exchanges, *self.posted]:
            each.expire("The server is stopping")

    def let_go_all(self) -> None:
        """End every response that a client holds open."""
        for response in list(self.streams):
            response.let_go()
