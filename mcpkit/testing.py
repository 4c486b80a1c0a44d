"""Clients for tests: an app in memory, every revision, async and sync.

async with AsyncTestClient(app) as client:
    result = await client.call_tool("add", {"a": 1, "b": 2})

with TestClient(app, revision="2025-06-18") as client:
    result = client.call_tool("add", {"a": 1, "b": 2})
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypedDict, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal
from typing_extensions import ParamSpec, Self, Unpack

from mcpkit._protocol.revisions import REVISIONS as _REVISIONS
from mcpkit.client.client import Client
from mcpkit.client.connection import Handler, OnMessage, Target
from mcpkit.client.results import (
    CallResult,
    Completion,
    ListedPrompt,
    ListedResource,
    ListedTemplate,
    ListedTool,
    PromptMessages,
    TaskQuestion,
    TaskStatus,
)
from mcpkit.client.tasks import TaskHandle
from mcpkit.types import Implementation, LogLevel, ResourceContents

if TYPE_CHECKING:
    import httpx2

    from mcpkit.client.auth.base import HttpAuth

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

P = ParamSpec("P")
T = TypeVar("T")

Overrides: TypeAlias = Mapping[Callable[..., Any], Callable[..., Any]]
"""The function of a ``Depends`` → its replacement, which has dependencies of its own."""


class AppOptions(TypedDict, total=False):
    """The options of a client for tests: those of `Client`, and two for an app object.

    Attributes:
        overrides: Replacements for the functions of dependencies.
        lifespan: Replaces the app's own; None for none.
    """

    overrides: Overrides
    lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None
    name: str
    version: str
    elicitation: Handler | None
    sampling: Handler | None
    roots: Sequence[str | os.PathLike[str]] | Handler | None
    capabilities: Mapping[str, Any] | None
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


class AsyncTestClient(Client):
    """`mcpkit.Client` with defaults for tests: the newest revision, and ten seconds for a request.

    Args:
        target: The app, or any other target of a `Client`.
        revision: One of `REVISIONS`.
        timeout: Seconds that a request may take.
        options: As for `Client`; ``raise_exceptions=True`` raises the handler's own exception,
            ``overrides=`` and ``lifespan=`` replace an app's dependencies and lifespan.

    Raises:
        TypeError: Overrides or a lifespan are given, but the target is not an app object.
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
        memory: dict[str, Any] = {
            name: own.pop(name) for name in ("overrides", "lifespan") if name in own
        }
        if memory and not hasattr(target, "connect"):
            raise TypeError(f"{', '.join(memory)}: of an app object only, not of {target!r}")
        super().__init__(target, revision=revision, timeout=timeout, **own)
        self._memory_options = memory


class TestClient:
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
        self._client = AsyncTestClient(target, revision=revision, timeout=timeout, **options)
        self._backend = backend
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal(self._backend))
            stack.enter_context(self._portal.wrap_async_context_manager(self._client))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def _wait(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        if self._portal is None:
            raise RuntimeError("enter the client first: with TestClient(app) as client")
        result: T = self._portal.call(lambda: function(*args, **kwargs))
        return result

    @property
    def revision(self) -> str:
        """The protocol revision that is spoken, such as ``2025-11-25``."""
        return self._client.revision

    @property
    def server_info(self) -> Implementation | None:
        """Name and version of the server; None if it did not send any."""
        return self._client.server_info

    @property
    def server_capabilities(self) -> Mapping[str, Any]:
        """The capabilities that the server has declared."""
        return self._client.server_capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model; None if it has none."""
        return self._client.instructions

    def request(
        self, method: str, params: Mapping[str, Any] | None = None, **options: Any
    ) -> Mapping[str, Any]:
        """Send a request and return its result, as `Client.request`."""
        return self._wait(self._client.request, method, params, **options)

    def ping(self) -> None:
        """Check that the server responds, as `Client.ping`."""
        self._wait(self._client.ping)

    def list_tools(self) -> list[ListedTool]:
        """Return all tools, as `Client.list_tools`."""
        return self._wait(self._client.list_tools)

    def list_resources(self) -> list[ListedResource]:
        """Return all resources, as `Client.list_resources`."""
        return self._wait(self._client.list_resources)

    def list_resource_templates(self) -> list[ListedTemplate]:
        """Return all resource templates, as `Client.list_resource_templates`."""
        return self._wait(self._client.list_resource_templates)

    def list_prompts(self) -> list[ListedPrompt]:
        """Return all prompts, as `Client.list_prompts`."""
        return self._wait(self._client.list_prompts)

    def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any
    ) -> CallResult:
        """Call a tool, as `Client.call_tool`."""
        return self._wait(self._client.call_tool, name, arguments, **options)

    def start(
        self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any
    ) -> SyncTaskHandle:
        """Call a tool as a task, as `Client.start`."""
        return SyncTaskHandle(self, self._wait(self._client.start, name, arguments, **options))

    def task(self, id: str) -> SyncTaskHandle:
        """Return the handle of a task that exists already, as `Client.task`."""
        return SyncTaskHandle(self, self._client.task(id))

    def tasks(self) -> list[SyncTaskHandle]:
        """Return the tasks of this client's user, as `Client.tasks`."""
        return [SyncTaskHandle(self, each) for each in self._wait(self._client.tasks)]

    def read_resource(self, uri: str) -> list[ResourceContents]:
        """Read a resource, as `Client.read_resource`."""
        return self._wait(self._client.read_resource, uri)

    def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> PromptMessages:
        """Get the messages of a prompt, as `Client.get_prompt`."""
        return self._wait(self._client.get_prompt, name, arguments)

    def complete(self, argument: str, value: str, **options: Any) -> Completion:
        """Return suggestions, as `Client.complete`."""
        return self._wait(self._client.complete, argument, value, **options)

    def set_log_level(self, level: LogLevel) -> None:
        """Set the minimum level of log messages, as `Client.set_log_level`."""
        self._wait(self._client.set_log_level, level)

    def subscribe(self, uri: str) -> None:
        """Subscribe to changes of a resource, as `Client.subscribe`."""
        self._wait(self._client.subscribe, uri)

    def unsubscribe(self, uri: str) -> None:
        """End a subscription, as `Client.unsubscribe`."""
        self._wait(self._client.unsubscribe, uri)


class SyncTaskHandle:
    """`mcpkit.TaskHandle` without ``await``: ``for status in handle``, and ``handle.result()``."""

    def __init__(self, client: TestClient, handle: TaskHandle) -> None:
        self._client = client
        self._handle = handle

    def __repr__(self) -> str:
        return repr(self._handle)

    @property
    def id(self) -> str | None:
        """The task's id; None if the server responded with the result."""
        return self._handle.id

    @property
    def status(self) -> TaskStatus | None:
        """The last known status, as `TaskHandle.status`."""
        return self._handle.status

    @property
    def is_over(self) -> bool:
        """True if the task is known to have ended."""
        return self._handle.is_over

    def result(self, *, timeout: float | None = None) -> CallResult:
        """Wait for the result, as `TaskHandle.result`."""
        return self._client._wait(self._handle.result, timeout=timeout)

    def __iter__(self) -> Iterator[TaskStatus]:
        statuses = aiter(self._handle)
        while True:
            try:
                yield self._client._wait(statuses.__anext__)
            except StopAsyncIteration:
                return

    def look(self) -> TaskStatus:
        """Poll the task once, as `TaskHandle.look`."""
        return self._client._wait(self._handle.look)

    def questions(self) -> Mapping[str, TaskQuestion]:
        """Return the pending input requests, as `TaskHandle.questions`."""
        return self._client._wait(self._handle.questions)

    def answer(self, answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Answer input requests, as `TaskHandle.answer`."""
        self._client._wait(self._handle.answer, answers)

    def cancel(self) -> None:
        """Cancel the task, as `TaskHandle.cancel`."""
        self._client._wait(self._handle.cancel)
