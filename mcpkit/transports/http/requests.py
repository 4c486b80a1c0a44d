"""The requests and streams that are open at an endpoint in one event loop."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from mcpkit._concurrency.loop import AsyncioLoop, Loop
from mcpkit._concurrency.threads import Threads
from mcpkit._server.server import Server
from mcpkit._utils.logs import log
from mcpkit._utils.quota import Quota, Reservation
from mcpkit.errors import Forbidden, InputRequestError, InternalError
from mcpkit.http import HttpRequest, Receive, Scope, Send
from mcpkit.transports.http.http_error import HttpError, Pairs, retry_after
from mcpkit.transports.http.options import HttpSettings
from mcpkit.transports.http.quotas import EndpointQuotas, Kind, owner_of
from mcpkit.transports.http.streams import Stream, StreamResponse, await_disconnect
from mcpkit.types import Principal

STARTED: Final = "mcpkit.started"
"""The member of a scope that holds the exchange that a shortcut has started."""

Responded: TypeAlias = tuple[int, Sequence[tuple[bytes, bytes]], bytes]
"""A response that is ready: its status; its headers, in addition to those of every response and of
its body; and its body, which is JSON, or empty if there is none."""

Shortcut: TypeAlias = (
    "Callable[[Scope, bytes, asyncio.AbstractEventLoop], Responded | OpenRequest | None]"
)
"""Starts a POST that has arrived whole: `Endpoint.start`."""

MAX_STREAM_TIME: Final = 30 * 24 * 3600.0
"""Seconds after which a stream ends in any case that ends with an authentication."""


class OpenRequest:
    """A request, or a stream without a session, that is counted until it is over."""

    # Class attributes, because most requests never change them.
    slot: Reservation | None = None
    """Its part of one of the quotas; None if it holds none."""
    size = 1
    """The number of slots that it takes: one for each request of a batch."""
    done = False
    """True if its response is complete."""
    asking = 0
    """The number of questions whose answers it waits for."""
    is_detached = False
    """True if its client has disconnected, and it continues because the client may reconnect."""
    lasts = False
    """True for a stream that stays open until its client ends it."""
    outlasts = False
    """True if it continues when its client disconnects, who may reconnect for the response."""
    _owner: str | None = None
    _on_close: Sequence[Callable[[], object]] = ()

    def __init__(self, http: HttpRequest, open_requests: OpenRequests, session: Any = None) -> None:
        self.http = http
        self.open_requests = open_requests
        self.session = session

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

    def occupy(self, quota: Quota) -> None:
        """Take a slot of a quota, instead of the one it has, without asking for room."""
        had = self.slot
        if had is not None:
            if had.quota is quota:
                return
            had.release()
        self.slot = quota.charge(self.owner, self.size)

    def on_close(self, function: Callable[[], object]) -> None:
        """Call a function when its client has the response, or has disconnected."""
        self._on_close = (*self._on_close, function)

    def keep_body(self, size: int) -> None:
        """Count the bytes of its body until it is closed."""
        self.on_close(self.open_requests.quotas.bodies.charge(self.owner, size).release)

    def end_on_expiry(self, end: Callable[[], object]) -> None:
        """Call a function when the authentication of its client expires (AUTH-17)."""
        principal = self.http.principal
        if principal is not None and principal.expires_at is not None:
            left = min(max(principal.expires_at - time.time(), 0), MAX_STREAM_TIME)
            self.on_close(self.open_requests.loop.later(left, end))

    def set_deadline(self) -> None:
        """Time out when it has taken as long as a request may."""
        limit = self.open_requests.limits.request_timeout
        if limit is not None and not self.done:
            why = f"The request took longer than {limit:g} seconds"
            self.on_close(self.open_requests.loop.later(limit, lambda: self.time_out(why)))

    def time_out(self, why: str) -> None:
        """Stop the work, and respond with the reason."""
        for request in self.session.requests_in(self):
            if request.known.operation != "listen":
                self.session.end(request, InternalError(why))

    def close(self) -> None:
        """Give back everything that it holds: its client has the response, or has disconnected."""
        if self.slot is not None:
            self.slot.release()
            self.slot = None
        functions, self._on_close = self._on_close, ()
        for function in functions:
            function()


@dataclass(eq=False)
class OpenRequests:
    """The requests and streams that clients wait for, and what it takes to serve them.

    `challenge` returns the headers of the response to a request that is forbidden.
    """

    settings: HttpSettings
    server: Server
    loop: Loop
    threads: Threads
    challenge: Callable[[HttpRequest, Forbidden], Pairs]

    def __post_init__(self) -> None:
        self.limits = self.settings.limits
        self.quotas = EndpointQuotas(self.settings)
        self.requests: set[OpenRequest] = set()
        self.responses: set[StreamResponse] = set()
        """Responses that clients hold open."""
        self.draining = False
        """True if the server is about to stop."""
        self.starts_early = sys.version_info >= (3, 11) and isinstance(self.loop, AsyncioLoop)
        """True if a coroutine may take its first step before it is awaited."""

    def check_room(self, http: HttpRequest, kind: Kind = "requests") -> None:
        """Refuse one more request or stream, if there are enough."""
        if self.draining:
            raise HttpError(503, "The server is about to stop", retry_after(1))
        self.quotas.check(kind, http)

    def check_batch(self, message: list[object]) -> None:
        """Refuse a batch that is too long."""
        if len(message) > self.limits.max_batch:
            raise HttpError(
                413,
                f"The batch has more than {self.limits.max_batch} messages "
                f"(the server's limit is max_batch)",
            )

    async def serve_stream(
        self, stream: Stream, http: HttpRequest, receive: Receive, send: Send
    ) -> None:
        """Respond with a stream that belongs to no request, for as long as its client wants."""
        response = StreamResponse(stream, self.settings)
        request = OpenRequest(http, self)
        request.occupy(self.quotas.streams)
        request.end_on_expiry(response.close)
        request.on_close(self.loop.start(await_disconnect(receive, response.disconnect)))
        self.responses.add(response)
        try:
            await response.serve(send, [])
        finally:
            self.responses.remove(response)
            request.close()

    def add(self, request: OpenRequest) -> None:
        """Count a request for as long as it continues."""
        self.requests.add(request)
        self._assign_slot(request)

    def _assign_slot(self, request: OpenRequest) -> None:
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
            InputRequestError: There are too many, or the question would not reach the client.
        """
        if not request.http.streams:
            raise InputRequestError(
                "This server cannot ask its client in this protocol revision, because its host "
                "passes on whole responses only; clients of 2026-07-28 can be asked"
            )
        if not self._may_wait(request):
            raise InputRequestError("Too many questions wait for an answer; ask again later")

        def count(change: int) -> None:
            request.asking += change
            if request.slot is not None:
                self._assign_slot(request)

        count(1)
        return lambda: count(-1)

    def _may_wait(self, request: OpenRequest) -> bool:
        waiting = self.quotas.waiting
        is_waiting = request.slot is not None and request.slot.quota is waiting
        return is_waiting or waiting.has_room(request.owner)

    def end(self, request: OpenRequest) -> None:
        """Forget a request whose client has its response or has disconnected.

        One that outlasts its client continues, if there is room for it, and calls this when its
        response is complete.
        """
        if not request.done and request.outlasts:
            if self._may_wait(request):
                request.is_detached = True
                self._assign_slot(request)
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
            request.session.end_listens(announce=False)
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
