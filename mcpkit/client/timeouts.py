"""Timeouts that are paused while the server waits for its client."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio


@dataclass(slots=True, eq=False)
class _Timeout:
    """A timeout that may be paused, by several at a time."""

    scope: anyio.CancelScope
    pauses: int = 0
    left: float = math.inf
    """Seconds that are left, while it is paused."""

    def pause(self) -> None:
        if not self.pauses:
            self.left = self.scope.deadline - anyio.current_time()
            self.scope.deadline = math.inf
        self.pauses += 1

    def resume(self) -> None:
        self.pauses -= 1
        if not self.pauses:
            self.scope.deadline = anyio.current_time() + self.left


class Timeouts:
    """The timeouts of a client.

    The seconds in which a user logs in, or a function of the client answers, do not count.
    """

    def __init__(self) -> None:
        self._running: set[_Timeout] = set()

    @contextmanager
    def limit(self, seconds: float | None, missing: str) -> Generator[None, None, None]:
        """Raise TimeoutError after these seconds; `missing` is the beginning of its text."""
        with anyio.move_on_after(seconds) as scope:
            timeout = _Timeout(scope)
            self._running.add(timeout)
            try:
                yield
            finally:
                self._running.discard(timeout)
        if scope.cancelled_caught:
            raise TimeoutError(f"{missing} within {seconds:g} seconds")

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Pause the timeouts that run."""
        paused = [*self._running]
        for each in paused:
            each.pause()
        try:
            yield
        finally:
            for each in paused:
                each.resume()
