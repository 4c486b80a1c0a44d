"""What keeps tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, TypeAlias

from mcpkit.tasks.record import Task

__all__ = ["Change", "Heard", "Position", "StoreUnavailable", "TaskStore", "TooManyTasks"]

Change: TypeAlias = Callable[[Task, float], "Task | None"]
"""From a record and the time to the next record; None if it does not apply. It may be called
several times, so it must not do anything else."""

Heard: TypeAlias = Callable[["str | None"], object]
"""Told, in any thread, that another process may have changed a task: its id, or None for any."""

Position: TypeAlias = tuple[float, str]
"""A place in the list of an owner: when the task was created, and its id."""


class TooManyTasks(Exception):
    """As many tasks as there may be are not over yet."""


class StoreUnavailable(Exception):
    """The store cannot be read or written. Nothing was changed, as far as anybody knows: a server
    that answers no more may have done what it was asked for."""


class TaskStore(Protocol):
    """Keeps tasks. Every method is one atomic change, which is done when it returns.

    All may be cancelled, and are then done or not; and all may raise `StoreUnavailable`.
    """

    is_shared: bool
    """True if other processes may use it too."""

    async def open(self, runner: str, heard: Heard | None = None) -> None:
        """Begin to use the store.

        Args:
            runner: The name of this process, which no other has, or had.
            heard: Told of what others change, as soon as the store can know; a hint, which may be
                missing or come for nothing.

        Raises:
            StoreUnavailable: It cannot be used; the message says why.
        """
        ...

    async def aclose(self) -> None:
        """Use the store no more; others take up at once what this process has not given back."""
        ...

    async def add(self, task: Task, *, most: int, most_of_owner: int) -> Task:
        """Keep a new task, which is due from now on (TASKX-6).

        Args:
            task: Without its times.
            most: The tasks that may be unfinished altogether.
            most_of_owner: Those of one owner.

        Returns:
            The task with its times.

        Raises:
            TooManyTasks: There are as many as may be.
        """
        ...

    async def get(self, id: str) -> Task | None:
        """Return a task; None if there is none, or its time is over."""
        ...

    async def change(self, id: str, edit: Change) -> Task | None:
        """Change a task.

        Returns:
            The changed task; None if the change does not apply to it.

        Raises:
            KeyError: There is none, or its time is over.
        """
        ...

    async def claim(self, most: int, lease: float) -> Sequence[Task]:
        """Begin a leg of tasks that are due, those first that have waited longest.

        Args:
            most: At most so many.
            lease: Seconds for which nobody else begins one, unless this process dies.
        """
        ...

    async def keep(
        self, legs: Collection[tuple[str, int]], lease: float
    ) -> Collection[tuple[str, int]]:
        """Let legs of this process go on.

        Args:
            legs: Task and number of each.
            lease: Seconds from now on.

        Returns:
            Those that go on; the others were cancelled, or are somebody else's.
        """
        ...

    async def remember(self, id: str, leg: int, key: str, value: bytes) -> bytes | None:
        """Remember what a step of a task has come to; the first to say so counts.

        Returns:
            What is remembered; None if the leg has been given up.
        """
        ...

    async def steps(self, id: str) -> Mapping[str, bytes]:
        """Return what the steps of a task have come to, by key."""
        ...

    async def list(self, owner: str, after: Position | None, most: int) -> Sequence[Task]:
        """Return tasks of an owner, the oldest first.

        Args:
            owner: Whose.
            after: Only those behind this one.
            most: At most so many.
        """
        ...

    async def sweep(self) -> int:
        """Forget the tasks whose time is over; return how many."""
        ...
