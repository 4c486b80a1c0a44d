"""AuthStore: where an authorization server stores clients, logins, codes and grants.

Every method is one atomic change of one record, and what may happen once is one such change.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from pydantic_core import from_json, to_json

from mcpkit._stores.base import Codec, RecordExists, RecordStore, TooManyRecords
from mcpkit._stores.memory import MemoryStore
from mcpkit._stores.sqlite import SqliteStore
from mcpkit._utils.names import with_suggestions

_SWEEP_S: Final = 60.0


class AuthStore(Protocol):
    """Stores records by kind and key, each until it expires."""

    async def get(self, kind: str, key: str) -> bytes | None:
        """Return a record; None if there is none, or it has expired."""
        ...

    async def add(
        self, kind: str, key: str, value: bytes, expires: float, most: int | None = None
    ) -> bool:
        """Add a record, unless there is one of this key, or the kind has reached its limit.

        Args:
            kind: The kind of the record.
            key: Its key.
            value: Its content.
            expires: When it expires, in seconds since the epoch.
            most: The records of this kind that there may be; None: any number.

        Returns:
            False if nothing was added.
        """
        ...

    async def change(self, kind: str, key: str, old: bytes, new: bytes, expires: float) -> bool:
        """Replace a record if its content is still the old one; False if it is not."""
        ...

    async def take(self, kind: str, key: str) -> bytes | None:
        """Remove a record and return it, to one caller only."""
        ...

    async def aclose(self) -> None:
        """Close the store; its next use opens it again."""
        ...


@dataclass(frozen=True)
class _Record:
    owner: str
    """The kind."""
    key: str
    value: bytes
    expires: float
    is_over: bool = False
    created: float = 0.0
    due: None = None
    worker: None = None

    @property
    def id(self) -> str:
        return f"{self.owner}\n{self.key}"

    @property
    def holder(self) -> str:
        return self.owner


def _dump(record: _Record) -> bytes:
    return to_json([record.owner, record.key, record.expires]) + b"\n" + record.value


def _load(data: bytes) -> _Record:
    head, _, value = data.partition(b"\n")
    kind, key, expires = from_json(head)
    return _Record(kind, key, value, expires)


_CODEC: Final = Codec(_dump, _load)


class _RecordAuthStore:
    def __init__(self, records: RecordStore[_Record], clock: Callable[[], float]) -> None:
        self._records = records
        self._clock = clock
        self._swept = 0.0

    async def _opened(self) -> RecordStore[_Record]:
        if not self._records.is_open:
            await self._records.open(_CODEC)
        return self._records

    async def get(self, kind: str, key: str) -> bytes | None:
        found = await (await self._opened()).get(f"{kind}\n{key}")
        return None if found is None else found.value

    async def add(
        self, kind: str, key: str, value: bytes, expires: float, most: int | None = None
    ) -> bool:
        records = await self._opened()
        now = self._clock()
        if now - self._swept > _SWEEP_S:
            self._swept = now
            await records.sweep()
        record = _Record(kind, key, value, expires)
        limit = sys.maxsize if most is None else most
        try:
            await records.add(lambda now: record, limit=sys.maxsize, limit_per_holder=limit)
        except TooManyRecords:
            return False
        except RecordExists:  # it may have expired, or have been taken
            if await records.get(record.id) is not None or not await records.sweep():
                return False
            return await self.add(kind, key, value, expires, most)
        return True

    async def change(self, kind: str, key: str, old: bytes, new: bytes, expires: float) -> bool:
        def replace(record: _Record, _: float) -> _Record | None:
            return _Record(kind, key, new, expires) if record.value == old else None

        records = await self._opened()
        try:
            return await records.change(f"{kind}\n{key}", replace) is not None
        except KeyError:
            return False

    async def take(self, kind: str, key: str) -> bytes | None:
        taken: _Record | None = None

        def take(record: _Record, _: float) -> _Record:
            nonlocal taken
            taken = record
            return _Record(kind, key, b"", 0.0, is_over=True)  # expired, and to be swept

        records = await self._opened()
        try:
            await records.change(f"{kind}\n{key}", take)
        except KeyError:
            return None
        assert taken is not None
        return taken.value

    async def aclose(self) -> None:
        await self._records.aclose()


class MemoryAuthStore(_RecordAuthStore):
    """Stores records in this process: for development, and for tests.

    Args:
        clock: Seconds since the epoch.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        super().__init__(MemoryStore(clock=clock), clock)


class SqliteAuthStore(_RecordAuthStore):
    """Stores records in a file, which the processes of one machine share, and which outlives them.

    A change is on the disk before its method returns.

    Args:
        path: The file; made if there is none, readable by its owner only. It must be on a local
            disk.
        clock: Seconds since the epoch.
    """

    @with_suggestions()
    def __init__(
        self, path: str | os.PathLike[str], *, clock: Callable[[], float] = time.time
    ) -> None:
        self._file = SqliteStore[_Record](
            path, durable=True, clock=clock, table="auth", version=2, migrate=_migrate
        )
        super().__init__(self._file, clock)

    def __repr__(self) -> str:
        return f"<SqliteAuthStore: {self._file.path}>"

    def peek(self) -> bytes | None:
        """Return the record of the keys, before the server runs; None if there is none yet."""
        found = self._file.peek(_CODEC, "keys\nkeys")
        return None if found is None else found.value


def _migrate(connection: sqlite3.Connection, put: Callable[[Any], None]) -> None:
    """Move the records of version 1 to the tables of today."""
    for kind, key, value, expires in connection.execute("SELECT * FROM records").fetchall():
        put(_Record(kind, key, bytes(value), expires))
    connection.execute("DROP TABLE records")
