"""The task that a handler runs for."""

from __future__ import annotations

from collections.abc import Callable


class CurrentTask:
    """The task that a handler runs for; ``ctx.task``."""

    __slots__ = ("_note", "deadline", "id")

    def __init__(self, id: str, deadline: float | None, note: Callable[[str], object]) -> None:
        self.id = id
        """The id of the task."""
        self.deadline = deadline
        """When the task may be deleted, in seconds since the epoch; None: never."""
        self._note = note

    def __repr__(self) -> str:
        return f"<CurrentTask {self.id}>"

    def status(self, message: str) -> None:
        """Set the status message that clients see, at most 1,000 characters. From any thread.

        It is stored about once a second, and at the end.
        """
        self._note(message)
