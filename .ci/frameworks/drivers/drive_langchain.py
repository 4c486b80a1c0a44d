"""LangChain's adapters: the tools of a session, and an agent with a fake chat model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from driving import ADD, BOOK, COUNT, LOCATE, REFUSE, SERVER, URL, Report
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools


class Scripted(GenericFakeChatModel):
    """The fake model that LangChain ships cannot be told of tools."""

    def bind_tools(self, tools: Sequence[Any], **more: Any) -> Any:
        return self


async def main() -> None:
    report = Report("langchain-mcp-adapters")
    progress: list[Any] = []

    async def on_progress(done: float, total: float | None, message: str | None, ctx: Any) -> None:
        progress.append([done, total])

    callbacks = Callbacks(on_progress=on_progress)
    connection: Any = (
        {"transport": "http", "url": URL}
        if URL
        else {"transport": "stdio", "command": SERVER[0], "args": SERVER[1:]}
    )
    client = MultiServerMCPClient({"here": connection}, callbacks=callbacks)
    async with client.session("here") as session:
        tools = {each.name: each for each in await load_mcp_tools(session, callbacks=callbacks)}

        async def listed() -> Any:
            return {name: sorted(each.args) for name, each in tools.items()}

        async def call(name: str, values: dict[str, Any]) -> Any:
            """The message that a model is given; only with a call's id there is one."""
            request = ToolCall(name=name, args=values, id="1", type="tool_call")
            return await tools[name].ainvoke(request)

        async def text(name: str, values: dict[str, Any]) -> Any:
            return (await call(name, values)).content[0]["text"]

        async def locate() -> Any:
            return (await call("locate", LOCATE)).artifact["structured_content"]

        async def picture() -> Any:
            return (await call("picture", {})).content[0]["base64"]

        async def refuse() -> Any:
            message = await call("refuse", REFUSE)
            return message.content[0]["text"] if message.status == "error" else None

        async def count() -> Any:
            await call("count", COUNT)
            return progress

        async def agent() -> Any:
            request = ToolCall(name="add", args=ADD, id="1", type="tool_call")
            said = [AIMessage("", tool_calls=[request]), AIMessage("Thanks.")]
            asked: Any = create_agent(Scripted(messages=iter(said)), list(tools.values()))
            done = await asked.ainvoke({"messages": [("user", "What is 2 + 40?")]})
            *_, answer, last = done["messages"]
            assert last.content == "Thanks."
            return f"It is {answer.content[0]['text']}."

        await report.note("tools", listed)
        await report.note("add", lambda: text("add", ADD))
        await report.note("ready", lambda: text("ready", {}))
        await report.note("book", lambda: text("book", BOOK))
        await report.note("locate", locate)
        await report.note("picture", picture)
        await report.note("refuse", refuse)
        await report.note("count", count)
        await report.note("agent", agent)
    report.print()


asyncio.run(main())
