"""What a task's server leaves to others, or fails, when it ends."""

from __future__ import annotations

import signal
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from mcpkit.tasks.options import STORE
from tests.asking.conftest import accept, accepted
from tests.kit import eventually
from tests.tasks.servers import Line
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
        stream = asked.result_of("work", name="a", asks=True)
        question = stream.question()
        strange = {"jsonrpc": "2.0", "id": "task/x/y/z", "result": accept("no")}
        assert answered.post(strange).status == 400
        assert answered.post(accepted(question)).status == 202
        assert stream.text == "one yes two three"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["slow", "held"])
def test_no_answer_is_lost_with_the_process_that_took_it(
    line: Line, tmp_path: Path, how: str
) -> None:
    """TASKL-9: it is accepted once it is stored, and asked for again after an outage."""
    with servers(tmp_path, 1, **{STORE: line.url}) as all_:
        asked = all_.running[0].client("2025-11-25", elicitation={})
        for number in range(6):
            stream = asked.result_of("work", name=f"{number}", asks=True)
            question, taker = stream.question(), all_.start()
            line.delay = 0.05 if how == "slow" else 0.0
            line.be("open" if how == "slow" else how)
            taken = taker.client(session=asked.session).post(accepted(question))
            all_.kill(taker)
            assert taken.status == (202 if how == "slow" else 503)
            line.delay = 0.0
            if how == "held":
                poll = asked.request("tasks/get", taskId=question["id"].split("/")[1])
                eventually(partial(asked.post, poll), lambda answer: "error" in answer.last)
                line.be("open")
                assert asked.post(accepted(stream.question())).status == 202
            assert stream.text == "one yes two three"
