"""What a handler may ask of the request it serves.

A context holds plain facts and a `Peer`, through which everything else goes, so that a handler and
its unit test need neither a session nor an app.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, cast

from pydantic_core import to_jsonable_python
from typing_extensions import ParamSpec, TypeVar

from mcpkit.protocol.connection import ClientFacts, Request
from mcpkit.protocol.messages import Id
from mcpkit.protocol.wire import implementation_from_wire
from mcpkit.types import LOG_RANK, Implementation, LogLevel, ResourceContents

__all__ = ["Client", "Context", "Delivery", "ListKind", "Peer", "SyncContext"]

StateT = TypeVar("StateT", default=Any)
P = ParamSpec("P")
T = TypeVar("T")

ListKind: TypeAlias = Literal["tools", "resources", "prompts"]


class Peer(Protocol):
    """Whoever drives the request: what a context needs done."""

    def notify(self, request: Request, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that belongs to a request. From any thread; may be dropped when the
        client does not keep up, and is when the request is over."""
        ...

    def log_threshold(self, request: Request) -> int | None:
        """The rank of the least log level the client wants with this request; None: nothing."""
        ...

    async def drain(self) -> None:
        """Wait until the client has taken enough of what was sent."""
        ...

    async def in_thread(self, function: Callable[[], T]) -> T:
        """Run a blocking function in a worker thread."""
        ...

    def from_thread(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Run an async function on the event loop, from a worker thread, and wait for it."""
        ...

    async def read_resource(self, uri: str, context: Context[Any]) -> Sequence[ResourceContents]:
        """Read one of the server's own resources."""
        ...

    def handler_raised(self, request: Request, error: BaseException) -> None:
        """Take note of the real exception behind a result or error that hides it."""
        ...

    def announce_list(self, kind: ListKind) -> None:
        """Tell every interested client that a list has changed. From any thread."""
        ...

    def announce_resource(self, uri: str) -> None:
        """Tell every interested client that a resource has changed. From any thread."""
        ...


class Delivery:
    """Something was sent. Awaiting it waits until the client keeps up; not awaiting it is fine."""

    __slots__ = ("peer",)

    def __init__(self, peer: Peer | None) -> None:
        self.peer = peer

    def __await__(self) -> Generator[Any, Any, None]:
        if self.peer is not None:
            yield from self.peer.drain().__await__()


_NOT_SENT: Final = Delivery(None)


class Client:
    """Who sent the request.

    Everything here is what the client says of itself: a hint, never a proof (SEC-15).
    """

    __slots__ = ("_facts",)

    def __init__(self, facts: ClientFacts) -> None:
        self._facts = facts

    @property
    def info(self) -> Implementation | None:
        """Its name and version; None if it did not say."""
        info = self._facts.info
        return None if info is None else implementation_from_wire(info)

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """Its capabilities, as the object it declared."""
        return self._facts.capabilities

    def supports(self, *path: str) -> bool:
        """Whether it declared a capability: ``supports("sampling", "tools")``.

        ``supports("elicitation", "form")`` is also true for an empty ``elicitation``, which means
        form mode (ELIC-1).
        """
        value: Any = self._facts.capabilities
        for depth, name in enumerate(path):
            if not isinstance(value, dict):
                return False
            members = cast("dict[str, Any]", value)
            if path[:1] == ("elicitation",) and depth == 1 and name == "form" and not members:
                return True
            if members.get(name) is None or members[name] is False:
                return False
            value = members[name]
        return True


class Facts(Generic[StateT]):
    """What async and sync handlers have in common."""

    __slots__ = ("_last_progress", "peer", "request", "state")

    request: Request
    """The request as the connection received it."""

    peer: Peer
    """Who drives the request."""

    state: StateT
    """What the app's lifespan yielded; None without one."""

    def __init__(self, request: Request, peer: Peer, state: Any = None) -> None:
        self.request = request
        self.peer = peer
        self._last_progress: float | None = None
        self.state = state

    # --- facts ------------------------------------------------------------------------------------

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
        """Who sent the request."""
        return Client(self.request.client)

    # --- telling the client -----------------------------------------------------------------------

    def log(self, level: LogLevel, data: Any, *, logger: str | None = None) -> Delivery:
        """Send a log message to the client, if it wants this level.

        Args:
            level: One of the eight levels of RFC 5424.
            data: Any JSON value, often a sentence. No secrets (LOG-7).
            logger: A name for the source.

        Returns:
            May be awaited, to wait for a client that does not keep up, or ignored.
        """
        threshold = self.peer.log_threshold(self.request)
        if threshold is None or LOG_RANK[level] < threshold:
            return _NOT_SENT
        params: dict[str, Any] = {"level": level}
        if logger is not None:
            params["logger"] = logger
        params["data"] = to_jsonable_python(data, fallback=str)
        self.peer.notify(self.request, "notifications/message", params)
        return Delivery(self.peer)

    def debug(self, data: Any, *, logger: str | None = None) -> Delivery:
        """`log` at level debug."""
        return self.log("debug", data, logger=logger)

    def info(self, data: Any, *, logger: str | None = None) -> Delivery:
        """`log` at level info."""
        return self.log("info", data, logger=logger)

    def notice(self, data: Any, *, logger: str | None = None) -> Delivery:
        """`log` at level notice."""
        return self.log("notice", data, logger=logger)

    def warning(self, data: Any, *, logger: str | None = None) -> Delivery:
        """`log` at level warning."""
        return self.log("warning", data, logger=logger)

    def error(self, data: Any, *, logger: str | None = None) -> Delivery:
        """`log` at level error."""
        return self.log("error", data, logger=logger)

    def critical(self, data: Any, *, logger: str | None = None) -> Delivery:
        """`log` at level critical."""
        return self.log("critical", data, logger=logger)

    def alert(self, data: Any, *, logger: str | None = None) -> Delivery:
        """`log` at level alert."""
        return self.log("alert", data, logger=logger)

    def emergency(self, data: Any, *, logger: str | None = None) -> Delivery:
        """`log` at level emergency."""
        return self.log("emergency", data, logger=logger)

    def progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> Delivery:
        """Tell the client how far the work is, if it asked to be told.

        Args:
            progress: How much is done, in any unit. A value that does not exceed the last one is
                not sent (PROG-2).
            total: How much there is to do, in the same unit; None if unknown.
            message: A sentence for the user (2025-03-26 and later).

        Returns:
            May be awaited, to wait for a client that does not keep up, or ignored.
        """
        request = self.request
        token = request.meta.get("progressToken")
        last = self._last_progress
        if token is None or (last is not None and progress <= last):
            return _NOT_SENT
        self._last_progress = progress
        params: dict[str, Any] = {"progressToken": token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None and request.revision.progress_message:
            params["message"] = message
        self.peer.notify(request, "notifications/progress", params)
        return Delivery(self.peer)

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

    __slots__ = ("cancelled",)

    cancelled: bool
    """Whether the client gave up. An async handler is stopped anyway; a thread has to look."""

    def __init__(self, request: Request, peer: Peer, state: Any = None) -> None:
        # Written out: there is a context for every request.
        self.request = request
        self.peer = peer
        self.state = state
        self._last_progress = None
        self.cancelled = False

    async def read_resource(self, uri: str) -> Sequence[ResourceContents]:
        """Read one of the server's own resources.

        Raises:
            ResourceNotFound: There is none at this URI.
        """
        return await self.peer.read_resource(uri, self)

    async def step(
        self, key: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> Any:
        """Run a side effect as one named step of this call.

        Args:
            key: Names the step within the call.
            function: Sync or async; it is called with the remaining arguments.

        Returns:
            What the function returned.
        """
        del key
        result: Any = function(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result


class SyncContext(Facts[StateT]):
    """The request, for a plain ``def`` handler, which runs in a worker thread.

    The same facts as `Context`; what that awaits, this blocks for.
    """

    __slots__ = ("_context",)

    def __init__(self, context: Context[Any]) -> None:
        super().__init__(context.request, context.peer, context.state)
        self._context = context

    @property
    def cancelled(self) -> bool:
        """Whether the client gave up; look at it in long loops and return early."""
        return self._context.cancelled

    def read_resource(self, uri: str) -> Sequence[ResourceContents]:
        """Read one of the server's own resources; blocks.

        Raises:
            ResourceNotFound: There is none at this URI.
        """
        return self.peer.from_thread(self._context.read_resource, uri)

    def step(self, key: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a side effect as one named step of this call; as `Context.step`, for sync functions."""
        del key
        return function(*args, **kwargs)
