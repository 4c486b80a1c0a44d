"""Lets a model build up a SQLite database, query it, and write down what it finds.

    mcpkit run examples/ported/sqlite_server.py:make_app -- --db-path my.db

Without the flag, SQLITE_DB_PATH names the file, which is made if it is not there. What a tool may
do is not read off the beginning of its statement: SQLite asks for each action, and what reads has a
connection that cannot write. Nothing can attach another file, or load code.
"""

import math
import os
import sqlite3
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import anyio.to_thread
from pydantic import Field
from typing_extensions import TypedDict

from mcpkit import Context, MCPKit, SyncContext, ToolError, prompt, resource, tool

MAX_SECONDS = 10.0
MAX_ROWS = 1000
MAX_INSIGHTS = 200
MEMO = "memo://insights"

READING = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
CREATING = READING | {
    sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_INDEX,  # of a key
    sqlite3.SQLITE_INSERT,  # into the list of tables, and of selected rows
    sqlite3.SQLITE_UPDATE,  # of that list
    sqlite3.SQLITE_REINDEX,
    sqlite3.SQLITE_TRANSACTION,
}
LOSING = {
    sqlite3.SQLITE_ALTER_TABLE,
    sqlite3.SQLITE_DELETE,
    sqlite3.SQLITE_DROP_INDEX,
    sqlite3.SQLITE_DROP_TABLE,
    sqlite3.SQLITE_DROP_TRIGGER,
    sqlite3.SQLITE_DROP_VIEW,
    sqlite3.SQLITE_UPDATE,
}
"""After which something may be gone."""

WRITING = CREATING | LOSING | {sqlite3.SQLITE_CREATE_TRIGGER, sqlite3.SQLITE_CREATE_VIEW}

Sql = Annotated[str, Field(min_length=1, max_length=100_000)]
Cell = str | int | float | None
Row = dict[str, Cell]


class Column(TypedDict):
    """A column of a table, in the words of SQLite."""

    cid: int
    name: str
    type: str
    notnull: bool
    dflt_value: str | None
    pk: int


class Written(TypedDict):
    """What a statement has done."""

    affected_rows: int


@dataclass
class Database:
    """What the server offers.

    Args:
        path: Of the file.
    """

    path: Path
    insights: list[str] = field(default_factory=list[str])

    @contextmanager
    def open(
        self, actions: set[int] | None = None, stopped: Callable[[], bool] = bool
    ) -> Generator[sqlite3.Connection, None, None]:
        """A connection for one statement, opened in the thread that it is used in.

        Args:
            actions: All that the statement may do; None for what the server does itself.
            stopped: Returns True when the caller has gone.
        """
        if not self.path.exists():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            sqlite3.connect(self.path).close()
        mode = "rw" if actions is not None and actions > READING else "ro"
        deadline = time.monotonic() + MAX_SECONDS
        uri = f"{self.path.resolve().as_uri()}?mode={mode}"
        with closing(sqlite3.connect(uri, uri=True, timeout=MAX_SECONDS)) as connection:
            connection.row_factory = sqlite3.Row
            if actions is not None:
                connection.set_authorizer(only(actions))
            connection.set_progress_handler(
                lambda: stopped() or time.monotonic() > deadline, 10_000
            )
            with connection:  # keeps what was written, or takes all of it back
                yield connection

    def actions_of(self, query: str) -> set[int]:
        """What a statement would do to tables; SQLite asks for it before it explains how."""
        found: set[int] = set()

        def note(action: int, table: str | None, *_: str | None) -> int:
            if not (table or "").startswith("sqlite_"):  # SQLite's own lists
                found.add(action)
            return sqlite3.SQLITE_OK

        with self.open() as connection:
            connection.set_authorizer(note)
            connection.execute(f"EXPLAIN {query}")
        return found

    def write(self, query: str, actions: set[int]) -> Written:
        """Run a statement that writes."""
        with self.open(actions) as connection:
            return Written(affected_rows=max(0, connection.execute(query).rowcount))

    @tool(read_only=True, open_world=False)
    def read_query(self, query: Sql, ctx: SyncContext) -> list[Row]:
        """Run a SELECT statement.

        Args:
            query: The statement, in SQLite's dialect; with a LIMIT if there may be many rows.
        """
        with self.open(READING, lambda: ctx.cancelled) as connection:
            rows = connection.execute(query).fetchmany(MAX_ROWS + 1)
        if len(rows) > MAX_ROWS:
            raise ToolError(f"There are more than {MAX_ROWS} rows: add a LIMIT.")
        return [{name: shown(cell) for name, cell in dict(row).items()} for row in rows]

    @tool(destructive=True, idempotent=False, open_world=False)
    async def write_query(self, query: Sql, ctx: Context) -> Written:
        """Run an INSERT, UPDATE or DELETE statement; the user is asked before data may be lost.

        Args:
            query: The statement, in SQLite's dialect.
        """
        actions = await anyio.to_thread.run_sync(self.actions_of, query)
        if actions <= READING:
            raise ToolError("That changes nothing: use read_query.")
        # Hosts whose users cannot be asked know that the tool is destructive.
        if actions & LOSING and ctx.client.supports("elicitation"):
            answer = await ctx.elicit(f"Run this in {self.path.name}?\n\n{query}")
            if not answer.accepted:
                raise ToolError("The user does not want this statement to be run.")
        return await anyio.to_thread.run_sync(self.write, query, WRITING)

    @tool(destructive=False, idempotent=False, open_world=False)
    def create_table(self, query: Sql) -> str:
        """Create a table in the database.

        Args:
            query: A CREATE TABLE statement.
        """
        actions = self.actions_of(query)
        if sqlite3.SQLITE_CREATE_TABLE not in actions or actions & LOSING:
            raise ToolError("That is not a CREATE TABLE statement.")
        self.write(query, CREATING)
        return "The table is there."

    @tool(read_only=True, open_world=False)
    def list_tables(self) -> list[str]:
        """List the names of the tables in the database."""
        with self.open() as connection:
            found = connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' "
                "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
            )
            return [row["name"] for row in found]

    @tool(read_only=True, open_world=False)
    def describe_table(self, table_name: Annotated[str, Field(min_length=1)]) -> list[Column]:
        """Tell the columns of a table, with their types and keys.

        Args:
            table_name: One of those that list_tables gives.
        """
        with self.open() as connection:
            found = connection.execute("SELECT * FROM pragma_table_info(?)", [table_name])
            columns = [
                Column(
                    cid=row["cid"],
                    name=row["name"],
                    type=row["type"],
                    notnull=bool(row["notnull"]),
                    dflt_value=row["dflt_value"],
                    pk=row["pk"],
                )
                for row in found
            ]
        if not columns:
            raise ToolError(f"There is no table named {table_name}; list_tables knows them.")
        return columns

    @tool(destructive=False, idempotent=False, open_world=False)
    def append_insight(
        self, insight: Annotated[str, Field(min_length=1, max_length=5000)], ctx: SyncContext
    ) -> str:
        """Add what was found out to the memo that the user can read.

        Args:
            insight: In a sentence or two.
        """
        if len(self.insights) >= MAX_INSIGHTS:
            raise ToolError(f"The memo is full: it has {MAX_INSIGHTS} insights.")
        self.insights.append(insight)
        ctx.notify_resource_updated(MEMO)
        return f"The memo has {len(self.insights)} insights."

    @resource(MEMO, name="Business Insights Memo", mime_type="text/plain")
    def memo(self) -> str:
        """What was found out so far."""
        if not self.insights:
            return "Nothing was found out yet."
        return "Insights\n\n" + "\n".join(f"- {each}" for each in self.insights)

    @prompt(name="mcp-demo")
    def demo(self, topic: str) -> str:
        """Show on made-up data what a model can do with a database.

        Args:
            topic: What the data are about, such as "a bakery".
        """
        return DEMO.format(topic=topic)


DEMO = """Show me, step by step, what you can do with this SQLite database. The topic: {topic}.

1. Invent a small business around the topic and a question that its owner needs an answer to.
2. Make two or three tables for it with create_table, and fill each with about a dozen believable
   rows with write_query. Then tell me what is there.
3. Offer me a few questions to choose from, answer the one I choose with read_query, and say what
   the answer means. Do that once or twice, not more.
4. Write down what we learn with append_insight, and tell me that it is in the resource
   memo://insights.
5. End with a short report with tables or charts that answers the owner's question.

Wait for me after each step."""


def only(actions: set[int]) -> Callable[..., int]:
    """An authorizer: SQLite asks it for every action while it prepares a statement."""

    def decide(action: int, *_: str | None) -> int:
        return sqlite3.SQLITE_OK if action in actions else sqlite3.SQLITE_DENY

    return decide


def shown(cell: Cell | bytes) -> Cell:
    """What JSON can carry: no bytes, and no infinities."""
    if isinstance(cell, bytes):
        return f"<{len(cell)} bytes>"
    return str(cell) if isinstance(cell, float) and not math.isfinite(cell) else cell


def make_app(db_path: Path | None = None) -> MCPKit:
    """Make the server, with the flags of its command line."""
    path = db_path or Path(os.environ.get("SQLITE_DB_PATH", "sqlite_mcp_server.db"))
    app = MCPKit(
        "sqlite",
        version="1.0",
        instructions="Describe tables before you query them.",
        expose_errors=(sqlite3.Error, sqlite3.Warning),  # a model mends its statement by them
    )
    app.include(Database(path.expanduser()))
    return app


app = make_app()

if __name__ == "__main__":
    app.run()
