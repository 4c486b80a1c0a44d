"""``mcpkit run``: serve an app."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from typing import Annotated, NoReturn

import typer

from mcpkit.cli.target import TargetError, load_app
from mcpkit.server import log
from mcpkit.transports import TRANSPORTS
from mcpkit.transports.stdout_guard import take_over

__all__ = ["run"]


def run(
    target: Annotated[
        str,
        typer.Argument(help="server.py, server.py:app, a module, or module:app", metavar="TARGET"),
    ],
    transport: Annotated[
        str, typer.Option("--transport", "-t", help=f"One of: {', '.join(TRANSPORTS)}")
    ] = "stdio",
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks, and what is not served")
    ] = False,
) -> None:
    """Serve an app until its client leaves.

    TARGET has an MCPKit object named app, server or mcp (or only one, of any name), or functions
    marked with @tool, @resource and @prompt.

    Example: mcpkit run server.py
    """
    if transport not in TRANSPORTS:
        fail(f"unknown transport {transport!r}; known: {', '.join(TRANSPORTS)}")
    if transport == "stdio":
        # Before the server's module is imported: what it prints then must not reach the client.
        try:
            take_over()
        except RuntimeError as error:
            fail(str(error))
    try:
        app = load_app(target)
    except TargetError as error:
        if debug and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        fail(str(error))
    # After the import: if the server configures logging itself, this changes nothing.
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    if debug:
        log.setLevel(logging.DEBUG)
    if transport == "stdio" and os.isatty(take_over().reader):
        typer.echo(f"{app.name} waits for a client on standard input; Ctrl-C ends it.", err=True)
    app.run(transport)


def fail(message: str) -> NoReturn:
    """Say what is wrong in one line, and leave with exit code 2."""
    typer.echo(f"mcpkit: {message}", err=True)
    raise typer.Exit(2)
