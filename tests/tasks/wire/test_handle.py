"""The client's side of tasks: handles that are awaited, followed, answered and cancelled."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from itertools import pairwise
from typing import Any

import anyio
import pytest

from mcpkit import TaskCancelled, TaskHandle
from mcpkit.client.results import Progress
from mcpkit.errors import MethodNotFound, ProtocolError
from tests.asking.conftest import accept, speak
from tests.kit import Recorder, until
from tests.scenarios.tapped import PATIENCE
from tests.tasks.wire.conftest import CORE, EXTENSION, Connect, Tasked


async def outcome(task: TaskHandle) -> Any:
    return await task.result(timeout=PATIENCE)


# --- to the end -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "text"), [("add", {"a": 2, "b": 3}, "5"), ("only", {}, "done")]
)
async def test_a_call_is_started_and_awaited(
    client: Tasked, tool: str, arguments: dict[str, Any], text: str
) -> None:
    """TASKL-4, TASKL-6, TASKX-5, TASKX-8: and found again by its id (TASKL-13, TASKX-16)."""
    task = await client.start(tool, arguments)
    assert task.status is not None
    assert (task.status.id, task.status.status, task.status.is_over) == (task.id, "working", False)
    assert (task.status.ttl, task.status.poll_interval) == (24 * 3600, 0.1)
    assert task.status.created == task.status.updated
    assert task.id is not None
    again = client.task(task.id)
    assert (again.id, again.status, again.is_over) == (task.id, None, False)
    assert (await outcome(again)).text == text
    with anyio.fail_after(PATIENCE):
        result = await task
    assert (result.text, result.is_error) == (text, False)
    assert task.is_over
    assert (await task).text == text  # once more
    assert task.status.status == "completed"


async def test_failures_are_results_and_errors_are_raised(client: Tasked) -> None:
    """TASKL-6, TASKL-7, TASKX-8: an error with its code and data, each time it is asked for."""
    task = await client.start("bad")
    result = await outcome(task)
    assert (result.text, result.is_error) == ("no luck", True)
    assert task.status is not None
    assert task.status.status == ("failed" if client.spoken == CORE else "completed")
    task = await client.start("broken")
    for _ in range(2):
        with pytest.raises(ProtocolError, match="not today") as caught:
            await outcome(task)
        assert (caught.value.code, caught.value.data) == (-32007, {"try": "tomorrow"})
    assert task.status is not None
    assert task.status.status == "failed"


# --- notifications --------------------------------------------------------------------------------


async def test_a_task_is_followed(client: Tasked) -> None:
    """TASKL-5, TASKL-14: each change, up to the last; in 2026-07-28 without the progress."""
    client.script({"action": "accept"})
    progress = Recorder()
    task = await client.start("tell", on_progress=progress)
    seen: list[tuple[str, str | None]] = []
    with anyio.fail_after(PATIENCE):
        async for status in task:
            seen.append((status.status, status.message))
    assert seen[0][0] == "working"
    assert seen[-1] == ("completed", "nearly there")
    assert all(one != next for one, next in pairwise(seen))
    assert client.messages == ["Go on?"]
    assert (await outcome(task)).text == "told"
    assert [each async for each in task] == [task.status]
    told = {Progress(1, 2, "half of it")} if client.spoken == CORE else set()
    assert set(progress.calls) <= told


async def test_no_result_depends_on_notifications(
    client: Tasked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TASKL-14."""
    real = client.request

    async def request(method: str, *args: Any, **options: Any) -> Any:
        if method == "subscriptions/listen" or (
            method == "tasks/result" and options.get("timeout") == float("inf")
        ):
            await anyio.sleep(0)  # it takes a while, as over any wire
            raise ProtocolError("refused")
        return await real(method, *args, **options)

    monkeypatch.setattr(client, "request", request)
    monkeypatch.setattr(TaskHandle, "_notified", lambda *_: None)
    assert (await outcome(await client.start("add", {"a": 3, "b": 4}))).text == "7"


async def test_a_server_that_lets_nobody_wait_is_polled(
    client: Tasked, label: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TASKL-14: and asked to wait once for each poll."""
    real, sent = client.request, Counter[str]()

    async def request(method: str, *args: Any, **options: Any) -> Any:
        sent[method] += 1
        if method in ("subscriptions/listen", "tasks/result"):
            await anyio.sleep(0)
            raise ProtocolError("refused")
        return await real(method, *args, **options)

    task = await client.start("forever", {"label": label})
    monkeypatch.setattr(client, "request", request)
    async with anyio.create_task_group() as group:
        group.start_soon(task.result)
        await until(lambda: sent["tasks/get"] >= 4 or sent["tasks/result"] > 50)
        group.cancel_scope.cancel()
    assert sent["tasks/result"] <= sent["tasks/get"]
    await task.cancel()


# --- questions ------------------------------------------------------------------------------------


async def test_the_clients_functions_answer(client: Tasked, label: str) -> None:
    """TASKL-9, TASKX-7, TASKX-9: also what does not fit at first."""
    client.script({"action": "shrug"}, accept(3))
    task = await client.start("ask", {"label": label})
    assert (await outcome(task)).text == "3, 1, 1"
    assert set(client.messages) == {"How many?"}


async def test_several_questions_are_answered(connect: Connect) -> None:
    """TASKX-7: each once, in whatever order."""
    client = await connect()
    asked: list[str] = []

    async def fill(params: Any) -> Any:
        asked.append(params["message"])
        await anyio.sleep(0.2)  # more than a look
        return accept(7)

    client._handlers["elicitation/create"] = fill
    client._handlers["sampling/createMessage"] = lambda params: speak("yes")
    assert (await outcome(await client.start("ask_both"))).text == "7 yes"
    assert asked == ["A number?"]


async def test_questions_are_answered_by_hand(client: Tasked, label: str) -> None:
    """TASKL-9, TASKX-9: no call waits meanwhile, so that no function is asked."""
    task = await client.start("ask", {"label": label})
    assert task.id is not None
    await client.until(task.id, "input_required")
    asked = await task.questions()
    ((key, question),) = asked.items()
    assert (question.method, question.params["message"]) == ("elicitation/create", "How many?")
    if client.spoken == CORE:
        with pytest.raises(ValueError, match="nothing under 'x'"):
            await task.answer({"x": accept(2)})
    await task.answer({key: accept(2)})
    assert (await outcome(task)).text == "2, 1, 1"
    assert client.questions == []
    assert await task.questions() == {}


async def test_questions_may_be_answered_while_the_result_is_awaited(
    connect: Connect, label: str
) -> None:
    """For which the client has no function."""
    client = await connect()
    del client._handlers["elicitation/create"]
    task = await client.start("ask", {"label": label})
    async for status in task:
        if status.status == "input_required":
            questions = await task.questions()
            await task.answer({key: accept(5) for key in questions})
    assert (await outcome(task)).text == "5, 1, 1"


async def test_a_function_that_refuses(client: Tasked, label: str) -> None:
    """In 2025-11-25 the handler gets the refusal; in 2026-07-28 the task goes on."""
    client.script(ProtocolError("no user is here", code=-1), accept(4))
    task = await client.start("ask", {"label": label})
    if client.spoken == CORE:
        assert (await outcome(task)).text == "The client refused to answer: no user is here (-1)"
        return
    with pytest.raises(ProtocolError, match="no user is here"):
        await outcome(task)
    assert (await outcome(task)).text == "4, 1, 1"


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["forever", "in_thread"])
async def test_a_task_is_cancelled(client: Tasked, label: str, tool: str) -> None:
    """TASKL-11, TASKX-11: the waiter gets an error; cancelling again changes nothing."""
    task = await client.start(tool, {"label": label})
    await client.until_seen(f"{label} started")
    caught: list[TaskCancelled] = []

    async def wait() -> None:
        with pytest.raises(TaskCancelled) as error:
            await outcome(task)
        caught.append(error.value)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.sleep(0)
        await task.cancel()
    assert [each.id for each in caught] == [task.id]
    assert task.status is not None
    assert task.status.status == "cancelled"
    await task.cancel()
    assert task.id is not None
    again = client.task(task.id)
    await again.cancel()
    assert again.is_over
    await client.until_seen(f"{label} stopped")


async def test_a_cancelled_wait_does_not_stop_the_task(client: Tasked, label: str) -> None:
    """CANC-8."""
    task = await client.start("forever", {"label": label})
    await client.until_seen(f"{label} started")
    with pytest.raises(TimeoutError, match="No result of the task within"):
        await task.result(timeout=0.2)
    async with aclosing(aiter(task)) as statuses:
        assert (await anext(statuses)).status == "working"
    assert (await task.look()).status == "working"
    assert await client.seen(f"{label} stopped") == 0
    await task.cancel()


@pytest.mark.revisions(CORE)
async def test_a_start_that_is_cancelled_leaves_no_task(client: Tasked, label: str) -> None:
    """TASKL-4: its id would be lost."""
    with anyio.CancelScope() as scope:
        scope.cancel()
        await client.start("forever", {"label": label})
    assert scope.cancelled_caught
    if await client.seen(f"{label} started"):
        await client.until_seen(f"{label} stopped")


async def test_several_wait_for_a_task(client: Tasked, label: str) -> None:
    client.script(accept(3))
    task = await client.start("ask", {"label": label})
    found: list[str] = []

    async def wait() -> None:
        found.append((await outcome(task)).text)

    async def follow() -> None:
        found.append([each.status async for each in task][-1])

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        group.start_soon(follow)
        group.start_soon(wait)
    assert sorted(found) == ["3, 1, 1", "3, 1, 1", "completed"]
    assert len(client.questions) == 1


# --- where there is no task -----------------------------------------------------------------------


async def test_a_tool_without_tasks(client: Tasked) -> None:
    """TASKL-3: the client decides; TASKX-2, TASKX-12: the server does, and answers at once."""
    if client.spoken == CORE:
        with pytest.raises(MethodNotFound, match="plain does not run as a task"):
            await client.start("plain")
        return
    task = await client.start("plain")
    assert (task.id, task.status, task.is_over) == (None, None, True)
    assert (await outcome(task)).text == "plain"
    assert [each async for each in task] == []
    await task.cancel()
    assert await task.questions() == {}
    with pytest.raises(RuntimeError, match="there is no task"):
        await task.look()


async def test_a_tool_that_only_runs_as_a_task_is_called(connect: Connect) -> None:
    """TASKL-3, TASKX-3: for the client that does not ask for tasks."""
    client = await connect()
    client._protocol.capabilities = {"elicitation": {}}
    assert (await client.call_tool("only")).text == "done"
    with pytest.raises(ProtocolError, match="nonsense"):
        await client.call_tool("nonsense")


async def test_a_client_has_its_tasks_listed(client: Tasked) -> None:
    """TASKL-1, TASKX-12, PAGE-1."""
    if client.spoken == EXTENSION or "list" not in client.server_capabilities["tasks"]:
        with pytest.raises(MethodNotFound, match="does not list tasks"):
            await client.tasks()
        return
    tasks = [await client.start("add", {"a": 1, "b": 2}) for _ in range(4)]
    await outcome(tasks[0])
    found = {each.id: each.status for each in await client.tasks()}
    assert {each.id for each in tasks} <= found.keys()
    assert found[tasks[0].id] == tasks[0].status
