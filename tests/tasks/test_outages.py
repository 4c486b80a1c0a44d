"""What a store that is away, a clock that jumps and a handler that blocks do to tasks: no harm."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
import time as actual
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpkit import Context, MCPKit, TaskSupport
from mcpkit._stores import connections, redis
from mcpkit._stores.base import StoreUnavailable
from mcpkit._stores.memory import MemoryStore, Table
from mcpkit._stores.redis import RedisStore
from mcpkit._stores.sqlite import SqliteStore
from mcpkit.tasks import runs
from mcpkit.tasks.record import Task
from mcpkit.tasks.transitions import CODEC, add, claim, keep, release_lost
from tests.asking.conftest import accepted
from tests.kit import PATIENCE, until
from tests.tasks.conftest import Place, Time
from tests.tasks.servers import Servers
from tests.tasks.test_races import tasks_of
from tests.tasks.test_serving import QUICK, Fickle, connected, make_app
from tests.tasks.test_stores import MANY, SHARED, STORES, new, opened
from tests.tasks.wire.conftest import text_of
from tests.transports.http import plain
from tests.uvicorns import listen, running

ON_ASYNCIO = True


# --- stores ---------------------------------------------------------------------------------------


@pytest.fixture(params=SHARED)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


async def test_leases_that_nobody_could_renew_do_not_count(
    kind: str, place: Place, time: Time
) -> None:
    """A calm claim takes what is free, and of what runs only what the dead have left. A process
    renews its own leases, and what it has claimed without knowing has not started."""
    async with opened(STORES[kind](place), "one") as one:
        await add(one, new("a", ttl=None), **MANY)
        await claim(one, 1, lease=10)
        await add(one, new("b", ttl=None), **MANY)
        time.now += 3600
        async with opened(STORES[kind](place), "two") as two:
            assert [each.id for each in await claim(two, 5, lease=10, calm=True)] == ["b"]
            assert await claim(one, 5, lease=10, running={("a", 1)}) == []
            assert await claim(two, 5, lease=10) == []
            assert set(await keep(one, [("a", 1)], lease=10)) == {("a", 1)}
        time.now += 20
        again = {each.id: each for each in await claim(one, 5, lease=10)}["a"]
        assert (again.attempt, again.starts, again.crashes) == (2, 1, 1)


async def test_a_claim_whose_answer_was_lost_is_undone(kind: str, place: Place) -> None:
    async with opened(STORES[kind](place), "one") as one:
        for id in ("a", "b"):
            await add(one, new(id), **MANY)
        await claim(one, 2, lease=10)
        await release_lost(one, {("a", 1)})
        async with opened(STORES[kind](place), "two") as two:
            (found,) = await claim(two, 2, lease=10)
            assert (found.id, found.attempt, found.starts, found.crashes) == ("b", 2, 1, 1)


async def test_refused_and_skipped_tasks_are_left_as_they_are(kind: str, place: Place) -> None:
    async with opened(STORES[kind](place), "one") as one:
        for id in ("a", "b", "c"):
            await add(one, new(id), **MANY)
        before = [await one.get(id) for id in ("a", "b")]
        asked: list[str] = []

        def fits(task: Task, now: float) -> bool:
            asked.append(task.id)
            return task.id == "c"

        found = await claim(one, 2, lease=10, fits=fits, skip=["a"])
        assert [each.id for each in found] == ["c"]
        assert asked == ["b", "c"]
        assert [await one.get(id) for id in ("a", "b")] == before
        assert [each.id for each in await claim(one, 2, lease=10)] == ["a", "b"]


@pytest.mark.parametrize("jump", [5, 3600, -3600])
async def test_a_server_that_was_away_or_set_gives_all_time_to_report(
    servers: Servers, jump: int
) -> None:
    """Redis: the first one does not find all others dead, nor alive for longer than they are."""
    url, name = servers.url("redis"), f"mcpkit:{secrets.token_hex(8)}"
    one, two = (RedisStore[Task](url, prefix=name, alive=1.0) for _ in range(2))
    async with opened(one, "one"):
        await add(one, new("a"), **MANY)
        await claim(one, 1, lease=100)
        before = actual.time() - jump
        await one._connections.do(
            [("ZADD", f"{one._tag}:alive", before, "one"), ("SET", f"{one._tag}:seen", before)]
        )
        async with opened(two, "two"):
            assert await claim(two, 1, lease=100) == []
            left = float(await one._ask("ZSCORE", f"{one._tag}:alive", "one")) - actual.time()
            assert 0 < left <= 1


async def test_whatever_connecting_raises_is_an_outage(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Event loops have exceptions of their own for a connection that was reset."""
    monkeypatch.setattr(connections, "_PAUSE_S", 0.01)
    monkeypatch.setattr(connections, "TIMEOUT_S", 0.3)
    store = RedisStore[Task](servers.url("redis"), prefix=secrets.token_hex(8))
    async with opened(store):
        await add(store, new("a"), **MANY)
        exchange = redis._exchange

        async def fail(*_: Any) -> Any:
            raise RuntimeError("unable to perform operation on <TCPTransport closed=True>")

        monkeypatch.setattr(redis, "_exchange", fail)
        with pytest.raises(StoreUnavailable, match="unable to perform"):
            await store.get("a")
        monkeypatch.setattr(redis, "_exchange", exchange)
        with anyio.fail_after(PATIENCE):
            assert await store.get("a") is not None


async def test_a_store_whose_opening_is_cancelled_leaves_no_connection(servers: Servers) -> None:
    store = RedisStore[Task](servers.url("redis"), prefix=secrets.token_hex(8))
    connect, loop, made = store._connect, asyncio.get_running_loop(), list[Any]()

    async def connect_late(*commands: Any) -> Any:
        made.append(await connect(*commands))
        loop.call_soon_threadsafe(scope.cancel)
        return made[-1]

    store._connect = connect_late  # type: ignore[method-assign]
    with anyio.CancelScope() as scope:
        await store.open(CODEC, "one", lambda _: None)
    [listening] = made
    assert not listening.is_connected


# --- a file with many records ---------------------------------------------------------------------


async def test_no_claim_and_no_sweep_reads_finished_records(tmp_path: Path) -> None:
    store = SqliteStore[Task](tmp_path / "tasks.db")
    async with opened(store):
        for dead in ((), ("gone",)):
            where = "due <= 1"
            if dead:
                ids = "SELECT id FROM tasks WHERE"
                where = f"id IN ({ids} {where} UNION ALL {ids} runner IN ('gone'))"
            fresh = f"ifnull(expires, 9e999) > 1 AND {where}"
            skip = "SELECT '1 ' || value FROM json_each('[]')"
            passed = f"id NOT IN ({skip}) AND unfinished NOT IN ({skip})"
            for query in (
                f"SELECT record FROM tasks WHERE {fresh} AND {passed} ORDER BY due, id LIMIT 5",
                "SELECT count(*) FROM tasks WHERE unfinished AND unfinished = ? AND owner <> ?",
                f"SELECT record FROM tasks WHERE {fresh} ORDER BY due, id LIMIT 5",
                "SELECT id FROM tasks WHERE expires <= 1 ORDER BY expires LIMIT 5",
            ):
                values = ["x"] * query.count("?")
                with closing(sqlite3.connect(store.path)) as connection:
                    plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()
                assert not [each[3] for each in plan if each[3].startswith("SCAN tasks")], plan


# --- processes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("resumable", [False, True])
async def test_a_jump_of_the_clock_ends_no_task(
    kind: str, place: Place, time: Time, resumable: bool
) -> None:
    """As after a suspension: neither in its own process nor in another."""
    starts, go_on = list[str](), anyio.Event()
    begun = time.now - actual.monotonic()
    clock = place._replace(clock=lambda: begun + actual.monotonic() + time.now)

    def make() -> MCPKit[Any]:
        tasks: Any = {**QUICK, "store": lambda: STORES[kind](clock), "lease": 3}
        app: MCPKit = MCPKit("asleep", tasks=tasks, secret="s" * 32)

        @app.tool(task=TaskSupport(resumable=resumable))
        async def wait() -> str:
            starts.append("wait")
            await go_on.wait()
            return "done"

        return app

    apps = [make(), make()]
    async with connected(apps[0]) as client, connected(apps[1]) as other:
        ids = [await each.begin("wait") for each in (client, other)]
        await until(lambda: len(starts) == 2)
        for each in apps:  # a process is calm at its start, too
            tasks_of(each).runs._calm.until = 0.0
        time.now += 3600
        ids += [await each.begin("wait") for each in (client, other)]  # each looks for tasks
        await until(lambda: len(starts) == 4)
        go_on.set()
        for id in ids:
            assert text_of(await client.result(id)) == "done"
    assert len(starts) == 4


async def test_a_plain_function_of_a_step_has_a_thread() -> None:
    """It may block, and nothing else waits for it."""
    app: MCPKit = MCPKit("steps", tasks=QUICK)
    go_on, where = threading.Event(), list[int]()

    def block() -> str:
        where.append(threading.get_ident())
        return str(go_on.wait(PATIENCE))

    @app.tool(task="optional")
    async def work(ctx: Context) -> str:
        return await ctx.step("block", block)

    async with connected(app) as client:
        id = await client.begin("work")
        await until(lambda: where)
        assert (await client.state(id))["status"] == "working"
        go_on.set()
        assert text_of(await client.result(id)) == "True"
    assert where != [threading.get_ident()]


async def test_leases_are_renewed_while_a_handler_blocks_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Or another process would run the task too, and be blocked as well; but not for ever."""
    monkeypatch.setattr(runs, "_HUNG", 5)
    table: Table[Task] = Table()
    store = lambda: MemoryStore(table)  # noqa: E731
    app: MCPKit = MCPKit("blocking", tasks={**QUICK, "store": store, "lease": 0.3})
    renewed: list[float] = []

    @app.tool(task="optional")
    async def work(ctx: Context) -> None:
        assert ctx.task is not None
        deadline = actual.monotonic() + PATIENCE
        while (ends := table.records[ctx.task.id].lease_expires) > actual.time():
            assert actual.monotonic() < deadline
            renewed.append(ends)
            actual.sleep(0.01)

    async with connected(app) as client:
        assert "isError" not in await client.result(await client.begin("work"))
    assert len({*renewed}) > 1


async def test_a_lease_that_was_granted_late_is_renewed_first() -> None:
    """Most of it may be over when the answer of the store arrives."""
    happened: list[str] = []

    class Slow(MemoryStore[Task]):
        async def claim(self, *args: Any, **options: Any) -> Any:
            found = await super().claim(*args, **options)
            await anyio.sleep(0.12)
            return found

        async def keep(self, *args: Any, **options: Any) -> Any:
            happened.append("kept")
            return await super().keep(*args, **options)

    app: MCPKit = MCPKit("late", tasks={**QUICK, "store": Slow, "lease": 0.3})

    @app.tool(task="optional")
    async def work() -> None:
        happened.append("run")

    async with connected(app) as client:
        await client.result(await client.begin("work"))
    assert happened[:2] == ["kept", "run"]


async def test_a_task_whose_claim_was_lost_starts_soon() -> None:
    """And not when the lease ends, for others as if its process had ended."""
    lost: list[str] = []

    class Forgetful(MemoryStore[Task]):
        async def claim(self, *args: Any, **options: Any) -> Any:
            found = await super().claim(*args, **options)
            if found and not lost:
                lost.extend(each.id for each in found)
                raise StoreUnavailable("no answer")
            return found

    app: MCPKit = MCPKit("lost", tasks={**QUICK, "store": Forgetful, "lease": 10 * PATIENCE})

    @app.tool(task="optional")
    async def work() -> str:
        return "done"

    async with connected(app) as client:
        id = await client.begin("work")
        assert text_of(await client.result(id)) == "done"
    assert lost == [id]


# --- answers --------------------------------------------------------------------------------------


@pytest.fixture
def away() -> Fickle:
    return Fickle()


@pytest.fixture
def client(away: Fickle) -> Iterator[plain.Client]:
    """A client of 2025-11-25 over HTTP."""
    listener = listen()
    with running(make_app(lambda: away).asgi(), listener), ExitStack() as stack:
        connections: list[HTTPConnection] = []
        stack.callback(lambda: [*map(HTTPConnection.close, connections)])
        client = plain.Client(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", connections)
        client.shake_hands("2025-11-25", elicitation={})
        yield client


def test_an_answer_is_accepted_once_it_is_stored(away: Fickle, client: plain.Client) -> None:
    """TASKL-9, HTTPL-2: else 503, and it is stored later all the same."""
    stream = client.result_of("ask")
    answer = accepted(stream.question())
    away.away = True
    refused = client.post(answer)
    assert refused.status == 503
    assert "cannot be stored" in refused.error
    away.away = False
    assert stream.text == "yes first yes"
    assert client.post(answer).status == 202  # once more, for nothing


def test_questions_are_asked_again_after_an_outage(away: Fickle, client: plain.Client) -> None:
    """TASKL-9: the process that was given the answer may have ended with it."""
    stream = client.result_of("ask")
    first = stream.question()
    away.away = True
    assert away.noticed.wait(PATIENCE)
    away.away = False
    assert (second := stream.question())["id"] != first["id"]
    assert second["params"] == first["params"]
    assert client.post(accepted(second)).status == 202
    assert stream.text == "yes first yes"


async def test_a_change_whose_answer_was_lost_cancels() -> None:
    """TASKL-11: the client is told that the task is cancelled."""
    app = make_app()
    async with connected(app, "2025-11-25") as client:
        id = await client.begin("wait")
        tasks: Any = tasks_of(app)
        change = tasks.change

        async def lose(id: str, edit: Any) -> Any:
            await change(id, edit)
            return await change(id, edit)  # repeated

        tasks.change = lose
        assert (await client.request("tasks/cancel", {"taskId": id}))["status"] == "cancelled"
