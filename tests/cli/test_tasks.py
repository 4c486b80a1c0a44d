"""``mcpkit tasks``, and ``mcpkit call`` of tools that run as tasks."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.commands import Ended, Step, at_terminal, interrupt, mcpkit, single_line
from tests.kit import eventually
from tests.transports.http.plain import serving

TASKING = str(Path(__file__).with_name("tasking.py"))
BOTH = ["2025-11-25", "2026-07-28"]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file in which a tool writes that it may stop."""
    return tmp_path_factory.mktemp("tasks") / "stopped"


@pytest.fixture(scope="module")
def url(stopped: Path) -> Iterator[str]:
    """A server over HTTP, which lasts."""
    env = {"CANCELLED": str(stopped)}
    with serving(TASKING, "--http", cwd=Path(TASKING).parent, env=env) as server:
        yield server.url


def detached(url: str, tool: str, revision: str) -> str:
    """The id of a task that is started and left."""
    return mcpkit("call", url, tool, "--detach", "--revision", revision).output.strip()


def tasks(action: str, url: str, *arguments: str) -> Ended:
    return mcpkit("tasks", action, url, *arguments)


# --- calls ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", BOTH)
def test_a_task_is_followed(revision: str) -> None:
    ended = mcpkit("call", TASKING, "count", "--revision", revision)
    assert (ended.code, ended.stdout) == (0, "counted to 2\n")
    lines = {"counting (1 of 2)", "counting (2 of 2)", "1/2  counting", "2/2  counting"}
    assert set(ended.stderr.splitlines()) <= lines


@pytest.mark.parametrize("revision", BOTH)
def test_a_task_asks(revision: str, url: str) -> None:
    """TASKL-9, TASKX-9."""
    ended = mcpkit("call", url, "book", "--answer", "value=3", "--revision", revision)
    assert ended == (0, "booked 3\n", 'The server asks: How many?  → {"value": 3}\n')
    ended = mcpkit("call", url, "book", "-a", "decline", "--json", "--revision", revision)
    assert ended.code == 1
    assert json.loads(ended.stdout)["isError"] is True


def test_a_tool_that_does_not_run_as_a_task(url: str) -> None:
    assert mcpkit("call", url, "plain") == (0, "plain\n", "")
    ended = mcpkit("call", url, "plain", "--detach")
    assert ended == (0, "plain\n", "mcpkit: plain has answered at once; there is no task\n")
    ended = mcpkit("call", url, "plain", "--detach", "--revision", "2025-11-25")
    assert ended.refusal == "plain does not run as a task; leave out --detach"


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
@pytest.mark.parametrize("revision", BOTH)
def test_ctrl_c_cancels_the_task(revision: str, url: str, stopped: Path) -> None:
    """TASKL-11, TASKX-11."""
    shown = at_terminal(
        *["call", url, "hang", "--revision", revision],
        steps=[Step("hanging", done=interrupt)],
        code=130,
    )
    assert "Traceback" not in shown
    if revision == BOTH[1]:  # in the other one progress may overtake the id of the task
        assert "has been cancelled" in shown
    eventually(stopped.exists)
    stopped.unlink()


def test_a_task_that_takes_too_long_is_cancelled(url: str, stopped: Path) -> None:
    ended = mcpkit("call", url, "hang", "--timeout", "1", "--quiet")
    assert ended.refusal == "hang did not answer within 1 s, and has been cancelled"
    eventually(stopped.exists)
    stopped.unlink()


# --- tasks that run already -----------------------------------------------------------------------


@pytest.mark.parametrize("revision", BOTH)
def test_a_task_is_left_and_looked_after(revision: str, url: str) -> None:
    """TASKL-11, TASKX-11."""
    id = detached(url, "book", revision)
    eventually(lambda: "input_required" in tasks("show", url, id, "--revision", revision).stdout)
    first, times, asks = tasks("show", url, id, "--revision", revision).output.splitlines()
    assert first == f"{id}  input_required"
    assert times.startswith("  started 20")
    assert times.endswith(", kept for 86400 s")
    assert asks == "  asks: How many?"
    ended = tasks("result", url, id, "-a", "value=5", "--revision", revision)
    assert (ended.code, ended.stdout) == (0, "booked 5\n")
    shown = json.loads(tasks("show", url, id, "--json", "--revision", revision).stdout)
    assert (shown["taskId"], shown["status"]) == (id, "completed")
    ended = tasks("cancel", url, id, "--revision", revision)
    assert (ended.code, ended.stdout) == (1, f"{id}  completed\n")
    assert ended.stderr == "mcpkit: the task was over already\n"
    id = detached(url, "book", revision)
    assert tasks("cancel", url, id, "--revision", revision) == (0, f"{id}  cancelled\n", "")
    ended = tasks("result", url, id, "--revision", revision)
    assert single_line(ended, 1) == f"The task was cancelled ({id})"


@pytest.mark.skipif(sys.platform == "win32", reason="has no pseudo-terminals")
def test_ctrl_c_ends_the_waiting_only(url: str) -> None:
    started = mcpkit("call", url, "hang", "--detach", "--json")
    id = json.loads(started.stdout)["taskId"]
    shown = at_terminal(
        *["tasks", "result", url, id],
        steps=[Step("hanging", done=interrupt)],
        code=130,
    )
    assert f"mcpkit: the task {id} goes on" in shown
    ended = tasks("result", url, id, "--timeout", "1", "--quiet")
    assert ended.code == 2
    assert f"mcpkit: the task {id} did not answer within 1 s, and goes on" in ended.stderr
    assert tasks("cancel", url, id).code == 0


@pytest.mark.parametrize("revision", BOTH)
def test_tasks_are_kept_in_a_file_and_listed(tmp_path: Path, revision: str) -> None:
    """TASKL-1: where it is known whose they are, as on stdio."""
    options = ["--env", f"MCPKIT_TASKS={tmp_path / 'tasks.db'}", "--revision", revision]
    ended = mcpkit("call", TASKING, "book", "--detach", *options)
    assert ended.code == 0
    assert ended.stderr.startswith(f"mcpkit: {TASKING} has been stopped; it continues the task")
    id = ended.stdout.strip()
    if revision == BOTH[0]:
        assert tasks("list", TASKING, *options).output.startswith(id)
        (listed,) = json.loads(tasks("list", TASKING, "--json", *options).stdout)["tasks"]
        assert listed["taskId"] == id
    ended = tasks("result", TASKING, id, "--answer", "value=4", *options, "--quiet")
    assert (ended.code, ended.stdout) == (0, "booked 4\n")
    ended = tasks("list", TASKING, "--revision", BOTH[0])
    assert single_line(ended, 0) == "there are no tasks"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["list"], "2026-07-28 has no list of tasks; --revision 2025-11-25 lists those that"),
        (["show", "--revision", "2025-06-18", "x"], f"{TASKING} has no tasks in 2025-06-18"),
        (["show"], "show needs the id of a task"),
        (["list", "x"], "list takes no id"),
        (["stop", "x"], "there is no action 'stop'; use one of list, show, result, cancel"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: list[str], message: str) -> None:
    """TASKX-12, for the list."""
    action, *rest = arguments
    assert tasks(action, TASKING, *rest).refusal.startswith(message)


@pytest.mark.parametrize("id", ["unknown", "-unknownunknownunknownun", "--unknownunknownunknownu"])
def test_an_unknown_task(url: str, id: str) -> None:
    """TASKX-10; an id may begin like an option."""
    ended = tasks("show", url, id, "--timeout", "30")
    assert single_line(ended, 1) == f"the server answered with error -32602: Unknown task: {id}"


# --- what tools say of tasks ----------------------------------------------------------------------


def test_tools_that_run_as_tasks_are_shown() -> None:
    """TASKL-3."""
    shown = mcpkit("inspect", TASKING, "--revision", "2025-11-25").stdout
    lines = {line.split()[0]: line for line in shown.splitlines() if " about " in line}
    assert lines["count"].endswith("  may run as a task")
    assert lines["book"].endswith("  runs as a task")
    assert "task" not in lines["plain"]
    newest = mcpkit("inspect", TASKING).stdout
    assert "  Some may run as tasks; --revision 2025-11-25 shows which.\n" in newest
