"""Metrics: the durations and counts of a server, their names, and their bounds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import Context, MCPKit, metrics
from mcpkit._utils.semconv import BUCKETS
from mcpkit.errors import ProtocolError
from mcpkit.metrics import metrics_of
from mcpkit.testing import REVISIONS, AsyncTestClient, TestClient
from tests.kit import until
from tests.messages import announced
from tests.transports.http.wire import headers_of
from tests.web import in_process

every_revision = pytest.mark.parametrize("revision", REVISIONS)


class Measured:
    """An app with metrics, its endpoint, and what Prometheus reads there."""

    def __init__(self, **options: Any) -> None:
        self.app: MCPKit[Any] = MCPKit("measured", **options)
        self.release = anyio.Event()
        self.application = self.app.asgi(metrics=True)

        @self.app.tool
        def add(a: int, b: int) -> int:
            return a + b

        @self.app.tool
        def fail() -> None:
            raise ValueError

        @self.app.tool(concurrency=1)
        async def wait() -> str:
            await self.release.wait()
            return "released"

        @self.app.tool(task="required")
        async def long() -> str:
            await self.release.wait()
            return "released"

        @self.app.tool
        async def ask(ctx: Context) -> str:
            return str(await ctx.elicit("Sure?", bool))

        @self.app.prompt
        def greet(name: str) -> str:
            return f"Hello, {name}"

    def value(self, name: str, **labels: str) -> float:
        """The value of one series, or the sum of those with these labels."""
        text = metrics_of(self.app.server.observers).text()
        series = [line.rpartition(" ")[0] for line in text.split("\n") if line[:1] != "#"]
        assert len(series) == len({*series})
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def durations(self, method: str, **labels: str) -> float:
        name = "mcp_server_operation_duration_seconds_count"
        return self.value(name, mcp_method_name=method, **labels)


async def call(
    http: httpx2.AsyncClient, tool: str, path: str = "/mcp", **meta: Any
) -> httpx2.Response:
    """Call a tool without arguments."""
    body = announced(1, "tools/call", name=tool, _meta=meta)
    headers = {"Accept": "application/json, text/event-stream", **headers_of(body)}
    return await http.post(path, json=body, headers=headers)


@pytest.fixture
def measured() -> Measured:
    return Measured()


# --- operations -----------------------------------------------------------------------------------


@every_revision
async def test_operations_are_timed_by_the_names_of_the_conventions(
    measured: Measured, revision: str
) -> None:
    """OTEL-11, OTEL-12: dashboards for other servers work."""
    async with AsyncTestClient(measured.app, revision=revision) as client:
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.get_prompt("greet", {"name": "Ada"})
        await client.list_tools()
    common = {"mcp_protocol_version": revision, "network_transport": "pipe"}
    assert measured.durations("tools/call", gen_ai_tool_name="add", **common) == 1
    assert measured.durations("tools/call", gen_ai_operation_name="execute_tool") == 1
    assert measured.durations("prompts/get", gen_ai_prompt_name="greet", **common) == 1
    assert measured.durations("tools/list", **common) == 1
    name = "mcp_server_operation_duration_seconds"
    call = {"mcp_method_name": "tools/call"}
    assert measured.value(f"{name}_bucket", le="+Inf", **call) == 1
    assert 0 < measured.value(f"{name}_sum", **call) < 60
    bounds = [float(each) for each in BUCKETS]
    reached = [measured.value(f"{name}_bucket", le=f"{each:g}", **call) for each in bounds]
    assert reached == sorted(reached)
    assert reached[-1] == 1
    assert measured.value("mcpkit_requests_in_flight") == 0


async def test_failures_of_the_server_have_an_error_type(measured: Measured) -> None:
    """OTEL-5, OTEL-6: a caller's mistake is not an error of the server."""
    async with AsyncTestClient(measured.app, raise_exceptions=False) as client:
        assert (await client.call_tool("fail")).is_error
        with pytest.raises(ProtocolError):
            await client.get_prompt("none")
    assert measured.durations("tools/call", error_type="tool_error") == 1
    assert measured.durations("prompts/get", rpc_response_status_code="-32602") == 1
    assert measured.durations("prompts/get", error_type="-32602") == 0


async def test_names_that_a_client_invents_are_one_series(measured: Measured) -> None:
    """OTEL-13."""
    async with AsyncTestClient(measured.app) as client:
        for number in range(5):
            with pytest.raises(ProtocolError):
                await client.request("tools/call", {"name": f"invented {number}"})
            with pytest.raises(ProtocolError):
                await client.request(f"invented/{number}")
    assert measured.durations("tools/call", gen_ai_tool_name="_OTHER") == 5
    text = metrics_of(measured.app.server.observers).text()
    assert "invented" not in text
    assert measured.value("mcpkit_rejections_total", reason="malformed") == 5


async def test_a_stream_of_changes_is_not_timed(measured: Measured) -> None:
    """OTEL-14: it lasts for as long as its client likes."""
    changed = anyio.Event()
    async with (
        AsyncTestClient(measured.app, revision=REVISIONS[-1]) as client,
        client.listen(lambda method, params: changed.set(), tools=True),
    ):
        measured.app.remove_tool("add")
        with anyio.fail_after(5):
            await changed.wait()
        assert measured.value("mcpkit_requests_in_flight") == 0
    assert measured.durations("subscriptions/listen") == 0


async def test_series_are_bounded(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_SERIES", 3)
    for number in range(8):
        measured.app.tool(name=f"tool{number}")(lambda: "")
    async with AsyncTestClient(measured.app) as client:
        for number in range(8):
            await client.call_tool(f"tool{number}")
    assert measured.durations("tools/call") == 8
    assert measured.durations("tools/call", gen_ai_tool_name="_OTHER") == 6


async def test_a_round_of_questions_is_two_operations(measured: Measured) -> None:
    async def answer(params: Mapping[str, Any]) -> dict[str, Any]:
        held = measured.value("mcpkit_runs_suspended")
        assert held == 1
        return {"action": "accept", "content": {"value": True}}

    async with AsyncTestClient(measured.app, revision=REVISIONS[-1], elicitation=answer) as client:
        await client.call_tool("ask")
    assert measured.durations("tools/call", gen_ai_tool_name="ask") == 2
    assert measured.value("mcpkit_runs_suspended") == 0


@every_revision
async def test_calls_beyond_their_limits_are_rejections(measured: Measured, revision: str) -> None:
    """Of tools, which show them to the model, and of prompts."""

    @measured.app.tool(rate="1/h")
    def rated_tool() -> None: ...

    @measured.app.prompt(rate="1/h")
    def rated_prompt() -> str:
        return ""

    async with AsyncTestClient(measured.app, revision=revision, raise_exceptions=False) as client:
        for _ in range(3):
            await client.call_tool("rated_tool")
        await client.get_prompt("rated_prompt")
        with pytest.raises(ProtocolError):
            await client.get_prompt("rated_prompt")
    assert measured.value("mcpkit_rejections_total") == 3
    assert measured.value("mcpkit_rejections_total", reason="call limit") == 3


async def test_counters_begin_at_zero(measured: Measured) -> None:
    """Prometheus shows no rate for the first count of a series that was not there."""
    text = metrics_of(measured.app.server.observers).text()
    assert 'mcpkit_rejections_total{reason="call limit"} 0' in text
    assert 'mcpkit_rejections_total{reason="server limit"} 0' in text
    progress = 'mcp_method_name="notifications/progress"'
    assert f"mcpkit_notifications_dropped_total{{{progress}}} 0" in text


# --- gauges ---------------------------------------------------------------------------------------


async def test_calls_that_wait_are_counted_once_for_all_event_loops(measured: Measured) -> None:
    with TestClient(measured.app):
        async with AsyncTestClient(measured.app) as client, anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(client.call_tool, "wait")
            await until(lambda: measured.value("mcpkit_requests_in_flight") == 3)
            await until(lambda: measured.value("mcpkit_queue_length", queue="call limits") == 2)
            measured.release.set()


async def test_what_runs_and_waits_is_shown(measured: Measured) -> None:
    async with AsyncTestClient(measured.app) as client, anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(client.call_tool, "wait")
        await until(lambda: measured.value("mcpkit_queue_length", queue="call limits") == 2)
        assert measured.value("mcpkit_requests_in_flight") == 3
        group.start_soon(client.call_tool, "long")
        await until(lambda: measured.value("mcpkit_tasks", state="working") == 1)
        measured.release.set()
    assert measured.value("mcpkit_requests_in_flight") == 0
    assert measured.value("mcpkit_queue_length", queue="call limits") == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_other_threads_read_while_tasks_begin_and_end(
    measured: Measured,
) -> None:
    """As an exporter of OpenTelemetry does."""
    numbers = metrics_of(measured.app.server.observers)
    over = threading.Event()

    @measured.app.tool(task="required")
    async def short() -> None: ...

    def read() -> None:
        while not over.is_set():
            counts = dict(numbers.read("mcpkit.tasks"))
            assert all(0 <= each <= 20 for each in counts.values())

    async def call_often() -> None:
        for _ in range(10):
            await client.call_tool("short")

    async with AsyncTestClient(measured.app) as client, anyio.create_task_group() as readers:
        readers.start_soon(anyio.to_thread.run_sync, read)
        sys.setswitchinterval(1e-6)
        try:
            async with anyio.create_task_group() as callers:
                for _ in range(20):
                    callers.start_soon(call_often)
        finally:
            sys.setswitchinterval(0.005)
            over.set()


async def test_threads_are_counted_while_functions_use_them(measured: Measured) -> None:
    seen = list[float]()

    @measured.app.tool
    def look() -> None:
        seen.append(measured.value("mcpkit_threads", state="busy"))

    async with in_process(measured.application) as http:
        assert (await call(http, "look")).is_success
        assert seen == [1]
        assert measured.value("mcpkit_threads", state="busy") == 0
        assert measured.value("mcpkit_threads", state="idle") == 1
        tcp = {"network_transport": "tcp", "network_protocol_name": "http"}
        assert measured.durations("tools/call", **tcp) == 1


async def test_dropped_notifications_are_counted_by_method(measured: Measured) -> None:
    @measured.app.tool
    async def flood(ctx: Context) -> None:
        for _ in range(100):
            ctx.info("x" * 10_000)

    async with in_process(measured.application) as http:
        found = await call(http, "flood", **{"io.modelcontextprotocol/logLevel": "info"})
    arrived = found.text.count("notifications/message")
    name = "mcpkit_notifications_dropped_total"
    assert 0 < arrived < 100
    assert measured.value(name, mcp_method_name="notifications/message") == 100 - arrived


# --- the page -------------------------------------------------------------------------------------


async def test_prometheus_parses_the_page(measured: Measured) -> None:
    async with in_process(measured.application) as http:
        found = await http.get("/metrics")
        assert found.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
        names = {each.name for each in text_string_to_metric_families(found.text)}
        assert {"mcp_server_operation_duration_seconds", "mcpkit_sessions"} <= names
        assert (await http.head("/metrics")).content == b""
        assert (await http.post("/metrics")).status_code == 405


async def test_values_that_need_escapes_survive(measured: Measured) -> None:
    names = ['a "b" \\ c\nd', "\\n", 'x{y="z"} 1', "carriage\rreturn", "nul\0", "☃\u2028"]
    names.append("x" * 5000)
    for name in names:
        measured.app.prompt(name=name)(lambda: "")
    async with AsyncTestClient(measured.app) as client:
        for name in names:
            await client.get_prompt(name)
            assert measured.durations("prompts/get", gen_ai_prompt_name=name) == 1


async def test_a_token_may_be_needed() -> None:
    application = MCPKit("measured").asgi(metrics="/numbers", metrics_token="s3cret")
    async with in_process(application) as http:
        for given in ("", "Bearer wrong", "Basic s3cret", "s3cret", "Bearer é"):
            headers = {b"Authorization": given.encode()} if given else {}
            refused = await http.get("/numbers", headers=headers)
            assert refused.status_code == 401
            assert refused.headers["www-authenticate"] == "Bearer"
        for given in ("Bearer s3cret", "bearer  s3cret"):
            assert (await http.get("/numbers", headers={"Authorization": given})).is_success
        assert (await http.get("/metrics")).status_code == 404


async def test_endpoints_of_one_app_have_the_numbers_of_all(measured: Measured) -> None:
    """Each below the path where it is mounted."""
    paths = {"/a": measured.application, "/b": measured.app.asgi(metrics=True)}
    host = Starlette(routes=[Mount(path, each) for path, each in paths.items()])
    async with in_process(measured.application, host) as http:
        for path in paths:
            assert (await call(http, "fail", f"{path}/mcp")).is_success
        assert measured.durations("tools/call", gen_ai_tool_name="fail") == 2
        pages = [await http.get(f"{path}/metrics") for path in ("/a", "/b", "")]
        assert [each.status_code for each in pages] == [200, 200, 404]
        assert pages[0].text == pages[1].text
