"""The transitions of tasks, each one atomic change of a store of records.

Each can be cancelled, and may then have taken effect or not. Each may raise `StoreUnavailable`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from mcpkit._stores.base import Codec, RecordExists, RecordStore
from mcpkit.tasks import record
from mcpkit.tasks.record import Task

CODEC: Final = Codec(record.dump, record.load)

TaskStore: TypeAlias = RecordStore[Task]

Change: TypeAlias = Callable[[Task, float], "Task | None"]
"""An `Edit` of a task, which pyright cannot derive from that."""


async def add(store: TaskStore, task: Task, *, limit: int, limit_per_holder: int) -> Task:
    """Store a new task, which is due at once, and return it with its times (TASKX-6)."""
    limits = {"limit": limit, "limit_per_holder": limit_per_holder}
    try:
        return await store.add(lambda now: replace(task, created=now, updated=now), **limits)
    except RecordExists:  # it was added, and has changed before the answer was lost
        return await store.get(task.id) or task


async def claim(
    store: TaskStore,
    limit: int,
    lease: float,
    *,
    fits: Callable[[Task, float], bool] = lambda task, now: True,
    running: Collection[tuple[str, int]] = (),
    skip: Collection[str] = (),
    calm: bool = False,
) -> Sequence[Task]:
    """Start an attempt of tasks that are due, with a lease; the oldest first.

    Tasks that do not fit, or whose id or holder is in `skip`, are left alone. If the lease of an
    attempt has run out that is `running` in this process, whatever the clock has done, it is
    renewed. For `calm` see `RecordStore.claim`.
    """
    worker = store.worker

    def start(task: Task, now: float) -> Task | None:
        if task.worker == worker and (task.id, task.attempt) in running:
            return record.renew(task, task.attempt, now + lease)
        if task.worker == worker:  # the answer to the claim was lost, and nothing has started
            task = record.release(task, task.attempt) or task
        return record.claim(task, worker, now, lease) if fits(task, now) else None

    changed = await store.claim(limit, start, skip=skip, calm=calm)
    return [
        each for each in changed if each.worker == worker and (each.id, each.attempt) not in running
    ]


async def release(store: TaskStore, claimed: Task) -> None:
    """Undo the claim of a task whose attempt has not started."""
    await store.change(claimed.id, lambda task, _: record.release(task, claimed.attempt))


async def release_lost(store: TaskStore, running: Collection[tuple[str, int]]) -> None:
    """Undo the claims whose answers were lost: of all attempts that are not `running` here."""

    def undo(task: Task, _: float) -> Task | None:
        is_lost = task.worker == store.worker and (task.id, task.attempt) not in running
        # A call may have been stored meanwhile; those that are lost expire with their leases.
        is_lost = is_lost and not task.is_call
        return record.release(task, task.attempt) if is_lost else None

    await store.change_own(undo)


async def keep(
    store: TaskStore, attempts: Collection[tuple[str, int]], lease: float
) -> Mapping[tuple[str, int], Task]:
    """Renew the leases of attempts of this process, each a task and a number.

    Returns those that go on, and their tasks; the others were cancelled, or another process has
    the task.
    """
    wanted = {*attempts}

    def renew(task: Task, now: float) -> Task | None:
        if (task.id, task.attempt) not in wanted:
            return None
        return record.renew(task, task.attempt, now + lease)

    kept = await store.keep({id for id, _ in attempts}, renew)
    return {(task.id, task.attempt): task for task in kept}


async def remember(store: TaskStore, id: str, attempt: int, key: str, value: bytes) -> bytes | None:
    """Store the result of a step, and return the value that was stored first under its key.

    Returns None if another attempt has taken over.
    """
    return await store.remember(id, lambda task, _: record.advance(task, attempt), key, value)


async def close(store: TaskStore) -> None:
    """Close the store; other processes claim at once what this one still runs."""

    def release(task: Task, _: float) -> Task | None:
        mine = task.worker == store.worker
        return replace(task, worker=None, lease_expires=0.0) if mine else None

    await store.aclose(release)
