"""The grace period after an outage, in which expired leases are ignored."""

from __future__ import annotations

import math
from time import monotonic


class Calm:
    """A grace period in which expired leases are ignored: live processes could not renew theirs.

    It starts with the process, and after the store was unavailable, this machine was asleep, or
    the store's clock was set forward. It lasts one lease, so that all processes can renew theirs.
    """

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._looked = self.until = -math.inf
        self._ahead = -math.inf  # the store's clock, of this one, when tasks were last due

    def lasts(self, interval: float, now: float = math.nan) -> bool:
        """Return True in this time; it begins if the last call is longer ago than `interval`, or
        `now`, the store's time, is ahead of what the last one said."""
        here, late = monotonic(), self._lease / 3
        if here - self._looked > interval + late or now - here - self._ahead > late:
            self.until = here + self._lease
        self._looked = here
        if now == now:
            self._ahead = now - here
        return here < self.until
