"""The common part of all sessions of a server: its registry, identity and settings."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mcpkit._entries import Entry, refusal_of
from mcpkit._input_requests.replay import StepMemory
from mcpkit._protocol import wire
from mcpkit._protocol.connection import SERVER_INFO_KEY, Request
from mcpkit._protocol.messages import encode
from mcpkit._protocol.revisions import Revision
from mcpkit._server.changes import Changes
from mcpkit._server.registry import Catalog, Registry, View
from mcpkit._signature.converters import Converters
from mcpkit._utils.logs import get_logger
from mcpkit._utils.sealing import Sealer
from mcpkit.limits import Limits
from mcpkit.middleware import Middleware
from mcpkit.permissions import Hierarchy
from mcpkit.tasks.options import TaskSettings
from mcpkit.types import CacheScope, Implementation, LogLevel

if TYPE_CHECKING:
    from mcpkit._stores.memory import Table
    from mcpkit.tasks.record import Task
    from mcpkit.tasks.service import TaskService

__all__ = ["Server", "Settings", "log"]

log = get_logger("mcpkit")


_MOST_SEEN: Final = 256
"""Sets of scopes whose views are kept."""


class Settings(NamedTuple):
    """The settings of a server.

    Args:
        page_size: Entries on a page of a list at most; None: all on one page.
        ttl: Seconds that clients may keep lists and resources for (2026-07-28).
        cache_scope: "public" if principals may share what clients keep.
        log_level: The least level sent to a client that has not set one (handshake revisions).
        max_threads: Plain ``def`` handlers that run at once. Over HTTP one client (its principal,
            else its network) gets three quarters of them while it is alone.
        max_in_flight: Requests of one connection that run at once; more wait.
        max_subscriptions: Resources, or streams of changes, that one connection may watch.
        secrets: Keys that seal what travels through the client's hands, the current one first;
            none: a random one that lives as long as the process.
        state_lifetime: Seconds that a request may be continued for (2026-07-28).
        ask_timeout: Seconds that a handler waits for an answer of the client.
        errors: The exceptions whose text is shown, where an entry does not say.
        tasks: How tasks are kept.
        scopes: The scopes that imply others.
        limits: Those of every HTTP endpoint that has none of its own.
    """

    page_size: int | None = None
    ttl: float = 0
    cache_scope: CacheScope = "private"
    log_level: LogLevel = "info"
    max_threads: int = 40
    max_in_flight: int = 1000
    max_subscriptions: int = 1000
    secrets: tuple[str, ...] = ()
    state_lifetime: float = 3600
    ask_timeout: float = 600
    errors: tuple[type[Exception], ...] = ()
    tasks: TaskSettings = TaskSettings()
    scopes: Hierarchy = Hierarchy({})
    limits: Limits = Limits()


@dataclass(slots=True)
class Server:
    """A server, as all its sessions share it.

    Args:
        info: Name and version.
        instructions: For the model, how to use the server.
        registry: Its entries.
        settings: As its author set them.
        state: The value that the lifespan yielded.
        steps: Results of steps of handlers that run again.
        changes: The bus on which changes are announced.
        middleware: Around every operation, the first outermost; see `mcpkit.middleware`.
        converters: For values that are no JSON.
        shows: Tells which entries a request may see; None: all.
        assumed_scopes: The scopes of a caller without HTTP; None: scopes
            mean nothing to them.
        overrides: What stands for functions that dependencies come from, in tests.
        shelf: What keeps tasks in this process, once there is a first one.
        tasks: What looks after tasks, while the server is served.
        task_services: All that looks after its tasks in this process, once for each event loop.
        info_texts: The texts that `info_meta` has encoded, by the versions of revisions.
    """

    info: Implementation
    registry: Registry
    instructions: str | None = None
    settings: Settings = field(default_factory=Settings)
    state: Any = None
    steps: StepMemory = field(default_factory=StepMemory)
    changes: Changes = field(default_factory=Changes)
    middleware: tuple[Middleware, ...] = ()
    converters: Converters = field(default_factory=Converters)
    shows: Callable[[Request, Entry], bool] | None = None
    assumed_scopes: frozenset[str] | None = None
    overrides: Mapping[Callable[..., Any], Callable[..., Any]] = field(
        default_factory=dict[Callable[..., Any], Callable[..., Any]]
    )
    shelf: list[Table[Task]] = field(default_factory=list["Table[Task]"])
    tasks: TaskService | None = None
    task_services: list[TaskService] = field(default_factory=list["TaskService"])
    _sealers: dict[str, Sealer] = field(default_factory=dict[str, Sealer])
    info_texts: dict[str, bytes] = field(default_factory=dict[str, bytes])

    catalog: Catalog = field(init=False)
    """The entries as they are seen: all of the registry, or a view of it."""

    _seen: dict[tuple[frozenset[str], bool], tuple[int, Server]] = field(
        default_factory=dict[tuple[frozenset[str], bool], "tuple[int, Server]"], init=False
    )
    """The server as those see it who have some scopes, and the state of the registry then."""

    operations: Mapping[str, Any] | None = field(default=None, init=False)
    """The operations with the middleware around them, once a session has composed them."""

    def __post_init__(self) -> None:
        self.catalog = self.registry
        self.registry.on_change = self.changes.list_changed

    def add_middleware(self, middleware: Middleware) -> None:
        """Put a function around every operation, inside of those that are there."""
        self.middleware = (*self.middleware, middleware)
        self.operations = None

    def sealer(self, purpose: str) -> Sealer:
        """Return what seals texts for one purpose, such as ``"request state"``."""
        if purpose not in self._sealers:
            self._sealers[purpose] = Sealer(self.settings.secrets, purpose)
        return self._sealers[purpose]

    def view_for(self, request: Request) -> Server:
        """Return the same server, with the entries that a request may see."""
        held = self._held_by(request)
        is_known = request.principal is not None or request.origin is None
        if self.shows is not None:
            made = self._copy()
            shows = partial(self.shows, request)
            made.catalog = View(self.registry, shows, _refusal(held, is_known))
            return made
        if held is None:
            return self
        version = self.registry.version
        found = self._seen.get((held, is_known))
        if found is None or found[0] != version:
            made = self._copy()
            made.catalog = View(self.registry, None, _refusal(held, is_known))
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            found = self._seen[held, is_known] = version, made
        return found[1]

    def _held_by(self, request: Request) -> frozenset[str] | None:
        """Return the scopes that a request may use; None if they mean nothing to it."""
        if not self.registry.restricted:
            return None
        if request.origin is None:
            held = self.assumed_scopes
            return None if held is None else self.settings.scopes.held(held)
        principal = request.principal
        return self.settings.scopes.held(frozenset() if principal is None else principal.scopes)

    def _copy(self) -> Server:
        made = copy.copy(self)
        made._seen = {}
        return made

    def with_state(self, state: Any) -> Server:
        """Return the same server with the value that a lifespan has yielded."""
        made = self._copy()
        made.state = state
        return made

    def with_tasks(self, tasks: TaskService) -> Server:
        """Return the same server with what looks after its tasks."""
        made = self._copy()
        made.tasks = tasks
        return made

    def with_overrides(self, overrides: Mapping[Callable[..., Any], Callable[..., Any]]) -> Server:
        """Return the same server with other functions in the place of some dependencies'."""
        made = self._copy()
        made.overrides = overrides
        return made

    def info_meta(self, revision: Revision) -> bytes:
        """Return the encoded member of ``_meta`` that identifies the server (MSG-16)."""
        found = self.info_texts.get(revision.version)
        if found is None:
            info = wire.implementation_to_wire(self.info, revision)
            found = self.info_texts[revision.version] = encode({SERVER_INFO_KEY: info})[1:-1]
        return found


def _refusal(
    held: frozenset[str] | None, is_known: bool
) -> Callable[[Entry], Exception | None] | None:
    if held is None:
        return None
    return partial(refusal_of, held=held, is_known=is_known)
