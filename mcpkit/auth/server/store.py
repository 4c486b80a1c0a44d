"""Where an authorization server keeps clients, visits, codes and grants: records that expire.

Every method is one atomic change of one record. That is enough, because whatever may happen once
only, such as the redemption of a code, is one change of the record of that code.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from typing import Final, NamedTuple, Protocol, TypeVar

import anyio
from anyio import to_thread

from mcpkit._utils.names import with_suggestions

__all__ = ["AuthStore", "MemoryAuthStore", "SqliteAuthStore"]

_T = TypeVar("_T")

_SWEEP_S: Final = 60.0
_BUSY_S: Final = 10.0
"""Seconds to wait for other processes that write."""

_VERSION: Final = 1
"""Of the table, in ``user_version``."""


class AuthStore(Protocol):
    """Keeps records by kind and key, each until it expires."""

    async def get(self, kind: str, key: str) -> bytes | None:
        """Return a record; None if there is none, or its time is over."""
        ...

    async def add(
        self, kind: str, key: str, value: bytes, expires: float, most: int | None = None
    ) -> bool:
        """Add a record, unless there is one of this key, or there are enough of its kind.

        Args:
            kind: Of the record.
            key: Of the record.
            value: The record.
            expires: When its time is over, in seconds since the epoch.
            most: Records of this kind that there may be; None: any number.

        Returns:
            False if nothing was added.
        """
        ...

    async def change(self, kind: str, key: str, old: bytes, new: bytes, expires: float) -> bool:
        """Replace a record, if it is still the old one; False if it is not."""
        ...

    async def take(self, kind: str, key: str) -> bytes | None:
        """Remove a record and return it: to one of all who ask."""
        ...

    async def aclose(self) -> None:
        """Let go of what is open; the next use opens it again."""
        ...


class _Record(NamedTuple):
    value: bytes
    expires: float


class MemoryAuthStore:
    """Keeps records in this process: for development, and for tests.

    Args:
        clock: Seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._records: dict[str, dict[str, _Record]] = {}
        self._swept = 0.0

    async def get(self, kind: str, key: str) -> bytes | None:
        """Return a record."""
        with self._lock:
            return self._find(kind, key)

    async def add(
        self, kind: str, key: str, value: bytes, expires: float, most: int | None = None
    ) -> bool:
        """Add a record."""
        with self._lock:
            self._sweep()
            here = self._records.setdefault(kind, {})
            if self._find(kind, key) is not None or (most is not None and len(here) >= most):
                return False
            here[key] = _Record(value, expires)
            return True

    async def change(self, kind: str, key: str, old: bytes, new: bytes, expires: float) -> bool:
        """Replace a record."""
        with self._lock:
            if self._find(kind, key) != old:
                return False
            self._records[kind][key] = _Record(new, expires)
            return True

    async def take(self, kind: str, key: str) -> bytes | None:
        """Remove a record."""
        with self._lock:
            found = self._find(kind, key)
            self._records.get(kind, {}).pop(key, None)
            return found

    async def aclose(self) -> None:
        """Do nothing: what is kept here lasts as long as the process."""

    def _find(self, kind: str, key: str) -> bytes | None:
        found = self._records.get(kind, {}).get(key)
        return None if found is None or found.expires <= self._clock() else found.value

    def _sweep(self) -> None:
        now = self._clock()
        if now - self._swept < _SWEEP_S:
            return
        self._swept = now
        for here in self._records.values():
            for key in [key for key, each in here.items() if each.expires <= now]:
                del here[key]


class SqliteAuthStore:
    """Keeps records in a file, which the processes of one machine share, and which outlives them.

    A record that was added or changed is on the disk before anybody is told.

    Args:
        path: The file; made if there is none, readable by its owner only. It has to be on a local
            disk.
        clock: Seconds since the epoch.
    """

    @with_suggestions()
    def __init__(
        self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = os.path.realpath(path)
        self._clock = clock
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._swept = 0.0

    def __repr__(self) -> str:
        return f"<SqliteAuthStore: {self._path}>"

    def peek(self, kind: str, key: str) -> bytes | None:
        """Return a record before anything is served; None too if there is no such file yet."""
        if not os.path.exists(self._path):
            return None
        with closing(sqlite3.connect(self._path, timeout=_BUSY_S)) as connection:
            try:
                return self._find(connection, kind, key)
            except sqlite3.OperationalError:
                return None  # there is nothing in it

    async def get(self, kind: str, key: str) -> bytes | None:
        """Return a record."""
        return await self._run(lambda connection: self._find(connection, kind, key))

    async def add(
        self, kind: str, key: str, value: bytes, expires: float, most: int | None = None
    ) -> bool:
        """Add a record."""

        def add(connection: sqlite3.Connection) -> bool:
            self._sweep(connection)
            if self._find(connection, kind, key) is not None:
                return False
            if most is not None:
                counted = connection.execute("SELECT count(*) FROM records WHERE kind = ?", (kind,))
                if counted.fetchone()[0] >= most:
                    return False
            connection.execute(
                "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", (kind, key, value, expires)
            )
            return True

        return await self._run(add)

    async def change(self, kind: str, key: str, old: bytes, new: bytes, expires: float) -> bool:
        """Replace a record."""

        def change(connection: sqlite3.Connection) -> bool:
            if self._find(connection, kind, key) != old:
                return False
            connection.execute(
                "UPDATE records SET value = ?, expires = ? WHERE kind = ? AND key = ?",
                (new, expires, kind, key),
            )
            return True

        return await self._run(change)

    async def take(self, kind: str, key: str) -> bytes | None:
        """Remove a record."""

        def take(connection: sqlite3.Connection) -> bytes | None:
            found = self._find(connection, kind, key)
            connection.execute("DELETE FROM records WHERE kind = ? AND key = ?", (kind, key))
            return found

        return await self._run(take)

    async def aclose(self) -> None:
        """Close the file."""

        def close() -> None:
            with self._lock:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None

        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(close)

    async def _run(self, do: Callable[[sqlite3.Connection], _T]) -> _T:
        def run() -> _T:
            with self._lock:
                connection = self._connection or self._open()
                self._connection = connection
                # From the first look on, or another process may change what was looked at.
                connection.execute("BEGIN IMMEDIATE")
                try:
                    found = do(connection)
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
            return found

        return await to_thread.run_sync(run)  # what was begun is finished, whoever waits for it

    def _open(self) -> sqlite3.Connection:
        # With rights of its own; the files that SQLite puts beside it have the same.
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(
            self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, _VERSION):
                raise sqlite3.DatabaseError(f"{self._path} is of a newer version of mcpkit")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS records (kind TEXT NOT NULL, key TEXT NOT NULL, "
                "value BLOB NOT NULL, expires REAL NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID"
            )
            connection.execute("CREATE INDEX IF NOT EXISTS records_past ON records (expires)")
            connection.execute(f"PRAGMA user_version = {_VERSION}")
            connection.execute("COMMIT")
        except BaseException:
            connection.close()
            raise
        return connection

    def _find(self, connection: sqlite3.Connection, kind: str, key: str) -> bytes | None:
        found = connection.execute(
            "SELECT value FROM records WHERE kind = ? AND key = ? AND expires > ?",
            (kind, key, self._clock()),
        ).fetchone()
        return None if found is None else bytes(found[0])

    def _sweep(self, connection: sqlite3.Connection) -> None:
        now = self._clock()
        if now - self._swept > _SWEEP_S:
            self._swept = now
            connection.execute("DELETE FROM records WHERE expires <= ?", (now,))
