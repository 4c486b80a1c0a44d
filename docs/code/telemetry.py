from mcpkit import Client, Context, MCPKit
from mcpkit.telemetry import Telemetry
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    ConsoleSpanExporter,
)

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter()))
telemetry = Telemetry(tracer_provider=provider, arguments=True)

app = MCPKit("shop", telemetry=telemetry)


@app.tool
async def order(item: str, ctx: Context) -> str:
    """Order something, at a server that continues the trace."""
    async with Client(
        "https://stock.example.com/mcp", telemetry=telemetry
    ) as stock:
        await stock.call_tool("reserve", {"item": item})
    return f"Ordered {item}; support finds it under {ctx.trace_id}."
