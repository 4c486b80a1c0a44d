"""Drives one connection: where messages meet functions, and where exceptions become answers.

A session is given text and a channel to send text into. It starts a task for each request that
runs a handler, passes on cancellations and changes, and decides what an exception is answered with.
"""

from __future__ import annotations

import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeVar, cast

import anyio
import anyio.from_thread
import anyio.to_thread

from mcpkit.asking.ask import Ask
from mcpkit.asking.by_request import Questions, RootsHandler
from mcpkit.asking.by_result import Replay, Step, Suspended
from mcpkit.asking.roots import Roots
from mcpkit.asking.sampling import Sample, SampleResult
from mcpkit.context import Context, ListKind
from mcpkit.engine.loop import Tasks
from mcpkit.engine.methods import (
    EMPTY,
    OPERATIONS,
    Reply,
    fault,
    is_result,
    not_found,
    read,
    unwrap,
    uri_of,
)
from mcpkit.engine.sampling_tools import sample_with_tools
from mcpkit.engine.server import Server, log
from mcpkit.errors import (
    AskError,
    ConnectionClosed,
    ElicitationError,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ProtocolError,
    PublicError,
    ResourceNotFound,
)
from mcpkit.protocol.connection import (
    SUBSCRIPTION_KEY,
    Answer,
    Cancelled,
    ClientFacts,
    Connection,
    Dropped,
    Event,
    Notification,
    Origin,
    Refused,
    Request,
    State,
)
from mcpkit.protocol.messages import Id, encode, members, parse
from mcpkit.protocol.revision import Method, Notice, Revision
from mcpkit.types import LOG_RANK, ResourceContents, is_array, is_object

__all__ = ["Channel", "Session"]

T = TypeVar("T")


_INPUT: Final = frozenset({"inputResponses", "requestState"})
_thread_waits: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "mcpkit_thread_waits", default=False
)
"""Whether what runs on the event loop is what a worker thread waits for."""
_noting: Final = threading.RLock()
"""Held while a session notes what has changed: a change may be announced in any thread."""

_OUTLASTING: Final = "notifications/elicitation/complete"


class Channel(Protocol):
    """Where a session's messages go. What is given here is called on the event loop's thread.

    A transport on which everything goes the same way inherits from this and has no use for what a
    message is about.
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
            request: It is over.
            text: Its answer; None if nothing is to be sent, because it was cancelled or because
                other answers of its batch are missing.
            error: What the answer says; None if it is a result.
        """
        if text is not None:
            self.send(text, request)

    def turn_away(self, event: Refused | Dropped, origin: Origin | None = None) -> None:
        """Take what is to be said of a message that is not served."""
        if type(event) is Refused and event.text is not None:
            self.send(event.text)

    def let_go(self, request: Request, retry: float | None) -> None:
        """Close the connection that a request's messages go to, if it has one of its own.

        Args:
            request: What follows waits until the client fetches it.
            retry: After how many seconds it should; None leaves that to the transport.
        """
        return

    def is_congested(self, about: Request | None = None) -> bool:
        """Whether the client does not keep up: what can be left out should be."""
        ...

    async def drain(self, about: Request | None = None) -> None:
        """Wait until it is not congested."""
        ...


class _Nowhere(Channel):
    """The channel of a session that nobody listens to any more."""

    def send(self, text: bytes, about: Request | None = None) -> None:
        """Drop a message."""

    def is_congested(self, about: Request | None = None) -> bool:
        """Nothing waits."""
        return False

    async def drain(self, about: Request | None = None) -> None:
        """Nothing waits."""


_NOWHERE: Final = _Nowhere()


class _Running:
    """A request whose handler runs."""

    __slots__ = ("cancel", "context")

    def __init__(self, context: Context[Any], cancel: Callable[[], object]) -> None:
        self.context = context
        self.cancel = cancel


class _Place:
    """A place among the threads that may run at once, held for as long as one really runs.

    A thread cannot be stopped. If its place were free as soon as nobody waits for it any more,
    calls that are given up could pile up threads without end.
    """

    def __init__(self, limiter: anyio.CapacityLimiter, tasks: Tasks) -> None:
        self._limiter = limiter
        self._tasks = tasks
        self._lock = threading.Lock()
        self._state: Literal["waiting", "running", "left"] = "waiting"

    async def take(self) -> None:
        """Wait for a free place."""
        await self._limiter.acquire_on_behalf_of(self)

    def begin(self) -> bool:
        """The thread begins; False if it need not. In the thread."""
        with self._lock:
            if self._state == "left":
                return False
            self._state = "running"
            return True

    def leave(self) -> None:
        """The thread has ended. In the thread."""
        with self._lock:
            self._state = "left"
        self._tasks.soon(self._release)

    def abandon(self) -> None:
        """Nobody waits any more: a thread that has not begun never will."""
        with self._lock:
            never = self._state == "waiting"
            self._state = "left" if never else self._state
        if never:
            self._release()

    def _release(self) -> None:
        self._limiter.release_on_behalf_of(self)


class _Listen:
    """A stream of changes that a client asked for (``subscriptions/listen``)."""

    __slots__ = ("kinds", "request", "uris")

    def __init__(self, request: Request, kinds: frozenset[ListKind], uris: frozenset[str]) -> None:
        self.request = request
        self.kinds = kinds
        self.uris = uris

    @property
    def tag(self) -> dict[str, Any]:
        """The ``_meta`` of every message on this stream (SUB-4)."""
        return {SUBSCRIPTION_KEY: self.request.id}


_MOST_WAITING: Final = 1000
"""Requests that may wait to be begun. Beyond it pings and cancellations wait as well, unread."""

_MOST_HELD: Final = 10 * _MOST_WAITING
"""Requests that may wait while a question is open, since its answer has to be read."""

_LIST_FILTERS: Final[dict[str, ListKind]] = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}


class Session:
    """One client's conversation with a server.

    Args:
        server: What is served.
        channel: Where messages go.
        tasks: Where handlers run.
        connection: A conversation to take up; a new one by default.
        threads: Shared by the sessions of a server; its own by default.
        attached: Whether changes are of interest from the start. Otherwise they become so with the
            first subscription, or with `attach`.
    """

    __slots__ = (
        "__weakref__",
        "_asked",
        "_channel",
        "_closing",
        "_connection",
        "_dirty_kinds",
        "_dirty_uris",
        "_dropped",
        "_flushing",
        "_idle",
        "_listens",
        "_log_rank",
        "_root_handlers",
        "_running",
        "_tasks",
        "_threads",
        "_waiting",
        "_watched",
        "busy_threads",
        "on_exception",
        "on_relief",
        "server",
    )

    def __init__(
        self,
        server: Server,
        channel: Channel,
        tasks: Tasks,
        *,
        connection: Connection | None = None,
        threads: anyio.CapacityLimiter | None = None,
        attached: bool = True,
    ) -> None:
        self.server = server
        self.busy_threads = 0
        self.on_relief: Callable[[], None] = _do_nothing
        self.on_exception: Callable[[Request, BaseException], None] = _take_no_note
        self._channel = channel
        self._tasks = tasks
        self._connection = connection or Connection()
        self._threads = threads or anyio.CapacityLimiter(server.settings.max_threads)
        self._running: dict[Request, _Running] = {}
        self._waiting: dict[Request, contextvars.Context] = {}
        self._listens: dict[Request, _Listen] = {}
        self._watched: set[str] = set()
        self._log_rank = LOG_RANK[server.settings.log_level]
        self._dirty_kinds: dict[ListKind, None] = {}
        self._dirty_uris: dict[str, None] = {}
        self._flushing = False
        self._dropped = 0
        self._closing = False
        self._idle: anyio.Event | None = None
        self._asked: Questions | None = None
        self._root_handlers: list[RootsHandler] = []
        if attached:
            server.changes.attach(self)

    # --- what arrives -----------------------------------------------------------------------------

    def receive(self, text: bytes | bytearray) -> None:
        """Take one message from the client. Never raises and never waits."""
        try:
            message = parse(text)
        except ProtocolError:
            self._handle(self._connection.receive(text))
            return
        self.take(message)

    def take(self, message: Any, origin: Origin | None = None) -> None:
        """Take one message that was parsed already, and what it arrived in; see `receive`."""
        events = self._connection.take(message, origin)
        if len(events) == 1 and type(events[0]) is Request:
            self._serve(events[0])
        else:
            self._handle(events, origin)

    def forget_channel(self) -> None:
        """Send nothing any more: it is given up, and so is what its messages would go to."""
        self._channel = _NOWHERE

    def _handle(self, events: Sequence[Event], origin: Origin | None = None) -> None:
        for event in events:
            kind = type(event)
            if kind is Request:
                self._serve(cast("Request", event))
            elif kind is Refused:
                self._channel.turn_away(cast("Refused", event), origin)
            elif kind is Cancelled:
                self.cancel(cast("Cancelled", event).request)
            elif kind is Notification:
                self._noticed(cast("Notification", event).notice)
            elif kind is Answer:
                self._questions.answered(cast("Answer", event))
            elif kind is Dropped:
                self._dropped_message(cast("Dropped", event), origin)

    def _dropped_message(self, event: Dropped, origin: Origin | None) -> None:
        log.debug("not served: %s", event.reason)
        self._channel.turn_away(event, origin)
        if event.answers is not None:
            self._questions.answered(Answer(event.answers, None, None))

    def _noticed(self, notice: Notice) -> None:
        if notice == "initialized":
            self._questions.release()
            self._flush_changes()
        elif notice == "roots_changed":
            self._questions.forget_roots()
            if self._root_handlers:
                self._tasks.start(self._pass_on_roots())

    def refuse(self, error: ProtocolError) -> None:
        """Tell the client that something it sent could not even be read."""
        log.warning("refused a message: %s", error)
        text = self._connection.send_refusal(error)
        if text is not None:
            self._channel.send(text)

    @property
    def saturated(self) -> bool:
        """Whether so much waits that reading should wait too; `on_relief` tells when it ends."""
        # While a question is open, its answer must be read, whatever stands before it.
        return len(self._waiting) >= _MOST_WAITING and not self._is_asking

    def _read_on(self) -> None:
        """A question was put: its answer stands behind whatever else the client has sent."""
        if len(self._waiting) >= _MOST_WAITING:
            self._tasks.soon(self.on_relief)

    def attach(self) -> None:
        """Take an interest in changes."""
        self.server.changes.attach(self)

    def detach(self) -> None:
        """Take no interest in changes any more."""
        self.server.changes.detach(self)

    @property
    def has_state(self) -> bool:
        """Whether it knows anything that was not negotiated at its beginning."""
        return bool(
            self._watched
            or self._listens
            or self._root_handlers
            or self._is_asking
            or self._log_rank != LOG_RANK[self.server.settings.log_level]
        )

    @property
    def revision(self) -> Revision | None:
        """What was negotiated; None before."""
        return self._connection.revision

    @property
    def client(self) -> ClientFacts:
        """Who was negotiated with."""
        return self._connection.client

    def awaits(self, answer: Id) -> bool:
        """Whether a question of this id is open."""
        return self._asked is not None and self._asked.awaits(answer)

    @property
    def _questions(self) -> Questions:
        # Most sessions never ask anything.
        if self._asked is None:
            self._asked = Questions(
                self._connection,
                self._channel.send,
                self.server.settings.ask_timeout,
                self._read_on,
            )
        return self._asked

    @property
    def _is_asking(self) -> bool:
        return self._asked is not None and self._asked.open

    @property
    def busy(self) -> bool:
        """Whether any handler runs, or waits to."""
        return bool(self._running or self._waiting)

    def _serve(self, request: Request) -> None:
        known = request.known
        capability = known.capability
        if capability is not None and capability not in self.server.registry.advertised:
            self._fail(request, MethodNotFound(f"This server has no {capability}"))
            return
        act = _ACTS.get(known.operation)
        if act is not None:
            self._answer_with(request, act)
        elif capability is None or self._has_room():
            self._begin(request)
        elif len(self._waiting) < _MOST_HELD:
            self._waiting[request] = contextvars.copy_context()
        else:
            self._fail(request, InternalError("Too many requests are waiting; ask again later"))

    def _has_room(self) -> bool:
        # What is not begun takes less memory than an answer that the client does not fetch.
        return (
            len(self._running) < self.server.settings.max_in_flight
            and not self._channel.is_congested()
        )

    def begin_waiting(self) -> None:
        """Begin the requests that wait, as far as there is room.

        A channel calls this when it is no longer congested.
        """
        was_saturated = self.saturated
        while self._waiting and self._has_room():
            request = next(iter(self._waiting))
            self._waiting.pop(request).run(self._begin, request)
        if was_saturated and not self.saturated:
            self.on_relief()
        if not self.busy and self._idle is not None:
            self._idle.set()

    def _answer_with(
        self, request: Request, act: Callable[[Session, Request], Reply | None]
    ) -> None:
        try:
            reply = act(self, request)
        except ProtocolError as error:
            self._fail(request, error)
        else:
            if reply is not None:
                self._succeed(request, reply)

    def _begin(self, request: Request) -> None:
        context: Context[Any] = Context(request, self, self.server.state)
        try:
            if request.known.asks and not _INPUT.isdisjoint(request.params):
                self._replay_of(context)
            reply = OPERATIONS[request.known.operation](self.server, request.params, context)
        except Exception as error:
            self._fail(request, self._error_for(error, context))
            return
        if isinstance(reply, Reply):
            self._succeed(request, reply)
            return
        cancel = self._tasks.start(self._run(request, context, reply))
        if self._connection.is_in_flight(request):
            self._running[request] = _Running(context, cancel)

    async def _run(
        self, request: Request, context: Context[Any], operation: Awaitable[Reply]
    ) -> None:
        try:
            reply = await operation
        except Exception as error:
            replay = context.replay
            if replay is not None and replay.pending:
                self._require_input(request, context)
                return
            self._fail(request, self._error_for(error, context))
        except BaseException as error:
            if _is_suspension(error):
                if context.cancelled or self._closing:
                    self._give_up(request)
                else:
                    self._require_input(request, context)
                return
            if isinstance(error, KeyboardInterrupt) or context.cancelled or self._closing:
                self._give_up(request)
                if isinstance(error, SystemExit):
                    return  # from the clean-up of a handler; the process is not its to end
                raise
            # The handler called sys.exit(), or let through the cancellation of a task of its own.
            self._fail(request, self._error_for(error, context))
        else:
            replay = context.replay
            if replay is not None and replay.pending:
                # The handler swallowed the suspension, so what it returned rests on no answer.
                self._require_input(request, context)
                return
            if replay is not None and replay.used_input:
                reply.ttl, reply.cache_scope = 0, "private"  # CACHE-5
            try:
                self._succeed(request, reply)
            except Exception as error:  # a ``_meta`` that JSON cannot carry
                self._fail(request, self._error_for(error, context))
        finally:
            self._ended(request)

    def _require_input(self, request: Request, context: Context[Any]) -> None:
        """Answer with what has to be asked first (MRTR-2)."""
        assert context.replay is not None
        try:
            asked = context.replay.input_required()
        except Exception as error:
            self._fail(request, self._error_for(error, context))
            return
        self._succeed(request, Reply(members(asked), kind="input_required"))

    def _ended(self, request: Request) -> None:
        if self._running.pop(request, None) is None:
            return  # it ended in its first step and was never counted
        self.begin_waiting()

    def cancel(self, request: Request) -> None:
        """Stop the work on a request; nothing more is sent for it (CANC-1, CANC-4)."""
        self._channel.answer(request, self._connection.forget(request))
        self._stop(request)

    def requests_in(self, origin: Origin) -> list[Request]:
        """The requests that arrived in something, and are not answered yet."""
        return [each for each in self._connection.requests() if each.origin is origin]

    def end(self, request: Request, error: ProtocolError) -> None:
        """Stop the work on a request, and answer it with an error."""
        self._fail(request, error)
        self._stop(request)

    def _stop(self, request: Request) -> None:
        self._listens.pop(request, None)
        running = self._running.get(request)
        if running is not None:
            running.context.cancelled = True
            running.cancel()
            self._questions.give_up(request)
        elif request in self._waiting:
            del self._waiting[request]

    # --- what is answered -------------------------------------------------------------------------

    def _succeed(self, request: Request, reply: Reply) -> None:
        if self._connection.is_in_flight(request):
            stamped = self._stamp(request.revision, request.known, reply)
            text = self._connection.send_result(request, stamped)
            self._channel.answer(request, text)

    def _fail(self, request: Request, error: ProtocolError) -> None:
        if self._connection.is_in_flight(request):
            self._channel.answer(request, self._connection.send_error(request, error), error)

    def _give_up(self, request: Request) -> None:
        if self._connection.is_in_flight(request):
            self._channel.answer(request, self._connection.forget(request))

    def _stamp(self, revision: Revision, known: Method, reply: Reply) -> bytes:
        """The members of a result, with those that its revision adds to every one."""
        text = reply.members
        if not revision.stamped:
            if reply.meta is None:
                return text
            return (text + b"," if text else b"") + members({"_meta": reply.meta})
        stamp = b'"resultType":' + encode(reply.kind)
        if known.cacheable and reply.kind == "complete":  # CACHE-2
            settings = self.server.settings
            ttl = settings.ttl if reply.ttl is None else reply.ttl
            scope = encode(reply.cache_scope or settings.cache_scope)
            stamp += b',"ttlMs":%d,"cacheScope":%b' % (round(ttl * 1000), scope)
        meta = self.server.info_meta(revision)
        if reply.meta:
            meta = members(reply.meta) + b"," + meta
        stamp += b',"_meta":{' + meta + b"}"
        return text + b"," + stamp if text else stamp

    def _error_for(self, error: BaseException, context: Context[Any]) -> ProtocolError:
        """The one place where an exception becomes an error response."""
        error = unwrap(error)
        if isinstance(error, ProtocolError) and not is_result(error, context.request):
            return error
        if isinstance(error, (PublicError, ProtocolError, ElicitationError, ConnectionClosed)):
            self.handler_raised(context.request, error)
            if isinstance(error, ResourceNotFound):
                return not_found(error, error.uri or "", context.request.revision)
            return InternalError(str(error))
        reference = fault(context, error, f"{context.method} failed")
        return InternalError(f"The server failed to answer ({reference})")

    # --- state of a session with a handshake ------------------------------------------------------

    def _set_level(self, request: Request) -> Reply:
        level = request.params.get("level")
        if not isinstance(level, str) or level not in LOG_RANK:
            raise InvalidParams(f"Unknown log level: {level!r}; known: {', '.join(LOG_RANK)}")
        self._log_rank = LOG_RANK[level]
        return EMPTY

    def _subscribe(self, request: Request) -> Reply:
        uri = uri_of(request.params)
        if self.server.registry.find_resource(uri) is None:
            raise not_found(ResourceNotFound(uri), uri, request.revision)
        if len(self._watched) >= self.server.settings.max_subscriptions:
            raise InvalidRequest(f"More than {len(self._watched)} subscriptions; end one first")
        self._watched.add(uri)
        self.server.changes.attach(self)
        return EMPTY

    def _unsubscribe(self, request: Request) -> Reply:
        self._watched.discard(uri_of(request.params))
        return EMPTY

    # --- streams of changes without a handshake ---------------------------------------------------

    def _listen(self, request: Request) -> None:
        wanted = request.params.get("notifications")
        if not is_object(wanted):
            raise InvalidParams('subscriptions/listen needs "notifications", an object')
        if len(self._listens) >= self.server.settings.max_subscriptions:
            raise InvalidRequest(f"More than {len(self._listens)} subscriptions; end one first")
        advertised = self.server.registry.advertised
        uris = wanted.get("resourceSubscriptions", [])
        if not is_array(uris) or not all(isinstance(uri, str) for uri in uris):
            raise InvalidParams('"resourceSubscriptions" must be an array of strings')
        find = self.server.registry.find_resource
        honoured: dict[str, Any] = {
            name: True
            for name, kind in _LIST_FILTERS.items()
            if wanted.get(name) is True and kind in advertised
        }
        known: list[str] = [uri for uri in uris if find(uri) is not None]
        if known:
            honoured["resourceSubscriptions"] = known
        kinds: frozenset[ListKind] = frozenset(
            kind for name, kind in _LIST_FILTERS.items() if name in honoured
        )
        listen = self._listens[request] = _Listen(request, kinds, frozenset(known))
        self.server.changes.attach(self)
        # SUB-1: the acknowledgement is the first message of a subscription.
        params = {"notifications": honoured, "_meta": listen.tag}
        self._notify("notifications/subscriptions/acknowledged", params, request)

    def end_listens(self, *, announce: bool) -> None:
        """End every stream of changes from this side (SUB-6).

        Args:
            announce: Also send ``notifications/cancelled`` for it, as stdio wants (SUB-7).
        """
        for request, listen in list(self._listens.items()):
            del self._listens[request]
            if announce:
                self._notify("notifications/cancelled", {"requestId": request.id}, request)
            self._succeed(request, Reply(b"", listen.tag))

    # --- changes ----------------------------------------------------------------------------------

    def list_changed(self, kind: ListKind) -> None:
        """A list has changed: tell the client, if it is one that wants to know. From any thread."""
        self._note_change(self._dirty_kinds, kind)

    def resource_changed(self, uri: str) -> None:
        """A resource has changed: tell the client, if it watches it. From any thread."""
        self._note_change(self._dirty_uris, uri)

    def _note_change(self, dirty: dict[T, None], changed: T) -> None:
        # Many changes at once become one notification of each kind.
        with _noting:
            dirty[changed] = None
            begun, self._flushing = self._flushing, True
        if not begun:
            self._tasks.soon(self._flush_changes)

    def _flush_changes(self) -> None:
        with _noting:
            self._flushing = False
            if self._closing or self._connection.state is State.OPENING:
                return  # LIFE-6: kept until notifications/initialized arrives
            kinds, uris = list(self._dirty_kinds), list(self._dirty_uris)
            self._dirty_kinds.clear()
            self._dirty_uris.clear()
        handshaken = self._connection.state is State.OPEN
        for kind in kinds:
            method = f"notifications/{kind}/list_changed"
            if handshaken:
                self._notify(method)
            for listen in self._listens.values():
                if kind in listen.kinds:
                    self._notify(method, {"_meta": listen.tag}, listen.request)
        for uri in uris:
            method = "notifications/resources/updated"
            if handshaken and _watches(self._watched, uri):
                self._notify(method, {"uri": uri})
            for listen in self._listens.values():
                if _watches(listen.uris, uri):
                    self._notify(method, {"uri": uri, "_meta": listen.tag}, listen.request)

    def _notify(
        self, method: str, params: Mapping[str, Any] | None = None, about: Request | None = None
    ) -> None:
        self._channel.send(self._connection.send_notification(method, params), about)

    # --- asking the client ------------------------------------------------------------------------

    def _replay_of(self, context: Context[Any]) -> Replay:
        if context.replay is None:
            context.replay = Replay(
                context.request,
                self.server.sealer("request state"),
                self.server.steps,
                lifetime=self.server.settings.state_lifetime,
                principal=_principal_of(context.request),
            )
        return context.replay

    async def ask(self, context: Context[Any], ask: Ask[Any]) -> Any:
        """Ask the client something and wait for the answer, in the way of its revision."""
        request = context.request
        self._check_askable(context)
        if request.revision.client_asks == "result":
            return await self._replay_of(context).ask(ask)
        return await self._questions.ask(ask, request.revision, request.client, request)

    @staticmethod
    def _check_askable(context: Context[Any]) -> None:
        """Refuse to ask where no answer can arrive."""
        request = context.request
        if context.cancelled:
            # A thread is not stopped when the client gives up.
            raise AskError("The client gave up on the request")
        if request.revision.client_asks == "result" and not request.known.asks:  # MRTR-1
            raise AskError(f"Nothing can be asked in {request.method}")

    async def gather(self, context: Context[Any], asks: Sequence[Ask[Any]]) -> list[Any]:
        """Ask the client several things at once."""
        request = context.request
        self._check_askable(context)
        if request.revision.client_asks == "result":
            return await self._replay_of(context).gather(asks)
        for ask in asks:
            ask.check(request.revision, request.client)
            ask.params(request.revision)
        answers: list[Any] = [None] * len(asks)
        failures: dict[int, Exception] = {}

        async def fetch(place: int, ask: Ask[Any]) -> None:
            try:
                answers[place] = await self._questions.ask(
                    ask, request.revision, request.client, request
                )
            except Exception as error:
                failures[place] = error
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for place, ask in enumerate(asks):
                group.start_soon(fetch, place, ask)
        if failures:
            raise failures[min(failures)]
        return answers

    async def begin_step(self, context: Context[Any], key: str) -> Step | None:
        """A step of the call by its name; None where handlers do not run again."""
        if context.request.revision.client_asks == "request":
            return None
        return await self._replay_of(context).begin_step(key)

    async def sample_with_tools(
        self,
        context: Context[Any],
        sample: Sample,
        functions: Sequence[Callable[..., Any]],
        rounds: int,
    ) -> SampleResult:
        """Let the client's model call functions until it has an answer."""
        return await sample_with_tools(context, sample, functions, rounds)

    def on_roots_changed(self, handler: RootsHandler) -> None:
        """Call a function whenever this client says that its roots have changed."""
        if handler not in self._root_handlers:
            self._root_handlers.append(handler)

    async def _pass_on_roots(self) -> None:
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
            except Exception:
                log.exception("a handler for changed roots failed")

    def lose_client(self) -> None:
        """The client will not answer any more: whoever waits for an answer is told."""
        self._questions.lose()

    # --- what a context asks for ------------------------------------------------------------------

    def notify(self, request: Request, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that belongs to a request, unless that is over. From any thread."""
        text = self._connection.send_notification(method, params)
        # A page that was asked for is often completed when the request is long over.
        send = self._send_anyway if method == _OUTLASTING else self._send_about
        if self._tasks.on_loop():
            send(request, text)
        elif self._channel.is_congested(request) and method != _OUTLASTING:
            self._leave_out()
        else:
            self._tasks.soon(lambda: send(request, text))

    def _send_anyway(self, request: Request, text: bytes) -> None:
        if not self._closing:
            about = request if self._connection.is_in_flight(request) else None
            self._channel.send(text, about)

    def _send_about(self, request: Request, text: bytes) -> None:
        if not self._connection.is_in_flight(request):
            return  # PROG-3, CANC-4
        if self._channel.is_congested(request):
            self._leave_out()
            return
        self._channel.send(text, request)

    def _leave_out(self) -> None:
        if not self._dropped:
            log.warning("the client does not keep up: log messages and progress are left out")
        self._dropped += 1

    def log_threshold(self, request: Request) -> int | None:
        """The rank of the least level to send with a request; None: nothing (LOG-2, LOG-4)."""
        if request.revision.handshake:
            return self._log_rank
        return None if request.log_level is None else LOG_RANK[request.log_level]

    def announce_list(self, kind: ListKind) -> None:
        """Tell every client of this server that a list has changed. From any thread."""
        self.server.changes.list_changed(kind)

    def announce_resource(self, uri: str) -> None:
        """Tell every client of this server that a resource has changed. From any thread."""
        self.server.changes.resource_changed(uri)

    def handler_raised(self, request: Request, error: BaseException) -> None:
        """A handler raised: for tests that want the real exception."""
        self.on_exception(request, error)

    async def drain(self, request: Request) -> None:
        """Wait until the client keeps up."""
        await self._channel.drain(request)

    def close_stream(self, request: Request, retry: float | None) -> None:
        """Close the connection that a request's messages go to. From any thread."""
        if not request.revision.polling:
            return
        if self._tasks.on_loop():
            self._channel.let_go(request, retry)
        else:
            self._tasks.soon(lambda: self._channel.let_go(request, retry))

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run a blocking function in a worker thread; a cancellation does not wait for it."""

        # A thread that waits for this one holds its place already; waiting for another could take
        # forever.
        place = None if _thread_waits.get() else _Place(self._threads, self._tasks)
        if place is not None:
            await place.take()

        def counted() -> T:
            if place is not None and not place.begin():
                raise ConnectionClosed("nobody waits for this any more")
            self.busy_threads += 1
            try:
                return function()
            finally:
                self.busy_threads -= 1
                if place is not None:
                    place.leave()

        try:
            own = anyio.CapacityLimiter(1)
            return await anyio.to_thread.run_sync(counted, abandon_on_cancel=True, limiter=own)
        finally:
            if place is not None:
                place.abandon()

    def from_thread(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run an async function on the event loop, from a worker thread, and wait for it."""
        outer = _thread_waits.set(True)
        try:
            return anyio.from_thread.run(function, *args)
        finally:
            _thread_waits.reset(outer)

    def run_later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run an async function on the event loop. From any thread."""
        self._tasks.soon(lambda: self._tasks.start(function()))

    async def read_resource(self, uri: str, context: Context[Any]) -> Sequence[ResourceContents]:
        """Read one of the server's own resources."""
        return (await read(self.server, uri, context))[1].contents

    # --- the end ----------------------------------------------------------------------------------

    async def wait_idle(self) -> None:
        """Wait until no handler runs."""
        while self.busy:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def aclose(self) -> None:
        """Cancel what runs, wait until it has cleaned up, and stop telling of changes."""
        self._closing = True
        self._questions.lose()
        self.server.changes.detach(self)
        for request in self._waiting:
            self._give_up(request)
        self._waiting.clear()
        for running in list(self._running.values()):
            running.context.cancelled = True
            running.cancel()
        await self.wait_idle()


def _principal_of(request: Request) -> str:
    return ("" if request.origin is None else request.origin.http.principal) or ""


_ACTS: Final[Mapping[str, Callable[[Session, Request], Reply | None]]] = {
    "subscribe": Session._subscribe,
    "unsubscribe": Session._unsubscribe,
    "set_level": Session._set_level,
    "listen": Session._listen,
}
"""What is done at once, by the session itself."""


def _do_nothing() -> None:
    """Nobody waits for relief."""


def _take_no_note(request: Request, error: BaseException) -> None:
    """Nobody wants to know."""


def _watches(watched: set[str] | frozenset[str], uri: str) -> bool:
    """Whether a change of this URI is of interest: it is watched, or lies below what is."""
    if uri in watched:
        return True
    return any(uri.startswith(each if each.endswith("/") else each + "/") for each in watched)


def _is_suspension(error: BaseException) -> bool:
    """Whether an exception, perhaps out of a task group, says that answers are missing.

    What failed beside it fails again once they are there, if it does not depend on them.
    """
    if isinstance(error, Suspended):
        return True
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    return any(map(_is_suspension, inner))
