"""The output of every command: results on stdout, everything else on stderr.

All output goes through here, or through `mcpkit.cli._render` into a pipe, because here the text of
servers is made harmless. Every function of the command line may `fail`: print a message and raise
`typer.Exit`.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import typer

from mcpkit._utils.text import escape_control, single_line

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

TOKEN: Final = "MCPKIT_TOKEN"
SECRET: Final = "MCPKIT_CLIENT_SECRET"
"""Environment variables with a token, and with the secret of a client."""

# Exit codes: a negative result, such as a tool that failed; a command that could not run; Ctrl-C.
BAD_NEWS: Final = 1
FAILED: Final = 2
INTERRUPTED: Final = 130

_MAX_LINE_CHARS: Final = 65536
"""Characters of a line of stderr; a longer one is shown in parts."""

_MAX_NOTE_CHARS: Final = 4000
PRINTING: Final = threading.Lock()
"""Held while a bar appears, and while a thread prints: rich clears only a bar that it has drawn."""

_STDERR_END_S: Final = 1.0
"""Seconds to wait for the last lines of stderr of a server that has ended."""


@cache
def console(*, err: bool = False) -> Console:
    """Return the console for results, or for everything else: progress, logs, questions.

    It respects NO_COLOR and pipes, and escapes control characters in all text.
    """
    from rich.console import Console
    from rich.segment import Segment

    class Harmless(Console):
        def render(self, *args: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*args, **options):
                is_text = not segment.control
                yield segment._replace(text=escape_control(segment.text)) if is_text else segment

    soft_wrap = not err and not sys.stdout.isatty()
    return Harmless(stderr=err, highlight=False, soft_wrap=soft_wrap)


def is_interactive() -> bool:
    """Return True if stdin and stderr are a terminal, so that the user can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def relayed_stderr() -> Generator[int | None, None, None]:
    """Yield a descriptor for a server's stderr, which is shown harmlessly above the bar."""
    terminal = console(err=True)
    if not terminal.is_terminal:
        yield None
        return

    def relay() -> None:
        from rich.text import Text

        with os.fdopen(reader, encoding="utf-8", errors="replace") as lines:
            for line in iter(lambda: lines.readline(_MAX_LINE_CHARS), ""):
                with PRINTING:
                    terminal.print(Text(escape_control(line).rstrip()), soft_wrap=True)

    reader, writer = os.pipe()
    thread = threading.Thread(target=relay, daemon=True)
    thread.start()
    try:
        yield writer
    finally:
        os.close(writer)
        thread.join(_STDERR_END_S)


async def in_daemon(function: Callable[[], T]) -> T:
    """Run a function in a thread, which is left behind if this is cancelled.

    As a daemon, the thread does not delay the end of the process.
    """
    import anyio

    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    while thread.is_alive():
        await anyio.sleep(0.01)
    return found[0]


def say(text: str, *, err: bool = False) -> None:
    """Print a text of any number of lines on stdout or stderr."""
    typer.echo(escape_control(text), err=err)


def print_difference(lines: Iterable[str], *, err: bool = False) -> None:
    """Print the lines of a unified diff in colors."""
    from rich.text import Text

    colors = {"---": "bold", "+++": "bold", "@@ ": "cyan"}
    for line in lines:
        style = colors.get(line[:3]) or {"+": "green", "-": "red"}.get(line[:1], "")
        console(err=err).print(Text(escape_control(line), style=style), soft_wrap=True)


def note(message: str) -> None:
    """Print a message of one line on stderr."""
    say(f"mcpkit: {single_line(message, _MAX_NOTE_CHARS)}", err=True)


def fail(message: str) -> NoReturn:
    """Print a message of one line on stderr and exit with code 2."""
    note(message)
    raise typer.Exit(FAILED)


def confirm(question: str) -> bool:
    """Ask a yes-or-no question on stderr."""
    return typer.confirm(single_line(question), err=True)


def prompt(question: str, default: str | None) -> str:
    """Ask for a line on stderr."""
    answer: str = typer.prompt(single_line(question), default=default, err=True)
    return answer.strip()
