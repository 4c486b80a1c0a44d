"""Traces and metrics with OpenTelemetry: ``MCPKit("shop", telemetry=True)``.

Names and attributes are those of the semantic conventions for MCP. Needs the extra ``otel``, and an
SDK of OpenTelemetry to send anything anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Final, cast

from pydantic_core import to_json

from mcpkit._server.operations import Observer, Observers, Operation, session_name
from mcpkit._utils.text import truncate
from mcpkit.errors import PublicError
from mcpkit.metrics import (
    INSTRUMENTS,
    OPERATION,
    OTHER,
    Attributes,
    attributes_of,
    entry_name,
    failure_of,
    metrics_of,
)
from mcpkit.tracing import KEYS, Tracing, context, metrics, trace

_MAX_TEXT: Final = 1000
"""Characters of a text that a client sends."""


class Trace:
    """The trace that a request belongs to, with the span of the request."""

    __slots__ = ("_parent", "_token", "span")

    def __init__(self, span: trace.Span, parent: context.Context) -> None:
        self.span = span
        self._parent = parent
        self._token: Any = None

    def enter(self) -> None:
        """Make the span current in this context, which is that of the handler."""
        self._token = context.attach(trace.set_span_in_context(self.span, self._parent))

    def leave(self) -> None:
        """Make what was current before so again, unless the handler ends in another context."""
        if trace.get_current_span() is self.span:
            context.detach(self._token)

    @property
    def id(self) -> str | None:
        """32 hex digits; None if nothing is traced."""
        found = self.span.get_span_context()
        return trace.format_trace_id(found.trace_id) if found.is_valid else None


class Telemetry(Tracing, Observer):
    """Sends spans and metrics of a server or a client: ``telemetry=True``, or one of these.

    From then on, records of `logging` have the attributes ``trace_id`` and ``span_id``.

    Args:
        tracer_provider, meter_provider: Those of OpenTelemetry; None: the global ones.
        arguments: True to add the arguments of tools to the server's spans, without secrets; see
            `mcpkit.audit.Audit`.
        resource_uris: True to name the spans of resources by their URIs.
        baggage: True to accept the baggage of clients, and to pass it on with requests.

    Raises:
        ImportError: The package ``opentelemetry-api`` is missing.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        arguments: bool = False,
        resource_uris: bool = False,
        baggage: bool = False,
    ) -> None:
        super().__init__(
            tracer_provider=tracer_provider, meter_provider=meter_provider, baggage=baggage
        )
        self._arguments = arguments
        self._resource_uris = resource_uris

    def observe(self, observers: Observers) -> None:
        """Observe a server."""
        observers.add(self)
        observers.inject, observers.attach = self.inject, self.attach
        observers.calling = self.calling
        found = metrics_of(observers)
        durations = self.durations(OPERATION, INSTRUMENTS[OPERATION].description)

        def record(duration: float, attributes: Attributes) -> None:
            durations.record(duration, dict(attributes))

        def read(name: str, options: object) -> Iterable[metrics.Observation]:
            return [metrics.Observation(value, dict(key)) for key, value in found.read(name)]

        found.on_duration.append(record)
        make = {
            "counter": self.meter.create_observable_counter,
            "gauge": self.meter.create_observable_gauge,
        }
        for name, (kind, unit, description) in INSTRUMENTS.items():
            if kind != "histogram":
                make[kind](name, [partial(read, name)], unit, description)

    # --- a server's operations --------------------------------------------------------------------

    def began(self, operation: Operation) -> None:
        """Start the span of a request."""
        request, links = operation.request, None
        http = None if request.origin is None else request.origin.http
        ambient = trace.get_current_span().get_span_context()
        parent = context.get_current()
        if "traceparent" in request.meta:
            parent = self.extracted(request.meta)
            named = trace.get_current_span(parent).get_span_context()
            if named.is_remote and ambient.is_valid and ambient.span_id != named.span_id:
                links = [trace.Link(ambient)]  # OTEL-8
        elif http is not None and not ambient.is_valid and b"traceparent" in http.raw:
            headers = {key: http.raw.get(key.encode(), b"").decode("latin-1") for key in KEYS}
            parent = self.extracted(headers)
        name = entry_name(operation)
        target = None if name == OTHER else name
        attributes: dict[str, Any] = attributes_of(request, name)
        if not request.known.is_notification:
            attributes["jsonrpc.request.id"] = str(request.id)
        uri = request.params.get("uri")
        if isinstance(uri, str):
            uri = attributes["mcp.resource.uri"] = truncate(uri, _MAX_TEXT)
            target = uri if self._resource_uris else None
        if http is not None:
            if http.client is not None:
                attributes["client.address"], attributes["client.port"] = http.client
            if request.revision.handshake and (session := session_name(http)):
                attributes["mcp.session.id"] = session  # OTEL-4
        span = self.tracer.start_span(
            f"{request.method} {target}" if target else request.method,
            parent,
            trace.SpanKind.SERVER,
            attributes,
            links,
        )
        request.trace = Trace(span, parent)

    def ended(self, operation: Operation) -> None:
        """End the span of a request."""
        request = operation.request
        span = cast("Trace", request.trace).span
        if not span.is_recording():
            span.end()
            return
        earlier = operation.continues
        if earlier is not None and earlier.trace is not None:
            span.add_link(earlier.trace.span.get_span_context())
        if self._arguments and request.method == "tools/call":
            from mcpkit.audit import shown_arguments  # loaded only if used

            shown = shown_arguments(operation)
            if shown is not None:
                text = to_json(shown, fallback=str).decode()
                span.set_attribute("gen_ai.tool.call.arguments", text)
        if failure := failure_of(operation):
            span.set_attributes(failure)
            if operation.exception is not None and not isinstance(operation.exception, PublicError):
                span.record_exception(operation.exception)
            if "error.type" in failure:
                error = operation.error or operation.exception
                span.set_status(trace.StatusCode.ERROR, None if error is None else str(error))
        span.end()
