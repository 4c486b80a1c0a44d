"""What an observer, such as the audit log, learns of requests and refused messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from time import perf_counter
from typing import Any, Final, Literal, TypeAlias

from mcpkit._input_requests.requester import InputRequired
from mcpkit._protocol.connection import Request
from mcpkit._protocol.messages import Encoded
from mcpkit._signature.output import Rendered
from mcpkit._utils.logs import log
from mcpkit.errors import ProtocolError

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


def outcome_of(value: object) -> Outcome:
    """Return the outcome of an operation with this result."""
    if isinstance(value, Rendered) and value.is_error:
        return "tool_error"
    if isinstance(value, InputRequired):
        return "input_required"
    return "task" if isinstance(value, Encoded) and value.kind == b"task" else "ok"


class Operation:
    """A request, from the start of its handler to its response."""

    __slots__ = (
        *("duration", "error", "exception", "outcome", "received", "request", "sent"),
        *("_server", "started"),
    )

    def __init__(self, request: Request, server: Any, received: int) -> None:
        self.request = request
        self._server = server
        self.received = received
        """The bytes of the message; 0 if they are not known."""
        self.started = perf_counter()
        self.duration = 0.0
        """Seconds."""
        self.sent = 0
        """The bytes of the response."""
        self.outcome: Outcome = "ok"
        self.error: ProtocolError | None = None
        self.exception: BaseException | None = None
        """What the handler raised, though the client may see something else."""

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
            return getattr(self._server.catalog, table).get(self.name)
        except ProtocolError:
            return None


class Observer(ABC):
    """Learns of operations. What it raises is logged; nothing else changes."""

    @abstractmethod
    def ended(self, operation: Operation) -> None:
        """Take an operation: its response is on its way, or its client does not want one."""

    @abstractmethod
    def rejected(self, error: ProtocolError, status: int | None, source: Any) -> None:
        """Take a message that is not served.

        Args:
            error: What is wrong with it.
            status: The HTTP status; None if it did not come over HTTP.
            source: The HTTP request; None for other transports.
        """

    def begin(self, request: Request, server: Any, size: int) -> None:
        """Note that the handler of a request starts."""
        if request.origin is not None:
            length = request.origin.http.raw.get(b"content-length", b"")
            size = int(length) if length.isdigit() else 0
        request.operation = Operation(request, server, size)

    def end(self, request: Request, text: bytes | None, error: ProtocolError | None) -> None:
        """Note the response to a request; without a text, it has none."""
        operation: Operation | None = request.operation
        if operation is None:
            return
        request.operation = None
        operation.duration = perf_counter() - operation.started
        operation.sent = len(text or b"")
        operation.error = error
        if error is not None:
            operation.outcome = "error"
        elif text is None and request.batch is None and not request.known.is_notification:
            operation.outcome = "cancelled"
        try:
            self.ended(operation)
        except Exception:
            log.exception("an operation could not be observed")
        operation.exception = None  # its frames would keep the request in a cycle

    def reject(self, error: ProtocolError, source: Any, status: int | None = None) -> None:
        """Note that a message is not served."""
        try:
            self.rejected(error, status, source)
        except Exception:
            log.exception("a rejection could not be observed")
