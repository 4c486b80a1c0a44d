"""Clients for tests: an app in memory, every revision, async and sync.

async with AsyncTestClient(app) as client:
    result = await client.call_tool("add", {"a": 1, "b": 2})

with TestClient(app, revision="2025-06-18") as client:
    result = client.call_tool("add", {"a": 1, "b": 2})
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import replace
from functools import wraps
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Concatenate,
    Final,
    Generic,
    TypeAlias,
    TypedDict,
    TypeVar,
)

from anyio.from_thread import BlockingPortal, start_blocking_portal
from typing_extensions import ParamSpec, Self, Unpack

from mcpkit._protocol.revisions import REVISIONS as _REVISIONS
from mcpkit._utils.quota import ANONYMOUS, principal_owner
from mcpkit.client.client import Client
from mcpkit.client.connection import Handler, OnMessage, Target
from mcpkit.client.results import TaskStatus
from mcpkit.client.tasks import TaskHandle
from mcpkit.permissions import scopes_of
from mcpkit.tasks.service import StoredSource
from mcpkit.types import Implementation, Principal

if TYPE_CHECKING:
    import httpx2

    from mcpkit.client.auth.base import HttpAuth
    from mcpkit.tracing import Tracing

__all__ = [
    "REVISIONS",
    "AppOptions",
    "AsyncTestClient",
    "Overrides",
    "SyncTaskHandle",
    "TestClient",
]

REVISIONS = tuple(each.version for each in _REVISIONS)
"""Every revision, oldest first: to run a test over all of them."""

_OF_APPS: Final = ("principal", "scopes", "overrides", "lifespan")

P = ParamSpec("P")
T = TypeVar("T")
AsyncT = TypeVar("AsyncT")

Overrides: TypeAlias = Mapping[Callable[..., Any], Callable[..., Any]]
"""The function of a ``Depends`` → its replacement, which has dependencies of its own."""


class AppOptions(TypedDict, total=False):
    """The options of a client for tests: those of `Client`, and four for an app object.

    Attributes:
        principal: The caller of each request, as ``auth=`` would find it over HTTP: a `Principal`,
            or its id; None: a caller without authentication. If neither this nor `scopes` is given,
            scopes and ``allow=`` do not apply, as on stdio.
        scopes: The scopes of the caller, in place of those of a `Principal`.
        overrides: Replacements for the functions of dependencies.
        lifespan: Replaces the app's own; None for none.
    """

    principal: Principal | str | None
    scopes: Collection[str]
    overrides: Overrides
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None
    name: str
    version: str
    elicitation: Handler | None
    sampling: Handler | None
    roots: Sequence[str | os.PathLike[str]] | Handler | None
    capabilities: Mapping[str, Any] | None
    extensions: Mapping[str, Mapping[str, Any]] | None
    on_log: Callable[[str, Any, str | None], object] | None
    on_notification: OnMessage | None
    probe_timeout: float
    max_rounds: int
    max_input_requests: int
    on_round: Callable[[int, Mapping[str, Any]], object] | None
    env: Mapping[str, str] | None
    cwd: str | os.PathLike[str] | None
    stderr: int | None
    headers: Mapping[str, str] | None
    http_client: httpx2.AsyncClient | None
    auth: HttpAuth | str | Callable[[], str | Awaitable[str]] | None
    raise_exceptions: bool
    telemetry: Tracing | bool


class AsyncTestClient(Client):
    """`mcpkit.Client` with defaults for tests: the newest revision, and ten seconds for a request.

    Args:
        target: The app, or any other target of a `Client`.
        revision: One of `REVISIONS`.
        timeout: Seconds that a request may take.
        options: As for `Client`, and those of `AppOptions`; ``raise_exceptions=True`` raises the
            handler's own exception, ``principal=`` and ``scopes=`` say whose the calls are, and
            ``overrides=`` and ``lifespan=`` replace an app's dependencies and lifespan.

    Raises:
        TypeError: An option for an app is given, but the target is not an app object.
    """

    __test__: ClassVar = False

    def __init__(
        self,
        target: Target,
        *,
        revision: str = REVISIONS[-1],
        timeout: float | None = 10,
        **options: Unpack[AppOptions],
    ) -> None:
        own: dict[str, Any] = {**options}
        memory: dict[str, Any] = {name: own.pop(name) for name in _OF_APPS if name in own}
        if memory and not hasattr(target, "connect"):
            raise TypeError(f"{', '.join(memory)}: of an app object only, not of {target!r}")
        if memory.keys() & {"principal", "scopes"}:
            principal: Principal | str | None = memory.pop("principal", "user")
            scopes: Collection[str] | None = memory.pop("scopes", None)
            principal = Principal(principal) if isinstance(principal, str) else principal
            if scopes is not None:
                if principal is None:
                    raise TypeError("scopes= needs a principal; omit principal=None or scopes=")
                principal = replace(principal, scopes=frozenset(scopes_of(scopes, "scopes")))
            owner = ANONYMOUS if principal is None else principal_owner(principal.id)
            memory["origin"] = StoredSource(principal, owner)
        super().__init__(target, revision=revision, timeout=timeout, **own)
        self._memory_options = memory


class _Blocking(Generic[AsyncT]):
    """The blocking form of an async object."""

    _async: AsyncT
    _portal: BlockingPortal | None

    def _wait(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._portal is None:
            raise RuntimeError("enter the client first: with TestClient(app) as client")
        result: T = self._portal.call(lambda: function(*args, **kwargs))
        return result


def _blocking(
    method: Callable[Concatenate[Any, P], Awaitable[T]],
) -> Callable[Concatenate[_Blocking[Any], P], T]:
    """Return a method of an async class as one that waits for it."""

    @wraps(method)
    def call(self: _Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(method, self._async, *args, **kwargs)

    return call


class TestClient(_Blocking[AsyncTestClient]):
    """`AsyncTestClient` without ``await``: an event loop in a thread serves the app.

    Args:
        target: The app, or any other target of a `Client`.
        revision: One of `REVISIONS`.
        backend: The event loop, ``"asyncio"`` or ``"trio"``.
        timeout: Seconds that a request may take.
        options: As for `AsyncTestClient`.
    """

    __test__: ClassVar = False

    def __init__(
        self,
        target: Target,
        *,
        revision: str = REVISIONS[-1],
        backend: str = "asyncio",
        timeout: float | None = 10,
        **options: Unpack[AppOptions],
    ) -> None:
        self._async = AsyncTestClient(target, revision=revision, timeout=timeout, **options)
        self._backend = backend
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal(self._backend))
            stack.enter_context(self._portal.wrap_async_context_manager(self._async))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    @property
    def revision(self) -> str:
        """The protocol revision that is spoken, such as ``2025-11-25``."""
        return self._async.revision

    @property
    def server_info(self) -> Implementation | None:
        """Name and version of the server; None if it did not send any."""
        return self._async.server_info

    @property
    def server_capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the server has declared."""
        return self._async.server_capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model; None if it has none."""
        return self._async.instructions

    def extension(self, identifier: str) -> Mapping[str, Any] | None:
        """Return the settings with which the server declares an extension; None if it does not."""
        return self._async.extension(identifier)

    request = _blocking(Client.request)
    ping = _blocking(Client.ping)
    list_tools = _blocking(Client.list_tools)
    list_resources = _blocking(Client.list_resources)
    list_resource_templates = _blocking(Client.list_resource_templates)
    list_prompts = _blocking(Client.list_prompts)
    skills = _blocking(Client.skills)
    read_skill = _blocking(Client.read_skill)
    call_tool = _blocking(Client.call_tool)
    read_resource = _blocking(Client.read_resource)
    get_prompt = _blocking(Client.get_prompt)
    complete = _blocking(Client.complete)
    set_log_level = _blocking(Client.set_log_level)
    subscribe = _blocking(Client.subscribe)
    unsubscribe = _blocking(Client.unsubscribe)

    def start(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any
    ) -> SyncTaskHandle:
        """Call a tool as a task, as `Client.start`."""
        task = self._wait(self._async.start, name, arguments, **options)
        return SyncTaskHandle(task, self._portal)

    def task(self, id: str) -> SyncTaskHandle:
        """Return the handle of a task that exists already, as `Client.task`."""
        return SyncTaskHandle(self._async.task(id), self._portal)

    def tasks(self) -> list[SyncTaskHandle]:
        """Return the tasks of this client's principal, as `Client.tasks`."""
        return [SyncTaskHandle(each, self._portal) for each in self._wait(self._async.tasks)]


class SyncTaskHandle(_Blocking[TaskHandle]):
    """`mcpkit.TaskHandle` without ``await``: ``for status in handle``, and ``handle.result()``."""

    def __init__(self, handle: TaskHandle, portal: BlockingPortal | None) -> None:
        self._async = handle
        self._portal = portal

    def __repr__(self) -> str:
        return repr(self._async)

    @property
    def id(self) -> str | None:
        """The task's id; None if the server responded with the result."""
        return self._async.id

    @property
    def status(self) -> TaskStatus | None:
        """The last known status, as `TaskHandle.status`."""
        return self._async.status

    @property
    def is_over(self) -> bool:
        """True if the task is known to have ended."""
        return self._async.is_over

    def __iter__(self) -> Iterator[TaskStatus]:
        statuses = aiter(self._async)
        while True:
            try:
                yield self._wait(statuses.__anext__)
            except StopAsyncIteration:
                return

    result = _blocking(TaskHandle.result)
    look = _blocking(TaskHandle.look)
    questions = _blocking(TaskHandle.questions)
    answer = _blocking(TaskHandle.answer)
    cancel = _blocking(TaskHandle.cancel)
