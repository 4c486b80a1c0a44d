"""LlamaIndex: the tools of a specification, and an agent with its mock model."""

from __future__ import annotations

import asyncio
from typing import Any

from driving import ADD, COUNT, SERVER, URL, Report
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ToolCallBlock
from llama_index.core.llms.mock import MockFunctionCallingLLM
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


async def main() -> None:
    report = Report("llama-index-tools-mcp")
    client = BasicMCPClient(URL or SERVER[0], args=None if URL else SERVER[1:])
    tools = {each.metadata.name: each for each in await McpToolSpec(client).to_tool_list_async()}

    async def listed() -> Any:
        schemas = {name: each.metadata.get_parameters_dict() for name, each in tools.items()}
        return {name: sorted(each["properties"]) for name, each in schemas.items()}

    async def call(name: str, values: dict[str, Any]) -> Any:
        return (await tools[name].acall(**values)).raw_output.model_dump(by_alias=True)

    async def count() -> Any:
        progress: list[Any] = []

        async def on_progress(done: float, total: float | None, message: str | None) -> None:
            progress.append([done, total])

        await client.call_tool("count", COUNT, progress_callback=on_progress)
        return progress

    def scripted(messages: Any, **_: Any) -> ChatMessage:
        last = messages[-1]
        if last.role == "tool":
            return ChatMessage(role="assistant", content=str(last.content))
        block = ToolCallBlock(tool_call_id="1", tool_name="add", tool_kwargs=ADD)
        return ChatMessage(role="assistant", blocks=[block])

    async def agent() -> Any:
        asked = FunctionAgent(
            tools=list(tools.values()),
            llm=MockFunctionCallingLLM(response_generator=scripted),
            streaming=False,
        )
        return str(await asked.run("What is 2 + 40?"))

    await report.note("tools", listed)
    await report.note_answers(call)
    await report.note("count", count)
    await report.note("agent", agent)
    report.print()


asyncio.run(main())
