"""Traces and metrics of OpenTelemetry: one span for each request, in the trace of its cause."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry import context, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import SecretStr

from mcpkit import Client, Context, MCPKit
from mcpkit.errors import ProtocolError
from mcpkit.telemetry import Telemetry
from mcpkit.testing import REVISIONS, AsyncTestClient
from mcpkit.tracing import CLIENT_OPERATION
from tests.messages import MODERN, announced, initialize, request
from tests.transports.http.wire import headers_of
from tests.web import in_process

every_revision = pytest.mark.parametrize("revision", REVISIONS)

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
ACCEPT = {"Accept": "application/json, text/event-stream"}


class Traced:
    """An app and the spans that it has sent."""

    def __init__(self, **options: Any) -> None:
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._spans))
        meters = MeterProvider([self._reader])
        options = {"tracer_provider": provider, "meter_provider": meters, **options}
        self.telemetry = Telemetry(**options)
        self.tracer = provider.get_tracer("tests")
        self.seen = list[str | None]()
        self.app: MCPKit[Any] = MCPKit("traced", telemetry=self.telemetry)

        @self.app.tool
        def add(a: int, b: int, ctx: Context) -> int:
            """Runs in a thread."""
            self.seen.append(_current())
            assert ctx.trace_id == _current()
            return a + b

        @self.app.tool
        async def fail() -> None:
            raise ValueError("no disk")

        @self.app.tool
        async def ask(ctx: Context) -> str:
            self.seen.append(_current())
            answer = await ctx.elicit("Sure?", bool)
            self.seen.append(_current())
            return str(answer.data)

        @self.app.tool
        async def step(ctx: Context) -> str | None:
            async def once() -> None:
                self.seen.append(_current())

            await ctx.step("once", once)
            return ctx.trace_id

        @self.app.tool(task="required")
        async def long(ctx: Context) -> str | None:
            self.seen.append(_current())
            return ctx.trace_id

        @self.app.tool
        def log_in(user: str, password: SecretStr) -> None: ...

        @self.app.resource("notes://{day}")
        def note(day: str) -> str:
            return day

    def spans(self, name: str, kind: str = "SERVER") -> list[ReadableSpan]:
        found = self._spans.get_finished_spans()
        return [each for each in found if each.name == name and each.kind.name == kind]

    def metrics(self) -> Mapping[str, Any]:
        data = self._reader.get_metrics_data()
        assert data is not None
        (resource,) = data.resource_metrics
        return {each.name: each for scope in resource.scope_metrics for each in scope.metrics}


@pytest.fixture
def traced() -> Traced:
    return Traced()


def _current() -> str | None:
    found = trace.get_current_span().get_span_context()
    return trace.format_trace_id(found.trace_id) if found.is_valid else None


def _ids(span: ReadableSpan) -> tuple[str, str]:
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


def _attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def _parent(span: ReadableSpan) -> str | None:
    return None if span.parent is None else f"{span.parent.span_id:016x}"


async def agree(params: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": True}}


# --- the spans of a server ------------------------------------------------------------------------


@every_revision
async def test_a_call_is_one_span_in_the_trace_of_its_client(traced: Traced, revision: str) -> None:
    """OTEL-1, OTEL-2, OTEL-3, OTEL-8."""
    async with AsyncTestClient(traced.app, revision=revision) as client:
        await client.call_tool("add", {"a": 1, "b": 2}, meta={"traceparent": PARENT})
    (span,) = traced.spans("tools/call add")
    assert (_ids(span)[0], _parent(span)) == (TRACE, SPAN)
    assert traced.seen == [TRACE]
    attributes = _attributes(span)
    assert attributes.pop("jsonrpc.request.id")
    assert attributes == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "mcp.protocol.version": revision,
        "network.transport": "pipe",
    }
    assert span.status.status_code.name == "UNSET"


@pytest.mark.parametrize("given", ["", "00-zz", f"00-{'0' * 32}-{SPAN}-01", 7, None, ["x"]])
async def test_a_malformed_parent_is_no_error(traced: Traced, given: Any) -> None:
    """OTEL-8."""
    async with AsyncTestClient(traced.app) as client:
        await client.call_tool("add", {"a": 1, "b": 2}, meta={"traceparent": given})
    (span,) = traced.spans("tools/call add")
    assert span.parent is None


async def test_the_span_around_the_server_is_linked_or_the_parent(traced: Traced) -> None:
    """OTEL-8: that of a web framework, for example."""
    for meta in ({"traceparent": PARENT}, {}):
        with traced.tracer.start_as_current_span("web") as web:
            outer = web.get_span_context()
            async with AsyncTestClient(traced.app) as client:
                await client.call_tool("add", {"a": 1, "b": 2}, meta=meta)
    named, plain = traced.spans("tools/call add")
    assert _parent(named) == SPAN
    assert len(named.links) == 1
    assert plain.parent == outer
    assert not plain.links


async def test_headers_of_http_are_the_parent_if_the_message_names_none(traced: Traced) -> None:
    message = announced(1, "tools/list")
    headers = {**ACCEPT, **headers_of(message), "traceparent": PARENT}
    async with in_process(traced.app.asgi(), client=("192.0.2.7", 4711)) as http:
        assert (await http.post("/mcp", json=message, headers=headers)).text
    (span,) = traced.spans("tools/list")
    assert (_ids(span)[0], _parent(span)) == (TRACE, SPAN)
    attributes = _attributes(span)
    assert attributes["network.transport"] == "tcp"
    assert attributes["client.address"] == "192.0.2.7"
    assert "mcp.session.id" not in attributes  # OTEL-4


async def test_a_session_has_a_name_that_does_not_let_readers_continue_it(traced: Traced) -> None:
    """OTEL-4."""
    async with in_process(traced.app.asgi()) as http:
        begun = await http.post("/mcp", json=initialize("2025-11-25"), headers=ACCEPT)
        token = begun.headers["mcp-session-id"]
        headers = {**ACCEPT, "Mcp-Session-Id": token, "MCP-Protocol-Version": "2025-11-25"}
        assert (await http.post("/mcp", json=request(2, "tools/list"), headers=headers)).is_success
    (span,) = traced.spans("tools/list")
    assert _attributes(span)["mcp.session.id"] not in (None, token)


async def test_failures_are_errors_of_spans(traced: Traced) -> None:
    """OTEL-5, OTEL-6, OTEL-13."""
    async with AsyncTestClient(traced.app, raise_exceptions=False) as client:
        await client.call_tool("fail")
        with pytest.raises(ProtocolError):
            await client.request("tools/call", {"name": "invented"})
    (failed,) = traced.spans("tools/call fail")
    assert _attributes(failed)["error.type"] == "tool_error"
    assert failed.status.status_code.name == "ERROR"
    (event,) = failed.events
    assert event.attributes is not None
    assert event.attributes["exception.message"] == "no disk"
    (unknown,) = traced.spans("tools/call")
    attributes = _attributes(unknown)
    assert attributes["gen_ai.tool.name"] == "_OTHER"
    assert attributes["rpc.response.status_code"] == "-32602"
    assert "error.type" not in attributes
    assert unknown.status.status_code.name == "UNSET"


async def test_what_is_sensitive_is_opt_in() -> None:
    """OTEL-1, OTEL-7: and secrets never appear."""
    arguments = {"user": "ada", "password": "hunter2"}
    for traced in (Traced(), Traced(arguments=True, resource_uris=True)):
        async with AsyncTestClient(traced.app) as client:
            await client.call_tool("log_in", arguments)
            await client.read_resource("notes://today")
        is_open = traced.spans("resources/read") == []
        (span,) = traced.spans("tools/call log_in")
        shown = _attributes(span).get("gen_ai.tool.call.arguments")
        assert shown == ('{"user":"ada","password":"[secret]"}' if is_open else None)
        (read,) = traced.spans("resources/read notes://today" if is_open else "resources/read")
        assert _attributes(read)["mcp.resource.uri"] == "notes://today"


# --- what a trace goes through --------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS[2:])
async def test_a_question_belongs_to_the_trace(traced: Traced, revision: str) -> None:
    """One span for each request; the one that continues a handler is linked to the first."""
    async with AsyncTestClient(traced.app, revision=revision, elicitation=agree) as client:
        assert (await client.call_tool("ask", meta={"traceparent": PARENT})).text == "True"
    assert traced.seen == [TRACE, TRACE]
    spans = traced.spans("tools/call ask")
    if revision == MODERN:
        first, second = spans
        assert [each.context.span_id for each in second.links] == [first.context.span_id]
    else:
        (span,) = spans
        (asked,) = traced.spans("elicitation/create", "CLIENT")
        assert _parent(asked) == _ids(span)[1]


async def test_a_request_to_a_client_carries_the_trace(traced: Traced) -> None:
    """SEP-414."""
    received = list[Any]()

    async def answer(params: Any) -> dict[str, Any]:
        received.append(params["_meta"]["traceparent"])
        return await agree(params)

    async with AsyncTestClient(traced.app, revision="2025-11-25", elicitation=answer) as client:
        await client.call_tool("ask")
    (asked,) = traced.spans("elicitation/create", "CLIENT")
    (given,) = received
    assert given.split("-")[1:3] == [*_ids(asked)]


@pytest.mark.parametrize("tool", ["long", "step"])
@pytest.mark.parametrize("revision", REVISIONS[3:])
async def test_a_task_and_a_step_continue_the_trace(
    traced: Traced, tool: str, revision: str
) -> None:
    async with AsyncTestClient(traced.app, revision=revision) as client:
        result = await client.call_tool(tool, meta={"traceparent": PARENT})
    assert result.text == TRACE
    assert traced.seen == [TRACE]


async def test_the_trace_of_one_request_is_not_that_of_the_next(traced: Traced) -> None:
    async with AsyncTestClient(traced.app) as client:
        await client.call_tool("add", {"a": 1, "b": 2}, meta={"traceparent": PARENT})
        await client.call_tool("add", {"a": 1, "b": 2})
    first, second = traced.seen
    assert first == TRACE
    assert second not in (None, TRACE)
    assert _current() is None


# --- the spans of a client ------------------------------------------------------------------------


@every_revision
async def test_a_client_traces_its_requests_into_the_server(traced: Traced, revision: str) -> None:
    with traced.tracer.start_as_current_span("agent") as agent:
        async with Client(traced.app, revision=revision, telemetry=traced.telemetry) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
            with pytest.raises(ProtocolError):
                await client.call_tool("invented")
            assert (await client.call_tool("fail")).is_error
    (called,) = traced.spans("tools/call add", "CLIENT")
    (failed,) = traced.spans("tools/call invented", "CLIENT")
    (served,) = traced.spans("tools/call add")
    assert called.parent == agent.get_span_context()
    assert _parent(served) == _ids(called)[1]
    assert _attributes(failed)["error.type"] == "-32602"  # OTEL-6: on this side, it is one
    assert failed.status.status_code.name == "ERROR"
    (failed,) = traced.spans("tools/call fail", "CLIENT")
    assert _attributes(failed)["error.type"] == "tool_error"


@pytest.mark.parametrize("accepts", [False, True])
async def test_baggage_of_strangers_is_passed_on_only_if_wanted(accepts: bool) -> None:
    """OTEL-9."""
    traced, found = Traced(baggage=accepts), list[Any]()
    inner: MCPKit[Any] = MCPKit("inner")

    @inner.tool
    def look(ctx: Context) -> None:
        found.append(ctx.meta.get("baggage"))

    @traced.app.tool
    async def forward() -> None:
        async with Client(inner, telemetry=traced.telemetry) as client:
            await client.call_tool("look")

    async with AsyncTestClient(traced.app) as client:
        await client.call_tool("forward", meta={"traceparent": PARENT, "baggage": "user=ada"})
    assert found == ["user=ada" if accepts else None]


# --- records and metrics --------------------------------------------------------------------------


async def test_records_of_logging_have_the_trace(
    traced: Traced, caplog: pytest.LogCaptureFixture
) -> None:
    @traced.app.tool
    async def speak() -> None:
        logging.getLogger("shop").warning("spoken")

    async with AsyncTestClient(traced.app) as client:
        await client.call_tool("speak", meta={"traceparent": PARENT})
    (span,) = traced.spans("tools/call speak")
    (record,) = [each for each in caplog.records if each.name == "shop"]
    assert (record.trace_id, record.span_id) == _ids(span)  # type: ignore[attr-defined]
    logging.getLogger("shop").warning("outside")
    assert caplog.records[-1].trace_id == ""  # type: ignore[attr-defined]


async def test_meters_get_what_prometheus_gets(traced: Traced) -> None:
    """OTEL-11, OTEL-12."""
    async with Client(traced.app, telemetry=traced.telemetry) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        traced.app.server.observers.drop("notifications/progress")
        found = traced.metrics()
    for name in ("mcp.server.operation.duration", CLIENT_OPERATION):
        points = {each.attributes["mcp.method.name"]: each for each in found[name].data.data_points}
        call = points["tools/call"]
        assert (found[name].unit, call.count) == ("s", 1)
        assert call.attributes["gen_ai.tool.name"] == "add"
        assert call.explicit_bounds[0] == 0.01
        assert call.explicit_bounds[-1] == 300
    dropped = found["mcpkit.notifications.dropped"].data.data_points
    values = {each.attributes["mcp.method.name"]: each.value for each in dropped}
    assert values == {"notifications/progress": 1, "notifications/message": 0}
    (running,) = found["mcpkit.requests.in_flight"].data.data_points
    assert running.value == 0


async def test_without_an_sdk_a_trace_is_passed_through() -> None:
    """OTEL-9: propagation works when spans are off."""
    telemetry = Telemetry(tracer_provider=trace.NoOpTracerProvider())
    app: MCPKit[Any] = MCPKit("quiet", telemetry=telemetry)

    @app.tool
    async def look(ctx: Context) -> str | None:
        return ctx.trace_id

    async with AsyncTestClient(app) as client:
        result = await client.call_tool("look", meta={"traceparent": PARENT})
        assert result.text == TRACE
        assert (await client.call_tool("look")).text == "null"
    assert context.get_current() == {}


async def test_the_extra_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("mcpkit.telemetry", "mcpkit.tracing"):
        monkeypatch.delitem(sys.modules, each)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match=r'pip install "mcpkit\[otel\]"'):
        MCPKit("bare", telemetry=True)
