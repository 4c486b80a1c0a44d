"""The options that commands share, and the connection that they describe."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
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


def _option(panel: str, metavar: str, help: str, *names: str) -> Any:
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel)


_SERVER: Final = "The server"
_ASKING: Final = "When the server asks"

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET", help="server.py, server.py:app, a module, a command line, or a URL"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Hide progress and log messages")]
Save = Annotated[
    Path | None, typer.Option("--save", metavar="DIR", help="Save binary content in this folder")
]

_REVISION = "Use this revision of the protocol (default: the newest that the server supports)"
Revision = Annotated[str | None, _option(_SERVER, "REVISION", _REVISION)]
_HEADER = "Send this HTTP header with every request to a URL; can be repeated"
Headers = Annotated[list[str] | None, _option(_SERVER, "'NAME: VALUE'", _HEADER, "--header", "-H")]
_TOKEN = "Send this token to a URL instead of the stored login; safer in MCPKIT_TOKEN"
Token = Annotated[str | None, _option(_SERVER, "TOKEN", _TOKEN)]
_ENV = "Set a variable for a server that is started; can be repeated"
Env = Annotated[list[str] | None, _option(_SERVER, "NAME=VALUE", _ENV, "--env", "-e")]
_TIMEOUT = "Time limit (default: 60 to connect, unlimited to work)"
Timeout = Annotated[float | None, _option(_SERVER, "SECONDS", _TIMEOUT)]
_ANSWER = "Fill in a form field for you; or answer every form: accept, decline or cancel"
Answers = Annotated[list[str] | None, _option(_ASKING, "KEY=VALUE", _ANSWER, "--answer", "-a")]
_SAMPLING = "Answer for the model: a program that reads the messages on stdin"
SamplingCommand = Annotated[str | None, _option(_ASKING, "COMMAND", _SAMPLING)]
_ROOTS = "A folder that the server may look at; can be repeated"
Roots = Annotated[list[str] | None, _option(_ASKING, "PATH", _ROOTS, "--roots")]

_OPTION_FOR: Final = {"roots": "--roots PATH", "sampling": "--sampling-command COMMAND"}
"""Client capability → the option that declares it."""


class Refused(InternalError):
    """The user or a command has refused a request of the server."""


class ConnectionOptions:
    """A server and the options to connect to it."""

    def __init__(
        self,
        target: str,
        revision: str | None = None,
        headers: Sequence[str] | None = None,
        env: Sequence[str] | None = None,
        timeout: float | None = None,
        token: str | None = None,
    ) -> None:
        if revision is not None and revision not in BY_VERSION:
            fail(f"--revision {revision} does not exist; known: {', '.join(BY_VERSION)}")
        if timeout is not None and not timeout > 0:
            fail(f"--timeout must be more than 0, not {timeout:g}")
        self.target, self.timeout = target, timeout
        self._options: dict[str, Any] = {"revision": revision}
        self._headers: dict[str, str] = {}
        self._auth: Any = None
        if timeout is not None:
            self._options["timeout"] = timeout
        if is_url(target):
            from mcpkit.cli._credentials import access_to

            if env:
                fail("--env is for servers that are started here; see --header")
            self._headers = headers_from(headers)
            self._auth = access_to(target, token, self._headers)
            self._options |= {"headers": self._headers or None, "auth": self._auth}
            return
        for option, value in (("--header", headers), ("--token", token)):
            if value:
                fail(f"{option} is for URLs, not for {target!r}; see --env")
        # Credentials are for servers at URLs: hide them from a process.
        variables = {name: "" for name in (TOKEN, SECRET) if os.environ.get(name)}
        variables |= variables_from(env, "NAME=VALUE")
        self._options["env"] = variables or None

    @property
    def is_anonymous(self) -> bool:
        """True if no header and no token has been sent."""
        is_used: bool = getattr(self._auth, "is_used", self._auth is not None)
        return not self._headers and not is_used

    @asynccontextmanager
    async def connected(self, **options: Any) -> AsyncGenerator[Client, None]:
        """Connect a client with more options, and print failures of the server in one line.

        The exit code is 1 if the server answers a request with an error, and 2 if it ends, does
        not answer, or sends malformed data.
        """
        try:
            with relayed_stderr() as stderr:
                merged = {**self._options, **options, "stderr": stderr}
                async with connected(self.target, **merged) as client:
                    try:
                        yield client
                    except ValueError as error:  # in data of the server
                        fail(f"{self.target}: {error}")
        except Refused as error:
            note(str(error))
            raise typer.Exit(BAD_NEWS) from None
        except ProtocolError as error:
            message = single_line(error.message) or "no message"
            data = error.data if isinstance(error, MissingClientCapability) else None
            missing: Any = data.get("requiredCapabilities") if is_object(data) else None
            wanted = [_OPTION_FOR[each] for each in missing or () if each in _OPTION_FOR]
            hint = f"; add {' '.join(wanted)}" if wanted else ""
            note(f"the server answered with error {error.code}: {message}{hint}")
            raise typer.Exit(BAD_NEWS) from None
        except ImportError as error:
            fail(str(error))
