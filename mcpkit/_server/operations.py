"""What an observer, such as the audit log, learns of requests and refused messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from hashlib import sha256
from time import perf_counter
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

from mcpkit._protocol.connection import Request
from mcpkit._utils.logs import log
from mcpkit.errors import ProtocolError

T = TypeVar("T")

Outcome: TypeAlias = Literal["ok", "tool_error", "error", "input_required", "task", "cancelled"]
"""How an operation has ended: with a result, or the result of a tool that failed, …"""

_NAMED_BY: Final[Mapping[str, str]] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "resources/subscribe": "uri",
    "resources/unsubscribe": "uri",
}
"""Method → the member of its params that names an entry."""


class Operation:
    """A request, from the start of its handler to its response."""

    duration = 0.0
    """Seconds."""
    sent = 0
    """The bytes of the response."""
    outcome: Outcome = "ok"
    error: ProtocolError | None = None
    exception: BaseException | None = None
    """What the handler raised, though the client may see something else."""
    continues: Request | None = None
    """The request whose handler it continues, after a question."""

    def __init__(self, request: Request, server: Any, size: int) -> None:
        self.request = request
        self.server = server
        self.size = size
        self.started = perf_counter()

    @property
    def received(self) -> int:
        """The bytes of the message; 0 if they are not known."""
        if self.request.origin is None:
            return self.size
        length = self.request.origin.http.raw.get(b"content-length", b"")
        return int(length) if length.isdigit() else 0

    @property
    def name(self) -> str | None:
        """The name of the tool or prompt, or the URI of the resource."""
        found = self.request.params.get(_NAMED_BY.get(self.request.method, ""))
        return found if isinstance(found, str) else None

    @property
    def entry(self) -> Any:
        """The tool or prompt that is called, if the caller may see it; else None."""
        tables = {"tools/call": "tools", "prompts/get": "prompts"}
        table = tables.get(self.request.method)
        if table is None or self.name is None:
            return None
        try:
            return getattr(self.server.catalog, table).get(self.name)
        except ProtocolError:
            return None


class Observer:
    """Learns of operations. What it raises is logged; nothing else changes."""

    def began(self, operation: Operation) -> None:
        """Take an operation whose handler starts."""

    def ended(self, operation: Operation) -> None:
        """Take an operation: its response is on its way, or its client does not want one."""

    def rejected(self, error: ProtocolError, status: int | None, source: Any) -> None:
        """Take a message that is not served.

        Args:
            error: What is wrong with it.
            status: The HTTP status; None if it did not come over HTTP.
            source: The HTTP request; None for other transports.
        """

    def dropped(self, method: str) -> None:
        """Take the method of a notification that is not sent: its client does not keep up."""


class Reading(NamedTuple):
    """What a process holds at a moment, of one kind."""

    name: str
    value: float
    attributes: Mapping[str, str] = MappingProxyType({})


class Observers:
    """The observers of a server, and what they may read."""

    def __init__(self) -> None:
        self.all: tuple[Observer, ...] = ()
        self._on_begin: list[Callable[[Operation], object]] = []
        self._on_end: list[Callable[[Operation], object]] = []
        self.readings: list[Callable[[], Iterable[Reading]]] = []
        """Functions that return what is held now."""
        self.inject: Callable[[Mapping[str, Any]], Mapping[str, Any]] = _same
        """Returns ``_meta`` with the trace of the running operation, for work that continues it."""
        self.attach: Callable[[Mapping[str, Any]], object] = _same
        """Continues the trace that ``_meta`` names, in the running task."""
        self.calling: Any = None
        """`mcpkit.telemetry.Telemetry.calling`, if requests to clients are traced."""

    def __bool__(self) -> bool:
        return bool(self.all)

    def add(self, observer: Observer) -> None:
        """Add an observer, before the server is served."""
        self.all = (*self.all, observer)
        self._on_end.append(observer.ended)
        if type(observer).began is not Observer.began:
            self._on_begin.append(observer.began)

    def read(self, function: Callable[[], Iterable[Reading]]) -> Callable[[], object]:
        """Let a function be read; returns the function that ends this."""
        self.readings.append(function)
        return partial(self.readings.remove, function)

    def begin(self, request: Request, server: Any, size: int) -> None:
        """Note that the handler of a request starts."""
        operation = request.operation = Operation(request, server, size)
        if self._on_begin:
            _tell(self._on_begin, operation)

    def end(self, request: Request, text: bytes | None, error: ProtocolError | None) -> None:
        """Note the response to a request; without a text, it has none."""
        operation: Operation | None = request.operation
        if operation is None:
            return
        request.operation = None
        operation.duration = perf_counter() - operation.started
        if text is not None:
            operation.sent = len(text)
        elif request.batch is None and not request.known.is_notification:
            operation.outcome = "cancelled"
        if error is not None:
            operation.error = error
            operation.outcome = "error"
        _tell(self._on_end, operation)
        operation.exception = None  # its frames would keep the request in a cycle

    def reject(self, error: ProtocolError, source: Any, status: int | None = None) -> None:
        """Note that a message is not served."""
        _tell([each.rejected for each in self.all], error, status, source)

    def drop(self, method: str) -> None:
        """Note that a notification is not sent."""
        _tell([each.dropped for each in self.all], method)


def _tell(observers: Iterable[Callable[..., object]], *args: Any) -> None:
    for each in observers:
        try:
            each(*args)
        except Exception:
            log.exception("an observer failed: %s", each.__qualname__)


def _same(value: T) -> T:
    return value


def session_name(http: Any) -> str | None:
    """Return a name for the session of an HTTP request; its id would let readers continue it."""
    id = None if http is None else http.raw.get(b"mcp-session-id")
    return None if id is None else sha256(id).hexdigest()[:16]
