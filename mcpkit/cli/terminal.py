"""The output of every command: answers on stdout, all else on stderr; colours on terminals.

Exit codes, the same for all commands: 0 it worked; 1 it was done, and the answer is bad news (a
tool that failed, a check that found something); 2 it could not be done (a wrong argument, no such
server); 130 Ctrl-C.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING, Final, NoReturn

import typer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["BAD_NEWS", "FAILED", "fail", "is_interactive", "on_stderr", "on_stdout"]

BAD_NEWS: Final = 1
FAILED: Final = 2


@cache
def on_stdout() -> Console:
    """Return the console for answers; it knows NO_COLOR, and whether stdout is a terminal."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=not sys.stdout.isatty())


@cache
def on_stderr() -> Console:
    """Return the console for everything beside the answer: progress, logs, questions."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def is_interactive() -> bool:
    """Return True if stdin and stderr are a terminal, so that a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def fail(message: str) -> NoReturn:
    """Print a message of one line on stderr, and leave with exit code 2."""
    typer.echo(f"mcpkit: {message}", err=True)
    raise typer.Exit(FAILED)
