"""Metrics: what a server does and holds, as numbers that Prometheus or OpenTelemetry collect.

Names, units, attributes and buckets are those of the OpenTelemetry semantic conventions for MCP;
what they do not name begins with ``mcpkit``.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from mcpkit._protocol.wire import some
from mcpkit._server.operations import Observer, Observers, Operation
from mcpkit._utils.semconv import BUCKETS, names_of
from mcpkit.errors import LimitExceeded, ProtocolError

OTHER: Final = "_OTHER"
"""Stands for names that a client may choose (OTEL-13)."""

MAX_SERIES: Final = 2_000
"""Series of one histogram; the names of further tools and prompts become `OTHER`."""

OPERATION: Final = "mcp.server.operation.duration"
REJECTIONS: Final = "mcpkit.rejections"
DROPPED: Final = "mcpkit.notifications.dropped"
IN_FLIGHT: Final = "mcpkit.requests.in_flight"

_CALLERS_MISTAKES: Final = (-32700, -32600, -32601, -32602, -32002)
"""Codes of errors that are not those of the server (OTEL-6)."""

_REASONS: Final[Mapping[int, str]] = {
    400: "malformed",
    401: "unauthorized",
    403: "forbidden",
    404: "not found",
    408: "timeout",
    413: "too large",
    429: "client limit",
    503: "server limit",
}
"""Why a request was refused, by the HTTP status."""

Kind: TypeAlias = Literal["histogram", "counter", "gauge"]


class Instrument(NamedTuple):
    """A metric: its kind, unit and description."""

    kind: Kind
    unit: str
    description: str


INSTRUMENTS: Final[Mapping[str, Instrument]] = {
    OPERATION: Instrument("histogram", "s", "Time from a request's arrival to its response"),
    IN_FLIGHT: Instrument("gauge", "{request}", "Requests that are served now"),
    "mcpkit.requests.parked": Instrument(
        "gauge", "{request}", "Requests over HTTP that wait for an answer of their client"
    ),
    "mcpkit.runs.suspended": Instrument(
        "gauge", "{run}", "Handlers that wait for their client's next request"
    ),
    "mcpkit.sessions": Instrument("gauge", "{session}", "Sessions over HTTP that are held"),
    "mcpkit.streams": Instrument("gauge", "{stream}", "Streams that clients hold open"),
    "mcpkit.unread": Instrument("gauge", "By", "Bytes that wait until clients read them"),
    "mcpkit.tasks": Instrument("gauge", "{task}", "Tasks that run in this process"),
    "mcpkit.threads": Instrument("gauge", "{thread}", "Threads for functions that are not async"),
    "mcpkit.queue.length": Instrument("gauge", "{call}", "Calls that wait, by what for"),
    REJECTIONS: Instrument("counter", "{request}", "Requests that were refused, by the reason"),
    DROPPED: Instrument(
        "counter", "{notification}", "Notifications that clients were too slow to be sent"
    ),
}

Attributes: TypeAlias = tuple[tuple[str, str], ...]


class _Durations:
    """One series of a histogram."""

    __slots__ = ("attributes", "counts", "total")

    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0


class Metrics(Observer):
    """Counts and times the operations of a server.

    ``http={"metrics": "/metrics"}`` makes one and serves its `text`.

    Args:
        observers: Those of the server, which read what is held.
    """

    def __init__(self, observers: Observers) -> None:
        self.on_duration: list[Callable[[float, Attributes], object]] = []
        """Called with each duration and its attributes."""
        self._observers = observers
        self._lock = threading.Lock()
        self._durations: dict[tuple[Any, ...], _Durations] = {}
        self._counts: dict[str, dict[Attributes, int]] = {REJECTIONS: {}, DROPPED: {}}
        self._in_flight = 0

    # --- observing --------------------------------------------------------------------------------

    def began(self, operation: Operation) -> None:
        """Count an operation that starts."""
        if _is_timed(operation):
            with self._lock:
                self._in_flight += 1

    def ended(self, operation: Operation) -> None:
        """Count and time an operation that has ended."""
        if type(operation.error) is LimitExceeded:
            self._count(REJECTIONS, "reason", "call limit")
        if not _is_timed(operation):
            return
        request, name = operation.request, entry_name(operation)
        transport = "pipe" if request.origin is None else "tcp"
        error, status = error_type(operation), response_status(operation)
        key = request.method, name, error, status, request.revision.version, transport
        duration = operation.duration
        with self._lock:
            self._in_flight -= 1
            found = self._durations.get(key)
            if found is None:
                found = self._add(key, operation)
            found.counts[bisect_left(BUCKETS, duration)] += 1
            found.total += duration
        for each in self.on_duration:
            each(duration, found.attributes)

    def rejected(self, error: ProtocolError, status: int | None, source: Any) -> None:
        """Count a message that is not served."""
        reason = "malformed" if status is None else _REASONS.get(status, str(status))
        self._count(REJECTIONS, "reason", reason)

    def dropped(self, method: str) -> None:
        """Count a notification that is not sent."""
        self._count(DROPPED, "mcp.method.name", method)

    def _add(self, key: tuple[Any, ...], operation: Operation) -> _Durations:
        if len(self._durations) >= MAX_SERIES and key[1] is not None:
            key = key[0], OTHER, *key[2:]
        if key not in self._durations:
            self._durations[key] = _Durations(tuple(attributes_of(operation, key[1]).items()))
        return self._durations[key]

    def _count(self, name: str, attribute: str, value: str) -> None:
        counts, key = self._counts[name], ((attribute, value),)
        with self._lock:
            counts[key] = counts.get(key, 0) + 1

    # --- reading ----------------------------------------------------------------------------------

    def read(self, name: str) -> Iterator[tuple[Attributes, float]]:
        """Yield the value of each series of a counter or a gauge."""
        with self._lock:
            yield from list(self._counts.get(name, {}).items())
        sums: dict[Attributes, float] = {(): self._in_flight} if name == IN_FLIGHT else {}
        for function in list(self._observers.readings):
            for each in function():
                if each.name == name:
                    key = tuple(each.attributes.items())
                    sums[key] = sums.get(key, 0) + each.value
        yield from sums.items()

    def text(self) -> str:
        """Return everything in the text format of Prometheus, version 0.0.4."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        for name, (kind, unit, description) in INSTRUMENTS.items():
            suffix = {"s": "_seconds", "By": "_bytes"}.get(unit, "")
            shown = name.replace(".", "_") + suffix + ("_total" if kind == "counter" else "")
            yield f"# HELP {shown} {description}"
            yield f"# TYPE {shown} {kind}"
            if kind == "histogram":
                yield from self._histogram(shown)
            else:
                for attributes, value in self.read(name):
                    yield f"{shown}{_labels(attributes)} {value}"

    def _histogram(self, shown: str) -> Iterator[str]:
        with self._lock:
            series = [(s.attributes, [*s.counts], s.total) for s in self._durations.values()]
        for attributes, counts, total in series:
            reached = 0
            for bound, number in zip((*BUCKETS, "+Inf"), counts, strict=True):
                reached += number
                labels = _labels((*attributes, ("le", str(bound))))
                yield f"{shown}_bucket{labels} {reached}"
            yield f"{shown}_sum{_labels(attributes)} {total}"
            yield f"{shown}_count{_labels(attributes)} {reached}"


def metrics_of(observers: Observers) -> Metrics:
    """Return the metrics of a server, which are made if there are none."""
    for each in observers.all:
        if isinstance(each, Metrics):
            return each
    found = Metrics(observers)
    observers.all.append(found)
    return found


# --- attributes -----------------------------------------------------------------------------------


def entry_name(operation: Operation) -> str | None:
    """Return the name of the tool or prompt; `OTHER` if it is not one of the server's."""
    if operation.request.method not in ("tools/call", "prompts/get"):
        return None
    return OTHER if operation.entry is None else operation.name


def error_type(operation: Operation) -> str | None:
    """Return ``error.type``: what the server has failed with, if it has (OTEL-5, OTEL-6)."""
    if operation.outcome == "tool_error":
        return "tool_error"
    error = operation.error
    return None if error is None or error.code in _CALLERS_MISTAKES else str(error.code)


def response_status(operation: Operation) -> str | None:
    """Return the code of the JSON-RPC error."""
    return None if operation.error is None else str(operation.error.code)


def attributes_of(operation: Operation, name: str | None) -> dict[str, str]:
    """Return the attributes of a metric or a span, with the name of the tool or prompt."""
    request = operation.request
    http = None if request.origin is None else request.origin.http
    found = {
        **names_of(request.method, name),
        "error.type": error_type(operation),
        "rpc.response.status_code": response_status(operation),
        "mcp.protocol.version": request.revision.version,
        "network.transport": "pipe" if http is None else "tcp",
        "network.protocol.name": None if http is None else "http",
    }
    return some(**found)


def _is_timed(operation: Operation) -> bool:
    """Return False for a stream that is open for as long as its client likes (OTEL-14)."""
    return operation.request.known.operation != "listen"


def _labels(attributes: Iterable[tuple[str, str]]) -> str:
    shown = ",".join(f'{name.replace(".", "_")}="{_escaped(value)}"' for name, value in attributes)
    return f"{{{shown}}}" if shown else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
