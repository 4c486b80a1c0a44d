"""The quotas of an endpoint, and the owner that a request is counted to.

Everything that a client makes the server keep is counted to its owner: its principal, else the
network of its address. Each kind has a total and a bound for each owner (`mcpkit._utils.quota`).
Streams, open questions and abandoned calls have quotas of their own, so that they never take the
room of calls.
"""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from mcpkit._utils.quota import Quota, QuotaExceeded, Reservation, principal_owner
from mcpkit.errors import InternalError
from mcpkit.http import HttpRequest
from mcpkit.transports.http.http_error import HttpError, retry_after
from mcpkit.transports.http.options import HttpSettings

_NETWORK_BITS: Final = 64
"""Bits of an IPv6 address that name the network of a client (RFC 6177)."""

MAX_ADDRESS: Final = 64
"""Characters of an address; a server that trusts a proxy's headers may pass on any text."""


Kind: TypeAlias = Literal["requests", "streams"]

_KINDS: Final[dict[Kind, tuple[str, str, float]]] = {
    "requests": ("max_requests", "requests are being served", 1),
    "streams": ("max_streams", "streams are open", 10),
}
"""For each quota that refuses requests: its limit, its message, and when to try again."""


class EndpointQuotas:
    """The quotas of an endpoint."""

    def __init__(self, settings: HttpSettings) -> None:
        limits = settings.limits
        each = limits.max_each
        self.requests = Quota(limits.max_requests, each)
        """Requests that run, whose body arrives, or whose response is being read."""
        self.waiting = Quota(limits.max_parked, each)
        """Requests that wait for their client: for its answer to a question, or for its return."""
        self.streams = Quota(limits.max_streams, each)
        """Streams that clients hold open."""
        self.sessions = Quota(limits.max_sessions, each)
        """Sessions that are held for their state."""
        self.bodies = Quota(limits.max_bodies * limits.max_body)
        """Bytes of large bodies that arrive or are served."""
        self.watched = Quota(limits.max_watched)
        """Bytes of the URIs that clients watch."""
        self.unread = Quota(limits.max_unread)
        """Bytes of responses and events that wait for clients to read them."""
        self.replay = Quota(limits.replay_buffer)
        """Bytes of events that are kept for clients that reconnect."""

    def check(self, kind: Kind, http: HttpRequest, amount: int = 1) -> None:
        """Refuse one more request or stream, or as many as a batch has, if there are enough."""
        quota: Quota = getattr(self, kind)
        setting, held, wait = _KINDS[kind]
        owner = owner_of(http)
        try:
            quota.check(owner, amount)
        except QuotaExceeded as full:
            if full.own:
                status, count = 429, f"{quota.held(owner)} of your"
                limits = f"limits are {setting} and max_each"
            else:
                status, count = 503, str(quota.total)
                limits = f"limit is {setting}"
            text = f"{count} {held}; try again later (the server's {limits})"
            raise HttpError(status, text, retry_after(wait)) from None


def watch(watched: Reservation, size: int) -> None:
    """Count more bytes of URIs that a client watches, or fewer if negative.

    Raises:
        InternalError: The client would exceed its quota; nothing has changed.
    """
    try:
        watched.resize(max(0, watched.amount + size))
    except QuotaExceeded:
        text = "Too many resources are watched; end a subscription first"
        raise InternalError(text) from None


def owner_of(http: HttpRequest) -> str:
    """Return the owner that a request is counted to: its principal, or its client's network.

    The address of an IPv6 client says little, because it may choose any of its network.
    """
    principal = http.principal
    if principal is not None:
        return principal_owner(principal.id)
    client = http.client
    if client is None:
        return ""
    host = client[0]
    return _network_of(host) if len(host) <= MAX_ADDRESS else host[:MAX_ADDRESS]


@lru_cache(maxsize=1024)
def _network_of(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return f"network {host}"
    address = getattr(address, "ipv4_mapped", None) or address
    if address.version == 4:
        return f"network {address}"
    return f"network {ipaddress.ip_network((address, _NETWORK_BITS), strict=False)}"
