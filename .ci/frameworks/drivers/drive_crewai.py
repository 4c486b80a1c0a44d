"""CrewAI's tools, and an agent whose model is scripted.

Of a result, the adapter passes on the text alone: neither data nor images, and not whether it is an
error. It does not ask for progress.
"""

from __future__ import annotations

from typing import Any

from crewai import Agent, BaseLLM
from crewai_tools import MCPServerAdapter
from driving import ADD, BOOK, SERVER, URL, Report
from mcp import StdioServerParameters


class Scripted(BaseLLM):
    """Calls a tool in the words that CrewAI asks for, and says what it answered."""

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        for message in messages:
            _, found, answer = message["content"].partition("Observation: ")
            if found and message["role"] == "assistant":
                return f"Thought: I know.\nFinal Answer: It is {answer}."
        return 'Thought: I add.\nAction: add\nAction Input: {"a": 2, "b": 40}'

    def supports_function_calling(self) -> bool:
        return False


def main() -> None:
    report = Report("crewai-tools")
    how: Any = (
        {"url": URL, "transport": "streamable-http"}
        if URL
        else StdioServerParameters(command=SERVER[0], args=SERVER[1:])
    )
    with MCPServerAdapter(how) as found:
        tools = {each.name: each for each in found}

        def listed() -> Any:
            return {name: sorted(each.args_schema.model_fields) for name, each in tools.items()}

        def agent() -> Any:
            asked = Agent(
                role="adder",
                goal="Add.",
                backstory="None.",
                llm=Scripted(model="scripted"),
                tools=list(found),
            )
            return asked.kickoff("What is 2 + 40?").raw

        report.note_now("tools", listed)
        report.note_now("add", lambda: tools["add"].run(**ADD))
        report.note_now("ready", lambda: tools["ready"].run())
        report.note_now("book", lambda: tools["book"].run(**BOOK))
        report.note_now("agent", agent)
    report.print()


main()
