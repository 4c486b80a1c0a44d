"""Watching an event loop: reports the code that blocks it."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Final

from mcpkit._concurrency.loop import Loop
from mcpkit._utils.logs import log

REPORTED: Final = 5
"""Seconds after which a loop that is blocked is reported."""

_FRAMES: Final = 16
"""The innermost frames of the stack that are logged."""


class LoopWatcher:
    """Counts the seconds in which an event loop has not run, in a thread, until it is closed.

    It counts instead of looking at a clock: a process that is suspended does not count.

    Args:
        loop: The event loop, which is running in this thread.
        on_alive: Functions to call every second in which the loop has run, in any thread.
    """

    def __init__(self, loop: Loop, on_alive: Sequence[Callable[[], object]]) -> None:
        self._loop = loop
        self._on_alive = on_alive
        self._watched = threading.get_ident()
        self._missed = 0
        self._closed = threading.Event()
        self._beat()
        self._tell()  # now: code that blocks at once may keep the thread from running
        threading.Thread(target=self._watch, name="mcpkit watcher", daemon=True).start()

    async def aclose(self) -> None:
        """End the thread."""
        self._closed.set()

    def _beat(self) -> None:
        self._missed = 0
        if not self._closed.is_set():
            self._loop.later(1, self._beat)

    def _tell(self) -> None:
        for each in self._on_alive:
            each()

    def _watch(self) -> None:
        while not self._closed.wait(1):
            self._missed += 1
            if self._missed <= 2:
                self._tell()
            elif self._missed == REPORTED:
                frame = sys._current_frames().get(self._watched)
                stack = "".join(traceback.format_stack(frame, _FRAMES)).rstrip()
                # Not as an argument, which would be cut off.
                log.error(f"the event loop has been blocked for {REPORTED} seconds, by:\n{stack}")
