"""The options that commands share."""

from __future__ import annotations

from typing import Any, Final

import typer


def option(
    help: str,
    *names: str,
    default: Any = None,
    metavar: str | None = None,
    panel: str | None = None,
) -> Any:
    """Return an option of a command, the default of its parameter, in a panel of the help."""
    return typer.Option(default, *names, help=help, metavar=metavar, rich_help_panel=panel)


def flag(help: str, *names: str, panel: str | None = None) -> Any:
    """Return an option without a value."""
    return option(help, *names, default=False, panel=panel)


def argument(help: str, metavar: str, default: Any = ...) -> Any:
    """Return an argument of a command, which is required if it has no default."""
    return typer.Argument(default, help=help, metavar=metavar)


SERVER: Final = "The server"
_ASKING: Final = "When the server asks"

APP: Final = argument("server.py, server.py:app, a module, or module:app", "TARGET")
_TARGET = "server.py, server.py:app, a module, a command line, or a URL"
TARGET: Final = argument(_TARGET, "TARGET")
OPTIONAL_TARGET: Final = argument(_TARGET, "TARGET", None)
AS_JSON: Final = flag("Write one JSON document to stdout", "--json")
QUIET: Final = flag("Hide progress and log messages", "--quiet", "-q")
SAVE: Final = option("Save binary content in this folder", metavar="DIR")

_REVISION = "Use this revision of the protocol (default: the newest that the server supports)"
REVISION: Final = option(_REVISION, metavar="REVISION", panel=SERVER)
_HEADER = "Send this HTTP header with every request to a URL; can be repeated"
HEADERS: Final = option(_HEADER, "--header", "-H", metavar="'NAME: VALUE'", panel=SERVER)
_TOKEN = "Send this token to a URL instead of the stored login; safer in MCPKIT_TOKEN"
TOKEN: Final = option(_TOKEN, metavar="TOKEN", panel=SERVER)
_ENV = "Set a variable for a server that is started; can be repeated"
ENV: Final = option(_ENV, "--env", "-e", metavar="NAME=VALUE", panel=SERVER)
_TIMEOUT = "Time limit (default: 60 to connect, unlimited to work)"
TIMEOUT: Final = option(_TIMEOUT, metavar="SECONDS", panel=SERVER)
_ANSWER = "Fill in a form field for you; or answer every form: accept, decline or cancel"
ANSWERS: Final = option(_ANSWER, "--answer", "-a", metavar="KEY=VALUE", panel=_ASKING)
_SAMPLING = "Answer for the model: a program that reads the messages on stdin"
SAMPLING_COMMAND: Final = option(_SAMPLING, metavar="COMMAND", panel=_ASKING)
_ROOTS = "A folder that the server may look at; can be repeated"
ROOTS: Final = option(_ROOTS, metavar="PATH", panel=_ASKING)
