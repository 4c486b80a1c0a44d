"""The context of a request, as its handler sees it: facts about it, and ways to the client.

A context holds plain facts and a `ContextBackend`, so that a handler and its unit test need
neither a session nor an app.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, overload

from pydantic_core import to_jsonable_python
from typing_extensions import ParamSpec, TypeVar, Unpack

from mcpkit._input_requests.steps import Step, typed
from mcpkit._protocol.connection import Request
from mcpkit._protocol.input_request import Ask
from mcpkit._protocol.messages import Id
from mcpkit._protocol.revisions import ClientProfile
from mcpkit._protocol.wire import implementation_from_wire
from mcpkit._utils.json import is_object
from mcpkit._utils.names import unknown_attribute, with_suggestions
from mcpkit.elicitation import Elicit, Elicitation, ElicitUrl
from mcpkit.errors import InvalidInputResponse, UrlElicitationRequired
from mcpkit.roots import Root, Roots
from mcpkit.sampling import (
    Sample,
    SampleMessage,
    SampleOptions,
    SampleResult,
    json_instruction,
    read_json,
)
from mcpkit.types import LOG_RANK, Implementation, LogLevel, Principal, ResourceContents

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

    from mcpkit.http import HttpRequest

__all__ = [
    "CallNext",
    "Client",
    "Context",
    "ContextBackend",
    "CurrentTask",
    "Delivery",
    "ListKind",
    "SyncContext",
]

StateT = TypeVar("StateT", default=Any)
P = ParamSpec("P")
T = TypeVar("T")

CallNext: TypeAlias = Callable[[], Awaitable[Any]]
"""Goes on with a request, and returns the value to answer it with; given to middleware."""

ListKind: TypeAlias = Literal["tools", "resources", "prompts"]


class ContextBackend(Protocol):
    """The run of one request, as its context and its handler need it."""

    request: Request
    """The request as the connection received it."""

    state: Any
    """The value that the app's lifespan yielded; None without one."""

    cancelled: bool
    """True once the client gave up. An async handler is stopped anyway; a thread has to look."""

    last_progress: float | None
    """The progress that was reported last; None before the first report."""

    @property
    def task(self) -> CurrentTask | None:
        """The task that the run is a leg of; None if it is a request's."""
        ...

    @property
    def overrides(self) -> Mapping[Callable[..., Any], Callable[..., Any]]:
        """Functions in the place of those that dependencies come from; only tests have any."""
        ...

    @property
    def repeats(self) -> bool:
        """True while the handler does again what it has done in an earlier round."""
        ...

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that belongs to the request. From any thread.

        The notification may be dropped when the client does not keep up, and is dropped when the
        request is over.
        """
        ...

    def log_threshold(self) -> int | None:
        """Return the rank of the least log level that the client wants; None: it wants nothing."""
        ...

    async def drain(self) -> None:
        """Wait until the client has taken enough of the messages sent with the request."""
        ...

    def close_stream(self, retry: float | None) -> None:
        """Close the connection that the request's messages go to, if the client can come back for
        them. From any thread."""
        ...

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run a blocking function in a worker thread."""
        ...

    def from_thread(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run an async function on the event loop, from a worker thread, and wait for it."""
        ...

    def run_later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run an async function on the event loop. From any thread."""
        ...

    async def read_resource(self, uri: str) -> Sequence[ResourceContents]:
        """Read one of the server's own resources."""
        ...

    async def ask(self, ask: Ask[Any]) -> Any:
        """Ask the client something and wait for the answer, in the way of its revision."""
        ...

    async def gather(self, asks: Sequence[Ask[Any]]) -> list[Any]:
        """Ask the client several things at once."""
        ...

    async def begin_step(self, key: str) -> Step | None:
        """Begin a step of the call by its name; None if handlers do not run again."""
        ...

    async def open_url(self, error: UrlElicitationRequired) -> Exception:
        """Have the user open the page that an error wants, if the client is not asked by errors.

        Returns:
            The exception to answer the request with.
        """
        ...

    async def sample_with_tools(
        self, sample: Sample, functions: Sequence[Callable[..., Any]], rounds: int
    ) -> SampleResult:
        """Let the client's model call functions until it has an answer."""
        ...

    def on_roots_changed(self, handler: Callable[[list[Root]], object]) -> None:
        """Call a function whenever this client says that its roots have changed."""
        ...

    def handler_raised(self, error: BaseException) -> None:
        """Take note of the real exception behind a result or error that hides it."""
        ...

    def announce_list(self, kind: ListKind) -> None:
        """Tell every interested client that a list has changed. From any thread."""
        ...

    def announce_resource(self, uri: str) -> None:
        """Tell every interested client that a resource has changed. From any thread."""
        ...


class CurrentTask:
    """The task that a handler works on; ``ctx.task``.

    Args:
        id: As its client knows it.
        deadline: When it may be forgotten, in seconds since the epoch; None: never.
        note: Takes the text that clients see beside its status.
    """

    __slots__ = ("_note", "deadline", "id")

    def __init__(self, id: str, deadline: float | None, note: Callable[[str], object]) -> None:
        self.id = id
        self.deadline = deadline
        self._note = note

    def __repr__(self) -> str:
        return f"<CurrentTask {self.id}>"

    def status(self, message: str) -> None:
        """Tell clients how far the task is, in a sentence. From any thread.

        They see the last one that was told, about once a second, and at the end.

        Args:
            message: Replaces the one before; beyond 1,000 characters it is cut.
        """
        self._note(message)


class Delivery:
    """The sending of a message. Await it to let a slow client catch up, or ignore it."""

    __slots__ = ("_peer",)

    def __init__(self, peer: ContextBackend | None) -> None:
        self._peer = peer

    def __await__(self) -> Generator[Any, Any, None]:
        if self._peer is not None:
            yield from self._peer.drain().__await__()


_NOT_SENT: Final = Delivery(None)


class Client:
    """The client that sent the request, by its own account: a hint, never a proof (SEC-15)."""

    __slots__ = ("_facts",)

    def __init__(self, facts: ClientProfile) -> None:
        self._facts = facts

    @property
    def info(self) -> Implementation | None:
        """The client's name and version; None if it did not say."""
        info = self._facts.info
        return None if info is None else implementation_from_wire(info)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The client's capabilities, as the object it declared."""
        return self._facts.capabilities

    def supports(self, *path: str) -> bool:
        """Return True if the client declared a capability: ``supports("sampling", "tools")``.

        ``supports("elicitation", "form")`` is also true for an empty ``elicitation``, which means
        form mode (ELIC-1).
        """
        value: Any = self._facts.capabilities
        for depth, name in enumerate(path):
            if not is_object(value):
                return False
            if path[:1] == ("elicitation",) and depth == 1 and name == "form" and not value:
                return True
            if value.get(name) is None or value[name] is False:
                return False
            value = value[name]
        return True


class Facts(Generic[StateT]):
    """The facts of a request and the messages to its client, for async and sync handlers."""

    __slots__ = ("peer",)

    peer: ContextBackend
    """The run of the request; everything that is not told here goes through it."""

    def __init__(self, peer: ContextBackend) -> None:
        self.peer = peer

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        """Let ``pydantic.validate_call`` pass a context on; there is nothing in it to validate."""
        del source, handler
        from pydantic_core import core_schema  # only those who use that pay for it

        return core_schema.is_instance_schema(cls)

    if not TYPE_CHECKING:  # to which every name would be there

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property that failed, and shall say how
                return object.__getattribute__(self, name)
            raise unknown_attribute(self, "ctx", name)

    # --- facts ------------------------------------------------------------------------------------

    @property
    def request(self) -> Request:
        """The request as the connection received it."""
        return self.peer.request

    @property
    def state(self) -> StateT:
        """The value that the app's lifespan yielded; None without one."""
        state: StateT = self.peer.state
        return state

    @property
    def cancelled(self) -> bool:
        """True once the client gave up.

        An async handler is stopped by itself; in a thread, look at it in long loops and return
        early.
        """
        return self.peer.cancelled

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
        return Client(self.request.client)

    @property
    def principal(self) -> Principal | None:
        """Whoever sent the request, as the host's authentication knows them.

        None without authentication, and on stdio.
        """
        return self.request.principal

    @property
    def task(self) -> CurrentTask | None:
        """The task that this call has become; None if its client waits for the answer."""
        return self.peer.task

    @property
    def http(self) -> HttpRequest | None:
        """The HTTP request that this one arrived in, as the host has left it; None elsewhere."""
        origin = self.request.origin
        return None if origin is None else origin.http

    # --- telling the client -----------------------------------------------------------------------

    def log(self, level: LogLevel, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message to the client, if it wants this level.

        Where asking means running again, messages before a question are sent once.

        Args:
            level: One of the eight levels of RFC 5424.
            data: Any JSON value, often a sentence. No secrets (LOG-7).
            logger: A name for the source.

        Returns:
            May be awaited, to wait for a client that does not keep up, or ignored.
        """
        threshold = self.peer.log_threshold()
        if threshold is None or LOG_RANK[level] < threshold or self.peer.repeats:
            return _NOT_SENT
        params: dict[str, Any] = {"level": level}
        if logger is not None:
            params["logger"] = logger
        params["data"] = to_jsonable_python(data, bytes_mode="base64", fallback=str)
        self.peer.notify("notifications/message", params)
        return Delivery(self.peer)

    def debug(self, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message at level debug; see `log`."""
        return self.log("debug", data, logger=logger)

    def info(self, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message at level info; see `log`."""
        return self.log("info", data, logger=logger)

    def notice(self, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message at level notice; see `log`."""
        return self.log("notice", data, logger=logger)

    def warning(self, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message at level warning; see `log`."""
        return self.log("warning", data, logger=logger)

    def error(self, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message at level error; see `log`."""
        return self.log("error", data, logger=logger)

    def critical(self, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message at level critical; see `log`."""
        return self.log("critical", data, logger=logger)

    def alert(self, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message at level alert; see `log`."""
        return self.log("alert", data, logger=logger)

    def emergency(self, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message at level emergency; see `log`."""
        return self.log("emergency", data, logger=logger)

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Delivery:
        """Tell the client how far the work is, if it asked to be told.

        Args:
            progress: The amount that is done, in any unit. A value that does not exceed the last
                one is not sent (PROG-2).
            total: The amount that is to be done, in the same unit; None if unknown.
            message: A sentence for the user (2025-03-26 and later).

        Returns:
            May be awaited, to wait for a client that does not keep up, or ignored.
        """
        peer = self.peer
        request = peer.request
        task = peer.task
        if task is not None:
            task.status(_progress_text(progress, total, message))
        token = request.meta.get("progressToken")
        last = peer.last_progress
        if token is None or not isfinite(progress) or (last is not None and progress <= last):
            return _NOT_SENT
        peer.last_progress = progress
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None and request.revision.progress_message:
            params["message"] = message
        peer.notify("notifications/progress", params)
        return Delivery(peer)

    def close_stream(self, retry: float | None = None) -> None:
        """Close the HTTP connection: the client comes back for the answer by itself.

        For work that takes long, so that no connection is held meanwhile. Messages that are sent
        from now on wait until the client fetches them. Does nothing where clients cannot come
        back: only those of 2025-11-25 can, over Streamable HTTP.

        Args:
            retry: After how many seconds the client should come back; the endpoint's ``retry`` if
                None.
        """
        self.peer.close_stream(retry)

    def list_changed(self, kind: ListKind) -> None:
        """Tell every interested client that the list of tools, resources or prompts has changed.

        Adding and removing through the app does this by itself.
        """
        self.peer.announce_list(kind)

    def changed(self, uri: str) -> None:
        """Tell every client that watches this resource that it has changed."""
        self.peer.announce_resource(uri)


class Context(Facts[StateT]):
    """The request, for an ``async def`` handler: ask for it with ``ctx: Context``.

    ``Context[State]`` types `state`, which the app's lifespan yielded.
    """

    __slots__ = ()

    async def read_resource(self, uri: str) -> Sequence[ResourceContents]:
        """Read one of the server's own resources.

        Raises:
            ResourceNotFound: There is none at this URI.
        """
        return await self.peer.read_resource(uri)

    @overload
    async def step(
        self, key: str, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @overload
    async def step(
        self, key: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    async def step(self, key: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Run a side effect once in this call, even where asking means running again.

        On 2026-07-28 the code before a question runs again with each answer, unless it is in a
        step. Elsewhere this just calls the function.

        Args:
            key: Names the step within the call.
            function: Sync or async; it is called with the remaining arguments. What it returns
                must be a JSON value, or of the type that its return annotation names.

        Returns:
            The result of the function.
        """
        step = await self.peer.begin_step(key)
        if step is None:
            result = function(*args, **kwargs)
            return await result if inspect.isawaitable(result) else result
        if not step.done:
            try:
                with step.running():
                    result = function(*args, **kwargs)
                    if inspect.isawaitable(result):
                        result = await result
            except BaseException:
                await step.fail()
                raise
            await step.finish(result)
        return typed(function, step.value)

    # --- asking -----------------------------------------------------------------------------------

    @overload
    async def elicit(
        self, message: str, schema: type[T], *, key: str | None = None, timeout: float | None = None
    ) -> Elicitation[T]: ...

    @overload
    async def elicit(
        self,
        message: str,
        schema: None = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Elicitation[None]: ...

    @overload
    async def elicit(
        self,
        message: str,
        schema: Sequence[str] | Mapping[str, str],
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Elicitation[str]: ...

    @overload
    async def elicit(
        self, message: str, schema: Any, *, key: str | None = None, timeout: float | None = None
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
                `Choices`; None for a mere confirmation. No secrets: use `elicit_url` for those
                (ELIC-2).
            key: Names the question within the call; derived from what is asked if None.
            timeout: Seconds to wait (before 2026-07-28); the app's ``ask_timeout`` if None.

        Returns:
            `Accepted` with the validated data, `Declined`, or `Dismissed`.

        Raises:
            ElicitationError: The schema does not fit into a form of the client's revision.
            MissingClientCapability: The client has no elicitation.
            InputRequestError: There is no usable answer (before 2026-07-28).
            ConnectionClosed: The client is gone (before 2026-07-28).
        """
        answer: Elicitation[Any] = await self.peer.ask(
            Elicit(message, schema, key=key, timeout=timeout)
        )
        return answer

    async def elicit_url(
        self,
        message: str,
        url: str,
        *,
        elicitation_id: str | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Elicitation[None]:
        """Ask the user to open a page, for what must not pass through the client.

        Args:
            message: The reason, for the user.
            url: Of the page; nothing personal or authenticating in it (ELIC-6).
            elicitation_id: Names the page towards the client, for `elicitation_complete`
                (2025-11-25); a random one if None.
            key, timeout: As for `elicit`.

        Returns:
            `Accepted` means consent to open the page, not that anything is done there (ELIC-10).

        Raises:
            As `elicit`.
        """
        ask = ElicitUrl(
            message, url, elicitation_id or os.urandom(16).hex(), key=key, timeout=timeout
        )
        answer: Elicitation[None] = await self.peer.ask(ask)
        return answer

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that the work of a page is done (2025-11-25; else do nothing)."""
        if self.request.revision.elicitation_ids:
            params = {"elicitationId": elicitation_id}
            self.peer.notify("notifications/elicitation/complete", params)

    @overload
    async def sample(
        self,
        messages: str | SampleMessage | Sequence[str | SampleMessage],
        *,
        result_type: type[T],
        tools: Sequence[Callable[..., Any]] | None = None,
        tool_rounds: int = 8,
        **options: Unpack[SampleOptions],
    ) -> T: ...

    @overload
    async def sample(
        self,
        messages: str | SampleMessage | Sequence[str | SampleMessage],
        *,
        result_type: None = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        tool_rounds: int = 8,
        **options: Unpack[SampleOptions],
    ) -> SampleResult: ...

    async def sample(
        self,
        messages: str | SampleMessage | Sequence[str | SampleMessage],
        *,
        result_type: Any = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        tool_rounds: int = 8,
        **options: Unpack[SampleOptions],
    ) -> Any:
        """Ask the client's model.

        Args:
            messages: A text, or the conversation so far.
            result_type: Have the model answer with JSON of this type, and return the validated
                value; it is told once what was wrong.
            tools: Functions the model may call (2025-11-25 and later); they are run here.
            tool_rounds: Times that it may call some, before it has to answer.
            options: max_tokens (1024), system, temperature, stop, hints (names of models), cost,
                speed, intelligence (0 to 1), include_context, metadata, tool_choice, key, timeout.

        Returns:
            A `SampleResult`, whose ``text`` is what the model said; or a value of `result_type`.

        Raises:
            MissingClientCapability: The client has no sampling, or none with tools.
            InvalidInputResponse: The model did not answer with the type that was wanted, twice.
            InputRequestError, ConnectionClosed: As for `elicit`.
        """
        if result_type is not None:
            options["system"] = json_instruction(result_type, options.get("system"))
        sample = Sample(messages, **options)
        result = await self._sampled(sample, tools, tool_rounds)
        if result_type is None:
            return result
        try:
            return read_json(result.text, result_type)
        except InvalidInputResponse as error:
            again = sample.corrected(result, str(error))
        return read_json((await self._sampled(again, tools, tool_rounds)).text, result_type)

    async def _sampled(
        self, sample: Sample, tools: Sequence[Callable[..., Any]] | None, rounds: int
    ) -> SampleResult:
        if tools is not None:
            return await self.peer.sample_with_tools(sample, tools, rounds)
        result: SampleResult = await self.peer.ask(sample)
        return result

    async def roots(self, *, key: str | None = None, timeout: float | None = None) -> list[Root]:
        """Ask for the folders that the client shows to servers: hints, not permissions (ROOT-1).

        Args:
            key, timeout: As for `elicit`.

        Raises:
            MissingClientCapability: The client has no roots.
            InputRequestError, ConnectionClosed: As for `elicit`.
        """
        found: list[Root] = await self.peer.ask(Roots(key=key, timeout=timeout))
        return found

    def roots_changed(self, handler: Callable[[list[Root]], object]) -> None:
        """Call a function with the new roots whenever this client says that they have changed.

        The function may be async. On 2026-07-28 clients do not say so, and it is never called.
        """
        self.peer.on_roots_changed(handler)

    async def gather(self, *asks: Ask[Any]) -> list[Any]:
        """Ask several things at once: one round on 2026-07-28, requests side by side before.

        ``name, roots = await ctx.gather(Elicit("Name?", str), Roots())``

        Args:
            asks: `Elicit`, `Sample` and `Roots` values.

        Returns:
            The answers, in the order of the questions.

        Raises:
            As the single questions.
        """
        return await self.peer.gather(asks)


def _progress_text(progress: float, total: float | None, message: str | None) -> str:
    """Return how far a task is as a sentence, for clients that get no numbers."""
    done = f"{progress:g}" if total is None else f"{progress:g} of {total:g}"
    return done if message is None else f"{message} ({done})"


class SyncContext(Facts[StateT]):
    """The request, for a plain ``def`` handler, which runs in a worker thread.

    The same facts as `Context`; methods block where those of `Context` are awaited.
    """

    __slots__ = ("_context",)

    def __init__(self, context: Context[Any]) -> None:
        super().__init__(context.peer)
        self._context = context

    def read_resource(self, uri: str) -> Sequence[ResourceContents]:
        """Read one of the server's own resources; blocks.

        Raises:
            ResourceNotFound: There is none at this URI.
        """
        return self.peer.from_thread(self._context.read_resource, uri)

    def step(self, key: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a side effect once in this call; blocks. As `Context.step`, for sync functions."""
        step: Step | None = self._wait(self.peer.begin_step, key)
        if step is None:
            return function(*args, **kwargs)
        if not step.done:
            try:
                with step.running():
                    result = function(*args, **kwargs)
            except BaseException:
                self._wait(step.fail)
                raise
            self._wait(step.finish, result)
        value: T = typed(function, step.value)
        return value

    def _wait(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        return self.peer.from_thread(function, *args)

    @overload
    def elicit(
        self, message: str, schema: type[T], *, key: str | None = None, timeout: float | None = None
    ) -> Elicitation[T]: ...

    @overload
    def elicit(
        self,
        message: str,
        schema: None = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Elicitation[None]: ...

    @overload
    def elicit(
        self,
        message: str,
        schema: Sequence[str] | Mapping[str, str],
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Elicitation[str]: ...

    @overload
    def elicit(
        self, message: str, schema: Any, *, key: str | None = None, timeout: float | None = None
    ) -> Elicitation[Any]: ...

    @with_suggestions("elicit(…)")
    def elicit(
        self,
        message: str,
        schema: Any = None,
        *,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Elicitation[Any]:
        """Ask the user to fill in a form; blocks. As `Context.elicit`."""
        ask = Elicit[Any](message, schema, key=key, timeout=timeout)
        answer: Elicitation[Any] = self._wait(self.peer.ask, ask)
        return answer

    def elicit_url(
        self,
        message: str,
        url: str,
        *,
        elicitation_id: str | None = None,
        key: str | None = None,
        timeout: float | None = None,
    ) -> Elicitation[None]:
        """Ask the user to open a page; blocks. As `Context.elicit_url`."""
        ask = ElicitUrl(
            message, url, elicitation_id or os.urandom(16).hex(), key=key, timeout=timeout
        )
        answer: Elicitation[None] = self._wait(self.peer.ask, ask)
        return answer

    def elicitation_complete(self, elicitation_id: str) -> None:
        """Tell the client that the work of a page is done. As `Context.elicitation_complete`."""
        self._context.elicitation_complete(elicitation_id)

    @overload
    def sample(
        self,
        messages: str | SampleMessage | Sequence[str | SampleMessage],
        *,
        result_type: type[T],
        tools: Sequence[Callable[..., Any]] | None = None,
        tool_rounds: int = 8,
        **options: Unpack[SampleOptions],
    ) -> T: ...

    @overload
    def sample(
        self,
        messages: str | SampleMessage | Sequence[str | SampleMessage],
        *,
        result_type: None = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        tool_rounds: int = 8,
        **options: Unpack[SampleOptions],
    ) -> SampleResult: ...

    def sample(
        self,
        messages: str | SampleMessage | Sequence[str | SampleMessage],
        *,
        result_type: Any = None,
        tools: Sequence[Callable[..., Any]] | None = None,
        tool_rounds: int = 8,
        **options: Unpack[SampleOptions],
    ) -> Any:
        """Ask the client's model; blocks. As `Context.sample`."""

        async def ask() -> Any:
            return await self._context.sample(
                messages, result_type=result_type, tools=tools, tool_rounds=tool_rounds, **options
            )

        return self._wait(ask)

    def roots(self, *, key: str | None = None, timeout: float | None = None) -> list[Root]:
        """Ask for the folders that the client shows to servers; blocks. As `Context.roots`."""
        ask = Roots(key=key, timeout=timeout)
        found: list[Root] = self._wait(self.peer.ask, ask)
        return found

    def roots_changed(self, handler: Callable[[list[Root]], object]) -> None:
        """Call a function with the new roots after each change. As `Context.roots_changed`."""
        self._context.roots_changed(handler)

    def gather(self, *asks: Ask[Any]) -> list[Any]:
        """Ask several things at once; blocks. As `Context.gather`."""
        return self._wait(self.peer.gather, asks)
