"""The MCP server. The SQL statements are in `books`, the connections in `database`."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

from mcpkit import Complete, MCPKit, ResourceNotFound, SyncContext, ToolError
from pydantic import Field

from . import __version__, books
from .books import Book, DuplicateBookError
from .database import Database, QueryError, Rows


@asynccontextmanager
async def open_database(app: object) -> AsyncGenerator[Database, None]:
    """Open the database at ``DATABASE_PATH``; handlers get it as state."""
    database = Database(Path(os.environ.get("DATABASE_PATH", "library.sqlite3")))
    database.migrate()
    yield database


app = MCPKit(
    "__PROJECT__",
    version=__version__,
    description="__DESCRIPTION__",
    instructions="Keeps books. Read library://schema before you write a query.",
    lifespan=open_database,
    http={"health": True},
)
# skill: app.skills(Path(__file__).with_name("skills"))

Ctx = SyncContext[Database]
Limit = Annotated[int, Field(ge=1, le=200, description="The largest number of books.")]


@app.tool(destructive=False, open_world=False)
def add_book(
    title: Annotated[str, Field(min_length=1, max_length=300)],
    author: Annotated[str, Field(min_length=1, max_length=200)],
    year: Annotated[int, Field(ge=-3000, le=3000)],
    ctx: Ctx,
) -> Book:
    """Add a book to the library.

    Args:
        title: The title on the cover.
        author: The full name, first name first.
        year: The year of the first edition.
    """
    try:
        with ctx.state.writing() as connection:
            book = books.add(connection, title, author, year)
    except DuplicateBookError as error:
        raise ToolError(str(error)) from None
    ctx.notify_resource_updated(f"library://authors/{quote(author, safe='')}")
    return book


@app.tool(read_only=True, open_world=False)
def find_books(text: str, ctx: Ctx, limit: Limit = 20) -> list[Book]:
    """Find books by their title or author, newest first.

    Args:
        text: A part of the title or of the author's name.
    """
    with ctx.state.reading() as connection:
        return books.find(connection, text, limit)


@app.tool(read_only=True, open_world=False)
def query_library(
    sql: str, ctx: Ctx, parameters: dict[str, str] | None = None, limit: Limit = 50
) -> Rows:
    """Run a read-only SQLite SELECT on the library, for at most five seconds.

    Args:
        sql: One statement; write values as named parameters, such as :author.
        parameters: The values of the parameters by name; numbers may be strings.
    """
    try:
        return ctx.state.query(sql, parameters or {}, limit)
    except QueryError as error:
        raise ToolError(f"The query cannot be run: {error}") from None


@app.resource("library://schema", mime_type="application/sql")
def schema(ctx: Ctx) -> str:
    """The SQL statements that create the tables."""
    with ctx.state.reading() as connection:
        return books.schema(connection)


def suggest_authors(typed: str, ctx: Ctx) -> list[str]:
    """Return the authors whose names begin with the typed text."""
    with ctx.state.reading() as connection:
        return books.authors(connection, typed, 100)


@app.resource("library://authors/{author}", mime_type="application/json")
def author_books(author: Annotated[str, Complete(suggest_authors)], ctx: Ctx) -> list[Book]:
    """The books of an author, oldest first.

    Args:
        author: The full name.
    """
    with ctx.state.reading() as connection:
        found = books.by_author(connection, author)
    if not found:
        raise ResourceNotFound(f"The library has no book by {author}.")
    return found
