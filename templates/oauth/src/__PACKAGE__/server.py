"""The server: what clients see. Whoever has logged in sees their own notes.

The login is put in front of it where it is served, in `__main__`. Without a login nobody has any
scopes, so over HTTP nobody can use what needs one.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from mcpkit import Claim, MCPKit, SyncContext, ToolError
from pydantic import Field

from . import __version__
from .auth import READ, WRITE
from .notes import Note, Notes
from .settings import data_folder


@asynccontextmanager
async def open_notes(app: object) -> AsyncGenerator[Notes, None]:
    """The notes in the data folder; handlers have them as state."""
    yield Notes(data_folder() / "notes.sqlite3")


app = MCPKit(
    "__PROJECT__",
    version=__version__,
    description="__DESCRIPTION__",
    instructions="Keeps notes. Each user has their own.",
    lifespan=open_notes,
    http={"health": True},
)

Ctx = SyncContext[Notes]
Owner = Annotated[str, Claim("sub")]
"""Whoever has logged in: it comes from their token, and no client can send another one."""


@dataclass
class Caller:
    """Whoever calls."""

    id: str
    name: str | None
    scopes: list[str]


@app.tool(read_only=True, open_world=False)
def whoami(ctx: Ctx, name: Annotated[str | None, Claim("name")] = None) -> Caller:
    """Say who has logged in, and what they let this client do."""
    if ctx.principal is None:
        raise ToolError("Nobody has logged in: logins are for HTTP.")
    return Caller(ctx.principal.id, name, sorted(ctx.principal.scopes))


@app.tool(scopes=[READ], read_only=True, open_world=False)
def find_notes(
    owner: Owner,
    ctx: Ctx,
    text: str = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 20,
) -> list[Note]:
    """Find notes of the user, the latest first.

    Args:
        text: What they have in them; all notes if empty.
        limit: How many at most.
    """
    return ctx.state.find(owner, text, limit)


@app.tool(scopes=[WRITE], destructive=False, open_world=False)
def add_note(
    text: Annotated[str, Field(min_length=1, max_length=10_000)], owner: Owner, ctx: Ctx
) -> Note:
    """Keep a note for the user.

    Args:
        text: What to write down.
    """
    return ctx.state.add(owner, text)


@app.tool(scopes=[WRITE], destructive=True, idempotent=True, open_world=False)
def delete_note(number: int, owner: Owner, ctx: Ctx) -> str:
    """Delete a note of the user for good.

    Args:
        number: Of the note, as find_notes gives it.
    """
    if not ctx.state.delete(owner, number):
        raise ToolError(f"The user has no note {number}.")
    return f"Note {number} is gone."


@app.resource("notes://{number}", scopes=[READ], mime_type="text/plain")
def note(number: int, owner: Owner, ctx: Ctx) -> str | None:
    """A note of the user.

    Args:
        number: Of the note, as find_notes gives it.
    """
    found = ctx.state.get(owner, number)
    return None if found is None else found.text
