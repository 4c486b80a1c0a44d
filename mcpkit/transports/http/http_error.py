"""An HTTP status and a JSON-RPC error to answer a request with that is not served."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

from mcpkit._protocol.messages import Id, error_text, readable_id
from mcpkit._utils.json import UNSET, Unset, is_object
from mcpkit.errors import InternalError, InvalidRequest, ProtocolError
from mcpkit.http import Send

Pairs: TypeAlias = list[tuple[bytes, bytes]]
"""Headers of a response."""

JSON: Final = (b"content-type", b"application/json")


class HttpError(Exception):
    """A request that is answered with a status, an error and more headers, and not served."""

    def __init__(
        self, status: int, error: ProtocolError | str, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        if isinstance(error, str):
            error = InvalidRequest(error) if status < 500 else InternalError(error)
        super().__init__(str(error))
        self.status = status
        self.error = error
        self.id: Id | Unset = UNSET
        """The id of the request, once its body is read (ERR-5)."""
        self.headers = headers

    def about(self, message: object) -> HttpError:
        """Return the error itself, with the id of its request if a message is one."""
        if is_object(message) and "method" in message:
            self.id = readable_id(message)
        return self

    @property
    def body(self) -> bytes:
        """The error as JSON-RPC has it (MSG-8)."""
        return error_text(self.id, self.error)


async def send_error(send: Send, error: HttpError) -> None:
    """Answer a request with an error."""
    await respond(send, error.status, [JSON, *error.headers], error.body)


async def respond(
    send: Send, status: int, headers: Pairs, body: bytes = b"", *, head: bool = False
) -> None:
    """Send a whole response, with its length if it may have a body; `head` omits the body."""
    if status not in (204, 304):
        headers = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else body})


def retry_after(seconds: float) -> Pairs:
    """Return the header that says after how many seconds to try again."""
    return [(b"retry-after", b"%d" % max(1, math.ceil(seconds)))]
