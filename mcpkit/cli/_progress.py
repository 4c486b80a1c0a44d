"""Progress and log messages of a server, shown beside the answer while it works."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from mcpkit._utils.text import escape_control, single_line
from mcpkit.cli._schema_text import compact
from mcpkit.cli._terminal import PRINTING, console

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from mcpkit.client.results import Progress

_STYLES: Final = {
    "debug": "dim",
    "info": "cyan",
    "notice": "cyan",
    "warning": "bold magenta",
    **dict.fromkeys(("error", "critical", "alert", "emergency"), "bold red"),
}


class ProgressDisplay:
    """Shows progress as a bar and log messages as lines, on stderr."""

    def __init__(self, quiet: bool = False) -> None:
        self._quiet = quiet
        self._console = console(err=True)
        self._bar: Bar | None = None
        self._last_line = self._last_progress = ""

    def log(self, level: str, data: Any, logger: str | None) -> None:
        """Show a log message; arguments as for ``on_log`` of `mcpkit.Client`."""
        if self._quiet:
            return
        text = data if isinstance(data, str) else compact(data)
        line = Text(f"{single_line(level):7} ", style=_STYLES.get(level, ""))
        if logger:
            line.append(f"{single_line(logger)}: ", style="dim")
        # Indented, so that no line of a message looks like another message.
        lines = escape_control(text).strip("\n").replace("\n", "\n        ")
        line.append(lines, style="default not bold")
        self._console.print(line, soft_wrap=True)

    def progress(self, now: Progress) -> None:
        """Show progress, as ``on_progress`` of `mcpkit.Client.call_tool`."""
        done, total, text = now.progress, now.total, single_line(now.message or "")
        counted = f"{done:g} of {total:g}" if total else f"{done:g}"
        self._last_progress = f"{text} ({counted})" if text else counted
        self._show(text, counted.replace(" of ", "/"), done, total)

    def status(self, message: str | None) -> None:
        """Show the status message of a task, unless it repeats the progress."""
        text = single_line(message or "")
        if text and text != self._last_progress:
            self._show(text, "", 0, None)

    def _show(self, text: str, count: str, done: float, total: float | None) -> None:
        if self._quiet:
            return
        if not self._console.is_terminal:
            if text and text != self._last_line:
                self._last_line = text
                line = Text(f"{count}  {text}" if count else text)
                self._console.print(line, soft_wrap=True, highlight=False)
            return
        bar = self._bar or self._new_bar()
        for task in bar.task_ids:
            bar.update(task, description=text, total=total, completed=done, count=count)
        if self._bar is None:
            self._bar = bar
            with PRINTING:
                bar.start()

    def _new_bar(self) -> Bar:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        bar = Progress(
            SpinnerColumn(style="cyan"),
            TextColumn("{task.fields[count]}", markup=False),
            BarColumn(bar_width=24, complete_style="cyan", finished_style="green"),
            TextColumn("{task.elapsed:.0f} s", style="dim", markup=False),
            TextColumn("{task.description}", markup=False),
            console=self._console,
            transient=True,
        )
        bar.add_task("", total=None, count="")
        return bar

    @contextmanager
    def paused(self) -> Generator[None, None, None]:
        """Hide the bar inside the context, for other output."""
        if self._bar is not None:
            self._bar.stop()
        try:
            yield
        finally:
            if self._bar is not None:
                with PRINTING:
                    self._bar.start()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
