"""A URL or path to a store: the table of databases, loaded by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from mcpkit._stores.base import RecordStore


def scheme_of(location: str) -> str:
    """Return the scheme of the URL of a database; ``sqlite`` for a path."""
    scheme, separator, _ = location.partition("://")
    return scheme if separator else "sqlite"


def make_store(location: str, app: str) -> RecordStore[Any]:
    """Make a store at the path of a file of SQLite, or a URL whose scheme is one of `SCHEMES`.

    The name of the app separates the records of several apps in one database.
    """
    return SCHEMES[scheme_of(location)].make(location, app)


def plain_name(name: str) -> str:
    """Return a name of lower-case letters, digits and ``_``; different for different names."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:24]
    if plain == name:
        return plain
    from hashlib import sha256  # loaded when needed: it brings OpenSSL along

    return f"{plain}_{sha256(name.encode()).hexdigest()[:8]}"


# --- databases ------------------------------------------------------------------------------------


def _sqlite(location: str, app: str) -> RecordStore[Any]:
    from mcpkit._stores.sqlite import SqliteStore

    return SqliteStore(location.removeprefix("sqlite:///"), app=plain_name(app))


def _postgres(location: str, app: str) -> RecordStore[Any]:
    from mcpkit._stores.postgres import PostgresStore

    return PostgresStore(location, schema=f"mcpkit_{plain_name(app)}")


def _redis(location: str, app: str) -> RecordStore[Any]:
    from mcpkit._stores.redis import RedisStore

    url = re.sub("^valkey", "redis", location)
    return RedisStore(url, prefix=f"mcpkit:{plain_name(app)}")


class Database(NamedTuple):
    """A kind of database that stores records."""

    make: Callable[[str, str], RecordStore[Any]]
    """Makes a store at a location, for an app."""
    library: str
    """The module that it needs."""
    extra: str
    """The extra that installs it; empty for the standard library."""


SCHEMES: Final[Mapping[str, Database]] = {
    "sqlite": Database(_sqlite, "sqlite3", ""),
    **dict.fromkeys(("postgresql", "postgres"), Database(_postgres, "asyncpg", "postgres")),
    **dict.fromkeys(
        ("redis", "rediss", "unix", "valkey", "valkeys"), Database(_redis, "redis", "redis")
    ),
}
"""By the scheme of a URL."""
