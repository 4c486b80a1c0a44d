"""The limits that the author of a server may set, with their units, defaults and consequences."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

_MIB: Final = 1024 * 1024


def check_number(name: str, value: Any, bound: str, what: str = "a number") -> None:
    """Raise `ValueError` unless a value is `what` it must be, finite, and within a bound.

    The bounds are "at least 1", "at least 0" and "more than 0".
    """
    kinds = int if what == "a whole number" else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise ValueError(f"{name} must be {what}, not {value!r}")
    fits = value >= 1 if bound == "at least 1" else value >= 0
    if not fits or value == math.inf or (value == 0 and bound == "more than 0"):
        raise ValueError(f"{name} must be {bound} and finite, not {value!r}")


def check_several(name: str, values: Any) -> None:
    """Raise `ValueError` for one value where several are expected; a text would be spelled out."""
    is_one = isinstance(values, (str, bytes)) or not hasattr(values, "__iter__")
    if is_one and values is not None:
        raise ValueError(f"{name} must be a list, such as [{values!r}], not {values!r}")


class NotesGiven:
    """A base of frozen dataclasses whose objects know the ``given`` names of their members."""

    if not TYPE_CHECKING:  # type checkers would take it for the signature

        def __new__(cls, **given: float | None) -> Any:
            """Note the names that are given, because settings must replace only the others."""
            made = super().__new__(cls)
            object.__setattr__(made, "given", frozenset(given))
            return made


@dataclass(frozen=True, kw_only=True)
class Limits(NotesGiven):
    """The limits of a server, for ``MCPKit(limits=…)`` and for a single HTTP endpoint.

    Sizes are in bytes and times in seconds. `max_threads`, `max_in_flight` and `max_subscriptions`
    apply to every transport, the others to HTTP: `max_body` through `rate_limit` to each request,
    the rest to an endpoint as a whole.

    Args:
        max_threads: Plain `def` handlers that run at once; more wait. Over HTTP one client may have
            three quarters of them. On 2026-07-28 as many again may wait for answers of clients.
        max_in_flight: Requests of one connection that run at once; more wait.
        max_subscriptions: Resources, or streams of changes, that one connection may watch.
        max_body: The longest body that is read; 413 beyond.
        max_values: JSON values in a message, members of arrays and objects included; 413 beyond. No
            other request is served while they are parsed and validated.
        max_batch: Messages in a batch (2025-03-26); 413 beyond.
        body_timeout: The time for a body to arrive; 408 then. Under mcpkit's own server also the
            time for headers; the connection is closed then.
        request_timeout: The time that a request may run; it is then cancelled and answered with an
            error. None: any time.
        write_timeout: The time for which a client may take nothing of its response; the connection
            is closed then.
        rate_limit: Requests a second of one client (its principal, else its network), with as many
            in reserve; 429 beyond. None: any number.
        max_each: Requests, parked requests, streams and sessions that one client may hold, of each
            kind; 429 beyond. None: half of each total. Of the bytes below, one client may always
            hold half.
        max_requests: Requests that run, or whose response waits for its client; 503 beyond.
        max_parked: Requests that wait for their client: for its answer to a question, or for its
            return (handshake revisions). Beyond, the question fails, or the request whose client
            has left is cancelled.
        max_streams: Streams that clients hold open (GET and subscriptions); 503 beyond.
        max_bodies: Bodies of `max_body` bytes that may arrive, or be served, at once, or as many
            bytes of shorter ones; 503 beyond. Bodies below 64 KiB are not counted.
        max_unread: Bytes of responses and events that wait for clients to read them. Beyond, a
            response is 503, and a stream ends with its connection.
        max_watched: Bytes of URIs that clients are subscribed to; a subscription fails beyond.
        max_sessions: Sessions that are held for their state, such as subscriptions. The one that
            has been idle for longest makes room for another: its streams are dropped, and its log
            level and subscriptions are stored, for as many sessions again. 503 if none is idle.
        session_lifetime: The time for which a session id is valid.
        session_idle: The time for which the state of an unused session is kept.
        replay_buffer: Bytes of all events that are kept for clients that reconnect.
        replay_time: The time for which these are kept.
        grace: The time for running requests to end when the server is told to stop.

    Raises:
        ValueError: A limit is wrong; the message names it.
    """

    max_threads: int = 40
    max_in_flight: int = 1000
    max_subscriptions: int = 1000

    max_body: int = 8 * _MIB
    max_values: int = 50_000
    max_batch: int = 100
    body_timeout: float = 30
    request_timeout: float | None = 3600
    write_timeout: float = 60
    rate_limit: float | None = None

    max_each: int | None = None
    max_requests: int = 1000
    max_parked: int = 1000
    max_streams: int = 1000
    max_bodies: int = 8
    max_unread: int = 256 * _MIB
    max_watched: int = 64 * _MIB
    max_sessions: int = 10_000
    session_lifetime: float = 7 * 24 * 3600
    session_idle: float = 3600
    replay_buffer: int = 16 * _MIB
    replay_time: float = 300
    grace: float = 5

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None or "None" not in str(each.type):
                check_number(each.name, value, _BOUNDS.get(each.name, "at least 1"))


_BOUNDS: Final = {
    **dict.fromkeys(("body_timeout", "request_timeout", "write_timeout"), "more than 0"),
    **dict.fromkeys(("rate_limit", "session_lifetime"), "more than 0"),
    **dict.fromkeys(("max_streams", "max_unread", "session_idle"), "at least 0"),
    **dict.fromkeys(("replay_buffer", "replay_time", "grace"), "at least 0"),
}
"""Name of a limit → its lower bound, if that is not 1."""
