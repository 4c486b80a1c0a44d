"""The command line: one module for each command, listed in `SECTIONS`.

A command's module is imported when the command is used: ``mcpkit --help`` imports none of them.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from mcpkit.cli._terminal import INTERRUPTED, fail, say

__all__ = ["app", "main"]

_SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_PLAIN: Final[dict[str, Any]] = {"pretty_exceptions_enable": False, "rich_markup_mode": None}

SECTIONS: Final = {
    "Make and serve": {
        "new": "Write a project to start from.",
        "run": "Serve an app on stdio or over HTTP.",
        "migrate": "Rewrite a server of FastMCP or the official SDK.",
    },
    "Look and try": {
        "inspect": "Show what a server offers, and what it costs.",
        "call": "Call a tool.",
        "read": "Read a resource.",
        "prompt": "Get a prompt.",
        "tasks": "List, show, await and cancel tasks.",
        "check": "Find problems for hosts and models.",
        "config": "Show the settings of a server, and where they are set.",
        "login": "Log in to a server, for the commands above.",
        "logout": "Revoke a login, and forget it.",
    },
    "Connect to hosts": {"install": "Put a server into a host's configuration."},
}
"""Headings of the help → names of commands → summaries."""

COMMANDS: Final = {name: text for section in SECTIONS.values() for name, text in section.items()}

OTHERS: Final = {
    **dict.fromkeys(("create", "init"), "new"),
    **dict.fromkeys(("describe", "discover", "list", "tools"), "inspect"),
    **dict.fromkeys(("env", "settings"), "config"),
    **dict.fromkeys(("lint", "test", "validate"), "check"),
    **dict.fromkeys(("remove", "uninstall"), "install --remove"),
    **dict.fromkeys(("dev", "serve", "start"), "run, also with --reload"),
}
"""Commands of other tools → what to write instead."""

_DASHED_ID: Final = re.compile(r"-[\w-]{19,}", re.ASCII)
"""The id of a task may begin with a dash. It is longer than every option."""


class Command(TyperCommand):
    """A command whose help shows its options in sections."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments, with hints on ``--``."""
        names = {each.name for each in self.params}
        if "id" in names and "--" not in args:
            ids = [each for each in args if _DASHED_ID.fullmatch(each)]
            args = [each for each in args if each not in ids] + (["--", *ids] if ids else [])
        hint = "flags of the server itself go after --"
        has_dashes = "--" in args  # the parser removes them
        try:
            left: list[str] = super().parse_args(ctx, args)
        except Exception as error:
            unknown = getattr(error, "option_name", None)
            if unknown is None or "flags" not in names:
                raise
            return ctx.fail(f"No such option: {unknown}; {hint}")  # type: ignore[no-any-return]
        if ctx.params.get("flags") and not has_dashes:
            ctx.fail(f"Unexpected extra argument: {ctx.params['flags'][0]}; {hint}")
        return left

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections: arguments, options, then the named panels."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            if record := parameter.get_help_record(ctx):
                kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
                heading = getattr(parameter, "rich_help_panel", None) or kind
                sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class Commands(TyperGroup):
    """The commands of `SECTIONS`."""

    def invoke(self, ctx: Any) -> Any:
        """Import a command and run it; Ctrl-C exits with 130."""
        from mcpkit.errors import MissingEnvironment  # loaded when needed: help needs nothing

        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, typer.Abort):
            raise typer.Exit(INTERRUPTED) from None
        except MissingEnvironment as error:
            fail(str(error))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of the help."""
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command named by the first argument."""
        if args and args[0] not in COMMANDS and not ctx.resilient_parsing:
            hint = "".join(f"; did you mean {e}?" for e in get_close_matches(args[0], COMMANDS, 1))
            if args[0] in OTHERS:
                hint = f"; write mcpkit {OTHERS[args[0]]}"
            ctx.fail(f"there is no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the module of a command and return the command; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        function = getattr(import_module(f"mcpkit.cli.{cmd_name}"), cmd_name)
        alone = typer.Typer(add_completion=False, **_PLAIN)
        alone.command(cmd_name, cls=Command, context_settings=_SETTINGS)(function)
        command = typer.main.get_command(alone)
        if ctx.resilient_parsing:  # for a shell
            import_module("mcpkit.cli._completion").complete_values(command)
        return command

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, section by section."""
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                formatter.write_dl(list(commands.items()))


app = typer.Typer(
    name="mcpkit",
    cls=Commands,
    context_settings=_SETTINGS,
    no_args_is_help=True,
    epilog="mcpkit COMMAND --help explains a command, with examples.",
    **_PLAIN,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"mcpkit {version('mcpkit')}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", help="Show the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    """MCP servers from decorated Python functions."""


def main() -> None:
    """The entry point of the ``mcpkit`` script."""
    app()
