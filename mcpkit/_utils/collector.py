"""The garbage collector, kept away from work that makes many objects and no garbage."""

from __future__ import annotations

import gc
import threading
import time
from typing import Final

__all__ = ["CollectorPause", "pause"]

_LONGEST_PAUSE: Final = 1.0
"""Seconds after which nobody joins a pause any more."""


class CollectorPause:
    """A pause of the garbage collector while many objects are made, in any thread.

    The first who makes some turns it off and the last turns it on again, unless somebody else had
    turned it off before. Whoever comes late does not prolong the pause, because messages
    that arrive without end would otherwise keep the collector from ever running.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._since = 0.0

    def begin(self) -> bool:
        """Turn the collector off, or keep it off; True if `end` has to be called."""
        with self._lock:
            if self._count == 0:
                if not gc.isenabled():
                    return False
                gc.disable()
                self._since = time.monotonic()
            elif time.monotonic() - self._since > _LONGEST_PAUSE:
                return False
            self._count += 1
            return True

    def end(self) -> None:
        """Turn the collector on again, if nobody else needs the pause."""
        with self._lock:
            self._count -= 1
            if self._count == 0:
                gc.enable()


pause: Final = CollectorPause()
"""The pause of this process."""
