"""An SQLite file, its migrations, and connections for reading and writing, without MCP.

A connection is for one task in one thread. Opening one takes a fraction of a millisecond.
"""

import sqlite3
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

Value: TypeAlias = str | int | float | None

BUSY_SECONDS = 5.0
QUERY_SECONDS = 5.0
MOST_BYTES_OF_A_VALUE = 1_000_000

# Operations that a statement of a client may perform; all others are refused.
_ALLOWED = frozenset(
    {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
)


@dataclass
class Rows:
    """The rows of a query."""

    columns: list[str]
    rows: list[list[Value]]
    more: bool


class QueryError(Exception):
    """A query cannot be run; the message is safe to show to the client that sent it."""


class Database:
    """A database in a file.

    Args:
        path: The file; the first migration creates it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def migrate(self) -> None:
        """Run the files of ``migrations`` that have not been run yet.

        Their names begin with numbers from 1; the database stores the last number.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.writing() as connection:
            (last,) = connection.execute("PRAGMA user_version").fetchone()
            for number, script in _migrations():
                if number > last:
                    for statement in _statements(script):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {number:d}")

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection, None, None]:
        """Open a connection with a transaction; an exception in the block rolls it back."""
        with closing(self._connect("rwc")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.rollback()
                raise
            connection.commit()

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection, None, None]:
        """Open a read-only connection."""
        with closing(self._connect("ro")) as connection:
            yield connection

    def query(self, sql: str, parameters: Mapping[str, str], limit: int) -> Rows:
        """Run one SELECT statement of a client.

        The file is opened for reading, every other statement is refused, and time, rows and the
        size of values are bounded.

        Args:
            sql: With named parameters, such as ``:author``.
            parameters: Their values; SQLite compares numbers with numbers.
            limit: The largest number of rows to fetch.

        Raises:
            QueryError: The statement is wrong, not allowed, or takes too long.
        """
        deadline = time.monotonic() + QUERY_SECONDS
        with self.reading() as connection:
            connection.set_authorizer(_authorize)
            connection.set_progress_handler(lambda: int(time.monotonic() > deadline), 10_000)
            if sys.version_info >= (3, 11):
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES_OF_A_VALUE)
            try:
                cursor = connection.execute(sql, parameters)
                found = cursor.fetchmany(limit + 1)
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise QueryError(str(error)) from None
        columns = [each[0] for each in cursor.description or ()]
        rows = [[_plain(value) for value in row] for row in found[:limit]]
        return Rows(columns, rows, more=len(found) > limit)

    def _connect(self, mode: str) -> sqlite3.Connection:
        # Without an isolation level, transactions begin only at an explicit BEGIN.
        uri = f"{self.path.as_uri()}?mode={mode}"
        connection = sqlite3.connect(uri, BUSY_SECONDS, isolation_level=None, uri=True)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        return connection


def _authorize(action: int, name: str | None, detail: str | None, *_: str | None) -> int:
    if action not in _ALLOWED or (action == sqlite3.SQLITE_FUNCTION and detail == "load_extension"):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _plain(value: Value | bytes) -> Value:
    return f"<{len(value)} bytes>" if isinstance(value, bytes) else value


def _migrations() -> list[tuple[int, str]]:
    folder = files("__PACKAGE__").joinpath("migrations")
    return sorted(
        (int(each.name.partition("_")[0]), each.read_text(encoding="utf-8"))
        for each in folder.iterdir()
        if each.name.endswith(".sql")
    )


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        raise ValueError(f"this migration does not end with a semicolon: {statement.strip()}")
