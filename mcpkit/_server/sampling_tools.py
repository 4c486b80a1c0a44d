"""Sampling with tools: the model calls Python functions until it has an answer (SAMP-2, SAMP-4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mcpkit._entries import Defaults
from mcpkit._protocol import wire
from mcpkit._server.handlers import use_tool
from mcpkit._signature.output import Rendered
from mcpkit.context import Context
from mcpkit.sampling import Sample, SampleMessage, SampleResult, ToolUse, ToolUseResult
from mcpkit.tools import Tool, make_tool

__all__ = ["sample_with_tools"]


async def sample_with_tools(
    context: Context[Any],
    sample: Sample,
    functions: Sequence[Callable[..., Any]],
    rounds: int,
    defaults: Defaults,
) -> SampleResult:
    """Ask the model, run the tools it wants, and tell it the results, until it answers.

    Args:
        context: Of the request that is served.
        sample: The first question; its tools are added here.
        functions: The tools: their signatures become schemas, as for ``@app.tool``.
        rounds: How often the model may want tools; then it has to answer without.
        defaults: Of the app.
    """
    made = [make_tool(each, defaults=defaults) for each in functions]
    tools = {tool.name: tool for tool in made}
    revision = context.request.revision
    described = [tool.to_wire(revision) for tool in tools.values()]
    messages = list(sample.messages)
    key = sample.key
    for number in range(rounds + 1):
        asked = sample.continued(messages, described, key=f"{key}.{number}" if key else None)
        if number == rounds:
            asked.tool_choice = "none"
        result: SampleResult = await context.peer.ask(asked)
        uses = result.tool_uses
        if not uses or number == rounds:
            return result
        answers = [await _use(context, tools, use) for use in uses]
        messages.append(SampleMessage(result.content, "assistant"))
        # SAMP-2: a user message that holds nothing but the results, one for each use.
        messages.append(SampleMessage(answers, "user"))
    raise AssertionError("unreachable: the last round returns")


async def _use(context: Context[Any], tools: Mapping[str, Tool], use: ToolUse) -> ToolUseResult:
    """Run one tool, once, however often the call is replayed."""
    revision = context.request.revision

    async def run() -> dict[str, Any]:
        tool = tools.get(use.name)
        if tool is None:
            rendered = Rendered(f"There is no tool {use.name}", is_error=True)
        else:
            rendered = await use_tool(tool, dict(use.input), context)
        wired = [wire.block_to_wire(block, revision) for block in rendered.blocks()]
        return {"content": wired, "isError": rendered.is_error}

    found = await context.step(f"tool {use.name} {use.id}", run)
    blocks = [wire.block_from_wire(each) for each in found["content"]]
    return ToolUseResult(use.id, blocks, found["isError"])
