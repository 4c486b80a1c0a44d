"""Lets a model explore a SQLite database, and keeps it from changing anything.

Shows a lifespan with a typed state, resources for what can be listed, a template with completion,
structured results, and a query tool that is safe in three independent ways: the file is opened
read-only, an authorizer refuses everything but reading, and a query has a deadline and a limit.

    SQLITE_DATABASE=my.db mcpkit run examples/sqlite_explorer.py

Without SQLITE_DATABASE it explores a small bookshop that it makes for itself.
"""

import math
import os
import sqlite3
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from mcpkit import Complete, MCPKit, ResourceNotFound, SyncContext, ToolError

MAX_SECONDS = 2.0
MAX_TEXT = 2000
MAX_BYTES = 10_000_000

SAMPLE = """
CREATE TABLE author (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE book (
    id INTEGER PRIMARY KEY, title TEXT NOT NULL, author_id INTEGER NOT NULL REFERENCES author,
    cents INTEGER NOT NULL, stock INTEGER NOT NULL
);
CREATE VIEW sold_out AS SELECT title FROM book WHERE stock = 0;
INSERT INTO author VALUES (1, 'Jane Austen'), (2, 'Mary Shelley'), (3, 'Jules Verne');
INSERT INTO book VALUES
    (1, 'Emma', 1, 1250, 4), (2, 'Persuasion', 1, 1100, 0), (3, 'Frankenstein', 2, 990, 7),
    (4, 'The Last Man', 2, 1420, 0), (5, 'Off on a Comet', 3, 1310, 2);
"""


@dataclass
class State:
    """What handlers need to know."""

    database: Path


class Column(TypedDict):
    """A column of a table."""

    name: str
    type: str
    required: bool
    primary_key: bool


Cell = str | int | float | None


class Rows(TypedDict):
    """Rows of a query; `more` tells that there are others after them."""

    columns: list[str]
    rows: list[list[Cell]]
    more: bool


@asynccontextmanager
async def lifespan(_: MCPKit[State]) -> AsyncGenerator[State, None]:
    """Find the database; the sample lives as long as the server does."""
    given = os.environ.get("SQLITE_DATABASE")
    if given:
        path = Path(given).resolve()
        if not path.is_file():
            raise FileNotFoundError(f"SQLITE_DATABASE: there is no file {given}")
        yield State(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bookshop.db")
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(SAMPLE)
        yield State(path)


app = MCPKit(
    "sqlite-explorer",
    version="1.0",
    instructions="Read schemas before you query.",
    lifespan=lifespan,
)

READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}


def only_reading(action: int, *_: str | None) -> int:
    """The authorizer: SQLite asks it while it prepares a statement."""
    return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY


@contextmanager
def connected(state: State) -> Generator[sqlite3.Connection, None, None]:
    """A connection for one call, opened and closed in the thread that its handler runs in."""
    uri = state.database.as_uri() + "?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as connection:
        if sys.version_info >= (3, 11):
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_BYTES)
        yield connection


def table_names(state: State) -> list[str]:
    """Tables and views, without those of SQLite itself."""
    with connected(state) as connection:
        found = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') "
            "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
        )
        return [name for (name,) in found]


def suggest(typed: str, ctx: SyncContext[State]) -> list[str]:
    """Completion: names of tables that begin with what was typed."""
    return [each for each in table_names(ctx.state) if each.startswith(typed)]


@app.resource("sqlite://tables")
def tables(ctx: SyncContext[State]) -> list[str]:
    """The names of the tables and views."""
    return table_names(ctx.state)


@app.resource("sqlite://tables/{table}")
def schema(table: Annotated[str, Complete(suggest)], ctx: SyncContext[State]) -> list[Column]:
    """The columns of a table or view."""
    if table not in table_names(ctx.state):
        raise ResourceNotFound()
    with connected(ctx.state) as connection:
        described = connection.execute("SELECT * FROM pragma_table_info(?)", [table])
        return [
            Column(name=name, type=kind, required=bool(not_null), primary_key=bool(key))
            for _, name, kind, not_null, _, key in described
        ]


@app.tool(read_only=True)
def query_database(
    sql: str,
    ctx: SyncContext[State],
    parameters: list[Cell] | None = None,
    limit: Annotated[int, Field(ge=1, le=1000)] = 100,
) -> Rows:
    """Run one SELECT statement.

    Args:
        sql: In SQLite's dialect, with ? for values.
        parameters: The values for the question marks, in their order.
        limit: How many rows at most.
    """
    deadline = time.monotonic() + MAX_SECONDS
    with connected(ctx.state) as connection:
        connection.set_authorizer(only_reading)
        connection.set_progress_handler(
            lambda: ctx.cancelled or time.monotonic() > deadline, 10_000
        )
        try:
            cursor = connection.execute(sql, parameters or [])
            rows = cursor.fetchmany(limit + 1)
        except (sqlite3.Error, sqlite3.Warning) as error:
            late = time.monotonic() > deadline
            raise ToolError(f"SQLite: {error}" + f" after {MAX_SECONDS} s" * late) from None
    if cursor.description is None:
        raise ToolError("That is not a SELECT statement.")
    columns = [column[0] for column in cursor.description]
    return Rows(
        columns=columns,
        rows=[[printable(cell) for cell in row] for row in rows[:limit]],
        more=len(rows) > limit,
    )


def printable(cell: Cell | bytes) -> Cell:
    """What JSON can carry and a model can read: no bytes, no infinities, no novels."""
    if isinstance(cell, bytes):
        return f"<{len(cell)} bytes>"
    if isinstance(cell, float) and not math.isfinite(cell):
        return str(cell)
    if isinstance(cell, str) and len(cell) > MAX_TEXT:
        return f"{cell[:MAX_TEXT]}… ({len(cell)} characters)"
    return cell


if __name__ == "__main__":
    app.run()
