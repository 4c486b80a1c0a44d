"""Errors of HTTP: requests that are not served, but answered with a status and an error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from mcpkit._protocol.messages import Id, error_text
from mcpkit._utils.json import UNSET, Unset
from mcpkit.errors import InternalError, InvalidRequest, ProtocolError
from mcpkit.transports.http.streams import Send

__all__ = ["HttpError", "Pairs", "retry_after", "send_error"]

Pairs: TypeAlias = list[tuple[bytes, bytes]]
"""Headers of a response."""


class HttpError(Exception):
    """A request that is answered with a status and an error, and not served.

    Args:
        status: The status of HTTP.
        error: The error in the body.
        id: The id of the request, if it is known by then (ERR-5).
        headers: Headers of the response, in addition.
    """

    def __init__(
        self,
        status: int,
        error: ProtocolError | str,
        id: Id | Unset = UNSET,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        if isinstance(error, str):
            error = InvalidRequest(error) if status < 500 else InternalError(error)
        super().__init__(str(error))
        self.status = status
        self.error = error
        self.id = id
        self.headers = headers

    @property
    def body(self) -> bytes:
        """The error as JSON-RPC has it (MSG-8)."""
        return error_text(self.id, self.error)


async def send_error(send: Send, error: HttpError) -> None:
    """Answer a request with an error."""
    body = error.body
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        *error.headers,
    ]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def retry_after(seconds: float) -> Pairs:
    """Return the header that says after how many seconds to come back."""
    return [(b"retry-after", b"%d" % max(1, math.ceil(seconds)))]
