"""Who sees to it that the legs of tasks are run.

The record of a task is the truth, and the number of its leg the fence: whatever a dispatcher does
wrong, no leg that was given up changes anything. So one that hands legs to the engine of a queue
may stand in the place of the one that is here, which claims them from the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from functools import partial
from time import monotonic
from typing import Final, Protocol

import anyio

from mcpkit._utils.logs import get_logger
from mcpkit.tasks import record
from mcpkit.tasks.options import TaskSettings
from mcpkit.tasks.record import Task
from mcpkit.tasks.store import StoreUnavailable, TaskStore

__all__ = ["GLANCE_S", "Engine", "LeaseEngine", "RunningLeg"]

log: Final = get_logger("mcpkit")

GLANCE_S: Final = 1.0
"""Seconds between two looks for what other processes have left, or changed without a word."""

_SWEEP_S: Final = 60.0
_CLEAN_UP_S: Final = 2.0
"""Seconds that legs have to end when the process does."""


class RunningLeg(Protocol):
    """A leg that runs in this process, or is about to."""

    id: str
    """Of its task."""
    number: int
    ended: anyio.Event

    @property
    def may_go_on(self) -> bool:
        """True if another process may go on where this one stops."""
        ...

    def start(self) -> None:
        """Begin to work."""
        ...

    def lose(self) -> None:
        """End it without an outcome: it is not the task's own any more."""
        ...

    def stop(self) -> None:
        """End it: the process ends."""
        ...


class Engine(Protocol):
    """Sees to it that legs are run, here or anywhere."""

    def due(self, id: str) -> None:
        """Take the hint that a leg can be begun: the task was made, answered or given back."""
        ...

    def stop(self, task: Task) -> None:
        """Take the hint that a task has changed: any leg that is not its own should stop."""
        ...

    async def serve(self, run: Callable[[Task], RunningLeg]) -> None:
        """Run legs in this process until cancelled.

        Args:
            run: Makes the leg that a claimed task has now, to be started.
        """
        ...


class LeaseEngine:
    """Claims what is due from the store, for a while, and prolongs the time of what runs.

    Args:
        store: Has the tasks.
        settings: How many are run at once, and for how long they are claimed.
        reached: Told whenever the store was reached (None), or was away.
        swept: Called after tasks were forgotten whose time is over.
    """

    def __init__(
        self,
        store: TaskStore,
        settings: TaskSettings,
        reached: Callable[[StoreUnavailable | None], object],
        swept: Callable[[], Awaitable[object]],
    ) -> None:
        self._store = store
        self._settings = settings
        self._reached = reached
        self._swept = swept
        self._legs: dict[RunningLeg, None] = {}
        self._poked = anyio.Event()
        self._served: anyio.Event | None = None
        self._is_closing = False

    @property
    def ids(self) -> Collection[str]:
        """The tasks that are worked on here."""
        return {leg.id for leg in self._legs}

    def due(self, id: str) -> None:
        """Look at once for what is due."""
        del id
        self._poked.set()

    def stop(self, task: Task) -> None:
        """Stop the leg of a task that is not its own any more."""
        for leg in list(self._legs):
            # An older state, which came late, says nothing of a leg that has begun since.
            is_newer = task.is_over or task.leg >= leg.number
            if leg.id == task.id and is_newer and not task.runs(leg.number):
                leg.lose()

    def ended(self, leg: RunningLeg) -> None:
        """Note that a leg has ended, so that there is room for another."""
        was_full = len(self._legs) >= self._settings.max_running
        self._legs.pop(leg, None)
        if was_full:
            self._poked.set()

    async def serve(self, run: Callable[[Task], RunningLeg]) -> None:
        """Begin legs of what is due, until it is closed."""
        self._served = anyio.Event()
        # What nobody else does is due without a word only if a leg has ended without one.
        longest = GLANCE_S if self._store.is_shared else self._settings.lease
        try:
            while not self._is_closing:
                self._poked = anyio.Event()
                room = self._settings.max_running - len(self._legs)
                wait = longest
                try:
                    due = await self._store.claim(room, self._settings.lease) if room > 0 else ()
                    self._reached(None)
                    await self._begin(due, run)
                except StoreUnavailable as error:
                    self._reached(error)
                    wait = GLANCE_S
                except Exception:  # the next try may go well, and without one nothing goes at all
                    log.exception("tasks could not be begun")
                    wait = GLANCE_S
                with anyio.move_on_after(wait):
                    await self._poked.wait()
        finally:
            self._served.set()

    async def _begin(self, due: Sequence[Task], run: Callable[[Task], RunningLeg]) -> None:
        for task in due:
            if self._is_closing:  # meanwhile; nothing of it has been done
                await self._store.change(task.id, partial(_given_back, task.leg))
            else:
                leg = run(task)
                self._legs[leg] = None
                leg.start()  # which may also be its end

    async def keep(self) -> None:
        """Let the legs go on that run, and forget tasks whose time is over, until cancelled."""
        lease = self._settings.lease
        swept = reached = monotonic()
        while True:
            await anyio.sleep(lease / 3)
            # Those that are claimed while the store is asked are not among these.
            legs = {(leg.id, leg.number): leg for leg in self._legs}
            asked = monotonic()
            kept: set[tuple[str, int]] = set()
            try:
                if legs:
                    kept.update(await self._store.keep([*legs], lease))
                reached = asked
                if asked - swept > _SWEEP_S:
                    swept = asked
                    await self._store.sweep()
                    await self._swept()
            except Exception as error:
                if isinstance(error, StoreUnavailable):
                    self._reached(error)
                else:
                    log.exception("the time of tasks could not be prolonged")
                if asked - reached < lease:
                    continue  # they may go on until somebody else begins
            for place, leg in legs.items():
                if place not in kept:
                    leg.lose()

    async def finish(self, grace: float) -> None:
        """Begin nothing any more, and let what nobody could go on with come to its end.

        Args:
            grace: Seconds that it has.
        """
        self._is_closing = True
        self._poked.set()
        for leg in list(self._legs):
            if leg.may_go_on:
                leg.stop()
        with anyio.move_on_after(grace):
            await self._all_ended()

    async def aclose(self) -> None:
        """Stop all legs, and wait a while until they have ended."""
        self._is_closing = True
        self._poked.set()
        for leg in list(self._legs):
            leg.stop()
        with anyio.move_on_after(_CLEAN_UP_S):
            await self._all_ended()

    async def _all_ended(self) -> None:
        if self._served is not None:
            await self._served.wait()
        while self._legs:
            await next(iter(self._legs)).ended.wait()


def _given_back(leg: int, task: Task, now: float) -> Task | None:
    del now
    return record.give_back(task, leg)
