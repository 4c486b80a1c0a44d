"""Where the scenarios of tasks run: every transport and store, and both revisions that have tasks.

``sqlite``, ``redis`` and ``postgres`` are in memory as far as messages go, and keep tasks there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest

from mcpkit._protocol.connection import CAPABILITIES_KEY
from mcpkit.tasks.options import STORE
from tests.asking.conftest import Asked
from tests.combinations import (
    Place,
    Served,
    anyio_backend,
    client,
    connect,
    revision,
    shared,
    stderr,
)
from tests.combinations import place as found_place
from tests.scenarios.tapped import PATIENCE
from tests.selection import Case
from tests.tasks.servers import SERVERS
from tests.tasks.wire.server import make_app

__all__ = ["anyio_backend", "client", "connect", "revision", "shared", "stderr"]

CORE = "2025-11-25"
EXTENSION = "2026-07-28"
EXTENSIONS: dict[str, Any] = {"io.modelcontextprotocol/tasks": {}}
UNKNOWN = "0123456789abcdef0123456789abcdef"
"""The id of no task."""

CASES = [
    Case(transport, revision, backend)
    for transport, backend in (
        *(("memory", "asyncio"), ("memory", "trio"), ("sqlite", "asyncio"), ("redis", "asyncio")),
        *(("postgres", "asyncio"), ("stdio", "asyncio"), ("http", "asyncio")),
    )
    for revision in (CORE, EXTENSION)
]


class Tasked(Asked):
    """A client that knows tasks, and looks after them by hand."""

    def __init__(self, target: Any, *, revision: str, **options: Any) -> None:
        own = {"extensions": EXTENSIONS} if revision == EXTENSION else {}
        super().__init__(target, revision=revision, capabilities=own, **options)

    async def begin(self, tool: str, _task: Mapping[str, Any] | None = None, **given: Any) -> str:
        """Call a tool as a task, and return the id of that."""
        return str((await self.started(tool, _task, **given))["taskId"])

    async def started(
        self, tool: str, _task: Mapping[str, Any] | None = None, **given: Any
    ) -> Mapping[str, Any]:
        """Call a tool as a task, and return what the server says of that."""
        params: dict[str, Any] = {"name": tool, "arguments": given}
        if self.spoken == CORE:
            found = await self.request("tools/call", {**params, "task": _task or {}})
            assert found.keys() == {"task"}
            task: Mapping[str, Any] = found["task"]
            return task
        found = await self.request("tools/call", params)
        assert found["resultType"] == "task"
        return found

    async def state(self, id: str) -> Mapping[str, Any]:
        return await self.request("tasks/get", {"taskId": id})

    async def until(self, id: str, *statuses: str) -> Mapping[str, Any]:
        with anyio.fail_after(PATIENCE):
            while (found := await self.state(id))["status"] not in statuses:
                await anyio.sleep(0.05)
        return found

    async def result(self, id: str) -> Mapping[str, Any]:
        """What has come of a task, which is waited for."""
        if self.spoken == CORE:
            return await self.request("tasks/result", {"taskId": id})
        found = await self.until(id, "completed")
        result: Mapping[str, Any] = found["result"]
        return result

    async def reply(self, id: str, *answers: Mapping[str, Any]) -> None:
        """Answer what a task asks, in the order of the keys (2026-07-28)."""
        asked = (await self.until(id, "input_required"))["inputRequests"]
        responses = dict(zip(asked, answers, strict=False))
        await self.request("tasks/update", {"taskId": id, "inputResponses": responses})

    @asynccontextmanager
    async def listening(
        self, *ids: str, hear: Callable[[str, Any], object] = lambda *_: None
    ) -> AsyncGenerator[None, None]:
        """Around what happens while a stream has notifications of tasks (2026-07-28)."""
        wanted = {"notifications": {"taskIds": ids}}
        agreed = anyio.Event()

        def heard(method: str, params: Any) -> None:
            hear(method, params)
            agreed.set()

        async def listen() -> None:
            await self.request("subscriptions/listen", wanted, timeout=60, on_notification=heard)

        async with anyio.create_task_group() as group:
            group.start_soon(listen)
            with anyio.fail_after(PATIENCE):
                await agreed.wait()
            yield
            group.cancel_scope.cancel()

    async def seen(self, what: str) -> int:
        return int((await self.call_tool("seen", {"what": what})).text)

    async def until_seen(self, what: str) -> None:
        with anyio.fail_after(PATIENCE):
            while not await self.seen(what):
                await anyio.sleep(0.01)


def text_of(result: Mapping[str, Any]) -> str:
    return str(result["content"][0]["text"])


def without_extension() -> dict[str, Any]:
    """The ``_meta`` of a request that does not know the extension, whatever others have said."""
    return {CAPABILITIES_KEY: {"elicitation": {}}}


@pytest.fixture(scope="package", params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="package")
def served() -> Served:
    return Served(Path(__file__).with_name("server.py"), make_app, Tasked)


@pytest.fixture(scope="package")
def place(
    case: Case, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """The server of a combination, which all its scenarios share."""
    file = str(tmp_path_factory.mktemp("tasks") / "tasks.db")
    if case.transport in ("stdio", "http"):
        found: Place = request.getfixturevalue("found_place")
        if case.transport == "stdio":
            found.options["env"][STORE] = file
        yield found
    else:
        store: str | None = {"memory": None, "sqlite": file}.get(case.transport)
        if case.transport in SERVERS:
            store = request.getfixturevalue("servers").url(case.transport)
        app = make_app(store=store)
        yield Place(lambda: app, {})


__all__ += ["found_place"]


Connect = Callable[..., Awaitable[Tasked]]


@pytest.fixture
def label() -> str:
    return uuid4().hex
