"""Pydantic AI: a toolset, and an agent whose model is a function."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

from driving import ADD, BOOK, COUNT, LOCATE, REFUSE, SERVER, URL, Report
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


async def main() -> None:
    report = Report("pydantic-ai-slim")
    progress: list[Any] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total])

    toolset: MCPToolset[None] = MCPToolset(
        URL or StdioTransport(SERVER[0], SERVER[1:]), progress_handler=on_progress
    )

    async def tools() -> Any:
        return {
            each.name: sorted(each.inputSchema["properties"]) for each in await toolset.list_tools()
        }

    async def picture() -> Any:
        return base64.b64encode((await toolset.direct_call_tool("picture", {})).data).decode()

    async def refuse() -> Any:
        try:
            await toolset.direct_call_tool("refuse", REFUSE)
        except ModelRetry as error:
            return error.message

    async def count() -> Any:
        await toolset.direct_call_tool("count", COUNT)
        return progress

    def scripted(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(f"It is {last.content}.")])
        return ModelResponse(parts=[ToolCallPart("add", ADD)])

    async def agent() -> Any:
        asked = Agent(FunctionModel(scripted), toolsets=[toolset])
        return (await asked.run("What is 2 + 40?")).output

    async with toolset:
        await report.note("tools", tools)
        await report.note("add", lambda: toolset.direct_call_tool("add", ADD))
        await report.note("ready", lambda: toolset.direct_call_tool("ready", {}))
        await report.note("book", lambda: toolset.direct_call_tool("book", BOOK))
        await report.note("locate", lambda: toolset.direct_call_tool("locate", LOCATE))
        await report.note("picture", picture)
        await report.note("refuse", refuse)
        await report.note("count", count)
        await report.note("agent", agent)
    report.print()


asyncio.run(main())
