"""Quotas and rate limits: how much one owner, and all owners together, may hold or do."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final

ANONYMOUS: Final = ""
"""The owner of work that no known caller has caused."""

MAX_RATED_OWNERS: Final = 10_000
"""Owners that a rate limit remembers; the one that was quiet for longest is forgotten first."""


limited: Final[ContextVar[Any]] = ContextVar("mcpkit_limited", default=None)
"""The `mcpkit.call_limits.Slot` of the call whose function runs, if it has limits."""


def principal_owner(id: str) -> str:
    """Return the owner that work of a principal is counted to."""
    return f"principal {id}"


def largest_share(total: int) -> int:
    """Return how many of some places one owner may have: three quarters, if there are four."""
    return total * 3 // 4 if total >= 4 else total


class QuotaExceeded(Exception):
    """An owner may not take an amount.

    Args:
        own: True if the owner has its share; False if the whole quota is in use.
    """

    def __init__(self, own: bool) -> None:
        super().__init__(own)
        self.own = own


class Quota:
    """An amount that all owners share, with a bound for each.

    An owner is named by a text: a principal, or the network of a client. The last eighth of the
    total is for owners that hold nothing yet, so that others together do not use up everything.

    Args:
        total: The amount that all owners may hold together.
        each: The amount that one owner may hold; half of the total by default. If it is the total
            or more, nothing is left for others.
    """

    __slots__ = ("_held", "_reserve", "each", "total", "used")

    def __init__(self, total: int, each: int | None = None) -> None:
        self.total = total
        self.each = min(total, max(1, total // 2) if each is None else each)
        self._reserve = total // 8 if self.each < total else 0
        self.used = 0
        """The amount that all owners hold together."""
        self._held: dict[str, int] = {}

    def held(self, owner: str) -> int:
        """Return the amount that an owner holds."""
        return self._held.get(owner, 0)

    def check(self, owner: str, amount: int = 1) -> None:
        """Raise `QuotaExceeded` if an owner may not take an amount."""
        if not self.has_room(owner, amount):
            is_free = self.used + amount <= self.total
            raise QuotaExceeded(own=is_free and self.held(owner) + amount > self.each)

    def has_room(self, owner: str, amount: int = 1) -> bool:
        """Return True if an owner may take an amount."""
        held = self._held.get(owner, 0)
        limit = self.total - self._reserve if held else self.total
        return self.used + amount <= limit and held + amount <= self.each

    def exceeds(self, owner: str) -> bool:
        """Return True if an owner, or all together, hold more than they may."""
        return self.used > self.total or self._held.get(owner, 0) > self.each

    def take(self, owner: str, amount: int = 1) -> Reservation:
        """Reserve an amount for an owner, or raise `QuotaExceeded`."""
        self.check(owner, amount)
        return self.charge(owner, amount)

    def charge(self, owner: str, amount: int = 0) -> Reservation:
        """Reserve an amount without checking that the owner may have it."""
        reservation = Reservation(self, owner)
        reservation.set(amount)
        return reservation

    def add(self, owner: str, amount: int = 1) -> None:
        """Add to the amount of an owner, or subtract if negative, without a check."""
        self.used += amount
        rest = self._held.get(owner, 0) + amount
        if rest > 0:
            self._held[owner] = rest
        else:
            self._held.pop(owner, None)


class Reservation:
    """The part of a quota that one thing holds, given back as a whole."""

    __slots__ = ("_owner", "amount", "quota")

    def __init__(self, quota: Quota, owner: str) -> None:
        self.amount = 0
        self.quota = quota
        self._owner = owner

    @property
    def exceeds(self) -> bool:
        """True if the owner holds more than it may."""
        return self.quota.exceeds(self._owner)

    def resize(self, amount: int) -> None:
        """Hold another amount, or raise `QuotaExceeded` and change nothing."""
        if amount > self.amount:
            self.quota.check(self._owner, amount - self.amount)
        self.set(amount)

    def set(self, amount: int) -> None:
        """Hold another amount, without checking that the owner may have it."""
        if amount != self.amount:
            self.quota.add(self._owner, amount - self.amount)
            self.amount = amount

    def release(self) -> None:
        """Give everything back."""
        self.set(0)


class Window:
    """At most `count` events of each owner in any `period`, in seconds."""

    __slots__ = ("_clock", "_count", "_events", "_period")

    def __init__(
        self, count: int, period: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._count = count
        self._period = period
        self._clock = clock
        self._events: OrderedDict[str, deque[float]] = OrderedDict()

    def wait(self, owner: str) -> float:
        """Return the seconds until an owner may have another event; 0 if it may now."""
        events = self._events.get(owner)
        if events is None or len(events) < self._count:
            return 0.0
        return max(0.0, events[0] + self._period - self._clock())

    def add(self, owner: str) -> None:
        """Count an event of an owner."""
        events, now = self._events.setdefault(owner, deque(maxlen=self._count)), self._clock()
        events.append(now)
        while events[0] <= now - self._period:  # a high rate would remember many for nothing
            events.popleft()
        self._events.move_to_end(owner)
        if len(self._events) > MAX_RATED_OWNERS:
            self._events.popitem(last=False)


class RateLimit:
    """A token bucket for each owner: at most `burst` tokens, of which `rate` come back a second."""

    def __init__(
        self, burst: float, rate: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst = burst
        self._rate = rate
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, owner: str, tokens: int = 1) -> float:
        """Take a token; return 0, or the seconds until there is one if there is none.

        Without `tokens` nothing is taken.
        """
        now = self._clock()
        left, since = self._buckets.pop(owner, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._buckets[owner] = left if wait else left - tokens, now
        if len(self._buckets) > MAX_RATED_OWNERS:
            self._buckets.popitem(last=False)
        return wait
