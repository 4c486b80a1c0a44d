"""Records in this process, which end with it."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
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
    room,
)


class Table(Generic[R]):
    """Records that several stores of this process may share, each on an event loop of its own."""

    def __init__(self) -> None:
        self.records: dict[str, R] = {}
        self.values: dict[str, dict[str, bytes]] = {}
        self.due: list[Position] = []
        """When records may be claimed, and their ids, in this order."""
        self.expiring: list[Position] = []
        """When records expire, and their ids, in this order."""
        self.of_owner: dict[str, list[Position]] = {}
        self.unfinished = 0
        self.of_holder: Counter[str] = Counter()
        """The unfinished ones."""
        self.listeners: dict[str, OnChange] = {}
        """By worker."""
        self.lock = RLock()
        """Held during each operation: the event loops may run in several threads."""

    def put(self, record: R) -> None:
        """Store a record in the place of its last state."""
        self.remove(record.id)
        self.records[record.id] = record
        self._index(1, record)

    def remove(self, id: str) -> None:
        """Remove a record, if it is there."""
        record = self.records.pop(id, None)
        if record is not None:
            self._index(-1, record)

    def _index(self, sign: int, record: R) -> None:
        """Put a record into the indexes; remove it if the sign is negative."""
        of_owner = self.of_owner.setdefault(record.owner, [])
        for positions, at in (
            *((of_owner, record.created), (self.due, record.due)),
            (self.expiring, record.expires),
        ):
            if at is not None and sign > 0:
                insort(positions, (at, record.id))
            elif at is not None:  # found by bisection: a scan would stop the event loop for long
                del positions[bisect_left(positions, (at, record.id))]
        if not of_owner:
            del self.of_owner[record.owner]
        self.unfinished += sign * (not record.is_over)
        self.of_holder[record.holder] += sign * (not record.is_over)
        if not self.of_holder[record.holder]:
            del self.of_holder[record.holder]


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

    async def find(self, ids: Collection[str]) -> Mapping[str, R]:
        """Return those of several records that are there."""
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
        table.put(record)
        if record.is_over:
            table.values.pop(record.id, None)
        if notify:
            for worker, on_change in table.listeners.items():
                if worker != self.worker:
                    on_change(record.id)

    async def add(self, make: Callable[[float], R], *, limit: int, limit_per_holder: int) -> R:
        """Store a new record."""
        table = self._table
        with table.lock:
            record = make(self._clock())
            if record.id in table.records:
                raise RecordExists(record.id)
            of_holder = table.of_holder[record.holder]
            if room(limit, limit_per_holder, table.unfinished, of_holder) <= 0:
                raise TooManyRecords
            self._put(record)
            return record

    async def claim(
        self, limit: int, start: Edit[R], *, skip: Collection[str] = (), calm: bool = False
    ) -> Sequence[R]:
        """Take the lease of records that are due."""
        table = self._table
        with table.lock:
            now = self._clock()
            until = bisect_right(table.due, now, key=lambda each: each[0])
            due = (table.records[id] for _, id in islice(table.due, until))
            free = (
                each
                for each in due
                if not (calm and each.worker) and not _is_past(each, now)
                if each.id not in skip and each.holder not in skip
            )
            started = [start(each, now) for each in [*islice(free, limit)]]
            claimed = [each for each in started if each is not None]
            for each in claimed:
                self._put(each)
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

    async def _sweep(self, limit: int) -> int:
        with self._table.lock:
            now = self._clock()
            past = [id for at, id in islice(self._table.expiring, limit) if at <= now]
            for id in past:
                self._table.remove(id)
                self._table.values.pop(id, None)
            return len(past)


def _is_past(record: Any, now: float) -> bool:
    return record.expires is not None and record.expires <= now
