"""Accounts of an endpoint: what its clients hold of it, and what each may hold.

Everything that a client makes the server keep is noted here under the name of whoever caused it:
its principal, else the network of its address, and within that its session. Each kind has a total,
and nobody may have all of it (`mcpkit._utils.quota`). What lasts has totals of its own, so that
streams, open questions and abandoned calls never take the place of calls.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from mcpkit._concurrency.loop import Loop
from mcpkit._protocol.messages import Id
from mcpkit._utils.json import UNSET, Unset
from mcpkit._utils.quota import Budget, Exhausted, Hold, Holder
from mcpkit.errors import InternalError
from mcpkit.http import HttpRequest, HttpSettings
from mcpkit.transports.http.http_error import HttpError, retry_after

__all__ = [
    "BODIES",
    "MOST_WATCHED",
    "Accounts",
    "Occupant",
    "TooMuchWatched",
    "Watched",
    "holder_of",
    "owner_of",
]

BODIES: Final = 8
"""Bodies of the greatest length that may arrive, or be served, at once."""

MOST_WATCHED: Final = 64 * 1024 * 1024
"""Bytes of the URIs that clients watch."""

_NETWORK: Final = 64
"""Bits of an IPv6 address that name the network of a client (RFC 6177)."""

_FAR: Final = 30 * 24 * 3600.0
"""Seconds after which a stream ends in any case that ends with an authentication."""

_LONGEST_ADDRESS: Final = 64
"""Characters of an address; a server that believes a proxy's headers may pass on anything."""


class TooMuchWatched(InternalError):
    """A client may watch no more URIs for now."""

    def __init__(self) -> None:
        super().__init__("Too many resources are watched; end a subscription first")


class Watched(Hold):
    """The bytes of the URIs that one client watches."""

    __slots__ = ()

    def grow(self, amount: int) -> None:
        """Take an amount, or give it back if it is less than nothing.

        Raises:
            TooMuchWatched: The client may not have so much; nothing has changed.
        """
        try:
            super().grow(amount)
        except Exhausted:
            raise TooMuchWatched from None


class Occupant:
    """Something that holds a place at the endpoint until it is over.

    Args:
        http: The request that has caused it.
    """

    budget: Budget | None = None
    """What it holds a place of; None if it holds none."""
    asking = 0
    """The number of questions whose answers it waits for."""
    is_left = False
    """True if its client has gone, and may come back for the answer."""
    lasts = False
    """True for a stream that stays open until its client ends it."""
    places = 1
    """The number of places that it takes: one for each request of a batch."""
    _holder: Holder | None = None
    _holds: tuple[Hold, ...] = ()
    _expiry: Callable[[], object] | None = None
    """Takes back what happens when the authentication of whoever has caused it ends."""

    def __init__(self, http: HttpRequest) -> None:
        self.http = http

    def keep(self, budget: Budget, size: int) -> None:
        """Count bytes that it keeps until it is over, without asking for room."""
        made = Hold(budget, self.holder)
        made.set(size)
        self._holds = (*self._holds, made)

    def release(self) -> None:
        """Give back the bytes that it keeps."""
        for each in self._holds:
            each.release()
        self._holds = ()

    def on_expiry(self, loop: Loop, end: Callable[[], object]) -> None:
        """End what stays open when the authentication of its client ends (AUTH-17)."""
        principal = self.http.principal
        if principal is not None and principal.expires_at is not None:
            left = principal.expires_at - time.time()
            self._expiry = loop.later(min(max(left, 0), _FAR), end)

    def stop_expiry(self) -> None:
        """Wait for the end of the authentication no more."""
        if self._expiry is not None:
            self._expiry()
            self._expiry = None

    @property
    def holder(self) -> Holder:
        """Whoever has caused it."""
        if self._holder is None:
            self._holder = holder_of(self.http)
        return self._holder

    def occupy(self, budget: Budget | None) -> None:
        """Take a place in a budget, instead of the one it has, without asking for room."""
        had = self.budget
        if had is budget:
            return
        if had is not None:
            had.give_back(self.holder, self.places)
        self.budget = budget
        if budget is not None:
            budget.add(self.holder, self.places)


class Accounts:
    """What the clients of an endpoint hold.

    Args:
        settings: The settings of the endpoint.
    """

    def __init__(self, settings: HttpSettings) -> None:
        share = settings.max_share
        self.requests = Budget(settings.max_requests, share)
        """Requests that run, whose body arrives, or whose answer is being read."""
        self.parked = Budget(settings.max_parked, share)
        """Requests that wait for their client: for its answer to a question, or for its return."""
        self.streams = Budget(settings.max_streams, share)
        """Streams that clients hold open."""
        self.bodies = Budget(BODIES * settings.max_body, share)
        """Bytes of large bodies that arrive or are served."""
        self.sessions = Budget(settings.max_sessions, share)
        """Sessions that are held for their state."""
        self.watched = Budget(MOST_WATCHED, share)
        """Bytes of the URIs that clients watch."""
        self.unread = Budget(settings.max_unread, share)
        """Bytes of answers and events that wait for clients to read them."""
        self.replay = Budget(settings.replay_buffer, share)
        """Bytes that are kept of what clients have missed."""

    def check_request(self, http: HttpRequest, amount: int = 1) -> None:
        """Refuse one more request, or as many as a batch has, if there are enough.

        Raises:
            HttpError: There is no room for it.
        """
        self._check(self.requests, "requests are being served", "max_requests", http, amount=amount)

    def check_stream(self, http: HttpRequest, id: Id | Unset = UNSET) -> None:
        """Refuse one more stream that a client would hold open, if there are enough.

        Raises:
            HttpError: There is no room for it.
        """
        self._check(self.streams, "streams are open", "max_streams", http, id, wait=10)

    def _check(
        self,
        budget: Budget,
        what: str,
        setting: str,
        http: HttpRequest,
        id: Id | Unset = UNSET,
        *,
        wait: float = 1,
        amount: int = 1,
    ) -> None:
        holder = holder_of(http)
        try:
            budget.check(holder, amount)
        except Exhausted as full:
            if full.own:
                status, count = 429, f"{budget.held(holder.owner)} of your"
                settings = f"settings are {setting} and max_share"
            else:
                status, count = 503, str(budget.total)
                settings = f"setting is {setting}"
            text = f"{count} {what}; come back later (the server's {settings})"
            raise HttpError(status, text, id, retry_after(wait)) from None


def holder_of(http: HttpRequest) -> Holder:
    """Return who holds what a request causes: its owner, and the session that it names."""
    return Holder(owner_of(http), http.raw.get(b"mcp-session-id"))


def owner_of(http: HttpRequest) -> str:
    """Return the name under which a request is counted: its principal, or its client's network.

    The address of an IPv6 client says little, because it may choose any of its network.
    """
    principal = http.principal
    if principal is not None:
        return f"principal {principal.id}"
    client = http.client
    if client is None:
        return ""
    host = client[0]
    return _network_of(host) if len(host) <= _LONGEST_ADDRESS else host[:_LONGEST_ADDRESS]


@lru_cache(maxsize=1024)
def _network_of(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"network {host}"
    address = getattr(address, "ipv4_mapped", None) or address
    if address.version == 4:
        return f"network {address}"
    return f"network {ipaddress.ip_network((address, _NETWORK), strict=False)}"
