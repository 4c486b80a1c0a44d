"""Notes in an SQLite file, each with an owner, without MCP and logins.

Every statement names the owner, so users reach only their own notes.
"""

import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

BUSY_SECONDS = 5.0


@dataclass(frozen=True)
class Note:
    """A note of a user."""

    number: int
    text: str


class Notes:
    """The notes of all users.

    Args:
        path: The file; it is created if missing.
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
        """Store a note."""
        with self._connection() as connection:
            cursor = connection.execute(
                "INSERT INTO note (owner, text) VALUES (?, ?)", (owner, text)
            )
            return Note(cursor.lastrowid or 0, text)

    def find(self, owner: str, text: str, limit: int) -> list[Note]:
        """Return the notes of an owner that contain a text, latest first."""
        with self._connection() as connection:
            rows = connection.execute(
                "SELECT number, text FROM note"
                " WHERE owner = ? AND instr(lower(text), lower(?)) ORDER BY number DESC LIMIT ?",
                (owner, text, limit),
            )
            return [Note(*row) for row in rows]

    def get(self, owner: str, number: int) -> Note | None:
        """Return a note of an owner; None if it does not exist."""
        with self._connection() as connection:
            row = connection.execute(
                "SELECT number, text FROM note WHERE owner = ? AND number = ?", (owner, number)
            ).fetchone()
            return None if row is None else Note(*row)

    def delete(self, owner: str, number: int) -> bool:
        """Delete a note of an owner; return False if it does not exist."""
        with self._connection() as connection:
            cursor = connection.execute(
                "DELETE FROM note WHERE owner = ? AND number = ?", (owner, number)
            )
            return cursor.rowcount > 0

    @contextmanager
    def _connection(self) -> Generator[sqlite3.Connection, None, None]:
        """Open a connection with a transaction; an exception in the block rolls it back."""
        with closing(sqlite3.connect(self._path, BUSY_SECONDS)) as connection, connection:
            yield connection
