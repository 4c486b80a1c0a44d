"""The way from a target on the command line to a connected client.

For the commands that look and try. A server is started as a host starts it: as a process, with
its stdout kept for the protocol.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from traceback import format_exc
from typing import Any, Final, NoReturn, TypeVar

import typer

from mcpkit._concurrency.loop import run_loop
from mcpkit._utils.targets import is_url, names_file, run_command, split
from mcpkit.cli._terminal import BAD_NEWS, FAILED, fail, say
from mcpkit.client.client import Client
from mcpkit.errors import ConnectionClosed, MCPKitError

T = TypeVar("T")

_OTHERS_PROBE_S: Final = 5
"""Seconds to wait for a sign of life of a server, before a handshake is tried."""

_OWN_PROBE_S: Final = 60
"""Seconds to wait for one that mcpkit serves, whose silence means that it is being imported."""


def is_python(target: str) -> bool:
    """Return True if `mcpkit run` serves a target: a file or module, not a command or URL."""
    if is_url(target):
        return False
    place, _ = split(target)
    if place.endswith(".py"):
        return names_file(target)
    if not all(part.isidentifier() for part in place.split(".")):
        return False
    return shutil.which(place) is None and _is_module(place)


def _is_module(name: str) -> bool:
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):  # of its parent, which says so when it is run
        return find_spec(name.partition(".")[0]) is not None


def command_for(target: str) -> list[str]:
    """Return the command that serves a target on stdio.

    Args:
        target: ``server.py``, ``server.py:app``, ``package.module``, ``package.module:app``, or a
            command line. Not a URL.

    Raises:
        typer.Exit: The target is none of these; a message has said so.
    """
    if is_python(target):
        place, _ = split(target)
        if place.endswith(".py") and not Path(place).is_file():
            fail(f"there is no file {place}")
        return run_command(target)
    try:
        command = shlex.split(target)
    except ValueError as error:
        fail(f"{target!r} is not a command line: {error}")
    if not command or shutil.which(command[0]) is None:
        fail(f"{target!r} is not a file, module, command or URL")
    return command


def headers_from(lines: Sequence[str] | None) -> dict[str, str]:
    """Return the HTTP headers in ``--header "Name: value"``.

    Raises:
        typer.Exit: A header has no colon; a message has said so.
    """
    headers: dict[str, str] = {}
    for line in lines or ():
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            fail(f"--header {line!r}: write it as 'Name: value'")
        if not line.replace("\t", " ").isprintable():
            fail(f"--header {name!r}: it has a character that belongs in none")
        headers[name.strip()] = value.strip()
    return headers


def variables_from(lines: Sequence[str] | None, form: str) -> dict[str, str]:
    """Return the variables in ``--env NAME=VALUE``.

    Args:
        lines: As typed; the last one of a name counts.
        form: The words for the two sides, as the help of the command has them.

    Raises:
        typer.Exit: A variable has no name or no value; a message has said so.
    """
    variables: dict[str, str] = {}
    for line in lines or ():
        name, equals, value = line.partition("=")
        if not equals or not name:
            fail(f"--env {line!r}: write it as {form}")
        variables[name] = value
    return variables


@asynccontextmanager
async def connected(target: str, **options: Any) -> AsyncGenerator[Client, None]:
    """Connect a client to a target.

    Args:
        target: A file, a module, a command line, or a URL.
        options: Of `Client`.

    Yields:
        The client.

    Raises:
        typer.Exit: There is no such server, it cannot be started or does not speak MCP, or it is
            gone; one line has said so. The exit code is 2.
    """
    where = target if is_url(target) else command_for(target)
    # If one of mcpkit's own says nothing yet, it is being imported.
    longest = _OWN_PROBE_S if is_python(target) else _OTHERS_PROBE_S
    options["probe_timeout"] = min(options.get("timeout") or longest, longest)
    entered = False
    try:
        async with Client(where, name="mcpkit-cli", **options) as client:
            entered = True
            yield client
    except ConnectionClosed as error:
        if error.exit_code == FAILED and is_python(target) and not entered:
            raise typer.Exit(FAILED) from None  # `mcpkit run` has said why
        _fail(target, error)
    except TimeoutError:
        fail(f"{target} did not answer in time; --timeout allows more")
    except (MCPKitError, OSError, ImportError, ValueError) as error:
        if entered:
            raise
        _fail(target, error)


def _fail(target: str, error: Exception) -> NoReturn:
    said = str(error)
    names_it = is_url(target) and target.partition("?")[0] in said
    fail(said if names_it else f"{target}: {said}")


def run_async(main: Callable[[], Awaitable[T]]) -> T:
    """Run a command's coroutine.

    Ctrl-C is left to whoever runs commands. A fault leaves with 1 and one, in
    which no text of a server steers the terminal.
    """
    try:
        return run_loop(main)
    except (typer.Exit, OSError):
        raise
    except Exception:
        say(format_exc().rstrip(), err=True)
        raise typer.Exit(BAD_NEWS) from None
