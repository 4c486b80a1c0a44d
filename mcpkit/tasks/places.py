"""Where tasks are kept, as a text says."""

from __future__ import annotations

from mcpkit.tasks.sqlite import SqliteStore
from mcpkit.tasks.store import TaskStore

__all__ = ["make_store"]


def make_store(place: str) -> TaskStore:
    """Make a store.

    Args:
        place: The path of a file of SQLite, or a URL of a database.

    Raises:
        ValueError: There is no store for such a URL.
    """
    scheme, separator, _ = place.partition("://")
    if not separator:
        return SqliteStore(place)
    if scheme == "sqlite":
        return SqliteStore(place.removeprefix("sqlite:///"))
    raise ValueError(f"tasks cannot be kept at {scheme}://…; known: a path, sqlite:///path")
