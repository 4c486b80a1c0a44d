"""What people register on an app: tools, resources, prompts, extensions and what they need."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, overload

from typing_extensions import TypeVar, Unpack

from mcpkit import _wings
from mcpkit._entries import Defaults, Errors, decorated, errors_of, marked_in
from mcpkit._server.inclusions import Inclusion, Transform
from mcpkit._server.views import Choose, Judge
from mcpkit._signature.hints import location
from mcpkit._signature.signature import can_take, is_async
from mcpkit._utils.names import caller, with_suggestions
from mcpkit.context import ListKind
from mcpkit.errors import RegistrationError
from mcpkit.limits import check_several
from mcpkit.middleware import MiddlewareT, check_middleware
from mcpkit.permissions import needed_scopes
from mcpkit.prompts import PromptOptions, make_prompt
from mcpkit.providers import Provider
from mcpkit.resources import ResourceOptions, make_resource
from mcpkit.tools import ToolOptions, make_tool

if TYPE_CHECKING:
    from mcpkit._server.server import Server
    from mcpkit.described import DescribedEntry
    from mcpkit.extension import Extension
    from mcpkit.extensions.skills.function import SkillOptions
    from mcpkit.views import Html, UiOptions

F = TypeVar("F", bound=Callable[..., Any])
JudgeT = TypeVar("JudgeT", bound=Judge)
T = TypeVar("T")


class Registration(ABC):
    """The half of `mcpkit.MCPKit` that takes entries; the other half serves them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._defaults = Defaults(server.converters, server.settings.expose_errors)
        self._parts: list[Any] = []
        """The included apps, and the `Held` lifespans of included providers."""
        self._served = 0
        """How many times it is served, alone or in other apps."""

    @property
    def name(self) -> str:
        """The name of the server."""
        return self._server.info.name

    @property
    def server(self) -> Server:
        """The registry, the identity and the settings, for transports."""
        return self._server

    def _all_parts(self) -> list[Any]:
        """Return the parts of this app and of all that it includes, each once."""
        found: dict[Any, None] = {}
        for each in self._parts:
            found[each] = None
            if isinstance(each, Registration):
                found |= dict.fromkeys(each._all_parts())
        return [*found]

    @abstractmethod
    def _parts_of_served(self) -> Mapping[str, bool]:
        """Return what only an app that is served can have, and if this one has it."""

    # --- decorators -------------------------------------------------------------------------------

    @overload
    def tool(self, fn: F, /) -> F: ...

    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> Callable[[F], F]: ...

    def tool(self, fn: Any = None, /, **options: Unpack[ToolOptions]) -> Any:
        """Add a function as a tool, and return it: ``@app.tool`` or ``@app.tool(title="Search")``.

        Args:
            fn: Sync or async. Its parameters become the input schema, its docstring the
                descriptions, its return annotation the output schema.
            options: See `ToolOptions`.

        Raises:
            RegistrationError: The function cannot be served as it is written.
        """
        return decorated(self.add_tool, fn, **options)

    @overload
    def resource(self, fn: F, /) -> F: ...

    @overload
    def resource(
        self, uri: str | None = None, /, **options: Unpack[ResourceOptions]
    ) -> Callable[[F], F]: ...

    def resource(self, uri: Any = None, /, **options: Unpack[ResourceOptions]) -> Any:
        """Add a function as a resource, and return it: ``@app.resource("notes://{day}")``.

        Args:
            uri: A URI, or an RFC 6570 template whose variables are arguments of the function. If
                omitted, ``resource://`` and the function's name.
            options: See `ResourceOptions`.

        Raises:
            RegistrationError: The function does not match the URI.
        """
        if uri is None or isinstance(uri, str):
            return decorated(self.add_resource, None, uri, **options)
        return decorated(self.add_resource, uri, None, **options)

    @overload
    def prompt(self, fn: F, /) -> F: ...

    @overload
    def prompt(self, /, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...

    def prompt(self, fn: Any = None, /, **options: Unpack[PromptOptions]) -> Any:
        """Add a function as a prompt, and return it: ``@app.prompt`` or ``@app.prompt(title="T")``.

        Args:
            fn: Sync or async. Its arguments arrive as strings and are converted to their types; it
                returns a string, a message, a dict with ``role`` and ``content``, or a list of
                them.
            options: See `PromptOptions`.

        Raises:
            RegistrationError: The function cannot be served as it is written.
        """
        return decorated(self.add_prompt, fn, **options)

    @overload
    def ui(self, uri: str, html: Html, /) -> None: ...

    @overload
    def ui(self, uri: str, /, **options: Unpack[UiOptions]) -> Callable[[F], F]: ...

    def ui(self, uri: Any, html: Any = None, /, **options: Unpack[UiOptions]) -> Any:
        """Add a page for tools under a URI: ``app.ui("ui://chart", Html("chart.html"))``.

        Also a decorator of a function that returns a page: ``@app.ui("ui://chart")``. Tools have
        ``ui="ui://chart"`` then; one with ``ui=Html("chart.html")`` adds its page by itself.

        Args:
            uri: Without variables. Hosts cache its page for all users.
            html: The page; omit it to decorate a function.
            options: See `UiOptions`.

        Raises:
            RegistrationError: The URI, the page or an option is invalid, or the URI is taken.
        """
        if not isinstance(uri, str):
            raise RegistrationError(f'{caller()}ui(…) needs a URI: @app.ui("ui://chart")')
        if html is not None:
            return _wings.apps.add_page(self._server.registry, html, uri, **options)
        add = partial(_wings.apps.add_function, self._server.registry, self._defaults)
        return decorated(add, None, uri, **options)

    def middleware(self, fn: MiddlewareT, /) -> MiddlewareT:
        """Put a function around every request, and return it: ``@app.middleware``.

        The first one registered is the outermost. Register it before the app is served.

        Args:
            fn: An ``async def`` that takes the context of a request and ``call_next``. It returns
                the result of ``await call_next()`` or another value to answer with, or raises.

        Raises:
            RegistrationError: The function is not async, or is middleware of another library.
        """
        self._server.add_middleware(check_middleware(fn))
        return fn

    def view(self, choose: Choose, /) -> Callable[[JudgeT], JudgeT]:
        """Decide which entries a request sees: a decorator.

            @app.view(lambda caller: caller.http and caller.http.headers.get("x-toolset"))
            def of_toolset(entry, toolset):
                return toolset is None or toolset in entry.tags

        Several of them apply together, and with scopes. What a choice shows is cached until entries
        change; clients may cache it for one user only.

        Args:
            choose: A plain function of the `Caller`, called for each request. It returns what
                matters: a value that can be the key of a dict, and of which there are few. If it
                raises an exception, the request fails.

        The decorated function is a plain function of an entry, which has ``listing``, ``name``,
        ``key``, ``tags`` and ``scopes``, and of the choice. It returns True for an entry that is
        there; False for one that is not; ``"unlisted"`` for one that is left out of the list, but
        may be used; or an exception, which those who use it get. If it raises one, the request
        fails.

        Raises:
            RegistrationError: A function takes something else, or is async.
        """
        if is_async(choose) or not can_take(choose, None):
            raise RegistrationError(f"{caller()}view(…) takes a plain function of the caller")

        def add(judge: JudgeT) -> JudgeT:
            if is_async(judge) or not can_take(judge, None, None):
                raise RegistrationError(
                    f"{location(judge)} is not a plain function of an entry and of a choice"
                )
            self._server.choosers.append((choose, judge))
            return judge

        return add

    def extend(self, extension: Extension, /) -> None:
        """Add an extension of the protocol: its identifier, methods, hooks and entries.

        Raises:
            RegistrationError: The app has it already, or a method of it is taken.
        """
        self._server.extend(extension)
        for each in extension.entries:
            self.include(each)

    # --- adding and removing, also while running --------------------------------------------------

    def add_tool(self, fn: Callable[..., Any], /, **options: Unpack[ToolOptions]) -> None:
        """Add a function as a tool, and notify connected clients.

        Args:
            fn, options: As for `tool`; a method, a partial, or any callable with a signature.

        Raises:
            RegistrationError: The function cannot be served, or the name is taken.
        """
        self._add(make_tool(fn, self._defaults, **options))

    def _add(self, entry: Any) -> None:
        registry = self._server.registry
        options = [*entry.options.values()]
        companions = [found for each in options for found in each.companions(entry)]
        registry.add(entry)
        for each in companions:
            if each.key not in registry.table(each.listing):
                registry.add(each)

    def add_resource(
        self, fn: Callable[..., Any], uri: str | None = None, /, **options: Unpack[ResourceOptions]
    ) -> None:
        """Add a function as a resource, and notify connected clients.

        Args:
            fn: Returns text, bytes, a JSON value, an `Image` or `File`, or contents.
            uri, options: As for `resource`.

        Raises:
            RegistrationError: The function does not match the URI, or the URI is taken.
        """
        self._server.registry.add(make_resource(fn, uri, self._defaults, **options))

    def add_prompt(self, fn: Callable[..., Any], /, **options: Unpack[PromptOptions]) -> None:
        """Add a function as a prompt, and notify connected clients.

        Args:
            fn, options: As for `prompt`; a method, a partial, or any callable with a signature.

        Raises:
            RegistrationError: The function cannot be served, or the name is taken.
        """
        self._server.registry.add(make_prompt(fn, self._defaults, **options))

    def add(self, entry: DescribedEntry, /) -> None:
        """Add an entry that is described, and notify connected clients.

        Args:
            entry: Of `mcpkit.described`.

        Raises:
            RegistrationError: The name or URI is taken.
        """
        make = getattr(entry, "entry", None)
        if make is None:
            raise RegistrationError(
                f"{caller()}add(…) takes an entry of mcpkit.described, not a "
                f"{type(entry).__name__}; functions are for add_tool(…) and its siblings"
            )
        self._add(make(self._defaults))

    def remove_tool(self, name: str) -> None:
        """Remove a tool, and notify connected clients.

        Raises:
            KeyError: There is no tool with this name.
        """
        self._server.registry.remove("tools", name)

    def remove_resource(self, uri: str) -> None:
        """Remove the resource or template with this URI, and notify connected clients.

        Raises:
            KeyError: There is none with this URI.
        """
        self._server.registry.remove("resources", uri)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt, and notify connected clients.

        Raises:
            KeyError: There is no prompt with this name.
        """
        self._server.registry.remove("prompts", name)

    def disable(self, names: Collection[str] = (), *, tags: Collection[str] = ()) -> None:
        """Withdraw tools, resources and prompts until `enable`, and notify connected clients.

        Args:
            names: The names of registered entries.
            tags: Every entry that has one of these tags is withdrawn as well.

        Raises:
            KeyError: No entry has such a name.
        """
        self._server.registry.disable(names, tags)

    def enable(self, names: Collection[str] = (), *, tags: Collection[str] = ()) -> None:
        """Offer withdrawn entries again, behind the others; see `disable`."""
        self._server.registry.enable(names, tags)

    @with_suggestions("include(…)")
    def include(
        self,
        source: object,
        *,
        prefix: str | None = None,
        expose_errors: Errors | None = None,
        scopes: Sequence[str] = (),
        tags: Collection[str] = (),
        transform: Transform | None = None,
    ) -> None:
        """Add the entries of another app, of a provider, or the marked functions of something.

        Of an app, everything that is registered there now and later is added, with the converters
        and exceptions of that app. Its lifespan is entered after that of the served app, and its
        middleware is run for the requests that name one of its entries. An app with routes, checks
        of readiness, views, extensions, ``auth=`` or ``scope_hierarchy=`` is rejected, because only
        the served app can have those.

        The module-level decorators `tool`, `resource` and `prompt` mark functions. Methods of an
        object are bound to it; of a class, static and class methods are added.

        Args:
            source: Another app, a `Provider`, a module, an instance, or a class.
            prefix: Put before names, ``prefix_name``, and URIs, ``scheme://prefix/rest``.
            expose_errors: The exceptions whose text clients see, unless a mark has its own; the
                app's if None.
            scopes: The scopes that all of it needs, in addition to those of each part.
            tags: The tags that all of it has, in addition to those of each part.
            transform: A function of each entry, which it may change by assigning to its attributes:
                returns the entry to add, or None to leave it out. It sees names and URIs without
                the prefix.

        Raises:
            RegistrationError: Nothing is marked, a marked function cannot be served, a name is
                taken, or the app has what an included app may not have.
        """
        check_several("tags=", tags)
        needed = needed_scopes(scopes, "include()")
        options: dict[str, Any] = {
            "prefix": prefix,
            "scopes": needed,
            "tags": frozenset(tags),
            "transform": transform,
        }
        registry = self._server.registry
        if isinstance(source, (Registration, Provider)) and expose_errors is not None:
            raise RegistrationError(
                f"include({source!r:.80}): expose_errors= is for marked functions; an app has its "
                f"own, and a provider that of the app"
            )
        if isinstance(source, Registration):
            self._check_included(source)
            self._check_time(source.name, self._lives([source, *source._all_parts()]))
            inclusion = Inclusion(source.server.registry, registry, app=source, **options)
            self._server.include(inclusion, source.server.changes)
            self._parts.append(source)
            return
        if isinstance(source, Provider):
            lives = type(source).lifespan is not Provider.lifespan
            self._check_time(type(source).__name__, lives)
            context = self._server.provide(source, self._defaults, **options)
            if lives:
                from mcpkit._concurrency.held import Held  # it needs an event loop

                self._parts.append(Held(partial(source.lifespan, context)))
            return
        found = marked_in(source)
        if not found:
            name = getattr(source, "__name__", type(source).__name__)
            raise RegistrationError(
                f"nothing in {name} is marked; decorate functions with @mcpkit.tool, "
                f"@mcpkit.resource(uri) or @mcpkit.prompt"
            )
        defaults = self._defaults
        if expose_errors is not None:
            defaults = defaults._replace(errors=errors_of(expose_errors, "include()"))
        inclusion = Inclusion(None, registry, **options)
        for fn, make, args, given in found:
            entry = inclusion.copied(make(fn, *args, defaults, **given))
            if entry is not None:
                self._add(entry)

    def _lives(self, parts: Sequence[Any]) -> bool:
        """Return True if there is a lifespan among the parts of an app."""
        return any(getattr(each, "_lifespan", True) is not None for each in parts)

    @contextmanager
    def _no_more_lifespans(self, parts: Sequence[Any]) -> Generator[None, None, None]:
        """Include nothing with a lifespan any more, here and in the apps among the parts."""
        apps = [self, *(each for each in parts if isinstance(each, Registration))]
        for each in apps:
            each._served += 1
        try:
            yield
        finally:
            for each in apps:
                each._served -= 1

    def _check_time(self, name: str, lives: bool) -> None:
        """Raise `RegistrationError` if there is a lifespan that could not be entered any more."""
        if self._served and lives:
            raise RegistrationError(
                f"include({name}): it has a lifespan; include it before the app is served"
            )

    def _check_included(self, source: Registration) -> None:
        at = f"include({source.name})"
        for part, is_there in source._parts_of_served().items():
            if is_there:
                raise RegistrationError(f"{at}: it has {part}; give that to the app that is served")

    @overload
    def converter(self, kind: type[T], convert: Callable[[T], Any], /) -> None: ...

    @overload
    def converter(self, kind: type[T], /) -> Callable[[F], F]: ...

    def converter(self, kind: type[Any], convert: Any = None, /) -> Any:
        """Send values of a class as something else: ``app.converter(Money, str)``.

        Also a decorator: ``@app.converter(Money)``. It applies to the results of tools, resources
        and prompts, also inside lists and dicts, and to subclasses; inside models and dataclasses
        only if pydantic does not know the class. Register it before the functions whose return
        annotation names the class: the return annotation of `convert` then stands for it, so that
        ``-> dict[str, int]`` gives an output schema.

        Values of NumPy, pandas, polars, Pillow, matplotlib and sqlite3, and objects with public
        attributes, need no converter.

        Args:
            kind: The class.
            convert: From a value of the class to anything that a function may return. The last one
                that is registered for a class applies.

        Returns:
            None, or a decorator that returns its function unchanged.

        Raises:
            RegistrationError: `kind` is not a class.
        """
        if not isinstance(kind, type):
            raise RegistrationError(f"{kind!r} is not a class; write converter(Money, fn)")

        add = partial(self._server.converters.add, kind)
        return decorated(add, None) if convert is None else add(convert)

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
        """Add a file, or the files of a directory, as resources.

        A directory is listed again for each request, and read through a template. Nothing outside
        it can be reached, neither by ``..`` nor by a symbolic link (RES-9).

        Args:
            path: A file or a directory that exists.
            uri: The URI of the file, or the prefix of the URIs of the directory's files;
                ``files://`` and the name by default.
            pattern: A glob relative to the directory: the files to offer.
            hidden: True to offer names that start with a dot, too.
            mime_type: Guessed from each name if None.
            scopes: The scopes that a caller over HTTP needs.

        Raises:
            RegistrationError: There is no such file or directory, or the URI is taken.
        """
        needed = needed_scopes(scopes, "files()")
        if not os.path.isdir(path):
            self._server.registry.add(
                _wings.files.file_resource(path, uri, mime_type=mime_type, scopes=needed)
            )
            return
        directory = _wings.files.Directory(
            path, uri, pattern=pattern, hidden=hidden, mime_type=mime_type
        )
        self.include(directory, scopes=needed)

    def skills(
        self, path: str | os.PathLike[str], *, prefix: str = "", scopes: Sequence[str] = ()
    ) -> None:
        """Add the skills in a folder, which hosts verify and show to models; see the guide.

        Args:
            path: A folder with a ``SKILL.md``, or with such folders at any depth.
            prefix: The segments of the URIs before each skill.
            scopes: The scopes that a caller over HTTP needs; others do not see the skills.

        Raises:
            RegistrationError: A skill cannot be published; the message has the file and line.
        """
        _wings.skills.add_folder(self._server, path, prefix, needed_scopes(scopes, "skills()"))

    @overload
    def skill(self, fn: F, /) -> F: ...

    @overload
    def skill(self, /, **options: Unpack[SkillOptions]) -> Callable[[F], F]: ...

    def skill(self, fn: Any = None, /, **options: Unpack[SkillOptions]) -> Any:
        """Add the skill that a function returns, and return the function: ``@app.skill``.

        Args:
            fn: A function, a method or another callable object. It is called for each request that
                needs the skill, with injected parameters only, and returns the text of ``SKILL.md``
                behind the frontmatter, or a dict with that and more files:
                ``{"SKILL.md": text, "references/times.md": text, "logo.png": data}``; or None if
                there is no such skill for this caller. Clients verify the digests that they have
                listed, so it returns the same until the skill changes.
            options: See `SkillOptions`.

        Raises:
            RegistrationError: The skill cannot be published, or one is at its URI already.
        """
        return decorated(partial(_wings.skills.add_function, self._server), fn, **options)

    # --- changes ----------------------------------------------------------------------------------

    def notify_resource_updated(self, uri: str) -> None:
        """Notify the clients that are subscribed to a resource of a change. From any thread."""
        self._server.changes.resource_changed(uri)

    def list_changed(self, kind: ListKind) -> None:
        """Notify clients of a changed list, as adding and removing entries do. From any thread."""
        self._server.changes.list_changed(kind)
