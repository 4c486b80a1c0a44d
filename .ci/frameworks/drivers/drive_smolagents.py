"""smolagents with mcpadapt: its tools, and an agent whose model is scripted.

The adapter drops whether a result is an error, and has no way to be told of progress.
"""

from __future__ import annotations

import base64
from io import BytesIO
from typing import Any

from driving import ADD, BOOK, LOCATE, PICTURE, SERVER, URL, Report
from mcp import StdioServerParameters
from PIL import Image
from smolagents import MCPClient, Model, ToolCallingAgent
from smolagents.models import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)


class Scripted(Model):
    """Calls a tool, and says what it answered."""

    def generate(self, messages: list[Any], **_: Any) -> ChatMessage:
        last = messages[-1].content[0]["text"]
        if "Observation" in last:
            name, values = "final_answer", {"answer": f"It is {last}."}
        else:
            name, values = "add", ADD
        call = ChatMessageToolCall(
            function=ChatMessageToolCallFunction(name=name, arguments=values),
            id="1",
            type="function",
        )
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=[call])


def main() -> None:
    report = Report("smolagents")
    how: Any = (
        {"url": URL, "transport": "streamable-http"}
        if URL
        else StdioServerParameters(command=SERVER[0], args=SERVER[1:])
    )
    with MCPClient(how, structured_output=True) as found:
        tools = {each.name: each for each in found}

        def picture() -> Any:
            """The client makes a picture of Pillow's."""
            shown = tools["picture"]()
            same = shown == Image.open(BytesIO(base64.b64decode(PICTURE)))
            return PICTURE if same else repr(shown)

        def agent() -> Any:
            return ToolCallingAgent(tools=list(found), model=Scripted()).run("What is 2 + 40?")

        report.note_now(
            "tools", lambda: {name: sorted(each.inputs) for name, each in tools.items()}
        )
        report.note_now("add", lambda: tools["add"](**ADD))
        report.note_now("ready", lambda: tools["ready"]())
        report.note_now("book", lambda: tools["book"](**BOOK))
        report.note_now("locate", lambda: tools["locate"](**LOCATE))
        report.note_now("picture", picture)
        report.note_now("agent", agent)
    report.print()


main()
