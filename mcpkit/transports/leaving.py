"""The end of a process that has threads which nobody can stop."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Final, NoReturn

__all__ = ["leave_at_once"]

_EXIT_FUNCTIONS_S: Final = 0.5
"""Seconds that exit functions have."""


def leave_at_once(code: int) -> NoReturn:
    """End the process without waiting for threads, as the interpreter would.

    Functions registered with `atexit` are called, and have half a second; then stdout and stderr
    are flushed, as far as they can be.

    Args:
        code: The exit code.
    """
    # In a thread of its own, since an exit function may wait for one that never ends.
    goodbye = threading.Thread(target=atexit._run_exitfuncs, name="mcpkit exit", daemon=True)
    goodbye.start()
    goodbye.join(_EXIT_FUNCTIONS_S)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    os._exit(code)
