"""TaskStore: the transitions of tasks, each one atomic change of a store of records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from mcpkit._stores.base import Codec, OnChange, Position, RecordStore
from mcpkit.tasks import record
from mcpkit.tasks.record import Task

TASKS: Final = Codec(record.dump, record.load)

Change: TypeAlias = Callable[[Task, float], "Task | None"]
"""From a task and the time to the next state of the task; None if the change does not apply. It
may be called several times, so it must have no side effects."""


class TaskStore:
    """The tasks of a server. Every method is one atomic change, durable when it returns.

    All may be cancelled, and have then been done or not; and all may raise `StoreUnavailable`.
    """

    def __init__(self, records: RecordStore[Task]) -> None:
        self._records = records

    @property
    def is_shared(self) -> bool:
        """True if other processes may use the store too."""
        return self._records.is_shared

    async def open(self, worker: str, on_change: OnChange | None = None) -> None:
        """Open the store under a name that no other process has, or had; see `RecordStore`."""
        await self._records.open(TASKS, worker, on_change)

    async def aclose(self) -> None:
        """Close the store; other processes claim at once what this one still runs."""

        def release(task: Task, now: float) -> Task | None:
            del now
            mine = task.worker == self._records.worker
            return replace(task, worker=None) if mine else None

        await self._records.aclose(release)

    async def add(self, task: Task, *, limit: int, limit_per_owner: int) -> Task:
        """Store a new task, which is due at once, and return it with its times (TASKX-6).

        Raises:
            TooManyRecords: There are `limit` unfinished tasks, or `limit_per_owner` of its owner.
        """

        def made(now: float) -> Task:
            return replace(task, created=now, updated=now)

        return await self._records.add(made, limit=limit, limit_per_owner=limit_per_owner)

    async def get(self, id: str) -> Task | None:
        """Return a task; None if there is none, or it has expired."""
        return await self._records.get(id)

    async def change(self, id: str, edit: Change) -> Task | None:
        """Return the changed task; None if the change does not apply.

        Raises:
            KeyError: There is no such task, or it has expired.
        """
        return await self._records.change(id, edit)

    async def claim(self, limit: int, lease: float) -> Sequence[Task]:
        """Start an attempt of tasks that are due, with a lease; the oldest first."""
        worker = self._records.worker
        return await self._records.claim(
            limit, lambda task, now: record.claim(task, worker, now + lease)
        )

    async def keep(
        self, attempts: Collection[tuple[str, int]], lease: float
    ) -> Collection[tuple[str, int]]:
        """Renew the leases of attempts of this process, each a task and a number.

        Returns those that go on; the others were cancelled, or another process has the task.
        """
        wanted = {*attempts}

        def renew(task: Task, now: float) -> Task | None:
            if (task.id, task.attempt) not in wanted:
                return None
            return record.renew(task, task.attempt, now + lease)

        kept = await self._records.keep({id for id, _ in attempts}, renew)
        return {(task.id, task.attempt) for task in kept}

    async def remember(self, id: str, attempt: int, key: str, value: bytes) -> bytes | None:
        """Store the result of a step, and return the first one of its key; None if fenced off."""
        return await self._records.remember(
            id, lambda task, now: record.advance(task, attempt), key, value
        )

    async def steps(self, id: str) -> Mapping[str, bytes]:
        """Return the results of the steps of a task, by key."""
        return await self._records.values(id)

    async def list(self, owner: str, after: Position | None, limit: int) -> Sequence[Task]:
        """Return tasks of an owner behind a position, the oldest first."""
        return await self._records.list(owner, after, limit)

    async def sweep(self) -> int:
        """Delete the tasks that have expired; return how many."""
        return await self._records.sweep()
