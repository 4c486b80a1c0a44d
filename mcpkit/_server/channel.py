"""The way out for a session's messages, and the state that outlives a session object."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from mcpkit._protocol.connection import Ignored, Rejected, Request, RequestSource
from mcpkit.context import do_nothing
from mcpkit.errors import ProtocolError
from mcpkit.types import LogLevel

_URI_BYTES: Final = 512
"""Bytes that a watched URI takes in memory besides its characters."""


def size_of(uris: Iterable[str]) -> int:
    """Return about how many bytes watching some URIs takes."""
    return sum(len(uri) + _URI_BYTES for uri in uris)


@dataclass(frozen=True, slots=True)
class SessionState:
    """State of a session that another session object, perhaps of another process, can restore."""

    log_level: LogLevel | None = None
    """The level that the client has set; None: the server's default."""
    watched: frozenset[str] = frozenset()
    """The URIs of the resources that the client has subscribed to."""

    def __bool__(self) -> bool:
        """True if it differs from a new session's."""
        return self.log_level is not None or bool(self.watched)


NO_STATE: Final = SessionState()


class Channel:
    """The way out for a session's messages. Its methods are called on the event loop's thread.

    A transport that sends all messages the same way overrides `send` and `drain` alone, and ignores
    which request a message belongs to. This one drops every message: its client has left.
    """

    congested: bool = False
    """True while the client does not keep up with messages that belong to no request."""

    def send(self, text: bytes, request: Request | None = None) -> None:
        """Send a notification, or a request to the client; `request` is the one it belongs to."""

    def answer(
        self, request: Request, text: bytes | None, error: ProtocolError | None = None
    ) -> None:
        """End a request, and send its response.

        The text is None if the request was cancelled, or if other responses of its batch are
        missing; `error` is the error in it.
        """
        if text is not None:
            self.send(text, request)

    def reject(self, event: Rejected | Ignored, origin: RequestSource | None = None) -> None:
        """Send the response to a message that is not served, if it has one."""
        if type(event) is Rejected and event.text is not None:
            self.send(event.text)

    def close_stream(self, request: Request, retry: float | None) -> None:
        """Close the connection of a request's messages, which wait until the client reconnects.

        The client should do so after `retry` seconds; None: the transport's default.
        """

    def reserve(self, size: int, request: Request) -> None:
        """Count bytes that are kept for the client; fewer than 0 are given back.

        Raises `ProtocolError` if the client has reached its limit.
        """

    def wait_for_client(self, request: Request) -> Callable[[], None]:
        """Note that a request waits for its client, and return a function that ends the note.

        Raises `InputRequestError` if too many requests wait for their clients.
        """
        return do_nothing

    def is_congested(self, request: Request) -> bool:
        """Return True if the client does not keep up with a request's messages."""
        return self.congested

    async def drain(self, request: Request | None = None) -> None:
        """Wait until the channel is not congested."""
