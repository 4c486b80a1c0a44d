"""mcpkit's own server: uvicorn, its socket, its start, and its end when it is asked to stop."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, Final

import uvicorn
from anyio import CancelScope
from typing_extensions import Unpack

from mcpkit._utils.addresses import is_loopback_name
from mcpkit._utils.logs import get_logger, log
from mcpkit._utils.text import single_line
from mcpkit.transports import Address, Served, exit_now, stop_signals
from mcpkit.transports.http.options import HttpOptions, HttpSettings
from mcpkit.transports.http.uvicorn import connection_class
from mcpkit.transports.stdio.redirect import never_block

MARGIN: Final = 2
"""Seconds to end the rest after running requests had their time."""

_CLOSING: Final = 0.5
"""Seconds that an event loop has to close, and threads to end."""

_ACCEPTING: Final = 0.01
"""Seconds for an event loop to create protocols for the connections that it has accepted."""

_CANNOT_START: Final = 3
_BACKLOG: Final = 2048
_DEFAULT: Final = Address()
_DESCRIPTORS: Final = 65_536
_HOSTS: Final = "choose 127.0.0.1 for this machine alone, 0.0.0.0 for all that can reach it"


class Server(uvicorn.Server):
    """Uvicorn, with an end of its own: streams end first, and a second Ctrl-C ends at once.

    Args:
        announce: Called when it listens.
        numbers: The signals that stop it; None for all that there are, and an empty list if the
            event loop, and so the process, is the caller's.
        is_last: False if another server takes over the socket, with the connections that wait.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        announce: Callable[[], object] | None = None,
        numbers: Sequence[signal.Signals] | None = None,
        *,
        is_last: bool = True,
    ) -> None:
        super().__init__(config)
        self.signals: list[int] = []
        """The signals that it has received."""
        self._announce = announce
        self._is_last = is_last
        self._numbers = stop_signals() if numbers is None else numbers
        self._threads = set(threading.enumerate())
        self._watchdog: threading.Timer | None = None
        self._shut_down = False

    @property
    def code(self) -> int:
        """The exit code of the process."""
        if signal.SIGINT in self.signals:
            return 130
        return 0 if self.started or self.signals else _CANNOT_START

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until asked to stop."""
        await super().serve(sockets)
        if self.started and not self._shut_down:
            # Older versions of uvicorn just return if they are asked to stop while they start.
            await self.shutdown(sockets)
        if not self._numbers:
            return
        # An event loop does not close while a handler refuses to be cancelled, or waits for a
        # thread of its own.
        self._watchdog = threading.Timer(_CLOSING, exit_with_error, [self.code])
        self._watchdog.daemon = True
        self._watchdog.start()

    def wait_for_threads(self) -> None:
        """End the process if threads of handlers still run: the interpreter would wait for them."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        deadline = time.monotonic() + _CLOSING
        for thread in set(threading.enumerate()) - self._threads:
            if not thread.daemon:
                thread.join(max(deadline - time.monotonic(), 0))
                if thread.is_alive():
                    exit_with_error(self.code)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen."""
        await super().startup(sockets)
        if self.started and self._announce is not None:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End connections and the app's lifespan."""
        self._shut_down = True
        # Connections that were not accepted are reset when the socket closes for good.
        closed = sockets if self._is_last and sockets else ()
        accepted = [each for bound in closed for each in _accept_all(bound)]
        for server in self.servers:
            server.close()
        protocol: Any = self.config.http_protocol_class
        make = partial(
            protocol,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        loop = asyncio.get_running_loop()
        for each in accepted:
            with suppress(OSError):  # its client has disconnected
                await loop.connect_accepted_socket(make, each)
        # Those that the loop has accepted just now get their protocols, which have to be stopped.
        await asyncio.sleep(_ACCEPTING)
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle the signals; unlike uvicorn, do not send them to this process again later."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = [signal.signal(number, self.handle_exit) for number in self._numbers]
        try:
            yield
        finally:
            for number, found in zip(self._numbers, before, strict=True):
                signal.signal(number, found)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop: gracefully the first time, at once the second."""
        if self.signals and sig == signal.SIGINT:
            # Without waiting for threads, as the interpreter would.
            exit_now(130)
        self.signals.append(sig)
        self.should_exit = True


def _accept_all(bound: socket.socket) -> Iterator[socket.socket]:
    """Accept the connections that wait, without waiting for more."""
    bound.setblocking(False)
    with suppress(OSError):  # usually because there are no more
        while True:
            yield bound.accept()[0]


def exit_with_error(code: int) -> None:
    """End the process, although handlers still run in it."""
    log.warning("exiting while handlers are still running")
    exit_now(code)


def is_loopback(host: str) -> bool:
    """Return True if an address to listen on can be reached from this machine only."""
    try:
        host = str(socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)[0][4][0])
    except OSError:
        pass  # it is a name
    return is_loopback_name(host)


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket on an address of this machine, or a name of one.

    Raises:
        OSError: The address cannot be listened on; the message says what to do.
    """
    Address(host, port).check()
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError):
        found = []
    if not host or not found:
        raise OSError(f"the host {host!r} is not known here; {_HOSTS}")
    family, _, _, _, address = found[0]
    # "::" stands for all addresses.
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server(address, family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        why = {
            errno.EADDRINUSE: f"port {port} is in use; choose another, or 0 for any that is free",
            errno.EACCES: f"port {port} needs privileges; choose one above 1023",
            errno.EADDRNOTAVAIL: f"{host} is not an address of this machine; {_HOSTS}",
        }
        raise OSError(
            why.get(error.errno or 0, f"cannot listen on {host} port {port}: {error.strerror}")
        ) from None


def where(bound: socket.socket, host: str, path: str) -> str:
    """Return the URL at which clients reach the endpoint, and that there are more, if there are."""
    port = bound.getsockname()[1]
    anywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}
    name = anywhere.get(host, host).replace("%", "%25")  # RFC 6874
    url = f"http://[{name}]:{port}{path}" if ":" in name else f"http://{name}:{port}{path}"
    return f"{url} and every other address of this machine" if host in anywhere else url


def _open(
    served: Served, host: str, port: int, options: HttpOptions
) -> tuple[Any, socket.socket, str]:
    """Return the application of an app, the socket that it is served on, and its URL."""
    application = served.asgi(loopback=is_loopback(host), **options)
    bound = bind(host, port)
    warn_if_open(application.settings, host)
    return application, bound, where(bound, host, application.settings.path)


def warn_if_open(settings: HttpSettings, host: str) -> None:
    """Warn if other machines can reach an endpoint without authentication."""
    if not is_loopback(host) and settings.auth is None and settings.principal is None:
        log.warning(
            "the server accepts calls from anyone who can reach it: the app has neither auth= nor "
            "principal=; add one, or listen on 127.0.0.1 to accept calls from this machine only"
        )


def run(
    served: Served,
    *,
    host: str = _DEFAULT.host,
    port: int = _DEFAULT.port,
    **options: Unpack[HttpOptions],
) -> None:
    """Serve an app over HTTP, with uvicorn, until SIGTERM or SIGINT.

    Args:
        host: The address to listen on; loopback addresses answer to loopback names only.
        port: The port; 0 takes any that is free.
        served, options: The app, and the options of its endpoint.

    Raises:
        OSError: The address is in use, or not one of this machine; the message says which.
        SystemExit: With 130 after SIGINT.
    """
    never_block()
    application, bound, url = _open(served, host, port, options)

    def announce() -> None:
        sys.stderr.write(f"{single_line(served.name)} listens on {url}  (Ctrl-C stops it)\n")
        sys.stderr.flush()

    serve_on(application, bound, announce)


async def serve_here(
    served: Served,
    *,
    host: str = _DEFAULT.host,
    port: int = _DEFAULT.port,
    **options: Unpack[HttpOptions],
) -> None:
    """Serve an app as `run` does, in the running event loop, until the task is cancelled.

    Raises:
        OSError: The address is in use, or not one of this machine; the message says which.
        RuntimeError: The app could not be started; the log says why.
    """
    application, bound, url = _open(served, host, port, options)
    announce = partial(log.info, "%s listens on %s", served.name, url)
    server = Server(_config_for(application), announce, [])

    async def serve() -> None:
        with suppress(SystemExit):  # of uvicorn, if the app cannot be started
            await server.serve([bound])

    serving = asyncio.ensure_future(serve())
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        with CancelScope(shield=True):
            await serving
        raise
    finally:
        bound.close()
    if not server.started:
        raise RuntimeError("the server could not begin; its log says why")


def serve_on(
    application: Any,
    bound: socket.socket,
    announce: Callable[[], object],
    numbers: Sequence[signal.Signals] | None = None,
    *,
    is_last: bool = True,
) -> None:
    """Serve an application on a socket that listens, and end the process as the signal says.

    Args:
        application: The ASGI application of an app.
        bound, announce, numbers, is_last: The socket, and as for `Server`.

    Raises:
        SystemExit: With 130 after SIGINT, 3 if the app could not be started.
    """
    if sys.platform != "win32":
        import resource

        # As many file descriptors as possible, so that the endpoint's own limits apply first.
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
        if soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    server = Server(_config_for(application), announce, numbers, is_last=is_last)
    try:
        server.run([bound])
    except KeyboardInterrupt:  # on Windows, and before the server listens
        server.signals.append(signal.SIGINT)
    server.wait_for_threads()
    if server.code:
        raise SystemExit(server.code)


def _remove_query(record: logging.LogRecord) -> bool:
    """Leave out the query of a logged request, which may have codes and tokens (SEC-13)."""
    if isinstance(record.args, tuple) and len(record.args) == 5:
        client, method, path, *rest = record.args
        record.args = (client, method, str(path).partition("?")[0], *rest)
    return True


def _config_for(application: Any) -> uvicorn.Config:
    debug = log.isEnabledFor(logging.DEBUG)
    limits = application.settings.limits
    get_logger("uvicorn.access").addFilter(_remove_query)
    return uvicorn.Config(
        application,
        log_config=None,  # the program has configured logging, or has not
        log_level="info" if debug else "warning",
        access_log=debug,
        ws="none",
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=math.ceil(limits.grace) + MARGIN,
        backlog=_BACKLOG,
        # Uvicorn logs the requests that it passes to the application.
        http=connection_class(limits, {} if debug else application.shortcuts),
    )
