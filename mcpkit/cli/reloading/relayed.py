"""What a server does differently when it serves behind a relay (`mcpkit.cli.reloading.reload`)."""

from __future__ import annotations

import os
import threading
import time
from typing import Final

__all__ = ["LIFELINE", "follow_relay"]

LIFELINE: Final = "MCPKIT_LIFELINE"
"""Names the descriptor of a pipe that is at its end when the relay is."""

_PATIENCE: Final = 5.0
"""Seconds that a server has to leave by itself, which it does when its stdin is at its end."""


def follow_relay() -> None:
    """See to it that this process ends when its relay has been killed, whatever it is doing.

    Does nothing in a process that was not started by one.
    """
    number = os.environ.pop(LIFELINE, None)
    if number is None:
        return
    line = int(number)
    os.set_inheritable(line, False)
    threading.Thread(target=_follow, args=(line,), name="mcpkit relay", daemon=True).start()


def _follow(line: int) -> None:
    os.read(line, 1)
    time.sleep(_PATIENCE)
    os._exit(1)
