"""Calls that are given up while a thread of theirs goes on: what it depends on outlives it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import anyio
import pytest

from mcpkit import Depends, MCPKit, SyncContext
from mcpkit.testing import REVISIONS, AsyncTestClient

pytestmark = pytest.mark.anyio

PATIENCE = 10


class Course:
    """What happens to one call, in its order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.go_on = threading.Event()
        self.left = threading.Event()
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
            self.left.set()

    async def async_connection(self) -> AsyncIterator[str]:
        self.events.append("opened")
        try:
            yield "c"
        except BaseException as error:
            self.events.append(type(error).__name__)
            raise
        finally:
            self.events.append("closed")
            self.left.set()

    async def until(self, event: threading.Event) -> None:
        with anyio.fail_after(PATIENCE):
            while not event.is_set():
                await anyio.sleep(0.005)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("revision", [REVISIONS[0], REVISIONS[-2], REVISIONS[-1]])
async def test_a_dependency_is_left_when_the_thread_has_ended(revision: str, kind: str) -> None:
    """CANC-4: the call is over for the client at once."""
    course = Course()
    provide: Any = course.sync_connection if kind == "sync" else course.async_connection
    app: MCPKit[None] = MCPKit("a")

    @app.tool
    def work(ctx: SyncContext, connection: Annotated[str, Depends(provide)]) -> str:
        ctx.progress(1)
        assert course.go_on.wait(PATIENCE)
        course.events.append(f"used {connection}")
        return connection

    async with AsyncTestClient(app, revision=revision) as client:
        with anyio.CancelScope() as scope:
            await client.call_tool("work", on_progress=lambda *told: scope.cancel())
        await client.list_tools()
        assert course.events == ["opened"]
        course.go_on.set()
        await course.until(course.left)
    assert course.events[:2] == ["opened", "used c"]
    # What a coroutine has entered is left by its own task, and so sees the cancellation itself.
    seen = {"ConnectionClosed"} if kind == "sync" else {"CancelledError", "Cancelled"}
    assert course.events[2] in seen
    assert course.events[3:] == ["closed"]


async def test_a_dependency_that_is_still_being_entered_is_left_as_well() -> None:
    course, begun = Course(), threading.Event()

    def enter() -> None:
        begun.set()
        assert course.go_on.wait(PATIENCE)

    course.entering = enter
    app: MCPKit[None] = MCPKit("a")

    @app.tool
    def work(connection: Annotated[str, Depends(course.sync_connection)]) -> str:
        course.events.append("used")
        return connection

    async with AsyncTestClient(app) as client, anyio.create_task_group() as group:
        scope, told = anyio.CancelScope(), anyio.Event()

        async def call() -> None:
            with scope:
                await client.call_tool("work")
            told.set()

        group.start_soon(call)
        await course.until(begun)
        scope.cancel()
        with anyio.fail_after(PATIENCE):
            await told.wait()  # the server knows that nobody waits any more
        course.go_on.set()
        await course.until(course.left)
    assert (course.events[0], course.events[-1]) == ("opened", "closed")
    assert "used" not in course.events


async def test_a_call_that_is_not_given_up_leaves_before_it_answers() -> None:
    course = Course()
    app: MCPKit[None] = MCPKit("a")

    @app.tool
    def work(connection: Annotated[str, Depends(course.sync_connection)]) -> str:
        course.events.append("used")
        return connection

    async with AsyncTestClient(app) as client:
        assert (await client.call_tool("work")).text == "c"
        assert course.events == ["opened", "used", "closed"]


async def test_a_failing_handler_is_told_to_what_it_depends_on() -> None:
    course = Course()
    app: MCPKit[None] = MCPKit("a")

    @app.tool
    def work(connection: Annotated[str, Depends(course.sync_connection)]) -> str:
        raise KeyError(connection)

    async with AsyncTestClient(app) as client:
        assert (await client.call_tool("work")).is_error
    assert course.events == ["opened", "KeyError", "closed"]


async def test_a_dependency_may_hold_a_task_group() -> None:
    """It is left by the task that has entered it, or the whole server would be lost."""
    course = Course()

    async def grouped() -> AsyncIterator[str]:
        async with anyio.create_task_group() as group:
            try:
                yield "g"
            finally:
                course.events.append("closed")
                course.left.set()
                group.cancel_scope.cancel()

    app: MCPKit[None] = MCPKit("a")

    @app.tool
    def work(ctx: SyncContext, group: Annotated[str, Depends(grouped)]) -> str:
        ctx.progress(1)
        assert course.go_on.wait(PATIENCE)
        course.events.append("used")
        return group

    async with AsyncTestClient(app) as client:
        with anyio.CancelScope() as scope:
            await client.call_tool("work", on_progress=lambda *told: scope.cancel())
        course.go_on.set()
        await course.until(course.left)
        assert [tool.name for tool in await client.list_tools()] == ["work"]
    assert course.events == ["used", "closed"]
