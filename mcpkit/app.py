"""`MCPKit`: the object that people import, decorate functions with, and run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import replace
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Generic, cast, overload

from typing_extensions import TypeVar, Unpack

from mcpkit import _wings
from mcpkit._entries import Errors, errors_of
from mcpkit._environment import variable
from mcpkit._injection import check_lifespan, not_a_manager
from mcpkit._protocol.revisions import APPS_EXTENSION, Capability
from mcpkit._protocol.wire import some
from mcpkit._registration import Registration
from mcpkit._server.registry import Registry
from mcpkit._server.server import Server, Settings, check_offers, ttl_of_each
from mcpkit._utils.json import UNSET
from mcpkit._utils.names import caller, other_attribute, with_suggestions
from mcpkit._utils.sealing import SECRET, read_secrets, secret_weakness
from mcpkit.context import ListKind
from mcpkit.errors import MissingEnvironment, RegistrationError
from mcpkit.limits import Limits
from mcpkit.middleware import Handler
from mcpkit.permissions import Hierarchy
from mcpkit.prompts import prompt
from mcpkit.resources import resource
from mcpkit.tools import tool
from mcpkit.transports import check_options, load
from mcpkit.types import CacheScope, Icon, Implementation, LogLevel

if TYPE_CHECKING:
    from mcpkit._concurrency.loop import Loop
    from mcpkit._protocol.connection import Request, RequestSource
    from mcpkit.audit import Audit
    from mcpkit.auth.verifiers import Auth
    from mcpkit.call_limits import CallLimits
    from mcpkit.extension import Extension
    from mcpkit.tasks.options import Store, TaskOptions
    from mcpkit.tasks.task_runs import AppTasks
    from mcpkit.telemetry import Telemetry
    from mcpkit.transports.http.options import HttpOptions
    from mcpkit.transports.memory import MemoryLink

__all__ = ["MCPKit", "prompt", "resource", "tool"]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
StateT = TypeVar("StateT", default=Any)

Lifespan = Callable[["MCPKit[Any]"], AbstractAsyncContextManager[StateT]]


def _with_settings(init: F) -> F:
    """Let the environment and pyproject.toml set options, if mcpkit has the part that does so."""
    settings = _wings.if_present("settings")
    return init if settings is None else cast("F", settings.with_settings(init))


class MCPKit(Registration, Generic[StateT]):
    """An MCP server: its tools, resources and prompts, and how they are served.

    Options that are omitted may be set by variables such as ``MCPKIT_PAGE_SIZE``, or else in the
    table ``[tool.mcpkit]`` of the nearest pyproject.toml: see the guide to settings.

    Args:
        name: For clients and logs.
        version: The version of your server, not of mcpkit.
        title: For people; the name by default.
        instructions: For the model: how to use the server.
        description: One sentence about the server (2025-11-25 and later).
        website_url: The URL of a page about the server (2025-11-25 and later).
        icons: Pictures that a client may show (2025-11-25 and later).
        lifespan: An async context manager, called with the app. It is entered once, before the
            first request, and exited at the end; handlers get what it yields as ``ctx.state``.
        offers: Capabilities to advertise from the start, because the app adds their entries only
            while it is served: ``("tools", "resources")``. Other capabilities are advertised once
            entries are registered; clients that are already connected do not learn of them.
        page_size: The maximum number of entries on a page of a list; None: all on one page.
        cache_ttl: Seconds for which clients may cache lists and resources (2026-07-28), or a
            mapping of them: ``{"tools": 300, "prompts": 60}``. The time of ``"resources"`` is that
            of their contents too, unless a resource has a ``cache_ttl`` of its own.
        cache_scope: ``"public"`` if principals may share cached results, else ``"private"``.
        log_level: The minimum log level for clients that have not set one (before 2026-07-28).
        limits: Sizes, counts and times that no client may exceed; the defaults if None.
        max_threads: The maximum number of plain ``def`` handlers that run at once, instead of
            ``limits.max_threads``. Tasks have as many threads of their own.
        max_in_flight: The maximum number of requests of one connection that run at once, instead
            of ``limits.max_in_flight``.
        secret: The key that seals state sent through clients, 16 bytes or longer; several to rotate
            keys, the current one first. If None, ``MCPKIT_SECRET`` (keys separated by blanks);
            without that, a random key, which works for a single process only. `check_environment`
            checks the variable.
        state_lifetime: Seconds for which a request that waits for input may be continued
            (2026-07-28).
        ask_timeout: Seconds for which a handler waits for an answer of the client. Since 2026-07-28
            it is replayed when the answer comes later.
        http: Default options for serving over HTTP: a dict of `HttpOptions`.
        auth: Verifies the bearer tokens of requests over HTTP: `mcpkit.auth.JWT`,
            ``Introspection``, ``Keys``, a function of the token, or several of them. Ignored on
            stdio.
        scope_hierarchy: The scopes that imply others:
            ``{"files": ["files:read", "files:write"]}``.
        tasks: Where tasks are stored, or a dict of `TaskOptions`: the path of a SQLite file, which
            processes of one machine may share and which outlives them, or the URL of a database. If
            None, ``MCPKIT_TASKS``; without that, in the memory of this process.
        audit: True or an `Audit` to write the audit log.
        telemetry: True or a `Telemetry` to send traces and metrics with OpenTelemetry.
        call_limits: The limits of all calls of tools, resources and prompts together, in addition
            to those of each. None: no limits.
        expose_errors: The exceptions of handlers whose text clients see, like that of `ToolError`:
            a class, several, or ``"all"``. Other exceptions are replaced by a reference to the
            log. An entry may override it.

    Raises:
        ValueError: ``offers`` or ``cache_ttl`` has an unknown kind, ``page_size`` is less than 1,
            ``secret`` is too short, an option of ``tasks`` is invalid, or ``auth`` is given twice;
            or a variable or a key of the file is invalid, and the message names it.
        TypeError: ``auth`` is not a verifier, or ``offers`` is a single string.
        RegistrationError: ``expose_errors`` contains something that is not a class of exceptions.
    """

    _sources: Any = None  # where settings come from, for the command line

    @with_suggestions("MCPKit(…)")
    @_with_settings
    def __init__(
        self,
        name: str,
        *,
        version: str = "0.0.0",
        title: str | None = None,
        instructions: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[Icon] | None = None,
        lifespan: Lifespan[StateT] | None = None,
        offers: Collection[Capability] = (),
        page_size: int | None = None,
        cache_ttl: float | Mapping[ListKind, float] = 0,
        cache_scope: CacheScope = "private",
        log_level: LogLevel = "info",
        limits: Limits | None = None,
        max_threads: int | None = None,
        max_in_flight: int | None = None,
        secret: str | Sequence[str] | None = None,
        state_lifetime: float = 3600,
        ask_timeout: float = 600,
        http: HttpOptions | None = None,
        auth: Auth | None = None,
        scope_hierarchy: Mapping[str, Sequence[str]] | None = None,
        tasks: TaskOptions | Store | None = None,
        audit: Audit | bool = False,
        telemetry: Telemetry | bool = False,
        call_limits: CallLimits | None = None,
        expose_errors: Errors = (),
    ) -> None:
        if page_size is not None and page_size < 1:
            raise ValueError("page_size must be at least 1, or None for a single page")
        if lifespan is not None:
            check_lifespan(lifespan)
        self._lifespan = lifespan
        own_limits: dict[str, Any] = some(max_threads=max_threads, max_in_flight=max_in_flight)
        self._http: HttpOptions = http or {}
        if auth is not None:
            from mcpkit.transports.http.options import with_auth  # loaded only if used

            self._http = with_auth(self._http, auth)
        self._lifespans: Any = None
        self._application: Any = None
        self.routes: list[Any] = []
        """Starlette routes to serve over HTTP beside the endpoint."""
        server = Server(
            Implementation(
                name,
                version,
                title=title,
                description=description,
                website_url=website_url,
                icons=icons,
            ),
            _handlers,
            Registry(),
            instructions,
            Settings(
                page_size,
                ttl_of_each(cache_ttl),
                cache_scope,
                log_level,
                limits=replace(limits or Limits(), **own_limits),
                secrets=read_secrets(secret),
                state_lifetime=state_lifetime,
                ask_timeout=ask_timeout,
                expose_errors=errors_of(expose_errors, f"MCPKit({name!r})"),
                scope_hierarchy=Hierarchy(scope_hierarchy or {}),
            ),
        )
        server.loaders += [
            (frozenset({"tasks", "results", "calls"}), _tasks),
            (frozenset({APPS_EXTENSION}), _apps),
        ]
        if call_limits is not None:
            server.registry.gate = _wings.call_limits.Gate(call_limits)
        server.registry.offer(check_offers(offers))
        if tasks is not None:
            found = _wings.task_options.settings_of(tasks)
            server.settings = server.settings._replace(tasks=found)
            if server.settings.tasks.store is not None:
                server.load(["tasks"])
        if audit:
            server.observers.add(_wings.audit.Audit() if audit is True else audit)
        if telemetry:
            observer = _wings.telemetry.Telemetry() if telemetry is True else telemetry
            observer.observe(server.observers)
        super().__init__(server)

    if not TYPE_CHECKING:  # type checkers would take every attribute for defined

        def __getattr__(self, name: str) -> Any:
            return other_attribute(self, "app", name)

    def __repr__(self) -> str:
        registry = self._server.registry
        counts = (
            f"{len(registry.tools)} tools, "
            f"{len(registry.resources) + len(registry.templates)} resources, "
            f"{len(registry.prompts)} prompts"
        )
        return f"<MCPKit {self.name!r}: {counts}>"

    @property
    def tasks(self) -> AppTasks:
        """Starts tasks that no client has asked for: ``await app.tasks.start(report)``."""
        tasks: AppTasks = _wings.task_runs.AppTasks(self._server)
        return tasks

    def _parts_of_served(self) -> Mapping[str, bool]:
        server = self._server
        return {
            "routes": bool(self.routes),
            "checks of readiness": bool(server.ready_checks),
            "views": bool(server.choosers),
            "extensions": any(not each.is_implicit for each in server.extensions),
            "auth=": self._http.get("auth") is not None,
            "scope_hierarchy=": bool(server.settings.scope_hierarchy),
        }

    # --- readiness --------------------------------------------------------------------------------

    @overload
    def ready(self, fn: F, /) -> F: ...

    @overload
    def ready(self, /, *, timeout: float = 5) -> Callable[[F], F]: ...

    def ready(self, fn: Any = None, /, *, timeout: float = 5) -> Any:
        """Check before a load balancer sends requests here: ``@app.ready``, with ``http.ready``.

        The server is not ready while the function raises an exception or returns False. Callers see
        its name; the exception is logged.

        Args:
            fn: A function, ``async def`` or not, without parameters, or with one: the value that
                the lifespan has yielded.
            timeout: Seconds after which the check fails.

        Raises:
            RegistrationError: The function has more parameters, or the timeout is not positive.
        """

        def add(fn: F) -> F:
            parameters = [
                each for each in signature(fn).parameters.values() if each.default is each.empty
            ]
            if len(parameters) > 1 or not timeout > 0:
                raise RegistrationError(
                    f"{caller()}ready: a check takes no parameter but the state of the lifespan, "
                    f"and its timeout is greater than 0"
                )
            self._server.ready_checks.append((fn, timeout))
            return fn

        return add if fn is None else add(fn)

    # --- running ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(
        self,
        *,
        overrides: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
        lifespan: Any = UNSET,
    ) -> AsyncGenerator[Server, None]:
        """Enter the lifespan while the app is served, and yield the server. For transports.

        Tests pass replacements for the functions of dependencies, and for the lifespan.
        """
        server = self._server.replace(overrides=overrides) if overrides else self._server
        enter = self._lifespan if lifespan is UNSET else lifespan
        states: dict[Any, Any] = {None: None}
        async with AsyncExitStack() as stack:
            if enter is not None:
                states[None] = await _enter(stack, self, enter)
            parts = self._all_parts()
            stack.enter_context(self._no_more_lifespans(parts))
            for part in parts:
                if not isinstance(part, Registration):
                    await stack.enter_async_context(part.hold())
                elif (lifespan := getattr(part, "_lifespan", None)) is not None:
                    states[part] = await _enter(stack, part, lifespan)
            server.registry.check_entries()  # not earlier: a lifespan may add tools
            yield server.replace(states=states)

    def connect(
        self,
        loop: Loop,
        on_text: Callable[[bytes], None],
        on_exception: Callable[[Request, BaseException], None] | None = None,
        origin: RequestSource | None = None,
        **options: Any,
    ) -> AbstractAsyncContextManager[MemoryLink]:
        """Serve one client in this process, as `mcpkit.Client` does, with options of `running`."""
        from mcpkit.transports.memory import connect

        return connect(self.running(**options), loop, on_text, on_exception, origin)

    def check_environment(self) -> None:
        """Check the environment variables that parameters with `Env` need, and ``MCPKIT_SECRET``.

        `run`, `serve` and the start of an ASGI application call this. It also checks the views of
        tools, unless a lifespan may still add some.

        Raises:
            RegistrationError: A tool has a view that does not exist.
            MissingEnvironment: Variables are missing or empty, and the message names all of them;
                or the secret is too short, or one of them is a placeholder.
        """
        server = self._server
        needed = [
            *server.registry.environment,
            *(v for e in server.extensions for v in e.environment),
        ]
        missing = [name for name in dict.fromkeys(needed) if not variable(name)]
        if missing:
            raise MissingEnvironment(missing)
        if wrong := secret_weakness(self._server.settings.secrets):
            raise MissingEnvironment([SECRET], wrong)
        if not self._lives([self, *self._all_parts()]):
            server.registry.check_entries()

    def _serving(self) -> AbstractAsyncContextManager[Server]:
        self.check_environment()
        return self.running()

    def run(self, transport: str = "stdio", **options: Any) -> None:
        """Serve until the client disconnects or the process is told to stop.

        Returns when everything has ended. If a handler is still running in a thread, which
        cannot be stopped, this ends the process instead, after `atexit` functions and flushing
        stdout and stderr: nothing after this call runs, not even a ``finally``.

        Args:
            transport: ``"stdio"``, ``"http"``, or ``"sse"`` for clients of 2024-11-05 as well.
            options: Passed to the transport: for HTTP ``host``, ``port`` and `HttpOptions`.

        Raises:
            ValueError: There is no such transport.
            TypeError: The transport has no such option.
            MissingEnvironment: See `check_environment`.
        """
        self.check_environment()
        module, own = load(transport)
        check_options("run(…)", module.run, options)
        module.run(self, **{**self._address_for(transport), **options, **own})

    async def serve(self, transport: str = "stdio", **options: Any) -> None:
        """Serve in the running event loop, until the client disconnects or the task is cancelled.

        For programs that do more than serve: they handle signals and configure logging themselves.
        Over HTTP the event loop must be asyncio's.

        Args:
            transport, options: As for `run`.

        Raises:
            ValueError, TypeError, MissingEnvironment: As for `run`.
            OSError: The address is in use or not available; the message names it.
            RuntimeError: The app could not be started; the log has the reason.
        """
        self.check_environment()
        module, own = load(transport)
        check_options("serve(…)", module.serve_here, options)
        await module.serve_here(self, **{**self._address_for(transport), **options, **own})

    def _address_for(self, transport: str) -> dict[str, Any]:
        if transport == "stdio" or self._sources is None:
            return {}
        address: dict[str, Any] = self._sources.address._asdict()
        return address

    # --- as a part of other applications ----------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve as an ASGI application: ``uvicorn server:app``, or mounted in another one."""
        if self._application is None:
            self._application = self.asgi()
        await self._application(scope, receive, send)

    def asgi(self, *, loopback: bool | None = None, **options: Unpack[HttpOptions]) -> Any:
        """Return this app as an ASGI application with other options than those of ``http=``.

        Args:
            loopback: True if the server listens on loopback addresses only, so that other names in
                ``Host`` are refused; None decides by the address at which a connection arrives.
            options: See `HttpSettings`.

        Raises:
            TypeError: There is no such option.
            ValueError: An option has an invalid value.
        """
        return self._make(None, loopback, options)

    def route(self, path: str, /, **options: Unpack[HttpOptions]) -> Any:
        """Return a Starlette route that answers at a path, with and without a slash at its end.

        Args:
            path: Such as ``/mcp``, relative to the router's mount point. Paths below it are not
                answered.
            options: See `HttpSettings`; ``path`` is ignored here.
        """
        return _http().make_route(self._make(path, None, options), path)

    def metadata_route(self, path: str, /, **options: Unpack[HttpOptions]) -> Any:
        """Return a Starlette route with the OAuth metadata of this app, for the root of a host.

        It is for mounted apps, and for clients that look for metadata without a challenge: `attach`
        and the built-in server need no such route. It includes the app's authorization server.

        Args:
            path: The endpoint, from the root: ``/notes/mcp`` for an app mounted at ``/notes``.
            options: As for `asgi`; ``auth`` and ``public_url`` matter.

        Raises:
            ValueError: There is no ``auth``, or none that names an authorization server.
        """
        return _http().make_metadata_route(self._server, {**self._http, **options}, path)

    def attach(self, host: Any, path: str, /, **options: Unpack[HttpOptions]) -> None:
        """Serve this app at a path of a Starlette or FastAPI application.

        The host's lifespan then enters and exits this app's as well.

        Args:
            host: The application; its routes get one more, at the front.
            path: Matched exactly, with and without a slash at its end.
            options: See `HttpSettings`; ``path`` is ignored here.

        Raises:
            TypeError: The host has no list of routes, or is a FastAPI with ``dependencies=``, which
                would not run for the app, while it has neither ``principal=`` nor ``auth=``.
            ValueError: The host has a route at a path of the app's authorization server.
        """
        _http().attach(self._make(path, None, options), host, path)

    def _make(self, prefix: str | None, loopback: bool | None, options: HttpOptions) -> Any:
        http = _http()
        if self._lifespans is None:
            self._lifespans = http.Lifespans(self._serving)
        merged = {**self._http, **options}
        return http.Application(
            self._server, self._lifespans, merged, self.routes, loopback=loopback, prefix=prefix
        )


def _http() -> Any:
    """Load the ASGI applications; making an app should load neither anyio nor sessions."""
    return import_module("mcpkit.transports.http.app")


def _handlers() -> Mapping[str, Handler]:
    """Load the handlers of all methods; making an app should load neither anyio nor sessions."""
    from mcpkit._server.handlers import HANDLERS
    from mcpkit._server.session import SESSION_HANDLERS

    return {**HANDLERS, **SESSION_HANDLERS}


def _apps() -> Extension:
    extension: Extension = _wings.apps.Apps
    return extension


def _tasks() -> Extension:
    extension: Extension = _wings.tasks.Tasks()
    return extension


async def _enter(stack: AsyncExitStack, app: Registration, lifespan: Any) -> Any:
    """Enter a lifespan, and return what it yields; `RegistrationError` if it is none."""
    manager: Any = lifespan(app)
    if not hasattr(manager, "__aenter__"):
        raise RegistrationError(not_a_manager(lifespan))
    return await stack.enter_async_context(manager)
