"""A process that works on the tasks of a store, and may be killed at any moment.

A task has three steps, each of which writes a line when it is begun and is remembered when it is
done; some ask a question between them. ``python -m tests.tasks.killed KIND WHERE APART LOG NAME
LEASE`` goes on until it is told to end.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress

import anyio

from mcpkit._stores.base import StoreUnavailable
from mcpkit._stores.postgres import PostgresStore
from mcpkit._stores.redis import RedisStore
from mcpkit._stores.sqlite import SqliteStore
from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from mcpkit.tasks.store import CODEC, TaskStore, claim, keep, remember

STEPS = ("one", "two", "three")


def store_of(kind: str, where: str, apart: str) -> TaskStore:
    """A store as all processes of a test open it, under a unique name."""
    if kind == "sqlite":
        return SqliteStore[Task](where)
    if kind == "postgres":
        return PostgresStore[Task](where, schema=apart, connections=2)
    return RedisStore[Task](where, prefix=apart, alive=1.0)


async def work(store: TaskStore, task: Task, say: Callable[[str], None]) -> None:
    """Run one leg."""
    leg = task.attempt
    known = await store.values(task.id)
    for step in STEPS:
        if step == "two" and task.id.endswith("asks") and "q" not in task.answers:
            await store.change(
                task.id, lambda found, now: record.suspend(found, leg, {"q": b"?"}, now)
            )
            return
        if step not in known:
            say(f"{task.id} {step}")
            await anyio.sleep(0.03)
            if await remember(store, task.id, leg, step, step.encode()) is None:
                return
    finished = await store.change(
        task.id, lambda found, now: record.finish(found, leg, "completed", b"done", now)
    )
    if finished is not None:
        say(f"{task.id} finished")


async def main(kind: str, where: str, apart: str, log: str, name: str, lease: float) -> None:
    """Work on whatever is due."""
    store = store_of(kind, where, apart)
    await store.open(CODEC, name)
    lines = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def say(what: str) -> None:
        os.write(lines, f"{name} {what}\n".encode())

    running: set[tuple[str, int]] = set()

    async def run(task: Task) -> None:
        running.add((task.id, task.attempt))
        with suppress(StoreUnavailable):  # the leg ends without a word, and another one begins
            await work(store, task, say)
        running.discard((task.id, task.attempt))

    async def renew() -> None:
        while True:
            await anyio.sleep(lease / 5)
            with suppress(StoreUnavailable):
                await keep(store, [*running], lease)

    async with anyio.create_task_group() as group:
        group.start_soon(renew)
        while True:
            with suppress(StoreUnavailable):
                for task in await claim(store, 4 - len(running), lease):
                    group.start_soon(run, task)
            await anyio.sleep(0.01)


if __name__ == "__main__":
    kind, where, apart, log, name, lease = sys.argv[1:]
    anyio.run(main, kind, where, apart, log, name, float(lease))
