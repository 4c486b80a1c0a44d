"""Facts about sessions that their ids do not say: ends, and the state of those put away.

Processes that serve the same sessions could share these. There is no store yet that does.
"""

from __future__ import annotations

import heapq
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Protocol

from mcpkit._server.changes import Change
from mcpkit._server.channel import NO_STATE, SessionState
from mcpkit.http import HttpSettings

__all__ = ["LocalStore", "SessionStore", "TooManyEnds"]

_MOST_OF_ONE: Final = 10_000
"""Ends that are remembered of one owner: about 2 MB."""

_MOST_OF_ALL: Final = 100_000
"""Ends that are remembered of all owners together: about 20 MB."""


_MOST_BYTES: Final = 64 * 1024 * 1024
"""Bytes of the states that are put away."""

_LATER: Final = 60.0
"""Seconds after which it is worth asking again, where the right time would take long to find."""


class TooManyEnds(Exception):
    """No further end can be remembered.

    Args:
        own: True if the owner has ended too many sessions, not all owners together.
        retry: Seconds after which one can be.
    """

    def __init__(self, own: bool, retry: float) -> None:
        super().__init__("too many sessions have been ended")
        self.own = own
        self.retry = retry


class SessionStore(Protocol):
    """The facts that processes which serve the same sessions could share.

    `ended` and `take` answer at once, because requests wait for them. A store that spans processes
    keeps at hand what it has heard from the others. All methods but `publish` are called on the
    event loop's thread.
    """

    def ended(self, key: str) -> bool:
        """Return True if the session of a key has been ended (HTTPL-17)."""
        ...

    async def end(self, key: str, expires: float, owner: str) -> None:
        """Remember for as long as its id is valid that a session has ended, and drop its state.

        Args:
            key: The key of the session.
            expires: The time until which its id is valid, in seconds since the epoch.
            owner: The name of whoever ends it; the ends of one owner are bounded.

        Raises:
            TooManyEnds: The end cannot be remembered, so the session has not ended.
        """
        ...

    def put(self, key: str, state: SessionState, until: float) -> None:
        """Put the state of a session away until a time, in seconds since the epoch."""
        ...

    def take(self, key: str) -> SessionState:
        """Take back the state of a session that was put away; `NO_STATE` if there is none."""
        ...

    def publish(self, change: Change) -> None:
        """Tell the other processes of a change in this one. From any thread."""
        ...

    def subscribe(self, heard: Callable[[Change], object]) -> Callable[[], None]:
        """Call a function with every change in the other processes; the result ends that."""
        ...

    def drop_expired(self) -> None:
        """Forget what has expired."""
        ...


class LocalStore:
    """The store of one process.

    Args:
        settings: The settings of the endpoint.
    """

    def __init__(self, settings: HttpSettings) -> None:
        self._most_states = settings.max_sessions
        self._ended: set[str] = set()
        self._by_owner: dict[str, list[tuple[float, str]]] = {}
        """The ends of each owner, as a heap: the first expires first."""
        self._states: OrderedDict[str, tuple[SessionState, float]] = OrderedDict()
        self._size = 0
        """Bytes of the states, about."""

    # --- ends -------------------------------------------------------------------------------------

    def ended(self, key: str) -> bool:
        """Return True if the session of a key has been ended."""
        return key in self._ended

    async def end(self, key: str, expires: float, owner: str) -> None:
        """Remember for as long as its id is valid that a session has ended, and drop its state."""
        if key in self._ended:
            return
        ends = self._by_owner.get(owner, [])
        now = time.time()
        self._drop_ends(ends, now)
        if len(ends) >= _MOST_OF_ONE:
            # To forget an end before its id expires would make an ended session valid again.
            raise TooManyEnds(True, ends[0][0] - now)
        if len(self._ended) >= _MOST_OF_ALL:
            raise TooManyEnds(False, _LATER)
        heapq.heappush(ends, (expires, key))
        self._by_owner[owner] = ends
        self._ended.add(key)
        self._drop_state(key)

    def _drop_ends(self, ends: list[tuple[float, str]], now: float) -> None:
        while ends and ends[0][0] < now:
            self._ended.discard(heapq.heappop(ends)[1])

    # --- states -----------------------------------------------------------------------------------

    def put(self, key: str, state: SessionState, until: float) -> None:
        """Put the state of a session away; the one that was put away first makes room for it."""
        self._drop_state(key)
        self._states[key] = state, until
        self._size += state.size
        while len(self._states) > self._most_states or self._size > _MOST_BYTES:
            self._drop_state(next(iter(self._states)))

    def take(self, key: str) -> SessionState:
        """Take back the state of a session that was put away; `NO_STATE` if there is none."""
        state, until = self._drop_state(key)
        return state if until > time.time() else NO_STATE

    def _drop_state(self, key: str) -> tuple[SessionState, float]:
        found = self._states.pop(key, (NO_STATE, 0.0))
        self._size -= found[0].size
        return found

    # --- changes ----------------------------------------------------------------------------------

    def publish(self, change: Change) -> None:
        """Tell nobody: `Changes` has told this process, and there is no other."""

    def subscribe(self, heard: Callable[[Change], object]) -> Callable[[], None]:
        """Never call the function: there is no other process."""
        return _nothing_to_end

    # --- time -------------------------------------------------------------------------------------

    def drop_expired(self) -> None:
        """Forget ends whose ids are not valid any more, and states that were kept long enough."""
        now = time.time()
        for owner, ends in list(self._by_owner.items()):
            self._drop_ends(ends, now)
            if not ends:
                del self._by_owner[owner]
        for key, (_, until) in list(self._states.items()):
            if until < now:
                self._drop_state(key)


def _nothing_to_end() -> None:
    """End nothing: no function is called."""
