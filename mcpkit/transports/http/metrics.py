"""Metrics over HTTP, as Prometheus collects them."""

from __future__ import annotations

from hmac import compare_digest
from typing import Final

from mcpkit.http import Receive, Scope, Send
from mcpkit.metrics import Metrics
from mcpkit.transports.http.http_error import HttpError, respond, send_error

_TYPE: Final = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class MetricsPage:
    """An ASGI application that serves the metrics of a server.

    Args:
        metrics: Those of the server.
        token: The bearer token of those who may read them; None: anyone may.
    """

    def __init__(self, metrics: Metrics, token: str | None) -> None:
        self._metrics = metrics
        self._expected = None if token is None else f"bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the metrics."""
        if scope["method"] not in ("GET", "HEAD"):
            error = HttpError(405, "Only GET is answered here", [(b"allow", b"GET, HEAD")])
            await send_error(send, error)
        elif self._expected is not None and not self._may_read(scope):
            error = HttpError(401, "A token is needed", [(b"www-authenticate", b"Bearer")])
            await send_error(send, error)
        else:
            text = self._metrics.text().encode()
            headers = [_TYPE, (b"cache-control", b"no-store")]
            await respond(send, 200, headers, text, head=scope["method"] == "HEAD")

    def _may_read(self, scope: Scope) -> bool:
        given = next((v for k, v in scope["headers"] if k == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        return compare_digest(scheme.lower() + b" " + token.strip(), self._expected or b"")
