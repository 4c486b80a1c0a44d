"""Limits on the tasks of each caller: how many run at once, and their bytes in the store."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection
from time import monotonic, time
from typing import Final, NamedTuple

from mcpkit._utils.quota import Quota, largest_share
from mcpkit.errors import InternalError
from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from mcpkit.tasks.transitions import Change

UNFIT_S: Final = 15 * 60.0
"""Seconds for which a task that this process cannot run is left to others, before it fails: a
deployment has replaced all processes by then."""

_OVERHEAD: Final = 4096
"""Bytes that a task is counted for beside its values."""

_MAX_UNFINISHED: Final = 20
"""Unfinished tasks that are looked at in vain to make room for one."""


class OtherSecret(InternalError):
    """A stored value cannot be read here."""

    def __init__(self) -> None:
        super().__init__("The task was made with another secret, or changed")


class _Verdict(NamedTuple):
    attempt: int
    version: int  # of the catalog
    since: float | None = None  # when it was left to others; None: it may be claimed
    reason: str | None = None  # why no process could run it


class Choice:
    """Chooses the tasks that a process claims: those that it can run, within each caller's share.

    Each claim calls `begin`, then `fits` for each task that is due, in any thread, then `take` for
    each claimed one, and `judge`.

    `unfit` says why a task cannot be run here, if so, by the catalog of a `version`; it raises
    `OtherSecret` if it cannot be read.
    """

    def __init__(
        self, max_running: int, unfit: Callable[[Task], str | None], version: Callable[[], int]
    ) -> None:
        self._max_running = max_running
        self._unfit = unfit
        self._version = version
        self._catalog = 0
        self._verdicts: dict[str, _Verdict] = {}
        """By the id of a task."""
        self.full: set[str] = set()
        """The callers that have their share of the places."""

    def begin(self, callers: Collection[str]) -> Collection[str]:
        """Prepare for a claim, given the callers of the running tasks; return what the claim skips.

        That is the tasks that are left to others, and the callers that have their share.
        """
        self._catalog = self._version()
        self._places = Quota(self._max_running, largest_share(self._max_running))
        self._new: dict[str, Task] = {}
        self._granted: set[str] = set()
        self._is_short = False
        for each in callers:
            self._places.add(each)
        self.full = {each for each in callers if each and not self._places.has_room(each)}
        return self.full | self.left

    @property
    def left(self) -> set[str]:
        """The tasks that are left to others."""
        late, known = monotonic() - UNFIT_S, [*self._verdicts.items()]
        return {
            id
            for id, each in known
            if each.version == self._catalog and each.since is not None and each.since > late
        }

    def fits(self, task: Task) -> bool:
        """Return True if a task may be claimed. In any thread."""
        if self._verdicts.get(task.id, ())[:3] != (task.attempt, self._catalog, None):
            self._new[task.id] = task
            return False
        if task.id not in self._granted:
            if task.caller and not self._places.has_room(task.caller):
                self._is_short = True
                return False
            self._granted.add(task.id)
            self._places.add(task.caller)
        return True

    def judge(self, *, are_shared: bool) -> bool:
        """Judge the tasks that were new to the last claim; True if another one may find more.

        Not during the claim, because arguments are validated. Tasks that are `are_shared` with
        other processes are left to them, if they cannot be run here.
        """
        for task in self._new.values():
            self._verdicts[task.id] = self._verdict(task, are_shared)
        return bool(self._new) or self._is_short

    def _verdict(self, task: Task, is_shared: bool) -> _Verdict:
        now, at = monotonic(), (task.attempt, self._version())
        before = self._verdicts.get(task.id)
        if before is None or before.attempt != task.attempt:  # others have run it meanwhile
            before = _Verdict(*at)
        since = now if before.since is None else before.since
        try:
            reason = self._unfit(task)
        except OtherSecret:
            return _Verdict(*at, now)
        if reason is None or not is_shared:  # its handler would report the reason
            return _Verdict(*at)
        return _Verdict(*at, None, reason) if since <= now - UNFIT_S else _Verdict(*at, since)

    def made(self, task: Task) -> None:
        """Note that this process makes a task, and can run it."""
        self._verdicts[task.id] = _Verdict(task.attempt, self._version())

    def leave(self, task: Task) -> None:
        """Note that a task was claimed that this process cannot read."""
        self._verdicts[task.id] = _Verdict(task.attempt, self._version(), monotonic())

    def take(self, task: Task) -> str | None:
        """Note that a task was claimed; return why no process could run it, if so."""
        verdict = self._verdicts.pop(task.id, None)
        return verdict.reason if verdict else None

    def forget(self) -> None:
        """Forget tasks that have not been claimed: they have expired, or were run elsewhere."""
        past, known = monotonic() - 2 * UNFIT_S, self._verdicts.items()
        self._verdicts = {
            id: each for id, each in known if each.since is not None and each.since > past
        }


class StoredBytes:
    """Bounds the bytes that the tasks of each caller have in the store.

    A process counts the tasks that it has stored; `change` changes one.
    """

    def __init__(self, total: int, change: Callable[[str, Change], Awaitable[Task | None]]) -> None:
        self._quota = Quota(total)
        self._change = change
        self._of: dict[str, dict[str, tuple[int, float]]] = {}
        """By caller and id, the oldest first: its bytes, and when it expires."""

    def note(self, task: Task) -> None:
        """Count a task that was stored or changed."""
        if task.caller:
            size, tasks = _OVERHEAD + task.size, self._of.setdefault(task.caller, {})
            self._quota.add(task.caller, size - tasks.get(task.id, (0,))[0])
            tasks[task.id] = size, math.inf if task.expires is None else task.expires

    def has_room(self, caller: str) -> bool:
        """Return True if a caller may store more, without what has expired."""
        if not self._quota.has_room(caller):
            self.forget()
        return self._quota.has_room(caller)

    async def make_room(self, caller: str, size: int = 0) -> bool:
        """Return True if a caller may store more, after its oldest finished tasks have expired.

        If all callers together have too much, those of the one that has most expire.
        """
        quota, full, unfinished = self._quota, caller, 0
        if not caller or quota.has_room(caller, size):
            return True
        if quota.held(caller) + size <= quota.each:
            full = max(self._of, key=quota.held)
        tasks = self._of.get(full, {})
        for id in [*tasks]:
            if unfinished == _MAX_UNFINISHED or quota.has_room(caller, size):
                break
            try:
                is_gone = await self._change(id, lambda task, _: record.expire(task)) is not None
            except KeyError:
                is_gone = True
            unfinished += not is_gone
            if id in tasks:
                if is_gone:
                    self._drop(full, id)
                else:  # looked at again after the others
                    tasks[id] = tasks.pop(id)
        return quota.has_room(caller, size)

    def _drop(self, caller: str, id: str) -> None:
        self._quota.add(caller, -self._of[caller].pop(id)[0])
        if not self._of[caller]:
            del self._of[caller]

    def forget(self) -> None:
        """Forget tasks that have expired."""
        now = time()
        for caller, tasks in [*self._of.items()]:
            for id in [id for id, (_, expires) in tasks.items() if expires <= now]:
                self._drop(caller, id)
