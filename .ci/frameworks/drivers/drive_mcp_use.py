"""mcp-use in Python: a session, and an agent with a fake chat model of LangChain's.

Its sessions have no way to be told of progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from driving import ADD, BOOK, LOCATE, REFUSE, SERVER, URL, Report
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolCall, ToolMessage
from mcp_use import MCPAgent, MCPClient


class Scripted(GenericFakeChatModel):
    """LangChain's fake model cannot be told of tools, nor look at what they answered."""

    def bind_tools(self, tools: Sequence[Any], **more: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> Any:
        last = messages[-1]
        said = AIMessage("", tool_calls=[ToolCall(name="add", args=ADD, id="1", type="tool_call")])
        if isinstance(last, ToolMessage):
            said = AIMessage(str(last.content))
        self.messages = iter([said])
        return super()._generate(messages, *args, **more)


async def main() -> None:
    report = Report("mcp-use")
    how: dict[str, Any] = {"url": URL} if URL else {"command": SERVER[0], "args": SERVER[1:]}
    client = MCPClient({"mcpServers": {"here": how}})
    session = await client.create_session("here")

    async def tools() -> Any:
        return {
            each.name: sorted(each.inputSchema["properties"]) for each in await session.list_tools()
        }

    async def text(name: str, values: dict[str, Any]) -> Any:
        return (await session.call_tool(name, values)).content[0].text

    async def locate() -> Any:
        return (await session.call_tool("locate", LOCATE)).structuredContent

    async def picture() -> Any:
        return (await session.call_tool("picture", {})).content[0].data

    async def refuse() -> Any:
        result = await session.call_tool("refuse", REFUSE)
        return result.content[0].text if result.isError else None

    async def agent() -> Any:
        return await MCPAgent(llm=Scripted(messages=iter(())), client=client).run("What is 2 + 40?")

    await report.note("tools", tools)
    await report.note("add", lambda: text("add", ADD))
    await report.note("ready", lambda: text("ready", {}))
    await report.note("book", lambda: text("book", BOOK))
    await report.note("locate", locate)
    await report.note("picture", picture)
    await report.note("refuse", refuse)
    await report.note("agent", agent)
    await client.close_all_sessions()
    report.print()


asyncio.run(main())
