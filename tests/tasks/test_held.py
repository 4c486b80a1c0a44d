"""Tasks whose handlers wait for answers where they run, and what happens if they cannot."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any, cast

import anyio
import pytest

from mcpkit import Context, Depends, MCPKit, SyncContext
from mcpkit._server import suspended
from tests.asking.conftest import accept
from tests.kit import until
from tests.tasks.test_races import tasks_of
from tests.tasks.test_serving import QUICK, connected
from tests.tasks.wire.conftest import text_of

stores = pytest.mark.parametrize("kind", ["memory", "sqlite", "redis", "postgres"])
shared_stores = pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
both = pytest.mark.parametrize("tool", ["ask", "ask_sync"])


def make_app(
    seen: list[str], store: Any, name: str = "", ask_timeout: float = 600, **tasks: Any
) -> MCPKit[Any]:
    app: MCPKit[Any] = MCPKit(
        name or f"held{secrets.token_hex(4)}",
        tasks=cast("Any", {**QUICK, "store": store, **tasks}),
        ask_timeout=ask_timeout,
    )

    @asynccontextmanager
    async def opened() -> AsyncGenerator[str]:
        seen.append("open")
        try:
            yield "place"
        finally:
            seen.append("close")

    @app.tool(task="optional")
    async def ask(ctx: Context, place: Annotated[str, Depends(opened)], times: int = 2) -> str:
        answers: list[Any] = []
        for number in range(times):
            seen.append(f"before {number}")
            answers.append((await ctx.elicit(f"{number}?", str)).data)
        seen.append("after")
        return " ".join(answers)

    @app.tool(task="optional")
    def ask_sync(ctx: SyncContext, times: int = 2) -> str:
        answers: list[Any] = []
        for number in range(times):
            seen.append(f"before {number}")
            answers.append(ctx.elicit(f"{number}?", str).data)
        seen.append("after")
        return " ".join(answers)

    @app.tool(task="optional")
    async def branches(ctx: Context) -> str:
        answers: list[Any] = []

        async def branch(wait: float, key: str) -> None:
            await anyio.sleep(wait)
            answers.append((await ctx.elicit(f"{key}?", str, key=key)).data)

        async with anyio.create_task_group() as group:
            with anyio.move_on_after(0.02):
                await ctx.elicit("Quick?", str, key="quick")
            for number, key in enumerate("abc"):
                group.start_soon(branch, number / 100, key)
        return " ".join(sorted(answers))

    @app.tool(task="optional")
    async def work() -> str:
        return "worked"

    return app


ONCE = ["before 0", "before 1", "after"]


def without_place(seen: list[str]) -> list[str]:
    return [each for each in seen if each not in ("open", "close")]


@both
@stores
async def test_no_statement_of_a_task_runs_twice(location: Any, tool: str) -> None:
    """And its dependencies stay open."""
    seen: list[str] = []
    async with connected(make_app(seen, location)) as client:
        id = await client.begin(tool)
        await client.reply(id, accept("a"))
        await client.reply(id, accept("b"))
        assert text_of(await client.result(id)) == "a b"
    assert without_place(seen) == ONCE
    if tool == "ask":
        assert (seen[0], seen[-1], len(seen)) == ("open", "close", 5)


@stores
async def test_branches_of_a_handler_ask_when_they_want(location: Any) -> None:
    """TASKX-9: while other questions are open, and after one that is not needed any more."""
    async with connected(make_app([], location)) as client:
        id = await client.begin("branches")
        open: set[str] = set()
        with anyio.fail_after(20):
            while open != {"a", "b", "c"}:
                open = {*(await client.until(id, "input_required"))["inputRequests"]}
        await client.reply(id, *[accept(key) for key in "abc"])
        assert text_of(await client.result(id)) == "a b c"


@both
async def test_a_task_that_asks_leaves_its_place_to_others(tool: str) -> None:
    """As a run, and a plain function as a thread."""
    seen: list[str] = []
    app = make_app(seen, None, max_running=1)
    async with connected(app) as client:
        asking = [await client.begin(tool) for _ in range(3)]
        for id in asking:
            await client.until(id, "input_required")
        assert text_of(await client.result(await client.begin("work"))) == "worked"
        for id in asking:
            await client.reply(id, accept("a"))
        for id in asking:
            await client.reply(id, accept("b"))
        for id in asking:
            assert text_of(await client.result(id)) == "a b"
    assert sorted(without_place(seen)) == sorted(ONCE * 3)


@both
@shared_stores
async def test_an_answer_that_arrives_elsewhere_is_left_to_the_holder(
    location: Any, tool: str
) -> None:
    here: list[str] = []
    there: list[str] = []
    name = f"held{secrets.token_hex(4)}"
    async with connected(make_app(here, location, name)) as first:
        id = await first.begin(tool)
        await first.until(id, "input_required")
        async with connected(make_app(there, location, name)) as second:
            await second.reply(id, accept("a"))
            await second.reply(id, accept("b"))
            assert text_of(await second.result(id)) == "a b"
    assert without_place(here) == ONCE
    assert there == []


@both
@shared_stores
async def test_a_task_is_replayed_where_nobody_holds_it(location: Any, tool: str) -> None:
    """The process that held it has ended: before the answer, also of a tool not resumable."""
    here: list[str] = []
    there: list[str] = []
    name = f"held{secrets.token_hex(4)}"
    async with connected(make_app(here, location, name)) as first:
        id = await first.begin(tool)
        await first.reply(id, accept("a"))
        await first.until(id, "input_required")
    async with connected(make_app(there, location, name)) as second:
        await second.reply(id, accept("b"))
        assert text_of(await second.result(id)) == "a b"
    assert without_place(here) == ["before 0", "before 1"]
    assert here.count("open") == here.count("close")
    assert without_place(there) == ONCE


@both
async def test_a_task_is_not_held_for_ever(tool: str) -> None:
    """After `ask_timeout` it ends at its question, and its answer replays it."""
    seen: list[str] = []
    app = make_app(seen, None, ask_timeout=0.05)
    async with connected(app) as client:
        id = await client.begin(tool, times=1)
        await client.until(id, "input_required")
        await until(lambda: not tasks_of(app).runs.running)
        await client.reply(id, accept("a"))
        assert text_of(await client.result(id)) == "a"
    assert without_place(seen) == ["before 0", "before 0", "after"]


@pytest.mark.parametrize("limit", [0, 2])
async def test_the_number_of_tasks_that_are_held_is_bounded(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SEC-17: others end at their questions."""
    monkeypatch.setattr(suspended, "MAX_SUSPENDED", limit)
    seen: list[str] = []
    async with connected(make_app(seen, None)) as client:
        ids = [await client.begin("ask", times=1) for _ in range(4)]
        for id in ids:
            await client.until(id, "input_required")
        for id in ids:
            await client.reply(id, accept("a"))
            assert text_of(await client.result(id)) == "a"
    assert seen.count("before 0") == 8 - limit
    assert seen.count("open") == seen.count("close") == 8 - limit
