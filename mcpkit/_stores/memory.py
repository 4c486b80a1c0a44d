"""Tasks in this process, which end with it."""

from __future__ import annotations

import time
from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from heapq import heappop, heappush
from itertools import islice
from threading import RLock
from typing import Any, TypeVar, cast

from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from mcpkit.tasks.store import Change, Heard, Position, TooManyTasks

__all__ = ["MemoryStore", "TaskTable"]

F = TypeVar("F", bound=Callable[..., Any])


class TaskTable:
    """The tasks of an app, which all that serve it in this process share."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.steps: dict[str, dict[str, bytes]] = {}
        self.queue: list[tuple[float, str]] = []
        """When each task is due, the first first; what is not so any more is passed over."""
        self.of_owner: dict[str, list[Position]] = {}
        self.unfinished: Counter[str] = Counter()
        self.heard: dict[str, Heard] = {}
        """By runner."""
        self.lock = RLock()
        """Held while anything changes: there may be several event loops, each in its thread."""


def _alone(method: F) -> F:
    """Let nothing else happen on the shelf meanwhile. The method must not wait for anything."""

    @wraps(method)
    async def call(self: MemoryStore, *args: Any, **kwargs: Any) -> Any:
        with self._shelf.lock:
            return await method(self, *args, **kwargs)

    return cast("F", call)


class MemoryStore:
    """Keeps tasks in dicts.

    Args:
        shelf: Where they are; one of its own by default.
        clock: Seconds since the epoch.
    """

    is_shared = False

    def __init__(
        self, shelf: TaskTable | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._shelf = shelf or TaskTable()
        self._clock = clock
        self._runner = ""

    @_alone
    async def open(self, runner: str, heard: Heard | None = None) -> None:
        """Begin to use the store."""
        self._runner = runner
        if heard is not None:
            self._shelf.heard[runner] = heard

    @_alone
    async def aclose(self) -> None:
        """Give back what runs."""
        self._shelf.heard.pop(self._runner, None)
        for task in list(self._shelf.tasks.values()):
            if task.runner == self._runner:
                self._put(replace(task, runner=None))

    @_alone
    async def add(self, task: Task, *, most: int, most_of_owner: int) -> Task:
        """Keep a new task."""
        if (
            self._shelf.unfinished.total() >= most
            or self._shelf.unfinished[task.owner] >= most_of_owner
        ):
            raise TooManyTasks
        now = self._clock()
        task = replace(task, created=now, updated=now)
        insort(self._shelf.of_owner.setdefault(task.owner, []), (now, task.id))
        self._shelf.unfinished[task.owner] += 1
        self._put(task)
        return task

    def _put(self, task: Task) -> None:
        old = self._shelf.tasks.get(task.id)
        self._shelf.tasks[task.id] = task
        if task.due is not None and (old is None or old.due != task.due):
            heappush(self._shelf.queue, (task.due, task.id))
        if task.is_over and old is not None and not old.is_over:
            self._finished(task.owner)
        for runner, heard in self._shelf.heard.items():
            if runner != self._runner:
                heard(task.id)

    def _finished(self, owner: str) -> None:
        self._shelf.unfinished[owner] -= 1
        if not self._shelf.unfinished[owner]:
            del self._shelf.unfinished[owner]

    @_alone
    async def get(self, id: str) -> Task | None:
        """Return a task."""
        task = self._shelf.tasks.get(id)
        return None if task is None or _is_past(task, self._clock()) else task

    @_alone
    async def change(self, id: str, edit: Change) -> Task | None:
        """Change a task."""
        task = await self.get(id)
        if task is None:
            raise KeyError(id)
        changed = edit(task, self._clock())
        if changed is not None:
            self._put(changed)
        return changed

    @_alone
    async def claim(self, most: int, lease: float) -> Sequence[Task]:
        """Begin a leg of tasks that are due."""
        now = self._clock()
        claimed: list[Task] = []
        while len(claimed) < most and self._shelf.queue and self._shelf.queue[0][0] <= now:
            due, id = heappop(self._shelf.queue)
            task = self._shelf.tasks.get(id)
            if task is not None and task.due == due and not _is_past(task, now):
                begun = record.claim(task, self._runner, now + lease)
                assert begun is not None
                self._put(begun)
                claimed.append(begun)
        return claimed

    @_alone
    async def keep(
        self, legs: Collection[tuple[str, int]], lease: float
    ) -> Collection[tuple[str, int]]:
        """Let legs go on."""
        now = self._clock()
        kept: list[tuple[str, int]] = []
        for id, leg in legs:
            task = await self.get(id)
            renewed = task and record.keep(task, leg, now + lease)
            if renewed:
                self._put(renewed)
                kept.append((id, leg))
        return kept

    @_alone
    async def remember(self, id: str, leg: int, key: str, value: bytes) -> bytes | None:
        """Remember what a step has come to."""
        task = await self.get(id)
        advanced = task and record.advance(task, leg)
        if not advanced:
            return None
        self._put(advanced)
        return self._shelf.steps.setdefault(id, {}).setdefault(key, value)

    @_alone
    async def steps(self, id: str) -> Mapping[str, bytes]:
        """Return what steps have come to."""
        return dict(self._shelf.steps.get(id, {}))

    @_alone
    async def list(self, owner: str, after: Position | None, most: int) -> Sequence[Task]:
        """Return tasks of an owner."""
        places = self._shelf.of_owner.get(owner, [])
        start = 0 if after is None else bisect_right(places, after)
        now = self._clock()
        found = (self._shelf.tasks[id] for _, id in islice(places, start, None))
        return [*islice((each for each in found if not _is_past(each, now)), most)]

    @_alone
    async def sweep(self) -> int:
        """Forget the tasks whose time is over."""
        now = self._clock()
        past = [each for each in self._shelf.tasks.values() if _is_past(each, now)]
        for task in past:
            del self._shelf.tasks[task.id]
            self._shelf.steps.pop(task.id, None)
            places = self._shelf.of_owner[task.owner]
            places.remove((task.created, task.id))
            if not places:
                del self._shelf.of_owner[task.owner]
            if not task.is_over:
                self._finished(task.owner)
        return len(past)


def _is_past(task: Task, now: float) -> bool:
    return task.expires is not None and task.expires <= now
