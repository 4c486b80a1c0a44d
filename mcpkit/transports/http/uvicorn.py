"""Connections under uvicorn, with bounds of our own and a shortcut past ASGI.

Uvicorn waits for ever for the head of a request, for the rest of a body that has been refused, and
for a client that does not read what was written; and with its fast parser it takes heads of any
length, and lets requests go on for ever whose client has sent another one before it left.

Most requests arrive whole, and are answered without a wait. Those to an endpoint of ours are begun
where they arrive, and what is ready then is written then: more than half of what uvicorn does for a
request is to make a task for it, and to turn the messages between the two into bytes. What has to
wait goes on in a task, as every request does elsewhere.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias
from urllib.parse import quote, unquote

from mcpkit._server.server import log
from mcpkit.http import Scope
from mcpkit.transports.http.uvicorn_internals import Internals, Needs

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Served

    from mcpkit.transports.http.exchange import Exchange
else:
    Served = object  # whichever of its protocols uvicorn can use

__all__ = ["BEGUN", "Shortcut", "bounded", "strip_values"]

BEGUN: Final = "mcpkit.begun"
"""The member of a scope that holds the exchange that a shortcut has begun."""

_BLANKS: Final = b" \t"
"""May stand around the value of a header (RFC 9110, 5.6.3)."""

_LONGEST_HEAD: Final = 64 * 1024
"""Bytes of a request line and headers, or of trailers: as many as h11 takes."""

_MOST_WAITING: Final = 1000
"""Requests that a client may send before the first of them is answered."""

_LAST_REQUEST: Final = 0.05
"""Seconds for a request to arrive that is on its way when the server is told to stop."""

_LAST_WORDS: Final = 0.5
"""Seconds to read the answer to a request that has used up its grace."""

_BEGINS_AT_ONCE: Final = sys.version_info >= (3, 11)
"""True if the first step of a handler can be taken where it is begun."""

_REFUSED: Final = b"The headers are too long"
_TOO_LONG: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_REFUSED), _REFUSED)
)

_STATUS_LINES: Final = {each.value: b"%d %b" % (each, each.phrase.encode()) for each in HTTPStatus}

_FAILED: Final = (
    b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
)


Answered: TypeAlias = tuple[int, Sequence[tuple[bytes, bytes]], bytes]
"""A response that is ready.

It is the status; headers in addition to those of every response, and those of its body; and the
body, which is JSON, or empty if there is none.
"""


Shortcut: TypeAlias = Callable[
    [Scope, bytes, asyncio.AbstractEventLoop], "Answered | Exchange | None"
]
"""Begins a POST that has arrived whole.

Given its scope, its body and the running event loop, it returns the answer; or the exchange that
has begun, for the application to find in the scope under `BEGUN`; or None if nothing was done.
"""


def strip_values(headers: list[tuple[bytes, bytes]]) -> bool:
    """Remove the blanks around the values of headers, in their list; there are hardly ever any.

    Returns:
        True if there were some.
    """
    for _, value in headers:
        if value.strip(_BLANKS) is not value:
            headers[:] = [(name, value.strip(_BLANKS)) for name, value in headers]
            return True
    return False


def bounded(
    *,
    read_timeout: float,
    write_timeout: float,
    grace: float,
    shortcuts: Mapping[bytes, Shortcut] | None = None,
) -> type[asyncio.Protocol] | Literal["auto"]:
    """Return the protocol that uvicorn would choose, with bounds.

    A bound, or the shortcut, is left out if uvicorn lacks what it relies on; the log says so.

    Args:
        read_timeout: Seconds that the head of a request may take to arrive, and the rest of a
            request that was answered before all of it had.
        write_timeout: Seconds that a client may take nothing of what was written to it.
        grace: Seconds that a request may go on when the server is told to stop.
        shortcuts: The functions that begin POSTs, by their URLs, as in the first line of a
            request. They are taken where that is possible, with uvicorn's fast parser.
    """
    base, parts = _choose(shortcuts is not None and _BEGINS_AT_ONCE)
    if base is None:
        _tell_missing(["its protocols"], parts)
        return "auto"
    internals = Internals(base)
    missing = {part: internals.missing(part.needs) for part in parts}
    if any(missing.values()):
        names = dict.fromkeys(name for each in missing.values() for name in each)
        _tell_missing(names, [part for part in parts if missing[part]])
    members = {
        "read_timeout": read_timeout,
        "write_timeout": write_timeout,
        "grace": grace,
        "shortcuts": shortcuts,
    }
    there = [part for part in parts if not missing[part]]
    return type("BoundedProtocol", (*there, base), members)


def _choose(shortcut: bool) -> tuple[type[Any] | None, Sequence[type[_Part]]]:
    """Return the class that uvicorn would choose, if it can be found, and the parts that fit it."""
    quick = (_Quick,) if shortcut else ()
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

        return HttpToolsProtocol, (_Patient, _Strict, *quick)
    except ImportError:
        pass
    try:
        from uvicorn.protocols.http.h11_impl import H11Protocol

        return H11Protocol, (_Patient,)
    except ImportError:
        return None, (_Patient,)


def _tell_missing(names: Iterable[str], parts: Iterable[type[_Part]]) -> None:
    import uvicorn

    log.warning(
        "uvicorn %s lacks %s: serving without %s",
        uvicorn.__version__,
        ", ".join(names),
        " and without ".join(part.needs.gives for part in parts),
    )


@lru_cache(maxsize=64)
def _address(root_path: str, url: bytes) -> Mapping[str, object]:
    """Return what uvicorn adds to the scope of a POST when that goes on as a task.

    Args:
        root_path: The path that the server itself is at.
        url: Of a shortcut.
    """
    return {
        "method": "POST",
        "path": root_path + unquote(url.decode("ascii")),
        "raw_path": root_path.encode("ascii") + url,
        "query_string": b"",
    }


@lru_cache(maxsize=8)
def _alone(app: Any) -> Any:
    """Return what uvicorn takes the headers of proxies with, in front of nothing.

    Args:
        app: That in front of the application; None if none is.
    """
    from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

    if not isinstance(app, ProxyHeadersMiddleware):
        return None

    async def nothing(scope: Any, receive: Any, send: Any) -> None:
        del scope, receive, send

    alone: Any = copy(app)
    alone.app = nothing
    return alone


class _Part(Served):
    """A part of a protocol that is left out if uvicorn lacks what it relies on."""

    needs: ClassVar[Needs]


class _Patient(_Part):
    """A connection that is dropped if its client does not write or read in time."""

    needs = Needs(
        gives="bounds on the time that clients may take",
        methods={
            "connection_made": 1,
            "connection_lost": 1,
            "data_received": 1,
            "on_response_complete": 0,
            "timeout_keep_alive_handler": 0,
            "shutdown": 0,
            "pause_writing": 0,
            "resume_writing": 0,
        },
        attributes=(
            "cycle.keep_alive",
            "cycle.response_complete",
            "loop",
            "timeout_keep_alive_task",
            "transport",
        ),
    )
    read_timeout: float
    write_timeout: float
    grace: float
    _reading: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None
    _closing: asyncio.TimerHandle | None = None
    _ending: asyncio.TimerHandle | None = None
    _unwritten = 0
    leaving = False
    """True once the server is told to stop."""

    answered = False
    """True if a request in the data that arrives just now was answered at once."""

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first head: a client has connected."""
        super().connection_made(transport)
        self._reading = self.loop.call_later(self.read_timeout, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all timers: the client has gone, or was dropped."""
        super().connection_lost(exc)
        for timer in (
            self._reading,
            self._writing,
            self._closing,
            self._ending,
            self.timeout_keep_alive_task,
        ):
            if timer is not None:
                timer.cancel()

    # --- what the client sends --------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        before = self.cycle
        self.answered = False
        super().data_received(data)
        if self.leaving and self.cycle is not None:
            self.cycle.keep_alive = False
        if self.answered or self.cycle is not before:
            if self._reading is not None:
                self._reading.cancel()
                self._reading = None
        elif self._reading is None and (before is None or before.response_complete):
            # Uvicorn has just forgotten its own timer, which is for silence.
            self._reading = self.loop.call_later(self.read_timeout, self._give_up)
        if self.transport.is_closing():
            self._watch_output()

    def _give_up(self) -> None:
        self.transport.close()
        self._watch_output()

    # --- what the client reads --------------------------------------------------------------------

    def on_response_complete(self) -> None:
        """Watch the client read, if the connection closes after an answer."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_output()

    def timeout_keep_alive_handler(self) -> None:
        """Watch the client read, after a silence that closes the connection."""
        super().timeout_keep_alive_handler()
        self._watch_output()

    def shutdown(self) -> None:
        """Give the last request and the last answers their time: the server is told to stop."""
        self.leaving = True
        if self.cycle is not None:
            self.cycle.keep_alive = False
        # To close what has not been read would reset the connection of whoever has sent it.
        self._closing = self.loop.call_later(_LAST_REQUEST, super().shutdown)
        # The last answers are written when the grace ends; whoever has not read them a little later
        # does not read.
        self._ending = self.loop.call_later(self.grace + _LAST_WORDS, self.transport.abort)

    def pause_writing(self) -> None:
        """Watch the client read: more is written than it has taken."""
        super().pause_writing()
        self._watch_output()

    def resume_writing(self) -> None:
        """Watch no more: the client has taken enough."""
        super().resume_writing()
        if self._writing is not None and not self.transport.is_closing():
            self._writing.cancel()
            self._writing = None

    def _watch_output(self) -> None:
        if self._writing is None:
            self._unwritten = self.transport.get_write_buffer_size()
            if self._unwritten:
                self._writing = self.loop.call_later(self.write_timeout, self._look_at_output)

    def _look_at_output(self) -> None:
        self._writing = None
        if self.transport.get_write_buffer_size() < self._unwritten:
            self._watch_output()
        else:
            self.transport.abort()


class _Strict(_Part):
    """The checks that uvicorn's h11 protocol has and its fast one lacks.

    It refuses heads and trailers that do not end, keeps trailers out of the headers (RFC 9110,
    6.5.1) and blanks out of their values (5.5), and tells each of several requests that were sent
    at once that the client has gone, where the fast one tells the last.
    """

    needs = Needs(
        gives="bounds on headers and on requests that are sent at once",
        methods={
            "on_message_begin": 0,
            "on_headers_complete": 0,
            "on_body": 1,
            "on_message_complete": 0,
            "connection_lost": 1,
            "data_received": 1,
        },
        attributes=(
            "cycle.response_complete",
            "cycle.disconnected",
            "cycle.message_event.set",
            "headers",
            "parser.should_upgrade",
            "pipeline.clear",
            "transport",
        ),
    )
    _in_head = False
    _in_message = False
    _moved = False
    """True if the data that arrives just now has ended a head or a message, or is of a body."""

    _fields = 0
    """Bytes of a head, or of what follows a part of a body, that have arrived so far."""

    _earlier: Sequence[Any] = ()

    def on_message_begin(self) -> None:
        """Begin to count the bytes of a head."""
        self._in_head = self._in_message = True
        self._fields = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """End the headers, and note an earlier request that is still served."""
        self._in_head = False
        self._moved = True
        if strip_values(self.headers) and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers
        ):
            # Uvicorn has looked at it with its blanks. Elsewhere it is of no use, and does no harm.
            self.expect_100_continue = True
        before: Any = self.cycle
        parser: Any = self.parser
        super().on_headers_complete()
        if self.cycle is not before or not parser.should_upgrade():
            # Trailers go here: whoever checks and sets headers does not look there.
            self.headers = []
        if before is not None and not before.response_complete:
            earlier = (*self._earlier, before)
            self._earlier = [each for each in earlier if not each.response_complete]
        if len(self.pipeline) > _MOST_WAITING:
            # Uvicorn stops reading for each, and goes on when an earlier one is answered.
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that a request has arrived whole."""
        self._in_message = False
        self._moved = True
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell each request that its client has gone, or was dropped."""
        super().connection_lost(exc)
        self.pipeline.clear()
        for cycle in self._earlier:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        self._earlier = ()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        self._moved = False
        super().data_received(data)
        if self._moved:
            self._fields = 0
        elif self._in_message and not self.transport.is_closing():
            self._fields += len(data)
            if self._fields > _LONGEST_HEAD:
                if self._in_head and (self.cycle is None or self.cycle.response_complete):
                    self.transport.write(_TOO_LONG)
                self.transport.close()


class _Quick(_Part):
    """A connection on which requests that arrive whole are begun, and answered if that is ready."""

    needs = Needs(
        gives="the shortcut for requests that need not wait",
        methods={
            "connection_made": 1,
            "connection_lost": 1,
            "data_received": 1,
            "on_headers_complete": 0,
            "on_body": 1,
            "on_message_complete": 0,
            "timeout_keep_alive_handler": 0,
        },
        attributes=(
            "access_log",
            "access_logger.info",
            "app",
            "client",
            "cycle.response_complete",
            "expect_100_continue",
            "flow.write_paused",
            "loop",
            "parser.get_http_version",
            "parser.get_method",
            "parser.should_keep_alive",
            "parser.should_upgrade",
            "root_path",
            "scope",
            "server_state.default_headers",
            "server_state.total_requests",
            "timeout_keep_alive",
            "transport",
            "url",
        ),
    )
    shortcuts: Mapping[bytes, Shortcut]
    answered = leaving = False  # without the part that looks after them
    _held: list[bytes] | None = None
    """The body, as far as it has arrived, of a request that may be begun here."""

    _headers_of: object = None
    _start = b""
    _quiet_since: float | None = None
    """The time of an answer after which nothing has arrived."""

    _silence: asyncio.TimerHandle | None = None
    _proxy: Any = None
    """Takes the address of a client from what a proxy says, if one that is believed is at the other
    end."""

    def connection_made(self, transport: Any) -> None:
        """Look who is at the other end."""
        super().connection_made(transport)
        us: Any = self
        middleware = _alone(us.app)
        host = us.client[0] if us.client else None
        if middleware is not None and host in middleware.trusted_hosts:
            self._proxy = middleware

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for no further request: the client has gone, or was dropped."""
        super().connection_lost(exc)
        if self._silence is not None:
            self._silence.cancel()

    def data_received(self, data: bytes) -> None:
        """Take what has arrived."""
        self._quiet_since = None
        super().data_received(data)
        if self._held is not None:
            self._go_on(None)  # there is more to come

    def on_headers_complete(self) -> None:
        """Hold a request back that may be begun here, and pass on any other."""
        cycle: Any = self.cycle
        parser: Any = self.parser
        if (
            self.url in self.shortcuts
            and (cycle is None or cycle.response_complete)
            and not self.expect_100_continue
            and parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not parser.should_upgrade()
            and not self.flow.write_paused
            and not self.transport.is_closing()
            and not self.leaving
        ):
            self._held = []
        else:
            self._quiet_since = None  # of an answer to the same piece
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Hold a part of a body back, or pass it on."""
        if self._held is None:
            super().on_body(body)
        else:
            self._held.append(body)

    def on_message_complete(self) -> None:
        """Begin a request that has arrived whole, and answer it if that is ready."""
        held = self._held
        if held is None:
            super().on_message_complete()
            return
        body = held[0] if len(held) == 1 else b"".join(held)
        scope: Any = self.scope
        scope.update(_address(self.root_path, self.url))
        try:
            if self._proxy is not None:
                self._believe(scope)
            answer = self.shortcuts[self.url](scope, body, self.loop)
        except BaseException:
            # The parser would blame the client; and who knows how much has been done.
            log.exception("a request could not be answered")
            self._held = None
            self.transport.write(_FAILED)
            self.transport.close()
            return
        if isinstance(answer, tuple):
            self._held = None
            self._write(*answer)
        else:
            self._go_on(answer)
            super().on_message_complete()

    def _believe(self, scope: Any) -> None:
        """Take from the headers of a proxy what uvicorn takes in front of the application."""
        for name, _ in scope["headers"]:
            if name.startswith(b"x-forwarded-"):
                taking = self._proxy(scope, None, None)
                with suppress(StopIteration):  # it waits for nothing
                    taking.send(None)
                return

    def _go_on(self, begun: Exchange | None) -> None:
        """Serve a request like others, as far as it has arrived."""
        held, self._held = self._held or (), None
        if begun is not None:
            scope: Any = self.scope
            scope[BEGUN] = begun
        self._quiet_since = None
        super().on_headers_complete()
        for each in held:
            super().on_body(each)

    def _write(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        state = self.server_state
        if state.default_headers is not self._headers_of:
            # Uvicorn makes them anew every second, for the date.
            self._headers_of = state.default_headers
            self._start = b"".join(b"%b: %b\r\n" % each for each in state.default_headers)
        more = b"content-type: application/json\r\n" if body else b""
        for each in headers:
            more += b"%b: %b\r\n" % each
        self.transport.write(
            b"HTTP/1.1 %b\r\n%b%bcontent-length: %d\r\n\r\n%b"
            % (_STATUS_LINES[status], self._start, more, len(body), body)
        )
        if self.access_log:
            self._log(status)
        self.answered = True
        state.total_requests += 1
        self._quiet_since = self.loop.time()
        if self._silence is None:
            # It is not moved with every answer: that would cost more than to write the answer.
            self._silence = self.loop.call_later(self.timeout_keep_alive, self._end_silence)

    def _end_silence(self) -> None:
        """Close the connection if its client has said nothing since the last answer."""
        self._silence = None
        if self._quiet_since is None:
            return  # whoever answers what has arrived waits anew
        left = self._quiet_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._silence = self.loop.call_later(left, self._end_silence)
        else:
            self.timeout_keep_alive_handler()

    def _log(self, status: int) -> None:
        scope: Any = self.scope
        client = "{}:{}".format(*scope["client"]) if scope["client"] else ""
        self.access_logger.info('%s - "POST %s HTTP/1.1" %d', client, quote(scope["path"]), status)
