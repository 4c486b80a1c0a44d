"""The output of every command: answers on stdout, all else on stderr; colours on terminals.

Exit codes, the same for all commands: 0 it worked; 1 it was done, and the answer is bad news (a
tool that failed, a check that found something); 2 it could not be done (a wrong argument, no such
server); 130 Ctrl-C.

All output goes through here, or through `mcpkit.cli._render` into a pipe: this is where foreign
text is made harmless.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

import typer

from mcpkit._utils.text import escape_control, single_line

if TYPE_CHECKING:
    from rich.console import Console

TOKEN: Final = "MCPKIT_TOKEN"
SECRET: Final = "MCPKIT_CLIENT_SECRET"
"""Environment variables with a token, and with the secret of a client."""

BAD_NEWS: Final = 1
FAILED: Final = 2
INTERRUPTED: Final = 130

_LONGEST_LINE: Final = 65536
"""Characters that are waited for until a line of a server's stderr is shown."""

_STDERR_END_S: Final = 1.0
"""Seconds to wait for what a server that has ended wrote to stderr."""

_LONGEST_NOTE: Final = 4000
"""Characters of a message; a server's error may have any number."""


@cache
def on_stdout() -> Console:
    """Return the console for answers; it knows NO_COLOR, and whether stdout is a terminal."""
    return _console_class()(highlight=False, soft_wrap=not sys.stdout.isatty())


@cache
def on_stderr() -> Console:
    """Return the console for everything beside the answer: progress, logs, questions."""
    return _console_class()(stderr=True, highlight=False)


@cache
def _console_class() -> type[Console]:
    from rich.console import Console
    from rich.segment import Segment

    class Harmless(Console):
        """Shows no text but a visible one, whatever it is a part of."""

        def render(self, *what: Any, **options: Any) -> Iterator[Segment]:
            for segment in super().render(*what, **options):
                is_text = not segment.control
                yield segment._replace(text=escape_control(segment.text)) if is_text else segment

    return Harmless


def is_interactive() -> bool:
    """Return True if stdin and stderr are a terminal, so that a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


@contextmanager
def relayed_stderr() -> Generator[int | None, None, None]:
    """Show a server's stderr on the terminal, as harmless as all else, and above a bar.

    Yields:
        A file descriptor for the server's process; None for this process's own, if that is none.
    """
    if not on_stderr().is_terminal:
        yield None
        return
    ours, theirs = os.pipe()
    reader = threading.Thread(target=_relay, args=(ours,), daemon=True)
    reader.start()
    try:
        yield theirs
    finally:
        os.close(theirs)
        reader.join(_STDERR_END_S)


def _relay(ours: int) -> None:
    from rich.text import Text

    with os.fdopen(ours, encoding="utf-8", errors="replace") as lines:
        for line in iter(lambda: lines.readline(_LONGEST_LINE), ""):
            on_stderr().print(Text(escape_control(line).rstrip()), soft_wrap=True)


def say(text: str, *, err: bool = False, colour: str | None = None) -> None:
    """Print a text, which may have lines, on stdout or stderr."""
    shown = escape_control(text)
    typer.echo(shown if colour is None else typer.style(shown, fg=colour), err=err)


def note(message: str) -> None:
    """Print a message of one line beside the answer, on stderr."""
    say(f"mcpkit: {single_line(message, _LONGEST_NOTE)}", err=True)


def fail(message: str) -> NoReturn:
    """Print a message of one line on stderr, and leave with exit code 2."""
    note(message)
    raise typer.Exit(FAILED)


def confirm(question: str) -> bool:
    """Ask on stderr whether something shall be done."""
    return typer.confirm(single_line(question), err=True)


def prompt(question: str, default: str | None) -> str:
    """Ask on stderr for a line."""
    answer: str = typer.prompt(single_line(question), default=default, err=True)
    return answer.strip()
