"""What every store of tasks does, and that all do the same."""

from __future__ import annotations

import secrets
import sqlite3
import stat
import threading
import time as actual
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._stores.base import StoreUnavailable, TooManyRecords
from mcpkit._stores.memory import MemoryStore
from mcpkit._stores.postgres import _TABLES as FIRST_TABLES
from mcpkit._stores.postgres import PostgresStore
from mcpkit._stores.redis import RedisStore
from mcpkit._stores.sqlite import SqliteStore
from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from mcpkit.tasks.transitions import CODEC, TaskStore, add, claim, close, keep, remember
from tests.tasks.conftest import Place, Time
from tests.tasks.servers import SERVERS, Servers, program_of


def in_redis(place: Place, kind: str = "redis") -> TaskStore:
    url = place.servers.url(kind)
    return RedisStore(url, prefix=f"mcpkit:{place.name}", clock=place.clock)


def in_postgres(place: Place) -> TaskStore:
    url, schema = place.servers.url("postgres"), f"mcpkit_{place.name}"
    return PostgresStore(url, schema=schema, connections=2, clock=place.clock)


STORES: Final[dict[str, Callable[[Place], TaskStore]]] = {
    "memory": lambda place: MemoryStore(clock=place.clock or actual.time),
    "sqlite": lambda place: SqliteStore(
        place.folder / "tasks.db", clock=place.clock or actual.time
    ),
    "redis": in_redis,
    "valkey": partial(in_redis, kind="valkey"),
    "postgres": in_postgres,
}
SHARED: Final = [each for each in STORES if each != "memory"]
MANY: Final = {"limit": 100, "limit_per_holder": 100}


AnyStore = TypeVar("AnyStore", bound=TaskStore)


@asynccontextmanager
async def opened(
    store: AnyStore, runner: str = "here", on_change: Callable[[str | None], object] | None = None
) -> AsyncGenerator[AnyStore, None]:
    await store.open(CODEC, runner, on_change or (lambda id: None))
    try:
        yield store
    finally:
        await close(store)


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
async def store(kind: str, place: Place) -> AsyncGenerator[TaskStore, None]:
    async with opened(STORES[kind](place)) as ready:
        yield ready


def new(id: str, owner: str = "o", ttl: float | None = 60, caller: str = "") -> Task:
    return Task(id=id, owner=owner, caller=caller, call=b"call of " + id.encode(), ttl=ttl)


async def test_tasks_are_claimed_once_until_their_leases_end(store: TaskStore, time: Time) -> None:
    """The oldest first."""
    for id in ("b", "a", "c"):
        await add(store, new(id), **MANY)
        time.now += 1
    assert [(each.id, each.attempt, each.worker) for each in await claim(store, 2, lease=10)] == [
        ("b", 1, "here"),
        ("a", 1, "here"),
    ]
    assert [each.id for each in await claim(store, 5, lease=100)] == ["c"]
    assert await claim(store, 5, lease=10) == []
    time.now += 9
    assert list(await keep(store, [("a", 1)], lease=10)) == [("a", 1)]
    time.now += 1
    assert [(each.id, each.attempt) for each in await claim(store, 5, lease=10)] == [("b", 2)]
    assert set(await keep(store, [("a", 1), ("b", 1), ("b", 2)], lease=10)) == {("a", 1), ("b", 2)}


async def test_a_change_applies_to_the_present_state(store: TaskStore, time: Time) -> None:
    """TASKX-6: one that raises changes nothing."""
    added = await add(store, new("a"), **MANY)
    assert (added.created, added.updated, added.status) == (1000, 1000, "working")
    assert await store.get("a") == added
    assert await store.get("b") is None

    def fail(task: Task, now: float) -> Task:
        raise LookupError("no")

    with pytest.raises(LookupError):
        await store.change("a", fail)
    assert await store.get("a") == added
    await claim(store, 1, lease=10)
    time.now += 5
    changed = await store.change("a", lambda task, now: record.note(task, now, 1, "half"))
    assert changed is not None
    assert (changed.message, changed.updated) == ("half", 1005)
    assert await store.get("a") == changed
    assert await store.change("a", lambda task, now: record.note(task, now, 7, "late")) is None
    assert await store.get("a") == changed
    with pytest.raises(KeyError):
        await store.change("b", lambda task, now: task)


async def test_the_first_result_of_a_step_stays(store: TaskStore, time: Time) -> None:
    """An attempt that was lost stores none."""
    await add(store, new("a"), **MANY)
    await claim(store, 1, lease=10)
    assert await remember(store, "a", 1, "pay", b"first") == b"first"
    assert await remember(store, "a", 1, "pay", b"second") == b"first"
    assert await remember(store, "a", 1, "ship", b"\0\xff") == b"\0\xff"
    time.now += 10
    await claim(store, 1, lease=10)
    assert await remember(store, "a", 1, "late", b"late") is None
    assert await remember(store, "b", 1, "pay", b"of nothing") is None
    assert dict(await store.values("a")) == {"pay": b"first", "ship": b"\0\xff"}
    assert dict(await store.values("b")) == {}


@pytest.mark.parametrize("kind", ["postgres"])
@pytest.mark.parametrize(
    "key", ["a\0b", "\ud800", secrets.token_hex(20_000)], ids=["NUL", "half", "long"]
)
async def test_data_that_cannot_be_stored_are_no_outage(store: TaskStore, key: str) -> None:
    """To try again would be in vain."""
    await add(store, new("a"), **MANY)
    await claim(store, 1, lease=10)
    with anyio.fail_after(3), pytest.raises(Exception, match=r"0x00|utf-8|index row") as caught:
        await remember(store, "a", 1, key, b"value")
    assert not isinstance(caught.value, (StoreUnavailable, TimeoutError))
    assert await remember(store, "a", 1, "pay", b"value") == b"value"


async def test_a_list_has_the_tasks_of_one_owner_in_pages(store: TaskStore, time: Time) -> None:
    for number, id in enumerate("dacb"):
        await add(store, new(id, "x"), **MANY)
        await add(store, new(f"other {id}", "y"), **MANY)
        time.now += number % 2
    # The clock went on after the second only; tasks of one moment stand in the order of their ids.
    first = await store.list("x", None, 3)
    assert [each.id for each in first] == ["a", "d", "b"]
    rest = await store.list("x", (first[-1].created, first[-1].id), 3)
    assert [each.id for each in rest] == ["c"]
    assert await store.list("x", (rest[-1].created, rest[-1].id), 3) == []
    assert await store.list("unknown", None, 3) == []


async def test_a_task_is_stored_until_it_expires(store: TaskStore, time: Time) -> None:
    """TASKX-17: never early."""
    await add(store, new("a", ttl=10), **MANY)
    await add(store, new("b", ttl=None), **MANY)
    await claim(store, 1, lease=100)
    await remember(store, "a", 1, "step", b"1")
    time.now += 9.9
    assert await store.sweep() == 0
    assert await store.get("a") is not None
    time.now += 0.1
    assert await store.get("a") is None
    assert [each.id for each in await store.list("o", None, 5)] == ["b"]
    assert list(await keep(store, [("a", 1)], lease=10)) == []
    with pytest.raises(KeyError):
        await store.change("a", lambda task, now: task)
    assert await store.sweep() == 1
    assert dict(await store.values("a")) == {}
    assert [each.id for each in await claim(store, 5, lease=10)] == ["b"]
    await add(store, new("c"), limit=2, limit_per_holder=2)  # the other one counts no more


# --- all stores do the same -----------------------------------------------------------------------

IDS = st.sampled_from("abcd")
ATTEMPTS = st.integers(0, 4)
KEYS = st.sampled_from("xyz")
ANSWERS = st.dictionaries(KEYS, st.binary(max_size=3), max_size=3)
STEPS = st.one_of(
    st.tuples(st.just("add"), IDS, st.sampled_from("op"), st.sampled_from([None, 5.0, 50.0])),
    st.tuples(st.just("wait"), st.sampled_from([0.5, 3.0, 10.0])),
    st.tuples(st.just("claim"), st.integers(1, 3)),
    st.tuples(st.just("keep"), st.lists(st.tuples(IDS, ATTEMPTS), max_size=4)),
    st.tuples(st.just("suspend"), IDS, ATTEMPTS, ANSWERS, st.booleans()),
    st.tuples(st.just("resume"), IDS, ATTEMPTS),
    st.tuples(st.just("answer"), IDS, ANSWERS),
    st.tuples(st.just("finish"), IDS, ATTEMPTS),
    st.tuples(st.just("give back"), IDS, ATTEMPTS),
    st.tuples(st.just("cancel"), IDS),
    st.tuples(st.just("remember"), IDS, ATTEMPTS, KEYS, st.binary(max_size=3)),
    st.tuples(st.just("get"), IDS),
    st.tuples(st.just("list"), st.sampled_from("op"), st.integers(1, 3)),
    st.tuples(st.just("sweep")),
)


async def done(store: TaskStore, step: tuple[Any, ...]) -> Any:
    """What comes of a step; an exception as its class."""
    what, *rest = step
    try:
        if what == "add":
            id, owner, ttl = rest
            if await store.get(id) is None:
                await store.sweep()
                return await add(store, new(id, owner, ttl), limit=3, limit_per_holder=2)
            return None
        if what == "claim":
            return list(await claim(store, rest[0], lease=4))
        if what == "keep":
            return sorted(await keep(store, rest[0], lease=4))
        if what == "remember":
            return await remember(store, *rest), dict(await store.values(rest[0]))
        if what == "get":
            return await store.get(rest[0])
        if what == "list":
            return list(await store.list(rest[0], None, rest[1]))
        if what == "sweep":
            return await store.sweep()
        changes: dict[str, Callable[[Task, float], Task | None]] = {
            "suspend": lambda task, now: record.suspend(
                task, rest[1], rest[2], now, is_held=rest[3]
            ),
            "resume": lambda task, now: record.resume(task, rest[1]),
            "answer": lambda task, now: record.answer(task, rest[1], now),
            "finish": lambda task, now: record.finish(task, rest[1], "completed", b"!", now),
            "give back": lambda task, now: record.release(task, rest[1]),
            "cancel": lambda task, now: record.cancel(task, now),
        }
        return await store.change(rest[0], changes[what])
    except (KeyError, TooManyRecords) as error:
        return type(error)


@pytest.mark.timeout(300)
@given(st.lists(STEPS, min_size=5, max_size=40))
def test_all_stores_behave_alike(
    tmp_path_factory: pytest.TempPathFactory, servers: Servers, steps: list[tuple[Any, ...]]
) -> None:
    """Those whose servers are here."""
    time = Time()
    place = Place(tmp_path_factory.mktemp("stores"), servers, secrets.token_hex(8), time)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            stores = [
                await stack.enter_async_context(opened(make(place)))
                for kind, make in STORES.items()
                if kind not in SERVERS or program_of(kind)
            ]
            for step in steps:
                if step[0] == "wait":
                    time.now += step[1]
                    continue
                first, *others = [await done(store, step) for store in stores]
                for other in others:
                    assert other == first, step

    anyio.run(main)


# --- what processes share -------------------------------------------------------------------------

shared = pytest.mark.parametrize("kind", SHARED)


@shared
async def test_everything_is_there_after_a_restart(kind: str, place: Place) -> None:
    async with opened(STORES[kind](place), "first") as store:
        await add(store, new("a"), **MANY)
        await add(store, new("b"), **MANY)
        await claim(store, 1, lease=1000)
        await remember(store, "a", 1, "step", b"1")
        before = await store.get("b")
    async with opened(STORES[kind](place), "second") as store:
        assert await store.get("b") == before
        assert dict(await store.values("a")) == {"step": b"1"}
        # What ran was given back, and waits for no lease.
        assert [(each.id, each.attempt) for each in await claim(store, 5, lease=1)] == [
            ("a", 2),
            ("b", 1),
        ]


@shared
async def test_a_task_of_a_living_process_is_not_claimed(
    kind: str, place: Place, time: Time
) -> None:
    async with opened(STORES[kind](place), "one") as one:
        await add(one, new("a"), **MANY)
        await claim(one, 1, lease=10)
        async with opened(STORES[kind](place), "two") as two:
            assert await claim(two, 1, lease=10) == []
            time.now += 10
            assert [each.attempt for each in await claim(two, 1, lease=10)] == [2]
            assert await remember(one, "a", 1, "step", b"late") is None


@shared
async def test_a_process_is_notified_of_changes(kind: str, place: Place) -> None:
    place = place._replace(clock=None)
    heard = threading.Event()
    one, two = STORES[kind](place), STORES[kind](place)
    async with opened(one, "one"), opened(two, "two", lambda id: heard.set()):
        await add(one, new("a"), **MANY)
        assert await anyio.to_thread.run_sync(heard.wait, 10)


@shared
async def test_many_requests_may_wait(kind: str, place: Place) -> None:
    async with opened(STORES[kind](place)) as store:

        async def one(number: int) -> None:
            await add(store, new(f"task {number}"), limit=1000, limit_per_holder=1000)
            await store.change(f"task {number}", record.cancel)

        async with anyio.create_task_group() as group:
            for number in range(300):
                group.start_soon(one, number)
        found = await store.list("o", None, 1000)
        assert len(found) == 300
        assert {each.status for each in found} == {"cancelled"}


@shared
async def test_each_task_is_claimed_by_one_of_many(kind: str, place: Place) -> None:
    async with AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(opened(STORES[kind](place), f"runner {number}"))
            for number in range(3)
        ]
        for number in range(30):
            await add(stores[0], new(f"{number:02}"), **MANY)
        claimed: list[Task] = []

        async def claim_all(store: TaskStore) -> None:
            while found := await claim(store, 2, lease=100):
                claimed.extend(found)

        async with anyio.create_task_group() as group:
            for store in stores:
                group.start_soon(claim_all, store)
        # Conflicting claims have left nothing behind.
        claimed += await claim(stores[0], 30, lease=100)
        assert sorted(each.id for each in claimed) == [f"{number:02}" for number in range(30)]
        assert {each.attempt for each in claimed} == {1}


# --- SQLite ---------------------------------------------------------------------------------------


async def test_the_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    async with opened(SqliteStore[Task](tmp_path / "tasks.db")) as store:
        await add(store, new("a"), **MANY)
        for each in tmp_path.iterdir():
            assert stat.S_IMODE(each.stat().st_mode) == 0o600, each
    assert [each.name for each in tmp_path.iterdir()] == ["tasks.db"]


async def test_a_file_that_cannot_be_used_is_reported(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="No such file or directory"):
        await SqliteStore[Task](tmp_path / "nowhere" / "tasks.db").open(CODEC, "x")
    (tmp_path / "other").write_text("something else, of some length" * 100)
    with pytest.raises(StoreUnavailable, match="not a database"):
        await SqliteStore[Task](tmp_path / "other").open(CODEC, "x")
    connection = sqlite3.connect(tmp_path / "newer.db")
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    with pytest.raises(StoreUnavailable, match="written by a newer mcpkit"):
        await SqliteStore[Task](tmp_path / "newer.db").open(CODEC, "x")
    assert not list(tmp_path.glob("*.lock"))


# --- stored by earlier versions -------------------------------------------------------------------

STORED: Final = (
    b'{"id":"a","owner":"o","ttl":60.0,"created":1000.0,"updated":1001.0,"status":"input_required",'
    b'"message":"half","open":["q"],"leg":2,"runner":null,"until":1010.0,"crashes":0,"begun":0,'
    b'"asks":["p","q"],"answers":["p"],"has_outcome":false,"sizes":[4,0,2,2,1]}\ncallp?q?!'
)
"""A task as the first version has stored it."""


def test_a_task_is_stored_as_ever() -> None:
    """Processes of several versions may share a store."""
    task = record.load(STORED)
    assert (task.attempt, task.worker, task.lease_expires, task.starts) == (2, None, 1010, 0)
    assert (dict(task.input_requests), dict(task.answers)) == (
        {"p": b"p?", "q": b"q?"},
        {"p": b"!"},
    )
    assert record.dump(task) == STORED
    named = replace(task, caller="c", tool="t")
    assert record.load(record.dump(named)) == named


async def test_a_file_of_the_first_version_is_opened(tmp_path: Path, time: Time) -> None:
    connection = sqlite3.connect(tmp_path / "tasks.db")
    connection.executescript(
        "CREATE TABLE tasks (id TEXT PRIMARY KEY, owner TEXT NOT NULL, created REAL NOT NULL, "
        "expires REAL, unfinished INTEGER NOT NULL, due REAL, runner TEXT, record BLOB NOT NULL);"
        "CREATE TABLE steps (id TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, "
        "PRIMARY KEY (id, key)) WITHOUT ROWID; PRAGMA user_version = 1;"
    )
    row = ("a", "o", 1000, 1060, True, None, None, STORED)
    connection.execute("INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.execute("INSERT INTO steps VALUES ('a', 'pay', x'31')")
    connection.commit()
    connection.close()
    async with opened(SqliteStore[Task](tmp_path / "tasks.db", clock=time)) as store:
        assert dict(await store.values("a")) == {"pay": b"1"}
        await store.change("a", lambda task, now: record.answer(task, {"q": b"!"}, now))
        assert [(each.id, each.attempt) for each in await claim(store, 5, lease=10)] == [("a", 3)]


@pytest.mark.parametrize("kind", ["postgres"])
async def test_a_schema_of_the_first_version_is_completed(kind: str, place: Place) -> None:
    """Processes of that version go on: they name no new column."""
    asyncpg: Any = pytest.importorskip("asyncpg")
    schema = f"mcpkit_{place.name}"
    connection = await asyncpg.connect(place.servers.url("postgres"))
    try:
        await connection.execute(FIRST_TABLES.format(schema=schema, version=1))
        row = ("a", "o", 1000.0, 1060.0, True, None, None, "v", STORED)
        insert = f"INSERT INTO {schema}.tasks VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)"
        await connection.execute(insert, *row)
        async with opened(STORES[kind](place)) as store:
            await connection.execute(insert, "b", *row[1:])
            limits = {"limit": 9, "limit_per_holder": 2}
            with pytest.raises(TooManyRecords):
                await add(store, new("c"), **limits)
            await add(store, new("c", caller="x"), **limits)
            await store.change("a", lambda task, now: record.answer(task, {"q": b"!"}, now))
            assert [each.id for each in await claim(store, 5, lease=10, skip={"x"})] == ["a"]
    finally:
        await connection.close()


@pytest.mark.parametrize("kind", SHARED)
async def test_what_an_earlier_version_finishes_counts_no_more(store: TaskStore) -> None:
    """It drops the caller and the tool of what it changes."""

    def earlier(task: Task) -> Task:
        return replace(task, caller="", tool="")

    limits = {"limit": 9, "limit_per_holder": 2}
    for id in ("a", "b"):
        await add(store, replace(new(id, caller="x"), tool="t"), **limits)
        await claim(store, 1, lease=10)
    with pytest.raises(TooManyRecords):
        await add(store, new("c", caller="x"), **limits)
    await store.change(
        "a", lambda task, now: record.finish(earlier(task), 1, "completed", b"!", now)
    )
    await add(store, new("c", caller="x"), **limits)
    await store.change("b", lambda task, now: record.suspend(earlier(task), 1, {"q": b"?"}, now))
    await store.change("b", lambda task, now: record.answer(task, {"q": b"!"}, now))
    await store.change("b", record.cancel)
    await add(store, new("d", caller="x"), **limits)
    with pytest.raises(TooManyRecords):
        await add(store, new("e", caller="x"), **limits)
