"""Handles of tasks, and servers that misbehave."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import datetime, timezone
from typing import Any

import anyio
import pytest

from mcpkit import MCPKit, TaskCancelled, TaskHandle, TaskStatus
from mcpkit._protocol.connection import CAPABILITIES_KEY, TASKS_EXTENSION
from mcpkit.client.tasks import with_tasks
from mcpkit.errors import ConnectionClosed, InternalError, MethodNotFound, ProtocolError
from mcpkit.testing import AsyncTestClient
from tests.messages import MODERN

TEXT = {"content": [{"type": "text", "text": "done"}]}
Answer = Mapping[str, Any] | Exception
Scripted = Callable[..., TaskHandle]


def task(status: str = "working", /, at: int = 0, **members: Any) -> dict[str, Any]:
    """A task as on the wire, which is to be looked at as often as possible."""
    return {
        "taskId": "one",
        "status": status,
        "createdAt": "2026-07-28T10:00:00Z",
        "lastUpdatedAt": f"2026-07-28T10:00:{at:02}Z",
        "ttlMs": None,
        "pollIntervalMs": 0,
        **members,
    }


@pytest.fixture
async def client() -> AsyncIterator[AsyncTestClient]:
    async with AsyncTestClient(MCPKit("none"), revision=MODERN, max_input_requests=2) as client:
        yield client


@pytest.fixture
def scripted(client: AsyncTestClient, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """Makes a task of which the server says these things in turn, by method."""

    def make(*looks: Answer, **others: Answer) -> TaskHandle:
        left = list(looks)

        async def request(method: str, params: Any = None, **options: Any) -> Any:
            await anyio.sleep(0)
            name = method.partition("/")[2]
            answer: Answer = InternalError("refused")
            if name == "get":
                answer = left.pop(0) if len(left) > 1 else left[0]
            elif name in others:
                answer = others[name]
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(client, "request", request)
        for name in ("_MIN_POLL_S", "_DEFAULT_POLL_S"):
            monkeypatch.setattr(f"mcpkit.client.tasks.{name}", 0.001)
        return client.task("one")

    return make


async def text(handle: TaskHandle) -> str:
    return (await handle.result(timeout=5)).text


# --- what is read ---------------------------------------------------------------------------------


def test_a_status_is_read_in_both_revisions() -> None:
    """TASKL-10, TASKX-13."""
    at = datetime(2026, 7, 28, 10, tzinfo=timezone.utc)
    modern = TaskStatus.from_wire(task(ttlMs=1500, statusMessage="half"))
    assert (modern.created, modern.ttl, modern.poll_interval) == (at, 1.5, 0.0)
    assert modern.message == "half"
    raw = task(createdAt="2026-07-28T12:00:00.123456789+02:00", ttl=2000, pollInterval=250)
    del raw["ttlMs"], raw["pollIntervalMs"]
    core = TaskStatus.from_wire(raw)
    assert (core.created, core.ttl, core.poll_interval) == (at.replace(microsecond=123456), 2, 0.25)


@pytest.mark.parametrize(
    "wrong",
    [
        {"status": "paused"},
        {"status": 5},
        {"taskId": None},
        {"taskId": "other"},
        {"createdAt": "yesterday"},
        {"lastUpdatedAt": None},
        {"ttlMs": True},
        {"pollIntervalMs": "often"},
        {"status": "completed"},
        {"status": "completed", "result": {"content": 5}},
        {"status": "input_required", "inputRequests": {"k": {"params": {}}}},
    ],
    ids=str,
)
async def test_what_is_malformed_is_an_error(scripted: Scripted, wrong: dict[str, Any]) -> None:
    handle = scripted({**task(), **wrong})
    with pytest.raises(ValueError, match="malformed"):
        await handle.look()
    with pytest.raises(ValueError, match="malformed"):
        await handle.result(timeout=5)


async def test_the_extension_is_declared_beside_all_else() -> None:
    """TASKX-4."""
    own = {"roots": {}, "extensions": {"a/b": {"c": 1}}}
    async with AsyncTestClient(MCPKit("none"), revision=MODERN, capabilities=own) as client:
        meta = with_tasks(client, {"x/y": 2})
    extensions = {"a/b": {"c": 1}, TASKS_EXTENSION: {}}
    assert meta == {CAPABILITIES_KEY: {"roots": {}, "extensions": extensions}, "x/y": 2}


# --- what goes wrong ------------------------------------------------------------------------------


async def test_a_look_may_fail_a_few_times_but_not_always(scripted: Scripted) -> None:
    errors = [InternalError("ask again later"), TimeoutError(), ConnectionClosed("a stream")]
    handle = scripted(*errors, task(), *errors, task("completed", result=TEXT))
    assert await text(handle) == "done"
    with pytest.raises(InternalError, match="never"):
        await text(scripted(InternalError("never")))


async def test_the_end_is_final_and_what_is_late_is_passed_over(scripted: Scripted) -> None:
    """TASKL-5."""
    handle = scripted(task(at=5), task(at=3, statusMessage="late"), task("cancelled", at=4))
    assert (await handle.look()).updated.second == 5
    assert (await handle.look()).message is None
    assert (await handle.look()).is_over
    handle._notified({**task(), "taskId": "other"})
    handle._notified(task("completed", at=9, result=TEXT))
    with pytest.raises(TaskCancelled):
        await text(handle)


QUESTIONS = {str(number): {"method": "roots/list"} for number in range(3)}


async def test_a_failure_without_an_error_and_too_many_questions(scripted: Scripted) -> None:
    """TASKX-8: a server must not forget the error."""
    with pytest.raises(ProtocolError, match="no disk"):
        await text(scripted(task("failed", statusMessage="no disk")))
    with pytest.raises(ProtocolError, match="3 inputs at once; it gets 2"):
        await text(scripted(task("input_required", inputRequests=QUESTIONS)))


async def test_a_function_that_fails_ends_the_waiting(
    scripted: Scripted, client: AsyncTestClient
) -> None:
    def fail(params: Any) -> Any:
        raise LookupError("no answer")

    client._handlers["roots/list"] = fail
    asked = {"k": {"method": "roots/list"}}
    handle = scripted(task("input_required", inputRequests=asked))
    for _ in range(2):
        with pytest.raises(LookupError, match="no answer"):
            await text(handle)


async def test_a_cancellation_that_is_refused(scripted: Scripted) -> None:
    """TASKX-11: the server is not held to it, and the task is as it is."""
    handle = scripted(task(), cancel={})
    await handle.cancel()
    assert not handle.is_over
    with pytest.raises(InternalError, match="refused"):
        await scripted(task()).cancel()


async def test_without_tasks_or_a_connection_there_is_no_handle(client: AsyncTestClient) -> None:
    with pytest.raises(MethodNotFound, match="no tasks in 2026-07-28; call the tool with call_t"):
        await client.start("any")
    with pytest.raises(RuntimeError, match="enter the client first"):
        await AsyncTestClient(MCPKit("none")).task("one")
