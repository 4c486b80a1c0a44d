"""One handler of every kind on mcpkit, over stdio or for `mcpkit run --http`.

Each app offers all of them. `threads` is for `def` handlers, `principal` and `rate_limit` have that
option of their endpoint set, and the last four observe calls.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from tempfile import mkdtemp
from typing import Any

from benchmarks.servers.many import add
from mcpkit import Context, HttpOptions, HttpRequest, Limits, MCPKit

OBSERVING = ("metrics", "audit", "traced", "observed")


async def add_ctx(a: int, b: int, ctx: Context) -> int:
    """Add two numbers, with a context at hand."""
    return a + b


def add_inline(a: int, b: int) -> int:
    """Add two numbers on the event loop."""
    return a + b


def add_def(a: int, b: int) -> int:
    """Add two numbers in a thread."""
    return a + b


async def total() -> str:
    """What 17 and 25 are."""
    return "42"


async def question(a: int, b: int) -> str:
    """Ask for the sum of two numbers."""
    return f"What is {a} + {b}?"


def _sender(request: HttpRequest) -> str:
    # A header that every request has, as a token would be: so all servers get the same bytes.
    return request.headers["host"]


def make(http: HttpOptions | None = None, **options: Any) -> MCPKit:
    """An app with all of them, and options of its endpoint and of its own."""
    made: MCPKit = MCPKit("bench", http=http, **options)
    made.add_tool(add)
    made.add_tool(add_ctx)
    made.add_tool(add_inline, inline=True)
    made.add_tool(add_def)
    made.add_resource(total, "sums://total")
    made.add_prompt(question)
    return made


app = make()
threads = make()
principal = make({"principal": _sender})
rate_limit = make({"limits": Limits(rate_limit=1_000_000_000)})


def observing(name: str) -> MCPKit:
    """An app that observes calls: in one of three ways, or in all of them."""
    everything = name == "observed"
    options: dict[str, Any] = {}
    if everything or name == "audit":
        from mcpkit.audit import JsonLinesHandler

        log = logging.getLogger("mcpkit.audit")
        log.addHandler(JsonLinesHandler(f"{mkdtemp()}/audit.jsonl", backups=0))
        log.setLevel(logging.INFO)
        log.propagate = False
        options["audit"] = True
    if everything or name == "traced":
        from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        from mcpkit.telemetry import Telemetry

        class Exporter(InMemorySpanExporter):
            """Keeps the spans of one batch."""

            def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
                self.clear()
                return super().export(spans)

        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(Exporter()))
        options["telemetry"] = Telemetry(tracer_provider=provider)
    made = make({"metrics": everything or name == "metrics"}, **options)
    made.asgi()  # which is where metrics begin
    return made


def __getattr__(name: str) -> MCPKit:
    # Made when it is asked for, so that other servers load nothing that observes.
    if name not in OBSERVING:
        raise AttributeError(name)
    return observing(name)


if __name__ == "__main__":
    name = sys.argv[1]
    (observing(name) if name in OBSERVING else app).run()
