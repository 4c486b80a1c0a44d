"""A URL or path to a store: the table of databases, loaded by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

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
    name, (_, extra) = plain_name(app), SCHEMES[scheme_of(location)]
    if extra == "postgres":
        from mcpkit._stores.postgres import PostgresStore

        return PostgresStore(location, schema=f"mcpkit_{name}")
    if extra == "redis":
        from mcpkit._stores.redis import RedisStore

        return RedisStore(re.sub("^valkey", "redis", location), prefix=f"mcpkit:{name}")
    from mcpkit._stores.sqlite import SqliteStore

    return SqliteStore(location.removeprefix("sqlite:///"), app=name)


def plain_name(name: str) -> str:
    """Return a name of lower-case letters, digits and ``_``; different for different names."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")[:24]
    if plain == name:
        return plain
    from hashlib import sha256  # loaded when needed: it brings OpenSSL along

    return f"{plain}_{sha256(name.encode()).hexdigest()[:8]}"


SCHEMES: Final[Mapping[str, tuple[str, str]]] = {
    "sqlite": ("sqlite3", ""),
    **dict.fromkeys(("postgresql", "postgres"), ("asyncpg", "postgres")),
    **dict.fromkeys(("redis", "rediss", "unix", "valkey", "valkeys"), ("redis", "redis")),
}
"""By the scheme of a URL: the module that its store needs, and the extra that installs it; empty
for the standard library."""
