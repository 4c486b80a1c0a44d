"""The options that the commands share which look and try, and how they reach a server."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from mcpkit._protocol.revisions import BY_VERSION
from mcpkit._utils.json import is_object
from mcpkit._utils.targets import is_url
from mcpkit._utils.text import single_line
from mcpkit.cli._connection import connected, headers_from, variables_from
from mcpkit.cli._terminal import BAD_NEWS, SECRET, TOKEN, fail, note, relayed_stderr
from mcpkit.client.client import Client
from mcpkit.errors import InternalError, MissingClientCapability, ProtocolError

_SERVER: Final = "The server"
_ASKING: Final = "When the server asks"

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="server.py, server.py:app, a module, a command line, or a URL"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout")]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Show neither progress nor log messages")
]
Save = Annotated[
    Path | None,
    typer.Option("--save", metavar="DIR", help="Where to save binary content"),
]
Revision = Annotated[
    str | None,
    typer.Option(
        metavar="REVISION",
        help="Speak this revision of the protocol (default: the newest that the server speaks)",
        rich_help_panel=_SERVER,
    ),
]
Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header",
        "-H",
        metavar="'NAME: VALUE'",
        help="Sent to a URL with every request; several times for several",
        rich_help_panel=_SERVER,
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN",
        help="Sent to a URL, instead of what mcpkit login keeps; safer in MCPKIT_TOKEN",
        rich_help_panel=_SERVER,
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        "--env",
        "-e",
        metavar="NAME=VALUE",
        help="A variable for a server that is started; several times for several",
        rich_help_panel=_SERVER,
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="How long the server may take (default: 60 to connect, any time to work)",
        rich_help_panel=_SERVER,
    ),
]
Answers = Annotated[
    list[str] | None,
    typer.Option(
        "--answer",
        "-a",
        metavar="KEY=VALUE",
        help="Fill in a field of a form, instead of you; accept, decline or cancel: do so",
        rich_help_panel=_ASKING,
    ),
]
SamplingCommand = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        help="Answers for the model: gets the messages as text on stdin, answers on stdout",
        rich_help_panel=_ASKING,
    ),
]
Roots = Annotated[
    list[str] | None,
    typer.Option(
        "--roots",
        metavar="PATH",
        help="A folder that the server may look at; several times for several",
        rich_help_panel=_ASKING,
    ),
]


_MISSING: Final = {"roots": "--roots PATH", "sampling": "--sampling-command COMMAND"}
"""Capability → the option that has it declared."""


class Refused(InternalError):
    """A question of the server is refused here, and not by the server."""


@dataclass(frozen=True)
class ConnectionOptions:
    """A server, and the way to reach it.

    Args:
        target, revision, headers, env, timeout, token: As on the command line.

    Raises:
        typer.Exit: An option makes no sense; a message has said so.
    """

    target: str
    revision: str | None = None
    headers: Sequence[str] | None = field(default=None, repr=False)
    env: Sequence[str] | None = field(default=None, repr=False)
    timeout: float | None = None
    token: str | None = field(default=None, repr=False)
    _options: dict[str, Any] = field(init=False, repr=False, default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if self.revision is not None and self.revision not in BY_VERSION:
            known = ", ".join(BY_VERSION)
            fail(f"--revision {self.revision}: there is none of this name; known: {known}")
        if self.timeout is not None and not self.timeout > 0:
            fail(f"--timeout must be more than 0, not {self.timeout:g}")
        if self.headers and not is_url(self.target):
            fail(f"--header is for URLs, and {self.target!r} is none; see --env")
        if self.env and is_url(self.target):
            fail("--env is for servers that are started here; see --header")
        if self.token is not None and not is_url(self.target):
            fail(f"--token is for URLs, and {self.target!r} is none; see --env")
        self._options["revision"] = self.revision
        if self.headers:
            self._options["headers"] = headers_from(self.headers)
        if not is_url(self.target):
            # Which are for servers at URLs, and not for one that is started here.
            env = {name: "" for name in (TOKEN, SECRET) if os.environ.get(name)}
            env.update(variables_from(self.env, "NAME=VALUE"))
            self._options["env"] = env or None
        if self.timeout is not None:
            self._options["timeout"] = self.timeout
        if is_url(self.target):
            from mcpkit.cli._credentials import access_to

            headers: dict[str, str] = self._options.get("headers", {})
            self._options["auth"] = access_to(self.target, self.token, headers)

    @property
    def is_anonymous(self) -> bool:
        """True if nothing that was sent says who asks."""
        from mcpkit.cli._credentials import KeptLogin

        auth: object = self._options.get("auth")
        has_token = auth.is_used if isinstance(auth, KeptLogin) else auth is not None
        return not self.headers and not has_token

    @asynccontextmanager
    async def connected(self, **options: Any) -> AsyncGenerator[Client, None]:
        """Connect a client; whatever goes wrong with the server is said in one line.

        Args:
            options: Of `Client`, in addition.

        Yields:
            The client.

        Raises:
            typer.Exit: With 1 if the server answers a request with an error, with 2 if it is
                gone, silent, or makes no sense.
        """
        try:
            with relayed_stderr() as stderr:
                given = {**self._options, **options, "stderr": stderr}
                async with connected(self.target, **given) as client:
                    try:
                        yield client
                    except ValueError as error:  # of what the server sent
                        fail(f"{self.target}: {error}")
        except Refused as error:
            note(str(error))
            raise typer.Exit(BAD_NEWS) from None
        except ProtocolError as error:
            said = single_line(error.message) or "no message"
            note(f"the server answered with error {error.code}: {said}{_hint(error)}")
            raise typer.Exit(BAD_NEWS) from None
        except ImportError as error:
            fail(str(error))


def _hint(error: ProtocolError) -> str:
    """Return a hint on the options that declare what the server misses; empty if nothing."""
    data = error.data if isinstance(error, MissingClientCapability) else None
    wanted = data.get("requiredCapabilities") if is_object(data) else None
    options = [_MISSING[each] for each in wanted if each in _MISSING] if is_object(wanted) else []
    return f"; add {' '.join(options)}" if options else ""


def roots_from(paths: Sequence[str] | None) -> list[str] | None:
    """Return the roots that ``--roots`` names; None if there are none.

    Raises:
        typer.Exit: A path does not exist; a message has said so.
    """
    if not paths:
        return None
    for path in paths:
        if "://" not in path and not Path(path).expanduser().exists():
            fail(f"--roots {path}: there is no such file or folder")
    return [each if "://" in each else str(Path(each).expanduser()) for each in paths]
