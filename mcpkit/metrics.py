"""Metrics: what a server does and holds, as numbers that Prometheus or OpenTelemetry collect.

Names, units, attributes and buckets are those of the OpenTelemetry semantic conventions for MCP;
what they do not name begins with ``mcpkit``.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from mcpkit._protocol.connection import Request
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

_NAMED: Final = ("call_tool", "get_prompt")
"""Operations whose metrics have the name of an entry."""

_COUNTED: Final = (
    (REJECTIONS, "reason", ("call limit", *_REASONS.values())),
    (DROPPED, "mcp.method.name", ("notifications/message", "notifications/progress")),
)
"""Counters with the values of their label. They begin at 0, or a rate would miss the first."""

Kind: TypeAlias = Literal["histogram", "counter", "gauge"]


class Instrument(NamedTuple):
    """A metric: its kind, unit and description."""

    kind: Kind
    unit: str
    description: str


INSTRUMENTS: Final[Mapping[str, Instrument]] = {
    OPERATION: Instrument("histogram", "s", "Time from a request's arrival to its response"),
    "mcpkit.requests.in_flight": Instrument("gauge", "{request}", "Requests being served"),
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
    "mcpkit.queue.length": Instrument("gauge", "{call}", "Waiting calls, by what they wait for"),
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
        self._counts: dict[str, dict[Attributes, int]] = {
            name: {((label, value),): 0 for value in values} for name, label, values in _COUNTED
        }

    # --- observing --------------------------------------------------------------------------------

    def ended(self, operation: Operation) -> None:
        """Count and time an operation that has ended."""
        request, duration = operation.request, operation.duration
        known, name, failed = request.known, None, None
        if known.operation in _NAMED:
            name = request.params.get("name")
            name = name if type(name) is str else None
        elif known.operation == "listen":
            return  # it is open for as long as its client likes (OTEL-14)
        if operation.outcome in ("tool_error", "error"):
            failed = operation.error.code if operation.error else "tool_error"
            # A model is shown the limit of a tool in a result.
            if LimitExceeded in (type(operation.error), type(operation.exception)):
                self._count(REJECTIONS, "reason", "call limit")
        key = request.method, name, failed, request.revision.version, request.origin is None
        found = self._durations.get(key) or self._add(key, operation)
        with self._lock:
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
        """Return the series of an operation, whose name may be one that a client has invented."""
        name = entry_name(operation)
        if len(self._durations) >= MAX_SERIES and name is not None:
            name = OTHER
        key = key[0], name, *key[2:]
        with self._lock:
            if key not in self._durations:
                found = {**attributes_of(operation.request, name), **failure_of(operation)}
                self._durations[key] = _Durations(tuple(found.items()))
            return self._durations[key]

    def _count(self, name: str, attribute: str, value: str) -> None:
        counts, key = self._counts[name], ((attribute, value),)
        with self._lock:
            counts[key] = counts.get(key, 0) + 1

    # --- reading ----------------------------------------------------------------------------------

    def read(self, name: str) -> Iterator[tuple[Attributes, float]]:
        """Yield the value of each series of a counter or a gauge."""
        with self._lock:
            counts = list(self._counts.get(name, {}).items())
        yield from counts
        sums = dict[Attributes, float]()
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
            labels = _labels(attributes)
            bucket = f'{shown}_bucket{labels[:-1]},le="'
            reached = 0
            for bound, number in zip((*map("{:g}".format, BUCKETS), "+Inf"), counts, strict=True):
                reached += number
                yield f'{bucket}{bound}"}} {reached}'
            yield f"{shown}_sum{labels} {total}"
            yield f"{shown}_count{labels} {reached}"


def metrics_of(observers: Observers) -> Metrics:
    """Return the metrics of a server, which are made if there are none."""
    for each in observers.all:
        if isinstance(each, Metrics):
            return each
    found = Metrics(observers)
    observers.add(found)
    return found


# --- attributes -----------------------------------------------------------------------------------


def entry_name(operation: Operation) -> str | None:
    """Return the name of the tool or prompt; `OTHER` if it is not one of the server's."""
    if operation.request.known.operation not in _NAMED:
        return None
    return OTHER if operation.entry is None else operation.name


def failure_of(operation: Operation) -> dict[str, str]:
    """Return ``error.type`` and the code of the error, if the operation has failed.

    A mistake of the caller has the code only: the server has not failed (OTEL-5, OTEL-6).
    """
    if operation.outcome == "tool_error":
        return {"error.type": "tool_error"}
    if operation.error is None:
        return {}
    code = str(operation.error.code)
    found = {"rpc.response.status_code": code}
    if operation.error.code not in _CALLERS_MISTAKES:
        found["error.type"] = code
    return found


def attributes_of(request: Request, name: str | None) -> dict[str, str]:
    """Return the attributes of a metric or a span, with the name of the tool or prompt."""
    found = names_of(request.method, name)
    found["mcp.protocol.version"] = request.revision.version
    if request.origin is None:
        return {**found, "network.transport": "pipe"}
    return {**found, "network.transport": "tcp", "network.protocol.name": "http"}


def _labels(attributes: Iterable[tuple[str, str]]) -> str:
    shown = ",".join(f'{name.replace(".", "_")}="{_escaped(value)}"' for name, value in attributes)
    return f"{{{shown}}}" if shown else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
