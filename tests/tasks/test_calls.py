"""Calls with a key run once, whatever happens to their servers and to the store."""

from __future__ import annotations

import os
import random
import secrets
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest

from mcpkit import Idempotent, MCPKit
from mcpkit._protocol.connection import CAPABILITIES_KEY
from mcpkit._utils.sealing import SECRET
from mcpkit.tasks.options import STORE
from mcpkit.testing import AsyncTestClient
from tests.asking.conftest import accept
from tests.kit import PATIENCE, eventually
from tests.messages import announced
from tests.tasks.servers import Servers as Databases
from tests.transports.http import plain
from tests.transports.http.plain import Server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")

FILE = Path(__file__).parents[1] / "keyed.py"
KINDS = ["sqlite", "redis", "postgres"]
CALLERS = 16
CLIENT: dict[str, Any] = {
    CAPABILITIES_KEY: {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}
}
ON_ASYNCIO = True


class Processes:
    """Processes that serve `tests/keyed.py` with one store, some of which are killed."""

    def __init__(self, folder: Path, stack: ExitStack, store: str) -> None:
        self._runs = folder / "runs"
        secret = os.urandom(32).hex()
        self._env = {STORE: store, SECRET: secret, "KEYED": str(self._runs)}
        self._stack = stack
        self.running = [self.start(), self.start()]
        self.kills = 0

    def start(self) -> Server:
        serving = plain.serving(str(FILE), "--http", cwd=FILE.parents[1], env=self._env)
        return self._stack.enter_context(serving)

    def kill(self, server: Server) -> None:
        """Kill one, and start another in its place."""
        place = self.running.index(server)
        server.process.signal(signal.SIGKILL)
        server.process.exit_code(PATIENCE)
        self.kills += 1
        self.running[place] = self.start()

    @staticmethod
    def calling(tool: str, **params: Any) -> Any:
        return announced(1, "tools/call", name=tool, **params)

    def call(self, tool: str, server: Server | None = None, **params: Any) -> Any:
        """The result of a call, which is repeated until there is one."""
        deadline = time.monotonic() + 3 * PATIENCE
        while True:
            client = (server or random.choice(self.running)).client()
            try:
                message = client.post(self.calling(tool, **params)).last
            except (OSError, HTTPException):
                message = {}
            if "result" in message:
                return message["result"]
            assert time.monotonic() < deadline, message
            time.sleep(0.02)

    def runs(self) -> Counter[str]:
        """How often the handler has run, by key."""
        return Counter(self._runs.read_text().splitlines() if self._runs.exists() else ())


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "tasks.db")
    databases: Databases = request.getfixturevalue("servers")
    return databases.url(request.param)


@contextmanager
def processes(folder: Path, store: str) -> Iterator[Processes]:
    with ExitStack() as stack:
        yield Processes(folder, stack, store)


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
            arguments = {"key": key, "seconds": random.choice([0, 0, 0.002, 0.02])}
            with ThreadPoolExecutor(2) as pool:
                sent = [pool.submit(all_.call, "pay", arguments=arguments)]
                if random.random() < 0.5:
                    sent[0].result()
                sent.append(pool.submit(all_.call, "pay", arguments=arguments))
                texts[key] |= {each.result()["content"][0]["text"] for each in sent}

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
                    all_.kill(random.choice(all_.running))
                # A server has to live for a while to notice that another one is dead.
                waiting = open_.copy()
                while not waiting.isdisjoint(open_) and not all(each.done() for each in working):
                    time.sleep(0.05)
            for each in working:
                each.result()
        runs = all_.runs()
    done = {key for key, found in texts.items() if found == {'{"amount":1,"run":1}'}}
    unknown = {
        key for key, found in texts.items() if len(found) == 1 and "is unknown" in next(iter(found))
    }
    print(f"{total} calls, {all_.kills} kills, {len(unknown)} with an unknown outcome")
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
        asked = all_.call("ask", first, arguments=arguments, _meta=CLIENT)
        assert asked["resultType"] == "input_required"
        repeat = all_.call("ask", second, arguments=arguments, _meta=CLIENT)
        assert "The answer to a question" in repeat["content"][0]["text"]
        if is_killed:
            all_.kill(first)
        answers = {key: accept("yes") for key in asked["inputRequests"]}
        retry = {"requestState": asked["requestState"], "inputResponses": answers}
        for each in (second, *all_.running):
            found = all_.call("ask", each, arguments=arguments, _meta=CLIENT, **retry)
            assert found["content"][0]["text"] == "yes a"
        assert all_.runs() == {"a": 1}


def test_a_task_that_runs_again_is_the_same_call(tmp_path: Path) -> None:
    """It was killed behind its question; its repeats get its result."""
    with processes(tmp_path, str(tmp_path / "tasks.db")) as all_:
        first, second = all_.running

        def result(at: Server) -> Any:
            id = all_.call("resume", at, arguments={"key": "a"}, _meta=CLIENT)["taskId"]
            while True:
                found = at.client().post(announced(1, "tasks/get", taskId=id, _meta=CLIENT)).result
                if found["status"] == "input_required":
                    answers = {each: accept("yes") for each in found["inputRequests"]}
                    given = {"taskId": id, "inputResponses": answers, "_meta": CLIENT}
                    at.client().post(announced(1, "tasks/update", **given))
                elif found["status"] != "working":
                    return found["result"]["content"][0]["text"]
                elif all_.runs()["a asked"] and at is first:
                    return id
                time.sleep(0.05)

        result(first)
        (tmp_path / "runs goes on").touch()
        all_.kill(first)
        assert result(second) == "resumed a"
        assert all_.runs() == {"a step": 1, "a": 2, "a asked": 2}


def test_the_outcome_of_a_call_is_unknown_whose_server_was_stopped(
    tmp_path: Path, store: str
) -> None:
    with processes(tmp_path, store) as all_, ThreadPoolExecutor(1) as pool:
        first, second = all_.running
        arguments = {"key": "a", "seconds": 300}
        lost = pool.submit(first.client().post, all_.calling("pay", arguments=arguments))
        eventually(all_.runs)
        first.process.signal(signal.SIGTERM)
        first.process.exit_code(PATIENCE)
        lost.exception()
        found = all_.call("pay", second, arguments=arguments)
        assert "is unknown: it was interrupted" in found["content"][0]["text"]
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
        arguments = {"key": "a", "seconds": 1}
        running = pool.submit(all_.call, "pay", arguments=arguments)
        eventually(all_.runs)
        database.kill()
        found = all_.call("pay", arguments={"key": "b"})
        assert (
            "The call has not run, because its key cannot be stored" in found["content"][0]["text"]
        )
        assert not running.done()
        database.start()
        first = running.result()
        assert first["structuredContent"] == {"amount": 1, "run": 1}
        assert all_.call("pay", arguments=arguments)["structuredContent"] == {"amount": 1, "run": 1}
        eventually(
            lambda: all_.call("pay", arguments={"key": "b"}),
            lambda found: found.get("structuredContent") == {"amount": 1, "run": 1},
        )
        assert all_.runs() == {"a": 1, "b": 1}


# --- in one process -------------------------------------------------------------------------------


@pytest.mark.anyio
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
