"""Calls with a key run once, whatever happens to their servers and to the store."""

from __future__ import annotations

import random
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest

from mcpkit import Idempotent, MCPKit
from mcpkit.tasks.options import STORE
from mcpkit.testing import AsyncTestClient
from tests.asking.conftest import accept
from tests.kit import PATIENCE, eventually
from tests.messages import announced
from tests.tasks.servers import Servers as Databases
from tests.tasks.test_kills import Servers
from tests.transports.http.plain import Server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")

KINDS = ["sqlite", "redis", "postgres"]
CALLERS = 16
PAID = '{"amount":1,"run":1}'
ON_ASYNCIO = True


class Processes(Servers):
    """Processes that serve `tests/keyed.py` with one store."""

    file = Path(__file__).parents[1] / "keyed.py"

    def call(self, tool: str, server: Server | None = None, /, **params: Any) -> Any:
        return self.ask("tools/call", server, name=tool, **params)

    def pay(self, server: Server | None = None, /, **arguments: Any) -> str:
        """The text of the result of a call."""
        return str(self.call("pay", server, arguments=arguments)["content"][0]["text"])

    def runs(self) -> Counter[str]:
        """How often the handler has run, by key."""
        return Counter({key: len(pids) for key, pids in self.started().items()})


@contextmanager
def processes(folder: Path, store: str) -> Iterator[Processes]:
    with ExitStack() as stack:
        made = Processes(folder, stack, **{STORE: store})
        made.start()
        made.start()
        yield made


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "tasks.db")
    databases: Databases = request.getfixturevalue("servers")
    return databases.url(request.param)


@pytest.mark.timeout(3000)
def test_no_call_runs_twice_while_servers_are_killed(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    """Each is sent twice at least, at once or one after the other, and again if it is lost."""
    deep: bool = request.config.getoption("--deep")
    total = 10_000 if deep else 200
    texts: dict[str, set[str]] = {f"key {each}": set() for each in range(total)}
    keys, open_ = iter(list(texts)), set[str]()

    with processes(tmp_path, store) as all_:

        def call(key: str) -> None:
            pay = partial(all_.pay, key=key, seconds=random.choice([0, 0, 0.002, 0.02]))
            with ThreadPoolExecutor(2) as pool:
                sent = [pool.submit(pay)]
                if random.random() < 0.5:
                    sent[0].result()
                sent.append(pool.submit(pay))
                texts[key] |= {each.result() for each in sent}

        def work() -> None:
            for key in keys:
                open_.add(key)
                call(key)
                open_.discard(key)

        with ThreadPoolExecutor(CALLERS) as pool:
            working = [pool.submit(work) for _ in range(CALLERS)]
            while not all(each.done() for each in working):
                for _ in range(3):
                    time.sleep(random.uniform(0.05, 0.5))
                    all_.kill()
                # A server has to live for a while to notice that another one is dead.
                waiting = open_.copy()
                while not waiting.isdisjoint(open_) and not all(each.done() for each in working):
                    time.sleep(0.05)
            for each in working:
                each.result()
        runs = all_.runs()
    done = {key for key, found in texts.items() if found == {PAID}}
    unknown = {
        key for key, found in texts.items() if len(found) == 1 and "is unknown" in next(iter(found))
    }
    print(f"{total} calls, {len(all_.killed)} kills, {len(unknown)} with an unknown outcome")
    assert [key for key, count in runs.items() if count > 1] == []
    assert done | unknown == texts.keys()
    assert done <= runs.keys()


@pytest.mark.parametrize("is_killed", [True, False])
def test_another_process_goes_on_than_the_one_that_asked(
    tmp_path: Path, store: str, is_killed: bool
) -> None:
    """MRTR-5; and the retry that is sent again gets the recorded result."""
    with processes(tmp_path, store) as all_:
        arguments = {"key": "a"}
        first, second = all_.running
        asked = all_.call("ask", first, arguments=arguments)
        assert asked["resultType"] == "input_required"
        repeat = all_.call("ask", second, arguments=arguments)
        assert "The answer to a question" in repeat["content"][0]["text"]
        if is_killed:
            all_.kill(first)
            all_.start()
        answers = {key: accept("yes") for key in asked["inputRequests"]}
        retry = {"requestState": asked["requestState"], "inputResponses": answers}
        for each in (second, *all_.running):
            found = all_.call("ask", each, arguments=arguments, **retry)
            assert found["content"][0]["text"] == "yes a"
        assert all_.runs() == {"a": 1}


def test_a_task_that_runs_again_is_the_same_call(tmp_path: Path) -> None:
    """It was killed behind its question; its repeats get its result."""
    with processes(tmp_path, str(tmp_path / "tasks.db")) as all_:
        first, second = all_.running
        id = all_.call("resume", first, arguments={"key": "a"})["taskId"]
        all_.answer(all_.until(id, asked=True))
        eventually(lambda: all_.runs()["a asked"])
        (tmp_path / "log goes on").touch()
        all_.kill(first)
        repeat = all_.call("resume", second, arguments={"key": "a"})["taskId"]
        for each in (id, repeat):
            assert all_.until(each)["result"]["content"][0]["text"] == "resumed a"
        assert all_.runs() == {"a step": 1, "a": 2, "a asked": 2}


def test_the_outcome_of_a_call_is_unknown_whose_server_was_stopped(
    tmp_path: Path, store: str
) -> None:
    with processes(tmp_path, store) as all_, ThreadPoolExecutor(1) as pool:
        first, second = all_.running
        arguments = {"key": "a", "seconds": 300}
        call = announced(1, "tools/call", name="pay", arguments=arguments)
        lost = pool.submit(first.client().post, call)
        eventually(all_.runs)
        first.process.signal(signal.SIGTERM)
        first.process.exit_code(PATIENCE)
        lost.exception()
        assert "is unknown: it was interrupted" in all_.pay(second, **arguments)
        assert all_.runs() == {"a": 1}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_a_store_that_is_away_lets_no_call_run_and_loses_no_result(
    tmp_path: Path, servers: Databases, kind: str
) -> None:
    database = servers.new(kind, fsync=kind == "redis")
    with ExitStack() as stack:
        stack.callback(database.end)
        all_ = stack.enter_context(processes(tmp_path, database.url))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        running = pool.submit(all_.pay, key="a", seconds=1)
        eventually(all_.runs)
        database.kill()
        assert "The call has not run, because its key cannot be stored" in all_.pay(key="b")
        assert not running.done()
        database.start()
        assert [running.result(), all_.pay(key="a", seconds=1)] == [PAID, PAID]
        eventually(lambda: all_.pay(key="b"), lambda found: found == PAID)
        assert all_.runs() == {"a": 1, "b": 1}


# --- in one process -------------------------------------------------------------------------------


async def test_processes_share_their_keys_and_apps_do_not(store: str) -> None:
    """Two servers of one app, and one of another, with 100 calls at once each."""
    runs: Counter[str] = Counter()

    def make_app(name: str) -> MCPKit[None]:
        app: MCPKit[None] = MCPKit(name, tasks={"store": store})

        @app.tool
        async def pay(key: Annotated[str, Idempotent()]) -> str:
            runs[name] += 1
            await anyio.sleep(0.01)
            return f"{name} {runs[name]}"

        @app.tool
        def brief(key: Annotated[str, Idempotent(lifetime=1)]) -> str:
            runs["brief"] += 1
            return f"{runs['brief']}"

        return app

    name, texts = secrets.token_hex(8), list[str]()
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(AsyncTestClient(make_app(each)))
            for each in (name, name, f"other {name}")
        ]

        async def call(client: AsyncTestClient) -> None:
            texts.append((await client.call_tool("pay", {"key": "a"})).text)

        async with anyio.create_task_group() as group:
            for client in clients * 100:
                group.start_soon(call, client)
        for number in (1, 2):
            for client in clients[:2]:
                assert (await client.call_tool("brief", {"key": "a"})).text == f"{number}"
            await anyio.sleep(1)  # it is forgotten
    assert Counter(texts) == {f"{name} 1": 200, f"other {name} 1": 100}
