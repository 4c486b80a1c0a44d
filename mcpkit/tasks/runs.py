"""The tasks that run in this process: claimed when they are due, and kept by their leases."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Final

import anyio

from mcpkit._concurrency.loop import Loop
from mcpkit._stores.base import StoreUnavailable
from mcpkit._utils.logs import log
from mcpkit.tasks import transitions
from mcpkit.tasks.options import TaskSettings
from mcpkit.tasks.record import Task
from mcpkit.tasks.shares import Choice
from mcpkit.tasks.transitions import TaskStore

POLL_S: Final = 1.0
"""Seconds between two looks for tasks that other processes have left or changed unnoticed."""

RETRY_S: Final = 1.0
"""Seconds between two attempts to renew leases while the store is unavailable."""

_HUNG: Final = 20
"""Leases without a turn of the event loop after which its tasks are left to other processes."""

_SKIP_S: Final = 0.0001
"""Seconds between two claims for each task that is left to others: the store must pass it over."""


class Calm:
    """A grace period in which expired leases are ignored: live processes could not renew theirs.

    It starts with the process, and after the store was unavailable, this machine was asleep, or
    the store's clock was set forward. It lasts one lease, so that all processes can renew theirs.
    """

    def __init__(self, lease: float) -> None:
        self._lease = lease
        self._looked = self.until = -math.inf
        self._ahead = -math.inf  # the store's clock, of this one, when tasks were last due

    def lasts(self, interval: float, now: float = math.nan) -> bool:
        """Return True in this time; it begins if the last call is longer ago than `interval`, or
        `now`, the store's time, is ahead of what the last one said."""
        here, late = monotonic(), self._lease / 3
        if here - self._looked > interval + late or now - here - self._ahead > late:
            self.until = here + self._lease
        self._looked = here
        if now == now:
            self._ahead = now - here
        return here < self.until


class RunningTask:
    """An attempt of a task that runs in this process, or is about to."""

    is_suspended = False
    """True while its handler is held at a question; it does not count as one that runs."""

    def __init__(self, id: str, number: int, caller: str = "") -> None:
        self.id = id
        self.number = number
        self.caller = caller
        self.ended = anyio.Event()

    @property
    def may_go_on(self) -> bool:
        """True if another process can continue where this one stops."""
        return False

    def start(self) -> None:
        """Start to run."""

    def see(self, task: Task) -> None:
        """Note the state of the task, which may have new answers."""

    def lose(self) -> None:
        """Stop without an outcome, because the lease is lost."""

    def stop(self) -> None:
        """Stop, because the process ends."""


class Runs:
    """The runs of tasks in one process.

    `run_task` makes the run of a claimed task, which fails if there is a reason why no process
    could run it. `note_reached` is called with what the store raised, or None if it answered.
    """

    def __init__(
        self,
        settings: TaskSettings,
        loop: Loop,
        run_task: Callable[[Task, str | None], RunningTask],
        choice: Choice,
        note_reached: Callable[[StoreUnavailable | None], object],
    ) -> None:
        self.running: dict[RunningTask, None] = {}
        self.choice = choice
        self._settings = settings
        self._loop = loop
        self._run_task = run_task
        self._note_reached = note_reached
        self._calm = Calm(settings.lease)
        self._turned = 0.0  # when the loop was last known to turn
        self._due = anyio.Event()
        """Set when tasks may be due."""
        self._claiming = anyio.Lock()
        """Held while tasks are claimed and started."""
        self._claim_lost = False
        """True if tasks may be claimed that have not started, because the answer was lost."""
        self._is_draining = False
        """True once no more tasks are started."""

    def wake(self) -> None:
        """Look for tasks that are due."""
        self._due.set()

    def see(self, task: Task) -> None:
        """Stop the attempts that the state of a task rules out, and start it if it is due."""
        for each in list(self.running):
            # An older state, which arrived late, does not concern a newer attempt.
            is_newer = task.is_over or task.attempt >= each.number
            if each.id == task.id and is_newer:
                if task.runs(each.number):
                    each.see(task)
                else:
                    each.lose()
        if task.due is not None and task.worker is None:
            self._due.set()

    async def run_due(self, store: TaskStore) -> None:
        """Run the tasks that are due, until no more are to be started."""
        # In a store of this process, only a lease that runs out makes a task due unnoticed.
        longest = POLL_S if store.is_shared else self._settings.lease
        while not self._is_draining:
            self._due = anyio.Event()
            wait = POLL_S
            try:
                async with self._claiming:
                    if await self._start_due(store, longest):
                        self._note_reached(None)
                wait = longest
            except StoreUnavailable as error:
                self._claim_lost = True
                self._calm.until = monotonic() + self._settings.lease
                self._note_reached(error)
            except Exception:  # the next attempt may succeed; without it no task would run
                log.exception("tasks could not be started")
            with anyio.move_on_after(wait):
                await self._due.wait()
            await anyio.sleep(_SKIP_S * len(self.choice.left))

    async def _start_due(self, store: TaskStore, interval: float) -> bool:
        """Start tasks while there is room; return True if the store was used."""
        choice, used = self.choice, False
        if self._claim_lost:  # others would take them for those of a process that has ended
            await transitions.release_lost(store, {(each.id, each.number) for each in self.running})
            self._claim_lost = False

        def fits(task: Task, now: float) -> bool:
            if self._calm.lasts(0, now) and task.worker is not None and not calm:
                return False
            return choice.fits(task)

        while (room := self._settings.max_running - len(self._working)) > 0:
            if self._is_draining:
                break
            skip = choice.begin([each.caller for each in self._working])
            calm, lease, asked = self._calm.lasts(interval), self._settings.lease, monotonic()
            claimed = await transitions.claim(
                *(store, room, lease),
                fits=fits,
                running={(each.id, each.number) for each in self.running},
                skip=skip,
                calm=calm,
            )
            used = True
            if claimed and monotonic() - asked > lease / 3:  # much of the leases may be over
                kept = await transitions.keep(
                    store, {(each.id, each.attempt) for each in claimed}, lease
                )
                claimed = [each for each in claimed if (each.id, each.attempt) in kept]
            for task in claimed:
                refused = choice.take(task)
                if self._is_draining:
                    await transitions.release(store, task)
                else:
                    running = self._run_task(task, refused)
                    self.running[running] = None
                    running.start()  # which may also end it
            if not choice.judge(are_shared=store.is_shared):
                break
        return used

    @property
    def _working(self) -> Sequence[RunningTask]:
        """The runs that count: their handlers are not held at a question."""
        return [each for each in self.running if not each.is_suspended]

    def ended(self, running: RunningTask) -> None:
        """Note that the run of a task has ended."""
        was_full = len(self._working) >= self._settings.max_running
        self.running.pop(running, None)
        if was_full or self.choice.full:
            self._due.set()

    async def keep_leases(self, store: TaskStore) -> None:
        """Renew leases, until cancelled. In a thread of its own: a handler may block the loop."""
        lease = self._settings.lease
        wait = lease / 3
        self._turned = monotonic()
        # Until the loop has ended; if it hangs, it does not set the time.
        while self._loop.soon(partial(setattr, self, "_turned", monotonic())):
            await anyio.sleep(wait)
            wait = lease / 3
            is_hung = monotonic() - self._turned > _HUNG * lease
            # A snapshot: attempts that start during the request are not in the answer.
            running = {(each.id, each.number): each for each in [*self.running] if not is_hung}
            kept: Mapping[tuple[str, int], Task] = {}
            try:
                if running:
                    kept = await transitions.keep(store, [*running], lease)
            except StoreUnavailable as error:
                wait = min(wait, RETRY_S)
                self._loop.soon(partial(self._note_reached, error))
            except Exception:
                log.exception("the leases of tasks could not be renewed")
            else:
                if running:
                    self._loop.soon(partial(self._note_reached, None))
                for key, each in running.items():
                    if key not in kept:
                        self._loop.soon(each.lose)
                for task in kept.values():  # a hint that it was answered may be lost
                    self._loop.soon(partial(self.see, task))

    async def stop(self, grace: float, *, only_shared: bool = False) -> None:
        """Start no more runs, stop all of them, and wait a while until they have ended.

        `only_shared` stops only those that another process can continue.
        """
        self._is_draining = True
        self._due.set()
        for each in list(self.running):
            if each.may_go_on or not only_shared:
                each.stop()
        with anyio.move_on_after(grace):
            async with self._claiming:
                pass  # what was being claimed has been released
            while self.running:
                await next(iter(self.running)).ended.wait()
