"""Requests of revisions without sessions. Each announces itself, and is served by itself."""

from __future__ import annotations

from functools import partial
from typing import Any

from mcpkit._protocol.connection import Request
from mcpkit._server.session import Session
from mcpkit.http import HttpRequest
from mcpkit.transports.http.exchange import Exchange
from mcpkit.transports.http.headers import check_repeated, check_request
from mcpkit.transports.http.http_error import HttpError
from mcpkit.transports.http.requests import OpenRequests
from mcpkit.transports.http.sessions import stateless_session


class ModernRequests:
    """The server of requests that announce themselves."""

    def __init__(self, open_requests: OpenRequests) -> None:
        self._open_requests = open_requests
        self._registry = open_requests.server.registry
        self._idle_session: Session | None = None
        """The session of a request that is over, for the next one to use."""

    def start(self, message: dict[str, Any] | list[Any], http: HttpRequest) -> Exchange:
        """Start to serve a request; an `HttpError` says that nothing was done."""
        if isinstance(message, list):
            raise HttpError(400, "A single message is expected, not a batch")  # HTTPM-1
        if "method" not in message and ("result" in message or "error" in message):
            raise HttpError(400, "The response does not belong to any request")
        open_requests = self._open_requests
        session, self._idle_session = self._idle_session, None
        if session is None:
            session = stateless_session(open_requests)
        wants_answer = "id" in message
        exchange = Exchange(http, session, open_requests, 1 if wants_answer else 0, modern=True)
        event = session.connection.take_one(message, exchange)
        if type(event) is not Request:
            check_repeated(http.raw, message, self._registry)
        else:
            check_request(http.raw, event, self._registry)
            if event.known.operation == "listen":
                # A stream of changes is counted for as long as its client listens.
                open_requests.check_room(http, "streams")
                exchange.lasts = True
                exchange.end_on_expiry(partial(session.end_listens, announce=False))
                exchange.on_close(session.subscriptions.stop_notifying)
        session.act_on(event, exchange)
        if wants_answer and exchange.done and not (session.busy or session.has_state):
            self._idle_session = session
        return exchange
