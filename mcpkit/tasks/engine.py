"""LeaseEngine: claims due tasks from the store, and runs them.

The record of a task is the truth, and the number of its attempt fences off all others: whatever an
engine does wrong, an attempt without the lease changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from time import monotonic
from typing import Final, Protocol

import anyio

from mcpkit._stores.base import StoreUnavailable
from mcpkit._utils.logs import get_logger
from mcpkit.tasks import record
from mcpkit.tasks.options import TaskSettings
from mcpkit.tasks.record import Task
from mcpkit.tasks.store import TaskStore, claim, keep

log: Final = get_logger("mcpkit")

POLL_S: Final = 1.0
"""Seconds between two looks for tasks that other processes have left or changed unnoticed."""

_SWEEP_S: Final = 60.0
_CLEAN_UP_S: Final = 2.0
"""Seconds in which attempts can end when the process does."""


class RunningTask(Protocol):
    """An attempt that runs in this process, or is about to."""

    id: str
    """The task."""
    number: int
    ended: anyio.Event

    @property
    def may_go_on(self) -> bool:
        """True if another process can continue where this one stops."""
        ...

    def start(self) -> None:
        """Start to run."""

    def lose(self) -> None:
        """Stop without an outcome, because the lease is lost."""

    def stop(self) -> None:
        """Stop, because the process ends."""


class LeaseEngine:
    """Claims due tasks from a store, and renews the leases of those that run.

    `reached` is called with None when the store answered, or with its error; `swept` after expired
    tasks were deleted.
    """

    def __init__(
        self,
        settings: TaskSettings,
        reached: Callable[[StoreUnavailable | None], object],
        swept: Callable[[], Awaitable[object]],
    ) -> None:
        self._settings = settings
        self._reached = reached
        self._swept = swept
        self._running: dict[RunningTask, None] = {}
        self._wake = anyio.Event()
        self._served: anyio.Event | None = None
        self._is_closing = False

    @property
    def ids(self) -> Collection[str]:
        """The tasks that run here."""
        return {each.id for each in self._running}

    def due(self) -> None:
        """Claim due tasks at once."""
        self._wake.set()

    def stop(self, task: Task) -> None:
        """Stop the attempts that have lost a task."""
        for each in list(self._running):
            # An older state, which arrived late, does not concern a newer attempt.
            is_newer = task.is_over or task.attempt >= each.number
            if each.id == task.id and is_newer and not task.runs(each.number):
                each.lose()

    def ended(self, running: RunningTask) -> None:
        """Make room for another attempt when one has ended."""
        was_full = len(self._running) >= self._settings.max_running
        self._running.pop(running, None)
        if was_full:
            self._wake.set()

    async def serve(self, store: TaskStore, run: Callable[[Task], RunningTask]) -> None:
        """Run the due tasks of a store, until it is closed."""
        self._served = anyio.Event()
        # In a store of this process, only a lease that runs out makes a task due unnoticed.
        longest = POLL_S if store.is_shared else self._settings.lease
        try:
            while not self._is_closing:
                self._wake = anyio.Event()
                room = self._settings.max_running - len(self._running)
                wait = longest
                try:
                    due = await claim(store, room, self._settings.lease) if room > 0 else ()
                    self._reached(None)
                    for task in due:
                        if self._is_closing:
                            number = task.attempt
                            await store.change(
                                task.id, lambda task, _, number=number: record.release(task, number)
                            )
                        else:
                            running = run(task)
                            self._running[running] = None
                            running.start()  # which may also end it
                except StoreUnavailable as error:
                    self._reached(error)
                    wait = POLL_S
                except Exception:  # the next attempt may succeed; without it no task would run
                    log.exception("tasks could not be started")
                    wait = POLL_S
                with anyio.move_on_after(wait):
                    await self._wake.wait()
        finally:
            self._served.set()

    async def keep(self, store: TaskStore) -> None:
        """Renew leases and delete expired tasks, until cancelled."""
        lease = self._settings.lease
        swept = reached = monotonic()
        while True:
            await anyio.sleep(lease / 3)
            # A snapshot: attempts that start during the request are not in the answer.
            running = {(each.id, each.number): each for each in self._running}
            asked = monotonic()
            kept: set[tuple[str, int]] = set()
            try:
                if running:
                    kept.update(await keep(store, [*running], lease))
                reached = asked
                if asked - swept > _SWEEP_S:
                    swept = asked
                    await store.sweep()
                    await self._swept()
            except Exception as error:
                if isinstance(error, StoreUnavailable):
                    self._reached(error)
                else:
                    log.exception("the leases of tasks could not be renewed")
                if asked - reached < lease:
                    continue  # no other process can have claimed them yet
            for key, each in running.items():
                if key not in kept:
                    each.lose()

    async def end(self, grace: float = _CLEAN_UP_S, *, only_shared: bool = False) -> None:
        """Start no more attempts, stop all of them, and wait a while until they have ended.

        `only_shared` stops only those that another process can continue.
        """
        self._is_closing = True
        self._wake.set()
        for each in list(self._running):
            if each.may_go_on or not only_shared:
                each.stop()
        with anyio.move_on_after(grace):
            if self._served is not None:
                await self._served.wait()
            while self._running:
                await next(iter(self._running)).ended.wait()
