"""Records in this process, which end with it."""

from __future__ import annotations

import time
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import heappop, heappush
from itertools import islice
from threading import RLock
from typing import Any, Generic

from mcpkit._stores.base import (
    Edit,
    OnChange,
    Position,
    R,
    RecordExists,
    RecordStore,
    TooManyRecords,
)


class Table(Generic[R]):
    """Records that several stores of this process may share, each on an event loop of its own."""

    def __init__(self) -> None:
        self.records: dict[str, R] = {}
        self.values: dict[str, dict[str, bytes]] = {}
        self.due: list[tuple[float, str]] = []
        """A heap of times and ids; entries that no longer match their record are skipped."""
        self.of_owner: dict[str, list[Position]] = {}
        self.unfinished: Counter[str] = Counter()
        self.listeners: dict[str, OnChange] = {}
        """By worker."""
        self.lock = RLock()
        """Held during each operation: the event loops may run in several threads."""


class MemoryStore(RecordStore[R]):
    """Stores records in dicts.

    Args:
        table: The records; by default it has its own.
        clock: Seconds since the epoch.
    """

    is_shared = False

    def __init__(
        self, table: Table[R] | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._table = table or Table[R]()
        self._clock = clock

    async def _open(self) -> None:
        if self._on_change is not None:
            with self._table.lock:
                self._table.listeners[self.worker] = self._on_change

    async def _close(self) -> None:
        with self._table.lock:
            self._table.listeners.pop(self.worker, None)

    async def _find(self, ids: Sequence[str]) -> Mapping[str, R]:
        with self._table.lock:
            now = self._clock()
            found = (self._table.records.get(id) for id in ids)
            return {each.id: each for each in found if each and not _is_past(each, now)}

    async def _edit(
        self, ids: Collection[str] | None, edit: Edit[R], *, notify: bool = True
    ) -> Mapping[str, R | None]:
        records = self._table.records
        with self._table.lock:
            now = self._clock()
            if ids is None:
                ids = [id for id, each in records.items() if each.worker == self.worker]
            done: dict[str, R | None] = {}
            for id in ids:
                record = records.get(id)
                if record is not None and not _is_past(record, now):
                    done[id] = changed = edit(record, now)
                    if changed is not None:
                        self._put(changed, notify=notify)
            return done

    def _put(self, record: R, *, notify: bool = True) -> None:
        table = self._table
        old = table.records.get(record.id)
        table.records[record.id] = record
        if record.due is not None and (old is None or old.due != record.due):
            heappush(table.due, (record.due, record.id))
        if record.is_over and old is not None and not old.is_over:
            self._finished(record.owner)
        if notify:
            for worker, on_change in table.listeners.items():
                if worker != self.worker:
                    on_change(record.id)

    def _finished(self, owner: str) -> None:
        self._table.unfinished[owner] -= 1
        if not self._table.unfinished[owner]:
            del self._table.unfinished[owner]

    async def add(self, make: Callable[[float], R], *, limit: int, limit_per_owner: int) -> R:
        """Store a new record."""
        table = self._table
        with table.lock:
            record = make(self._clock())
            if record.id in table.records:
                raise RecordExists(record.id)
            unfinished = table.unfinished
            if unfinished.total() >= limit or unfinished[record.owner] >= limit_per_owner:
                raise TooManyRecords
            insort(table.of_owner.setdefault(record.owner, []), (record.created, record.id))
            if not record.is_over:
                unfinished[record.owner] += 1
            self._put(record)
            return record

    async def claim(self, limit: int, start: Edit[R]) -> Sequence[R]:
        """Take the lease of records that are due."""
        table = self._table
        with table.lock:
            now = self._clock()
            claimed: list[R] = []
            while len(claimed) < limit and table.due and table.due[0][0] <= now:
                due, id = heappop(table.due)
                record = table.records.get(id)
                if record is not None and record.due == due and not _is_past(record, now):
                    started = start(record, now)
                    if started is not None:
                        self._put(started)
                        claimed.append(started)
            return claimed

    async def remember(self, id: str, edit: Edit[R], key: str, value: bytes) -> bytes | None:
        """Store a value beside a record, once."""
        with self._table.lock:
            changed = await self._edit([id], edit, notify=False)
            if changed.get(id) is None:
                return None
            return self._table.values.setdefault(id, {}).setdefault(key, value)

    async def values(self, id: str) -> Mapping[str, bytes]:
        """Return the values beside a record."""
        return dict(self._table.values.get(id, {}))

    async def list(self, owner: str, after: Position | None, limit: int) -> Sequence[R]:
        """Return records of an owner."""
        with self._table.lock:
            positions = self._table.of_owner.get(owner, [])
            start = 0 if after is None else bisect_right(positions, after)
            now = self._clock()
            found = (self._table.records[id] for _, id in islice(positions, start, None))
            return [*islice((each for each in found if not _is_past(each, now)), limit)]

    async def sweep(self) -> int:
        """Delete what has expired."""
        table = self._table
        with table.lock:
            now = self._clock()
            past = [each for each in table.records.values() if _is_past(each, now)]
            for record in past:
                del table.records[record.id]
                table.values.pop(record.id, None)
                positions = table.of_owner[record.owner]
                positions.remove((record.created, record.id))
                if not positions:
                    del table.of_owner[record.owner]
                if not record.is_over:
                    self._finished(record.owner)
            return len(past)


def _is_past(record: Any, now: float) -> bool:
    return record.expires is not None and record.expires <= now
