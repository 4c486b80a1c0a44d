"""Where tasks are kept, as a text says."""

from __future__ import annotations

import re
from hashlib import sha256

from mcpkit.tasks.options import scheme_of
from mcpkit.tasks.store import TaskStore

__all__ = ["make_store"]


def make_store(place: str, app: str) -> TaskStore:
    """Make a store.

    Args:
        place: The path of a file of SQLite, or a URL of a database, whose scheme has been checked.
        app: The name of the app: those of several apps in one database are kept apart by it.

    Raises:
        ImportError: What speaks to the database is not installed; the message has the command.
    """
    scheme = scheme_of(place)
    if scheme == "sqlite":
        from mcpkit._stores.sqlite import SqliteStore

        return SqliteStore(place.removeprefix("sqlite:///"))
    if scheme.startswith("postgres"):
        from mcpkit._stores.postgres import PostgresStore

        return PostgresStore(place, schema=f"mcpkit_{plain_name(app)}")
    from mcpkit._stores.redis import RedisStore

    url = re.sub("^valkey", "redis", place)
    return RedisStore(url, prefix=f"mcpkit:{plain_name(app)}")


def plain_name(name: str) -> str:
    """Return a name of small letters, digits and ``_``, which differs for different names."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:24]
    if plain == name:
        return plain
    return f"{plain}_{sha256(name.encode()).hexdigest()[:8]}"
