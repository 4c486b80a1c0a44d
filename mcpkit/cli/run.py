"""``mcpkit run``: serve an app."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from mcpkit._utils.logs import LEVELS, log_to_stderr
from mcpkit._utils.sealing import SECRET, new_secret, secrets_from_environment
from mcpkit._utils.targets import split
from mcpkit.cli._target import TargetError, load_app, passed_over
from mcpkit.cli._terminal import fail, note, say
from mcpkit.errors import MissingEnvironment
from mcpkit.tasks.options import STORE
from mcpkit.transports import TRANSPORTS
from mcpkit.transports.stdio.redirect import ProtocolStreams, never_block, take_over

if TYPE_CHECKING:
    from mcpkit.app import MCPKit

__all__ = ["run"]

_HTTP: Final = "Over HTTP"


def run(
    target: Annotated[
        str,
        typer.Argument(help="server.py, server.py:app, a module, or module:app", metavar="TARGET"),
    ],
    flags: Annotated[
        list[str] | None,
        typer.Argument(
            help="Flags of the server itself, behind --",
            metavar="[-- FLAGS...]",
            show_default=False,
        ),
    ] = None,
    transport: Annotated[
        str | None,
        typer.Option("--transport", "-t", help=f"One of {', '.join(TRANSPORTS)} (default: stdio)"),
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Short for --transport http")] = False,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="Show whole tracebacks, what is not served, and HTTP requests"
        ),
    ] = False,
    log_level: Annotated[
        str | None,
        typer.Option(
            help=f"The least that is logged: {', '.join(LEVELS)}",
            envvar="MCPKIT_LOG_LEVEL",
            show_envvar=True,
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(help="The address to listen on (default: 127.0.0.1)", rich_help_panel=_HTTP),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(help="0 takes any that is free (default: 8000)", rich_help_panel=_HTTP),
    ] = None,
    path: Annotated[
        str | None,
        typer.Option(help="Where the endpoint is (default: /mcp)", rich_help_panel=_HTTP),
    ] = None,
    workers: Annotated[
        int, typer.Option(help="How many processes serve", rich_help_panel=_HTTP)
    ] = 1,
    reload: Annotated[
        bool,
        typer.Option(
            "--reload", help="Reload when a file changes; the connection of a host stays open"
        ),
    ] = False,
    sse: Annotated[
        bool | None,
        typer.Option(
            "--sse",
            help="Serve HTTP+SSE too, for old clients, at /sse and /messages",
            rich_help_panel=_HTTP,
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(
            help="A web origin whose pages may call; several times for several",
            rich_help_panel=_HTTP,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="A name in Host that is answered on a loopback address", rich_help_panel=_HTTP
        ),
    ] = None,
    cors: Annotated[
        bool | None,
        typer.Option(
            "--cors", help="Answer the preflights of these origins", rich_help_panel=_HTTP
        ),
    ] = None,
) -> None:
    """Serve an app until its client leaves, or over HTTP until Ctrl-C.

    TARGET has an MCPKit object named app, server or mcp (or only one, of any name), or functions
    marked with @tool, @resource and @prompt. In the place of the object may stand a function that
    makes it, async or not: its parameters are flags.

    \b
    Examples:
      mcpkit run server.py
      mcpkit run server.py --http --port 9000
      mcpkit run server.py:make_app -- --root /data
    """
    flags = flags or []
    if http and transport == "stdio":
        fail("--http and --transport stdio: choose one of them")
    if log_level is not None:
        log_level = log_level.lower()
        if log_level not in LEVELS:
            fail(f"unknown log level {log_level!r}; known: {', '.join(LEVELS)}")
    transport = transport or ("http" if http else "stdio")
    if transport not in TRANSPORTS:
        fail(f"unknown transport {transport!r}; known: {', '.join(TRANSPORTS)}")
    given: dict[str, Any] = {
        "host": host,
        "port": port,
        "path": path,
        "sse": sse,
        "allowed_origins": allow_origin or None,
        "allowed_hosts": allow_host or None,
        "cors": cors,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if workers < 1:
        fail(f"--workers must be at least 1, not {workers}")
    if workers > 1 and reload:
        fail("--reload serves in one process; leave --workers away")
    if transport == "stdio":
        named = {"allowed_origins": "allow-origin", "allowed_hosts": "allow-host"}
        said = [*(f"--{named.get(each, each)}" for each in options)]
        said += ["--workers"] * (workers > 1)
        if said:
            fail(f"{', '.join(said)}: over HTTP only; add --http")
        # Before the server's module is imported: what it prints then must not reach the client.
        try:
            take_over()
        except RuntimeError as error:
            fail(str(error))
    never_block()
    if transport == "stdio" and reload:
        log_to_stderr(log_level, debug=debug)
        raise typer.Exit(_serve_anew(target, flags, take_over(), debug))
    # Two versions of a file may have the same size and be of the same second.
    sys.dont_write_bytecode = sys.dont_write_bytecode or reload
    app = _load(target, flags, debug)
    # After the import: if the server configures logging itself, this changes nothing.
    log_to_stderr(log_level, debug=debug)
    if transport != "stdio" and (host_app := passed_over(app)) is not None:
        note(
            f"the middleware of {host_app} does not run here, where the app is served alone; "
            f"`uvicorn {host_app}` serves both"
        )
    if transport == "stdio" and os.isatty(take_over().reader):
        say(f"{app.name} waits for a client on standard input; Ctrl-C ends it.", err=True)
    try:
        app.check_environment()
        if workers > 1 or reload:
            if transport == "sse":
                options["sse"] = True
            raise typer.Exit(
                _supervise(app, target, flags, options, workers, reload, debug, log_level)
            )
        app.run(transport, **options)
    except (OSError, MissingEnvironment) as error:
        fail(str(error))
    except (ValueError, TypeError) as error:
        if debug:
            raise
        fail(str(error))


def _load(target: str, flags: list[str], debug: bool) -> MCPKit[Any]:
    try:
        return load_app(target, flags)
    except TargetError as error:
        if debug and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        fail(str(error))


def _serve_anew(target: str, flags: list[str], streams: ProtocolStreams, debug: bool) -> int:
    """Serve on stdio, and import the target again when a file changes."""
    from mcpkit.cli._run.reload import serve_with_reload
    from mcpkit.cli._run.workers import Watched

    place, _ = split(target)
    if place.endswith(".py") and not Path(place).is_file():
        fail(f"there is no file {place}")  # rather than wait for one that is misspelt
    if os.isatty(streams.reader):
        say(
            f"{target} waits for a client on standard input, and reloads when a file changes; "
            f"Ctrl-C ends it.",
            err=True,
        )
    sys.dont_write_bytecode = True  # two versions may have the same size and be of the same second
    return serve_with_reload(target, flags, Watched(_folder_of(target)), debug=debug)


def _supervise(
    app: MCPKit[Any],
    target: str,
    flags: list[str],
    options: dict[str, Any],
    workers: int,
    reload: bool,
    debug: bool,
    log_level: str | None,
) -> int:
    """Serve in several processes, or in one that is restarted when a file changes."""
    from mcpkit.auth.verifiers import EmbeddedServer, resource_server
    from mcpkit.cli._run.worker import Order, work
    from mcpkit.cli._run.workers import Supervisor, Watched
    from mcpkit.transports.http.server import MARGIN, bind, is_loopback, where

    host, port = options.pop("host", "127.0.0.1"), options.pop("port", 8000)
    settings = app.asgi(**options).settings
    if settings.sse and workers > 1:
        fail("HTTP+SSE keeps a session in one process; leave --workers away")
    verifiers = () if settings.auth is None else resource_server(settings.auth).verifiers
    alone = [each for each in verifiers if isinstance(each, EmbeddedServer) and each.is_alone]
    if alone and workers > 1:
        fail("a MemoryAuthStore keeps logins in one process; give the server a file as store=")
    bound = bind(host, port)
    place = where(bound, host, settings.path)
    how = "and reloads when a file changes" if reload else f"with {workers} workers"
    # So that each process can serve the sessions of all, and of those that were before it.
    if not secrets_from_environment():
        os.environ[SECRET] = new_secret()
    os.environ["MCPKIT_WORKERS"] = str(workers)

    def announce() -> None:
        say(f"{app.name} listens on {place}, {how}  (Ctrl-C stops it)", err=True)

    supervisor = Supervisor(
        work,
        [Order(target, flags, options, is_loopback(host), debug, log_level, reload)],
        bound=bound,
        end_limit=settings.limits.grace + 2 * MARGIN,
        announce=announce,
    )
    with _shared_files(app):
        if reload:
            return supervisor.renew(Watched(_folder_of(target)))
        return supervisor.keep(workers)


@contextmanager
def _shared_files(app: MCPKit[Any]) -> Generator[None, None, None]:
    """Have the processes share tasks and logins, if the server does not say where those are kept.

    They are in files that end with the last of them.
    """
    from mcpkit.auth.verifiers import LOGINS

    with TemporaryDirectory(prefix="mcpkit-") as folder:
        if app.server.settings.tasks.store is None:
            os.environ[STORE] = str(Path(folder) / "tasks.db")
        os.environ.setdefault(LOGINS, str(Path(folder) / "logins.db"))
        yield


def _folder_of(target: str) -> Path:
    """Return the folder with the files that an app may be made of."""
    file = Path(split(target)[0])
    if not file.is_file():
        return Path.cwd()
    folder = file.resolve().parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder
