"""The command line: one file for each command, named in one table (`mcpkit.cli._commands`)."""

from __future__ import annotations

from typing import Annotated

import typer

from mcpkit.cli._commands import SETTINGS, Commands
from mcpkit.cli._terminal import say

__all__ = ["app", "main"]

app = typer.Typer(
    name="mcpkit",
    cls=Commands,
    context_settings=SETTINGS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="mcpkit COMMAND --help explains a command, with examples.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"mcpkit {version('mcpkit')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and leave.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """MCP servers from decorated Python functions."""


def main() -> None:
    """The entry point of the ``mcpkit`` script."""
    app()
