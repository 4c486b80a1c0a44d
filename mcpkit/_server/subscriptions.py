"""What one client wants to be told of, and the changes it has not been told of yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic_core import from_json

from mcpkit._concurrency.loop import Loop
from mcpkit._protocol.connection import SUBSCRIPTION_KEY, Connection, Request, State
from mcpkit._server.channel import size_of
from mcpkit._server.failures import not_found
from mcpkit._server.registry import Catalog, check_uri, uri_of
from mcpkit._server.server import Server
from mcpkit._utils.json import is_array, is_object
from mcpkit._utils.logs import log
from mcpkit._utils.sealing import SealBroken
from mcpkit.context import ListKind
from mcpkit.errors import (
    Forbidden,
    InvalidParams,
    InvalidRequest,
    MissingClientCapability,
    ProtocolError,
    ResourceNotFound,
)
from mcpkit.tasks.protocol import EXTENSION, declares, detailed, task_members

if TYPE_CHECKING:
    from mcpkit.tasks.record import Task
    from mcpkit.tasks.service import TaskService

__all__ = ["Notify", "Subscriptions"]

T = TypeVar("T")

Notify = Callable[[str, "Mapping[str, Any] | None", "Request | None"], None]
"""Sends a notification: its method, its params, and the request that it belongs to."""

Reserve = Callable[[int, Request], None]
"""Counts bytes that are kept for the client, or raises a `ProtocolError` if they are too many."""

_noting: Final = threading.RLock()
"""Held while a change is noted: it may be announced in any thread."""

_LIST_FILTERS: Final[Mapping[str, ListKind]] = {
    "toolsListChanged": "tools",
    "promptsListChanged": "prompts",
    "resourcesListChanged": "resources",
}


class _Listen:
    """A stream of changes that a client asked for (``subscriptions/listen``)."""

    __slots__ = ("kinds", "request", "tasks", "uris")

    def __init__(
        self,
        request: Request,
        kinds: frozenset[ListKind],
        uris: frozenset[str],
        tasks: frozenset[str],
    ) -> None:
        self.request = request
        self.kinds = kinds
        self.uris = uris
        self.tasks = tasks

    @property
    def tag(self) -> dict[str, Any]:
        """The ``_meta`` of every message on this stream (SUB-4)."""
        return {SUBSCRIPTION_KEY: self.request.id}


class Subscriptions:
    """The subscriptions of one session.

    Args:
        server: Announces changes.
        connection: Of the session.
        loop: The event loop.
        notify: Sends what the client is told.
        reserve: Counts the URIs that it watches.
    """

    __slots__ = (
        "__weakref__",
        "_attached",
        "_connection",
        "_dirty_kinds",
        "_dirty_uris",
        "_ended",
        "_flushing",
        "_listens",
        "_loop",
        "_notify",
        "_reserve",
        "_server",
        "_tasks",
        "_waiting",
        "_watched",
        "catalog",
    )

    def __init__(
        self,
        server: Server,
        connection: Connection,
        loop: Loop,
        notify: Notify,
        reserve: Reserve,
    ) -> None:
        self._server = server
        self._connection = connection
        self._loop = loop
        self._notify = notify
        self._reserve = reserve
        self._watched: set[str] = set()
        self.catalog: Catalog | None = None
        """What the last request of the session may see; None: everything, or not known yet."""
        self._listens: dict[Request, _Listen] = {}
        self._dirty_kinds: dict[ListKind, None] = {}
        self._dirty_uris: dict[str, None] = {}
        self._flushing = False
        self._attached = False
        self._ended = False
        self._tasks: dict[str, int] = {}
        """The tasks that are followed, and how many times each."""
        self._waiting: dict[str, Request] = {}
        """The request that waits for the outcome of each, if one does."""

    def __bool__(self) -> bool:
        """True if the client asked to be told of something in particular."""
        return bool(self._watched or self._listens)

    @property
    def watched(self) -> frozenset[str]:
        """The URIs of the resources that the client has subscribed to."""
        return frozenset(self._watched)

    def watch(self, uris: frozenset[str]) -> None:
        """Take up subscriptions that the client has made before."""
        self.attach()
        added = uris - self._watched
        self._watched |= added
        self._server.changes.watch(self, added)

    def attach(self) -> None:
        """Take an interest in changes."""
        if not self._attached:
            self._attached = True
            changes = self._server.changes
            changes.attach(self)
            changes.watch(self, self._watched)
            for listen in self._listens.values():
                changes.watch(self, listen.uris)

    def detach(self) -> None:
        """Take no interest in changes any more."""
        self._attached = False
        self._server.changes.detach(self)

    def end(self) -> None:
        """Tell nothing any more: the session ends."""
        self._ended = True
        self.detach()
        for id in list(self._tasks):
            self._unfollow(id, all_of_them=True)

    # --- resources/subscribe ----------------------------------------------------------------------

    def subscribe(self, catalog: Catalog, request: Request) -> Mapping[str, Any]:
        """``resources/subscribe``: tell of changes of a resource, and of what lies below it."""
        uri = uri_of(request.params)
        self.catalog = catalog
        if catalog.resource(uri) is None:
            raise not_found(ResourceNotFound(uri), uri, request.revision)
        if uri in self._watched:
            return {}
        if len(self._watched) >= self._server.settings.max_subscriptions:
            raise InvalidRequest(f"More than {len(self._watched)} subscriptions; end one first")
        self._reserve(size_of([uri]), request)
        self.watch(frozenset({uri}))
        return {}

    def unsubscribe(self, request: Request) -> Mapping[str, Any]:
        """``resources/unsubscribe``: the reverse."""
        uri = uri_of(request.params)
        if uri in self._watched:
            self._watched.discard(uri)
            self._reserve(-size_of([uri]), request)
            self._server.changes.unwatch(self, [uri])
        return {}

    # --- subscriptions/listen ---------------------------------------------------------------------

    def listen(self, catalog: Catalog, request: Request) -> None:
        """``subscriptions/listen``: tell of changes on a stream, which stays open."""
        wanted = request.params.get("notifications")
        if not is_object(wanted):
            raise InvalidParams('subscriptions/listen needs "notifications", an object')
        if len(self._listens) >= self._server.settings.max_subscriptions:
            raise InvalidRequest(f"More than {len(self._listens)} subscriptions; end one first")
        advertised = catalog.advertised
        uris = wanted.get("resourceSubscriptions", [])
        if not is_array(uris) or not all(isinstance(uri, str) for uri in uris):
            raise InvalidParams('"resourceSubscriptions" must be an array of strings')
        most = self._server.settings.max_subscriptions
        if len(uris) > most:
            raise InvalidParams(f'"resourceSubscriptions" has more than {most} URIs')
        honoured: dict[str, Any] = {
            name: True
            for name, kind in _LIST_FILTERS.items()
            if wanted.get(name) is True and kind in advertised
        }
        for uri in uris:
            check_uri(uri)
        known: list[str] = [uri for uri in uris if catalog.resource(uri) is not None]
        if known:
            honoured["resourceSubscriptions"] = known
        kinds: frozenset[ListKind] = frozenset(
            kind for name, kind in _LIST_FILTERS.items() if name in honoured
        )
        ids = self._task_ids(wanted, request)
        if ids:
            honoured["taskIds"] = ids
        self._reserve(size_of([*known, *ids]), request)
        request.params = {}  # which may be long, and the stream stays open
        self.attach()
        listen = self._listens[request] = _Listen(request, kinds, frozenset(known), frozenset(ids))
        self._server.changes.watch(self, listen.uris)
        for id in listen.tasks:
            self._follow(id)
            self._loop.soon(partial(self._tell_state, id, listen))
        # SUB-1: the acknowledgement is the first message of a subscription.
        params = {"notifications": honoured, "_meta": listen.tag}
        self._notify("notifications/subscriptions/acknowledged", params, request)

    def forget(self, request: Request) -> None:
        """Drop the stream of a request that is over, if it had one."""
        listen = self._listens.pop(request, None)
        if listen is not None:
            self._server.changes.unwatch(self, listen.uris)
            for id in listen.tasks:
                self._unfollow(id)

    def end_listens(
        self, ended: Callable[[Request, Mapping[str, Any]], None], *, announce: bool
    ) -> None:
        """End every stream of changes from this side (SUB-6).

        Args:
            ended: Called with the request of each, and the ``_meta`` of its result.
            announce: Also send ``notifications/cancelled`` for it, as stdio wants (SUB-7).
        """
        for request, listen in list(self._listens.items()):
            self.forget(request)
            if announce:
                self._notify("notifications/cancelled", {"requestId": request.id}, request)
            ended(request, listen.tag)

    # --- tasks ------------------------------------------------------------------------------------

    def _task_ids(self, wanted: Mapping[str, Any], request: Request) -> list[str]:
        """Return the tasks that a stream is to tell of.

        Raises:
            MissingClientCapability: The client does not know the extension (SUB-10).
        """
        if "taskIds" not in wanted or self._server.tasks is None:
            return []
        if not declares(request.client):
            raise MissingClientCapability({"extensions": {EXTENSION: {}}})
        ids = wanted["taskIds"]
        if not is_array(ids) or not all(isinstance(id, str) for id in ids):
            raise InvalidParams('"taskIds" must be an array of strings')
        most = self._server.settings.max_subscriptions
        if len(ids) > most:
            raise InvalidParams(f'"taskIds" has more than {most} ids')
        return list(dict.fromkeys(ids))

    def announce_task(self, id: str) -> None:
        """Tell of a task that the client has begun, where clients are told so (2025-11-25)."""
        revision = self._connection.revision
        if revision is not None and revision.tasks == "wished":
            self._follow(id)

    @contextmanager
    def attach_task(self, id: str, request: Request) -> Generator[None, None, None]:
        """Around a request that waits for a task: what the task tells goes along with it."""
        self._follow(id)
        self._waiting[id] = request
        try:
            yield
        finally:
            if self._waiting.get(id) is request:
                del self._waiting[id]
            self._unfollow(id)

    def _follow(self, id: str) -> None:
        tasks = self._server.tasks
        if tasks is not None and not self._ended:
            if id not in self._tasks:
                tasks.follow(id, self)
            self._tasks[id] = self._tasks.get(id, 0) + 1

    def _unfollow(self, id: str, *, all_of_them: bool = False) -> None:
        tasks = self._server.tasks
        count = self._tasks.pop(id, 0)
        if count > 1 and not all_of_them:
            self._tasks[id] = count - 1
        elif count and tasks is not None:
            tasks.unfollow(id, self)

    def task_changed(self, task: Task) -> None:
        """Tell the client how it stands with a task."""
        tasks = self._server.tasks
        if self._ended or tasks is None:
            return
        revision = self._connection.revision
        if revision is not None and revision.tasks == "wished":
            params = task_members(task, revision, tasks.settings.poll_interval)
            self._notify("notifications/tasks/status", params, self._waiting.get(task.id))
        for listen in list(self._listens.values()):
            if task.id in listen.tasks:
                self._tell_details(task, listen, tasks)
        if task.is_over:
            self._unfollow(task.id, all_of_them=True)

    def _tell_state(self, id: str, listen: _Listen) -> None:
        """Tell a stream how it stands with a task when the stream begins."""
        tasks = self._server.tasks
        if tasks is not None and not self._ended:
            self._loop.start(self._tell_of(id, listen, tasks))

    async def _tell_of(self, id: str, listen: _Listen, tasks: TaskService) -> None:
        try:
            task = await tasks.get(id, tasks.owner_of(listen.request))
        except InvalidParams:  # it is nobody's, or not this client's
            if listen.request in self._listens and id in listen.tasks:
                listen.tasks -= {id}
                self._unfollow(id)
        except ProtocolError:
            pass  # it is told of the next change
        else:
            self._tell_details(task, listen, tasks)

    def _tell_details(self, task: Task, listen: _Listen, tasks: TaskService) -> None:
        """Tell a stream all that there is to know of a task, if that is its client's."""
        request = listen.request
        if task.owner == tasks.owner_of(request) and request in self._listens:
            try:
                details = from_json(
                    b"{%b}"
                    % detailed(task, request.revision, tasks.settings.poll_interval, tasks.open)
                )
            except SealBroken:
                log.warning("the task %s was made with another secret, or changed", task.id)
                return
            self._notify("notifications/tasks", {**details, "_meta": listen.tag}, request)

    def task_gone(self, id: str) -> None:
        """Note that nothing more will be told of a task."""
        self._tasks.pop(id, None)

    def task_said(self, id: str, method: str, params: Mapping[str, Any]) -> None:
        """Pass on what the handler of a task tells."""
        if not self._ended:
            self._notify(method, params, self._waiting.get(id))

    # --- changes ----------------------------------------------------------------------------------

    def list_changed(self, kind: ListKind) -> None:
        """A list has changed: tell the client, if it is one that wants to know. From any thread."""
        self._note(self._dirty_kinds, kind)

    def resource_changed(self, uri: str) -> None:
        """A resource has changed that the client watches: tell it. From any thread."""
        self._note(self._dirty_uris, uri)

    def _note(self, dirty: dict[T, None], changed: T) -> None:
        # Many changes at once become one notification of each kind.
        with _noting:
            dirty[changed] = None
            begun, self._flushing = self._flushing, True
        if not begun:
            self._loop.soon(self.flush)

    def _may_see(self, uri: str) -> bool:
        """Return False if a later token of the client is for less than an earlier one."""
        try:
            return self.catalog is None or self.catalog.resource(uri) is not None
        except Forbidden:
            return False

    def flush(self) -> None:
        """Tell the client of the changes that it has not been told of."""
        with _noting:
            self._flushing = False
            if self._ended or self._connection.state is State.OPENING:
                return  # LIFE-6: kept until notifications/initialized arrives
            kinds, uris = list(self._dirty_kinds), list(self._dirty_uris)
            self._dirty_kinds.clear()
            self._dirty_uris.clear()
        handshaken = self._connection.state is State.OPEN
        for kind in kinds:
            method = f"notifications/{kind}/list_changed"
            if handshaken:
                self._notify(method, None, None)
            for listen in self._listens.values():
                if kind in listen.kinds:
                    self._notify(method, {"_meta": listen.tag}, listen.request)
        for uri in uris:
            method = "notifications/resources/updated"
            affected = self._server.changes.affected(uri)
            if handshaken and any(map(self._may_see, self._watched.intersection(affected))):
                self._notify(method, {"uri": uri}, None)
            for listen in self._listens.values():
                if not listen.uris.isdisjoint(affected):
                    self._notify(method, {"uri": uri, "_meta": listen.tag}, listen.request)
