"""How often one address may do what costs something before anybody has logged in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from mcpkit.auth.server.messages import OAuthError

__all__ = ["Rate"]

_MOST_ADDRESSES: Final = 10_000


class Rate:
    """An allowance for each address, which comes back with time.

    Args:
        most: That an address has at first, and has again after `seconds`.
        seconds: Within which all of it comes back.
        what: For messages.
        clock: Seconds.
    """

    def __init__(self, most: int, seconds: float, what: str, clock: Callable[[], float]) -> None:
        self._most = float(most)
        self._seconds = seconds
        self._what = what
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def count(self, address: str) -> None:
        """Take one of an address.

        Raises:
            OAuthError: There is none left.
        """
        now = self._clock()
        left, since = self._left.pop(address, (self._most, now))
        left = min(left + (now - since) * self._most / self._seconds, self._most)
        refused = left < 1
        self._left[address] = left if refused else left - 1, now
        while len(self._left) > _MOST_ADDRESSES:
            self._left.popitem(last=False)
        if refused:
            raise OAuthError("temporarily_unavailable", f"Too many {self._what}; try later", 429)
