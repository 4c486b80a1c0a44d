"""From a target on the command line to a connected client.

A server is started as a host starts it: as a process whose stdout is kept for the protocol.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from traceback import format_exc
from typing import Any, Final, TypeVar

import typer

from mcpkit._concurrency.loop import run_loop
from mcpkit._protocol.revisions import BY_VERSION
from mcpkit._utils.json import value_at
from mcpkit._utils.targets import is_url, names_file, run_command, split
from mcpkit._utils.text import single_line
from mcpkit.cli._terminal import BAD_NEWS, FAILED, SECRET, TOKEN, fail, note, relayed_stderr, say
from mcpkit.client.client import Client
from mcpkit.errors import (
    ConnectionClosed,
    InternalError,
    MCPKitError,
    MissingClientCapability,
    MissingEnvironment,
    ProtocolError,
)

T = TypeVar("T")

_OTHERS_PROBE_S: Final = 5
"""Seconds to wait for the first answer of a server before a handshake is tried."""

_OWN_PROBE_S: Final = 60
"""The same for a server of mcpkit, which does not answer while it is imported."""


def is_python(target: str) -> bool:
    """Return True if `mcpkit run` serves a target: a file or module, not a command or URL."""
    if is_url(target):
        return False
    source, _ = split(target)
    if source.endswith(".py"):
        return names_file(target)
    if not all(part.isidentifier() for part in source.split(".")) or shutil.which(source):
        return False
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return find_spec(source) is not None
    except (ImportError, ValueError):  # in its parent, which `mcpkit run` reports
        return find_spec(source.partition(".")[0]) is not None


def command_for(target: str) -> list[str]:
    """Return the command that serves a target, other than a URL, on stdio."""
    if is_python(target):
        source, _ = split(target)
        if source.endswith(".py") and not Path(source).is_file():
            fail(f"there is no file {source}")
        return run_command(target)
    return command_line(target, f"{target!r} is not a file, module, command or URL")


def command_line(text: str, missing: str) -> list[str]:
    """Return the words of a command line; `fail` with `missing` if there is no such program."""
    try:
        command = shlex.split(text)
    except ValueError as error:
        fail(f"{text!r} is not a command line: {error}")
    if not command or shutil.which(command[0]) is None:
        fail(missing)
    return command


def headers_from(lines: Sequence[str] | None) -> dict[str, str]:
    """Return the HTTP headers in ``--header "Name: value"``."""
    for line in lines or ():
        if not line.partition(":")[0].strip() or ":" not in line:
            fail(f"--header {line!r}: write it as 'Name: value'")
        if not line.replace("\t", " ").isprintable():
            fail(f"--header {line.partition(':')[0]!r}: a header must be printable")
    pairs = (line.partition(":") for line in lines or ())
    return {name.strip(): value.strip() for name, _, value in pairs}


def variables_from(lines: Sequence[str] | None) -> dict[str, str]:
    """Return the variables in ``--env NAME=VALUE``; the last one of a name counts."""
    for line in lines or ():
        if line.find("=") < 1:
            fail(f"--env {line!r}: write it as NAME=VALUE")
    return {name: value for name, _, value in (line.partition("=") for line in lines or ())}


@asynccontextmanager
async def connected(target: str, **options: Any) -> AsyncGenerator[Client, None]:
    """Connect a client to a target; `fail` if it cannot be started or reached, or ends."""
    where = target if is_url(target) else command_for(target)
    longest = _OWN_PROBE_S if is_python(target) else _OTHERS_PROBE_S
    options["probe_timeout"] = min(options.get("timeout") or longest, longest)
    entered = False
    try:
        async with Client(where, name="mcpkit-cli", **options) as client:
            entered = True
            yield client
    except TimeoutError:
        fail(f"{target} did not answer in time; --timeout allows more")
    except (MCPKitError, OSError, ImportError, ValueError) as error:
        if isinstance(error, ConnectionClosed):
            if error.exit_code == FAILED and is_python(target) and not entered:
                raise typer.Exit(FAILED) from None  # `mcpkit run` has printed the reason
        elif entered:
            raise
        text = str(error)
        is_named = is_url(target) and target.partition("?")[0] in text
        fail(text if is_named else f"{target}: {text}")


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
        variables |= variables_from(env)
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
            missing = value_at(data, "requiredCapabilities") or ()
            wanted = [_OPTION_FOR[each] for each in missing if each in _OPTION_FOR]
            hint = f"; add {' '.join(wanted)}" if wanted else ""
            if options.get("sampling") and "sampling" in missing:
                hint = "; a --sampling-command answers with text only"
            note(f"the server answered with error {error.code}: {message}{hint}")
            raise typer.Exit(BAD_NEWS) from None
        except ImportError as error:
            fail(str(error))


def run_async(main: Callable[[], Awaitable[T]]) -> T:
    """Run a command's coroutine.

    The traceback of a bug is printed with control characters escaped, because it may contain text
    of a server.
    """
    try:
        return run_loop(main)
    except (typer.Exit, OSError, MissingEnvironment):
        raise
    except Exception:
        say(format_exc().rstrip(), err=True)
        raise typer.Exit(BAD_NEWS) from None
