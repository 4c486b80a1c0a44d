"""The MCP server. Users see only their own notes.

`__main__` serves it behind the login. Without the login, requests over HTTP have no scopes, so they
cannot use tools and resources that need one.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
# skill: from pathlib import Path
from typing import Annotated

from mcpkit import Claim, MCPKit, SyncContext, ToolError
from pydantic import Field

from . import __version__
from .auth import READ, WRITE
from .notes import Note, Notes
from .settings import data_folder


@asynccontextmanager
async def open_notes(app: object) -> AsyncGenerator[Notes, None]:
    """Open the notes in the data folder; handlers get them as state."""
    yield Notes(data_folder() / "notes.sqlite3")


app = MCPKit(
    "__PROJECT__",
    version=__version__,
    description="__DESCRIPTION__",
    instructions="Keeps notes. Each user has their own.",
    lifespan=open_notes,
    http={"health": True},
)
# skill: app.skills(Path(__file__).with_name("skills"))

Ctx = SyncContext[Notes]
Owner = Annotated[str, Claim("sub")]
"""Return the user that the token names; clients cannot choose it."""


@dataclass
class Caller:
    """The user who calls."""

    id: str
    name: str | None
    scopes: list[str]


@app.tool(read_only=True, open_world=False)
def whoami(ctx: Ctx, name: Annotated[str | None, Claim("name")] = None) -> Caller:
    """Return the name of the user and the permissions of this client."""
    if ctx.principal is None:
        raise ToolError("No user has logged in: logins need HTTP.")
    return Caller(ctx.principal.id, name, sorted(ctx.principal.scopes))


@app.tool(scopes=[READ], read_only=True, open_world=False)
def find_notes(
    owner: Owner,
    ctx: Ctx,
    text: str = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 20,
) -> list[Note]:
    """Find notes of the user, latest first.

    Args:
        text: A text that the notes contain; all notes if empty.
        limit: The largest number of notes.
    """
    return ctx.state.find(owner, text, limit)


@app.tool(scopes=[WRITE], destructive=False, open_world=False)
def add_note(
    text: Annotated[str, Field(min_length=1, max_length=10_000)], owner: Owner, ctx: Ctx
) -> Note:
    """Store a note for the user.

    Args:
        text: The text of the note.
    """
    return ctx.state.add(owner, text)


@app.tool(scopes=[WRITE], destructive=True, idempotent=True, open_world=False)
def delete_note(number: int, owner: Owner, ctx: Ctx) -> str:
    """Delete a note of the user.

    Args:
        number: The number from find_notes.
    """
    if not ctx.state.delete(owner, number):
        raise ToolError(f"The user has no note {number}.")
    return f"Note {number} is gone."


@app.resource("notes://{number}", scopes=[READ], mime_type="text/plain")
def note(number: int, owner: Owner, ctx: Ctx) -> str | None:
    """A note of the user.

    Args:
        number: The number from find_notes.
    """
    found = ctx.state.get(owner, number)
    return None if found is None else found.text
