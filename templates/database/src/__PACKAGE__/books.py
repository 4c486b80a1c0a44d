"""The SQL statements of the server. Values are always parameters."""

import sqlite3
from dataclasses import dataclass


@dataclass
class Book:
    """A book of the library."""

    id: int
    title: str
    author: str
    year: int


class DuplicateBookError(Exception):
    """The library already has this book."""


def add(connection: sqlite3.Connection, title: str, author: str, year: int) -> Book:
    """Add a book to the library.

    Raises:
        DuplicateBookError: The library already has it.
    """
    try:
        cursor = connection.execute(
            "INSERT INTO book (title, author, year) VALUES (?, ?, ?)", (title, author, year)
        )
    except sqlite3.IntegrityError:
        raise DuplicateBookError(f"The library already has {title} by {author}.") from None
    return Book(cursor.lastrowid or 0, title, author, year)


def find(connection: sqlite3.Connection, text: str, limit: int) -> list[Book]:
    """Return the books with a text in their title or author, newest first."""
    rows = connection.execute(
        "SELECT id, title, author, year FROM book"
        " WHERE instr(lower(title), lower(:text)) OR instr(lower(author), lower(:text))"
        " ORDER BY year DESC, title LIMIT :limit",
        {"text": text, "limit": limit},
    )
    return [Book(*row) for row in rows]


def by_author(connection: sqlite3.Connection, author: str) -> list[Book]:
    """Return the books of an author, oldest first."""
    rows = connection.execute(
        "SELECT id, title, author, year FROM book WHERE author = ? ORDER BY year, title", (author,)
    )
    return [Book(*row) for row in rows]


def authors(connection: sqlite3.Connection, beginning: str, limit: int) -> list[str]:
    """Return the authors whose names begin with a text."""
    rows = connection.execute(
        "SELECT DISTINCT author FROM book"
        " WHERE lower(substr(author, 1, length(:beginning))) = lower(:beginning)"
        " ORDER BY author LIMIT :limit",
        {"beginning": beginning, "limit": limit},
    )
    return [author for (author,) in rows]


def schema(connection: sqlite3.Connection) -> str:
    """Return the statements that create the tables."""
    rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    return "\n\n".join(f"{sql};" for (sql,) in rows)
