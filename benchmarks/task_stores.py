"""Compare the task stores: `python -m benchmarks.task_stores`.

- tasks/s: the tasks finished in a second by 32 coroutines of one process. Each adds a task, claims
  one that is due and finishes it, again and again.
- alone: the same with one coroutine, in milliseconds a task.
- answered: milliseconds from before a question is answered until another process has claimed the
  task and said so through a pipe, when nothing else happens; the median and the worst.

Servers are those of the tests (`.ci/databases`), on a Unix socket; what is not there is left out.
All write down what they keep before they say so, and wait for the disk if ``--fsync`` is given.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from benchmarks.measure import columns
from mcpkit._stores.memory import MemoryStore
from mcpkit._stores.postgres import PostgresStore
from mcpkit._stores.redis import RedisStore
from mcpkit._stores.sqlite import SqliteStore
from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from mcpkit.tasks.transitions import CODEC, TaskStore, add, claim, close
from tests.tasks.servers import SERVERS, program_of

AT_ONCE = 32
CALL = b"c" * 500
PATIENCE_S = 30.0
ANSWERS = {f"q{number}": b"!" for number in range(1000)}


def store_of(kind: str, where: str, apart: str, durable: bool) -> TaskStore:
    if kind == "memory":
        return MemoryStore[Task]()
    if kind == "sqlite":
        return SqliteStore[Task](where, durable=durable)
    if kind == "postgres":
        return PostgresStore[Task](where, schema=apart)
    return RedisStore[Task](where, prefix=apart)


async def finished(store: TaskStore, seconds: float, at_once: int) -> float:
    """How many tasks a second are added, claimed and finished."""
    numbers = count()
    done = 0
    until = time.perf_counter() + seconds

    async def one() -> None:
        nonlocal done
        while time.perf_counter() < until:
            id = f"{secrets.token_urlsafe(12)}{next(numbers)}"
            await add(
                store,
                Task(id=id, owner="o", call=CALL, ttl=3600),
                limit=100_000,
                limit_per_holder=100_000,
            )
            for task in await claim(store, 1, lease=30):
                await store.change(
                    task.id,
                    lambda found, now: record.finish(
                        found, found.attempt, "completed", b"done", now
                    ),
                )
                done += 1

    began = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(at_once):
            group.start_soon(one)
    return done / (time.perf_counter() - began)


async def answered(store: TaskStore, command: Sequence[str], times: int) -> list[float]:
    """Milliseconds from an answer until another process has claimed the task."""
    await store.open(CODEC, "here")
    taken: list[float] = []
    other = await anyio.open_process([sys.executable, "-m", __spec__.name, *command])
    assert other.stdout is not None
    lines = BufferedByteReceiveStream(other.stdout)

    async def read(expected: bytes) -> None:
        assert await lines.receive_until(b"\n", 100) == expected

    try:
        with anyio.fail_after(PATIENCE_S):
            await read(b"ready")
            await add(
                store, Task(id="a", owner="o", call=CALL, ttl=None), limit=9, limit_per_holder=9
            )
            for _ in range(times):
                await read(b"asks")
                await anyio.sleep(0.05)  # so that nothing else happens
                began = time.perf_counter()
                await store.change("a", lambda found, now: record.answer(found, ANSWERS, now))
                await read(b"claimed")
                taken.append(1000 * (time.perf_counter() - began))
    finally:
        other.kill()
        await other.aclose()
    await close(store)
    return taken


async def other(store: TaskStore) -> None:
    """Claim what is due, and ask again."""
    due = asyncio.Event()
    loop = asyncio.get_running_loop()
    await store.open(CODEC, "other", lambda id: loop.call_soon_threadsafe(due.set))
    print("ready", flush=True)
    while True:
        for task in await claim(store, 1, lease=30):
            if task.attempt > 1:
                print("claimed", flush=True)
            question = {f"q{task.attempt}": b"?"}
            await store.change(
                task.id,
                lambda found, now: record.suspend(found, found.attempt, question, now),  # noqa: B023
            )
            print("asks", flush=True)
        try:
            await asyncio.wait_for(due.wait(), 1)
        except asyncio.TimeoutError:
            pass
        due.clear()


async def measured(kind: str, where: str, options: argparse.Namespace) -> list[str]:
    name = f"b{secrets.token_hex(6)}"

    async def speed(at_once: int) -> float:
        place = f"{where}{at_once}" if kind == "sqlite" else where
        store = store_of(kind, place, f"{name}_{at_once}", fsync)
        await store.open(CODEC, "here")
        try:
            return await finished(store, options.seconds, at_once)
        finally:
            await close(store)

    fsync: bool = options.fsync
    row = [kind, f"{await speed(AT_ONCE):,.0f}", f"{1000 / await speed(1):.2f}"]
    if kind == "memory":
        return [*row, "-", "-"]
    command = ["--other", kind, where, name]
    taken = await answered(store_of(kind, where, name, fsync), command, options.times)
    return [*row, f"{median(taken):.1f}", f"{max(taken):.1f}"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.task_stores")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each speed")
    parser.add_argument("--times", type=int, default=100, help="answers")
    parser.add_argument("--fsync", action="store_true", help="have the disk confirm what is kept")
    parser.add_argument("--other", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.other:
        kind, where, apart = options.other
        anyio.run(other, store_of(kind, where, apart, options.fsync))
    rows = [["", "tasks/s", "alone, ms", "answered, ms", "worst"]]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as started:
        for kind in ("memory", "sqlite", *SERVERS):
            where = str(Path(folder) / kind)
            if kind in SERVERS:
                if (program := program_of(kind)) is None:
                    continue
                server = SERVERS[kind][0](program, fsync=options.fsync)
                started.callback(server.end)
                where = server.url
            rows.append(anyio.run(measured, kind, where, options))
    print("\n".join(columns(rows)))


if __name__ == "__main__":
    main()
