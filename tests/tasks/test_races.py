"""What comes in between at the worst moment, and handlers that misbehave."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpkit import Context, MCPKit, SyncContext, TaskSupport
from mcpkit._protocol.connection import TASKS_EXTENSION
from mcpkit._stores import sqlite
from mcpkit._stores.base import StoreUnavailable
from mcpkit._stores.memory import MemoryStore, Table
from mcpkit._stores.sqlite import SqliteStore, is_held
from mcpkit.errors import InvalidParams
from mcpkit.tasks.record import Task
from mcpkit.tasks.service import TaskService, TaskWaiter
from mcpkit.tasks.transitions import CODEC, add, claim, close
from tests.asking.conftest import accept
from tests.kit import PATIENCE, until
from tests.tasks.conftest import Time, present
from tests.tasks.test_serving import QUICK, connected, make_app
from tests.tasks.test_stores import MANY, new, opened
from tests.tasks.wire.conftest import CORE, text_of


def tasks_of(app: MCPKit[Any]) -> TaskService:
    """What looks after the tasks of an app that is served once."""
    (services,) = app.server.all_services
    found: TaskService = services.get(TASKS_EXTENSION)
    return found


# --- legs -----------------------------------------------------------------------------------------


async def test_an_older_state_does_not_stop_a_newer_attempt() -> None:
    """Answers of a store may come in another order than they were given in."""
    go_on = anyio.Event()
    app = make_app(go_on=go_on)
    async with connected(app) as client:
        id = await client.begin("wait")
        tasks = tasks_of(app)
        await until(lambda: tasks._known())
        task = present(await (await tasks.store()).get(id))
        tasks.publish(replace(task, attempt=0, worker=None))
        go_on.set()
        assert text_of(await client.result(id)) == "done"


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_step_of_a_cancelled_handler_blocks_nothing(in_thread: bool) -> None:
    """Its result is not stored, and a handler that cleans up in a step ends all the same."""
    app = make_app(max_running=1)
    started, ended = threading.Event(), threading.Event()

    @app.tool(task="optional")
    async def undo(ctx: Context) -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    await ctx.step("undo", int)
                finally:
                    ended.set()

    @app.tool(task="optional")
    def undo_in_thread(ctx: SyncContext) -> None:
        started.set()
        while not ctx.cancelled:
            threading.Event().wait(0.002)
        try:
            ctx.step("undo", int)
        finally:
            ended.set()

    async with connected(app) as client:
        id = await client.begin("undo_in_thread" if in_thread else "undo")
        await until(started.is_set)
        await client.request("tasks/cancel", {"taskId": id})
        await until(ended.is_set)
        assert text_of(await client.result(await client.begin("give"))) == "x"
        assert (await client.until(id, "cancelled"))["status"] == "cancelled"


@pytest.mark.parametrize("way", ["asks", "returns"])
async def test_the_end_of_a_stopped_thread_is_not_an_outcome(way: str, tmp_path: Path) -> None:
    """Another process runs it again, as one that was killed."""
    started: list[str] = []

    def make_app() -> MCPKit[Any]:
        app: MCPKit = MCPKit("stopped", tasks={"store": str(tmp_path / "tasks.db"), **QUICK})

        @app.tool(task=TaskSupport(resumable=True))
        def run(ctx: SyncContext) -> str:
            started.append("run")
            if len(started) > 1:
                return "done"
            if way == "returns":
                while not ctx.cancelled:
                    threading.Event().wait(0.002)
                return "half"
            while not ctx.backend.session.is_closing:
                threading.Event().wait(0.002)
            ctx.elicit("Where am I?")
            return "answered"

        return app

    async with connected(make_app()) as client:
        id = await client.begin("run")
        await until(lambda: started)
    async with connected(make_app()) as client:
        assert text_of(await client.result(id)) == "done"


# --- those who follow -----------------------------------------------------------------------------


class Follower(TaskWaiter):
    """Records the states that it is notified of."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def task_changed(self, task: Task) -> None:
        self.seen.append(task.status)


async def test_listeners_are_notified_of_changes_in_order() -> None:
    app = make_app()
    async with connected(app) as client:
        id = await client.begin("ask")
        await client.until(id, "input_required")
        tasks = tasks_of(app)
        old = present(await (await tasks.store()).get(id))
        follower = Follower()
        tasks.follow(id, follower)
        tasks.publish(old)
        tasks.publish(replace(old, lease_expires=5.0))
        tasks.publish(replace(old, message="soon"))
        await client.reply(id, accept("so"))
        tasks.publish(old)
        await client.until(id, "completed")
        tasks.publish(old)
        asked = "input_required"
        assert follower.seen == [asked, asked, "working", "completed"]
        assert not tasks._listeners
        assert not tasks._notified


async def test_clients_are_not_notified_of_the_tasks_of_others(tmp_path: Path) -> None:
    """Every change of a file is heard; clients are notified of those of their tasks."""
    heard: list[Any] = []
    app = make_app(str(tmp_path / "tasks.db"))
    async with connected(app, CORE, on_notification=lambda *each: heard.append(each)) as client:
        id = await client.begin("ask")
        await until(lambda: any(each[1].get("status") == "input_required" for each in heard))
        before = len(heard)
        async with connected(make_app(str(tmp_path / "tasks.db"))) as other:
            for _ in range(5):
                await other.until(await other.begin("give"), "completed")
                await anyio.sleep(0.03)
        assert len(heard) == before
        await client.request("tasks/cancel", {"taskId": id})


async def test_an_expired_task_has_no_listeners(time: Time) -> None:
    store = MemoryStore[Task](clock=time)
    app = make_app(lambda: store)
    async with connected(app, CORE) as client:
        id = await client.begin("ask")
        tasks = tasks_of(app)
        assert id in tasks._listeners
        time.now += 30 * 24 * 3600
        await store.sweep()
        await tasks._read_again([*tasks._listeners])
        assert not tasks._listeners


async def test_a_task_of_two_streams_is_followed_until_both_have_ended() -> None:
    """The tasks of other clients are ignored."""
    app = make_app()
    async with connected(app) as client:
        id = await client.begin("ask")
        tasks = tasks_of(app)
        async with client.listening(id), client.listening(id, *map(str, range(50))):
            await until(lambda: [*tasks._listeners] == [id])
        await until(lambda: not tasks._listeners)


async def test_a_task_that_cannot_be_unsealed_does_no_harm(tmp_path: Path) -> None:
    """SEC-8: the secret was changed."""
    async with connected(make_app(str(tmp_path / "tasks.db"), secret="s" * 32)) as client:
        id = await client.begin("ask")
        await client.until(id, "input_required")
    async with connected(make_app(str(tmp_path / "tasks.db"), secret="t" * 32)) as client:
        async with client.listening(id):
            await client.until(await client.begin("give"), "completed")
            await client.request("tasks/cancel", {"taskId": id})
        await client.until(await client.begin("give"), "completed")


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("warning", 2), ("error", 0)])
async def test_a_session_has_its_own_log_level(level: str, count: int) -> None:
    """LOG-2."""
    logged: list[Any] = []
    async with connected(make_app(), CORE, on_log=lambda *each: logged.append(each)) as client:
        await client.request("logging/setLevel", {"level": level})
        id = await client.begin("say")
        await client.request("tasks/result", {"taskId": id})
        assert len(logged) == count


# --- when it begins and ends ----------------------------------------------------------------------


class Slow(MemoryStore[Task]):
    """A store whose answer to a claim is late, or an unexpected error."""

    fails = 0

    def __init__(self) -> None:
        super().__init__()
        self.is_claimed, self.go_on = anyio.Event(), anyio.Event()

    async def claim(self, limit: int, start: Any, **options: Any) -> Sequence[Task]:
        if self.fails:
            self.fails -= 1
            raise ValueError("a record that is unreadable")
        found = await super().claim(limit, start, **options)
        if found:
            self.is_claimed.set()
            await self.go_on.wait()
        return found


async def test_a_task_that_was_only_claimed_is_released_as_it_was() -> None:
    """Its handler has not run, so that any tool may be run by the next process."""
    store = Slow()
    app = make_app(lambda: store)
    async with connected(app) as client:
        id = await client.begin("give")
        with anyio.fail_after(PATIENCE):
            await store.is_claimed.wait()
        tasks = tasks_of(app)
        async with anyio.create_task_group() as group:
            group.start_soon(tasks.aclose)
            await until(lambda: tasks.is_closing)
            store.go_on.set()
    task = present(await store.get(id))
    assert (task.status, task.worker, task.starts, task.crashes) == ("working", None, 0, 0)


async def test_tasks_run_after_an_unexpected_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = Slow()
    store.go_on.set()
    store.fails = 1
    async with connected(make_app(lambda: store)) as client:
        assert text_of(await client.result(await client.begin("give"))) == "x"
    assert "a record that is unreadable" in caplog.text


# --- limits ---------------------------------------------------------------------------------------


async def test_the_answers_and_questions_of_a_task_have_a_size_limit() -> None:
    """SEC-17: a handler that asks again and again keeps all that it gets."""
    app: MCPKit = MCPKit("long", tasks={**QUICK, "max_bytes": 3000})

    @app.tool(task="optional")
    async def ask(count: int, size: int, ctx: Context) -> str:
        for number in range(count):
            await ctx.elicit(f"{number}{'?' * size}", str)
        return "done"

    async with connected(app) as client:
        id = await client.begin("ask", count=10, size=1)
        await client.reply(id, accept("x" * 1400))
        await client.reply(id, accept("x" * 1400))
        with pytest.raises(InvalidParams, match="more than 3000 bytes"):
            await client.reply(id, accept("x" * 1400))
        await client.request("tasks/cancel", {"taskId": id})
        id = await client.begin("ask", count=10, size=1200)
        await client.reply(id, accept("x"))
        await client.reply(id, accept("x"))
        error = (await client.until(id, "failed"))["error"]
        assert error["message"] == "The questions have more than 3000 bytes"


# --- stores ---------------------------------------------------------------------------------------


async def test_a_file_that_another_process_makes_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE others (x)")
        other.execute("BEGIN IMMEDIATE")
        store = SqliteStore[Task](path)
        async with anyio.create_task_group() as group:
            group.start_soon(store.open, CODEC, "runner")
            await anyio.sleep(0.05)
            other.execute("COMMIT")
        assert await store.get("x") is None
        await close(store)


async def test_a_closed_file_rejects_requests(tmp_path: Path) -> None:
    store = SqliteStore[Task](tmp_path / "tasks.db")
    with anyio.fail_after(PATIENCE):
        with pytest.raises(StoreUnavailable):
            await store.get("x")
        await store.open(CODEC, "runner")
        async with anyio.create_task_group() as group:
            group.start_soon(close, store)
            for _ in range(20):
                with suppress(StoreUnavailable):
                    await store.get("x")
        with pytest.raises(StoreUnavailable):
            await store.get("x")
    assert not list(tmp_path.glob("*.lock"))


async def test_locks_of_dead_processes_are_removed(tmp_path: Path) -> None:
    left, young = tmp_path / "tasks.db-left.lock", tmp_path / "tasks.db-young.lock"
    for each in (left, young):
        each.touch()
    os.utime(left, (0, 0))
    async with opened(SqliteStore[Task](tmp_path / "tasks.db")):
        assert not left.exists()
        assert young.exists()


async def test_a_file_with_two_names_has_one_lock(tmp_path: Path) -> None:
    """To a process its own locks look free, so it has to know which are its own."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    one, other = (SqliteStore[Task](tmp_path / each / "t.db") for each in ("real", "link"))
    async with opened(one, "one"), opened(other, "other"):
        await add(one, new("x"), **MANY)
        assert len(await claim(one, 1, 30.0)) == 1
        assert not await claim(other, 1, 30.0)


def test_a_lock_that_cannot_be_read_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to be taken from its process, only because too many files are open here."""

    def refuse(*args: Any) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("mcpkit._stores.sqlite.os.open", refuse)
        assert is_held(str(tmp_path / "x.lock"))
    assert not is_held(str(tmp_path / "x.lock"))


def test_a_failed_rollback_is_survived() -> None:
    """A full disk may refuse that as well."""

    class Broken:
        in_transaction = True

        def execute(self, statement: str) -> None:
            raise sqlite3.OperationalError(f"disk I/O error at {statement}")

    done: Future[Any] = Future()
    job = sqlite._Job(lambda connection: None, True, done)
    sqlite.do_together(Broken(), [job])  # type: ignore[arg-type]
    with pytest.raises(sqlite3.OperationalError, match="BEGIN"):
        done.result(0)


def test_event_loops_in_several_threads_share_a_table() -> None:
    task_table = Table[Task]()
    claimed: list[str] = []

    async def work(name: str) -> None:
        async with opened(MemoryStore(task_table), name) as store:
            for number in range(200):
                made = new(f"{name} {number}", name)
                await add(store, made, limit=10_000, limit_per_holder=10_000)
                claimed.extend(each.id for each in await claim(store, 3, 1000.0))
                await store.list(name, None, 5)

    threads = [threading.Thread(target=anyio.run, args=(work, str(each))) for each in range(4)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    finally:
        sys.setswitchinterval(before)
    assert len(task_table.records) == 800
    assert all(each.worker is None for each in task_table.records.values())
