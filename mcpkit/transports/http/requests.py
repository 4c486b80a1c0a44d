"""The requests and streams that are open at an endpoint in one event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from mcpkit._concurrency.loop import Loop
from mcpkit._protocol.messages import Id
from mcpkit._server.server import log
from mcpkit._utils.json import UNSET, Unset
from mcpkit._utils.quota import Quota, Reservation
from mcpkit.errors import InputRequestError
from mcpkit.http import HttpRequest
from mcpkit.transports.http.http_error import HttpError, retry_after
from mcpkit.transports.http.options import HttpSettings
from mcpkit.transports.http.quotas import EndpointQuotas, owner_of
from mcpkit.transports.http.streams import Stream, StreamResponse
from mcpkit.types import Principal

MAX_STREAM_TIME: Final = 30 * 24 * 3600.0
"""Seconds after which a stream ends in any case that ends with an authentication."""


class OpenRequest:
    """A request, or a stream, that holds a place at the endpoint until it is over.

    Args:
        http: The HTTP request.
    """

    place: Reservation | None = None
    """Its place in one of the quotas; None if it holds none."""
    size = 1
    """The number of places that it takes: one for each request of a batch."""
    done = False
    """True if its response is complete."""
    asking = 0
    """The number of questions whose answers it waits for."""
    is_detached = False
    """True if its client has disconnected, and may reconnect for the response."""
    lasts = False
    """True for a stream that stays open until its client ends it."""
    outlasts = False
    """True if it continues when its client disconnects, who may reconnect for the response."""
    on_done: Callable[[], None] | None = None
    """Called when the response is complete."""
    _owner: str | None = None
    _body: Reservation | None = None
    _stop_expiry: Callable[[], object] | None = None

    def __init__(self, http: HttpRequest) -> None:
        self.http = http

    @property
    def principal(self) -> Principal | None:
        """The principal of the request; None if it has none."""
        return self.http.principal

    @property
    def owner(self) -> str:
        """The owner that it is counted to."""
        if self._owner is None:
            self._owner = owner_of(self.http)
        return self._owner

    def occupy(self, quota: Quota | None) -> None:
        """Take a place in a quota, instead of the one it has, without asking for room."""
        had = self.place
        if had is not None:
            if had.quota is quota:
                return
            had.release()
        self.place = None if quota is None else quota.charge(self.owner, self.size)

    def keep_body(self, quota: Quota, size: int) -> None:
        """Count the bytes of its body until it is closed."""
        self._body = quota.charge(self.owner, size)

    def end_on_expiry(self, loop: Loop, end: Callable[[], object]) -> None:
        """Call a function when the authentication of its client expires (AUTH-17)."""
        principal = self.http.principal
        if principal is not None and principal.expires_at is not None:
            left = principal.expires_at - time.time()
            self._stop_expiry = loop.later(min(max(left, 0), MAX_STREAM_TIME), end)

    def time_out(self, why: str) -> None:
        """Stop the work, and tell the client the reason."""

    def end_listens(self) -> None:
        """End a stream of changes, if it is one."""

    def close(self) -> None:
        """Give back everything that it holds: its client has the response, or has disconnected."""
        if self.place is not None:
            self.occupy(None)
        if self._body is not None:
            self._body.release()
            self._body = None
        if self._stop_expiry is not None:
            self._stop_expiry()
            self._stop_expiry = None


class OpenRequests:
    """The requests and streams that clients wait for.

    Args:
        settings: The settings of the endpoint.
        loop: The event loop.
    """

    def __init__(self, settings: HttpSettings, loop: Loop) -> None:
        self.settings = settings
        self.limits = settings.limits
        self.loop = loop
        self.quotas = EndpointQuotas(settings)
        self.requests: set[OpenRequest] = set()
        self.responses: dict[StreamResponse, OpenRequest] = {}
        """Responses that clients hold open."""
        self.draining = False
        """True if the server is about to stop."""

    # --- limits -----------------------------------------------------------------------------------

    def check_room(self, http: HttpRequest) -> None:
        """Refuse one more request, if there are enough."""
        if self.draining:
            raise HttpError(503, "The server is about to stop", headers=retry_after(1))
        requests = self.quotas.requests
        if requests.used >= requests.each:
            self.quotas.check_request(http)

    def check_batch(self, message: list[object]) -> None:
        """Refuse a batch that is too long."""
        if len(message) > self.limits.max_batch:
            raise HttpError(
                413,
                f"The batch has more than {self.limits.max_batch} messages "
                f"(the server's limit is max_batch)",
            )

    def check_streams(self, http: HttpRequest, id: Id | Unset = UNSET) -> None:
        """Refuse one more stream that a client would hold open, if there are enough."""
        if self.draining:
            raise HttpError(503, "The server is about to stop", id, retry_after(1))
        self.quotas.check_stream(http, id)

    # --- open requests ----------------------------------------------------------------------------

    def open_response(self, stream: Stream, http: HttpRequest) -> StreamResponse:
        """Return a response that a client holds open; `close_response` ends that."""
        response = self.make_response(stream)
        place = self.responses[response] = OpenRequest(http)
        place.occupy(self.quotas.streams)
        place.end_on_expiry(self.loop, response.close)
        return response

    def make_response(self, stream: Stream) -> StreamResponse:
        """Return a response that carries a stream."""
        return StreamResponse(
            stream,
            self.loop,
            keep_alive=self.settings.keep_alive,
            write_timeout=self.limits.write_timeout,
        )

    def close_response(self, response: StreamResponse) -> None:
        """Forget a response that its client does not hold open any more."""
        self.responses.pop(response).close()

    def add(self, request: OpenRequest) -> None:
        """Count a request for as long as it continues."""
        self.requests.add(request)
        self._place(request)

    def _place(self, request: OpenRequest) -> None:
        """Count a request in the quota of its present kind."""
        quotas = self.quotas
        if request.lasts:
            request.occupy(quotas.streams)
        elif request.asking or request.is_detached:
            request.occupy(quotas.waiting)
        else:
            request.occupy(quotas.requests)

    def wait_for_client(self, request: OpenRequest) -> Callable[[], None]:
        """Count a request among those that wait for their client; the result ends that.

        Raises:
            InputRequestError: There are too many.
        """
        if not self._has_parking(request):
            raise InputRequestError("Too many questions wait for an answer; ask again later")
        request.asking += 1
        if request.place is not None:
            self._place(request)

        def unpark() -> None:
            request.asking -= 1
            if request.place is not None:
                self._place(request)

        return unpark

    def _has_parking(self, request: OpenRequest) -> bool:
        waiting = self.quotas.waiting
        is_parked = request.place is not None and request.place.quota is waiting
        return is_parked or waiting.has_room(request.owner)

    def end(self, request: OpenRequest) -> None:
        """Forget a request whose client has its response or has disconnected.

        One that outlasts its client continues, if there is room for it.
        """
        if not request.done and request.outlasts:
            request.is_detached = True
            if self._has_parking(request):
                self._place(request)
                request.on_done = lambda: self.end(request)
            else:
                request.time_out("Too many requests wait for clients that have disconnected")
        if request.done or not request.outlasts:
            self.requests.discard(request)
            request.close()

    # --- the end ----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Refuse new requests, end streams that only wait, and give calls their time."""
        self.draining = True
        self.close_responses()
        for request in list(self.requests):
            request.end_listens()
        if self.requests:
            log.info("waiting for %d requests", len(self.requests))
        self.loop.later(self.limits.grace, self.time_out_all)

    def time_out_all(self) -> None:
        """Stop every request that still runs."""
        for request in list(self.requests):
            request.time_out("The server is stopping")

    def close_responses(self) -> None:
        """End every response that a client holds open."""
        for response in list(self.responses):
            response.close()
