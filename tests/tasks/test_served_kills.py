"""What a task's server leaves to others, or fails, when it ends."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from mcpkit.tasks.options import STORE
from tests.asking.conftest import accept
from tests.kit import eventually
from tests.tasks.test_kills import PATIENCE, Servers, servers

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no SIGKILL")


def test_what_cannot_be_repeated_fails(tmp_path: Path) -> None:
    with servers(tmp_path, 1) as all_:
        id = all_.begin("once", name="single")
        eventually(lambda: all_.started()["single started"])
        all_.kill()
        found = all_.until(id)
        assert found["status"] == "failed"
        assert "the tool is not one that may be run again" in found["error"]["message"]
        assert len(all_.started()["single started"]) == 1


def test_workers_share_their_tasks(tmp_path: Path) -> None:
    """Also without a location of the tasks; one worker continues what another leaves."""
    with ExitStack() as stack:
        all_ = Servers(tmp_path, stack, **{STORE: "", "TMPDIR": str(tmp_path)})
        server = all_.start("--workers", "2")
        id = all_.begin("work", name="a", asks=True)
        all_.answer(all_.until(id, asked=True))
        assert all_.until(id)["status"] == "completed"
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
