"""Requests of revisions without sessions. Each announces itself, and is served by itself."""

from __future__ import annotations

from typing import Any, Final

from mcpkit._protocol.connection import Connection, Request
from mcpkit._server.session import Session
from mcpkit.http import HttpRequest
from mcpkit.transports.http.exchange import Exchange, ExchangeChannel
from mcpkit.transports.http.headers import check_repeated, check_request
from mcpkit.transports.http.http_error import HttpError
from mcpkit.transports.http.requests import InFlight

__all__ = ["ModernRequests", "stateless_session"]

_CHANNEL: Final = ExchangeChannel()


def stateless_session(flight: InFlight) -> Session:
    """Return a session that knows no client, for requests that announce themselves."""
    return Session(
        flight.server,
        _CHANNEL,
        flight.loop,
        connection=Connection(announced=True),
        threads=flight.lifespan.threads,
        attached=False,
    )


class ModernRequests:
    """The server of requests that announce themselves.

    Args:
        flight: The requests of the endpoint.
    """

    def __init__(self, flight: InFlight) -> None:
        self._flight = flight
        self._registry = flight.server.registry
        self._spare: Session | None = None
        """The session of a request that is over, for the next one to use."""

    def begin(self, message: dict[str, Any] | list[Any], http: HttpRequest) -> Exchange:
        """Begin a request.

        Raises:
            HttpError: The request is not served; nothing was done.
        """
        if isinstance(message, list):
            raise HttpError(400, "A single message is expected, not a batch")  # HTTPM-1
        if "method" not in message and ("result" in message or "error" in message):
            raise HttpError(400, "There is no question that this could answer")
        session, self._spare = self._spare or stateless_session(self._flight), None
        wants_answer = "id" in message
        exchange = Exchange(
            http,
            session,
            self._flight,
            1 if wants_answer else 0,
            self._flight.open_stream,
            modern=True,
        )
        event = session.read(message, exchange)
        if type(event) is not Request:
            check_repeated(http.raw, message, self._registry)
        else:
            check_request(http.raw, event, self._registry)
            if event.known.operation == "listen":
                self._listen(event, exchange)
        session.act_on(event, exchange)
        if wants_answer and exchange.done and session.is_unused:
            self._spare = session
        return exchange

    def _listen(self, request: Request, exchange: Exchange) -> None:
        """Count a stream of changes for as long as its client listens."""
        self._flight.check_streams(exchange.http, request.id)
        exchange.lasts = True
        exchange.on_expiry(self._flight.loop, lambda: exchange.session.end_listens(announce=False))
        exchange.on_close = lambda: _leave(exchange)


def _leave(exchange: Exchange) -> None:
    exchange.stop_expiry()
    exchange.session.detach()
