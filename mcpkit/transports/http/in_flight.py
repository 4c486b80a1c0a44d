"""Requests and streams of an endpoint in one event loop, and the limits on them."""

from __future__ import annotations

from typing import Any, Protocol

from mcpkit.engine.server import log
from mcpkit.protocol.messages import Id
from mcpkit.transports.http.bodies import Bodies
from mcpkit.transports.http.exchange import Exchange
from mcpkit.transports.http.http_error import HttpError, retry_after
from mcpkit.transports.http.lifespans import Lifespan
from mcpkit.transports.http.streams import Stream, StreamResponse
from mcpkit.types import UNSET, Unset, is_array
from mcpkit.web import HttpSettings

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
    """

    def __init__(self, lifespan: Lifespan, settings: HttpSettings) -> None:
        self.lifespan = lifespan
        self.settings = settings
        self.server = lifespan.server
        self.tasks = lifespan.tasks
        self.exchanges: set[Exchange] = set()
        self.posted: set[Expirable] = set()
        """Messages that are answered on a stream of HTTP+SSE, not where they were posted."""
        self.streams: set[StreamResponse] = set()
        """Responses that clients hold open."""
        self.listening = 0
        """The number of streams of ``subscriptions/listen``."""
        self.bodies = Bodies(settings, lifespan.loop)

    @property
    def busy(self) -> bool:
        """True while a request arrives or is served."""
        return bool(self.bodies.arriving or self.exchanges or self.posted)

    # --- limits -----------------------------------------------------------------------------------

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

    def check_streams(self, id: Id | Unset = UNSET) -> None:
        """Refuse one more stream that a client would hold open, if there are enough."""
        if self.lifespan.draining:
            raise HttpError(503, "The server is about to stop", id, retry_after(1))
        if len(self.streams) + self.listening >= self.settings.max_streams:
            raise HttpError(
                503,
                f"{self.settings.max_streams} streams are open; come back later "
                f"(the server's setting is max_streams)",
                id,
                retry_after(10),
            )

    # --- what is open -----------------------------------------------------------------------------

    def open_response(self, stream: Stream) -> StreamResponse:
        """Return a response that a client holds open; discard it from `streams` in the end."""
        response = StreamResponse(
            stream,
            self.tasks,
            keep_alive=self.settings.keep_alive,
            write_timeout=self.settings.write_timeout,
        )
        self.streams.add(response)
        return response

    def end(self, exchange: Exchange) -> None:
        """Forget an exchange whose client has its answer, or has left."""
        self.exchanges.discard(exchange)
        self.bodies.size -= exchange.size
        exchange.close()

    # --- the end ----------------------------------------------------------------------------------

    def drain(self) -> None:
        """Take no new request, end streams that only wait, and give calls their time."""
        self.let_go_all()
        for exchange in list(self.exchanges):
            exchange.session.end_listens(announce=False)
        if self.exchanges:
            log.info("waiting for %d requests", len(self.exchanges))
        self.tasks.later(self.settings.grace, self.expire_all)

    def expire_all(self) -> None:
        """Stop every request that still runs."""
        for each in [*self.exchanges, *self.posted]:
            each.expire("The server is stopping")

    def let_go_all(self) -> None:
        """End every response that a client holds open."""
        for response in list(self.streams):
            response.let_go()
