"""Answers questions about a folder of Markdown files with the help of the client's model.

Shows ``ctx.sample`` with a system prompt and preferences, a tool loop in which the model calls
Python functions, an answer of a given type, and fallbacks: for clients without tools the
passages go into the question, and for clients without sampling they are the answer.

    ASSISTANT_DOCS=docs mcpkit run examples/assistant.py

Without ASSISTANT_DOCS it reads the folder of this file.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpkit import (
    Context,
    InputRequestError,
    InvalidInputResponse,
    MCPKit,
    SampleMessage,
    ToolError,
)

app = MCPKit(
    "assistant", version="1.0", instructions="Ask it about the documents instead of reading them."
)

SYSTEM = "You answer from the given documents only, in at most five sentences, and name the file."
MAX_PASSAGE = 2000


class Passage(TypedDict):
    """A section of a file."""

    file: str
    heading: str
    text: str


class Answer(BaseModel):
    """An answer and its origin."""

    text: str
    by: Literal["model with tools", "model", "search"]


class Labels(BaseModel):
    """The form that the model fills in."""

    topics: Annotated[list[str], Field(max_length=5)]
    audience: Literal["beginners", "experts", "everybody"]


def documents() -> Path:
    """The folder."""
    return Path(os.environ.get("ASSISTANT_DOCS") or Path(__file__).parent)


def passages() -> Iterator[Passage]:
    """All sections of all files."""
    for file in sorted(documents().glob("*.md")):
        heading, lines = "", list[str]()
        for line in [*file.read_text(encoding="utf-8").splitlines(), "# "]:
            if re.match(r"#+ ", line):
                text = "\n".join(lines).strip()
                if text:
                    yield Passage(file=file.name, heading=heading, text=text[:MAX_PASSAGE])
                heading, lines = line.lstrip("# "), []
            else:
                lines.append(line)


def words_of(text: str) -> set[str]:
    """Return the significant words."""
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 3}


def search_documents(question: str, limit: Annotated[int, Field(ge=1, le=10)] = 3) -> list[Passage]:
    """Find the sections that have most words in common with a question.

    Args:
        question: The words to find.
        limit: The largest number of sections.
    """
    wanted = words_of(question)
    rated = [(len(wanted & words_of(f"{p['heading']} {p['text']}")), p) for p in passages()]
    best = sorted((each for each in rated if each[0]), key=lambda each: -each[0])
    return [passage for _, passage in best[:limit]]


def list_documents() -> list[str]:
    """List the names of the files."""
    return sorted({passage["file"] for passage in passages()})


@app.tool(read_only=True, open_world=False)
async def ask(
    question: Annotated[str, Field(min_length=3, max_length=500)], ctx: Context
) -> Answer:
    """Answer a question about the documents.

    Args:
        question: A whole sentence.
    """
    if can_use_tools(ctx):
        said = await ctx.sample(
            question,
            system=SYSTEM,
            tools=[search_documents, list_documents],
            tool_rounds=4,
            max_tokens=600,
            intelligence=0.8,
        )
        return Answer(text=said.text, by="model with tools")

    found = search_documents(question)
    if not found:
        raise ToolError(
            f"Nothing is known about that; the files are {', '.join(list_documents())}."
        )
    material = "\n\n".join(
        f"## {each['file']}: {each['heading']}\n{each['text']}" for each in found
    )
    if not ctx.client.supports("sampling"):
        return Answer(text=material, by="search")
    messages = [SampleMessage(f"The documents:\n\n{material}"), SampleMessage(question)]
    try:
        said = await ctx.sample(messages, system=SYSTEM, max_tokens=600, intelligence=0.5)
    except InputRequestError as error:  # such as a user who does not let the model be used
        ctx.warning(f"without the model: {error}")
        return Answer(text=material, by="search")
    return Answer(text=said.text, by="model")


def can_use_tools(ctx: Context) -> bool:
    """Return True if the client's model can call our functions."""
    return ctx.client.supports("sampling", "tools")


@app.tool(read_only=True, open_world=False)
async def label(file: str, ctx: Context) -> Labels:
    """Label a document with its topic and audience.

    Args:
        file: The name, from the resource assistant://documents.
    """
    text = "\n\n".join(each["text"] for each in passages() if each["file"] == file)
    if not text:
        raise ToolError(f"There is no {file}; there are {', '.join(list_documents())}.")
    if not ctx.client.supports("sampling"):
        raise ToolError("Your client lets no server use its model, so read the document yourself.")
    try:
        return await ctx.sample(
            f"Label this document:\n\n{text[:8000]}",
            result_type=Labels,
            hints=["small", "haiku", "mini"],
            speed=0.9,
            cost=0.9,
            temperature=0.0,
        )
    except InvalidInputResponse as error:
        raise ToolError(f"The model could not label it: {error}") from None


@app.resource("assistant://documents")
def all_documents() -> list[str]:
    """The names of the files."""
    return list_documents()


if __name__ == "__main__":
    app.run()
