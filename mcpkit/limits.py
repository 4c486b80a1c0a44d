"""Every limit that the author of a server may set, with its unit, its default and its reason.

The fields of `Limits` are the one table of them: code reads the values, `Limits` checks them by
the ``bound`` of their metadata, and its documentation is made of the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from typing import Any, Final

_MIB: Final = 1024 * 1024


_AT_LEAST_1: Final = "at least 1"
_ABOVE_0: Final = "more than 0"
_NOT_NEGATIVE: Final = "at least 0"


def _limit(default: Any, unit: str, reason: str, bound: str = _AT_LEAST_1) -> Any:
    # The reason is a sentence or two for users: the thing that is limited, and the consequence.
    return field(default=default, metadata={"unit": unit, "reason": reason, "bound": bound})


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits of a server, for ``MCPKit(limits=…)`` and for a single HTTP endpoint."""

    # --- of a server, on every transport ----------------------------------------------------------

    max_threads: int = _limit(
        40,
        "handlers",
        "Plain `def` handlers that run at once; more wait. Over HTTP one client may "
        "have three quarters of them.",
    )
    max_in_flight: int = _limit(
        1000, "requests", "Requests of one connection that run at once; more wait."
    )
    max_subscriptions: int = _limit(
        1000, "subscriptions", "Resources, or streams of changes, that one connection may watch."
    )

    # --- of a request over HTTP -------------------------------------------------------------------

    max_body: int = _limit(8 * _MIB, "bytes", "The longest body that is read; 413 beyond.")
    max_values: int = _limit(
        50_000,
        "values",
        "JSON values in a message, members of arrays and objects included; 413 "
        "beyond. No other request is served while they are parsed and validated.",
    )
    max_batch: int = _limit(100, "messages", "Messages in a batch (2025-03-26); 413 beyond.")
    body_timeout: float = _limit(
        30,
        "seconds",
        "The time for a body to arrive; 408 then. Under mcpkit's own server also "
        "the time for headers; the connection is closed then.",
        _ABOVE_0,
    )
    request_timeout: float | None = _limit(
        3600,
        "seconds",
        "The time that a request may run; it is then cancelled and answered with "
        "an error. None: any time.",
        _ABOVE_0,
    )
    write_timeout: float = _limit(
        60,
        "seconds",
        "The time for which a client may take nothing of its response; the "
        "connection is closed then.",
        _ABOVE_0,
    )
    rate_limit: float | None = _limit(
        None,
        "requests a second",
        "Requests of one client (its principal, else its network), with "
        "as many in reserve; 429 beyond. None: any number.",
        _ABOVE_0,
    )

    # --- of everything that clients hold at an HTTP endpoint --------------------------------------

    max_each: int | None = _limit(
        None,
        "of each",
        "Requests, parked requests, streams and sessions that one client may hold, "
        "of each kind; 429 beyond. None: half of each total. Of the bytes below, one client may "
        "always hold half.",
    )
    max_requests: int = _limit(
        1000, "requests", "Requests that run, or whose response waits for its client; 503 beyond."
    )
    max_parked: int = _limit(
        1000,
        "requests",
        "Requests that wait for their client: for its answer to a question, or "
        "for its return (handshake revisions). Beyond, the question fails, or the request whose "
        "client has left is cancelled.",
    )
    max_streams: int = _limit(
        1000,
        "streams",
        "Streams that clients hold open (GET and subscriptions); 503 beyond.",
        _NOT_NEGATIVE,
    )
    max_bodies: int = _limit(
        8,
        "bodies",
        "Bodies of `max_body` bytes that may arrive, or be served, at once, or as many "
        "bytes of shorter ones; 503 beyond. Bodies below 64 KiB are not counted.",
    )
    max_unread: int = _limit(
        256 * _MIB,
        "bytes",
        "Responses and events that wait for clients to read them. Beyond, a "
        "response is 503, and a stream ends with its connection.",
        _NOT_NEGATIVE,
    )
    max_watched: int = _limit(
        64 * _MIB, "bytes", "URIs that clients are subscribed to; a subscription fails beyond."
    )
    max_sessions: int = _limit(
        10_000,
        "sessions",
        "Sessions that are held for their state, such as subscriptions. The one "
        "that has been idle for longest makes room for another: its streams are dropped, and its "
        "log level and subscriptions are stored, for as many sessions again. 503 if none is idle.",
    )
    session_lifetime: float = _limit(
        7 * 24 * 3600, "seconds", "The time for which a session id is valid.", _ABOVE_0
    )
    session_idle: float = _limit(
        3600, "seconds", "The time for which the state of an unused session is kept.", _NOT_NEGATIVE
    )
    replay_buffer: int = _limit(
        16 * _MIB,
        "bytes",
        "Events that are kept for clients that reconnect, of all together.",
        _NOT_NEGATIVE,
    )
    replay_time: float = _limit(300, "seconds", "The time for which these are kept.", _NOT_NEGATIVE)
    grace: float = _limit(
        5,
        "seconds",
        "The time for running requests to end when the server is told to stop.",
        _NOT_NEGATIVE,
    )

    def __post_init__(self) -> None:
        """Refuse values that no server can keep to.

        Raises:
            ValueError: A limit is wrong; the message names it.
        """
        for each in fields(self):
            value, bound = getattr(self, each.name), each.metadata["bound"]
            if value is None and "None" in str(each.type):
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueError(f"{each.name} must be a number, not {value!r}")
            fits = value >= 1 if bound == _AT_LEAST_1 else value >= 0
            if not fits or value == math.inf or (value == 0 and bound == _ABOVE_0):
                raise ValueError(f"{each.name} must be {bound} and finite, not {value!r}")


Limits.__doc__ = f"{Limits.__doc__}\n\nArgs:\n" + "\n".join(
    f"    {each.name}: {each.metadata['reason']} ({each.metadata['unit']}; {each.default!r})"
    for each in fields(Limits)
)
