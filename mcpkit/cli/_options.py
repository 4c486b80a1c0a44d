"""The options that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer


def option(help: str, *names: str, metavar: str | None = None, panel: str | None = None) -> Any:
    """Return an option of a command, in a panel of its help."""
    return typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)


SERVER: Final = "The server"
_ASKING: Final = "When the server asks"

TARGET: Final = typer.Argument(
    metavar="TARGET", help="server.py, server.py:app, a module, a command line, or a URL"
)
TargetArgument = Annotated[str, TARGET]
AsJson = Annotated[bool, option("Write one JSON document to stdout", "--json")]
Quiet = Annotated[bool, option("Hide progress and log messages", "--quiet", "-q")]
Save = Annotated[Path | None, option("Save binary content in this folder", metavar="DIR")]

_REVISION = "Use this revision of the protocol (default: the newest that the server supports)"
Revision = Annotated[str | None, option(_REVISION, metavar="REVISION", panel=SERVER)]
_HEADER = "Send this HTTP header with every request to a URL; can be repeated"
Headers = Annotated[
    list[str] | None, option(_HEADER, "--header", "-H", metavar="'NAME: VALUE'", panel=SERVER)
]
_TOKEN = "Send this token to a URL instead of the stored login; safer in MCPKIT_TOKEN"
Token = Annotated[str | None, option(_TOKEN, metavar="TOKEN", panel=SERVER)]
_ENV = "Set a variable for a server that is started; can be repeated"
Env = Annotated[list[str] | None, option(_ENV, "--env", "-e", metavar="NAME=VALUE", panel=SERVER)]
_TIMEOUT = "Time limit (default: 60 to connect, unlimited to work)"
Timeout = Annotated[float | None, option(_TIMEOUT, metavar="SECONDS", panel=SERVER)]
_ANSWER = "Fill in a form field for you; or answer every form: accept, decline or cancel"
Answers = Annotated[
    list[str] | None, option(_ANSWER, "--answer", "-a", metavar="KEY=VALUE", panel=_ASKING)
]
_SAMPLING = "Answer for the model: a program that reads the messages on stdin"
SamplingCommand = Annotated[str | None, option(_SAMPLING, metavar="COMMAND", panel=_ASKING)]
_ROOTS = "A folder that the server may look at; can be repeated"
Roots = Annotated[list[str] | None, option(_ROOTS, metavar="PATH", panel=_ASKING)]
