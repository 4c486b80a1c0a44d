"""The duty of a server behind a relay (`mcpkit.cli.reloading.reload`): to end with it."""

from __future__ import annotations

import os
import threading
import time
from typing import Final

__all__ = ["LIFELINE", "follow_relay"]

LIFELINE: Final = "MCPKIT_LIFELINE"
"""The variable with the descriptor of a pipe that is at its end when the relay has ended."""

_LEAVE_S: Final = 5.0
"""Seconds that a server has to leave by itself, as it does at the end of its stdin."""


def follow_relay() -> None:
    """End this process when its relay has been killed, whatever the process is doing.

    Do nothing in a process that was not started by a relay.
    """
    number = os.environ.pop(LIFELINE, None)
    if number is None:
        return
    line = int(number)
    os.set_inheritable(line, False)
    threading.Thread(target=_follow, args=(line,), name="mcpkit relay", daemon=True).start()


def _follow(line: int) -> None:
    os.read(line, 1)
    time.sleep(_LEAVE_S)
    os._exit(1)
