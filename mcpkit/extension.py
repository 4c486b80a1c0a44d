"""Extensions of the protocol: requests and hooks under a negotiated identifier.

Both sides declare the extensions that they support in their capabilities, each with settings. The
specification describes the negotiation in `basic/versioning` (EXT-1 to EXT-19).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, cast, get_args

from pydantic_core import from_json, to_json
from typing_extensions import TypeVar

from mcpkit._entries import Listing
from mcpkit._injection import CallPlan, inspect_handler
from mcpkit._protocol.messages import Encoded
from mcpkit._protocol.revisions import BY_VERSION, OPERATIONS, Method, Revision
from mcpkit._signature.arguments import Arguments
from mcpkit._signature.converters import Converters
from mcpkit._signature.hints import location
from mcpkit._signature.signature import can_take, is_async
from mcpkit._utils.json import is_object, value_at
from mcpkit._utils.names import caller
from mcpkit.context import Context, Facts
from mcpkit.errors import (
    InvalidArguments,
    InvalidParams,
    MissingClientCapability,
    RegistrationError,
    UrlElicitationRequired,
)
from mcpkit.middleware import Handler, Middleware, MiddlewareT, Params, check_middleware, compose
from mcpkit.permissions import needed_scopes
from mcpkit.types import CacheScope

F = TypeVar("F", bound=Callable[..., Any])

EntryMeta: TypeAlias = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
EntryMetaT = TypeVar("EntryMetaT", bound=EntryMeta)

Settings: TypeAlias = Mapping[str, Any]
"""The settings of an extension, which are declared with its identifier: a JSON object."""

_LABEL: Final = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_IDENTIFIER: Final = re.compile(
    rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
)
_OFFICIAL: Final = "io.modelcontextprotocol/"

_METHOD: Final = re.compile(r"[A-Za-z0-9_$.-]+(?:/[A-Za-z0-9_$.-]+)+")
_NOTIFICATIONS: Final = "notifications/"

_CAPABILITIES: Final = (
    *("elicitation", "elicitation.form", "elicitation.url"),
    *("roots", "roots.listChanged", "sampling", "sampling.context", "sampling.tools"),
)
"""The capabilities of clients, as paths."""

_OF_RESULTS: Final = ("resultType", "ttlMs", "cacheScope")
_RESERVED: Final = [f'"{name}":'.encode() for name in ("_meta", *_OF_RESULTS)]
"""The members that revisions add to results, as they begin in JSON."""

_CORE: Final = frozenset(
    {
        *("sampling/createMessage", "roots/list", "elicitation/create"),
        *OPERATIONS,
        *(notice for each in BY_VERSION.values() for notice in each.notices),
    }
)
"""The methods of the protocol itself, which no extension may have (EXT-15)."""


class ExtensionMethod(NamedTuple):
    """A request of an extension."""

    key: str
    scopes: tuple[str, ...]
    known: Method
    handler: Handler
    versions: frozenset[str]


class Extension:
    """Requests, hooks and entries under an identifier; see `MCPKit.extend`.

    Args:
        identifier: ``prefix/name``, such as ``"com.example/geo"``, with a domain that you own,
            reversed (EXT-1, EXT-2).
        settings: The settings to declare, or a function of the context that returns them.
        entries: Modules, objects and apps whose tools, resources and prompts belong to it, as for
            `MCPKit.include`.
        mandatory: True to refuse its requests to clients that do not declare the extension.
        requires: The capabilities that clients need for its requests, each as a path with dots:
            ``("sampling", "elicitation.url")``.

    Raises:
        RegistrationError: The identifier is malformed or official, or the settings are not JSON.
    """

    _is_official: ClassVar[bool] = False
    is_implicit: ClassVar[bool] = False
    """True for what an app has by itself: its hooks are the innermost, and it may be included."""

    def __init__(
        self,
        identifier: str,
        *,
        settings: Settings | Callable[[Context[Any]], Settings] | None = None,
        entries: Iterable[object] = (),
        mandatory: bool = False,
        requires: Iterable[str] = (),
    ) -> None:
        at = caller()
        if not isinstance(identifier, str) or _IDENTIFIER.fullmatch(identifier) is None:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationError(
                f"{at}{identifier!r} is not an identifier of an extension; write a domain of "
                f'yours, reversed, and a name: "com.example/geo"'
            )
        if identifier.startswith(_OFFICIAL) and not self._is_official:
            raise RegistrationError(
                f"{at}{identifier!r}: {_OFFICIAL} is for official extensions; use a domain of yours"
            )
        self.identifier = identifier
        self.entries = tuple(entries)
        self.methods: dict[str, ExtensionMethod] = {}
        self.environment: list[str] = []
        """The environment variables that its functions need."""
        self.hooks: list[tuple[frozenset[str], Middleware]] = []
        self.entry_metas: list[tuple[frozenset[str], EntryMeta]] = []
        self.is_added = False
        """True once an app has it; then it takes no more methods and hooks."""
        at += identifier
        if not callable(settings):
            settings = {} if settings is None else _check_settings(settings, at)
        elif is_async(settings) or not can_take(settings, None):
            raise RegistrationError(f"{at}: settings= is a plain function of the context")
        self._settings = settings
        self._mandatory = mandatory
        self._requires = [*requires]
        if unknown := {*self._requires} - {*_CAPABILITIES}:
            raise RegistrationError(
                f"{at}: clients have no capability {min(unknown)!r}; known: "
                f"{', '.join(_CAPABILITIES)}"
            )

    def __repr__(self) -> str:
        return f"<Extension {self.identifier}>"

    # --- negotiation ------------------------------------------------------------------------------

    def declared_by(self, context: Facts[Any]) -> Settings | None:
        """Return the settings that the client of a request declares; None if it does not (EXT-9).

        They come from the client: validate them before use (EXT-18).
        """
        return self.declared_in(context.request.client.capabilities)

    def declared_in(self, capabilities: Mapping[str, Any], /) -> Settings | None:
        """Return the settings with which a client declares the extension; None if it does not."""
        found = value_at(capabilities, "extensions", self.identifier)
        return found if is_object(found) else None

    @property
    def depends_on_request(self) -> bool:
        """True if its settings are a function, so that they may differ between callers (EXT-19)."""
        return callable(self._settings)

    def check_client(self, context: Context[Any]) -> None:
        """Raise `MissingClientCapability` unless the client has what requests need (EXT-10)."""
        missing: dict[str, Any] = {}
        if self._mandatory and self.declared_by(context) is None:
            missing["extensions"] = {self.identifier: {}}
        for path in (each.split(".") for each in self._requires):
            if not context.client.supports(*path):
                inner = missing
                for part in path:
                    inner = inner.setdefault(part, {})
        if missing:
            error = MissingClientCapability(missing)
            if context.request.revision.handshake:  # EXT-11: its code is not defined there
                raise InvalidParams(error.message, data=error.data)
            raise error

    def notify(self, context: Facts[Any], method: str, params: Params | None = None) -> None:
        """Send a notification of the extension with a request, unless that is over.

        From any thread. It travels on the stream of the request, like progress.

        Args:
            context: The context of a handler.
            method: Such as ``"notifications/geo/moved"``.
            params: A JSON object.
        """
        backend = context.backend
        backend.session.notify(backend.request, method, params or {})

    def capabilities(self, advertised: Collection[str], context: Context[Any]) -> dict[str, Any]:
        """Return what the capabilities of the server have for the client of a request.

        Args:
            advertised: The names of the capabilities of the server.
            context: The context of the request.
        """
        settings = self._settings
        if callable(settings):
            settings = _check_settings(settings(context), self.identifier)
        return {"extensions": {self.identifier: settings}}

    # --- serving ----------------------------------------------------------------------------------

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of its methods, by the names in `Method.operation`."""
        return {each.known.operation: each.handler for each in self.methods.values()}

    def wrap(
        self, handlers: Mapping[str, Handler], converters: Converters
    ) -> Mapping[str, Handler]:
        """Return the handlers that it has hooks around, with the hooks."""
        wrapped: dict[str, Handler] = {}
        for name in {OPERATIONS[method] for methods, _ in self.hooks for method in methods}:
            around = [hook for methods, hook in self.hooks if name in map(OPERATIONS.get, methods)]
            wrapped[name] = compose(handlers[name], around, converters)
        return wrapped

    def start(self, services: Any) -> None:
        """Start what runs beside requests on an event loop that serves the app."""

    def make_service(self, services: Any) -> Any:
        """Return what ``services.get`` returns for this extension."""
        raise NotImplementedError

    def follow(self, subscriptions: Any) -> Any:
        """Return what a session may subscribe to besides: `mcpkit.tasks.listener.SessionTasks`."""

    def answer_to(
        self, server: Any, message: Mapping[str, Any], revision: Revision, principal: str | None
    ) -> Any:
        """Return the answer in a message, if it has asked: `mcpkit.tasks.handlers.AnswerToTask`."""

    # --- methods and hooks ------------------------------------------------------------------------

    def request(
        self,
        method: str,
        /,
        *,
        revisions: Collection[str] | None = None,
        scopes: Iterable[str] = (),
        cache_ttl: float | None = None,
    ) -> Callable[[F], F]:
        """Serve a request by a function: ``@geo.request("geo/locate")``.

        The parameters of the function are the members of ``params``, validated by their types;
        others are ignored. The context, dependencies, claims and environment variables are injected
        as in tools. The function returns a JSON object: a dict, a model or a dataclass, or None for
        an empty one; ``_meta`` in it is the ``_meta`` of the result.

        Only private caches may keep the result if scopes are needed or something is injected.

        Args:
            method: Such as ``"geo/locate"``; not a method of the protocol or another extension.
            revisions: The revisions that have the method; None: all.
            scopes: The scopes that a caller over HTTP needs.
            cache_ttl: Seconds for which clients may cache the result (2026-07-28); None: the result
                says nothing about caches.

        Raises:
            RegistrationError: The method is taken, a revision is unknown, or the function cannot be
                served.
        """
        return self._served(method, revisions, scopes, cache_ttl, is_notification=False)

    def notification(
        self,
        method: str,
        /,
        *,
        revisions: Collection[str] | None = None,
        scopes: Iterable[str] = (),
    ) -> Callable[[F], F]:
        """Serve a notification by a function: ``@geo.notification("notifications/geo/moved")``.

        It is served as those of `request` are, and counts toward the same limits, but it has no
        result: what it raises is logged. It cannot ask for input. Over HTTP the client gets its
        response, 202, when the function has returned.

        Args:
            method: Such as ``"notifications/geo/moved"``.
            revisions, scopes: As for `request`.

        Raises:
            RegistrationError: As for `request`.
        """
        return self._served(method, revisions, scopes, None, is_notification=True)

    def around(self, *methods: str) -> Callable[[MiddlewareT], MiddlewareT]:
        """Put an async function around requests, inside the app's middleware.

        ``@geo.around("tools/call")``; the function is like that of `MCPKit.middleware`. Use
        `declared_by` to leave clients alone that do not know the extension.

        Raises:
            RegistrationError: A method is not one of the protocol, or the function is not async.
        """

        if not methods or not all(isinstance(each, str) for each in methods):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationError(f'{caller()}around(…) needs methods: around("tools/call")')

        def add(fn: MiddlewareT) -> MiddlewareT:
            self._check_open(fn)
            if unknown := [each for each in methods if each not in OPERATIONS]:
                raise RegistrationError(f"{location(fn)}: there is no method {unknown[0]!r}")
            self.hooks.append((frozenset(methods), check_middleware(fn)))
            return fn

        return add

    def entry_meta(self, *lists: str) -> Callable[[EntryMetaT], EntryMetaT]:
        """Add members to ``_meta`` of the entries in some lists: ``@geo.entry_meta("tools")``.

        The function gets an entry as the list shows it, such as ``{"name": "add", …}``, and returns
        the members, or None. The lists are cached: it cannot depend on the request. Revisions
        before 2025-06-18 have no such ``_meta``.

        Args:
            lists: ``"tools"``, ``"resources"``, ``"resourceTemplates"`` and ``"prompts"``.

        Raises:
            RegistrationError: There is no such list, or the function does not take an entry.
        """

        def add(fn: EntryMetaT) -> EntryMetaT:
            self._check_open(fn)
            if not lists or not {*lists} <= {*get_args(Listing)}:
                known = ", ".join(map('"{}"'.format, get_args(Listing)))
                raise RegistrationError(f"{location(fn)}: entry_meta(…) needs some of {known}")
            if is_async(fn) or not can_take(fn, {}):
                raise RegistrationError(f"{location(fn)} is not a plain function of an entry")
            self.entry_metas.append((frozenset(lists), fn))
            return fn

        return add

    def _check_open(self, fn: Callable[..., Any]) -> None:
        if self.is_added:
            raise RegistrationError(
                f"{location(fn)}: an app has {self.identifier} already; call app.extend(…) after "
                f"this function"
            )

    def _served(
        self,
        method: str,
        revisions: Collection[str] | None,
        scopes: Iterable[str],
        cache_ttl: float | None,
        *,
        is_notification: bool,
    ) -> Callable[[F], F]:
        """Return the decorator of a function that serves a method."""
        kind = "notification" if is_notification else "request"
        example = f'"{_NOTIFICATIONS}geo/moved"' if is_notification else '"geo/locate"'
        if not isinstance(method, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise RegistrationError(f"{caller()}{kind}(…) needs a method: {kind}({example})")

        def add(fn: F) -> F:
            self._check_open(fn)
            at = location(fn)
            is_named = method.startswith(_NOTIFICATIONS) == is_notification
            if not is_named or _METHOD.fullmatch(method) is None:
                raise RegistrationError(f"{at}: {method!r} is not a method; write {example}")
            if method in _CORE or method in self.methods:
                whose = "the protocol" if method in _CORE else self.identifier
                raise RegistrationError(f"{at}: {method} is a method of {whose} already")
            wanted = [revisions] if isinstance(revisions, str) else revisions
            versions = frozenset(BY_VERSION if wanted is None else wanted)
            if unknown := versions.difference(BY_VERSION):
                raise RegistrationError(
                    f"{at}: there is no revision {min(unknown)}; known: {', '.join(BY_VERSION)}"
                )
            if cache_ttl is not None and not 0 <= cache_ttl < inf:
                raise RegistrationError(f"{at}: cache_ttl= is seconds, not {cache_ttl!r}")
            signature = inspect_handler(fn)
            if any(each.source == "ask" for each in signature.parameters):
                raise RegistrationError(
                    f"{at} declares an input request, which only tools, resources and prompts can"
                )
            plan = CallPlan(fn, signature)
            self.environment += plan.environment
            needed = needed_scopes(scopes, at)
            # Injected values may depend on the caller.
            is_private = bool(needed) or len(signature.arguments) < len(signature.parameters)
            scope: CacheScope | None = "private" if is_private else None
            served = _Function(self, method, at, plan, Arguments(signature), cache_ttl, scope)
            known = Method(
                f"{self.identifier} {method}",
                self.identifier,
                cache_ttl is not None,
                is_notification=is_notification,
            )
            made = ExtensionMethod(method, needed, known, served.handle, versions)
            self.methods[method] = made
            return fn

        return add


@dataclass(frozen=True, slots=True)
class _Function:
    """The function that serves a request of an extension."""

    extension: Extension
    method: str
    place: str
    plan: CallPlan
    accepts: Arguments
    cache_ttl: float | None
    cache_scope: CacheScope | None

    async def handle(self, server: Any, params: Params, context: Context[Any]) -> Encoded:
        self.extension.check_client(context)
        server.check_scopes(self.extension.methods[self.method], context.request.origin)
        names = (each.wire_name for each in self.accepts.fields)
        given = {name: params[name] for name in names if name in params}
        try:
            values = self.accepts.validate(given)
        except InvalidArguments as error:
            raise InvalidParams(f"{self.method}: {error}") from error
        try:
            found = await self.plan.run(values, context)
        except UrlElicitationRequired as error:
            raise await context.backend.requester().open_url(error) from None
        text = b"{}" if found is None else server.converters.json(found)
        if text[:1] != b"{":
            raise TypeError(f"{self.place} returned {found!r:.50}, not a JSON object")
        meta: Any = None
        if any(name in text for name in _RESERVED):
            value: dict[str, Any] = from_json(text)
            meta = value.pop("_meta", None)
            if not (meta is None or is_object(meta)):
                raise TypeError(f"{self.place} returned a _meta that is not an object: {meta!r}")
            # The revision adds those that it has.
            text = to_json({name: value[name] for name in value if name not in _OF_RESULTS})
        return Encoded(text[1:-1], meta, ttl=self.cache_ttl, scope=self.cache_scope)


def _check_settings(settings: Any, at: str) -> Settings:
    try:
        if not isinstance(settings, Mapping):
            raise TypeError(f"{settings!r} is not an object")
        found = dict(cast("Mapping[str, Any]", settings))
        json.dumps(found, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RegistrationError(f"{at}: the settings are not JSON: {error}") from None
    return found
