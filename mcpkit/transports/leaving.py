"""The end of a process: the signals for it, and threads that cannot be stopped."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from typing import Final, NoReturn

__all__ = ["exit_now", "stop_signals"]

_EXIT_FUNCTIONS_S: Final = 0.5
"""Seconds that exit functions have."""


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop a server in good order.

    SIGHUP, when a terminal or a connection to the machine is gone, is one of them unless this
    process has been started to ignore it, as by ``nohup``.
    """
    usual = (signal.SIGINT, signal.SIGTERM)
    if sys.platform == "win32" or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return usual
    return (*usual, signal.SIGHUP)


def exit_now(code: int) -> NoReturn:
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
