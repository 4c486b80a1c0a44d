"""``mcpkit run``: serve an app."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import typer

from mcpkit._utils.logs import LEVELS, log_to_stderr
from mcpkit._utils.sealing import SECRET, new_secret, secrets_from_environment
from mcpkit._utils.targets import TargetError, module_at, split
from mcpkit.app import MCPKit
from mcpkit.cli._options import APP, argument, flag, option
from mcpkit.cli._run.files import FileWatcher
from mcpkit.cli._target import load_app
from mcpkit.cli._terminal import fail, say
from mcpkit.errors import MissingEnvironment
from mcpkit.tasks.options import STORE
from mcpkit.transports import TRANSPORTS
from mcpkit.transports.stdio.redirect import never_block, take_over

if TYPE_CHECKING:
    from mcpkit.cli._run.workers import Order

_HTTP: Final = "Over HTTP"


def run(
    target: str = APP,
    flags: list[str] | None = argument(
        "Flags of the server itself, after --", "[-- FLAGS...]", None
    ),
    transport: str | None = option(
        f"One of {', '.join(TRANSPORTS)} (default: stdio)", "--transport", "-t"
    ),
    http: bool = flag("Short for --transport http", "--http"),
    debug: bool = flag("Show full tracebacks, rejected messages, and HTTP requests", "--debug"),
    log_level: str | None = typer.Option(
        None,
        help=f"The minimum log level: {', '.join(LEVELS)}",
        envvar="MCPKIT_LOG_LEVEL",
        show_envvar=True,
    ),
    host: str | None = option("The address to listen on (default: 127.0.0.1)", panel=_HTTP),
    port: int | None = option("0 takes any that is free (default: 8000)", panel=_HTTP),
    path: str | None = option("Where the endpoint is (default: /mcp)", panel=_HTTP),
    workers: int = option("The number of processes", default=1, panel=_HTTP),
    reload: bool = flag(
        "Reload when a file changes; the connection of a host stays open", "--reload"
    ),
    sse: bool | None = option(
        "Serve HTTP+SSE too, for old clients, at /sse and /messages", "--sse", panel=_HTTP
    ),
    allow_origin: list[str] | None = option(
        "An origin of web pages that may call; can be repeated", panel=_HTTP
    ),
    allow_host: list[str] | None = option(
        "A Host to accept on a loopback address; can be repeated", panel=_HTTP
    ),
    cors: bool | None = option("Answer CORS preflights of these origins", "--cors", panel=_HTTP),
) -> None:
    """Serve an app until its client disconnects, or over HTTP until Ctrl-C.

    TARGET has an MCPKit object named app, server or mcp, or a single one of any name, or functions
    marked with @tool, @resource and @prompt. It can also name a function that makes the object,
    async or not; its parameters are flags.

    \b
    Examples:
      mcpkit run server.py
      mcpkit run server.py --http --port 9000
      mcpkit run server.py:make_app -- --root /data
    """
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
        fail("--reload serves in one process; leave out --workers")
    if transport == "stdio":
        if options or workers > 1:
            named = {"allowed_origins": "allow-origin", "allowed_hosts": "allow-host"}
            wrong = [named.get(each, each) for each in options] + ["workers"] * (workers > 1)
            fail(f"{', '.join(f'--{each}' for each in wrong)}: over HTTP only; add --http")
        # Before the module is imported, because its output must not reach the client.
        try:
            take_over()
        except RuntimeError as error:
            fail(str(error))
    never_block()
    # Two versions of a file may have the same size and be of the same second.
    sys.dont_write_bytecode = sys.dont_write_bytecode or reload
    load = partial(load_app, target, flags or [])
    log = partial(log_to_stderr, log_level, debug=debug)
    if transport == "stdio" and reload:
        log()
        raise typer.Exit(_reload_on_stdio(target, load, debug))
    try:
        app = load()
    except TargetError as error:
        if debug and error.__cause__ is not None:
            traceback.print_exception(error.__cause__)
        fail(str(error))
    # After the import, because the configuration of the server has priority.
    log()
    if transport == "stdio":
        _greet(f"{app.name} waits for a client on standard input; Ctrl-C ends it.")
    try:
        app.check_environment()
        if workers > 1 or reload:
            options.update({"sse": True} if transport == "sse" else {})
            from mcpkit.cli._run.workers import Order

            order = Order(load, log, options, reload)
            raise typer.Exit(_supervise(app, target, workers, order))
        app.run(transport, **options)
    except (OSError, MissingEnvironment) as error:
        fail(str(error))
    except (ValueError, TypeError) as error:
        if debug:
            raise
        fail(str(error))


def _greet(message: str) -> None:
    if os.isatty(take_over().reader):
        say(message, err=True)


def _reload_on_stdio(target: str, load: Callable[[], MCPKit[Any]], debug: bool) -> int:
    from mcpkit.cli._run.reload import serve_with_reload

    source, _ = split(target)
    if source.endswith(".py") and not Path(source).is_file():
        fail(f"there is no file {source}")  # the command would wait for a misspelt name
    _greet(
        f"{target} waits for a client on standard input, and reloads when a file changes; Ctrl-C "
        f"ends it."
    )
    return serve_with_reload(load, FileWatcher(_folder_of(target)), debug=debug)


def _supervise(app: MCPKit[Any], target: str, workers: int, order: Order) -> int:
    """Serve in several processes, or in one that is restarted when a file changes."""
    from mcpkit.auth.verifiers import LOGINS, EmbeddedServer, resource_server
    from mcpkit.cli._run.workers import Supervisor
    from mcpkit.transports.http.server import MARGIN, bind, is_loopback, warn_if_open, where

    options = order.options
    default = app._sources.address
    host, port = options.pop("host", default.host), options.pop("port", default.port)
    if order.reload:
        options["drain_delay"] = 0
    settings = app.asgi(**options).settings
    if settings.sse and workers > 1:
        fail("HTTP+SSE keeps a session in one process; leave out --workers")
    verifiers = () if settings.auth is None else resource_server(settings.auth).verifiers
    alone = [each for each in verifiers if isinstance(each, EmbeddedServer) and each.is_alone]
    if alone and workers > 1:
        fail("a MemoryAuthStore keeps logins in one process; give the server a file as store=")
    bound = bind(host, port)
    url = where(bound, host, settings.path)
    warn_if_open(settings, host)
    how = "and reloads when a file changes" if order.reload else f"with {workers} workers"

    def announce() -> None:
        say(f"{app.name} listens on {url}, {how}  (Ctrl-C stops it)", err=True)

    options["loopback"] = is_loopback(host)
    end_limit = settings.drain_delay + settings.limits.grace + 2 * MARGIN
    supervisor = Supervisor(order, bound, settings.drain_delay, end_limit, announce)
    # The processes share a secret, and by default tasks and logins in temporary files.
    if not secrets_from_environment():
        os.environ[SECRET] = new_secret()
    os.environ["MCPKIT_WORKERS"] = str(workers)
    with TemporaryDirectory(prefix="mcpkit-") as folder:
        tasks = app.server.settings.tasks
        if tasks is None or tasks.store is None:
            os.environ[STORE] = str(Path(folder) / "tasks.db")
        os.environ.setdefault(LOGINS, str(Path(folder) / "logins.db"))
        if order.reload:
            return supervisor.renew(FileWatcher(_folder_of(target)))
        return supervisor.keep(workers)


def _folder_of(target: str) -> Path:
    file = Path(split(target)[0])
    return module_at(file.resolve())[0] if file.is_file() else Path.cwd()
