"""The table of commands, and how they are loaded and show their help.

A command's module is imported when it is used: ``mcpkit --help`` needs none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from mcpkit.cli._terminal import INTERRUPTED

SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Listed(NamedTuple):
    """A command as the table has it.

    Args:
        module: The one with a function of the command's name.
        section: The heading it is listed under.
        help: The summary, in one line.
    """

    module: str
    section: str
    help: str


_MAKE, _LOOK, _SHARE = "Make and serve", "Look and try", "Hand over"

COMMANDS: Final[dict[str, Listed]] = {
    "new": Listed("mcpkit.cli.new", _MAKE, "Write a project to start from."),
    "run": Listed("mcpkit.cli.run", _MAKE, "Serve an app on stdio or over HTTP."),
    "migrate": Listed(
        "mcpkit.cli.migrate", _MAKE, "Rewrite a server of FastMCP or the official SDK."
    ),
    "inspect": Listed("mcpkit.cli.inspect", _LOOK, "Show what a server offers, and what it costs."),
    "call": Listed("mcpkit.cli.call", _LOOK, "Call a tool."),
    "read": Listed("mcpkit.cli.read", _LOOK, "Read a resource."),
    "prompt": Listed("mcpkit.cli.prompt", _LOOK, "Get a prompt."),
    "tasks": Listed("mcpkit.cli.tasks", _LOOK, "List, show, await and cancel tasks."),
    "check": Listed("mcpkit.cli.check", _LOOK, "Find what hosts and models will stumble over."),
    "login": Listed("mcpkit.cli.login", _LOOK, "Log in to a server, for the commands above."),
    "logout": Listed("mcpkit.cli.logout", _LOOK, "Revoke a login, and forget it."),
    "install": Listed("mcpkit.cli.install", _SHARE, "Put a server into a host's configuration."),
}
"""Name → the facts of a command that need no loading, in the order of the help."""


_DASHED_ID: Final = re.compile(r"-[\w-]{19,}", re.ASCII)
"""What begins like an option, and is as long as an id that cannot be guessed."""

_BEHIND: Final = "flags of the server itself come behind --"


class Command(TyperCommand):
    """A command whose help shows its options in sections."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line.

        Raises:
            click.UsageError: It does not fit.
        """
        if any(each.name == "id" for each in self.params):
            args = self._ids_last(args)
        given = [*args]  # what the parser leaves of them is not all
        left: list[str] = []
        try:
            left = super().parse_args(ctx, args)
        except Exception as error:
            unknown = getattr(error, "option_name", None)
            if unknown is None or not self._has_flags:
                raise
            ctx.fail(f"No such option: {unknown}; {_BEHIND}")
        if self._has_flags and ctx.params.get("flags") and "--" not in given:
            ctx.fail(f"Unexpected extra argument: {ctx.params['flags'][0]}; {_BEHIND}")
        return left

    def _ids_last(self, args: list[str]) -> list[str]:
        """Put ids of tasks behind ``--``, since they may begin with a dash as options do."""
        known = {option for each in self.params for option in each.opts}
        ids = [each for each in args if _DASHED_ID.fullmatch(each) and each not in known]
        if not ids or "--" in args:
            return args
        return [*(each for each in args if each not in ids), "--", *ids]

    @property
    def _has_flags(self) -> bool:
        return any(each.name == "flags" for each in self.params)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections: arguments, options, then those with a heading of their own."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            kind = "Arguments" if parameter.param_type_name == "argument" else "Options"
            heading = getattr(parameter, "rich_help_panel", None) or kind
            sections.setdefault(heading, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


class Commands(TyperGroup):
    """The commands of the table."""

    def invoke(self, ctx: Any) -> Any:
        """Import a command and run it; Ctrl-C leaves with 130, whatever it interrupts."""
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, typer.Abort):
            raise typer.Exit(INTERRUPTED) from None

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of the table."""
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that arguments begin with.

        Raises:
            click.UsageError: There is no command of this name; the message guesses which is meant.
        """
        if args and args[0] not in COMMANDS and not ctx.resilient_parsing:
            close = get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(
                f"there is no command {args[0]!r}"
                + (f"; did you mean {close[0]}?" if close else "")
            )
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import the module of a command and return the command; None if there is none."""
        listed = COMMANDS.get(cmd_name)
        if listed is None:
            return None
        function: Callable[..., Any] = getattr(import_module(listed.module), cmd_name)
        alone = typer.Typer(
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
        )
        alone.command(cmd_name, cls=Command, context_settings=SETTINGS)(function)
        return typer.main.get_command(alone)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the table, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, listed in COMMANDS.items():
            sections.setdefault(listed.section, []).append((name, listed.help))
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)
