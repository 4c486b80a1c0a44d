"""Notes in a file of SQLite, each with an owner; knows neither MCP nor logins.

Every statement names the owner, so that nobody reaches the notes of somebody else.
"""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

BUSY_SECONDS = 5.0


@dataclass(frozen=True)
class Note:
    """What somebody has written down."""

    number: int
    text: str


class Notes:
    """The notes of all.

    Args:
        path: The file; made if there is none.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._connection() as connection:
            connection.execute(
                "CREATE TABLE IF NOT EXISTS note"
                " (number INTEGER PRIMARY KEY AUTOINCREMENT, owner TEXT NOT NULL, text TEXT NOT NULL)"
            )
            connection.execute("CREATE INDEX IF NOT EXISTS note_of ON note (owner)")

    def add(self, owner: str, text: str) -> Note:
        """Keep a note."""
        with self._connection() as connection:
            cursor = connection.execute(
                "INSERT INTO note (owner, text) VALUES (?, ?)", (owner, text)
            )
            return Note(cursor.lastrowid or 0, text)

    def find(self, owner: str, text: str, limit: int) -> list[Note]:
        """The notes of an owner with a text in them, the latest first."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT number, text FROM note"
                " WHERE owner = ? AND instr(lower(text), lower(?)) ORDER BY number DESC LIMIT ?",
                (owner, text, limit),
            )
            return [Note(*row) for row in rows]

    def get(self, owner: str, number: int) -> Note | None:
        """A note of an owner; None if they have none of this number."""
        with self._connection() as connection:
            row = connection.execute(
                "SELECT number, text FROM note WHERE owner = ? AND number = ?", (owner, number)
            ).fetchone()
            return None if row is None else Note(*row)

    def delete(self, owner: str, number: int) -> bool:
        """Remove a note of an owner; False if they have none of this number."""
        with self._connection() as connection:
            cursor = connection.execute(
                "DELETE FROM note WHERE owner = ? AND number = ?", (owner, number)
            )
            return cursor.rowcount > 0

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection, None, None]:
        """A connection for one thread, with a transaction that is undone if the block raises."""
        with closing(sqlite3.connect(self._path, BUSY_SECONDS)) as connection, connection:
            yield connection
