"""An app in a process that another has started, for ``mcpkit run --workers`` and ``--reload``."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import threading
from multiprocessing.connection import Connection
from types import FrameType
from typing import Any, NamedTuple

from mcpkit._utils.logs import log_to_stderr
from mcpkit.cli._target import TargetError, load_app
from mcpkit.cli._terminal import note
from mcpkit.transports import stop_signals
from mcpkit.transports.stdio.redirect import never_block


class Order(NamedTuple):
    """The order for a process, which is all that it knows, because it is a new one.

    Args:
        target: As on the command line.
        flags: Of the server itself.
        options: Of the endpoint.
        loopback: True if the socket can be reached from this machine only.
        debug: True to show tracebacks, and requests.
        log_level: The least that is logged; None: as usual.
        renewed: True if the process is replaced when files change.
    """

    target: str
    flags: list[str]
    options: dict[str, Any]
    loopback: bool
    debug: bool
    log_level: str | None
    renewed: bool


def work(order: Order, bound: socket.socket, ready: Connection) -> None:
    """Serve until SIGTERM, or until the process ends that has started this one.

    Args:
        order: The app, and its options.
        bound: A listening socket.
        ready: Sent a byte once the app is served.

    Raises:
        SystemExit: With 2 if the app cannot be imported, 3 if it cannot be started; a message has
            said so.
    """
    # Ctrl-C and the end of a terminal reach every process of it; which of them end, and when, is
    # for the parent to say. A function, as what is merely ignored would be so in all that a
    # handler starts.
    of_terminals = [each for each in stop_signals() if each != signal.SIGTERM]
    for each in of_terminals:
        signal.signal(each, _pass)
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGHUP])
    never_block()
    threading.Thread(target=_follow_parent, daemon=True, name="mcpkit parent").start()
    # Two versions of a file may have the same size and be of the same second.
    sys.dont_write_bytecode = sys.dont_write_bytecode or order.renewed
    try:
        app = load_app(order.target, order.flags)
    except TargetError as error:
        note(str(error))
        raise SystemExit(2) from None
    log_to_stderr(order.log_level, debug=order.debug)

    from mcpkit.transports.http.server import serve_on

    def announce() -> None:
        ready.send_bytes(b"!")
        ready.close()

    serve_on(
        app.asgi(loopback=order.loopback, **order.options),
        bound,
        announce,
        numbers=[signal.SIGTERM],
        is_last=not order.renewed,
    )


def _pass(number: int, frame: FrameType | None) -> None:
    """Do nothing: the parent ends this process."""


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
