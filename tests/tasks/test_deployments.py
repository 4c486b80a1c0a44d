"""Several versions, apps and secrets on one store: each process runs what it can, and no more."""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, MCPKit
from mcpkit.errors import InternalError, InvalidParams
from mcpkit.tasks import service, shares
from mcpkit.tasks.record import Task
from tests.asking.conftest import accept
from tests.kit import until
from tests.tasks.test_serving import QUICK, connected
from tests.tasks.test_stores import shared
from tests.tasks.wire.conftest import text_of

ON_ASYNCIO = True

COUNT = 20


@pytest.fixture
def name() -> str:
    return f"deployed {secrets.token_hex(6)}"


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tasks that were found fit or not."""
    found: list[str] = []
    judge = shares.Choice._verdict

    def note(self: shares.Choice, task: Task, is_shared: bool) -> Any:
        found.append(task.id)
        return judge(self, task, is_shared)

    monkeypatch.setattr(shares.Choice, "_verdict", note)
    return found


def make_app(name: str, store: str, version: int = 1, **options: Any) -> MCPKit[Any]:
    tasks: Any = {**QUICK, "store": store, **options.pop("tasks", {})}
    app: MCPKit = MCPKit(name, tasks=tasks, **options)
    if version == 1:

        @app.tool(task="optional")
        async def search(word: str) -> str:
            return word

    else:

        @app.tool(task="optional", name="search")
        async def search_deep(word: str, ctx: Context, depth: int = 0) -> str:
            if depth > 5:
                await ctx.elicit("So deep?", str)
            return f"{word} {depth}"

        @app.tool(task="optional")
        async def added(word: str, ctx: Context) -> str:
            return f"added {word} {(await ctx.elicit('And?', str)).data}"

    return app


def assert_no_traceback(caplog: pytest.LogCaptureFixture) -> None:
    assert not [each for each in caplog.records if each.exc_info]


@pytest.mark.parametrize("most", [2, 100])
@shared
async def test_two_versions_share_a_store(
    location: str, name: str, judged: list[str], caplog: pytest.LogCaptureFixture, most: int
) -> None:
    """What only the new one knows waits for it, in front of what both know."""
    old = make_app(name, location, secret="s" * 32, tasks={"max_running": most})
    new = make_app(name, location, 2, secret="s" * 32)
    async with connected(old) as older:
        async with connected(new) as newer:
            calls: Any = [("search", {"depth": 3}), ("search", {}), ("added", {})] * COUNT
            begun = [await newer.begin(tool, word="x", **more) for tool, more in calls]
            for id in begun:
                found = await older.until(id, "completed", "input_required")
                if found["status"] == "input_required":
                    await older.reply(id, accept("yes"))
            for id in begun:
                assert not (await newer.until(id, "completed"))["result"].get("isError")
            waits = await newer.begin("added", word="last")
            await newer.until(waits, "input_required")
        # The new version is gone.
        await older.reply(waits, accept("yes"))
        await older.until(await older.begin("search", word="own"), "completed")
        await until(lambda: waits in judged)
        assert (await older.state(waits))["status"] == "working"
        seen = len(judged)
        async with connected(new) as newer:
            assert text_of(await newer.result(waits)) == "added last yes"
        assert judged[:seen].count(waits) == 1
    assert_no_traceback(caplog)


@shared
async def test_a_process_with_another_secret_leaves_tasks_alone(
    location: str, name: str, judged: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """SEC-8: even if they are older, and more than it may run."""
    one = make_app(name, location, secret="s" * 32, tasks={"max_running": 1})
    two = make_app(name, location, secret="t" * 32, tasks={"max_running": 1})
    async with connected(one) as first:
        left = [await first.begin("search", word=f"{number}") for number in range(COUNT)]
        async with connected(two) as second:
            own = [await second.begin("search", word=f"{number}") for number in range(COUNT)]
            for client, ids in ((first, left), (second, own)):
                for number, id in enumerate(ids):
                    assert text_of(await client.result(id)) == f"{number}"
            with pytest.raises(InternalError, match="made with another secret"):
                await second.state(left[0])
    assert len(judged) <= 4 * COUNT
    assert_no_traceback(caplog)


@shared
async def test_a_process_with_another_secret_takes_no_answer(location: str, name: str) -> None:
    """No other process could read it."""
    one, two = (make_app(name, location, 2, secret=each * 32) for each in "st")
    async with connected(one) as first, connected(two) as second:
        id = await first.begin("added", word="x")
        (key,) = (await first.until(id, "input_required"))["inputRequests"]
        no = {"taskId": id, "inputResponses": {key: accept("no")}}
        with pytest.raises(InternalError, match="made with another secret"):
            await second.request("tasks/update", no)
        await first.reply(id, accept("yes"))
        assert text_of(await first.result(id)) == "added x yes"


@shared
async def test_a_secret_is_rotated_while_tasks_are_under_way(
    location: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A process before it leaves alone what one after it has sealed, even a part of a task."""
    old = make_app(name, location, 2, secret="s" * 32)
    new = make_app(name, location, 2, secret=["t" * 32, "s" * 32])
    async with connected(old) as older, connected(new) as newer:
        ids = [await older.begin("added", word=f"{number}") for number in range(COUNT)]
        for id in ids:
            await newer.reply(id, accept("yes"))
        for number, id in enumerate(ids):
            found = await newer.until(id, "completed", "failed")
            assert text_of(found["result"]) == f"added {number} yes"
    assert_no_traceback(caplog)


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        (("added", {}), "Unknown tool: added"),
        (("search", {"depth": 6}), "Invalid arguments for search: depth: unknown argument"),
    ],
)
async def test_a_task_that_no_process_can_run_fails_at_last(
    tmp_path: Path,
    name: str,
    judged: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tool: tuple[str, dict[str, Any]],
    reason: str,
) -> None:
    """With the reason, after the time that a deployment may take."""
    store = str(tmp_path / "tasks.db")
    async with connected(make_app(name, store, 2)) as newer:
        id = await newer.begin(tool[0], word="x", **tool[1])
        await newer.until(id, "input_required")
    async with connected(make_app(name, store)) as older:
        await older.reply(id, accept("yes"))
        await until(lambda: id in judged)
        assert (await older.state(id))["status"] == "working"
        monkeypatch.setattr(shares, "UNFIT_S", 0.0)
        found = await older.until(id, "failed")
        assert found["error"]["message"].startswith("No process could run the task: ")
        assert reason in found["error"]["message"]


async def test_tasks_of_an_app_without_tools_expire(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TASKL-4: the last tool that ran as a task was removed."""
    store = str(tmp_path / "tasks.db")
    async with connected(make_app(name, store, tasks={"ttl": 0.01})) as client:
        await client.begin("search", word="x")
    monkeypatch.setattr(service, "_SWEEP_S", 0.02)
    async with connected(MCPKit(name, tasks=store)):
        with closing(sqlite3.connect(store)) as connection:
            await until(lambda: not connection.execute("SELECT * FROM tasks").fetchall())


async def test_apps_of_different_names_share_a_file(tmp_path: Path) -> None:
    """The tasks that were in it belong to the first that uses it."""
    store = str(tmp_path / "tasks.db")
    one, two = make_app("one", store), make_app("two", store, 2)
    async with connected(one) as first, connected(two) as second:
        ids = [await first.begin("search", word=f"{number}") for number in range(COUNT)]
        others = [await second.begin("search", word=f"{number}") for number in range(COUNT)]
        for number in range(COUNT):
            assert text_of(await first.result(ids[number])) == f"{number}"
            assert text_of(await second.result(others[number])) == f"{number} 0"
        with pytest.raises(InvalidParams, match="Unknown task"):
            await second.state(ids[0])
    async with connected(make_app("two", store)) as second, connected(one) as first:
        assert text_of(await first.result(ids[0])) == "0"
        assert text_of(await second.result(others[0])) == "0 0"
