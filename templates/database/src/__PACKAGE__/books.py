"""The books: every statement that the server itself runs. Values are always parameters."""

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
    """The library has this book already."""


def add(connection: sqlite3.Connection, title: str, author: str, year: int) -> Book:
    """Put a book into the library.

    Raises:
        DuplicateBookError: It is there already.
    """
    try:
        cursor = connection.execute(
            "INSERT INTO book (title, author, year) VALUES (?, ?, ?)", (title, author, year)
        )
    except sqlite3.IntegrityError:
        raise DuplicateBookError(f"{title} by {author} is there already.") from None
    return Book(cursor.lastrowid or 0, title, author, year)


def find(connection: sqlite3.Connection, text: str, limit: int) -> list[Book]:
    """The books with a text in their title or author, the newest first."""
    rows = connection.execute(
        "SELECT id, title, author, year FROM book"
        " WHERE instr(lower(title), lower(:text)) OR instr(lower(author), lower(:text))"
        " ORDER BY year DESC, title LIMIT :limit",
        {"text": text, "limit": limit},
    )
    return [Book(*row) for row in rows]


def by_author(connection: sqlite3.Connection, author: str) -> list[Book]:
    """The books of an author, the oldest first."""
    rows = connection.execute(
        "SELECT id, title, author, year FROM book WHERE author = ? ORDER BY year, title", (author,)
    )
    return [Book(*row) for row in rows]


def authors(connection: sqlite3.Connection, beginning: str, limit: int) -> list[str]:
    """The authors whose names begin so."""
    rows = connection.execute(
        "SELECT DISTINCT author FROM book"
        " WHERE lower(substr(author, 1, length(:beginning))) = lower(:beginning)"
        " ORDER BY author LIMIT :limit",
        {"beginning": beginning, "limit": limit},
    )
    return [author for (author,) in rows]


def schema(connection: sqlite3.Connection) -> str:
    """The statements that make the tables."""
    rows = connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name")
    return "\n\n".join(f"{sql};" for (sql,) in rows)
