"""One client's conversation: requests are run, cancelled and answered, and the client is asked.

A session takes text or parsed messages, and sends text into a channel. It begins a run for each
request and goes on with it until it has to wait; from there a task carries it on.
"""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import CoroutineType
from typing import Any, Final, Protocol, TypeVar, cast

import anyio

from mcpkit._concurrency.loop import Loop
from mcpkit._concurrency.threads import Threads, is_interrupt
from mcpkit._input_requests.asker import Requester
from mcpkit._input_requests.live import LiveRequester, Questions, RootsHandler
from mcpkit._input_requests.replay import Replay
from mcpkit._protocol.connection import (
    Answer,
    Cancelled,
    Connection,
    Dropped,
    Event,
    Notification,
    Refused,
    Request,
    RequestSource,
)
from mcpkit._protocol.messages import Id, parse
from mcpkit._protocol.revisions import ClientProfile, Notice, Revision
from mcpkit._server.channel import SessionState
from mcpkit._server.encoding import Tagged, encode_result
from mcpkit._server.handlers import OPERATIONS, check_uri
from mcpkit._server.run import ABANDONED, Failure, Outcome, Run
from mcpkit._server.server import Server, log
from mcpkit._server.subscriptions import Subscriptions
from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.text import quote
from mcpkit.context import Context
from mcpkit.errors import (
    InternalError,
    InvalidParams,
    MethodNotFound,
    ProtocolError,
)
from mcpkit.middleware import Handler, compose
from mcpkit.roots import Roots
from mcpkit.types import LOG_LEVELS, LOG_RANK

__all__ = ["Channel", "Session", "operations_of"]

T = TypeVar("T")

_SAID: Final = frozenset({"notifications/message", "notifications/progress"})
_OUTLASTING: Final = "notifications/elicitation/complete"


class Channel(Protocol):
    """The way out for a session's messages. Its methods are called on the event loop's thread.

    A transport that sends all messages the same way implements `send` and `drain` alone, and
    ignores which request a message belongs to.
    """

    def send(self, text: bytes, about: Request | None = None) -> None:
        """Take a notification or a question, without waiting.

        Args:
            text: The message.
            about: The request that it belongs to; None if it belongs to none.
        """
        ...

    def answer(
        self, request: Request, text: bytes | None, error: ProtocolError | None = None
    ) -> None:
        """Take the last word on a request.

        Args:
            request: The request that is over.
            text: Its answer; None if nothing is to be sent, because it was cancelled or because
                other answers of its batch are missing.
            error: The error that the answer carries; None if it carries a result.
        """
        if text is not None:
            self.send(text, request)

    def reject(self, event: Refused | Dropped, origin: RequestSource | None = None) -> None:
        """Take the answer to a message that is not served, if it has one."""
        if type(event) is Refused and event.text is not None:
            self.send(event.text)

    def let_go(self, request: Request, retry: float | None) -> None:
        """Close the connection that a request's messages go to, if it has one of its own.

        Args:
            request: The request, whose further messages wait until the client fetches them.
            retry: Seconds after which the client should come back; None: the transport's default.
        """
        return

    def reserve(self, size: int, about: Request) -> None:
        """Count bytes that are kept for the client from now on; fewer than 0 are given back.

        Raises:
            ProtocolError: There is no room for them.
        """
        del size, about

    def park(self, about: Request) -> Callable[[], None]:
        """Note that a request waits for its client's answer to a question; the result ends that.

        Raises:
            InputRequestError: Too many requests wait for theirs.
        """
        del about
        return _do_nothing

    congested: bool = False
    """True while the client does not keep up with what belongs to no request in particular."""

    def is_congested(self, about: Request) -> bool:
        """Return True if the client does not keep up with a request's messages."""
        del about
        return self.congested

    async def drain(self, about: Request | None = None) -> None:
        """Wait until it is not congested."""
        ...


class _Nowhere(Channel):
    """The channel of a session whose client has left: it drops every message."""

    def send(self, text: bytes, about: Request | None = None) -> None:
        """Drop a message."""

    async def drain(self, about: Request | None = None) -> None:
        """Return at once: no message waits."""


_NOWHERE: Final = _Nowhere()


_MOST_WAITING: Final = 1000
"""Requests that may wait to be begun. Beyond it pings and cancellations wait as well, unread."""

_MOST_HELD: Final = 10 * _MOST_WAITING
"""Requests that may wait while a question is open, since its answer has to be read."""

_BYTES_WAITING: Final = 64 * 1024 * 1024
_BYTES_HELD: Final = 4 * _BYTES_WAITING
"""The bytes that those requests arrived in, and may have together."""


class Session:
    """One client's conversation with a server.

    Args:
        server: The server that answers.
        channel: The way out for messages.
        loop: The event loop that handlers run on.
        connection: The protocol state to go on with; a new one by default.
        threads: Shared by the sessions of a server; its own by default.
        attached: True to tell the client of changes from the start; otherwise from the first
            subscription on, or from `attach` on.
    """

    __slots__ = (
        "_asked",
        "_bytes_waiting",
        "_channel",
        "_connection",
        "_dropped",
        "_first_log_rank",
        "_idle",
        "_log_rank",
        "_loop",
        "_most_running",
        "_operations",
        "_passing_on_roots",
        "_root_handlers",
        "_roots_changed",
        "_running",
        "_size",
        "_subscriptions",
        "_waiting",
        "is_closing",
        "on_exception",
        "on_writable",
        "server",
        "threads",
    )

    def __init__(
        self,
        server: Server,
        channel: Channel,
        loop: Loop,
        *,
        connection: Connection | None = None,
        threads: Threads | None = None,
        attached: bool = True,
    ) -> None:
        self.server = server
        self.on_writable: Callable[[], None] = _do_nothing
        self.on_exception: Callable[[Request, BaseException], None] = _take_no_note
        self._channel = channel
        self._loop = loop
        self._connection = connection or Connection()
        self.threads = threads or Threads(loop, server.settings.max_threads)
        self._operations = operations_of(server)
        self._most_running = server.settings.max_in_flight
        self._running: dict[Request, Run] = {}
        self._waiting: dict[Request, tuple[contextvars.Context, int]] = {}
        self._bytes_waiting = 0
        self._size = 0
        self._log_rank = self._first_log_rank = LOG_RANK[server.settings.log_level]
        self._subscriptions: Subscriptions | None = None
        self._dropped = 0
        self.is_closing = False
        self._idle: anyio.Event | None = None
        self._asked: Questions | None = None
        self._root_handlers: list[RootsHandler] = []
        self._roots_changed = False
        self._passing_on_roots = False
        if attached:
            self.attach()

    # --- what arrives -----------------------------------------------------------------------------

    def receive(self, text: bytes | bytearray) -> None:
        """Take one message from the client. Never raises and never waits."""
        try:
            message = parse(text)
        except ProtocolError:
            self._act_on_all(self._connection.receive(text))
            return
        self._size = len(text)
        self.take(message)
        self._size = 0

    def take(self, message: Any, origin: RequestSource | None = None) -> None:
        """Take one message that was parsed already, and what it arrived in; see `receive`."""
        if message.__class__ is dict:
            self.act_on(self._connection.take_one(message, origin), origin)
        else:
            self._act_on_all(self._connection.take(message, origin), origin)

    def read(self, message: dict[str, Any], origin: RequestSource | None = None) -> Event:
        """Return the meaning of one message, for whoever judges it before `act_on` serves it."""
        return self._connection.take_one(message, origin)

    def act_on(self, event: Event, origin: RequestSource | None = None) -> None:
        """Do what one message means: begin a request, or take note."""
        if type(event) is Request:
            known = event.known
            if self._has_room() or known.capability is None or known.operation in _ACTS:
                self._begin(event)
            elif len(self._waiting) < _MOST_HELD and self._bytes_waiting < _BYTES_HELD:
                self._waiting[event] = contextvars.copy_context(), self._size
                self._bytes_waiting += self._size
            else:
                self._fail(event, InternalError("Too many requests are waiting; ask again later"))
        elif type(event) is Refused:
            self._channel.reject(event, origin)
        elif type(event) is Cancelled:
            self.cancel(event.request)
        elif type(event) is Notification:
            self._noticed(event.notice)
        elif type(event) is Answer:
            self._questions.answered(event)
        elif type(event) is Dropped:
            self._dropped_message(event, origin)

    def drop_channel(self) -> None:
        """Drop every further message: the session is given up, and its channel with it."""
        self._channel = _NOWHERE

    def _act_on_all(self, events: Sequence[Event], origin: RequestSource | None = None) -> None:
        for event in events:
            self.act_on(event, origin)

    def _dropped_message(self, event: Dropped, origin: RequestSource | None) -> None:
        log.debug("not served: %s", event.reason)
        self._channel.reject(event, origin)
        if event.answers is not None:
            self._questions.answered(Answer(event.answers, None, None))

    def _noticed(self, notice: Notice) -> None:
        if notice == "initialized":
            self._questions.release()
            if self._subscriptions is not None:
                self._subscriptions.flush()
        elif notice == "roots_changed":
            self._questions.forget_roots()
            self._roots_changed = True
            if self._root_handlers and not self._passing_on_roots:
                self._passing_on_roots = True
                self._loop.start(self._pass_on_roots())

    def refuse(self, error: ProtocolError) -> None:
        """Tell the client that something it sent could not even be read."""
        log.warning("refused a message: %s", error)
        text = self._connection.send_refusal(error)
        if text is not None:
            self._channel.send(text)

    @property
    def saturated(self) -> bool:
        """True if so many requests wait that the transport should stop reading.

        `on_writable` is called when it may read on.
        """
        # While a question is open, its answer must be read, whatever stands before it.
        return bool(self._waiting) and self._many_wait and not self._is_asking

    @property
    def _many_wait(self) -> bool:
        return len(self._waiting) >= _MOST_WAITING or self._bytes_waiting >= _BYTES_WAITING

    def _read_on(self) -> None:
        """Let the transport read on: the answer to a question stands behind other messages."""
        if self._many_wait:
            self._loop.soon(self.on_writable)

    def attach(self) -> None:
        """Take an interest in changes."""
        self._subscribed().attach()

    def detach(self) -> None:
        """Take no interest in changes any more."""
        if self._subscriptions is not None:
            self._subscriptions.detach()

    @property
    def has_state(self) -> bool:
        """True if the session knows more than was negotiated at its beginning."""
        return bool(
            self._subscriptions
            or self._root_handlers
            or (self._asked is not None and self._asked.open)
            or self._log_rank != self._first_log_rank
        )

    @property
    def is_unused(self) -> bool:
        """True if nothing is left in it of the requests that it has served."""
        return not (self._running or self._waiting or self.has_state)

    @property
    def state(self) -> SessionState:
        """The part of its state that another session object can take up."""
        level = LOG_LEVELS[self._log_rank]
        watched = None if self._subscriptions is None else self._subscriptions.watched
        return SessionState(
            None if level == self.server.settings.log_level else level, watched or frozenset()
        )

    def restore(self, state: SessionState) -> None:
        """Go on with the state of a session object that was given up."""
        if state.log_level is not None:
            self._log_rank = LOG_RANK[state.log_level]
        if state.watched:
            self._subscribed().watch(state.watched)

    @property
    def task(self) -> None:
        """None: the runs in a session are those of requests."""
        return None

    @property
    def revision(self) -> Revision | None:
        """The negotiated revision; None before the handshake."""
        return self._connection.revision

    @property
    def client(self) -> ClientProfile:
        """The client's name and capabilities, as it declared them in the handshake."""
        return self._connection.client

    def awaits(self, answer: Id) -> bool:
        """Return True if a question with this id waits for its answer."""
        return self._asked is not None and self._asked.awaits(answer)

    @property
    def _questions(self) -> Questions:
        # Most sessions never ask anything.
        if self._asked is None:
            self._asked = Questions(
                self._connection,
                self._channel.send,
                self._channel.park,
                self.server.settings.ask_timeout,
                self._read_on,
            )
        return self._asked

    @property
    def _is_asking(self) -> bool:
        return self._asked is not None and self._asked.open

    @property
    def busy(self) -> bool:
        """True if any handler runs, or waits to be begun."""
        return bool(self._running or self._waiting)

    def _has_room(self) -> bool:
        # Requests that have not begun take less memory than answers that nobody fetches.
        return len(self._running) < self._most_running and not self._channel.congested

    def begin_waiting(self) -> None:
        """Begin the requests that wait, as far as there is room.

        A channel calls this when it is no longer congested.
        """
        was_saturated = self.saturated
        while self._waiting and self._has_room():
            request = next(iter(self._waiting))
            self._waits_no_more(request).run(self._begin, request)
        if was_saturated and not self.saturated:
            self.on_writable()
        if not self.busy and self._idle is not None:
            self._idle.set()

    def _waits_no_more(self, request: Request) -> contextvars.Context:
        context, size = self._waiting.pop(request)
        self._bytes_waiting -= size
        return context

    def _begin(self, request: Request) -> None:
        known = request.known
        params = request.params
        server = self.server
        if server.shows is not None or server.registry.restricted:
            server = server.view_for(request)
            if self._subscriptions is not None:
                self._subscriptions.catalog = server.catalog
        run = Run(self, server, request)
        try:
            capability = known.capability
            if capability is not None and capability not in server.catalog.advertised:
                raise MethodNotFound(f"This server has no {capability}")
            if known.asks and ("inputResponses" in params or "requestState" in params):
                run.requester()
            value = self._operations[known.operation](server, params, Context(run))
        except BaseException as error:
            if is_interrupt(error):
                raise
            self._answer(run, run.failed(error))
            return
        if value.__class__ is not CoroutineType and not hasattr(value, "__await__"):
            if value is not None:
                self._answer(run, value)
            return
        run.cancel = self._loop.start(run.finish(value, self._answer))
        if not run.is_over:
            self._running[request] = run

    def _answer(self, run: Run, outcome: Outcome) -> None:
        """Answer the request of a run with how that ended."""
        run.is_over = True
        request = run.request
        if type(outcome) is Failure:
            self._fail(request, outcome.error)
        elif outcome is ABANDONED:
            self._give_up(request)
        elif outcome is None:
            pass  # an operation that is answered later
        elif self._connection.is_in_flight(request):
            used_input = run.asker is not None and run.asker.used_input
            try:
                text = encode_result(self.server, request, outcome, private=used_input)
            except Exception as error:  # the value holds what JSON cannot carry
                self._fail(request, run.failed(error).error)
            else:
                self._channel.answer(request, self._connection.send_result(request, text))
        if self._running.pop(request, None) is not None:
            self.begin_waiting()
        # Else the run ended in its first step, and was never counted.

    def cancel(self, request: Request) -> None:
        """Stop the work on a request; nothing more is sent for it (CANC-1, CANC-4)."""
        self._channel.answer(request, self._connection.forget(request))
        self._stop(request)

    def requests_in(self, origin: RequestSource) -> list[Request]:
        """The requests that arrived in something, and are not answered yet."""
        return [each for each in self._connection.requests() if each.origin is origin]

    def end(self, request: Request, error: ProtocolError) -> None:
        """Stop the work on a request, and answer it with an error."""
        self._fail(request, error)
        self._stop(request)

    def _stop(self, request: Request) -> None:
        if self._subscriptions is not None:
            self._subscriptions.forget(request)
        run = self._running.get(request)
        if run is not None:
            run.stop()
        elif request in self._waiting:
            self._waits_no_more(request)

    # --- what is answered -------------------------------------------------------------------------

    def _fail(self, request: Request, error: ProtocolError) -> None:
        if self._connection.is_in_flight(request):
            self._channel.answer(request, self._connection.send_error(request, error), error)

    def _give_up(self, request: Request) -> None:
        if self._connection.is_in_flight(request):
            self._channel.answer(request, self._connection.forget(request))

    # --- state of a session with a handshake ------------------------------------------------------

    def _set_level(self, run: Run) -> Mapping[str, Any]:
        level = run.request.params.get("level")
        if not isinstance(level, str) or level not in LOG_RANK:
            raise InvalidParams(f"Unknown log level: {quote(level)}; known: {', '.join(LOG_RANK)}")
        self._log_rank = LOG_RANK[level]
        return {}

    def _subscribe(self, run: Run) -> Any:
        def subscribe() -> Mapping[str, Any]:
            return self._subscribed().subscribe(run.server.catalog, run.request)

        return self._once_allowed(run, [run.request.params.get("uri")], subscribe)

    def _unsubscribe(self, run: Run) -> Mapping[str, Any]:
        return self._subscribed().unsubscribe(run.request)

    def _listen(self, run: Run) -> Any:
        def listen() -> None:
            self._subscribed().listen(run.server.catalog, run.request)

        wanted = run.request.params.get("notifications")
        uris = wanted.get("resourceSubscriptions") if is_object(wanted) else None
        return self._once_allowed(run, uris if is_array(uris) else [], listen)

    def _once_allowed(self, run: Run, uris: Sequence[object], act: Callable[[], T]) -> Any:
        """Do something at once, or when the predicates of resources have been asked."""
        asked: list[Callable[[], Awaitable[None]]] = []
        for uri in uris if run.request.origin is not None else ():
            if not isinstance(uri, str) or len(asked) > self.server.settings.max_subscriptions:
                break  # which is refused anyway
            check_uri(uri)
            found = run.server.catalog.resource(uri)
            if found is not None and found[0].allow is not None:
                asked.append(partial(found[0].admit, uri, found[1], Context(run)))
        return _in_turn(asked, act) if asked else act()

    def end_listens(self, *, announce: bool) -> None:
        """End every stream of changes from this side (SUB-6).

        Args:
            announce: Also send ``notifications/cancelled`` for it, as stdio wants (SUB-7).
        """
        if self._subscriptions is not None:
            self._subscriptions.end_listens(self._end_listen, announce=announce)

    def _end_listen(self, request: Request, tag: Mapping[str, Any]) -> None:
        if self._connection.is_in_flight(request):
            text = encode_result(self.server, request, Tagged(tag))
            self._channel.answer(request, self._connection.send_result(request, text))

    def handler_raised(self, request: Request, error: BaseException) -> None:
        """Pass on the real exception behind a failure."""
        self.on_exception(request, error)

    def announce_task(self, id: str) -> None:
        """Tell the client of a task that one of its requests has begun (2025-11-25)."""
        self._subscribed().announce_task(id)

    def attach_task(self, id: str, request: Request) -> AbstractContextManager[object]:
        """Around a request that waits for a task: what the task tells goes along with it."""
        return self._subscribed().attach_task(id, request)

    def _subscribed(self) -> Subscriptions:
        # Most sessions never want to be told of anything.
        if self._subscriptions is None:
            self._subscriptions = Subscriptions(
                self.server, self._connection, self._loop, self._tell, self._channel.reserve
            )
        return self._subscriptions

    def _tell(self, method: str, params: Mapping[str, Any] | None, about: Request | None) -> None:
        if method in _SAID and params is not None:  # by the handler of a task
            level = params.get("level")
            is_wanted = level is None or LOG_RANK[level] >= self._log_rank  # LOG-2
            channel = self._channel
            congested = channel.congested if about is None else channel.is_congested(about)
            if not is_wanted or congested:
                return
        self._channel.send(self._connection.send_notification(method, params), about)

    # --- asking the client ------------------------------------------------------------------------

    def make_requester(self, request: Request) -> Requester:
        """Return how the run of a request asks: by requests, or by its result.

        Raises:
            InvalidParams: The request continues another one, and is not fit to.
        """
        if request.revision.client_asks == "request":
            return LiveRequester(self._questions, request)
        return Replay(
            request,
            self.server.sealer("request state"),
            self.server.steps,
            lifetime=self.server.settings.state_lifetime,
            principal="" if request.principal is None else request.principal.id,
        )

    def on_roots_changed(self, handler: RootsHandler) -> None:
        """Call a function whenever this client says that its roots have changed."""
        if handler not in self._root_handlers:
            self._root_handlers.append(handler)

    async def _pass_on_roots(self) -> None:
        # A client may announce more changes than it answers questions: they are passed on one after
        # the other, and those that come meanwhile are one.
        try:
            while self._roots_changed:
                self._roots_changed = False
                await self._pass_on_roots_once()
        finally:
            self._passing_on_roots = False

    async def _pass_on_roots_once(self) -> None:
        revision = self._connection.revision
        if revision is None:
            return
        try:
            roots = await self._questions.ask(Roots(), revision, self._connection.client)
        except Exception:
            log.exception("the changed roots could not be read")
            return
        for handler in list(self._root_handlers):
            try:
                made = handler(list(roots))
                if inspect.isawaitable(made):
                    await made
            except (Exception, SystemExit, KeyboardInterrupt) as error:
                if is_interrupt(error):
                    raise
                log.exception("a handler for changed roots failed")

    def disconnect(self) -> None:
        """The client will not answer any more: whoever waits for an answer is told."""
        self._questions.lose()

    # --- what a context asks for ------------------------------------------------------------------

    def notify(self, request: Request, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that belongs to a request, unless that is over. From any thread."""
        # A page that was asked for is often completed when the request is long over.
        outlasts = method == _OUTLASTING
        if not outlasts and not self._takes_more(request):
            return  # and do not write it either
        text = self._connection.send_notification(method, params)

        def send() -> None:
            if not outlasts:
                if self._takes_more(request):
                    self._channel.send(text, request)
            elif not self.is_closing:
                about = request if self._connection.is_in_flight(request) else None
                self._channel.send(text, about)

        if not self._loop.on_loop():
            self._loop.soon(send)
        elif outlasts:
            send()
        else:
            self._channel.send(text, request)

    def _takes_more(self, request: Request) -> bool:
        """Whether something about a request may be sent: it is not over, and the client reads."""
        if not self._connection.is_in_flight(request):
            return False  # PROG-3, CANC-4
        if not self._channel.is_congested(request):
            return True
        if not self._dropped:
            log.warning("the client does not keep up: log messages and progress are left out")
        self._dropped += 1
        return False

    def log_threshold(self, request: Request) -> int | None:
        """The rank of the least level to send with a request; None: nothing (LOG-2, LOG-4)."""
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
            self._channel.let_go(request, retry)
        else:
            self._loop.soon(lambda: self._channel.let_go(request, retry))

    # --- the end ----------------------------------------------------------------------------------

    async def wait_idle(self) -> None:
        """Wait until no handler runs."""
        while self.busy:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def aclose(self) -> None:
        """Cancel what runs, wait until it has cleaned up, and stop telling of changes."""
        self.is_closing = True
        self._questions.lose()
        if self._subscriptions is not None:
            self._subscriptions.end()
        for request in self._waiting:
            self._give_up(request)
        self._waiting.clear()
        self._bytes_waiting = 0
        for run in list(self._running.values()):
            run.stop()
        await self.wait_idle()


_Act = Callable[["Session", Run], Any]

_ACTS: Final[Mapping[str, _Act]] = {
    "subscribe": Session._subscribe,
    "unsubscribe": Session._unsubscribe,
    "set_level": Session._set_level,
    "listen": Session._listen,
}
"""Operations on the session itself. They are done at once, whatever else waits, unless a predicate
has to be asked; one that returns None is answered later."""


def _as_operation(act: _Act) -> Handler[Server]:
    def operation(server: Server, params: Mapping[str, Any], context: Context[Any]) -> Any:
        del server, params
        run = cast("Run", context.peer)
        return act(cast("Session", run.session), run)

    return operation


_OPERATIONS: Final[Mapping[str, Handler[Server]]] = {
    **OPERATIONS,
    **{name: _as_operation(act) for name, act in _ACTS.items()},
}


def operations_of(server: Server) -> Mapping[str, Handler[Server]]:
    """Return every operation, with the server's middleware around it."""
    if server.operations is None:
        server.operations = {
            name: compose(each, server.middleware, server.converters)
            for name, each in _OPERATIONS.items()
        }
    return server.operations


async def _in_turn(asked: Sequence[Callable[[], Awaitable[None]]], act: Callable[[], T]) -> T:
    for each in asked:
        await each()
    return act()


def _do_nothing() -> None:
    """Do nothing: the default of `Session.on_writable`."""


def _take_no_note(request: Request, error: BaseException) -> None:
    """Drop an exception: the default of `Session.on_exception`."""
