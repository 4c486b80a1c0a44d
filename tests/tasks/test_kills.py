"""Tasks in a file survive the processes that work on them."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import pytest

from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from mcpkit.tasks.sqlite import SqliteStore
from tests import warm
from tests.tasks.killed import STEPS

TASKS = 50
PATIENCE = 60.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")


class Workers:
    """Processes that work on the tasks of a file.

    Attributes:
        disturbed: The names of those that were killed or paused.
    """

    def __init__(self, file: Path, log: Path, lease: float) -> None:
        self.disturbed: list[str] = []
        self._arguments = [str(file), str(log)]
        self._lease = lease
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._started = 0

    def start(self) -> None:
        """Start another one."""
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
        """Kill all."""
        for process in self._running.values():
            process.kill()
            process.wait(PATIENCE)


@contextmanager
def working(file: Path, log: Path, lease: float) -> Iterator[Workers]:
    workers = Workers(file, log, lease)
    with ExitStack() as stack:
        stack.callback(workers.end)
        for _ in range(3):
            workers.start()
        yield workers


async def follow(
    store: SqliteStore, ids: list[str], disturb: Callable[[], object], most: int
) -> list[Task]:
    """Answer what is asked, and disturb the workers, until all tasks are over."""
    deadline = time.monotonic() + PATIENCE
    times = 0
    while True:
        tasks = [task for id in ids if (task := await store.get(id)) is not None]
        assert len(tasks) == len(ids)
        for task in tasks:
            if task.status == "input_required":
                await store.change(
                    task.id, lambda found, now: record.answer(found, {"q": b"!"}, now)
                )
        if all(task.is_over for task in tasks):
            return tasks
        assert time.monotonic() < deadline, [each for each in tasks if not each.is_over]
        if times < most and any(task.leg for task in tasks):
            times += 1
            await anyio.to_thread.run_sync(disturb)
        await anyio.sleep(random.uniform(0.01, 0.1))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["killed", "paused"])
def test_fifty_tasks_survive_what_happens_to_their_workers(
    tmp_path: Path, request: pytest.FixtureRequest, how: str
) -> None:
    """None is lost, none ends twice, none works for ever; and no step that was done is repeated."""
    file = tmp_path / "tasks.db"
    # The work of a process that was killed is taken up at once: nobody waits for these seconds.
    lease = 100.0 if how == "killed" else 1.0
    enough = {"killed": 100, "paused": 20} if request.config.getoption("--deep") else {}

    async def main() -> None:
        store = SqliteStore(file)
        await store.open("watcher")
        number = disturbed = 0
        while disturbed < enough.get(how, 1):
            number += 1
            ids = [f"{number}-{each}{'-asks' * (each % 3 == 0)}" for each in range(TASKS)]
            log = tmp_path / f"log-{number}"
            with working(file, log, lease) as workers:
                for id in ids:
                    task = Task(id=id, owner="o", call=b"", ttl=None)
                    await store.add(task, most=1000, most_of_owner=1000)
                disturb = workers.kill if how == "killed" else workers.pause
                tasks = await follow(store, ids, disturb, 10)
            assert {each.status for each in tasks} == {"completed"}
            assert {each.outcome for each in tasks} == {b"done"}
            # A process that stands still in the middle of a change holds up all others, whose
            # leases may end meanwhile.
            check(log, ids, {*workers.disturbed} if how == "killed" else None)
            for id in ids:
                assert dict(await store.steps(id)) == {each: each.encode() for each in STEPS}
            disturbed += len(workers.disturbed)
        await store.aclose()

    anyio.run(main)


def check(log: Path, ids: list[str], cut_off: set[str] | None) -> None:
    """Read what the workers have written.

    Args:
        log: Their file.
        ids: The tasks.
        cut_off: The workers whose steps may have been repeated; None: all.
    """
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
