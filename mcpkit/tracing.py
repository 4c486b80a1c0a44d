"""Traces of requests that are sent, with OpenTelemetry; for a server see `mcpkit.telemetry`."""

from __future__ import annotations

import logging
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cache
from time import perf_counter
from typing import Any, Final

from mcpkit._protocol.wire import some
from mcpkit._utils.json import is_object
from mcpkit._utils.semconv import BUCKETS, names_of
from mcpkit.errors import ProtocolError

try:
    from opentelemetry import context as context
    from opentelemetry import metrics as metrics
    from opentelemetry import trace as trace
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.propagators.composite import CompositePropagator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:
    raise ImportError('Telemetry needs the otel extra: pip install "mcpkit[otel]"') from None

CLIENT_OPERATION: Final = "mcp.client.operation.duration"

KEYS: Final = ("traceparent", "tracestate", "baggage")
"""Members of ``_meta`` and headers that carry a trace (SEP-414)."""

_NAME: Final = "mcpkit"


class Tracing:
    """Sends spans and metrics of requests that are sent, and passes traces on.

    From then on, records of `logging` have the attributes ``trace_id`` and ``span_id``.

    Args:
        tracer_provider, meter_provider: Those of OpenTelemetry; None: the global ones.
        baggage: True to accept the baggage of clients, and to pass it on with requests.

    Raises:
        ImportError: The package ``opentelemetry-api`` is missing.
    """

    def __init__(
        self,
        *,
        tracer_provider: trace.TracerProvider | None = None,
        meter_provider: metrics.MeterProvider | None = None,
        baggage: bool = False,
    ) -> None:
        self.tracer = trace.get_tracer(_NAME, tracer_provider=tracer_provider)
        self.meter = metrics.get_meter(_NAME, meter_provider=meter_provider)
        self._durations = self.durations(CLIENT_OPERATION, "Time of a client's request")
        parts = [TraceContextTextMapPropagator(), *([W3CBaggagePropagator()] if baggage else [])]
        self._propagator = CompositePropagator(parts)
        _mark_records()

    def durations(self, name: str, description: str) -> metrics.Histogram:
        """Return a histogram of seconds."""
        return self.meter.create_histogram(
            name, "s", description, explicit_bucket_boundaries_advisory=BUCKETS
        )

    # --- where a trace comes from and goes to -----------------------------------------------------

    def inject(self, meta: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return ``_meta`` with the current trace."""
        carrier: dict[str, Any] = {}
        self._propagator.inject(carrier)
        return {**meta, **carrier}

    def attach(self, meta: Mapping[str, Any]) -> object:
        """Continue the trace that ``_meta`` names, in the context that is current."""
        return context.attach(self.extracted(meta))

    def extracted(self, given: Mapping[str, Any]) -> context.Context:
        """Return the current context with the trace that ``_meta`` or headers name."""
        carrier = {key: given[key] for key in KEYS if isinstance(given.get(key), str)}
        return self._propagator.extract(carrier, context.get_current())

    # --- requests that are sent -------------------------------------------------------------------

    @contextmanager
    def calling(
        self, method: str, params: Mapping[str, Any], meta: dict[str, Any], **attributes: Any
    ) -> Generator[list[Any], None, None]:
        """Trace and time a request that is sent inside the context, with its ``_meta``.

        Yields a list for its result.
        """
        name = params.get("name")
        timed = some(**names_of(method, name), **attributes)
        is_named = method in ("tools/call", "prompts/get")
        target = f"{method} {name}" if is_named else method
        span = self.tracer.start_span(target, kind=trace.SpanKind.CLIENT, attributes=timed)
        if isinstance(uri := params.get("uri"), str):
            span.set_attribute("mcp.resource.uri", uri)
        started, result, failed = perf_counter(), list[Any](), dict[str, str]()
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                meta.update(self.inject({}))
                yield result
            if result and is_object(result[0]) and result[0].get("isError") is True:
                failed["error.type"] = "tool_error"
                span.set_status(trace.StatusCode.ERROR)
        except BaseException as error:
            failed["error.type"] = type(error).__name__
            if isinstance(error, ProtocolError):
                code = str(error.code)
                failed |= {"error.type": code, "rpc.response.status_code": code}
            elif isinstance(error, TimeoutError):
                failed["error.type"] = "timeout"
            span.set_status(trace.StatusCode.ERROR, str(error))
            raise
        finally:
            span.set_attributes(failed)
            span.end()
            self._durations.record(perf_counter() - started, {**timed, **failed})


@cache
def _mark_records() -> None:
    """Give records of `logging` the ids of the current trace and span."""
    make = logging.getLogRecordFactory()

    def marked(*args: Any, **options: Any) -> logging.LogRecord:
        record = make(*args, **options)
        found = trace.get_current_span().get_span_context()
        record.trace_id = trace.format_trace_id(found.trace_id) if found.is_valid else ""
        record.span_id = trace.format_span_id(found.span_id) if found.is_valid else ""
        return record

    logging.setLogRecordFactory(marked)
