"""OpenAI's agents: a server object, and an agent whose model is scripted.

Its servers have no way to be told of progress.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from agents.mcp import MCPServer, MCPServerStdio, MCPServerStreamableHttp
from driving import ADD, SERVER, URL, Report
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

set_tracing_disabled(True)


class Scripted(Model):
    """Calls a tool, and says what it answered."""

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> Any:
        last = input[-1]
        output: Any
        if last.get("type") == "function_call_output":
            answer = last["output"]
            text = answer if isinstance(answer, str) else answer[0]["text"]
            part = ResponseOutputText(annotations=[], text=f"It is {text}.", type="output_text")
            output = ResponseOutputMessage(
                id="2", content=[part], role="assistant", status="completed", type="message"
            )
        else:
            output = ResponseFunctionToolCall(
                arguments=json.dumps(ADD), call_id="1", name="add", type="function_call"
            )
        return ModelResponse(output=[output], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def connection() -> MCPServer:
    if URL:
        return MCPServerStreamableHttp({"url": URL})
    return MCPServerStdio({"command": SERVER[0], "args": SERVER[1:]})


async def main() -> None:
    report = Report("openai-agents")
    async with connection() as server:

        async def tools() -> Any:
            found = await server.list_tools()
            return {each.name: sorted(schema_of(each)["properties"]) for each in found}

        async def call(name: str, values: dict[str, Any]) -> Any:
            return (await server.call_tool(name, values)).model_dump(by_alias=True)

        async def agent() -> Any:
            asked = Agent(name="adder", model=Scripted(), mcp_servers=[server])
            return (await Runner.run(asked, "What is 2 + 40?")).final_output

        await report.note("tools", tools)
        await report.note_answers(call)
        await report.note("agent", agent)
    report.print()


def schema_of(tool: Any) -> Any:
    return tool.model_dump(by_alias=True)["inputSchema"]


asyncio.run(main())
