"""Tasks survive the processes that work on them, and the server that keeps them."""

from __future__ import annotations

import random
import secrets
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import pytest

from mcpkit._stores.base import StoreUnavailable
from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from mcpkit.tasks.store import CODEC, TaskStore, add, close
from tests import warm
from tests.tasks.killed import STEPS, store_of
from tests.tasks.servers import Servers

TASKS: Final = {"sqlite": 50, "redis": 30, "postgres": 30}
PATIENCE: Final = 60.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")


class Kept(NamedTuple):
    """Where tasks are kept: a kind of store, its file or URL, and what sets them apart."""

    kind: str
    where: str
    apart: str


class Workers:
    """Processes that work on the tasks of a store."""

    def __init__(self, kept: Kept, log: Path, lease: float) -> None:
        self.disturbed: list[str] = []  # those that were killed or paused
        self._arguments = [*kept, str(log)]
        self._lease = lease
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._started = 0

    def start(self) -> None:
        name = f"worker-{self._started}"
        self._started += 1
        command = [sys.executable, "-m", "tests.tasks.killed", *self._arguments, name]
        self._running[name] = warm.Popen([*command, str(self._lease)])

    def kill(self) -> None:
        """Kill any of them, and start another one."""
        name, process = self._any()
        process.kill()
        process.wait(PATIENCE)
        del self._running[name]
        self.start()

    def pause(self) -> None:
        """Have any of them stand still until its leases are over."""
        _, process = self._any()
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.5 * self._lease)
        process.send_signal(signal.SIGCONT)

    def _any(self) -> tuple[str, subprocess.Popen[bytes]]:
        name = random.choice(list(self._running))
        self.disturbed.append(name)
        return name, self._running[name]

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait(PATIENCE)


@contextmanager
def working(kept: Kept, log: Path, lease: float) -> Iterator[Workers]:
    workers = Workers(kept, log, lease)
    with ExitStack() as stack:
        stack.callback(workers.end)
        for _ in range(3):
            workers.start()
        yield workers


async def follow(
    store: TaskStore, ids: list[str], disturb: Callable[[], object], most: int
) -> list[Task]:
    """Answer questions, and disturb the workers or the store, until all tasks are over."""
    deadline = time.monotonic() + PATIENCE
    times = 0
    tasks: list[Task] = []
    while True:
        assert time.monotonic() < deadline, [each for each in tasks if not each.is_over]
        try:
            tasks = [task for id in ids if (task := await store.get(id)) is not None]
            assert len(tasks) == len(ids)
            for task in tasks:
                if task.status == "input_required":
                    await store.change(
                        task.id, lambda found, now: record.answer(found, {"q": b"!"}, now)
                    )
        except StoreUnavailable:
            continue
        if all(task.is_over for task in tasks):
            return tasks
        if times < most and any(task.attempt for task in tasks):
            times += 1
            await anyio.to_thread.run_sync(disturb)
        await anyio.sleep(random.uniform(0.01, 0.1))


async def survive(
    kept: Kept,
    folder: Path,
    lease: float,
    most: int,
    disturb: Callable[[Workers], object],
    cut_off: Callable[[Workers], set[str] | None],
) -> None:
    """Have workers do tasks while they, or their store, are disturbed at least `most` times.

    The workers in `cut_off` may have repeated steps; None stands for all.
    """
    store = store_of(*kept)
    await store.open(CODEC, "watcher")
    number = disturbed = 0

    while disturbed < most:
        number += 1
        ids = [f"{number}-{each}{'-asks' * (each % 3 == 0)}" for each in range(TASKS[kept.kind])]
        log = folder / f"log-{number}"
        before = disturbed

        def once(workers: Workers) -> None:
            nonlocal disturbed
            disturbed += 1
            disturb(workers)

        with working(kept, log, lease) as workers:
            for id in ids:
                task = Task(id=id, owner="o", call=b"", ttl=None)
                await add(store, task, limit=1000, limit_per_owner=1000)
            tasks = await follow(store, ids, lambda: once(workers), 10)
        assert {each.status for each in tasks} == {"completed"}
        assert {each.outcome for each in tasks} == {b"done"}
        check(log, ids, cut_off(workers))
        for id in ids:
            assert dict(await store.values(id)) == {each: each.encode() for each in STEPS}
        assert disturbed > before
    await close(store)


@pytest.fixture(params=TASKS)
def kept(request: pytest.FixtureRequest, tmp_path: Path, servers: Servers) -> Kept:
    kind: str = request.param
    where = str(tmp_path / "tasks.db") if kind == "sqlite" else servers.url(kind)
    return Kept(kind, where, f"kills_{secrets.token_hex(8)}")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["killed", "paused"])
def test_tasks_survive_their_workers(
    kept: Kept, tmp_path: Path, request: pytest.FixtureRequest, how: str
) -> None:
    """None is lost, none ends twice, none works for ever; and no step that was done is repeated."""
    deep: bool = request.config.getoption("--deep")
    if how == "paused" and kept.kind != "sqlite" and not deep:
        pytest.skip("the lost attempt is fenced off alike; --deep tries it here too")
    # The tasks of a killed process are claimed soon, long before these seconds are over.
    lease = 100.0 if how == "killed" else 0.5
    enough = {"killed": 100, "paused": 20} if deep else {}
    anyio.run(
        survive,
        *(kept, tmp_path, lease, enough.get(how, 1)),
        Workers.kill if how == "killed" else Workers.pause,
        # A process that stands still in the middle of a change holds up all others, whose
        # leases may end meanwhile.
        (lambda workers: {*workers.disturbed}) if how == "killed" else (lambda workers: None),
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_tasks_survive_an_outage_of_their_server(
    kind: str, servers: Servers, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """It is killed while they are worked on, and started again: none is lost, none ends twice."""
    server = servers.new(kind, fsync=kind == "redis")

    def disturb(_: Workers) -> None:
        server.kill()
        server.start()

    try:
        anyio.run(
            survive,
            *(Kept(kind, server.url, "kills"), tmp_path, 2.0),
            100 if request.config.getoption("--deep") else 1,
            disturb,
            lambda workers: None,
        )
    finally:
        server.end()


def check(log: Path, ids: list[str], cut_off: set[str] | None) -> None:
    begun: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in log.read_text().splitlines():
        worker, id, what = line.split()
        begun[id, what].append(worker)
    for id in ids:
        assert len(begun[id, "finished"]) <= 1, id  # it may be killed before it says so
        for step in STEPS:
            workers = begun[id, step]
            assert workers, (id, step)
            assert cut_off is None or set(workers[:-1]) <= cut_off, (id, step, workers)
