"""The command line: one file for each command, joined here."""

from __future__ import annotations

import typer

from mcpkit.cli.run import run

__all__ = ["app", "main"]

app = typer.Typer(
    name="mcpkit",
    help="MCP servers from decorated Python functions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def root() -> None:
    """MCP servers from decorated Python functions."""


app.command()(run)


def main() -> None:
    """The entry point of the ``mcpkit`` script."""
    app()
