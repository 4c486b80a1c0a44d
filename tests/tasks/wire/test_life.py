"""The life of a task, in both shapes (PROTOCOL §6)."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import anyio
import pytest

from mcpkit._protocol.connection import CAPABILITIES_KEY
from mcpkit.errors import InvalidParams, MethodNotFound, MissingClientCapability, ProtocolError
from tests import kit, messages
from tests.asking.conftest import accept, speak
from tests.kit import Recorder
from tests.scenarios.tapped import HANDSHAKE
from tests.tasks.wire.conftest import (
    CORE,
    EXTENSION,
    EXTENSIONS,
    UNKNOWN,
    Tasked,
    text_of,
    without_extension,
)

RELATED = "io.modelcontextprotocol/related-task"


# --- capabilities ---------------------------------------------------------------------------------


async def test_the_server_declares_its_capabilities(client: Tasked) -> None:
    """TASKL-1, TASKL-3, TASKX-1: and its tools what they are."""
    declared = client.server_capabilities
    listed = {each["name"]: each for each in (await client.request("tools/list"))["tools"]}
    found = {name: each.get("execution") for name, each in listed.items()}
    if client.spoken == CORE:
        lists: dict[str, Any] = {"list": {}} if "list" in declared["tasks"] else {}
        assert declared["tasks"] == {"cancel": {}, "requests": {"tools": {"call": {}}}, **lists}
        assert "extensions" not in declared
        assert found["plain"] is None
        assert found["add"] == {"taskSupport": "optional"}
    else:
        assert declared["extensions"] == EXTENSIONS
        assert "tasks" not in declared
        assert set(found.values()) == {None}


# --- from the call to the result ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [("add", {"a": 2, "b": 3}, "5"), ("only", {}, "done"), ("depending", {}, "open in ")],
)
async def test_a_call_becomes_a_task(
    client: Tasked, tool: str, arguments: dict[str, Any], text: str
) -> None:
    """TASKL-4, TASKL-6, TASKL-10, TASKX-5, TASKX-6, TASKX-13: with an unguessable id (SEC-9)."""
    made = await client.started(tool, **arguments)
    assert made["status"] == "working"
    id = made["taskId"]
    assert re.fullmatch("[0-9a-f]{48}", id)
    suffix = "" if client.spoken == CORE else "Ms"
    assert made[f"ttl{suffix}"] == 24 * 60 * 60 * 1000
    assert made[f"pollInterval{suffix}"] == 100
    assert datetime.fromisoformat(made["createdAt"].replace("Z", "+00:00")).tzinfo is not None
    assert made["lastUpdatedAt"] == made["createdAt"]
    assert (await client.state(id))["taskId"] == id
    result = await client.result(id)
    assert text_of(result).startswith(text)
    related = result.get("_meta", {}).get(RELATED)
    assert related == ({"taskId": id} if client.spoken == CORE else None)
    found = await client.state(id)
    assert found["status"] == "completed"
    assert found.get("resultType") == (None if client.spoken == CORE else "complete")
    assert not {"ttl", "pollInterval", "requestState"} & found.keys() or client.spoken == CORE


async def test_a_protocol_error_is_the_outcome_of_a_task(client: Tasked) -> None:
    """TASKL-6, TASKX-8."""
    id = await client.begin("broken")
    found = await client.until(id, "failed")
    assert found["statusMessage"] == "not today"
    error = {"code": -32007, "message": "not today", "data": {"try": "tomorrow"}}
    if client.spoken == CORE:
        with pytest.raises(ProtocolError) as raised:
            await client.result(id)
        assert raised.value.to_wire() == error
    else:
        assert found["error"] == error
        assert "result" not in found
        # What is wrong with the arguments is said at once.
        result = await client.call_tool("add", {"a": 1, "b": "two"})
        assert result.is_error
        assert "b: " in result.text


async def test_a_client_that_does_not_know_tasks_waits_for_the_answer(client: Tasked) -> None:
    """TASKL-3, TASKX-2, TASKX-3, TASKX-18: only what the request itself says counts."""
    call = {"name": "add", "arguments": {"a": 2, "b": 3}}
    required = {"name": "only", "arguments": {}}
    if client.spoken == CORE:
        own = {CORE: {"extensions": EXTENSIONS}}
        assert text_of(await client.request("tools/call", call, meta=own)) == "5"
        with pytest.raises(MethodNotFound, match="runs as a task only"):
            await client.request("tools/call", required)
    else:
        meta = without_extension()
        found = await client.request("tools/call", {**call, "task": {"ttl": 5}}, meta=meta)
        assert (text_of(found), found["resultType"]) == ("5", "complete")
        with pytest.raises(MissingClientCapability) as raised:
            await client.request("tools/call", required, meta=meta)
        assert raised.value.data == {"requiredCapabilities": {"extensions": EXTENSIONS}}


@pytest.mark.in_memory
@pytest.mark.parametrize("older", HANDSHAKE[:-1])
async def test_an_older_revision_knows_no_tasks(client: Tasked, place: Any, older: str) -> None:
    """TASKL-2."""
    async with Tasked(place.find(), revision=older) as old:
        assert "tasks" not in old.server_capabilities
        call = {"name": "add", "arguments": {"a": 2, "b": 3}, "task": {}}
        assert text_of(await old.request("tools/call", call)) == "5"
        with pytest.raises(MethodNotFound, match=older):
            await old.request("tools/call", {"name": "only", "arguments": {}})
        with pytest.raises(MethodNotFound):
            await old.request("tasks/get", {"taskId": UNKNOWN})


# --- questions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["ask", "ask_in_thread"])
async def test_a_task_asks(client: Tasked, label: str, tool: str) -> None:
    """TASKL-5, TASKL-8, TASKL-9, TASKX-7: also from a thread; steps that are done stay done."""
    client.script(accept(3))
    id = await client.begin(tool, label=label)
    found = await client.until(id, "input_required")
    if client.spoken == EXTENSION:
        ((key, asked),) = found["inputRequests"].items()
        assert asked["method"] == "elicitation/create"
        assert "_meta" not in asked["params"]
        responses = {key: accept(3)}
        done = await client.request("tasks/update", {"taskId": id, "inputResponses": responses})
        assert done.keys() - {"_meta"} == {"resultType"}
    result = await client.result(id)
    assert text_of(result) == "3, 1, 1"
    assert (await client.seen(f"{label} first"), await client.seen(f"{label} second")) == (1, 1)
    if client.spoken == CORE:
        (question,) = client.questions
        assert question["_meta"] == {RELATED: {"taskId": id}}
    assert "inputRequests" not in await client.state(id)


@pytest.mark.revisions(EXTENSION)
async def test_unrequested_answers_are_ignored(client: Tasked) -> None:
    """TASKX-7, TASKX-9: also those that are late."""
    id = await client.begin("ask_both")
    found = await client.until(id, "input_required")
    assert found["inputRequests"].keys() == {"n", "w"}
    for responses in ({"unknown": accept(1), "n": accept(7)}, {"n": accept(8)}, {"w": 12}):
        await client.request("tasks/update", {"taskId": id, "inputResponses": responses})
        now = await client.state(id)
        assert (now["status"], now["inputRequests"].keys()) == ("input_required", {"w"})
    await client.request("tasks/update", {"taskId": id, "inputResponses": {"w": speak("yes")}})
    assert text_of(await client.result(id)) == "7 yes"


@pytest.mark.revisions(EXTENSION)
async def test_an_invalid_answer_is_requested_again(client: Tasked, label: str) -> None:
    """TASKX-7: under another key."""
    id = await client.begin("ask", label=label)
    first = await client.until(id, "input_required")
    await client.reply(id, accept("many"))
    second = await client.until(id, "input_required")
    await client.reply(id, accept(4))
    assert not first["inputRequests"].keys() & second["inputRequests"].keys()
    assert text_of(await client.result(id)) == "4, 1, 1"


@pytest.mark.revisions(EXTENSION)
async def test_the_handler_is_told_of_the_third_invalid_answer(client: Tasked, label: str) -> None:
    id = await client.begin("ask", label=label)
    for _ in range(3):
        await client.reply(id, accept("many"))
    found = await client.result(id)
    assert found["isError"]
    assert text_of(found) == 'value: expected integer, got "many"'


async def test_declared_questions_are_asked_before_the_task_begins(client: Tasked) -> None:
    """TASKX-15: by rounds; in 2025-11-25 the task comes first (TASKL-4)."""
    if client.spoken == CORE:
        client.script(accept(3), accept("eggs"))
        id = await client.begin("ask_before")
    else:
        params: dict[str, Any] = {"name": "ask_before", "arguments": {}}
        asked = await client.request("tools/call", params)
        assert (asked["resultType"], asked["inputRequests"].keys()) == (
            "input_required",
            {"amount"},
        )
        assert "taskId" not in asked
        given = {"inputResponses": {"amount": accept(3)}, "requestState": asked["requestState"]}
        made = await client.request("tools/call", {**params, **given})
        assert made["resultType"] == "task"
        id = made["taskId"]
        await client.reply(id, accept("eggs"))
    assert text_of(await client.result(id)) == "3 eggs"


# --- the end --------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["forever", "in_thread", "ask"])
async def test_a_task_is_cancelled(client: Tasked, label: str, tool: str) -> None:
    """TASKL-5, TASKL-11, TASKX-11: before the answer; and its handler is stopped."""
    id = await client.begin(tool, label=label)
    if tool == "ask":
        await client.until(id, "input_required")
    else:
        await client.until_seen(f"{label} started")
    answer = await client.request("tasks/cancel", {"taskId": id})
    if client.spoken == CORE:
        assert (answer["taskId"], answer["status"]) == (id, "cancelled")
    else:
        assert answer.keys() - {"_meta"} == {"resultType"}
    assert (await client.state(id))["status"] == "cancelled"
    if tool != "ask":
        await client.until_seen(f"{label} stopped")
    found = await client.state(id)
    assert found["status"] == "cancelled"
    assert "inputRequests" not in found
    if client.spoken == CORE:
        with pytest.raises(InvalidParams, match="cancelled"):
            await client.request("tasks/cancel", {"taskId": id})
        with pytest.raises(ProtocolError, match="cancelled"):
            await client.result(id)
    else:
        again = await client.request("tasks/cancel", {"taskId": id})
        assert again.keys() - {"_meta"} == {"resultType"}


@pytest.mark.not_over("http", revisions=(EXTENSION,))
async def test_a_task_is_not_cancelled_with_its_call(client: Tasked, label: str) -> None:
    """CANC-8: that has been answered."""
    params: dict[str, Any] = {"name": "forever", "arguments": {"label": label}}
    if client.spoken == CORE:
        message = messages.request(label, "tools/call", params, task={})
    else:
        capabilities = {CAPABILITIES_KEY: client._protocol.capabilities}
        message = messages.announced(label, "tools/call", **params, _meta=capabilities)
    await client.send(message)
    answer = (await client.answer(label))["result"]
    id = answer["task"]["taskId"] if client.spoken == CORE else answer["taskId"]
    await client.send(messages.cancelled(label))
    await client.until_seen(f"{label} started")
    assert (await client.state(id))["status"] == "working"
    await client.request("tasks/cancel", {"taskId": id})


@pytest.mark.parametrize("method", ["tasks/get", "tasks/result", "tasks/update", "tasks/cancel"])
@pytest.mark.every_place
async def test_an_unknown_task_is_rejected(client: Tasked, method: str) -> None:
    """TASKL-12, TASKX-4, TASKX-10, TASKX-12."""
    params = {"taskId": UNKNOWN, "inputResponses": {}}
    missing = {CORE: "tasks/update", EXTENSION: "tasks/result"}[client.spoken]
    if method == missing:
        # In 2025-11-25 this is the method of a request that should say so itself.
        with pytest.raises(MethodNotFound if client.spoken == EXTENSION else InvalidParams):
            await client.request(method, params)
        return
    with pytest.raises(InvalidParams, match="Unknown task"):
        await client.request(method, params)
    for wrong in ({}, {"taskId": 5}, {"taskId": "x" * 1000}):
        with pytest.raises(InvalidParams):
            await client.request(method, {"inputResponses": {}, **wrong})
    if client.spoken == EXTENSION:
        with pytest.raises(MissingClientCapability):
            await client.request(method, params, meta=without_extension())


async def test_a_task_is_kept_for_its_time(client: Tasked) -> None:
    """TASKL-10, TASKX-17: and not shorter."""
    made = await client.started("soon_forgotten")
    start = anyio.current_time()
    with pytest.raises(InvalidParams, match="Unknown task"):
        await client.until(made["taskId"], "gone")
    assert anyio.current_time() - start > 0.4


WEEK = 7 * 24 * 3600 * 1000


@pytest.mark.revisions(CORE)
@pytest.mark.parametrize(
    ("wish", "kept"),
    [
        ({"ttl": 60_000}, 60_000),
        ({"ttl": 10**12}, WEEK),
        pytest.param({"ttl": 10**400}, WEEK, id="huge"),
        ({"ttl": 1500.5}, 1501),
        ({"ttl": 0.4}, 1000),
        ({"ttl": 0}, 1000),
        ({}, 24 * 3600 * 1000),
        *((wish, None) for wish in (5, {"ttl": "long"}, {"ttl": -1}, {"ttl": True})),
    ],
)
async def test_a_client_requests_a_ttl(client: Tasked, wish: Any, kept: int | None) -> None:
    """TASKL-4, TASKL-10: at most what the server allows; a task is there when it is answered."""
    if kept is None:
        with pytest.raises(InvalidParams, match="task"):
            await client.started("add", wish, a=1, b=1)
        return
    made = await client.started("add", wish, a=1, b=1)
    assert made["ttl"] == kept
    assert (await client.state(made["taskId"]))["taskId"]


@pytest.mark.revisions(CORE)
async def test_a_client_lists_its_tasks(client: Tasked) -> None:
    """TASKL-1, TASKL-12, TASKL-13: where it is known whose they are, in pages."""
    ids = [await client.begin("add", a=1, b=number) for number in range(4)]
    if "list" not in client.server_capabilities["tasks"]:
        with pytest.raises(MethodNotFound):
            await client.request("tasks/list")
        return
    found: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await client.request("tasks/list", cursor)
        assert len(page["tasks"]) <= 3
        found += [each["taskId"] for each in page["tasks"]]
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert found[-4:] == ids
    assert len(set(found)) == len(found)
    for wrong in ("x", "WzEsMl0=", 5):
        with pytest.raises(InvalidParams):
            await client.request("tasks/list", {"cursor": wrong})


# --- notifications --------------------------------------------------------------------------------


@pytest.mark.revisions(CORE)
async def test_notifications_name_their_task(client: Tasked) -> None:
    """TASKL-8, TASKL-9, TASKL-14."""
    client.script({"action": "accept"})
    id = await client.begin("tell")
    assert text_of(await client.result(id)) == "told"
    assert (await client.state(id))["statusMessage"] == "nearly there"
    for each in client.told("notifications/message"):
        assert each["_meta"] == {RELATED: {"taskId": id}}
    changes = [each for each in client.told("notifications/tasks/status") if each["taskId"] == id]
    assert not any(RELATED in each.get("_meta", {}) for each in changes)
    assert changes[-1]["status"] == "completed"


@pytest.mark.revisions(EXTENSION)
async def test_a_stream_has_the_changes_of_its_tasks(client: Tasked) -> None:
    """TASKX-7, SUB-4, SUB-10: all there is to know of each task, on the stream that asked for it.

    PROG-6: and nothing else.
    """
    wanted = {"notifications": {"taskIds": ["any"]}}
    with pytest.raises(MissingClientCapability):
        await client.request("subscriptions/listen", wanted, meta=without_extension())
    heard = Recorder()

    async def until(status: str) -> Any:
        def found() -> list[Any]:
            known = [params for method, params in heard.calls if method == "notifications/tasks"]
            return [each for each in known if each["status"] == status]

        await kit.until(found)
        return found()[0]

    id = await client.begin("tell")
    async with client.listening(id, UNKNOWN, hear=heard):
        asked = await until("input_required")
        assert asked["taskId"] == id
        (key,) = asked["inputRequests"]
        params = {"taskId": id, "inputResponses": {key: {"action": "accept"}}}
        await client.request("tasks/update", params)
        done = await until("completed")
        assert (text_of(done["result"]), done["statusMessage"]) == ("told", "nearly there")
        assert {params.get("taskId", id) for _, params in heard.calls} == {id}
        methods = {"notifications/subscriptions/acknowledged", "notifications/tasks"}
        assert {each["method"] for each in client.notifications} == methods
        key = "io.modelcontextprotocol/subscriptionId"
        assert all(key in each["_meta"] for _, each in heard.calls)
