"""Calls that are cancelled while their thread goes on: its dependencies outlive them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import anyio
import pytest

from mcpkit import Depends, MCPKit, SyncContext
from mcpkit.testing import REVISIONS, AsyncTestClient
from tests.kit import PATIENCE, ThreadGate, until


class Course:
    """What happens to one call, in its order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.gate = ThreadGate()
        self.entering: Callable[[], object] = lambda: None

    def sync_connection(self) -> Iterator[str]:
        self.entering()
        self.events.append("opened")
        try:
            yield "c"
        except BaseException as error:
            self.events.append(type(error).__name__)
            raise
        finally:
            self.events.append("closed")

    async def async_connection(self) -> AsyncIterator[str]:
        async with anyio.create_task_group() as group:
            with contextmanager(self.sync_connection)() as connection:
                yield connection
            group.cancel_scope.cancel()

    async def until_closed(self) -> None:
        await until(lambda: self.events[-1:] == ["closed"])


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[-2], REVISIONS[-1]])
async def test_a_dependency_is_left_when_the_thread_has_ended(revision: str, kind: str) -> None:
    """CANC-4: the call is over for the client at once.

    A task group is left by the task that has entered it, or the whole server would be lost.
    """
    course = Course()
    provide: Any = course.sync_connection if kind == "sync" else course.async_connection
    app: MCPKit[None] = MCPKit("a")

    @app.tool
    def work(ctx: SyncContext, connection: Annotated[str, Depends(provide)]) -> str:
        ctx.progress(1)
        course.gate()
        course.events.append(f"used {connection}")
        return connection

    async with AsyncTestClient(app, revision=revision) as client:
        with anyio.CancelScope() as scope:
            await client.call_tool("work", on_progress=lambda *_: scope.cancel())
        await client.list_tools()
        await anyio.wait_all_tasks_blocked()  # the call has left its thread
        assert course.events == ["opened"]
        course.gate.open()
        await course.until_closed()
        assert [tool.name for tool in await client.list_tools()] == ["work"]
    assert course.events[:2] == ["opened", "used c"]
    # What a coroutine has entered is left by its own task, and so sees the cancellation itself.
    seen = {"ConnectionClosed"} if kind == "sync" else {"CancelledError", "Cancelled"}
    assert course.events[2] in seen
    assert course.events[3:] == ["closed"]


async def test_a_dependency_that_is_still_being_entered_is_left_as_well() -> None:
    course = Course()
    course.entering = course.gate
    app: MCPKit[None] = MCPKit("a")

    @app.tool
    def work(connection: Annotated[str, Depends(course.sync_connection)]) -> str:
        course.events.append("used")
        return connection

    async with AsyncTestClient(app) as client, anyio.create_task_group() as group:
        scope, cancelled = anyio.CancelScope(), anyio.Event()

        async def call() -> None:
            with scope:
                await client.call_tool("work")
            cancelled.set()

        group.start_soon(call)
        await until(course.gate.started.is_set)
        scope.cancel()
        with anyio.fail_after(PATIENCE):
            await cancelled.wait()
        course.gate.open()
        await course.until_closed()
    assert course.events[0] == "opened"
    assert "used" not in course.events
