"""The transports by name, and the end of a process that serves one."""

from __future__ import annotations

import atexit
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from importlib import import_module
from typing import Any, Final, NamedTuple, NoReturn, Protocol

from mcpkit._server.server import Server
from mcpkit._utils.names import check_keywords, suggest

TRANSPORTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "stdio": ("mcpkit.transports.stdio.server", {}),
    "http": ("mcpkit.transports.http.server", {}),
    "sse": ("mcpkit.transports.http.server", {"sse": True}),
}
"""Name → module, and options that the transport is served with.

A module has ``run(served, **options)``, which serves until it is over, and ``serve_here`` of the
same parameters, which does so in the running event loop.
"""


class Address(NamedTuple):
    """The address at which a server over HTTP listens."""

    host: str = "127.0.0.1"
    port: int = 8000

    def check(self) -> None:
        """Raise `OSError` if there is no such port."""
        if not 0 <= self.port <= 65535:
            raise OSError(
                f"there is no port {self.port}; ports go from 0 (any that is free) to 65535"
            )


class Served(Protocol):
    """An app, as far as a transport needs it."""

    @property
    def name(self) -> str:
        """The name of the server."""
        ...

    def running(self) -> AbstractAsyncContextManager[Server]:
        """Enter the app's lifespan, for as long as something serves the app."""
        ...

    def asgi(self, *, loopback: bool | None = None, **options: Any) -> Any:
        """Return the app as an ASGI application.

        Args:
            loopback: True if it is reached through loopback addresses only; None if that is not
                known.
            options: Of `mcpkit.HttpOptions`.
        """
        ...


def load(name: str) -> tuple[Any, dict[str, Any]]:
    """Import the module of a transport, and return it with the transport's own options.

    Args:
        name: One of `TRANSPORTS`, or ``streamable-http``, as other libraries call ``http``.

    Raises:
        ValueError: There is no transport of this name.
    """
    name = "http" if name == "streamable-http" else name
    if name not in TRANSPORTS:
        raise ValueError(f"unknown transport {name!r}; {suggest('run(…)', name, TRANSPORTS)}")
    module, options = TRANSPORTS[name]
    return import_module(module), options


def check_options(call: str, serve: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Check the names of a transport's options.

    Raises:
        TypeError: `serve` does not take one of them; the message suggests the right name.
    """
    if options:
        from mcpkit.transports.http.options import HttpOptions

        known = [name for name in inspect.signature(serve).parameters if name != "served"]
        if "options" in known:
            known = [*known[:-1], *HttpOptions.__optional_keys__]
        check_keywords(call, options, known)


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
    """
    # In a thread of its own, since an exit function may wait for one that never ends.
    goodbye = threading.Thread(target=atexit._run_exitfuncs, name="mcpkit exit", daemon=True)
    goodbye.start()
    goodbye.join(0.5)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)
