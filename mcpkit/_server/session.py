"""One client's conversation: its requests are run, cancelled and answered.

A session takes text or parsed messages, and sends text into a channel. It starts a run for each
request at once and continues it until it has to wait; from there a task of the event loop does.
"""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import CoroutineType
from typing import Any, Final, TypeVar, cast

import anyio

from mcpkit._concurrency.loop import Loop
from mcpkit._concurrency.threads import Threads, is_interrupt
from mcpkit._input_requests.live import LiveRequester, PendingRequests, RootsHandler
from mcpkit._input_requests.replay import StatelessReplay
from mcpkit._input_requests.requester import Requester
from mcpkit._protocol.connection import (
    Cancelled,
    Connection,
    Event,
    Ignored,
    Notification,
    Rejected,
    Request,
    RequestSource,
    Response,
)
from mcpkit._protocol.messages import Encoded, Id, notification_text, parse
from mcpkit._protocol.revisions import Notice
from mcpkit._server.channel import Channel, SessionState
from mcpkit._server.encoding import encode_result
from mcpkit._server.run import ABANDONED, Failed, Outcome, Run, name_of
from mcpkit._server.server import Server
from mcpkit._server.subscriptions import Subscriptions, tag_of
from mcpkit._utils.logs import log
from mcpkit._utils.text import quote
from mcpkit.context import Context, RunOwner, do_nothing
from mcpkit.errors import (
    InputRequestError,
    InternalError,
    InvalidParams,
    MethodNotFound,
    ProtocolError,
)
from mcpkit.middleware import Handler, Params
from mcpkit.roots import Roots
from mcpkit.types import LOG_LEVELS, LOG_RANK

T = TypeVar("T")

_DROPPABLE: Final = frozenset({"notifications/message", "notifications/progress"})
_OUTLASTING: Final = "notifications/elicitation/complete"

MAX_WAITING: Final = 1000
"""Requests that may wait for others to end. Beyond it the transport stops reading, so that pings
and cancellations wait as well."""

MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
"""Bytes that those requests arrived in."""

_WHILE_ASKING: Final = 10
_BYTES_WHILE_ASKING: Final = 4
"""Factors of both limits while the client has a request to answer: its response must be read."""


class Session(RunOwner):
    """One client's conversation with a server.

    Pass the `connection` to continue one, and `threads` to share them; else it makes its own.
    Unless it is `notifying`, the client is notified of changes from its first subscription on, or
    from `Subscriptions.start_notifying` on.
    """

    def __init__(
        self,
        server: Server,
        channel: Channel,
        loop: Loop,
        *,
        connection: Connection | None = None,
        threads: Threads | None = None,
        notifying: bool = True,
    ) -> None:
        self.server = server
        self.on_writable: Callable[[], None] = do_nothing
        self._channel = channel
        self._observers = server.observers or None
        self._loop = loop
        self.connection = connection or Connection()
        self.connection.extensions = server.extension_methods
        self.threads = threads or Threads(loop, server.settings.limits.max_threads)
        self._handlers = server.handlers()
        self._max_running = server.settings.limits.max_in_flight
        self._running: dict[Request, Run] = {}
        self._waiting: dict[Request, tuple[contextvars.Context, int]] = {}
        self._bytes_waiting = 0
        self._size = 0
        self._log_rank = self._first_log_rank = LOG_RANK[server.settings.log_level]
        self._subscriptions: Subscriptions | None = None
        self._dropped = 0
        self._closing = False
        self._idle: anyio.Event | None = None
        self._pending: PendingRequests | None = None
        self._root_handlers: list[RootsHandler] = []
        self._roots_changed = False
        self._reading_roots = False
        if notifying:
            self.subscriptions.start_notifying()

    # --- what arrives -----------------------------------------------------------------------------

    def receive(self, text: bytes | bytearray, origin: RequestSource | None = None) -> None:
        """Take one message from the client, and its source. Never raises and never waits."""
        try:
            message = parse(text)
        except ProtocolError as error:
            log.warning("rejected a message: %s", error)
            self.act_on(self.connection.take_unreadable(text, error), origin)
            return
        self._size = len(text)
        self.take(message, origin)
        self._size = 0

    def take(self, message: Any, origin: RequestSource | None = None) -> None:
        """Take one message that was parsed already, and its source; see `receive`."""
        if message.__class__ is dict:
            self.act_on(self.connection.take_one(message, origin), origin)
        else:
            for event in self.connection.take(message, origin):
                self.act_on(event, origin)

    def act_on(self, event: Event, origin: RequestSource | None = None) -> None:
        """Act on one message: start a request, or note an event."""
        if type(event) is Request:
            known = event.known
            if (
                # Requests that wait take less memory than responses that the client does not read.
                (len(self._running) < self._max_running and not self._channel.congested)
                or known.capability is None
                or known.operation in SESSION_HANDLERS
            ):
                self._start(event, self._size)
            elif self._many_wait(_WHILE_ASKING, _BYTES_WHILE_ASKING):
                self._fail(event, InternalError("Too many requests are waiting; ask again later"))
            else:
                self._waiting[event] = contextvars.copy_context(), self._size
                self._bytes_waiting += self._size
        elif type(event) is Rejected:
            self._channel.reject(event, origin)
            if self._observers is not None:
                source = None if origin is None else origin.http
                self._observers.reject(event.error, source)
        elif type(event) is Cancelled:
            self.cancel(event.request)
        elif type(event) is Notification:
            self._take_notice(event.notice)
        elif type(event) is Response:
            self._requests.answered(event)
        elif type(event) is Ignored:
            log.debug("not served: %s", event.reason)
            self._channel.reject(event, origin)
            if event.answers is not None:
                self._requests.answered(Response(event.answers, None, None))

    def drop_channel(self) -> None:
        """Drop every further message: the client and its channel have left."""
        self._channel = Channel()

    def _take_notice(self, notice: Notice) -> None:
        if notice == "initialized":
            self._requests.release()
            if self._subscriptions is not None:
                self._subscriptions.flush()
        elif notice == "roots_changed":
            self._requests.forget_roots()
            self._roots_changed = True
            if self._root_handlers and not self._reading_roots:
                self._reading_roots = True
                self._loop.start(self._read_roots())

    def refuse(self, error: ProtocolError) -> None:
        """Send an error response for a message that could not be read."""
        log.warning("rejected a message: %s", error)
        self.act_on(self.connection.reject(error))

    @property
    def is_full(self) -> bool:
        """True if too many requests wait, and the transport should stop reading.

        `on_writable` is called when it may read on.
        """
        # While a request to the client is open, its response must be read.
        return bool(self._waiting) and self._many_wait() and not self._pending

    def _many_wait(self, count: int = 1, size: int = 1) -> bool:
        return (
            len(self._waiting) >= count * MAX_WAITING
            or self._bytes_waiting >= size * MAX_WAITING_BYTES
        )

    @property
    def has_state(self) -> bool:
        """True if the session has more state than the handshake negotiated."""
        return bool(
            self._subscriptions
            or self._root_handlers
            or self._pending
            or self._log_rank != self._first_log_rank
        )

    @property
    def state(self) -> SessionState:
        """The part of its state that another session object can restore."""
        level = LOG_LEVELS[self._log_rank]
        watched = () if self._subscriptions is None else self._subscriptions.watched
        return SessionState(
            None if level == self.server.settings.log_level else level, frozenset(watched)
        )

    def restore(self, state: SessionState) -> None:
        """Continue with the state of an earlier session object."""
        if state.log_level is not None:
            self._log_rank = LOG_RANK[state.log_level]
        if state.watched:
            self.subscriptions.watch(state.watched)

    @property
    def is_closing(self) -> bool:
        """True once the session ends."""
        return self._closing

    def awaits(self, answer: Id) -> bool:
        """Return True if the request to the client with this id waits for its response."""
        return self._pending is not None and answer in self._pending

    @property
    def _requests(self) -> PendingRequests:
        # Most sessions never send a request.
        if self._pending is None:
            self._pending = PendingRequests(
                self.connection,
                self._channel.send,
                self._channel.wait_for_client,
                self.server.settings.ask_timeout,
                self._expect_response,
                self.server.observers.calling,
            )
        return self._pending

    def _expect_response(self) -> None:
        if self._many_wait():
            self._loop.soon(self.on_writable)  # the transport has to read on

    @property
    def in_flight(self) -> int:
        """The number of requests that have no response yet, without streams of changes."""
        return len(self._running) + len(self._waiting)

    def start_waiting(self) -> None:
        """Start the requests that wait, as far as there is room.

        A channel calls this when it is no longer congested.
        """
        was_full = self.is_full
        while (
            self._waiting and len(self._running) < self._max_running and not self._channel.congested
        ):
            request = next(iter(self._waiting))
            context, size = self._waits_no_more(request)
            context.run(self._start, request, size)
        if was_full and not self.is_full:
            self.on_writable()
        if self._idle is not None and not self.in_flight:
            self._idle.set()

    def _waits_no_more(self, request: Request) -> tuple[contextvars.Context, int]:
        context, size = self._waiting.pop(request)
        self._bytes_waiting -= size
        return context, size

    def _start(self, request: Request, size: int) -> None:
        known = request.known
        params = request.params
        server = self.server
        registry = server.registry
        if registry.restricted or registry.hides_tools or server.choosers:
            server = server.view_for(request.origin, request)
            if self._subscriptions is not None:
                self._subscriptions.catalog = server.catalog
        run = Run(self, server, request)
        if self._observers is not None:
            self._observers.begin(request, server, size)
        try:
            capability = known.capability
            if capability is not None and capability not in server.catalog.advertised:
                raise MethodNotFound(f"This server has no {capability}")
            handler = self._handlers[known.operation]
            # Before 2026-07-28 these are unknown members like any other, and are ignored.
            is_retry = known.may_request_input and request.revision.input_via == "result"
            if is_retry and ("inputResponses" in params or "requestState" in params):
                run.requester()
            state = params.get("requestState")
            if run.asker is None or state is None or server.suspended is None:
                value = handler(server, params, Context(run))
            else:
                value = server.suspended.retry(run, handler)
        except BaseException as error:
            if is_interrupt(error):
                raise
            self.take_outcome(run, run.failed(error))
            return
        if value.__class__ is not CoroutineType and not hasattr(value, "__await__"):
            if value is not None:
                self.take_outcome(run, value)
            return
        run.cancel_task = self._loop.start(run.complete(value))
        if not run.is_over:
            self._running[request] = run

    def take_outcome(self, run: Run, outcome: Outcome) -> None:
        """Answer the request of a run with its outcome."""
        run.is_over = True
        self.respond(run, outcome)
        if run.asker is not None:
            run.asker.hold = None

    def respond(self, run: Run, outcome: Outcome) -> None:
        """Answer the request of a run, which may go on with another request."""
        request = run.request
        if type(outcome) is Failed:
            self._fail(request, outcome.error)
        elif outcome is ABANDONED:
            self._abandon(request)
        elif outcome is None:
            pass  # it is answered later
        elif self.connection.is_in_flight(request):
            if request.operation is not None:
                request.operation.outcome = name_of(outcome)
            used_input = run.asker is not None and run.asker.used_input
            try:
                if used_input and type(outcome) is bytes:
                    text = outcome
                else:
                    text = encode_result(self.server, request, outcome, private=used_input)
            except Exception as error:  # the value holds what JSON cannot carry
                self._fail(request, run.failed(error).error)
            else:
                self._answer(request, self.connection.send_result(request, text))
        if self._running.pop(request, None) is not None:
            self.start_waiting()
        # Else the run ended in its first step, and was never counted.

    def cancel(self, request: Request) -> None:
        """Cancel a request; nothing more is sent for it (CANC-1, CANC-4)."""
        self._answer(request, self.connection.forget(request))
        self._stop(request)

    def requests_in(self, origin: RequestSource) -> list[Request]:
        """Return the requests of one source that are not answered yet."""
        return [each for each in self.connection.requests() if each.origin is origin]

    def end(self, request: Request, error: ProtocolError) -> None:
        """Cancel a request, and answer it with an error."""
        self._fail(request, error)
        self._stop(request)

    def _stop(self, request: Request) -> None:
        if self._subscriptions is not None:
            self._subscriptions.forget(request)
        run = self._running.get(request)
        if run is not None:
            run.cancel()
        elif request in self._waiting:
            self._waits_no_more(request)

    def _fail(self, request: Request, error: ProtocolError) -> None:
        if request.known.is_notification:  # it has no response
            log.warning("%s failed: %s", request.method, error)
        if self.connection.is_in_flight(request):
            self._answer(request, self.connection.send_error(request, error), error)

    def _answer(
        self, request: Request, text: bytes | None, error: ProtocolError | None = None
    ) -> None:
        self._channel.answer(request, text, error)
        if self._observers is not None:
            self._observers.end(request, text, error)

    def _abandon(self, request: Request) -> None:
        if self.connection.is_in_flight(request):
            self._answer(request, self.connection.forget(request))

    # --- state of a session with a handshake ------------------------------------------------------

    def set_level(self, level: object) -> Params:
        """``logging/setLevel``: the lowest level that the client wants."""
        if not isinstance(level, str) or level not in LOG_RANK:
            raise InvalidParams(f"Unknown log level: {quote(level)}; known: {', '.join(LOG_RANK)}")
        self._log_rank = LOG_RANK[level]
        return {}

    def end_listens(self, *, announce: bool) -> None:
        """End every stream of changes (SUB-6), if `announce` with a notification too (SUB-7)."""
        if self._subscriptions is not None:
            for request in self._subscriptions.end_listens(announce=announce):
                if self.connection.is_in_flight(request):
                    text = encode_result(self.server, request, Encoded(b"", tag_of(request)))
                    self._answer(request, self.connection.send_result(request, text))

    @property
    def subscriptions(self) -> Subscriptions:
        """The subscriptions of the client."""
        # Most sessions never subscribe.
        if self._subscriptions is None:
            self._subscriptions = Subscriptions(
                self.server, self.connection, self._loop, self._notify, self._channel.reserve
            )
        return self._subscriptions

    def _notify(self, method: str, params: Params | None, request: Request | None) -> None:
        if method in _DROPPABLE and params is not None:  # by the handler of a task
            level = params.get("level")
            is_wanted = level is None or LOG_RANK[level] >= self._log_rank  # LOG-2
            channel = self._channel
            congested = channel.congested if request is None else channel.is_congested(request)
            if is_wanted and congested and self._observers is not None:
                self._observers.drop(method)
            if not is_wanted or congested:
                return
        self._channel.send(notification_text(method, params), request)

    # --- input requests ---------------------------------------------------------------------------

    def make_requester(self, run: Run) -> Requester:
        """Return how a run requests input; see `RunOwner.make_requester`."""
        request = run.request
        if request.known.is_notification:
            raise InputRequestError("The handler of a notification cannot ask for input")
        if request.revision.input_via == "request":
            return LiveRequester(request, self._requests)
        asker = StatelessReplay(
            request,
            self.server.sealer("request state"),
            self.server.steps,
            lifetime=self.server.settings.state_lifetime,
        )
        if self.server.suspended is not None:
            asker.hold = partial(self.server.suspended.hold, run, asker)
        return asker

    def on_roots_changed(self, handler: RootsHandler) -> None:
        """Call a function whenever this client reports that its roots have changed."""
        if handler not in self._root_handlers:
            self._root_handlers.append(handler)

    async def _read_roots(self) -> None:
        # A client may report changes faster than it answers; those that arrive meanwhile are one.
        try:
            while self._roots_changed and (revision := self.connection.revision) is not None:
                self._roots_changed = False
                try:
                    roots = await self._requests.ask(Roots(), revision, self.connection.client)
                except Exception:
                    log.exception("the changed roots could not be read")
                    continue
                for handler in list(self._root_handlers):
                    try:
                        made = handler(list(roots))
                        if inspect.isawaitable(made):
                            await made
                    except (Exception, SystemExit, KeyboardInterrupt) as error:
                        if is_interrupt(error):
                            raise
                        log.exception("a handler for changed roots failed")
        finally:
            self._reading_roots = False

    def disconnect(self) -> None:
        """Note that the client disconnected: every wait for its responses ends."""
        self._requests.disconnect()

    # --- notifications ----------------------------------------------------------------------------

    def notify(self, request: Request, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that belongs to a request, unless that is over. From any thread."""
        # A user often completes an elicitation by URL long after the request is over.
        outlasts = method == _OUTLASTING
        if not outlasts and not self._takes_more(request, method):
            return  # before encoding it
        text = notification_text(method, params)

        def send() -> None:
            if not outlasts:
                if self._takes_more(request, method):
                    self._channel.send(text, request)
            elif not self._closing:
                live = request if self.connection.is_in_flight(request) else None
                self._channel.send(text, live)

        if not self._loop.on_loop():
            self._loop.soon(send)
        elif outlasts:
            send()
        else:
            self._channel.send(text, request)

    def _takes_more(self, request: Request, method: str) -> bool:
        """Return True if the request is not over and the client keeps up with its messages."""
        if not self.connection.is_in_flight(request):
            return False  # PROG-3, CANC-4
        if not self._channel.is_congested(request):
            return True
        if not self._dropped:
            log.warning("the client does not keep up: log messages and progress are dropped")
        self._dropped += 1
        if self._observers is not None:
            self._observers.drop(method)
        return False

    def log_threshold(self, request: Request) -> int | None:
        """Return the rank of the lowest level to send; None: nothing (LOG-2, LOG-4)."""
        if request.revision.handshake:
            return self._log_rank
        return None if request.log_level is None else LOG_RANK[request.log_level]

    async def drain(self, request: Request) -> None:
        """Wait until the client keeps up."""
        await self._channel.drain(request)

    def close_stream(self, request: Request, retry: float | None) -> None:
        """Close the connection that a request's messages go to. From any thread."""
        if not request.revision.polling:
            return
        if self._loop.on_loop():
            self._channel.close_stream(request, retry)
        else:
            self._loop.soon(lambda: self._channel.close_stream(request, retry))

    # --- the end ----------------------------------------------------------------------------------

    async def wait_idle(self) -> None:
        """Wait until no handler runs."""
        while self.in_flight:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def aclose(self) -> None:
        """Cancel every request, wait until the handlers have cleaned up, and stop notifying."""
        self._closing = True
        self._requests.disconnect()
        if self._subscriptions is not None:
            self._subscriptions.end()
        for request in list(self._waiting):
            self._waits_no_more(request)
            self._abandon(request)
        for run in list(self._running.values()):
            run.cancel()
        await self.wait_idle()


def _session_of(context: Context[Any]) -> Session:
    return cast("Session", cast("Run", context.backend).session)


def _set_level(_server: Server, params: Params, context: Context[Any]) -> Params:
    return _session_of(context).set_level(params.get("level"))


def _subscribe(server: Server, _params: Params, context: Context[Any]) -> Any:
    return _session_of(context).subscriptions.subscribe(server.catalog, context)


def _unsubscribe(_server: Server, _params: Params, context: Context[Any]) -> Params:
    return _session_of(context).subscriptions.unsubscribe(context.request)


def _listen(server: Server, _params: Params, context: Context[Any]) -> Any:
    return _session_of(context).subscriptions.listen(server.catalog, context)


SESSION_HANDLERS: Final[Mapping[str, Handler]] = {
    "subscribe": _subscribe,
    "unsubscribe": _unsubscribe,
    "set_level": _set_level,
    "listen": _listen,
}
"""The handlers of methods of the session itself. They run at once, whatever else waits, unless a
predicate has to allow it first; one that returns None is answered later."""
