"""What all sessions of a server share: registry, identity, settings, handlers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from mcpkit._entries import NO_APP, Defaults, Restricted, refusal_of
from mcpkit._input_requests.replay import StepMemory
from mcpkit._protocol import wire
from mcpkit._protocol.connection import SERVER_INFO_KEY, Request, RequestSource
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import Capability, Method, Revision
from mcpkit._server.changes import Changes
from mcpkit._server.failures import text_to_show
from mcpkit._server.inclusions import Inclusion
from mcpkit._server.lookup import in_its_app
from mcpkit._server.operations import Observers
from mcpkit._server.registry import Catalog, Registry
from mcpkit._server.views import Caller, Choices, Choose, Judge, View, by_hiding, by_scopes, fail
from mcpkit._signature.converters import Converters
from mcpkit._utils.names import caller
from mcpkit._utils.sealing import Sealer
from mcpkit.context import Client, Context, ListKind
from mcpkit.errors import RegistrationError, ResourceError, ResourceNotFound, UrlElicitationRequired
from mcpkit.limits import Limits
from mcpkit.middleware import Handler, Middleware, compose
from mcpkit.permissions import Hierarchy
from mcpkit.providers import Provider, ProviderContext
from mcpkit.types import CacheScope, Implementation, LogLevel, ResourceResult

if TYPE_CHECKING:
    from mcpkit._concurrency.loop import Loop
    from mcpkit._concurrency.threads import Threads
    from mcpkit.extension import Extension

MAX_VIEWS: Final = 256
"""Sets of scopes whose views are cached."""


class Settings(NamedTuple):
    """The settings of a server; `mcpkit.MCPKit` describes them."""

    page_size: int | None = None
    cache_ttls: Mapping[str | None, float] = MappingProxyType({})
    """Seconds for which clients may cache results, by the capability of their methods."""
    cache_scope: CacheScope = "private"
    log_level: LogLevel = "info"
    secrets: tuple[str, ...] = ()
    """Keys that seal values that travel through the client, the current one first; none: a random
    one for the lifetime of the process."""
    state_lifetime: float = 3600
    ask_timeout: float = 600
    expose_errors: tuple[type[Exception], ...] = ()
    tasks: Any = None
    """The `mcpkit.tasks.options.TaskSettings`; None: the defaults."""
    scope_hierarchy: Hierarchy = Hierarchy({})
    limits: Limits = Limits()
    """The limits, also of every HTTP endpoint that has none of its own."""


def check_offers(offers: Collection[Capability]) -> Collection[Capability]:
    """Return the capabilities to advertise from the start; raises if one is unknown."""
    if isinstance(offers, str):
        raise TypeError(f"offers={offers!r}: pass several names, such as ({offers!r},)")
    if unknown := set(offers) - {*get_args(Capability)}:
        known = ", ".join(get_args(Capability))
        raise ValueError(f"offers: unknown {', '.join(sorted(unknown))}; known: {known}")
    return offers


def ttl_of_each(cache_ttl: float | Mapping[ListKind, float]) -> Mapping[str | None, float]:
    """Return the seconds for each kind of list; those for None are of the server's description."""
    kinds = get_args(ListKind)
    if not isinstance(cache_ttl, Mapping):
        return dict.fromkeys((*kinds, None), cache_ttl) if cache_ttl else {}
    if unknown := cache_ttl.keys() - {*kinds}:
        names = ", ".join(sorted(unknown))
        raise ValueError(f"cache_ttl: unknown {names}; known: {', '.join(kinds)}")
    return {kind: cache_ttl.get(kind, 0) for kind in kinds}


@dataclass(slots=True)
class Server:
    """What all sessions of a server share."""

    info: Implementation
    load_handlers: Callable[[], Mapping[str, Handler]]
    """Returns the handlers by the names in `Method.operation`. It is called when the first session
    needs them, since it imports more than an app that is only made does."""
    registry: Registry
    instructions: str | None = None
    settings: Settings = field(default_factory=Settings)
    states: Mapping[Any, Any] = field(default_factory=lambda: {None: None})
    """What lifespans have yielded: of this app by None, of included apps by the app."""
    steps: StepMemory = field(default_factory=StepMemory)
    changes: Changes = field(default_factory=Changes)
    middleware: tuple[Middleware, ...] = ()
    """Functions around every handler, the first outermost; see `mcpkit.middleware`."""
    has_apps: bool = False
    """True if the app includes others, whose middleware is run for their entries."""
    extensions: list[Extension] = field(default_factory=list["Extension"])
    """The extensions, the one with the outermost hooks first."""
    extension_methods: dict[tuple[str, str], Method] = field(
        default_factory=dict[tuple[str, str], Method]
    )
    """The methods of extensions, by name and version."""
    converters: Converters = field(default_factory=Converters)
    assumed_scopes: frozenset[str] | None = None
    """The scopes of a caller without HTTP; None: scopes do not apply to it."""
    overrides: Mapping[Callable[..., Any], Callable[..., Any]] = field(
        default_factory=dict[Callable[..., Any], Callable[..., Any]]
    )
    """Functions that replace those of dependencies, in tests."""
    loaders: list[tuple[frozenset[str], Callable[[], Extension]]] = field(
        default_factory=list[tuple[frozenset[str], Callable[[], "Extension"]]]
    )
    """Functions that load the extensions which serve some capabilities, until one is advertised."""
    memory: dict[str, Any] = field(default_factory=dict[str, Any])
    """What extensions keep in this process, by their identifiers."""
    observers: Observers = field(default_factory=Observers)
    """What learns of requests and refused messages, such as the audit log."""
    services: Services | None = None
    """What extensions run on this event loop, while the server is served."""
    all_services: list[Services] = field(default_factory=list["Services"])
    """Those of all event loops of this process."""
    ready_checks: list[tuple[Callable[..., Any], float]] = field(
        default_factory=list[tuple[Callable[..., Any], float]]
    )
    """The functions of `MCPKit.ready` and their timeouts."""
    suspended: Any = None
    """The `mcpkit._server.suspended.SuspendedRuns` of this event loop, while the server is
    served."""
    _sealers: dict[str, Sealer] = field(default_factory=dict[str, Sealer])
    info_texts: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """The texts that `info_meta` has encoded, by the versions of revisions."""

    catalog: Catalog = field(init=False)
    """The entries that a request can see: the registry, or a view of it."""

    choosers: list[tuple[Choose, Judge]] = field(default_factory=list["tuple[Choose, Judge]"])
    """The functions of `MCPKit.view`."""

    _views: dict[Any, tuple[int, Server]] = field(
        default_factory=dict[Any, "tuple[int, Server]"], init=False
    )
    """The server for requests with some choices, and the version of the registry then."""

    composed: dict[str, Handler] = field(default_factory=dict[str, Handler], init=False)
    """The handlers with the middleware around them, once a session has needed them."""

    def __post_init__(self) -> None:
        self.catalog = self.registry
        self.registry.on_change = self.changes.announce  # those that include it announce theirs
        self.registry.on_advertise = self.load

    def load(self, capabilities: Collection[str]) -> None:
        """Load the extensions that serve some capabilities."""
        for each in [*self.loaders]:
            if not each[0].isdisjoint(capabilities):
                self.loaders.remove(each)
                self._take(each[1]())

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers with the middleware around them, by name."""
        if not self.composed:
            found = {**self.load_handlers()}
            for each in self.extensions:
                found |= each.handlers()
            for each in reversed(self.extensions):
                found |= each.wrap(found, self.converters)
            if self.has_apps:
                found |= {name: in_its_app(name, each) for name, each in found.items()}
            self.composed.update(
                {
                    name: compose(each, self.middleware, self.converters)
                    for name, each in found.items()
                }
            )
        return self.composed

    def extend(self, extension: Extension) -> None:
        """Add an extension; see `MCPKit.extend`."""
        from mcpkit.extension import Extension

        if not isinstance(extension, Extension):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"extend({extension!r}): pass an Extension")
        at = f"{caller()}extend({extension.identifier})"
        for each in self.extensions:
            if each.identifier == extension.identifier:
                raise RegistrationError(f"{at}: the app has this extension already")
            if taken := each.methods.keys() & extension.methods.keys():
                raise RegistrationError(
                    f"{at}: {min(taken)} is a method of {each.identifier} already"
                )
        if self.composed:
            raise RegistrationError(f"{at}: add it before the app is served")
        self._take(extension)

    def _take(self, extension: Extension) -> None:
        extension.is_added = True
        # At once: a list is empty for other threads while it is sorted.
        self.extensions[:] = sorted(
            [*self.extensions, extension], key=lambda each: each.is_implicit
        )
        for name, method in extension.methods.items():
            for version in method.versions:
                self.extension_methods[name, version] = method.known
        self.registry.additions = (*self.registry.additions, *extension.entry_metas)
        self.registry.offer([extension.identifier])
        self.recompose()

    def extension(self, identifier: str) -> Extension:
        """Return an extension that the server has."""
        return next(each for each in self.extensions if each.identifier == identifier)

    def declare_extensions_of(self, other: Server) -> None:
        """Declare the extensions of another server instead, also in sessions that are open."""
        self.extensions[:] = other.extensions[:]
        methods = {**other.extension_methods}
        self.extension_methods.clear()
        self.extension_methods.update(methods)
        self.recompose()

    def include(self, inclusion: Inclusion, changes: Changes) -> None:
        """Include another registry and its changes; raises `RegistrationError`."""
        self.registry.include(inclusion)
        changes.forward(self.changes, inclusion.prefix)
        if inclusion.app is not None:
            self.has_apps = True
            self.recompose()

    def provide(
        self, provider: Provider, defaults: Defaults = NO_APP, **options: Any
    ) -> ProviderContext:
        """Include what a provider has, with options of `Inclusion`; raises `RegistrationError`."""
        registry, changes = Registry(), Changes()
        registry.on_change = changes.announce
        context = ProviderContext(provider, defaults, registry, changes)
        self.include(Inclusion(registry, self.registry, **options), changes)
        return context

    def recompose(self) -> None:
        """Put together the handlers again, if there are any, for what was added to them."""
        if self.composed:
            self.composed.update(self.replace(composed={}).handlers())

    def add_middleware(self, middleware: Middleware) -> None:
        """Put a function around every handler, inside those that are there."""
        self.middleware = (*self.middleware, middleware)
        self.composed = {}

    def sealer(self, purpose: str) -> Sealer:
        """Return the sealer of texts for one purpose, such as ``"request state"``."""
        if purpose not in self._sealers:
            self._sealers[purpose] = Sealer(self.settings.secrets, purpose, self.info.name)
        return self._sealers[purpose]

    async def read_resource(self, uri: str, context: Context[Any]) -> ResourceResult:
        """Read the resource at a URI; `ResourceNotFound` if there is none."""
        found = self.catalog.resource(uri)
        if found is None:
            raise ResourceNotFound(uri)
        entry, variables = found
        if entry.origin is not context.origin:
            context = Context(context.backend, entry.origin)
        try:
            result = await entry.read(uri, variables, context)
        except UrlElicitationRequired as error:
            raise await context.backend.requester().open_url(error) from None
        except Exception as error:
            if (text := text_to_show(error, entry, ResourceError)) is None:
                raise
            raise ResourceError(text) from error
        ttl = entry.cache_ttl if result.cache_ttl is None else result.cache_ttl
        scope = result.cache_scope or entry.cache_scope
        # CACHE-4: a caller without permission must not find it in a shared cache.
        scope = "private" if entry.scopes or entry.allow else scope
        if (ttl, scope) == (result.cache_ttl, result.cache_scope):
            return result
        return ResourceResult(result.contents, cache_ttl=ttl, cache_scope=scope, meta=result.meta)

    def view_for(self, origin: RequestSource | None, request: Request | None = None) -> Server:
        """Return the same server with the entries that a request may see.

        Without a request, for an answer that has arrived alone, it is that of the caller's scopes.
        """
        try:
            choices = self._choices(origin, request)
            return self._seen_by(choices) if choices else self
        except Exception as error:  # of a function of the app, or its choice cannot be a key
            return self.replace(catalog=View(self.registry, ((fail, error),)))

    def _choices(self, origin: RequestSource | None, request: Request | None) -> Choices:
        registry = self.registry
        choices: list[tuple[Judge, Any]] = []
        if registry.restricted and (held := self._held_scopes(origin)) is not None:
            choices.append((by_scopes, (held, origin is None or origin.principal is not None)))
        if request is not None and registry.hides_tools and not request.client.shows_views:
            choices.append((by_hiding, None))
        if request is not None and self.choosers:
            client = Client(request.client, request.revision)
            http, principal = (None, None) if origin is None else (origin.http, origin.principal)
            found = Caller(http, principal, client)
            choices += [(judge, choose(found)) for choose, judge in self.choosers]
        return tuple(choices)

    def _seen_by(self, choices: Choices) -> Server:
        version = self.registry.version
        found = self._views.get(choices)
        if found is None or found[0] != version:
            made = self.replace(catalog=View(self.registry, choices))
            if len(self._views) >= MAX_VIEWS:
                self._views.clear()
            found = self._views[choices] = version, made
        return found[1]

    def check_scopes(self, entry: Restricted, origin: RequestSource | None) -> None:
        """Raise `Forbidden` if a caller lacks a scope of something."""
        scopes = self._held_scopes(origin)
        if scopes is not None:
            is_known = origin is None or origin.principal is not None
            refusal = refusal_of(entry, scopes, is_known=is_known)
            if refusal is not None:
                raise refusal

    def _held_scopes(self, origin: RequestSource | None) -> frozenset[str] | None:
        """Return the scopes that a caller has; None if scopes do not apply to it."""
        hierarchy = self.settings.scope_hierarchy
        if origin is not None:
            principal = origin.principal
            return hierarchy.held(frozenset() if principal is None else principal.scopes)
        return None if self.assumed_scopes is None else hierarchy.held(self.assumed_scopes)

    def replace(self, **changes: Any) -> Server:
        """Return the same server with other values of some fields."""
        made = copy.copy(self)
        made._views = {}
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    def info_meta(self, revision: Revision) -> bytes:
        """Return the encoded member of ``_meta`` that identifies the server (MSG-16)."""
        found = self.info_texts.get(revision.version)
        if found is None:
            info = wire.implementation_to_wire(self.info, revision)
            found = self.info_texts[revision.version] = encode({SERVER_INFO_KEY: info})[1:-1]
        return found


class Services:
    """What extensions run on one event loop that serves a server."""

    def __init__(self, server: Server, loop: Loop) -> None:
        self.server = server.replace(services=self)
        self.loop = loop
        self.running: dict[str, Any] = {}
        """A `mcpkit.tasks.service.TaskService`, once needed, by the name of its extension."""
        self.threads: list[Threads] = []
        """The threads of calls that sessions share."""
        self.sessions: list[Any] = []
        """The sessions that have threads of their own."""

    def get(self, identifier: str) -> Any:
        """Return the service of an extension, which is made when it is first needed."""
        if identifier not in self.running:
            self.running[identifier] = self.server.extension(identifier).make_service(self)
        return self.running[identifier]

    @property
    def busy_threads(self) -> int:
        """The number of threads in which handlers run."""
        busy: int = sum(each.threads.busy for each in self.running.values())
        return busy

    async def aclose(self, grace: float = 0) -> None:
        """End all services; what cannot go on elsewhere has `grace` seconds."""
        for each in [*self.running.values()]:
            await each.aclose(grace)
