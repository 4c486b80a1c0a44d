"""A server that observes everything keeps nothing of the calls that are over."""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from mcpkit import CallLimits, MCPKit, ToolError
from mcpkit._concurrency.loop import open_loop
from mcpkit._server.channel import Channel
from mcpkit._server.serving import serving
from mcpkit._server.session import Session
from mcpkit.audit import Audit, JsonLinesHandler
from mcpkit.metrics import metrics_of
from mcpkit.telemetry import Telemetry
from tests.messages import announced

MIB = 1024 * 1024


class Exporter(SpanExporter):
    """Counts spans, and keeps none."""

    def __init__(self) -> None:
        self.count = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.count += len(spans)
        return SpanExportResult.SUCCESS


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_memory_is_flat_with_everything_on(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    exporter = Exporter()
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    meters = MeterProvider([InMemoryMetricReader()])
    handler = JsonLinesHandler(str(tmp_path / "audit.jsonl"), max_bytes=MIB, backups=1)
    app: MCPKit[Any] = MCPKit(
        "observed",
        audit=Audit(arguments=True),
        telemetry=Telemetry(tracer_provider=provider, meter_provider=meters, arguments=True),
        call_limits=CallLimits(timeout=60, concurrency=64, rate="999999/s"),
    )

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    async def fail(a: int) -> None:
        raise ToolError(f"no {a}")

    def calls(number: int) -> Sequence[bytes]:
        trace = {"traceparent": f"00-{number + 1:032x}-{number + 1:016x}-01"}
        return [
            json.dumps(announced(number, "tools/call", **params, _meta=trace)).encode()
            for params in (
                {"name": "add", "arguments": {"a": number, "b": 1}},
                {"name": "fail", "arguments": {"a": number}},
                {"name": f"invented {number}", "arguments": {}},
            )
        ]

    logger = logging.getLogger("mcpkit.audit")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    total, sizes = 1_000_000 if request.config.getoption("--deep") else 12_000, list[int]()
    try:
        async with (
            app.running() as server,
            open_loop() as loop,
            serving(server, loop) as (served, _),
        ):
            session = Session(served, Channel(), loop)
            for number in range(total // 3):
                for text in calls(number):
                    session.receive(text)
                if number % 100 == 0:
                    await checkpoint()  # timers that were cancelled are dropped
                if number % (total // 30) == 0:
                    gc.collect()
                    sizes.append(resident())
            await session.wait_idle()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True
        handler.close()
        provider.shutdown()
    assert exporter.count > 0
    assert len(metrics_of(app.server.observers).text()) < 100_000
    assert max(sizes[5:]) - max(sizes[:5]) < 8 * MIB, [each // MIB for each in sizes]
