"""The run of one request: what it may ask of its session, and how it ended.

A run is not its request. It ends with an outcome, which is a value; answering the request with that
is what a session does with it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from mcpkit._concurrency.threads import is_interrupt
from mcpkit._entries import Defaults
from mcpkit._input_requests.asker import Requester
from mcpkit._input_requests.rounds import Step, Suspended
from mcpkit._protocol.connection import Request
from mcpkit._protocol.input_request import Ask
from mcpkit._server.encoding import InputRequired
from mcpkit._server.handlers import read, to_protocol_error
from mcpkit._server.sampling_tools import sample_with_tools
from mcpkit._server.server import Server
from mcpkit._utils.quota import ANONYMOUS
from mcpkit.context import Context, ListKind
from mcpkit.errors import InputRequestError, ProtocolError, UrlElicitationRequired
from mcpkit.roots import Root
from mcpkit.sampling import Sample, SampleResult
from mcpkit.types import ResourceContents

if TYPE_CHECKING:
    from mcpkit._concurrency.threads import Threads
    from mcpkit.context import CurrentTask

__all__ = ["ABANDONED", "Failure", "Home", "Outcome", "Run"]

T = TypeVar("T")


@dataclass(slots=True)
class Failure:
    """The outcome of a run that failed.

    Args:
        error: What to tell the client.
    """

    error: ProtocolError


ABANDONED: Final = object()
"""The outcome of a run that nobody waits for any more."""

Outcome: TypeAlias = Any
"""The value that an operation returned, `InputRequired`, a `Failure`, or `ABANDONED`."""


class Home(Protocol):
    """The place of a run: the session that its request arrived in, or the leg of a task."""

    @property
    def task(self) -> CurrentTask | None:
        """The task that the run is a leg of."""
        ...

    @property
    def is_closing(self) -> bool:
        """True if everything in it ends."""
        ...

    @property
    def threads(self) -> Threads:
        """For blocking functions."""
        ...

    def make_requester(self, request: Request) -> Requester:
        """Return how the run of a request asks its client.

        Raises:
            InvalidParams: The request continues another one, and is not fit to.
        """
        ...

    def on_roots_changed(self, handler: Callable[[list[Root]], object]) -> None:
        """Call a function whenever the client says that its roots have changed."""
        ...

    def notify(self, request: Request, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that belongs to a request. From any thread."""
        ...

    def log_threshold(self, request: Request) -> int | None:
        """Return the rank of the least level to send with a request; None: nothing."""
        ...

    async def drain(self, request: Request) -> None:
        """Wait until the client keeps up."""
        ...

    def close_stream(self, request: Request, retry: float | None) -> None:
        """Close the connection that a request's messages go to. From any thread."""
        ...

    def handler_raised(self, request: Request, error: BaseException) -> None:
        """Take note of the real exception behind a failure."""
        ...

    def announce_task(self, id: str) -> None:
        """Tell the client of a task that one of its requests has begun."""
        ...

    def attach_task(self, id: str, request: Request) -> AbstractContextManager[object]:
        """Around a request that waits for a task: what the task tells goes along with it."""
        ...


class Run:
    """The run of one request; the peer of its context.

    Args:
        session: That the request arrived in, or what stands for it.
        server: As the request sees it.
        request: As it was received.
    """

    __slots__ = (
        "asker",
        "cancel",
        "cancelled",
        "is_over",
        "last_progress",
        "request",
        "server",
        "session",
        "state",
    )

    def __init__(self, session: Home, server: Server, request: Request) -> None:
        self.request = request
        self.server = server
        self.state = server.state
        self.cancelled = False
        self.is_over = False
        """True once its outcome is known."""
        self.cancel: Callable[[], object] = _not_begun
        """Cancels the task, once there is one."""
        self.last_progress: float | None = None
        self.session = session
        self.asker: Requester | None = None
        """The way in which the run asks its client; None as long as it asked nothing."""

    # --- to the end -------------------------------------------------------------------------------

    async def finish(
        self, operation: Awaitable[Any], ended: Callable[[Run, Outcome], object]
    ) -> None:
        """Wait for an operation, and tell how it ended.

        Args:
            operation: Of the request.
            ended: Called once, with the run and its outcome.
        """
        outcome: Outcome = ABANDONED
        try:
            outcome = await operation
            if self.asker is not None:
                # A handler that swallowed its suspension returned what rests on no answer.
                outcome = self._asked() or outcome
        except Exception as error:
            outcome = self._asked() or self.failed(error)
        except BaseException as error:
            if _is_suspension(error):
                if not self._is_given_up:
                    outcome = self._asked()
                return
            if is_interrupt(error):
                raise
            if self._is_given_up:
                if isinstance(error, (SystemExit, KeyboardInterrupt)):
                    return  # from the clean-up of a handler; the process is not its to end
                raise
            # The handler called sys.exit(), or let through the cancellation of a task of its own.
            outcome = self.failed(error)
        finally:
            ended(self, outcome)

    @property
    def _is_given_up(self) -> bool:
        return self.cancelled or self.session.is_closing

    def _asked(self) -> Outcome | None:
        """Return the outcome that asks what the run waits for; None if it waits for nothing."""
        asker = self.asker
        if asker is None or not asker.is_waiting:
            return None
        try:
            return InputRequired(asker.input_required())
        except Exception as error:
            return self.failed(error)

    def failed(self, error: BaseException) -> Failure:
        """Return the outcome of a run that an exception ended."""
        return Failure(to_protocol_error(error, Context(self)))

    def stop(self) -> None:
        """End the work: the client gave up on the request, or the session ends."""
        self.cancelled = True
        self.cancel()
        if self.asker is not None:
            self.asker.give_up()

    @property
    def task(self) -> CurrentTask | None:
        """The task that the run is a leg of; None if it is a request's."""
        return self.session.task

    # --- asking -----------------------------------------------------------------------------------

    def requester(self) -> Requester:
        """Return how this run asks its client, chosen when it is first needed.

        Raises:
            InvalidParams: The request continues another one, and is not fit to.
        """
        if self.asker is None:
            self.asker = self.session.make_requester(self.request)
        return self.asker

    @property
    def repeats(self) -> bool:
        """True while the handler does again what it has done in an earlier round."""
        return self.asker is not None and self.asker.repeats

    def _askable(self) -> Requester:
        if self.cancelled:
            # A thread is not stopped when the client gives up.
            raise InputRequestError("The client gave up on the request")
        return self.requester()

    async def ask(self, ask: Ask[Any]) -> Any:
        """Ask the client something and wait for the answer, in the way of its revision."""
        return await self._askable().ask(ask)

    async def gather(self, asks: Sequence[Ask[Any]]) -> list[Any]:
        """Ask the client several things at once."""
        return await self._askable().gather(asks)

    async def begin_step(self, key: str) -> Step | None:
        """Begin a step of the call by its name; None if handlers do not run again."""
        return await self.requester().begin_step(key)

    async def open_url(self, error: UrlElicitationRequired) -> Exception:
        """Have the user open the page that an error wants; return what to answer with."""
        return await self.requester().open_url(error)

    async def sample_with_tools(
        self, sample: Sample, functions: Sequence[Callable[..., Any]], rounds: int
    ) -> SampleResult:
        """Let the client's model call functions until it has an answer."""
        defaults = Defaults(self.server.converters, self.server.settings.errors)
        return await sample_with_tools(Context(self), sample, functions, rounds, defaults)

    def on_roots_changed(self, handler: Callable[[list[Root]], object]) -> None:
        """Call a function whenever this client says that its roots have changed."""
        self.session.on_roots_changed(handler)

    @property
    def overrides(self) -> Mapping[Callable[..., Any], Callable[..., Any]]:
        """Functions in the place of those that dependencies come from."""
        return self.server.overrides

    # --- telling ----------------------------------------------------------------------------------

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that belongs to the request, unless that is over."""
        self.session.notify(self.request, method, params)

    def log_threshold(self) -> int | None:
        """Return the rank of the least level to send with the request; None: nothing."""
        return self.session.log_threshold(self.request)

    async def drain(self) -> None:
        """Wait until the client keeps up."""
        await self.session.drain(self.request)

    def close_stream(self, retry: float | None) -> None:
        """Close the connection that the request's messages go to."""
        self.session.close_stream(self.request, retry)

    def announce_list(self, kind: ListKind) -> None:
        """Tell every client of this server that a list has changed."""
        self.server.changes.list_changed(kind)

    def announce_resource(self, uri: str) -> None:
        """Tell every client of this server that a resource has changed."""
        self.server.changes.resource_changed(uri)

    def handler_raised(self, error: BaseException) -> None:
        """Pass on the real exception, for tests that want it."""
        self.session.handler_raised(self.request, error)

    # --- doing ------------------------------------------------------------------------------------

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run a blocking function in a worker thread."""
        origin = self.request.origin
        owner = ANONYMOUS if origin is None else origin.owner
        return await self.session.threads.run(function, owner)

    def from_thread(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run an async function on the event loop, from a worker thread, and wait for it."""
        return self.session.threads.run_on_loop(function, *args)

    def run_later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run an async function on the event loop. From any thread."""
        self.session.threads.start_on_loop(function)

    async def read_resource(self, uri: str) -> Sequence[ResourceContents]:
        """Read one of the server's own resources."""
        return (await read(self.server, uri, Context(self))).contents


def _not_begun() -> None:
    """Cancel nothing: the run has no task yet."""


def _is_suspension(error: BaseException) -> bool:
    """True if an exception, perhaps out of a task group, says that answers are missing.

    What failed beside it fails again once they are there, if it does not depend on them.
    """
    if isinstance(error, Suspended):
        return True
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    return any(map(_is_suspension, inner))
