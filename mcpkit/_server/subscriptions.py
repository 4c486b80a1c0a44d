"""The subscriptions of one client, and the changes that it has not been notified of yet."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from mcpkit._concurrency.loop import Loop
from mcpkit._protocol.connection import SUBSCRIPTION_KEY, Connection, Request, State
from mcpkit._server.channel import size_of
from mcpkit._server.failures import not_found
from mcpkit._server.lookup import check_uri, check_uris, uri_of
from mcpkit._server.registry import Catalog, Found
from mcpkit._server.server import Server
from mcpkit._utils.json import is_array, is_object
from mcpkit.context import Context, ListKind
from mcpkit.errors import Forbidden, InvalidParams, InvalidRequest, MethodNotFound, ResourceNotFound

if TYPE_CHECKING:
    from mcpkit.extension import Extension

T = TypeVar("T")

_noting: Final = threading.RLock()
"""Held while a change is noted: it may be announced in any thread."""

_LIST_FILTERS: Final[Mapping[str, ListKind]] = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}


class _Stream(NamedTuple):
    """A stream of changes that a client has opened with ``subscriptions/listen``."""

    request: Request
    kinds: frozenset[ListKind]
    uris: frozenset[str]


def tag_of(request: Request) -> dict[str, Any]:
    """Return the ``_meta`` of every message on the stream of a request (SUB-4)."""
    return {SUBSCRIPTION_KEY: request.id}


class Subscriptions:
    """The subscriptions of one session.

    `notify` sends a notification: its method, its params, and the request that it belongs to;
    `reserve` counts bytes that are kept for the client, or raises a `ProtocolError`.
    """

    def __init__(
        self,
        server: Server,
        connection: Connection,
        loop: Loop,
        notify: Callable[[str, Mapping[str, Any] | None, Request | None], None],
        reserve: Callable[[int, Request], None],
    ) -> None:
        self.server = server
        self.connection = connection
        self.loop = loop
        self.notify = notify
        self._reserve = reserve
        self.watched: set[str] = set()
        """The URIs of the resources that the client has subscribed to."""
        self.catalog: Catalog | None = None
        """The entries that the last request could see; None: all, or no request has arrived."""
        self._streams: dict[Request, _Stream] = {}
        self._dirty_kinds: dict[ListKind, None] = {}
        self._dirty_uris: dict[str, None] = {}
        self._flushing = False
        self._notifying = False
        self._ended = False
        self._followers: dict[str, Any] = {}
        """What the client has subscribed to at extensions, by their identifiers."""

    def __bool__(self) -> bool:
        """True if the client has subscribed to anything."""
        return bool(self.watched or self._streams)

    def watch(self, uris: frozenset[str]) -> None:
        """Subscribe to resources, as the client has asked in this session or an earlier one."""
        self.start_notifying()
        added = uris - self.watched
        self.watched |= added
        self.server.changes.watch(self, added)

    def start_notifying(self) -> None:
        """Notify the client of changes from now on."""
        if not self._notifying:
            self._notifying = True
            changes = self.server.changes
            changes.add(self)
            changes.watch(self, self.watched)
            for stream in self._streams.values():
                changes.watch(self, stream.uris)

    def stop_notifying(self) -> None:
        """Stop notifying the client of changes."""
        self._notifying = False
        self.server.changes.remove(self)

    def end(self) -> None:
        """Stop for good: the session ends."""
        self._ended = True
        self.stop_notifying()
        for each in self._following():
            each.end()

    # --- resources/subscribe ----------------------------------------------------------------------

    def subscribe(self, catalog: Catalog, context: Context[Any]) -> Any:
        """``resources/subscribe``: notify of changes of a resource, and of those below it."""
        request = context.request
        _check_streams(request)
        uri = uri_of(request.params)
        self.catalog = catalog
        found = catalog.resource(uri)
        resources = {} if found is None else {uri: found}
        return _once_allowed(resources, context, partial(self._subscribe, uri, request))

    def _subscribe(self, uri: str, request: Request, known: Sequence[str]) -> Mapping[str, Any]:
        if not known:
            raise not_found(ResourceNotFound(uri), uri, request.revision)
        if uri in self.watched:
            return {}
        if len(self.watched) >= self.server.settings.limits.max_subscriptions:
            raise InvalidRequest(f"More than {len(self.watched)} subscriptions; end one first")
        self._reserve(size_of([uri]), request)
        self.watch(frozenset({uri}))
        return {}

    def unsubscribe(self, request: Request) -> Mapping[str, Any]:
        """``resources/unsubscribe``: stop notifying of changes of a resource."""
        uri = uri_of(request.params)
        if uri in self.watched:
            self.watched.discard(uri)
            self._reserve(-size_of([uri]), request)
            self.server.changes.unwatch(self, [uri])
        return {}

    # --- subscriptions/listen ---------------------------------------------------------------------

    def listen(self, catalog: Catalog, context: Context[Any]) -> Any:
        """``subscriptions/listen``: notify of changes on a stream; it is answered later."""
        request = context.request
        _check_streams(request)
        wanted = request.params.get("notifications")
        if not is_object(wanted):
            raise InvalidParams('subscriptions/listen needs "notifications", an object')
        known: dict[str, Found] = {}
        uris = self.strings(wanted, "resourceSubscriptions")
        check_uris(uris)
        for uri in uris:
            check_uri(uri)
            found = catalog.resource(uri)
            if found is not None:
                known[uri] = found
        return _once_allowed(known, context, partial(self._listen, catalog, request, wanted))

    def _listen(
        self,
        catalog: Catalog,
        request: Request,
        wanted: Mapping[str, Any],
        known: Sequence[str],
    ) -> None:
        if len(self._streams) >= self.server.settings.limits.max_subscriptions:
            raise InvalidRequest(f"More than {len(self._streams)} subscriptions; end one first")
        accepted: dict[str, Any] = {
            name: True
            for name, kind in _LIST_FILTERS.items()
            if wanted.get(name) is True and kind in catalog.advertised
        }
        if known:
            accepted["resourceSubscriptions"] = known
        kinds: frozenset[ListKind] = frozenset(
            kind for name, kind in _LIST_FILTERS.items() if name in accepted
        )
        strings = [*known]
        for extension in self.server.extensions:
            follower = self.follower_of(extension)
            if follower is not None:
                more = follower.accept(wanted, request)
                accepted |= more
                strings += [each for values in more.values() for each in values]
        self._reserve(size_of(strings), request)
        request.params = {}  # they may be long, and the stream stays open
        self.start_notifying()
        stream = _Stream(request, kinds, frozenset(known))
        self._streams[request] = stream
        self.server.changes.watch(self, stream.uris)
        # SUB-1: the acknowledgement is the first message of a subscription.
        params = {"notifications": accepted, "_meta": tag_of(request)}
        self.notify("notifications/subscriptions/acknowledged", params, request)
        for each in self._following():
            each.opened(request, accepted)

    def strings(self, wanted: Mapping[str, Any], name: str) -> list[str]:
        """Return the value of a filter, an array of strings; `InvalidParams` if it is not one."""
        found = wanted.get(name, [])
        limit = self.server.settings.limits.max_subscriptions
        if not is_array(found) or not all(isinstance(each, str) for each in found):
            raise InvalidParams(f'"{name}" must be an array of strings')
        if len(found) > limit:
            raise InvalidParams(f'"{name}" has more than {limit} strings')
        return found

    def forget(self, request: Request) -> None:
        """Drop the stream of a request that is over, if it had one."""
        stream = self._streams.pop(request, None)
        if stream is not None:
            self.server.changes.unwatch(self, stream.uris)
            for each in self._following():
                each.closed(request)

    def end_listens(self, *, announce: bool) -> list[Request]:
        """End every stream of changes; return their requests."""
        requests = list(self._streams)
        for request in requests:
            self.forget(request)
            if announce:
                self.notify("notifications/cancelled", {"requestId": request.id}, request)
        return requests

    # --- extensions -------------------------------------------------------------------------------

    def follower_of(self, extension: Extension) -> Any:
        """Return what the client may subscribe to at an extension, if there is anything."""
        if extension.identifier not in self._followers:
            self._followers[extension.identifier] = extension.follow(self)
        return self._followers[extension.identifier]

    def _following(self) -> list[Any]:
        return [each for each in self._followers.values() if each is not None]

    # --- changes ----------------------------------------------------------------------------------

    def list_changed(self, kind: ListKind) -> None:
        """Notify the client of a changed list, if it subscribed to it. From any thread."""
        self._note(self._dirty_kinds, kind)

    def resource_changed(self, uri: str) -> None:
        """Notify the client of a changed resource. From any thread."""
        self._note(self._dirty_uris, uri)

    def _note(self, dirty: dict[T, None], changed: T) -> None:
        # Many changes at once become one notification of each kind.
        with _noting:
            dirty[changed] = None
            scheduled, self._flushing = self._flushing, True
        if not scheduled:
            self.loop.soon(self.flush)

    def _may_see(self, uri: str) -> bool:
        """Return False if a later token of the client has fewer scopes than an earlier one."""
        try:
            return self.catalog is None or self.catalog.resource(uri) is not None
        except Forbidden:
            return False

    def flush(self) -> None:
        """Notify the client of the changes that wait."""
        with _noting:
            self._flushing = False
            if self._ended or self.connection.state is State.OPENING:
                return  # LIFE-6: kept until notifications/initialized arrives
            kinds, uris = list(self._dirty_kinds), list(self._dirty_uris)
            self._dirty_kinds.clear()
            self._dirty_uris.clear()
        handshaken = self.connection.state is State.OPEN
        for kind in kinds:
            method = f"notifications/{kind}/list_changed"
            if handshaken:
                self.notify(method, None, None)
            for stream in self._streams.values():
                if kind in stream.kinds:
                    self.notify(method, {"_meta": tag_of(stream.request)}, stream.request)
        for uri in uris:
            method = "notifications/resources/updated"
            affected = self.server.changes.affected(uri)
            if handshaken and any(map(self._may_see, self.watched.intersection(affected))):
                self.notify(method, {"uri": uri}, None)
            for stream in self._streams.values():
                if not stream.uris.isdisjoint(affected):
                    params = {"uri": uri, "_meta": tag_of(stream.request)}
                    self.notify(method, params, stream.request)


def _check_streams(request: Request) -> None:
    """Refuse to notify a client whom no notification would reach."""
    if not request.streams:
        raise MethodNotFound("There are no subscriptions here: the host does not stream")


def _once_allowed(
    resources: Mapping[str, Found], context: Context[Any], act: Callable[[Sequence[str]], T]
) -> T | Awaitable[T]:
    """Act on the URIs that there are: at once, or when the guards of the resources have allowed it.

    Guards do not apply to callers without HTTP.
    """
    if context.request.origin is None or not any(e.is_guarded for e, _ in resources.values()):
        return act([*resources])

    async def act_when_allowed() -> T:
        known: list[str] = []
        for uri, (entry, variables) in resources.items():
            with suppress(ResourceNotFound):
                if entry.is_guarded:
                    await entry.admit(uri, variables, context)
                known.append(uri)
        return act(known)

    return act_when_allowed()
