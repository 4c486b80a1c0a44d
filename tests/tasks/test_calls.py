"""Calls with a key run once, whatever happens to their servers and to the store."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from mcpkit._utils.sealing import SECRET
from mcpkit.tasks.options import STORE
from tests.kit import PATIENCE
from tests.messages import announced
from tests.tasks.servers import Servers as Databases
from tests.transports.http import plain
from tests.transports.http.plain import Server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")

FILE = Path(__file__).parents[1] / "keyed.py"
KINDS = ["sqlite", "redis", "postgres"]
CALLERS = 16


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

    def call(self, tool: str, server: Server | None = None, **params: Any) -> Any:
        """The result of a call, which is repeated until there is one."""
        deadline = time.monotonic() + 3 * PATIENCE
        while True:
            client = (server or random.choice(self.running)).client()
            try:
                message = client.post(announced(1, "tools/call", name=tool, **params)).last
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
    print(f"{store}: {all_.kills} kills, {len(done)} done, {len(unknown)} unknown")
    assert [key for key, count in runs.items() if count > 1] == []
    assert done | unknown == texts.keys()
    assert done <= runs.keys()
