"""Keeps notes in a JSON file, and tells clients when they change.

Shows resources that come and go while the server runs (clients hear that their list has changed),
``app.notify_resource_updated(uri)`` for subscribers of one, a template with completion, a prompt.

    NOTES_FILE=notes.json mcpkit run examples/notes.py

Without NOTES_FILE the notes end with the server.
"""

import itertools
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from mcpkit import (
    Complete,
    EmbeddedResource,
    MCPKit,
    Message,
    ResourceLink,
    ResourceNotFound,
    TextResourceContents,
    ToolError,
    UserMessage,
)

MAX_NOTES = 1000

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
Text = Annotated[str, Field(min_length=1, max_length=20_000)]

notes: dict[str, str] = {}
# Handlers are async and never await between reading and writing: no lock is needed.


@dataclass
class Found:
    """A note with a line that matches a search."""

    uri: str
    line: str


@asynccontextmanager
async def lifespan(_: MCPKit[None]) -> AsyncGenerator[None, None]:
    """Load the stored notes."""
    file = notes_file()
    if file is not None and file.exists():
        for name, text in json.loads(file.read_text(encoding="utf-8")).items():
            notes[name] = text
            offer(name)
    yield


app = MCPKit(
    "notes",
    version="1.0",
    instructions="Use notes for facts that must not be lost.",
    lifespan=lifespan,
)


def notes_file() -> Path | None:
    """Return the file of the notes."""
    given = os.environ.get("NOTES_FILE")
    return Path(given) if given else None


def save() -> None:
    """Write all notes to a new file and rename it, so a crash keeps the old ones."""
    file = notes_file()
    if file is not None:
        new = file.with_name(file.name + ".new")
        new.write_text(json.dumps(notes, ensure_ascii=False, indent=1), encoding="utf-8")
        os.replace(new, file)


def uri_of(name: str) -> str:
    """The URI of a note."""
    return f"notes://{name}"


def offer(name: str) -> None:
    """Add a note to the list of resources; clients that are connected are told."""

    async def read() -> str:
        return notes[name]

    app.add_resource(
        read, uri_of(name), name=name, description=f"The note {name}", mime_type="text/markdown"
    )


def known(name: str) -> str:
    """The text of a note.

    Raises:
        ToolError: There is none of this name.
    """
    if name not in notes:
        raise ToolError(f"There is no note {name!r}; there are: {', '.join(notes) or 'none'}.")
    return notes[name]


def names(typed: str) -> list[str]:
    """Complete names of notes."""
    return sorted(name for name in notes if name.startswith(typed))


@app.tool(destructive=False)
async def write_note(name: Name, text: Text) -> ResourceLink:
    """Write a new note.

    Args:
        name: Lower-case letters, digits and dashes.
        text: Markdown.
    """
    if name in notes:
        raise ToolError(f"There is a note {name!r} already; use append_note, or delete it first.")
    if len(notes) == MAX_NOTES:
        raise ToolError(f"There are {MAX_NOTES} notes; delete one first.")
    notes[name] = text
    save()
    offer(name)
    return ResourceLink(uri_of(name), name, mime_type="text/markdown")


@app.tool(destructive=False)
async def append_note(name: Name, text: Text) -> str:
    """Add a line to a note, and notify its subscribers.

    Args:
        name: The name of the note.
        text: The line to add.
    """
    notes[name] = f"{known(name)}\n{text}"
    save()
    app.notify_resource_updated(uri_of(name))
    return f"{name} has {len(notes[name].splitlines())} lines now."


@app.tool(destructive=True, idempotent=True)
async def delete_note(name: Name) -> str:
    """Delete a note.

    Args:
        name: The name of the note.
    """
    known(name)
    del notes[name]
    save()
    app.remove_resource(uri_of(name))
    return f"{name} is deleted."


@app.tool(read_only=True)
async def search_notes(
    text: Annotated[str, Field(min_length=1)], limit: Annotated[int, Field(ge=1, le=200)] = 20
) -> list[Found]:
    """Find lines of notes that contain a text, in upper or lower case.

    Args:
        text: The text to find.
        limit: The largest number of lines.
    """
    wanted = text.casefold()
    lines = ((name, line) for name, whole in notes.items() for line in whole.splitlines())
    found = (Found(uri_of(name), line) for name, line in lines if wanted in line.casefold())
    return list(itertools.islice(found, limit))


@app.resource("notes://{name}", mime_type="text/markdown")
async def note(name: Annotated[str, Complete(names)]) -> str:
    """A note by its name."""
    if name not in notes:
        raise ResourceNotFound()
    return notes[name]


@app.prompt
async def summarize(name: Annotated[str, Complete(names)]) -> list[Message]:
    """Summarize a note.

    Args:
        name: The name of the note.
    """
    contents = TextResourceContents(uri_of(name), known(name), mime_type="text/markdown")
    return [
        UserMessage("Summarize this note in three sentences."),
        UserMessage(EmbeddedResource(contents)),
    ]


if __name__ == "__main__":
    app.run()
