"""What the tasks of one caller take from others: tasks, places to run, bytes, time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcpkit import MCPKit
from mcpkit._protocol.connection import TASKS_EXTENSION
from mcpkit._stores.base import Position, TooManyRecords
from mcpkit._stores.memory import MemoryStore, Table
from mcpkit.errors import InternalError, InvalidParams
from mcpkit.tasks import record, shares
from mcpkit.tasks.record import Task
from mcpkit.tasks.shares import Choice, OtherSecret
from mcpkit.tasks.transitions import TaskStore, add, claim, remember
from tests.asking.conftest import accept
from tests.kit import until
from tests.tasks.conftest import Time
from tests.tasks.test_serving import connected, make_app
from tests.tasks.test_stores import MANY, kind, new, opened, store
from tests.tasks.wire.conftest import EXTENSION, Tasked, text_of
from tests.uvicorns import listen, running

__all__ = ["kind", "store"]

ON_ASYNCIO = True


# --- stores ---------------------------------------------------------------------------------------


async def test_unfinished_tasks_are_counted_by_caller_and_in_all(store: TaskStore) -> None:
    """TASKL-15: by owner if there is none. The last eighth is for newcomers."""

    async def begin(id: str, caller: str) -> None:
        named = new(id, owner=caller) if caller == "b" else new(id, caller=caller)
        await add(store, named, limit=16, limit_per_holder=10)

    for number in range(10):
        await begin(f"a{number}", "a")
    with pytest.raises(TooManyRecords):
        await begin("a", "a")
    for number in range(4):
        await begin(f"b{number}", "b")
    with pytest.raises(TooManyRecords):
        await begin("b", "b")
    await begin("c", "c")
    await begin("d", "d")
    with pytest.raises(TooManyRecords):
        await begin("e", "e")
    assert await store.get("e") is None
    for id in ("a1", "a2", "a3"):
        await store.change(id, record.cancel)
    await begin("a10", "a")
    await begin("e", "e")


async def test_a_claim_passes_over_callers(store: TaskStore) -> None:
    """However many tasks of theirs stand in front."""
    for number in range(30):
        await add(store, new(f"{number:02}", caller="ab"[number % 2]), **MANY)
    await add(store, new("x", caller="c"), **MANY)
    await add(store, new("y"), **MANY)
    skip = {"a", "b", "other"}
    assert [each.id for each in await claim(store, 1, lease=10, skip=skip)] == ["x"]
    assert [each.id for each in await claim(store, 5, lease=10, skip=skip)] == ["y"]
    assert [each.id for each in await claim(store, 2, lease=10, skip={"a"})] == ["01", "03"]


async def test_a_finished_task_has_no_steps(store: TaskStore) -> None:
    for end in ("completed", "cancelled"):
        await add(store, new(end), **MANY)
        await claim(store, 1, lease=10)
        await remember(store, end, 1, "pay", b"1")
        if end == "cancelled":
            await store.change(end, record.cancel)
        else:
            await store.change(end, lambda it, now: record.finish(it, 1, "completed", b"!", now))
        assert dict(await store.values(end)) == {}
        assert await remember(store, end, 1, "late", b"1") is None


async def test_a_sweep_reads_what_has_expired_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """SEC-17: whatever else is there, and in whatever order."""
    table, now = Table[Task](), Time()
    async with opened(MemoryStore(table, clock=now)) as store:
        for number in range(3000):
            ttl = None if number % 3 else 10.0
            await add(store, new(f"{number}", ttl=ttl), limit=9999, limit_per_holder=9999)
        now.now += 10
        reads = 0
        expires = Task.expires.fget  # type: ignore[attr-defined]

        def count(task: Task) -> float | None:
            nonlocal reads
            reads += 1
            found: float | None = expires(task)
            return found

        monkeypatch.setattr(Task, "expires", property(count))
        assert await store.sweep() == 1000
        assert reads < 3 * 1000
    lists: list[list[Position]] = [table.expiring, *table.of_owner.values()]
    assert [len(each) for each in (table.records, table.due, *lists)] == [2000, 2000, 0, 2000]


# --- servers --------------------------------------------------------------------------------------


@asynccontextmanager
async def two(app: MCPKit[Any]) -> AsyncGenerator[tuple[Tasked, Tasked], None]:
    """Clients in two networks, without a login."""
    listener = listen()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    here, there = (
        connected(url, headers={"X-Forwarded-For": f"192.0.2.{number}"}) for number in (1, 2)
    )
    with running(app.asgi(), listener):
        async with here as one, there as other:
            yield one, other


async def test_tasks_of_one_network_refuse_no_other(location: Any) -> None:
    """TASKL-15."""
    async with two(make_app(location, max_tasks_each=3)) as (one, other):
        ids = [await one.begin("ask") for _ in range(3)]
        with pytest.raises(InternalError, match="Too many tasks are unfinished"):
            await one.begin("ask")
        await other.begin("ask")
        await one.request("tasks/cancel", {"taskId": ids[0]})
        await one.begin("ask")


async def test_long_tasks_of_one_network_delay_no_other(location: Any) -> None:
    """Its own continue one after the other."""
    go_on = anyio.Event()
    async with two(make_app(location, go_on=go_on, max_running=8)) as (one, other):
        ids = [await one.begin("wait") for _ in range(20)]
        with anyio.fail_after(5):
            assert text_of(await other.result(await other.begin("give"))) == "x"
        states = [await one.begin("give") for _ in range(2)]
        assert [(await one.state(id))["status"] for id in states] == ["working"] * 2
        for id in ids:
            await one.request("tasks/cancel", {"taskId": id})
        for id in states:
            await one.until(id, "completed")


async def test_the_oldest_finished_tasks_of_a_caller_make_room(location: Any) -> None:
    """Its share is half of the bytes; nothing of others is lost."""
    async with two(make_app(location, max_stored=400_000)) as (one, other):
        kept = await other.begin("give", size=30_000)
        await other.until(kept, "completed")
        waits = await one.begin("ask")
        ids = list[str]()
        for _ in range(12):
            ids.append(await one.begin("give", size=30_000))
            await one.until(ids[-1], "completed")
        for id in ids[:3]:
            with pytest.raises(InvalidParams, match="Unknown task"):
                await one.state(id)
        assert (await other.state(kept))["status"] == "completed"
        await one.until(waits, "input_required")


async def test_unfinished_tasks_have_a_share_of_the_bytes(location: Any) -> None:
    """SEC-17: few large ones are as much as many."""
    async with two(make_app(location, max_stored=400_000)) as (one, other):
        for _ in range(5):
            await one.begin("ask", word="x" * 30_000)
        with pytest.raises(InternalError, match="or they are too large"):
            await one.begin("ask", word="x" * 30_000)
        await other.begin("ask", word="x" * 30_000)


async def test_a_cancelled_task_gives_back_its_bytes(location: Any) -> None:
    async with two(make_app(location, max_stored=400_000)) as (one, _):
        ids = list[str]()
        for _ in range(12):
            ids.append(await one.begin("ask", word="x" * 30_000))
            await one.request("tasks/cancel", {"taskId": ids[-1]})
        assert (await one.state(ids[0]))["status"] == "cancelled", "it had to make room"


async def test_a_finished_task_keeps_its_result_only() -> None:
    """SEC-17: and who may see it."""
    app = make_app()
    async with connected(app, EXTENSION) as client:
        for end in ("completed", "cancelled"):
            id = await client.begin("ask", word="confidential", twice=True)
            await client.reply(id, accept("private"))
            await client.until(id, "input_required")
            if end == "completed":
                await client.reply(id, accept("private"))
            else:
                await client.request("tasks/cancel", {"taskId": id})
            await client.until(id, end)
            table = app.server.memory[TASKS_EXTENSION]
            found = table.records[id]
            assert b"confidential" not in found.call
            assert (found.tool, found.input_requests, found.answers) == ("ask", {}, {})
            assert id not in table.values


# --- tasks that cannot be run here ----------------------------------------------------------------


async def test_a_fault_of_the_call_is_reported_as_such(location: Any) -> None:
    """At once: it has nothing to do with processes."""
    app = make_app(location)
    async with connected(app) as client:
        id = await app.tasks.start("give", {"sizes": 1})
        assert "unknown argument" in str(await client.until(id, "failed", "completed"))
        assert "No process" not in str(await client.state(id))


async def test_tasks_of_a_tool_that_is_removed_fail_in_memory() -> None:
    """No other process could run them."""
    app = make_app()
    async with connected(app) as client:
        id = await client.begin("ask")
        await client.until(id, "input_required")
    app.remove_tool("ask")
    async with connected(app) as client:
        await client.reply(id, accept("yes"))
        found = await client.until(id, "failed")
        assert found["error"]["message"] == "Unknown tool: ask"


@pytest.mark.parametrize("up", [0.0, 1.0, 10**6], ids=lambda up: f"machine up {up:g} s")
def test_a_task_is_judged_once_and_then_left_to_others(
    monkeypatch: pytest.MonkeyPatch, up: float
) -> None:
    monkeypatch.setattr(shares, "monotonic", lambda: up)
    seen: list[str] = []

    def unfit(task: Task) -> str | None:
        seen.append(task.id)
        if task.id == "sealed":
            raise OtherSecret
        return None if task.id == "fit" else "no such tool"

    choice = Choice(4, unfit, lambda: 1)
    tasks = [new(id) for id in ("fit", "unfit", "sealed")]

    def looked() -> list[str]:
        skip = choice.begin(["", "a", "a", "a"])
        found = [each.id for each in tasks if each.id not in skip and choice.fits(each)]
        choice.judge(are_shared=True)
        return found

    assert [looked(), looked(), looked()] == [[], ["fit"], ["fit"]]
    assert sorted(seen) == ["fit", "sealed", "unfit"]
    assert choice.left == {"unfit", "sealed"}
    assert choice.begin(["a", "a", "a"]) == {"a", "unfit", "sealed"}
    monkeypatch.setattr(shares, "UNFIT_S", 0.0)
    assert [looked(), looked()] == [["fit"], ["fit", "unfit"]]
    assert [choice.take(each) for each in tasks] == [None, "no such tool", None]


async def test_a_long_list_of_such_tasks_is_sent_rarely(
    kind: str, location: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The more there are, the longer the pause."""
    monkeypatch.setattr("mcpkit.tasks.runs._SKIP_S", 10.0)
    claims = 0
    begin = Choice.begin

    def count(self: Choice, callers: Any) -> Any:
        nonlocal claims
        claims += 1
        return begin(self, callers)

    monkeypatch.setattr(Choice, "begin", count)
    monkeypatch.setattr(Choice, "left", property(lambda self: {"unfit"} if claims else set()))
    async with connected(make_app(location)) as client:
        await client.begin("give")
        await until(lambda: claims)
        before = claims
        for _ in range(3):
            await client.begin("give")
        assert claims - before <= 2
