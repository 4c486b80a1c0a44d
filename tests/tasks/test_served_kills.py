"""Tasks survive the servers that work on them, whatever becomes of those."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from mcpkit._protocol.connection import CAPABILITIES_KEY
from mcpkit._utils.sealing import SECRET
from mcpkit.tasks.options import STORE
from tests.asking.conftest import accept
from tests.messages import announced
from tests.transports.http import plain
from tests.transports.http.plain import Server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")

FILE = Path(__file__).with_name("surviving.py")
PATIENCE = 60.0
CLIENT: dict[str, Any] = {
    CAPABILITIES_KEY: {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}
}


class Servers:
    """Processes that serve the same tasks.

    Attributes:
        log: The file in which they say what happens.
        running: Those that run.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.log = folder / "log"
        self._env = {
            STORE: str(folder / "tasks.db"),
            SECRET: os.urandom(32).hex(),
            "SURVIVING": str(self.log),
        }
        self._stack = stack
        self.running: list[Server] = []

    def start(self) -> Server:
        """Start another one."""
        serving = plain.serving(str(FILE), "--http", cwd=FILE.parents[2], env=self._env)
        server = self._stack.enter_context(serving)
        self.running.append(server)
        return server

    def kill(self) -> None:
        """Kill one of them, and start another."""
        server = random.choice(self.running)
        self.running.remove(server)
        server.process.signal(signal.SIGKILL)
        server.process.exit_code(PATIENCE)
        self.start()

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request to one of them: to another, if that is not there."""
        deadline = time.monotonic() + PATIENCE
        while True:
            client = random.choice(self.running).client()
            try:
                message = client.post(announced(1, method, _meta=CLIENT, **params)).message
            except (OSError, HTTPException):
                assert time.monotonic() < deadline
                continue
            if "polled too often" in message.get("error", {}).get("message", ""):
                assert time.monotonic() < deadline
                time.sleep(0.05)  # as it says
                continue
            assert "result" in message, message
            return message["result"]

    def begin(self, tool: str, **arguments: Any) -> str:
        """Call a tool as a task; its id."""
        return str(self.ask("tools/call", name=tool, arguments=arguments)["taskId"])

    def begun(self) -> Counter[str]:
        """How often each thing was begun."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return Counter(line.split(" ", 1)[1] for line in lines)


@contextmanager
def servers(folder: Path, count: int = 2) -> Iterator[Servers]:
    with ExitStack() as stack:
        made = Servers(folder, stack)
        for _ in range(count):
            made.start()
        yield made


def until(all_: Servers, id: str, *, asked: bool = False) -> Any:
    """The state of a task that waits for an answer, or does not run any more."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = all_.ask("tasks/get", taskId=id)
        if found["status"] != "working" and asked == (found["status"] == "input_required"):
            return found
        assert time.monotonic() < deadline


@pytest.mark.timeout(600)
def test_tasks_survive_their_servers(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """None is lost or works for ever; only a step that was cut off is repeated."""
    kills = 100 if request.config.getoption("--deep") else 3
    with servers(tmp_path) as all_:
        killed = number = 0
        while killed < kills:
            number += 1
            names = [f"{number}.{each}" for each in range(20)]
            asking = set(names[::3])
            ids = {name: all_.begin("work", name=name, asks=name in asking) for name in names}
            open_ = dict(ids)
            before, killed_here = killed, 0
            deadline = time.monotonic() + PATIENCE
            while open_:
                assert time.monotonic() < deadline, open_
                if killed_here < 3 and random.random() < 0.1:
                    all_.kill()
                    killed_here += 1
                for name, id in list(open_.items()):
                    found = all_.ask("tasks/get", taskId=id)
                    if found["status"] == "input_required":
                        answers = {key: accept("yes") for key in found["inputRequests"]}
                        all_.ask("tasks/update", taskId=id, inputResponses=answers)
                    elif found["status"] != "working":
                        assert found["status"] == "completed", found
                        text = found["result"]["content"][0]["text"]
                        assert text == ("one yes two three" if name in asking else "one two three")
                        del open_[name]
            killed = before + killed_here
            repeated = sum(
                count - 1 for what, count in all_.begun().items() if what.startswith(f"{number}.")
            )
            assert repeated <= 20 * killed_here  # what ran when its server was killed
            assert all(
                all_.begun()[f"{name} {step}"] for name in names for step in ("one", "three")
            )


def test_what_cannot_be_repeated_fails(tmp_path: Path) -> None:
    with servers(tmp_path, 1) as all_:
        id = all_.begin("once", name="single")
        deadline = time.monotonic() + PATIENCE
        while not all_.begun()["single begun"]:
            assert time.monotonic() < deadline
        killed = time.monotonic()
        all_.kill()
        found = until(all_, id)
        assert found["status"] == "failed"
        assert "the tool is not one that may be run again" in found["error"]["message"]
        assert time.monotonic() - killed < PATIENCE
        assert all_.begun()["single begun"] == 1


def test_workers_share_their_tasks(tmp_path: Path) -> None:
    """Also without a location of the tasks; one worker continues what another leaves."""
    env = {"SURVIVING": str(tmp_path / "log"), STORE: "", "TMPDIR": str(tmp_path)}
    options = ("--http", "--workers", "2")
    with ExitStack() as stack:
        all_ = Servers(tmp_path, stack)
        with plain.serving(str(FILE), *options, cwd=FILE.parents[2], env=env) as server:
            all_.running.append(server)
            id = all_.begin("work", name="a", asks=True)
            asked = until(all_, id, asked=True)["inputRequests"]
            answers = {key: accept("yes") for key in asked}
            all_.ask("tasks/update", taskId=id, inputResponses=answers)
            assert until(all_, id)["status"] == "completed"
            server.process.signal(signal.SIGTERM)
            server.process.exit_code(PATIENCE)
    assert not list(tmp_path.glob("mcpkit-*"))


def test_an_answer_may_come_to_another_process(tmp_path: Path) -> None:
    """TASKL-9: the process that has asked continues."""
    with servers(tmp_path) as all_:
        one, two = all_.running
        asked = one.client()
        asked.shake_hands("2025-11-25", elicitation={})
        answered = two.client(session=asked.session)
        params = {"name": "work", "arguments": {"name": "a", "asks": True}, "task": {}}
        made = asked.post(asked.request("tools/call", **params)).message["result"]["task"]
        stream = asked.stream(asked.request("tasks/result", taskId=made["taskId"]))
        question = next(each for each in stream if each.get("method") == "elicitation/create")
        strange = {"jsonrpc": "2.0", "id": "task/x/y/z", "result": accept("no")}
        assert answered.post(strange).status == 202  # and nothing comes of it
        answer = {"jsonrpc": "2.0", "id": question["id"], "result": accept("yes")}
        assert answered.post(answer).status == 202
        result = next(each for each in stream if "result" in each)["result"]
        assert result["content"][0]["text"] == "one yes two three"
