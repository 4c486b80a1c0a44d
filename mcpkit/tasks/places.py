"""Where tasks are kept, as a text says."""

from __future__ import annotations

from mcpkit.tasks.sqlite import SqliteStore
from mcpkit.tasks.store import TaskStore

__all__ = ["make_store"]


def make_store(place: str) -> TaskStore:
    """Make a store.

    Args:
        place: The path of a file of SQLite, or a URL of a database, whose scheme has been checked.
    """
    return SqliteStore(place.removeprefix("sqlite:///"))
