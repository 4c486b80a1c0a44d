"""The context of a request, as its handler sees it: facts, and messages to the client.

A context has plain facts and a `ContextBackend`: a unit test needs neither a session nor an app.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from functools import partial, wraps
from math import isfinite
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    TypeAlias,
    cast,
    overload,
)

from pydantic_core import from_json
from typing_extensions import ParamSpec, TypedDict, TypeVar, Unpack

from mcpkit._input_requests.requester import Requester
from mcpkit._input_requests.steps import called
from mcpkit._protocol.connection import Request
from mcpkit._protocol.input_request import InputRequest
from mcpkit._protocol.messages import Id, encode
from mcpkit._protocol.revisions import ClientProfile, Declarable, Revision
from mcpkit._protocol.wire import implementation_from_wire
from mcpkit._signature.schema import typed
from mcpkit._utils.names import other_attribute, with_suggestions
from mcpkit._utils.quota import ANONYMOUS, limited
from mcpkit.elicitation import ChoiceValues, Elicit, Elicitation, ElicitUrl
from mcpkit.errors import InputRequestError, InvalidInputResponse
from mcpkit.roots import Root, Roots
from mcpkit.sampling import (
    AskModelOptions,
    Conversation,
    Sample,
    SampleOptions,
    SampleResult,
    json_instruction,
    read_json,
)
from mcpkit.types import LOG_RANK, Implementation, LogLevel, Principal, ResourceContents

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

    from mcpkit._concurrency.threads import Threads
    from mcpkit.http import HttpRequest
    from mcpkit.tasks.current import CurrentTask
    from mcpkit.types import ResourceResult

StateT = TypeVar("StateT", default=Any)
P = ParamSpec("P")
T = TypeVar("T")

CallNext: TypeAlias = Callable[[], Awaitable[Any]]
"""Continues with a request, and returns the value to answer with; an argument of middleware."""

ListKind: TypeAlias = Literal["tools", "resources", "prompts"]


def do_nothing() -> None:
    """Do nothing; the default of callbacks."""


class AskOptions(TypedDict, total=False):
    """The options of an input request."""

    key: str | None
    """The name of the request, unique within the call; derived from its content if None."""
    timeout: float | None
    """Seconds to wait (before 2026-07-28); the app's ``ask_timeout`` if None."""


class RunOwner:
    """The session that a request arrived in, or the run of a task, as a context needs it.

    The defaults are those of a task, whose client may have left.
    """

    task: CurrentTask | None = None
    """The task that runs; None if a client waits for the response."""

    threads: Threads
    """The worker threads for blocking functions."""

    on_exception: Callable[[Request, BaseException], object] | None = None
    """Called with the exception behind a failure."""

    @property
    def is_closing(self) -> bool:
        """True if every run of the owner ends."""
        raise NotImplementedError

    def make_requester(self, run: Any) -> Requester:
        """Return how a run requests input; `InvalidParams` if it cannot continue."""
        raise NotImplementedError

    def respond(self, run: Any, outcome: Any) -> None:
        """Answer the request of a run, which may go on with another request."""
        raise NotImplementedError

    def take_outcome(self, run: Any, outcome: Any) -> None:
        """Act on the outcome of a run."""
        raise NotImplementedError

    def notify(self, request: Request, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification of a request, unless its client is slow. From any thread."""
        raise NotImplementedError

    def log_threshold(self, request: Request) -> int | None:
        """Return the rank of the lowest log level to send with a request; None: nothing."""
        raise NotImplementedError

    def on_roots_changed(self, handler: Callable[[list[Root]], object]) -> None:
        """Call a function whenever the client reports that its roots have changed."""

    async def drain(self, request: Request) -> None:
        """Wait until the client has read enough of a request's messages."""

    def close_stream(self, request: Request, retry: float | None) -> None:
        """Close a request's connection, if the client can reconnect. From any thread."""


class ContextBackend:
    """The run of one request, as its context and its handler need it."""

    __slots__ = (
        *("asker", "cancel_task", "cancelled", "is_over", "last_progress", "request"),
        *("server", "session", "states"),
    )

    def __init__(self, session: RunOwner, server: Any, request: Request) -> None:
        self.session = session
        """The owner of the run."""
        self.server = server
        """The `mcpkit._server.server.Server` that the request arrived at."""
        self.request = request
        self.states: Mapping[Any, Any] = server.states
        """What lifespans have yielded, by the app; that of the served app by None."""
        self.cancelled = False
        """True once the client has cancelled; a thread must check."""
        self.is_over = False
        """True once its outcome is known."""
        self.cancel_task: Callable[[], object] = do_nothing
        """Cancels the task that runs it, once there is one."""
        self.last_progress: float | None = None
        self.asker: Requester | None = None
        """How the run requests input from its client; None until it does."""

    def requester(self) -> Requester:
        """Return how this run requests input, chosen when it is first needed."""
        if self.asker is None:
            self.asker = self.session.make_requester(self)
        return self.asker

    @property
    def repeats(self) -> bool:
        """True while the handler repeats what it did in an earlier round."""
        return self.asker is not None and bool(self.asker.ahead)

    async def ask(self, ask: InputRequest[T]) -> T:
        """Send the client an input request, in the way of its revision; return the answer."""
        answer: T = (await self.gather([ask]))[0]
        return answer

    async def gather(self, asks: Sequence[InputRequest[Any]]) -> list[Any]:
        """Send the client several input requests at once."""
        if self.cancelled:
            # Cancelling does not stop a thread.
            raise InputRequestError("The client gave up on the request")
        answers, slot = self.requester().gather(asks), limited.get()
        return await (answers if slot is None else slot.pause(answers))

    async def sample_with_tools(
        self,
        sample: Sample,
        functions: Sequence[Callable[..., Any]],
        rounds: int,
        context: Context[Any],
    ) -> SampleResult:
        """Ask the client's model, which may call functions before it answers.

        After `rounds` of calls it has to answer without tools. The functions get the context.
        """
        raise NotImplementedError

    def on_exception(self, error: BaseException) -> None:
        """Pass on the exception behind a result or error that hides it, for tests."""
        if self.request.operation is not None:
            self.request.operation.exception = error
        if self.session.on_exception is not None:
            self.session.on_exception(self.request, error)

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run a blocking function in a worker thread."""
        origin = self.request.origin
        owner = ANONYMOUS if origin is None else origin.owner
        return await self.session.threads.run(function, owner)

    def from_thread(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run an async function on the event loop, from a worker thread, and wait for it."""
        return self.session.threads.run_on_loop(function, *args)


class Delivery:
    """A sent message: await it to wait for a slow client, or ignore it."""

    __slots__ = ("_backend",)

    def __init__(self, backend: ContextBackend | None) -> None:
        self._backend = backend

    def __await__(self) -> Generator[Any, Any, None]:
        if self._backend is not None:
            yield from self._backend.session.drain(self._backend.request).__await__()


_NOT_SENT: Final = Delivery(None)


class Client:
    """The client that sent the request, by its own account: a hint, not a proof (SEC-15)."""

    __slots__ = ("_facts", "_revision")

    def __init__(self, facts: ClientProfile, revision: Revision) -> None:
        self._facts = facts
        self._revision = revision

    @property
    def info(self) -> Implementation | None:
        """The client's name and version; None if it did not send them."""
        info = self._facts.info
        return None if info is None else implementation_from_wire(info)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The client's capabilities, as the object it declared."""
        return self._facts.capabilities

    def supports(self, *path: str | Declarable) -> bool:
        """Return True if the client declared a capability: ``supports("sampling", "tools")``.

        Or an `Extension`: ``supports(Apps)``. An empty ``elicitation`` means form mode (ELIC-1). A
        capability that is newer than the revision of the request does not count.
        """
        return self._facts.supports(*path) and self._revision.lets_ask(*path)


class Facts(Generic[StateT]):
    """The common part of `Context` and `SyncContext`: the facts of a request, and notifications."""

    __slots__ = ("backend", "origin")

    backend: ContextBackend
    """The run of the request."""

    def __init__(self, backend: ContextBackend, origin: tuple[Any, ...] = ()) -> None:
        self.backend = backend
        self.origin = origin
        """How the app that it runs in is included: each `Inclusion`, its own first."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        """Let ``pydantic.validate_call`` pass a context on."""
        del source, handler
        from pydantic_core import core_schema  # loaded only if used

        return core_schema.is_instance_schema(cls)

    if not TYPE_CHECKING:  # type checkers would take every attribute for defined

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that raised: show its error
                return object.__getattribute__(self, name)
            return other_attribute(self, "ctx", name)

    # --- facts ------------------------------------------------------------------------------------

    @property
    def request(self) -> Request:
        """The request, as the connection received it."""
        return self.backend.request

    @property
    def state(self) -> StateT:
        """The value that the app's lifespan yielded; None without one.

        In an included app it is that of its own lifespan, or else of the app around it.
        """
        states, origin = self.backend.states, self.origin
        app = next((each.app for each in origin if each.app in states), None) if origin else None
        return cast("StateT", states[app])

    @property
    def cancelled(self) -> bool:
        """True once the client has cancelled the request.

        An async handler is cancelled; a plain ``def`` should check this in long loops.
        """
        return self.backend.cancelled

    @property
    def is_replay(self) -> bool:
        """True while the handler repeats what it did before, with the answers that it got then."""
        return self.backend.repeats

    @property
    def request_id(self) -> Id:
        """The id of the request, with its own type: a string or an integer."""
        return self.request.id

    @property
    def method(self) -> str:
        """The method of the request, such as ``tools/call``."""
        return self.request.method

    @property
    def revision(self) -> str:
        """The protocol revision that serves this request, such as ``2025-11-25``."""
        return self.request.revision.version

    @property
    def meta(self) -> Mapping[str, Any]:
        """The ``_meta`` of the request; empty if it has none."""
        return self.request.meta

    @property
    def client(self) -> Client:
        """The client that sent the request."""
        return Client(self.request.client, self.request.revision)

    @property
    def trace_id(self) -> str | None:
        """The id of the trace that the request belongs to: 32 hex digits; None if it has none."""
        return self.request.trace_id

    @property
    def principal(self) -> Principal | None:
        """The authenticated caller; None without authentication, and on stdio."""
        return self.request.principal

    @property
    def task(self) -> CurrentTask | None:
        """The task that this call has become; None if the client waits for the response."""
        return self.backend.session.task

    @property
    def http(self) -> HttpRequest | None:
        """The HTTP request that this one arrived in; None on other transports."""
        origin = self.request.origin
        return None if origin is None else origin.http

    # --- notifications ----------------------------------------------------------------------------

    def log(self, level: LogLevel, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message to the client, if it wants this level.

        A handler that is replayed does not repeat its messages.

        Args:
            level: One of the eight levels of RFC 5424.
            data: Any JSON value, often a sentence. No secrets (LOG-7).
            logger: A name for the source.

        Returns:
            Await it to wait for a slow client, or ignore it.
        """
        backend = self.backend
        threshold = backend.session.log_threshold(backend.request)
        if threshold is None or LOG_RANK[level] < threshold or backend.repeats:
            return _NOT_SENT
        params: dict[str, Any] = {"level": level}
        if logger is not None:
            params["logger"] = logger
        params["data"] = from_json(encode(data, mode="base64", fallback=str))
        backend.session.notify(backend.request, "notifications/message", params)
        return Delivery(backend)

    def debug(self, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message at level debug; see `log`."""
        return self.log("debug", data, logger=logger)

    def info(self, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message at level info; see `log`."""
        return self.log("info", data, logger=logger)

    def warning(self, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message at level warning; see `log`."""
        return self.log("warning", data, logger=logger)

    def error(self, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message at level error; see `log`."""
        return self.log("error", data, logger=logger)

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Delivery:
        """Report progress, if the client asked for it.

        Args:
            progress: The completed amount, in any unit. A value that does not exceed the last one
                is not sent (PROG-2).
            total: The total amount, in the same unit; None if unknown.
            message: A sentence for the user (2025-03-26 and later).

        Returns:
            Await it to wait for a slow client, or ignore it.
        """
        backend = self.backend
        request = backend.request
        task = backend.session.task
        if task is not None:
            done = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
            task.status(done if message is None else f"{message} ({done})")
        token = request.meta.get("progressToken")
        last = backend.last_progress
        if token is None or not isfinite(progress) or (last is not None and progress <= last):
            return _NOT_SENT
        backend.last_progress = progress
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None and request.revision.progress_message:
            params["message"] = message
        backend.session.notify(request, "notifications/progress", params)
        return Delivery(backend)

    def close_stream(self, retry: float | None = None) -> None:
        """Close the HTTP connection; the client reconnects for the response by itself.

        For clients of 2025-11-25 over Streamable HTTP, during long work. Messages are held until
        the client reconnects after `retry` seconds; None: those of the endpoint's ``retry``.
        """
        self.backend.session.close_stream(self.request, retry)

    def list_changed(self, kind: ListKind) -> None:
        """Notify clients that the list of tools, resources or prompts has changed.

        Adding and removing entries through the app does so by itself.
        """
        self.backend.server.changes.list_changed(kind)

    def notify_resource_updated(self, uri: str) -> None:
        """Notify the clients that are subscribed to a resource of a change."""
        self.backend.server.changes.resource_changed(self._outer(uri))

    def _outer(self, uri: str) -> str:
        """Return the URI in the served app of one in the app that serves the request."""
        for each in self.origin:
            uri = each.uri(uri)
        return uri

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Notify the client that the user has finished at a URL (2025-11-25 only)."""
        request = self.request
        if request.revision.elicitation_ids:
            params = {"elicitationId": elicitation_id}
            self.backend.session.notify(request, "notifications/elicitation/complete", params)

    def roots_changed(self, handler: Callable[[list[Root]], object]) -> None:
        """Call a function, async or not, with the new roots whenever they have changed.

        On 2026-07-28 clients do not send such notifications.
        """
        self.backend.session.on_roots_changed(handler)


class Context(Facts[StateT]):
    """The context of a request, for an ``async def`` handler with a parameter ``ctx: Context``.

    ``Context[State]`` types `state`, which the app's lifespan yielded.
    """

    __slots__ = ()

    async def read_resource(self, uri: str) -> Sequence[ResourceContents]:
        """Read one of the server's own resources.

        Raises:
            ResourceNotFound: There is no resource at this URI.
        """
        server = self.backend.server
        if self.origin and server.catalog.resource(outer := self._outer(uri)) is not None:
            uri = outer
        result: ResourceResult = await server.read_resource(uri, self)
        return result.contents

    @overload
    async def step(
        self, key: str, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @overload
    async def step(
        self, key: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def step(self, key: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a side effect once per call, even if the handler is replayed.

        On 2026-07-28 and in tasks the code before a question runs again if the process has lost the
        handler when the answer arrives, unless it is in a step. Elsewhere this just calls the
        function.

        Args:
            key: The name of the step, unique within the call.
            function: Called with the remaining arguments; in a worker thread unless it is async,
                because it may block. Its result must be a JSON value, or of the type of its return
                annotation.

        Returns:
            The result of the function.
        """
        step = await self.backend.requester().start_step(key)
        call = partial(function, *args, **kwargs)
        if step is None:
            return await called(call, self.backend.in_thread)
        if not step.done:
            try:
                with step.running():
                    result = await called(call, self.backend.in_thread)
            except BaseException:
                await step.fail()
                raise
            await step.finish(result)
        return typed(function, step.value)

    # --- input requests ---------------------------------------------------------------------------

    @overload
    async def elicit(
        self, message: str, schema: type[T], **options: Unpack[AskOptions]
    ) -> Elicitation[T]: ...

    @overload
    async def elicit(
        self, message: str, schema: None = None, **options: Unpack[AskOptions]
    ) -> Elicitation[None]: ...

    @overload
    async def elicit(
        self, message: str, schema: ChoiceValues, **options: Unpack[AskOptions]
    ) -> Elicitation[str]: ...

    @overload
    async def elicit(
        self, message: str, schema: Any, **options: Unpack[AskOptions]
    ) -> Elicitation[Any]: ...

    @with_suggestions("elicit(…)")
    async def elicit(
        self,
        message: str,
        schema: Any = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Elicitation[Any]:
        """Ask the user to fill in a form.

        Args:
            message: The question.
            schema: The type of the answer: a model, dataclass or TypedDict with flat fields; a
                scalar type, Literal or Enum; a list of choices, or a mapping of choices to titles;
                `Choices`; None for a confirmation. No secrets: use `elicit_url` for those (ELIC-2).
            key: The name of the question, unique within the call; derived from its content if None.
            timeout: Seconds to wait (before 2026-07-28); the app's ``ask_timeout`` if None.

        Returns:
            `Accepted` with the validated data, `Declined`, or `Dismissed`.

        Raises:
            ElicitationError: A form of the client's revision cannot show the schema.
            MissingClientCapability: The client does not support elicitation.
            InputRequestError: There is no usable answer (before 2026-07-28).
            ConnectionClosed: The client has disconnected (before 2026-07-28).
        """
        return await self.backend.ask(Elicit[Any](message, schema, key=key, timeout=timeout))

    async def elicit_url(
        self,
        message: str,
        url: str,
        *,
        elicitation_id: str | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Elicitation[None]:
        """Ask the user to open a URL, for data that must not pass through the client.

        Args:
            message: The reason, for the user.
            url: The URL; without personal data or credentials (ELIC-6).
            elicitation_id: Identifies the request to the client, for `elicitation_complete`
                (2025-11-25); random if None.
            key, timeout: As for `elicit`.

        Returns:
            `Accepted` means consent to open the URL, not completion (ELIC-10).

        Raises:
            As `elicit`.
        """
        id = elicitation_id or os.urandom(16).hex()
        return await self.backend.ask(ElicitUrl(message, url, id, key=key, timeout=timeout))

    @overload
    async def sample(
        self, messages: Conversation, *, result_type: type[T], **options: Unpack[AskModelOptions]
    ) -> T: ...

    @overload
    async def sample(
        self,
        messages: Conversation,
        *,
        result_type: None = None,
        **options: Unpack[AskModelOptions],
    ) -> SampleResult: ...

    async def sample(
        self,
        messages: Conversation,
        *,
        result_type: Any = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        tool_rounds: int = 8,
        **options: Unpack[SampleOptions],
    ) -> Any:
        """Ask the client's model.

        Args:
            messages: A text, or the conversation so far.
            result_type: Make the model answer with JSON of this type, and return the validated
                value. The model may correct an invalid answer once.
            tools: Functions that the model may call (2025-11-25 and later); they run here.
            tool_rounds: The maximum number of rounds of tool calls before the answer.
            options: max_tokens (1024), system, temperature, stop, hints (names of models), cost,
                speed, intelligence (0 to 1), include_context, metadata, tool_choice, key, timeout.

        Returns:
            A `SampleResult` with the ``text`` of the answer; or a value of `result_type`.

        Raises:
            MissingClientCapability: The client does not support sampling, or not with tools.
            InvalidInputResponse: The model's answers did not match `result_type`, twice.
            InputRequestError, ConnectionClosed: As for `elicit`.
        """
        if result_type is not None:
            options["system"] = json_instruction(result_type, options.get("system"))
        ask: Callable[[Sample], Awaitable[SampleResult]] = self.backend.ask
        if tools is not None:
            ask = partial(
                self.backend.sample_with_tools, functions=tools, rounds=tool_rounds, context=self
            )
        sample = Sample(messages, **options)
        result = await ask(sample)
        if result_type is None:
            return result
        try:
            return read_json(result.text, result_type)
        except InvalidInputResponse as error:
            again = sample.corrected(result, str(error))
        return read_json((await ask(again)).text, result_type)

    async def roots(self, *, key: str | None = None, timeout: float | None = None) -> list[Root]:
        """Ask for the folders that the client shows to servers: hints, not permissions (ROOT-1).

        Args:
            key, timeout: As for `elicit`.

        Raises:
            MissingClientCapability: The client does not support roots.
            InputRequestError, ConnectionClosed: As for `elicit`.
        """
        return await self.backend.ask(Roots(key=key, timeout=timeout))

    async def gather(self, *asks: InputRequest[Any]) -> list[Any]:
        """Send several input requests at once: one round on 2026-07-28, in parallel before.

        ``name, roots = await ctx.gather(Elicit("Name?", str), Roots())``

        Args:
            asks: `Elicit`, `Sample` and `Roots` values.

        Returns:
            The answers, in the order of the requests.

        Raises:
            As the single requests.
        """
        return await self.backend.gather(asks)


def _blocking(
    method: Callable[Concatenate[Context[Any], P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncContext[Any], P], T]:
    """Return a method of `Context` as one that waits in a worker thread, with its overloads."""

    @wraps(method)
    def call(self: SyncContext[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        context = Context[Any](self.backend, self.origin)
        return self.backend.from_thread(partial(method, context, *args, **kwargs))

    return call


class SyncContext(Facts[StateT]):
    """The context of a request, for a plain ``def`` handler, which runs in a worker thread.

    Like `Context`, with blocking methods instead of async ones.
    """

    __slots__ = ()

    def __init__(self, context: Context[Any]) -> None:
        super().__init__(context.backend, context.origin)

    def step(self, key: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a side effect once per call; blocks. As `Context.step`, for sync functions."""
        wait = self.backend.from_thread
        step = wait(lambda: self.backend.requester().start_step(key))
        if step is None:
            return function(*args, **kwargs)
        if not step.done:
            try:
                with step.running():
                    result = function(*args, **kwargs)
            except BaseException:
                wait(step.fail)
                raise
            wait(step.finish, result)
        return cast("T", typed(function, step.value))

    read_resource = _blocking(Context.read_resource)
    elicit = _blocking(Context.elicit)
    elicit_url = _blocking(Context.elicit_url)
    sample = _blocking(Context.sample)
    roots = _blocking(Context.roots)
    gather = _blocking(Context.gather)
