"""The transitions of tasks, each one atomic change of a store of records.

All may be cancelled, and have then been done or not; and all may raise `StoreUnavailable`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from mcpkit._stores.base import Codec, RecordStore
from mcpkit.tasks import record
from mcpkit.tasks.record import Task

CODEC: Final = Codec(record.dump, record.load)

TaskStore: TypeAlias = RecordStore[Task]

Change: TypeAlias = Callable[[Task, float], "Task | None"]
"""From a task and the time to the next state of the task; None if the change does not apply. It
may be called several times, so it must have no side effects."""


async def add(store: TaskStore, task: Task, *, limit: int, limit_per_owner: int) -> Task:
    """Store a new task, which is due at once, and return it with its times (TASKX-6)."""
    return await store.add(
        lambda now: replace(task, created=now, updated=now),
        limit=limit,
        limit_per_owner=limit_per_owner,
    )


async def claim(store: TaskStore, limit: int, lease: float) -> Sequence[Task]:
    """Start an attempt of tasks that are due, with a lease; the oldest first."""
    worker = store.worker
    return await store.claim(limit, lambda task, now: record.claim(task, worker, now + lease))


async def keep(
    store: TaskStore, attempts: Collection[tuple[str, int]], lease: float
) -> Collection[tuple[str, int]]:
    """Renew the leases of attempts of this process, each a task and a number.

    Returns those that go on; the others were cancelled, or another process has the task.
    """
    wanted = {*attempts}

    def renew(task: Task, now: float) -> Task | None:
        if (task.id, task.attempt) not in wanted:
            return None
        return record.renew(task, task.attempt, now + lease)

    kept = await store.keep({id for id, _ in attempts}, renew)
    return {(task.id, task.attempt) for task in kept}


async def remember(store: TaskStore, id: str, attempt: int, key: str, value: bytes) -> bytes | None:
    """Store the result of a step, and return the first one of its key; None if fenced off."""
    return await store.remember(id, lambda task, _: record.advance(task, attempt), key, value)


async def close(store: TaskStore) -> None:
    """Close the store; other processes claim at once what this one still runs."""

    def release(task: Task, _: float) -> Task | None:
        return replace(task, worker=None) if task.worker == store.worker else None

    await store.aclose(release)
