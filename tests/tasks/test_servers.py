"""What stores do when their server does not, or when an answer is lost."""

from __future__ import annotations

import importlib
import logging
import secrets
import socket
import sys
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

import anyio
import pytest

from mcpkit._stores import connections as remote
from mcpkit._stores import postgres, redis
from mcpkit._stores.base import StoreUnavailable
from mcpkit._stores.postgres import PostgresStore
from mcpkit._stores.redis import RedisStore
from mcpkit.tasks import record
from mcpkit.tasks.record import Task
from mcpkit.tasks.transitions import CODEC, add, claim, close, keep, remember
from tests.kit import PATIENCE, until
from tests.tasks.conftest import present
from tests.tasks.servers import Redis, Server, Servers, program_of
from tests.tasks.test_stores import MANY, new, opened

ON_ASYNCIO = True

KINDS: Final = ["redis", "postgres"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_PAUSE_S", 0.01)


class Forgetful:
    """Loses the connection after each answer, `forgets` times. `made` are all its connections."""

    forgets = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.made: list[Any] = []

    async def _connect(self, *arguments: Any) -> Any:
        connection = await super()._connect(*arguments)  # type: ignore[misc]
        self.made.append(connection)
        return connection

    async def _carry_out(self, *arguments: Any) -> Sequence[Any]:
        outcomes: Sequence[Any] = await super()._carry_out(*arguments)  # type: ignore[misc]
        if self.forgets:
            self.forgets -= 1
            raise ConnectionResetError("cut")
        return outcomes


class ForgetfulRedis(Forgetful, RedisStore[Task]): ...


class ForgetfulPostgres(Forgetful, PostgresStore[Task]): ...


Store: TypeAlias = ForgetfulRedis | ForgetfulPostgres


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


def store_at(kind: str, url: str, name: str | None = None) -> Store:
    name = name or f"servers_{secrets.token_hex(8)}"
    if kind == "redis":
        return ForgetfulRedis(url, prefix=name)
    return ForgetfulPostgres(url, schema=name, connections=2)


@asynccontextmanager
async def two_at(
    kind: str, url: str, name: str | None = None, on_change: Callable[..., object] | None = None
) -> AsyncGenerator[tuple[Store, Store], None]:
    """Two processes with one store; the second hears of changes."""
    name = name or f"servers_{secrets.token_hex(8)}"
    one, two = (store_at(kind, url, name) for _ in range(2))
    async with opened(two, "two", on_change), opened(one, "one"):
        yield one, two


@pytest.fixture
async def store(kind: str, servers: Servers) -> AsyncGenerator[Store, None]:
    async with opened(store_at(kind, servers.url(kind))) as ready:
        yield ready


@pytest.fixture
def server(kind: str, servers: Servers) -> Iterator[Server]:
    """One that may be treated badly."""
    started = servers.new(kind)
    try:
        yield started
    finally:
        started.end()


# --- answers that are lost ------------------------------------------------------------------------


async def test_a_repeated_request_is_done_once(store: Store) -> None:
    """A connection is lost when the server has done everything, before the answer arrives."""
    await store.get("nothing")
    store.forgets = 1
    assert (await add(store, new("a"), limit=1, limit_per_holder=1)).id == "a"
    store.forgets = 2
    (task,) = await claimed(store)
    assert task.attempt == 1
    store.forgets = 2
    assert await remember(store, "a", 1, "pay", b"1") == b"1"
    store.forgets = 1
    assert list(await keep(store, [("a", 1)], lease=100)) == [("a", 1)]
    assert dict(await store.values("a")) == {"pay": b"1"}
    store.forgets = 2
    finished = await store.change(
        "a", lambda task, now: record.finish(task, 1, "completed", b"!", now)
    )
    assert await store.get("a") == present(finished)


async def test_a_task_may_run_before_the_answer_to_its_addition_is_lost(
    kind: str, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_at(kind, servers.url(kind)) as (one, two):
        carry_out = one._connections.carry_out

        async def lose(*arguments: Any) -> Sequence[Any]:
            outcomes = await carry_out(*arguments)
            if await claim(two, 1, lease=100):
                raise ConnectionResetError("cut")
            return outcomes

        monkeypatch.setattr(one._connections, "carry_out", lose)
        assert (await add(one, new("a"), **MANY)).attempt == 1


async def claimed(store: Store) -> Sequence[Task]:
    """Claim until there is something: what a lost answer has hidden appears again soon."""
    with anyio.fail_after(PATIENCE):
        while True:
            with suppress(StoreUnavailable):
                if tasks := await claim(store, 5, lease=100):
                    return tasks
            await anyio.sleep(0.02)


async def test_a_cancelled_request_does_not_disturb_others(store: Store) -> None:
    for number in range(5):
        await add(store, new(f"{number}"), **MANY)
    wrong: list[str] = []

    async def ask(number: int) -> None:
        with anyio.move_on_after(secrets.randbelow(20) / 10_000):
            task = await store.get(f"{number}")
            if task is None or task.id != f"{number}":
                wrong.append(f"{number}")
            await store.change(f"{number}", record.cancel)

    for _ in range(20):
        async with anyio.create_task_group() as group:
            for number in range(5):
                group.start_soon(ask, number)
    assert wrong == []
    for number in range(5):
        assert present(await store.get(f"{number}")).id == f"{number}"


# --- servers that are away ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["killed", "paused"])
async def test_a_server_may_be_unavailable_for_a_while(
    kind: str, how: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(redis if kind == "redis" else postgres, "_ANSWER_S", 0.4)
    async with opened(store_at(kind, server.url)) as store:
        await add(store, new("a"), **MANY)
        (server.kill if how == "killed" else server.pause)()
        with anyio.fail_after(PATIENCE):
            for ask in (lambda: store.get("a"), lambda: claim(store, 1, lease=1)):
                with pytest.raises(StoreUnavailable):
                    await ask()
        (server.start if how == "killed" else server.go_on)()
        with anyio.fail_after(PATIENCE):
            await claimed(store)
            assert await store.get("a") is not None


async def test_a_short_outage_is_not_noticed(kind: str, server: Server) -> None:
    async with opened(store_at(kind, server.url)) as store:
        await add(store, new("a"), **MANY)
        for _ in range(3):
            server.kill()
            async with anyio.create_task_group() as group:
                group.start_soon(claim, store, 1, 1.0)
                group.start_soon(anyio.to_thread.run_sync, server.start)
                found = await store.get("a")
            assert found is not None


async def test_a_process_is_notified_again_when_the_server_is_back(
    kind: str, server: Server
) -> None:
    heard: list[str | None] = []
    async with two_at(kind, server.url, on_change=heard.append) as (one, two):
        await add(two, new("of two"), **MANY)
        await add(one, new("before"), **MANY)
        await until(lambda: "before" in heard)
        server.kill()
        server.start()
        await until(lambda: None in heard)  # it may have missed something
        await add(one, new("behind"), **MANY)
        await until(lambda: "behind" in heard)
        assert "of two" not in heard


async def test_a_server_that_cannot_be_used_is_reported(kind: str, servers: Servers) -> None:
    wrong = {
        "redis": "unix:///nowhere/at/all",
        "postgres": "postgresql://postgres:secret@/nowhere?host=/nowhere/at/all",
    }
    store = store_at(kind, wrong[kind])
    with pytest.raises(StoreUnavailable, match=r"(?i)no such file") as raised:
        await store.open(CODEC, "x")
    assert "secret" not in str(raised.value)
    with pytest.raises(StoreUnavailable, match="it is closed"):
        await store.get("a")
    if kind == "postgres":
        url = servers.url(kind).replace("/postgres?", "/nowhere?")
        with pytest.raises(StoreUnavailable, match="does not exist"):
            await store_at(kind, url).open(CODEC, "x")


async def test_an_opening_that_is_cancelled_leaves_no_connection(
    kind: str, servers: Servers
) -> None:
    """Libraries may connect in spite of it."""
    made = 0
    for number in (*range(60), 10_000):  # the last one is not cancelled
        store = store_at(kind, servers.url(kind))
        with anyio.move_on_after(number / (10_000 if kind == "redis" else 1000)):
            await store.open(CODEC, "x", lambda id: None)
        await close(store)
        made += len(store.made)
        assert [
            each
            for each in store.made
            if (each.is_connected if kind == "redis" else not each.is_closed())
        ] == []
    assert made


async def test_records_of_a_newer_mcpkit_are_left_alone(kind: str, servers: Servers) -> None:
    name = f"servers_{secrets.token_hex(8)}"
    async with opened(store_at(kind, servers.url(kind), name)) as store:
        await ask(
            store,
            ["SET", f"{{{name}}}:version", "9"],
            f"UPDATE {name}.version SET version = 9",
        )
    with pytest.raises(StoreUnavailable, match="written by a newer mcpkit"):
        await store_at(kind, servers.url(kind), name).open(CODEC, "x")


async def ask(store: Store, command: Sequence[Any], statement: str = "") -> Any:
    """Ask the server of a store directly: Redis for the one, PostgreSQL for the other."""
    if isinstance(store, PostgresStore):
        connection = await store._connect()
        try:
            return await connection.fetch(statement)
        finally:
            await postgres._disconnect(connection)
    plain = await store._connect()
    try:
        return (await redis._exchange(plain, [tuple(command)]))[0]
    finally:
        await redis._disconnect(plain)


@pytest.mark.parametrize(("kind", "package"), [("redis", "redis"), ("postgres", "asyncpg")])
def test_a_missing_library_is_reported_with_its_command(
    kind: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Missing:
        def find_spec(self, name: str, *_: object) -> None:
            if name == package:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(sys, "meta_path", [Missing(), *sys.meta_path])
    for each in [each for each in sys.modules if each.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, each)
    monkeypatch.delitem(sys.modules, f"mcpkit._stores.{kind}")
    with pytest.raises(ImportError, match=rf'pip install "mcpkit\[{kind}\]"'):
        importlib.import_module(f"mcpkit._stores.{kind}")


def test_unusable_options_are_rejected(kind: str) -> None:
    """On trio the error names asyncio."""
    store = store_at(kind, "redis://localhost" if kind == "redis" else "postgresql:///x")
    with pytest.raises(RuntimeError, match="needs asyncio"):
        anyio.run(store.open, CODEC, "x", backend="trio")
    with pytest.raises(ValueError, match="prefix" if kind == "redis" else "schema"):
        store_at(kind, "redis://localhost", '{a"; DROP')


# --- Redis ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["redis"])
async def test_all_keys_of_a_task_expire(store: Store) -> None:
    assert isinstance(store, RedisStore)
    tag = store._tag

    def named(key: str) -> str:
        return f"{tag}:{key}"

    for id, ttl in (("a", 10.0), ("b", 100.0)):
        await add(store, new(id, ttl=ttl), **MANY)
    await claim(store, 1, lease=10)
    await remember(store, "a", 1, "step", b"1")
    keys: list[bytes] = await ask(store, ["KEYS", named("*").replace("{", "[{]")])
    left = {key.decode().partition(":")[2]: await ask(store, ["PTTL", key]) for key in keys}
    # What is of no task stays: two short values, and one for a day.
    assert (left.pop("alive"), left.pop("version")) == (-1, -1)
    assert 0 < left.pop("seen") <= 86_400_000
    assert {"t:a", "t:b", "s:a", "due", "open", "past"} < left.keys()
    for key, milliseconds in left.items():
        ttl = 10 if key in ("t:a", "s:a", "runs:here") else 100
        assert ttl - 5 < milliseconds / 1000 - redis._SLACK_S <= ttl + 1, key
    # And an index of a task that stays, stays.
    await add(store, new("c", ttl=None), **MANY)
    await add(store, new("d", ttl=10.0), **MANY)
    assert await ask(store, ["PTTL", named("due")]) == -1


@pytest.mark.parametrize("kind", ["redis"])
async def test_a_server_that_may_lose_tasks_is_logged(
    kind: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(store_at(kind, server.url)) as store:
        assert caplog.messages == []
        assert isinstance(store, RedisStore)
        await ask(store, ["CONFIG", "SET", "appendonly", "no"])
        await ask(store, ["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
    with caplog.at_level(logging.WARNING):
        async with opened(store_at(kind, server.url)):
            pass
    assert [each.partition("socket ")[2] for each in caplog.messages] == [
        "may lose tasks: appendonly is no and should be yes",
        "may lose tasks: maxmemory-policy is allkeys-lru and should be noeviction",
    ]


class Node(Redis):
    """A server of a cluster, which has ports of its own."""

    def prepare(self) -> None:
        with socket.socket() as free, socket.socket() as bus:
            free.bind(("127.0.0.1", 0))
            bus.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
            self.bus: int = bus.getsockname()[1]

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def command(self) -> Sequence[str]:
        return [
            *(str(self._program), "--dir", str(self.folder), "--cluster-enabled", "yes"),
            *("--unixsocket", str(self.folder / "socket"), "--bind", "127.0.0.1"),
            *("--port", str(self.port), "--cluster-port", str(self.bus)),
        ]


async def test_the_keys_are_found_in_a_cluster(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--deep"):
        pytest.skip("a cluster takes seconds to come about: --deep")
    if (program := program_of("redis")) is None:
        pytest.skip("there is no redis here: .ci/databases")
    with ExitStack() as stack:
        first, second = Node(program), Node(program)
        stack.callback(first.end)
        stack.callback(second.end)
        assert "OK" in second.ask("CLUSTER ADDSLOTSRANGE 0 16383")
        assert "OK" in first.ask(f"CLUSTER MEET 127.0.0.1 {second.port} {second.bus}")
        await until(lambda: "cluster_state:ok" in first.ask("CLUSTER INFO"))
        heard: list[str | None] = []
        async with two_at("redis", first.url, "mcpkit:app", heard.append) as (one, two):
            await add(one, new("a"), **MANY)
            assert [each.attempt for each in await claim(two, 1, lease=10)] == [1]
            assert await remember(two, "a", 1, "step", b"1") == b"1"
            await one.change("a", record.cancel)
            assert [each.status for each in await one.list("o", None, 5)] == ["cancelled"]
            await until(lambda: "a" in heard)


# --- PostgreSQL -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["postgres"])
async def test_a_process_that_loses_its_session_is_not_taken_for_dead(
    kind: str, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_POLL_S", 0.0)
    name = f"servers_{secrets.token_hex(8)}"
    async with two_at(kind, servers.url(kind), name) as (one, two):
        await add(one, new("a"), **MANY)
        await claim(one, 1, lease=100)
        held = (
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND "
            "(classid::bigint << 32) | objid::bigint = "
            f"""hashtextextended('"{name}"' || 'one', 0)"""
        )
        (before,) = await ask(two, [], held)
        await ask(two, [], f"SELECT pg_terminate_backend({before['pid']})")
        with anyio.fail_after(PATIENCE):
            while [each["pid"] for each in await ask(two, [], held)] in ([], [before["pid"]]):
                assert await claim(two, 1, lease=100) == []
        assert await claim(two, 1, lease=100) == []
        assert isinstance(two, PostgresStore)
        assert two._without_lock == {}
