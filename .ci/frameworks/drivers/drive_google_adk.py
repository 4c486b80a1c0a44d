"""Google's Agent Development Kit: every call is made by an agent whose model is scripted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from driving import ADD, COUNT, SERVER, URL, Report
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool import (
    McpToolset,
    StdioConnectionParams,
    StreamableHTTPConnectionParams,
)
from google.genai.types import Content, Part
from mcp import StdioServerParameters


class Scripted(BaseLlm):
    """Calls the tool that the user names, and says what it answered."""

    model: str = "scripted"
    name: str
    values: dict[str, Any]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        part = llm_request.contents[-1].parts[-1]
        if part.function_response:
            answer = part.function_response.response["content"][0]
            said = Part(text=f"It is {answer.get('text', 'a picture')}.")
        else:
            said = Part.from_function_call(name=self.name, args=self.values)
        yield LlmResponse(content=Content(role="model", parts=[said]))


async def main() -> None:
    report = Report("google-adk")
    progress: list[Any] = []

    async def on_progress(
        done: float, total: float | None = None, message: str | None = None
    ) -> None:
        progress.append([done, total])

    command = {"command": SERVER[0], "args": SERVER[1:]}
    toolset = McpToolset(
        connection_params=StreamableHTTPConnectionParams(url=URL)
        if URL
        else StdioConnectionParams(server_params=StdioServerParameters(**command), timeout=20),
        progress_callback=on_progress,
    )

    async def tools() -> Any:
        found = {}
        for each in await toolset.get_tools():
            declared = each._get_declaration()
            schema = declared.parameters_json_schema or declared.parameters.model_dump()
            found[each.name] = sorted(schema.get("properties") or {})
        return found

    async def run(name: str, values: dict[str, Any]) -> list[Part]:
        """The parts of all events of one round."""
        agent = LlmAgent(name="asked", model=Scripted(name=name, values=values), tools=[toolset])
        runner = InMemoryRunner(agent, app_name="drive")
        session = await runner.session_service.create_session(app_name="drive", user_id="me")
        asked = Content(role="user", parts=[Part(text="What is 2 + 40?")])
        return [
            part
            async for event in runner.run_async(
                user_id="me", session_id=session.id, new_message=asked
            )
            for part in (event.content and event.content.parts) or ()
        ]

    async def call(name: str, values: dict[str, Any]) -> Any:
        (found,) = [
            each.function_response.response
            for each in await run(name, values)
            if each.function_response
        ]
        return found

    async def count() -> Any:
        await call("count", COUNT)
        return progress

    async def agent() -> Any:
        return (await run("add", ADD))[-1].text

    await report.note("tools", tools)
    await report.note_answers(call)
    await report.note("count", count)
    await report.note("agent", agent)
    await toolset.close()
    report.print()


asyncio.run(main())
