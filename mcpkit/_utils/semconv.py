"""What the semantic conventions of OpenTelemetry for MCP name, for spans and metrics alike."""

from __future__ import annotations

from typing import Final

BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Upper bounds of the buckets of durations, in seconds (OTEL-11)."""


def names_of(method: str, entry: object) -> dict[str, str]:
    """Return the attributes that name a request: its method, and its tool or prompt."""
    found = {"mcp.method.name": method}
    if method == "tools/call":
        found["gen_ai.operation.name"] = "execute_tool"  # OTEL-3
        if isinstance(entry, str):
            found["gen_ai.tool.name"] = entry
    elif method == "prompts/get" and isinstance(entry, str):
        found["gen_ai.prompt.name"] = entry
    return found
