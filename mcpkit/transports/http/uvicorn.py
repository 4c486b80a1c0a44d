"""The connection class that runs inside uvicorn: bounds on slow clients, and a shortcut past ASGI.

Uvicorn waits without a limit for the head of a request, for the rest of a body that was refused,
and for a client that does not read; and with its fast parser it accepts heads of any length, and
does not notice that the client of a pipelined request has disconnected.

Most requests arrive whole and are answered without a wait. Those to the endpoint are started where
they arrive, and a response that is ready then is written then: more than half of uvicorn's work for
a request is to create a task and to turn ASGI messages into bytes. A request that has to wait
continues in a task, as every request does elsewhere.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import unquote

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from mcpkit._utils.logs import log
from mcpkit.limits import Limits
from mcpkit.transports.http.headers import strip_values
from mcpkit.transports.http.requests import STARTED, OpenRequest, Shortcut

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Base
else:
    Base = object  # joined with uvicorn's class when a server starts

MAX_HEAD: Final = 64 * 1024
"""Bytes of a request line and headers, or of trailers: as many as h11 accepts."""

MAX_PIPELINED: Final = 1000
"""Requests that a client may send before the first of them is answered."""

_LAST_REQUEST: Final = 0.05
"""Seconds for a request to arrive that is on its way when the server is asked to stop."""

_LAST_WORDS: Final = 0.5
"""Seconds to read the response to a request that has used up its grace."""

_STARTS_AT_ONCE: Final = sys.version_info >= (3, 11)
"""True if the first step of a handler can be taken where the request arrives."""

_REFUSED: Final = b"The headers are too long"
_TOO_LONG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_REFUSED), _REFUSED)
)
_FAILED: Final = (
    b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)
_STATUS_LINES: Final = {each.value: b"%d %b" % (each, each.phrase.encode()) for each in HTTPStatus}

_USED: Final = (
    "app client cycle expect_100_continue flow headers loop parser pipeline root_path scope "
    "server_state timeout_keep_alive timeout_keep_alive_task transport"
)
"""Attributes of uvicorn's connections that `Connection` relies on; uvicorn documents none."""

_USED_OF_CYCLE: Final = {"disconnected", "keep_alive", "message_event", "response_complete"}


def connection_class(limits: Limits, shortcuts: Mapping[bytes, Shortcut]) -> Any:
    """Return the value of uvicorn's option ``http``: a `Connection`, or uvicorn's own class.

    If this version of uvicorn lacks an attribute that `Connection` relies on, uvicorn serves by
    itself, and the log says so. The shortcuts are the functions that start POSTs, by their URLs, as
    in the first line of a request.
    """
    plain: Any
    try:
        from uvicorn.protocols.http import httptools_impl as fast
    except ImportError:
        from uvicorn.protocols.http import h11_impl as pure

        plain = pure.H11Protocol
    else:
        plain = fast.HttpToolsProtocol
        missing = set(_USED.split()).difference(plain.__init__.__code__.co_names, dir(plain))
        missing |= _USED_OF_CYCLE.difference(fast.RequestResponseCycle.__init__.__code__.co_names)
        if missing:
            import uvicorn

            log.warning(
                "uvicorn %s is not supported (no %s): serving without limits on slow clients and "
                "long headers, and without the fast path for requests that need not wait",
                uvicorn.__version__,
                ", ".join(sorted(missing)),
            )
            return plain
    usable: Mapping[bytes, Shortcut] = shortcuts if _STARTS_AT_ONCE else {}
    members: dict[str, object] = {"limits": limits, "shortcuts": usable}
    return type("BoundedConnection", (Connection, plain), members)


async def _nothing(scope: Any, receive: Any, send: Any) -> None:
    """Do nothing: the application behind a middleware that is called for the scope alone."""
    del scope, receive, send


@lru_cache(maxsize=64)
def _address(root_path: str, url: bytes) -> Mapping[str, object]:
    """Return the members that uvicorn adds to the scope of a POST when it creates its task."""
    return {
        "method": "POST",
        "path": root_path + unquote(url.decode("ascii")),
        "raw_path": root_path.encode("ascii") + url,
        "query_string": b"",
    }


class Connection(Base):
    """A client's connection.

    It is closed if its client does not write or read in time. It refuses heads and trailers that
    do not end, keeps trailers out of the headers (RFC 9110, 6.5.1) and blanks out of their values
    (5.5), and notifies every pipelined request that the client has disconnected. Requests that
    arrive whole are started, and answered if the response is ready.

    On h11, whose own checks of heads are enough, the methods that httptools calls are never called,
    and every request continues in a task.
    """

    limits: Limits
    shortcuts: Mapping[bytes, Shortcut]

    stopping = False
    """True once the server is asked to stop."""

    _answered = False
    """True if a request in the data that arrives just now was answered at once."""

    _in_head = False
    _in_message = False
    _moved = False
    """True if the data that arrives just now has ended a head or a message, or is of a body."""
    _field_bytes = 0
    """Bytes of a head, or of what follows a part of a body, that have arrived so far."""
    _earlier: Sequence[Any] = ()
    """Pipelined requests that are still served, before the last one."""
    _held: list[bytes] | None = None
    """The body, as far as it has arrived, of a request that may take the shortcut."""
    _headers_of: object = None
    _start = b""
    _broken: str | None = None
    """What is wrong with the HTTP behind requests that are still to be answered."""
    _quiet_since: float | None = None
    """The time of a response after which nothing has arrived."""

    _proxy: Any = None
    """Uvicorn's middleware for headers of proxies, in front of nothing, if the peer is trusted."""

    _unwritten = 0
    _read_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _silence_timer: asyncio.TimerHandle | None = None
    _stop_timers: Sequence[asyncio.TimerHandle] = ()

    def connection_made(self, transport: Any) -> None:
        """Start to wait for the first head."""
        super().connection_made(transport)
        self._read_timer = self.loop.call_later(self.limits.body_timeout, self._close_slow)
        client: Any = self.client
        proxy = cast("Any", self.app)  # pyright: ignore[reportUnknownMemberType]
        is_proxied = isinstance(proxy, ProxyHeadersMiddleware) and client
        if is_proxied and client[0] in proxy.trusted_hosts:
            self._proxy = copy(proxy)
            self._proxy.app = _nothing

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers, and notify each request that its client has disconnected."""
        super().connection_lost(exc)
        for timer in (
            self._read_timer,
            self._write_timer,
            self._silence_timer,
            self.timeout_keep_alive_task,
            *self._stop_timers,
        ):
            if timer is not None:
                timer.cancel()
        pipeline: Any = getattr(self, "pipeline", None)  # h11 has none
        if pipeline:
            pipeline.clear()
        for cycle in self._earlier:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._earlier = ()

    # --- what the client sends --------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        if self._broken is not None:
            return
        before = self.cycle
        self._answered = self._moved = False
        self._quiet_since = None
        super().data_received(data)
        if self._held is not None:
            self._continue(None)  # there is more to come
        cycle: Any = self.cycle
        if self._moved:
            self._field_bytes = 0
        elif self._in_message and not self.transport.is_closing():
            self._field_bytes += len(data)
            if self._field_bytes > MAX_HEAD:  # a head, or trailers, do not end
                if self._in_head and (cycle is None or cycle.response_complete):
                    self.transport.write(_TOO_LONG)
                self.transport.close()
        if self.stopping and cycle is not None:
            cycle.keep_alive = False
        if self._answered or cycle is not before:
            if self._read_timer is not None:
                self._read_timer.cancel()
                self._read_timer = None
        elif self._read_timer is None and (before is None or before.response_complete):
            # Uvicorn has just cancelled its own timer, which is for silence.
            self._read_timer = self.loop.call_later(self.limits.body_timeout, self._close_slow)
        if self.transport.is_closing():
            self._watch_output()

    def _close_slow(self) -> None:
        self.transport.close()
        self._watch_output()

    def on_message_begin(self) -> None:
        """Start to count the bytes of a head."""
        self._in_head = self._in_message = True
        self._field_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End the headers: hold back a request that may take the shortcut, and pass on others."""
        self._in_head = False
        self._moved = True
        if strip_values(self.headers) and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers
        ):
            # Uvicorn has compared it with its blanks. Elsewhere they do no harm.
            self.expect_100_continue = True
        before: Any = self.cycle
        parser: Any = self.parser
        is_idle = before is None or before.response_complete
        if (
            self.url in self.shortcuts
            and is_idle
            and not self.expect_100_continue
            and parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not parser.should_upgrade()
            and not self.flow.write_paused
            and not self.transport.is_closing()
            and not self.stopping
        ):
            self._held = []
        else:
            self._quiet_since = None  # of a response to the same piece
            super().on_headers_complete()
        if self.cycle is not before or not parser.should_upgrade():
            self.headers = []  # for trailers: nothing looks for headers there
        if not is_idle:
            self._earlier = [*self._earlier, before]
            self._earlier = [each for each in self._earlier if not each.response_complete]
        if len(self.pipeline) > MAX_PIPELINED:
            # Uvicorn stops reading for each, and continues when an earlier one is answered.
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        """Hold back a part of a body, or pass it on."""
        self._moved = True
        if self._held is None:
            super().on_body(body)
        else:
            self._held.append(body)

    def on_message_complete(self) -> None:
        """Start a request that has arrived whole, and answer it if the response is ready."""
        self._in_message = False
        self._moved = True
        held = self._held
        if held is None:
            super().on_message_complete()
            return
        scope: Any = self.scope
        scope.update(_address(self.root_path, self.url))
        try:
            if self._proxy is not None and any(
                name.startswith(b"x-forwarded-") for name, _ in scope["headers"]
            ):
                with suppress(StopIteration):  # it waits for nothing
                    self._proxy(scope, None, None).send(None)
            answer = self.shortcuts[self.url](scope, b"".join(held), self.loop)
        except BaseException:
            # The parser would blame the client; and part of the work may be done.
            log.exception("a request could not be answered")
            self._held = None
            self.transport.write(_FAILED)
            self.transport.close()
            return
        if isinstance(answer, tuple):
            self._held = None
            self._respond(*answer)
        else:
            self._continue(answer)
            super().on_message_complete()

    def _continue(self, started: OpenRequest | None) -> None:
        """Serve a request that was held back in a task, as far as it has arrived."""
        held, self._held = self._held or (), None
        if started is not None:
            scope: Any = self.scope
            scope[STARTED] = started
        self._quiet_since = None
        super().on_headers_complete()
        for each in held:
            super().on_body(each)

    # --- what the client reads --------------------------------------------------------------------

    def _respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        state = self.server_state
        if state.default_headers is not self._headers_of:
            # Uvicorn makes new ones every second, for the date.
            self._headers_of = state.default_headers
            self._start = b"".join(b"%b: %b\r\n" % each for each in state.default_headers)
        more = b"content-type: application/json\r\n" if body else b""
        for each in headers:
            more += b"%b: %b\r\n" % each
        self.transport.write(
            b"HTTP/1.1 %b\r\n%b%bcontent-length: %d\r\n\r\n%b"
            % (_STATUS_LINES[status], self._start, more, len(body), body)
        )
        self._answered = True
        state.total_requests += 1
        self._quiet_since = self.loop.time()
        if self._silence_timer is None:
            # It is not moved with every response: that would cost more than to write one.
            self._silence_timer = self.loop.call_later(self.timeout_keep_alive, self._end_silence)

    def _end_silence(self) -> None:
        """Close the connection if its client has sent nothing since the last response."""
        self._silence_timer = None
        if self._quiet_since is None:
            return  # a timer is set with the response to what has arrived
        left = self._quiet_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._silence_timer = self.loop.call_later(left, self._end_silence)
        else:
            self.timeout_keep_alive_handler()

    def send_400_response(self, msg: str) -> None:
        """Refuse broken HTTP, after the responses to the whole requests before it."""
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete or (self._in_message and not self._in_head):
            super().send_400_response(msg)
        else:
            self._broken = msg

    def on_response_complete(self) -> None:
        """Watch the client read, if the connection closes after a response."""
        super().on_response_complete()
        cycle: Any = self.cycle
        is_last = cycle.response_complete and not self.transport.is_closing()
        if self._broken is not None and is_last:
            super().send_400_response(self._broken)
        if self.transport.is_closing():
            self._watch_output()

    def timeout_keep_alive_handler(self) -> None:
        """Watch the client read, after a silence that closes the connection."""
        super().timeout_keep_alive_handler()
        self._watch_output()

    def shutdown(self) -> None:
        """Give the last request and the last responses their time: the server is asked to stop."""
        self.stopping = True
        if self.cycle is not None:
            self.cycle.keep_alive = False
        self._stop_timers = (
            # To close what has not been read would reset the client's connection.
            self.loop.call_later(_LAST_REQUEST, super().shutdown),
            # The last responses are written when the grace ends; a client that has not read them
            # a little later does not read.
            self.loop.call_later(self.limits.grace + _LAST_WORDS, self.transport.abort),
        )

    def pause_writing(self) -> None:
        """Watch the client read: more is written than it has taken."""
        super().pause_writing()
        self._watch_output()

    def resume_writing(self) -> None:
        """Stop watching: the client has taken enough."""
        super().resume_writing()
        if self._write_timer is not None and not self.transport.is_closing():
            self._write_timer.cancel()
            self._write_timer = None

    def _watch_output(self) -> None:
        if self._write_timer is None:
            self._unwritten = self.transport.get_write_buffer_size()
            if self._unwritten:
                self._write_timer = self.loop.call_later(
                    self.limits.write_timeout, self._check_output
                )

    def _check_output(self) -> None:
        self._write_timer = None
        if self.transport.get_write_buffer_size() < self._unwritten:
            self._watch_output()
        else:
            self.transport.abort()
