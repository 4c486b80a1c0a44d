"""`MCPKit`: the object that people import, decorate functions with, and run."""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeGuard, overload

from typing_extensions import TypeVar, Unpack

from mcpkit import _from_functions as from_functions
from mcpkit._from_functions import (
    Defaults,
    Errors,
    PromptOptions,
    ResourceOptions,
    ToolOptions,
    errors_of,
)
from mcpkit._server.registry import Registry
from mcpkit._server.server import Server, Settings
from mcpkit._signature.hints import function_name, location, underlying
from mcpkit._signature.signature import is_async
from mcpkit._utils.json import UNSET
from mcpkit._utils.names import (
    caller,
    check_keywords,
    library_of,
    suggest,
    unknown_attribute,
    with_suggestions,
)
from mcpkit._utils.sealing import SECRET, secret_weakness, secrets_from_environment
from mcpkit.context import ListKind
from mcpkit.errors import MissingEnvironment, RegistrationError
from mcpkit.middleware import Handler, Middleware
from mcpkit.permissions import Hierarchy, needed_scopes
from mcpkit.tasks.options import Store, TaskOptions, settings_of
from mcpkit.transports import load
from mcpkit.types import CacheScope, Icon, Implementation, LogLevel

if TYPE_CHECKING:
    from mcpkit._server.task_runs import AppTasks
    from mcpkit.auth.verifiers import Auth
    from mcpkit.http import HttpOptions

__all__ = ["MCPKit", "prompt", "resource", "tool"]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
StateT = TypeVar("StateT", default=Any)

MiddlewareT = TypeVar("MiddlewareT", bound=Middleware)
Lifespan = Callable[["MCPKit[Any]"], AbstractAsyncContextManager[StateT]]


class MCPKit(Generic[StateT]):
    """A server: what it offers, and how it is served.

    Args:
        name: For clients and logs.
        version: Of your server, not of mcpkit.
        title: For people; the name by default.
        instructions: For the model, how to use the server.
        description: Of the server, in a sentence (2025-11-25 and later).
        website_url: Of a page with more about it (2025-11-25 and later).
        icons: Pictures a client may show (2025-11-25 and later).
        lifespan: An async context manager, given the app. It is entered once before the first
            request and left at the end; handlers reach what it yields as ``ctx.state``.
        page_size: Entries that a page of a list has at most; None: all on one page.
        ttl: Seconds for which clients may keep lists and resources (2026-07-28).
        cache_scope: ``"public"`` if principals may share what they keep, else ``"private"``.
        log_level: The least level that is sent to clients that have not set one (before
            2026-07-28).
        max_threads: Plain ``def`` handlers that run at once; more wait. Tasks have as many threads
            of their own.
        max_in_flight: Requests of one connection that run at once; more wait.
        secret: Seals what travels through clients' hands; several to rotate them, the current one
            first, of 16 bytes at least. ``MCPKIT_SECRET`` (separated by blanks) if None; without
            that, a random one, which is right for a single process only. What the variable has is
            checked by `check_environment`.
        state_lifetime: Seconds for which a request that waits for input may be continued
            (2026-07-28).
        ask_timeout: Seconds for which a handler waits for an answer of the client (before
            2026-07-28).
        http: The options for serving over HTTP, wherever no others are given: a dict of
            `HttpOptions`.
        auth: Whoever knows the bearer tokens of requests over HTTP: `mcpkit.auth.JWT`,
            ``Introspection``, ``Keys``, a function of the token, or several of them. On stdio it
            means nothing.
        scopes: The scopes that imply others: ``{"files": ["files:read", "files:write"]}``.
        tasks: Where tasks are kept, or a dict of `TaskOptions`: the path of a file of SQLite, which
            several processes of one machine may share and which outlives them, or a URL of a
            database. ``MCPKIT_TASKS`` if None; without that, in this process, with which they end.
        errors: The exceptions of handlers whose text is shown, as that of `ToolError` is: a class,
            several, or ``"all"``. Any other exception is hidden behind a reference. What an entry
            says about itself counts more.

    Raises:
        ValueError: ``page_size`` is less than 1, ``secret`` is too short, an option of ``tasks``
            makes no sense, or ``auth`` is given twice.
        TypeError: ``auth`` is no verifier.
        RegistrationError: ``errors`` has something that is no class of exceptions.
    """

    @with_suggestions("MCPKit(…)")
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
        page_size: int | None = None,
        ttl: float = 0,
        cache_scope: CacheScope = "private",
        log_level: LogLevel = "info",
        max_threads: int = 40,
        max_in_flight: int = 1000,
        secret: str | Sequence[str] | None = None,
        state_lifetime: float = 3600,
        ask_timeout: float = 600,
        http: HttpOptions | None = None,
        auth: Auth | None = None,
        scopes: Mapping[str, Sequence[str]] | None = None,
        tasks: TaskOptions | Store | None = None,
        errors: Errors = (),
    ) -> None:
        if page_size is not None and page_size < 1:
            raise ValueError("page_size must be at least 1, or None for a single page")
        if lifespan is not None:
            _check_lifespan(lifespan)
        self._lifespan = lifespan
        self._http: HttpOptions = _with_auth(http or {}, auth)
        self._lifespans: Any = None
        self._application: Any = None
        self.routes: list[Any] = []
        """Starlette routes to serve over HTTP beside the endpoint."""
        self._server = Server(
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
                ttl,
                cache_scope,
                log_level,
                max_threads,
                max_in_flight,
                secrets=_secrets(secret),
                state_lifetime=state_lifetime,
                ask_timeout=ask_timeout,
                errors=errors_of(errors, f"MCPKit({name!r})"),
                tasks=settings_of(tasks, os.environ),
                scopes=Hierarchy(scopes or {}),
            ),
        )
        self._defaults = Defaults(self._server.converters, self._server.settings.errors)

    if not TYPE_CHECKING:  # to which every name would be there

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(self, "app", name)

    def __repr__(self) -> str:
        registry = self._server.registry
        counts = (
            f"{len(registry.tools)} tools, "
            f"{len(registry.resources) + len(registry.templates)} resources, "
            f"{len(registry.prompts)} prompts"
        )
        return f"<MCPKit {self.name!r}: {counts}>"

    @property
    def name(self) -> str:
        """The name of the server."""
        return self._server.info.name

    @property
    def server(self) -> Server:
        """The registry, the identity and the settings, for transports."""
        return self._server

    @property
    def tasks(self) -> AppTasks:
        """Begins tasks that no client has called for: ``await app.tasks.start(report)``."""
        from mcpkit._server.task_runs import AppTasks  # few begin any

        return AppTasks(self._server)

    # --- decorators -------------------------------------------------------------------------------

    @overload
    def tool(self, fn: F, /) -> F: ...

    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...

    def tool(self, fn: F | None = None, /, **options: Unpack[ToolOptions]) -> F | Callable[[F], F]:
        """Offer a function as a tool: ``@app.tool`` or ``@app.tool(title="Search")``.

        Args:
            fn: Sync or async. Its parameters become the input schema, its docstring the
                descriptions, its return annotation the output schema.
            options: See `add_tool`.

        Returns:
            The function itself, unchanged.

        Raises:
            RegistrationError: The function cannot be served as it is written.
        """
        if fn is not None:
            self.add_tool(fn, **options)
            return fn

        def register(fn: F) -> F:
            self.add_tool(fn, **options)
            return fn

        return register

    @overload
    def resource(self, fn: F, /) -> F: ...

    @overload
    def resource(
        self, uri: str | None = None, /, **options: Unpack[ResourceOptions]
    ) -> Callable[[F], F]: ...

    def resource(
        self, uri: F | str | None = None, /, **options: Unpack[ResourceOptions]
    ) -> F | Callable[[F], F]:
        """Offer what a function returns as a resource: ``@app.resource("notes://{day}")``.

        Args:
            uri: A URI, or an RFC 6570 template whose variables the function takes as arguments;
                ``resource://`` and the function's name, when it is used bare.
            options: See `add_resource`.

        Returns:
            The function itself, unchanged.

        Raises:
            RegistrationError: The function and the URI do not fit together.
        """
        if uri is not None and not isinstance(uri, str):
            self.add_resource(uri, **options)
            return uri

        def register(fn: F) -> F:
            self.add_resource(fn, uri, **options)
            return fn

        return register

    @overload
    def prompt(self, fn: F, /) -> F: ...

    @overload
    def prompt(self, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...

    def prompt(
        self, fn: F | None = None, /, **options: Unpack[PromptOptions]
    ) -> F | Callable[[F], F]:
        """Offer a function as a prompt: ``@app.prompt`` or ``@app.prompt(title="Review")``.

        Args:
            fn: Sync or async. Its arguments arrive as strings and are converted to their types;
                it returns a string, a message, a dict with ``role`` and ``content``, or a list of
                them.
            options: See `add_prompt`.

        Returns:
            The function itself, unchanged.

        Raises:
            RegistrationError: The function cannot be served as it is written.
        """
        if fn is not None:
            self.add_prompt(fn, **options)
            return fn

        def register(fn: F) -> F:
            self.add_prompt(fn, **options)
            return fn

        return register

    def middleware(self, fn: MiddlewareT, /) -> MiddlewareT:
        """Put a function around every request: ``@app.middleware``.

        The first one registered is the outermost. Register it before the app is served.

        Args:
            fn: An ``async def`` that takes the context of a request and ``call_next``. It returns
                what ``await call_next()`` returns, the value to answer with, or raises.

        Returns:
            The function itself, unchanged.

        Raises:
            RegistrationError: The function is not async, or is middleware of another library.
        """
        library = next(filter(None, map(library_of, inspect.getmro(type(fn)))), None)
        if library is not None:
            raise RegistrationError(
                f"{caller()}{type(fn).__name__} is middleware of {library}, which is called "
                f"otherwise; {suggest('app', 'add_middleware', ())}"
            )
        if not is_async(fn):
            raise RegistrationError(
                f"{location(underlying(fn))}: {function_name(fn)}() is not async; write async def, "
                f"and await call_next()"
            )
        self._server.add_middleware(fn)
        return fn

    # --- adding and removing, also while running --------------------------------------------------

    def add_tool(self, fn: Callable[..., Any], /, **options: Unpack[ToolOptions]) -> None:
        """Offer a function as a tool; clients that are connected are told.

        Args:
            fn: A function, method, partial, or any callable with a signature.
            options: As keywords:

                - name, title, description: Taken from the function if left out.
                - annotations: A `ToolAnnotations`, or a dict as the protocol has it; or the hints
                  by themselves: read_only, destructive, idempotent, open_world.
                - icons, meta, tags: Passed on; tags are for selecting, and are not sent.
                - structured_output: False for content only, True to insist on structured output;
                  None, the default, decides by the return annotation. What is no object is sent
                  as ``{"result": …}``; ``"raw"`` insists, and sends it as it is from 2026-07-28 on.
                - input_schema: A JSON Schema to advertise instead of the derived one. Arguments
                  are still validated by the signature; a function that takes ``**arguments`` gets
                  all that the schema allows, validated by it.
                - inline: Run a plain ``def`` on the event loop, not in a thread.
                - task: ``"optional"`` to let clients that know tasks have a call go on after its
                  answer; ``"required"`` to refuse all others.
                - resumable: True if a task may be run again whose process has ended in the middle;
                  steps that it has done are not done again. It has failed otherwise.
                - task_ttl: Seconds for which its tasks are kept; the app's by default.
                - errors: The exceptions whose text the model reads, as that of a `ToolError`: a
                  class, several, or ``"all"``; ``()`` hides all. The app's by default.
                - scopes: That whoever calls it over HTTP needs; others do not see it.
                - allow: A function, async or not, of the `Principal` and the arguments: whether
                  they may call it so.

        Raises:
            RegistrationError: The function cannot be served, or the name is taken.
        """
        made = from_functions.make_tool(fn, defaults=self._defaults, **options)
        self._server.registry.add(made)

    def add_resource(
        self, fn: Callable[..., Any], uri: str | None = None, /, **options: Unpack[ResourceOptions]
    ) -> None:
        """Offer what a function returns as a resource; clients that are connected are told.

        Args:
            fn: Returns text, bytes, a JSON value, an `Image` or `File`, or contents.
            uri: A URI or an RFC 6570 template.
            options: As keywords:

                - name, title, description: Taken from the function if left out.
                - mime_type: Taken from the return annotation if left out.
                - size: In bytes, if known.
                - annotations: An `Annotations`; or audience, priority by themselves.
                - icons, meta, tags: Passed on; tags are not sent.
                - ttl, cache_scope: For this resource, instead of the app's (2026-07-28).
                - unchecked: Names of variables whose values are handed over as they are. All others
                  name nothing if they have a part ``..``, begin as an absolute path does, or have
                  control characters, because many a handler makes a path of them.
                - inline: Run a plain ``def`` on the event loop, not in a thread.
                - errors: The exceptions whose text is shown, as that of a `ResourceError`.
                - scopes, allow: Who may read it, as for tools; `allow` gets the variables of the
                  URI.

        Raises:
            RegistrationError: The function and the URI do not fit together, or the URI is taken.
        """
        made = from_functions.make_resource(uri, fn, defaults=self._defaults, **options)
        self._server.registry.add(made)

    def add_prompt(self, fn: Callable[..., Any], /, **options: Unpack[PromptOptions]) -> None:
        """Offer a function as a prompt; clients that are connected are told.

        Args:
            fn: A function, method, partial, or any callable with a signature.
            options: name, title, description, icons, meta, tags, inline, errors, scopes and allow,
                as for tools.

        Raises:
            RegistrationError: The function cannot be served, or the name is taken.
        """
        made = from_functions.make_prompt(fn, defaults=self._defaults, **options)
        self._server.registry.add(made)

    def remove_tool(self, name: str) -> None:
        """Stop offering a tool; clients that are connected are told.

        Raises:
            KeyError: There is none of this name.
        """
        self._server.registry.remove("tools", name)

    def remove_resource(self, uri: str) -> None:
        """Stop offering the resource or template of this URI; clients that are connected are told.

        Raises:
            KeyError: There is none of this URI.
        """
        self._server.registry.remove("resources", uri)

    def remove_prompt(self, name: str) -> None:
        """Stop offering a prompt; clients that are connected are told.

        Raises:
            KeyError: There is none of this name.
        """
        self._server.registry.remove("prompts", name)

    def include(
        self,
        source: object,
        *,
        prefix: str | None = None,
        errors: Errors | None = None,
        scopes: Sequence[str] = (),
    ) -> None:
        """Offer the marked functions of a module, an object or a class, or what another app offers.

        Functions are marked with the module-level decorators `tool`, `resource` and `prompt`.
        Methods of an object are bound to it; of a class, static and class methods are taken.

        Of an app it is all that is registered there now and later, with the converters and
        exceptions of that app. Its lifespan, middleware and routes belong to whoever serves it, so
        an app that has any is refused.

        Args:
            source: A module, an instance, a class, or another app.
            prefix: Put in front of names, ``prefix_name``, and of URIs, ``scheme://prefix/rest``.
            errors: The exceptions whose text is shown, where a mark does not say; the app's if
                None.
            scopes: That all of it needs, beside what each part needs by itself.

        Raises:
            RegistrationError: Nothing is marked, something marked cannot be served, a name is
                taken, or the app has what would be lost.
        """
        needed = needed_scopes(scopes, "include()")
        if _is_app(source):
            self._include_app(source, prefix, errors, needed)
            return
        found = from_functions.marked_in(source)
        if not found:
            name = getattr(source, "__name__", type(source).__name__)
            raise RegistrationError(
                f"nothing in {name} is marked; decorate functions with @mcpkit.tool, "
                f"@mcpkit.resource(uri) or @mcpkit.prompt"
            )
        make: Mapping[str, Callable[..., Any]] = {
            "tool": from_functions.make_tool,
            "prompt": from_functions.make_prompt,
        }
        defaults = self._defaults
        if errors is not None:
            defaults = defaults._replace(errors=errors_of(errors, "include()"))
        for fn, kind, uri, options in found:
            shared: dict[str, Any] = {"prefix": prefix, "defaults": defaults, **options}
            if kind == "resource":
                item: Any = from_functions.make_resource(uri, fn, **shared)
            else:
                item = make[kind](fn, **shared)
            item.scopes = tuple(dict.fromkeys((*needed, *item.scopes)))
            self._server.registry.add(item)

    def _include_app(
        self,
        source: MCPKit[Any],
        prefix: str | None,
        errors: Errors | None,
        scopes: tuple[str, ...],
    ) -> None:
        at = f"include({source.name})"
        lost = {
            "a lifespan": source._lifespan is not None,
            "middleware": bool(source.server.middleware),
            "routes": bool(source.routes),
            "auth=": source._http.get("auth") is not None,
            "scopes= that imply others": bool(source.server.settings.scopes),
        }
        for what, there in lost.items():
            if there:
                raise RegistrationError(f"{at}: it has {what}; give that to the app that is served")
        if errors is not None:
            raise RegistrationError(f"{at}: errors= is for marked functions; an app has its own")
        if prefix and source.server.registry.providers:
            raise RegistrationError(
                f"{at}: it offers files, whose URIs get no prefix; leave prefix= out"
            )
        if scopes and source.server.registry.providers:
            raise RegistrationError(
                f"{at}: it offers files, which say themselves who may read them: "
                f"files(…, scopes=…); leave scopes= out"
            )
        self._server.registry.include(source.server.registry, prefix, scopes)

    @overload
    def converter(self, kind: type[T], convert: Callable[[T], Any], /) -> None: ...

    @overload
    def converter(self, kind: type[T], /) -> Callable[[F], F]: ...

    def converter(self, kind: type[Any], convert: Any = None, /) -> Any:
        """Have values of a class sent as something else: ``app.converter(Money, str)``.

        Also a decorator: ``@app.converter(Money)``. It holds for what tools, resources and prompts
        return, also inside of lists and dicts, and for subclasses; inside of models and dataclasses
        only where pydantic does not know the class. Register it before the functions whose return
        annotation names the class: the annotation of `convert` then stands for it, so that
        ``-> dict[str, int]`` gives an output schema.

        Arrays and scalars of NumPy, frames and series of pandas and polars, pictures of Pillow,
        figures of matplotlib, rows of sqlite3, and objects with public attributes need none.

        Args:
            kind: The class.
            convert: From a value of it to anything that a function may return. The last one that is
                registered for a class counts.

        Returns:
            None, or a decorator that returns its function unchanged.

        Raises:
            RegistrationError: `kind` is no class.
        """
        if not isinstance(kind, type):
            raise RegistrationError(f"converter({kind!r}): is no class; write converter(Money, fn)")
        if convert is not None:
            self._server.converters.add(kind, convert)
            return None

        def register(fn: F) -> F:
            self._server.converters.add(kind, fn)
            return fn

        return register

    def files(
        self,
        path: str | os.PathLike[str],
        uri: str | None = None,
        *,
        pattern: str = "**/*",
        hidden: bool = False,
        mime_type: str | None = None,
        scopes: Sequence[str] = (),
    ) -> None:
        """Offer a file, or the files of a directory, as resources.

        A directory is listed anew each time, and read through a template. Nothing outside it can
        be reached, neither by ``..`` nor by a symbolic link (RES-9).

        Args:
            path: A file or a directory that exists.
            uri: Of the file, or what the URIs of the directory's files begin with;
                ``files://`` and the name by default.
            pattern: The files of a directory that are offered, as a glob relative to it.
            hidden: True to offer names that begin with a dot, too.
            mime_type: Guessed from each name if None.
            scopes: That whoever reads them over HTTP needs.

        Raises:
            RegistrationError: There is no such file or directory, or the URI is taken.
        """
        from mcpkit.providers.files import Directory, file_resource

        registry = self._server.registry
        needed = needed_scopes(scopes, "files()")
        if os.path.isdir(path):
            directory = Directory(
                path, uri, pattern=pattern, hidden=hidden, mime_type=mime_type, scopes=needed
            )
            registry.add(directory.template())
            registry.add_provider(directory)
        else:
            file = file_resource(path, uri, mime_type=mime_type)
            file.scopes = needed
            registry.add(file)

    # --- changes ----------------------------------------------------------------------------------

    def changed(self, uri: str) -> None:
        """Tell every client that watches this resource that it has changed. From any thread."""
        self._server.changes.resource_changed(uri)

    def list_changed(self, kind: ListKind) -> None:
        """Tell every client that a list has changed. From any thread.

        Adding and removing through the app does so by itself.

        Args:
            kind: ``"tools"``, ``"resources"`` or ``"prompts"``.
        """
        self._server.changes.list_changed(kind)

    # --- running ----------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(
        self,
        *,
        overrides: Mapping[Callable[..., Any], Callable[..., Any]] | None = None,
        lifespan: Any = UNSET,
    ) -> AsyncGenerator[Server, None]:
        """Enter the lifespan, for as long as something serves the app. Used by transports.

        Args:
            overrides: Functions in the place of those that dependencies come from, for tests.
            lifespan: In the place of the app's own; None for none.

        Yields:
            The server, with the state that the lifespan yields.
        """
        server = self._server.with_overrides(overrides) if overrides else self._server
        enter = self._lifespan if lifespan is UNSET else lifespan
        if enter is None:
            yield server
            return
        manager: Any = enter(self)
        if not hasattr(manager, "__aenter__"):
            raise RegistrationError(_no_manager(enter))
        async with manager as state:
            yield server.with_state(state)

    def check_environment(self) -> None:
        """Check that the environment has every variable that parameters with `Env` need.

        Nothing is served with a ``MCPKIT_SECRET`` that can be guessed, either. `run`, `serve` and
        the start of an ASGI application do it by themselves.

        Raises:
            MissingEnvironment: Some are missing or empty, and the message names them all; or the
                secret is too short.
        """
        needed = self._server.registry.environment
        missing = [name for name in needed if not os.environ.get(name)]
        if missing:
            raise MissingEnvironment(missing)
        if wrong := secret_weakness(self._server.settings.secrets):
            raise MissingEnvironment([SECRET], wrong)

    def _serving(self) -> AbstractAsyncContextManager[Server]:
        self.check_environment()
        return self.running()

    def run(self, transport: str = "stdio", **options: Any) -> None:
        """Serve until the client leaves or the process is told to stop.

        Returns when everything has ended in order. If a handler goes on in a thread that nobody
        can stop, this ends the process instead: functions registered with `atexit` are called and
        stdout and stderr flushed, but nothing after this call runs, no ``finally`` either.

        Args:
            transport: ``"stdio"``, ``"http"``, or ``"sse"`` for clients of 2024-11-05 as well.
            options: Passed to the transport: for HTTP ``host``, ``port`` and `HttpOptions`.

        Raises:
            ValueError: There is no such transport.
            TypeError: The transport has no such option.
            MissingEnvironment: As of `check_environment`.
        """
        self.check_environment()
        serve = load(transport).run
        _check_options("run(…)", serve, options)
        serve(self, **options)

    async def serve(self, transport: str = "stdio", **options: Any) -> None:
        """Serve in the event loop that runs, until the client leaves or the task is cancelled.

        For a program that does other things as well; `run` is for one that only serves. Signals and
        logging are the program's. Over HTTP the event loop has to be asyncio's.

        Args:
            transport: ``"stdio"``, ``"http"``, or ``"sse"`` for clients of 2024-11-05 as well.
            options: As for `run`.

        Raises:
            ValueError: There is no such transport.
            TypeError: The transport has no such option.
            OSError: The address is taken or not ours; the message says which.
            RuntimeError: The app could not be begun; the log says why.
        """
        self.check_environment()
        serve = load(transport).serve_here
        _check_options("serve(…)", serve, options)
        await serve(self, **options)

    # --- as a part of other applications ----------------------------------------------------------

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve as an ASGI application: ``uvicorn server:app``, or mounted in another one."""
        if self._application is None:
            self._application = self.asgi()
        await self._application(scope, receive, send)

    def asgi(self, *, loopback: bool | None = None, **options: Unpack[HttpOptions]) -> Any:
        """Return this app as an ASGI application with options of its own.

        The app itself is one, with the options it was made with.

        Args:
            loopback: True if the server listens on loopback addresses only, so that foreign names
                in ``Host`` are refused; None goes by the address a connection arrives at.
            options: See `HttpSettings`.

        Raises:
            TypeError: There is no such option.
            ValueError: An option has a value that makes no sense.
        """
        return self._make(None, loopback, options)

    def route(self, path: str, /, **options: Unpack[HttpOptions]) -> Any:
        """Return a Starlette route that answers at this path, with and without a slash at its end.

        Args:
            path: Such as ``/mcp``, below the place where the router is mounted. Nothing below the
                path itself is answered.
            options: See `HttpSettings`; ``path`` is of no use here.
        """
        return load("http").make_route(self._make(path, None, options), path)

    def metadata_route(self, path: str, /, **options: Unpack[HttpOptions]) -> Any:
        """Return a Starlette route with the OAuth metadata of this app, for the root of a host.

        An app that is mounted serves its metadata below its mount, where its challenges point to.
        Clients that look for it without a challenge look at the root, which a mounted app cannot
        reach. `attach`, and a server of its own, need no such route. The metadata of an
        authorization server of the app's own are among it.

        Args:
            path: Of the endpoint, from the root: ``/notes/mcp`` for an app mounted at ``/notes``.
            options: As for `asgi`; what matters are ``auth`` and ``public_url``.

        Raises:
            ValueError: There is no ``auth``, or none that names an authorization server.
        """
        from mcpkit.http import HttpSettings

        merged: HttpOptions = {**self._http, **options}
        settings = HttpSettings(**merged)
        if settings.auth is None:
            raise ValueError("metadata_route(…) is for apps with auth=")
        return load("http").make_metadata_route(settings, self._server, path)

    def attach(self, host: Any, path: str, /, **options: Unpack[HttpOptions]) -> None:
        """Serve this app at a path of a Starlette or FastAPI application.

        The host's lifespan then enters and leaves this app's as well.

        Args:
            host: The application; its routes get one more, in front.
            path: Answered exactly, with and without a slash at its end.
            options: See `HttpSettings`; ``path`` is of no use here.

        Raises:
            TypeError: The host has no routes to add to, or is a FastAPI with ``dependencies=``,
                which would not run for the app, and there is neither ``principal=`` nor
                ``auth=`` that stands for them.
            ValueError: The host has a route at a path of the app's authorization server.
        """
        load("http").attach(self._make(path, None, options), host, path)

    def _make(self, prefix: str | None, loopback: bool | None, options: HttpOptions) -> Any:
        http = load("http")
        if self._lifespans is None:
            self._lifespans = http.Lifespans(self._serving)
        merged: HttpOptions = {**self._http, **options}
        return http.make_application(
            self._lifespans,
            self.routes,
            merged,
            loopback=loopback,
            prefix=prefix,
            server=self._server,
        )


def _handlers() -> Mapping[str, Handler]:
    """Load the handlers of all methods; making an app should load neither anyio nor sessions."""
    from mcpkit._server.handlers import HANDLERS
    from mcpkit._server.session import SESSION_HANDLERS

    return {**HANDLERS, **SESSION_HANDLERS}


def _check_lifespan(lifespan: Any) -> None:
    """Refuse what cannot give an async context manager when it is called with the app.

    Raises:
        RegistrationError: It does not; the message has the fix.
    """
    if not callable(lifespan) or hasattr(lifespan, "__aenter__"):
        kind = type(lifespan).__name__
        raise RegistrationError(
            f"{caller()}lifespan= is a {kind}; pass the function under @asynccontextmanager, "
            f"not called"
        )
    made = underlying(lifespan)
    is_generator = inspect.isasyncgenfunction(made) or inspect.isgeneratorfunction(made)
    is_raw = made is lifespan and is_generator
    is_sync = made is not lifespan and inspect.isgeneratorfunction(made)
    if is_raw or is_sync or is_async(lifespan):
        raise RegistrationError(_no_manager(lifespan))
    try:
        inspect.signature(lifespan).bind(None)
    except TypeError:
        raise RegistrationError(
            f"{location(made)}: {function_name(made)}() is called with the app when serving "
            f"begins; give it one parameter, app: MCPKit"
        ) from None
    except ValueError:
        pass  # no signature that Python could show


def _no_manager(lifespan: Any) -> str:
    made = underlying(lifespan)
    return (
        f"{location(made)}: {function_name(made)}() gives no async context manager; make it an "
        f"async def that yields once, under @contextlib.asynccontextmanager"
    )


def _with_auth(http: HttpOptions, auth: Auth | None) -> HttpOptions:
    """Return the options of HTTP with that of the app.

    Raises:
        ValueError: It is given twice, or beside ``principal``.
        TypeError: It is no verifier.
    """
    if auth is None:
        return http
    if http.get("auth") is not None:
        raise ValueError("auth= is given twice: to the app, and among its options of http=")
    if http.get("principal") is not None:
        raise ValueError("auth= and principal= both say who sends a request; leave one of them out")
    from mcpkit.auth.verifiers import resource_server  # few apps have one

    return {**http, "auth": resource_server(auth)}


def _is_app(source: object) -> TypeGuard[MCPKit[Any]]:
    return isinstance(source, MCPKit)


def _check_options(call: str, serve: Callable[..., Any], options: Mapping[str, Any]) -> None:
    if options:
        from mcpkit.http import HttpOptions

        known = [name for name in inspect.signature(serve).parameters if name != "served"]
        if "options" in known:
            known = [*known[:-1], *HttpOptions.__optional_keys__]
        check_keywords(call, options, known)


def _secrets(secret: str | Sequence[str] | None) -> tuple[str, ...]:
    if secret is None:
        return tuple(secrets_from_environment())  # which is checked before anything is served
    secrets = (secret,) if isinstance(secret, str) else tuple(secret)
    if wrong := secret_weakness(secrets):
        raise ValueError(f"secret= {wrong}")
    return secrets


# --- decorators that only mark --------------------------------------------------------------------


def _marker(
    kind: from_functions.MarkKind, fn: Any, uri: str | None, options: Mapping[str, Any]
) -> Any:
    if fn is not None:
        from_functions.mark(fn, kind, uri, options)
        return fn

    def register(fn: Any) -> Any:
        from_functions.mark(fn, kind, uri, options)
        return fn

    return register


@overload
def tool(fn: F, /) -> F: ...


@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[F], F]: ...


def tool(fn: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
    """Mark a function or method as a tool, for `MCPKit.include` or ``mcpkit run``.

    Args:
        fn: The function; also a static or class method.
        options: As for `MCPKit.add_tool`.

    Returns:
        The function itself, unchanged.
    """
    return _marker("tool", fn, None, options)


@overload
def resource(fn: F, /) -> F: ...


@overload
def resource(uri: str | None = None, /, **options: Unpack[ResourceOptions]) -> Callable[[F], F]: ...


def resource(uri: Any = None, /, **options: Unpack[ResourceOptions]) -> Any:
    """Mark a function or method as a resource, for `MCPKit.include` or ``mcpkit run``.

    Args:
        uri: A URI or an RFC 6570 template.
        options: As for `MCPKit.add_resource`.

    Returns:
        The function itself, unchanged.
    """
    if uri is None or isinstance(uri, str):
        return _marker("resource", None, uri, options)
    return _marker("resource", uri, None, options)


@overload
def prompt(fn: F, /) -> F: ...


@overload
def prompt(**options: Unpack[PromptOptions]) -> Callable[[F], F]: ...


def prompt(fn: Any = None, /, **options: Unpack[PromptOptions]) -> Any:
    """Mark a function or method as a prompt, for `MCPKit.include` or ``mcpkit run``.

    Args:
        fn: The function; also a static or class method.
        options: As for `MCPKit.add_prompt`.

    Returns:
        The function itself, unchanged.
    """
    return _marker("prompt", fn, None, options)
