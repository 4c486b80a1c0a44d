"""Running an event loop."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

__all__ = ["run_loop"]

T = TypeVar("T")


def run_loop(main: Callable[..., Awaitable[T]], *args: object, backend: str = "asyncio") -> T:
    """Run a coroutine function in an event loop of its own, and return what it returns.

    Args:
        main: The function.
        args: Its arguments.
        backend: ``"asyncio"`` or ``"trio"``.

    Raises:
        KeyboardInterrupt: Ctrl-C has ended it. Before Python 3.11 that would be a CancelledError,
            from a task that nobody had cancelled.
    """
    import anyio

    if sys.version_info >= (3, 11):
        return anyio.run(main, *args, backend=backend)
    import asyncio

    try:
        return anyio.run(main, *args, backend=backend)
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
