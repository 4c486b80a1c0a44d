"""Progress and log messages of a server, shown beside the answer while it works."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio
from rich.text import Text

from mcpkit._utils.text import escape_control, single_line
from mcpkit.cli._schema_text import compact
from mcpkit.cli._terminal import on_stderr

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID

_STYLES: Final = {
    "debug": "dim",
    "info": "cyan",
    "notice": "cyan",
    "warning": "bold magenta",
    "error": "bold red",
    "critical": "bold red",
    "alert": "bold red",
    "emergency": "bold red",
}


class ProgressDisplay:
    """Shows progress as a bar and log messages as lines, on stderr.

    Without a terminal there is no bar, but a line for each new message of the progress.

    Args:
        quiet: True to show nothing.
    """

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._console = on_stderr()
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._said: str | None = None
        self._counted: str | None = None

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """Show a log message; arguments as for ``on_log`` of `mcpkit.Client`."""
        if self._quiet:
            return
        said = data if isinstance(data, str) else compact(data)
        line = Text(f"{single_line(level):7} ", style=_STYLES.get(level, ""))
        if logger:
            line.append(f"{single_line(logger)}: ", style="dim")
        # No line of a message looks like a message of its own.
        lines = escape_control(said).strip("\n").replace("\n", "\n        ")
        line.append(lines, style="default not bold")
        self._console.print(line, soft_wrap=True)

    def progress(self, done: float, total: float | None, message: str | None) -> None:
        """Show progress; arguments as for ``on_progress`` of `mcpkit.Client.call_tool`."""
        if self._quiet:
            return
        said = single_line(message or "")
        counted = f"{done:g} of {total:g}" if total else f"{done:g}"
        self._counted = f"{said} ({counted})" if said else counted
        self._show(said, f"{_count(done, total)}  ", done, total)

    def status(self, message: str | None) -> None:
        """Show what a task says of itself, unless its progress has said the same."""
        said = single_line(message or "")
        if said and said != self._counted and not self._quiet:
            self._show(said, "", 0, None)

    def _show(self, said: str, count: str, done: float, total: float | None) -> None:
        if not self._console.is_terminal:
            if said and said != self._said:
                self._said = said
                self._console.print(Text(f"{count}{said}"), soft_wrap=True, highlight=False)
            return
        bar = self._bar or self._new_bar()
        now: dict[str, Any] = {"total": total, "completed": done, "count": count.strip()}
        if self._task is None:
            self._task = bar.add_task(said, **now)
        else:
            bar.update(self._task, description=said, **now)

    def _new_bar(self) -> Progress:
        from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn

        class Elapsed(ProgressColumn):
            """The seconds so far, in no colour that vanishes on white."""

            def render(self, task: Task) -> Text:
                return Text(f"{task.elapsed or 0:.0f} s", style="dim")

        self._bar = Progress(
            SpinnerColumn(style="cyan"),
            TextColumn("{task.fields[count]}", markup=False),
            BarColumn(bar_width=24, complete_style="cyan", finished_style="green"),
            Elapsed(),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            transient=True,
        )
        self._bar.start()
        return self._bar

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Hide the bar inside the context, for other output."""
        bar = self._bar
        if bar is not None:
            bar.stop()
        try:
            yield
        finally:
            if bar is not None and self._bar is bar:
                bar.start()

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def __enter__(self) -> ProgressDisplay:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _count(done: float, total: float | None) -> str:
    return f"{done:g}/{total:g}" if total else f"{done:g}"


class TimeLimit:
    """A limit on how long a server may take, which stands still while a user is asked.

    Args:
        seconds: The limit; None: there is none.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._scope: anyio.CancelScope | None = None

    @contextlib.contextmanager
    def limited(self) -> Generator[None, None, None]:
        """Bound the time of the code in here.

        Raises:
            TimeoutError: The server takes too long; the code in here was cancelled.
        """
        if self._seconds is None:
            yield
            return
        with anyio.move_on_after(self._seconds) as self._scope:
            yield
        if self._scope.cancelled_caught:
            raise TimeoutError

    @property
    def is_reached(self) -> bool:
        """True if the server has taken too long."""
        return self._scope is not None and self._scope.cancel_called

    @contextlib.contextmanager
    def paused_for_user(self) -> Generator[None, None, None]:
        """Stop the clock in here, because it is the user's turn."""
        scope = self._scope
        if scope is None:
            yield
            return
        left = scope.deadline - anyio.current_time()
        scope.deadline = float("inf")
        try:
            yield
        finally:
            scope.deadline = anyio.current_time() + left
