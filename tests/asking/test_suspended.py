"""A handler waits at its question and goes on with the retry; if it is gone, it is replayed."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Annotated, Any
from unittest.mock import patch

import anyio
import pytest

from mcpkit import Context, Depends, MCPKit, SyncContext
from mcpkit._server import suspended
from mcpkit.context import CallNext
from mcpkit.limits import Limits
from mcpkit.types import Principal
from tests.asking.conftest import Asked, Connect, accept
from tests.asking.rounds import Round, request, send, tool
from tests.asking.server import make_app
from tests.kit import suspended_runs, until
from tests.messages import cancelled
from tests.scenarios.tapped import MODERN

pytestmark = pytest.mark.revisions(MODERN)

both = pytest.mark.parametrize("kind", ["", "_sync"], ids=["async", "sync"])


async def hits(client: Asked, tag: str) -> int:
    return int((await send(client, tool("counted", tag=tag))).text)


def asking(tag: str, kind: str = "", number: int = 1) -> dict[str, Any]:
    """A call with a side effect before each question."""
    return tool("effects" + kind, via="elicit", tag=tag, number=number)


def held(app: MCPKit[Any]) -> list[Any]:
    """The runs that wait, of an app that is served in this event loop."""
    return [*suspended_runs(app).known.values()]


# --- once -----------------------------------------------------------------------------------------


@both
async def test_no_statement_runs_twice(client: Asked, kind: str, tag: str) -> None:
    params = asking(tag, kind, number=3)
    found = await send(client, params)
    for each in "abc":
        found = await send(client, params, {found.key: accept(each)}, found.state)
    assert found.text == "a,b,c 4"


async def test_a_dependency_stays_open_across_a_question(client: Asked, tag: str) -> None:
    params = tool("holding", via="elicit", tag=tag)
    first = await send(client, params)
    assert await hits(client, f"{tag} left") == 0
    last = await send(client, params, {first.key: accept("yes")}, first.state)
    assert last.text == "yes inside 1 0"
    assert (await hits(client, f"{tag} entered"), await hits(client, f"{tag} left")) == (1, 1)


@both
async def test_a_used_state_gets_the_response_that_it_got(
    client: Asked, kind: str, tag: str
) -> None:
    """MRTR-8: whatever the answers are this time."""
    params = asking(tag, kind, number=2)
    first = await send(client, params)
    second = await send(client, params, {first.key: accept("a")}, first.state)
    again = await send(client, params, {first.key: accept("b")}, first.state)
    assert again.result == second.result
    last = [
        await send(client, params, {second.key: accept(each)}, state)
        for each, state in (("c", second.state), ("d", second.state), ("e", first.state))
    ]
    assert [each.text for each in last] == ["a,c 3"] * 3


@both
async def test_retries_at_the_same_time_get_one_outcome(client: Asked, kind: str, tag: str) -> None:
    """MRTR-8."""
    params = asking(tag, kind)
    first = await send(client, params)
    retries = [request(params, {first.key: accept(each)}, first.state) for each in "abc"]
    for each in retries:
        await client.send(each)
    texts = {Round(await client.answer(each["id"])).text for each in retries}
    assert len(texts) == 1
    assert await hits(client, tag) == 2


async def test_the_outcome_of_a_handler_that_did_not_wait_is_kept(client: Asked, tag: str) -> None:
    """Also its messages; the answer that it did not need changes nothing."""
    params = tool("impatient", via="elicit", tag=tag)
    first = await send(client, params)
    while not await hits(client, tag):
        await anyio.sleep(0.002)
    level = {"io.modelcontextprotocol/logLevel": "info"}
    last = await send(client, params, {first.key: accept("late")}, first.state, **level)
    assert last.text == "went on 1"
    assert [each["data"] for each in client.told("notifications/message")] == ["not quick"]
    assert (await send(client, params, {}, first.state)).text == "went on 1"
    other = tool("impatient", via="elicit", tag=f"{tag} other")
    first = await send(client, other)
    while not await hits(client, f"{tag} other"):
        await anyio.sleep(0.002)
    await send(client, other, {}, first.state)
    assert len(client.told("notifications/message")) == 1, "the last request has no log level"


async def test_what_is_asked_and_told_between_two_requests_waits_for_the_next(
    client: Asked, tag: str
) -> None:
    """PROG-3: the progress has the token of the request that it is sent with."""
    params = tool("two_branches", via="elicit", tag=tag)
    info = {"io.modelcontextprotocol/logLevel": "info"}
    first = await send(client, params, progressToken="first", **info)
    await client.call_tool("hit", {"tag": f"{tag} go"})
    while not await hits(client, tag):
        await anyio.sleep(0.002)
    assert client.told("notifications/message") == []
    answers = {first.key: accept("1")}
    second = await send(client, params, answers, first.state, progressToken="second", **info)
    assert second.asked[second.key]["params"]["message"] == "Second?"
    assert [each["progressToken"] for each in client.told("notifications/progress")] == ["second"]
    assert len(client.told("notifications/message")) == 1
    last = await send(client, params, {second.key: accept("2")}, second.state)
    assert last.text == "1,2 2"


# --- the request that carries the run -------------------------------------------------------------

who: ContextVar[str] = ContextVar("who", default="unset")


@pytest.mark.in_memory
async def test_the_run_goes_on_with_the_facts_of_the_retry(connect: Connect) -> None:
    """And with the context variables of the first request; middleware runs once around it."""
    app, passed = MCPKit("facts"), list[str]()

    @app.middleware
    async def outer(ctx: Context, call_next: CallNext) -> Any:
        if ctx.method == "tools/call":
            passed.append("in")
            who.set("the first")
        found = await call_next()
        if ctx.method == "tools/call":
            passed.append("out")
        return found

    @app.tool
    async def facts(ctx: Context) -> list[str]:
        before = str(ctx.request_id), str(ctx.meta.get("trace"))
        await ctx.elicit("On?")
        return [*before, str(ctx.request_id), str(ctx.meta.get("trace")), who.get()]

    async with connect(app) as client:
        params = tool("facts")
        sent = request(params, trace="one")
        first = Round(await client.exchange(sent))
        retry = request(params, {first.key: accept({})}, first.state, trace="two")
        last = Round(await client.exchange(retry))
    assert last.result["structuredContent"]["result"] == [
        *(sent["id"], "one"),
        *(retry["id"], "two"),
        "the first",
    ]
    assert passed == ["in", "out"]


@pytest.mark.in_memory
async def test_cancelling_the_retry_cancels_the_run(connect: Connect) -> None:
    """CANC-1; what the client sends after that is replayed."""
    app, seen = MCPKit("cancelled"), list[str]()

    @app.tool
    async def work(ctx: Context) -> str:
        answer = await ctx.elicit("On?", str, key="on")
        if answer.data == "wait":
            seen.append("waiting")
            try:
                await anyio.sleep_forever()
            finally:
                seen.append("cancelled")
        return str(answer.data)

    async with connect(app) as client:
        first = await send(client, tool("work"))
        retry = request(tool("work"), {"on": accept("wait")}, first.state)
        await client.send(retry)
        await until(lambda: seen)
        await client.send(cancelled(retry["id"]))
        await until(lambda: "cancelled" in seen)
        again = await send(client, tool("work"), {"on": accept("done")}, first.state)
        assert again.text == "done"


@pytest.mark.in_memory
async def test_another_request_of_the_same_state_takes_the_run_over(connect: Connect) -> None:
    """A proxy may send a request twice, and drop the first connection."""
    app, go, done = MCPKit("taken over"), anyio.Event(), list[str]()

    @app.tool
    async def work(ctx: Context) -> str:
        done.append("before")
        await ctx.elicit("On?")
        await go.wait()
        return " ".join([*done, "after"])

    async with connect(app) as client:
        first = await send(client, tool("work"))
        retries = [request(tool("work"), {first.key: accept({})}, first.state) for _ in range(3)]
        for each in retries:
            await client.send(each)
        await client.send(cancelled(retries[0]["id"]))
        await client.send(cancelled(retries[2]["id"]))
        go.set()
        last = Round(await client.answer(retries[1]["id"]))
    assert last.text == "before after"


@pytest.mark.in_memory
async def test_permissions_are_checked_with_every_retry() -> None:
    """SEC-8: those that the client has lost meanwhile."""
    app: MCPKit[None] = MCPKit("permissions")
    allowed = [True]

    @app.tool(allow=lambda principal, arguments: allowed[0])
    async def guarded(ctx: Context) -> str:
        return (await ctx.elicit("Really?", str)).data or ""

    @app.prompt(allow=lambda principal, arguments: allowed[0])
    async def guarded_prompt(ctx: Context) -> str:
        return (await ctx.elicit("Really?", str)).data or ""

    @app.resource("guarded://all", allow=lambda principal, arguments: allowed[0])
    async def guarded_resource(ctx: Context) -> str:
        return (await ctx.elicit("Really?", str)).data or ""

    async with Asked(app, revision=MODERN, principal=Principal("ann")) as client:
        for params, method in (
            (tool("guarded"), "tools/call"),
            ({"name": "guarded_prompt", "arguments": {}}, "prompts/get"),
            ({"uri": "guarded://all"}, "resources/read"),
        ):
            first = await send(client, params, method=method)
            answers = {first.key: accept("yes")}
            allowed[0] = False
            refused = await send(client, params, answers, first.state, method=method)
            assert "You may not use" in refused.error["message"]
            allowed[0] = True
            assert "yes" in str(
                (await send(client, params, answers, first.state, method=method)).result
            )


@pytest.mark.in_memory
async def test_an_entry_that_was_withdrawn_is_not_continued(connect: Connect) -> None:
    app: MCPKit[None] = MCPKit("withdrawn")

    @app.tool
    async def gone(ctx: Context) -> str:
        return (await ctx.elicit("Really?", str)).data or ""

    @app.tool
    async def other() -> None: ...

    async with connect(app) as client:
        first = await send(client, tool("gone"))
        app.disable("gone")
        refused = await send(client, tool("gone"), {first.key: accept("yes")}, first.state)
        assert refused.error == {"code": -32602, "message": "gone is not offered any more"}


@pytest.mark.in_memory
async def test_plain_functions_that_wait_hold_no_place_of_others(connect: Connect) -> None:
    """As many may wait as may run; beyond that a question ends its thread, and is replayed."""
    app: MCPKit[None] = MCPKit("places", limits=Limits(max_threads=2))

    @app.tool
    def ask(ctx: SyncContext, number: int) -> str:
        return f"{ctx.elicit('On?', str, key='on').data} {number}"

    @app.tool
    def work() -> str:
        return "done"

    async with connect(app) as client:
        calls = [tool("ask", number=each) for each in range(5)]
        found = [await send(client, each) for each in calls]
        assert len(held(app)) == 2
        assert (await send(client, tool("work"))).text == "done"
        for number, (params, first) in enumerate(zip(calls, found, strict=True)):
            last = await send(client, params, {"on": accept("yes")}, first.state)
            assert last.text == f"yes {number}"


# --- eviction -------------------------------------------------------------------------------------


def make_evictable() -> tuple[MCPKit[None], list[str]]:
    app: MCPKit[None] = MCPKit("evictable", secret="a secret of both processes")
    seen: list[str] = []

    @asynccontextmanager
    async def place() -> AsyncGenerator[str]:
        seen.append("enter")
        try:
            yield "place"
        finally:
            seen.append("exit")

    @app.tool
    async def ask(ctx: Context, place: Annotated[str, Depends(place)], number: int = 0) -> str:
        seen.append(f"start {ctx.is_replay}")
        await ctx.step("paid", lambda: seen.append("paid"))
        try:
            answer = await ctx.elicit("On?", str, key="on")
        finally:
            seen.append(f"asked {ctx.is_replay}")
        return f"{answer.data} {place}"

    @app.tool
    def ask_sync(ctx: SyncContext, number: int = 0) -> str:
        seen.append(f"start {ctx.is_replay}")
        ctx.step("paid", lambda: seen.append("paid"))
        try:
            answer = ctx.elicit("On?", str, key="on")
        finally:
            seen.append(f"asked {ctx.is_replay}")
        return f"{answer.data} place"

    return app, seen


@both
@pytest.mark.in_memory
async def test_a_run_is_evicted_when_its_client_does_not_come_back(
    connect: Connect, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """MRTR-12: it cleans up; the retry replays it, without its steps, and the log says both."""
    caplog.set_level(logging.INFO, logger="mcpkit")
    app, seen = make_evictable()
    params = tool("ask" + kind)
    async with connect(app) as client:
        first = await send(client, params)
        runs = suspended_runs(app)
        with patch.object(suspended, "monotonic", lambda: float("inf")):
            runs._evict_expired()
        await until(lambda: seen[-1] in ("exit", "asked False")[bool(kind) :])
        assert not held(app)
        before = len(seen)
        last = await send(client, params, {"on": accept("yes")}, first.state)
        assert last.text == "yes place"
    replayed = [each for each in seen[before:] if each not in ("enter", "exit")]
    assert replayed == ["start True", "asked False"]
    evicted, recovered = [each.message for each in caplog.records if "the run of" in each.message]
    why = "its client did not answer within 600 seconds"
    assert evicted == f"the run of tools/call ask{kind} is not held any longer: {why}"
    assert recovered == f"the run of tools/call ask{kind} is replayed from its start: {why}"


@pytest.mark.in_memory
async def test_a_client_that_asks_much_loses_its_own_oldest_runs(connect: Connect) -> None:
    """MRTR-12, SEC-17: and none of others."""
    app, seen = make_evictable()
    with (
        patch.object(suspended, "MAX_EACH", 3),
        patch.object(suspended, "MAX_SUSPENDED", 6),
    ):
        async with connect(app) as client:
            found = [await send(client, tool("ask", number=each)) for each in range(5)]
            await until(lambda: seen.count("exit") == 2)
            assert [each.run.request.params["arguments"]["number"] for each in held(app)] == [
                2,
                3,
                4,
            ]
            for number, each in enumerate(found):
                params = tool("ask", number=number)
                last = await send(client, params, {"on": accept("yes")}, each.state)
                assert last.text == "yes place"
    assert (seen.count("paid"), seen.count("start True"), seen.count("start False")) == (5, 2, 5)


@pytest.mark.in_memory
async def test_large_answers_take_room(connect: Connect) -> None:
    """The bytes of requests, answers and responses are counted, also of runs that are over."""
    app, seen = make_evictable()
    large = "x" * 12_000
    with patch.object(suspended, "MAX_BYTES", 100_000):
        async with connect(app) as client:
            for number in range(4):
                params = tool("ask", number=number)
                first = await send(client, params)
                await send(client, params, {"on": accept(large)}, first.state)
            runs = suspended_runs(app)
            assert 0 < runs._bytes.used <= 50_000
            assert 0 < len(held(app)) < 4
    assert seen.count("start True") == 0


@pytest.mark.in_memory
async def test_a_retry_that_reaches_another_process_is_replayed(connect: Connect) -> None:
    """With the steps that were done, and once more to the process that holds the run."""
    app, seen = make_evictable()
    other, seen_there = make_evictable()
    params = tool("ask")
    async with connect(app) as here, connect(other) as there:
        first = await send(here, params)
        last = await send(there, params, {"on": accept("yes")}, first.state)
        assert last.text == "yes place"
        assert (await send(here, params, {"on": accept("no")}, first.state)).text == "no place"
    assert seen == ["enter", "start False", "paid", "asked False", "exit"]
    assert seen_there == ["enter", "start True", "asked False", "exit"]


@pytest.mark.in_memory
async def test_nothing_waits_when_the_server_has_ended(connect: Connect) -> None:
    app, seen = make_evictable()
    async with connect(app) as client:
        await send(client, tool("ask"))
        await send(client, tool("ask_sync"))
    assert seen.count("asked False") == 2
    assert "exit" in seen
    assert not app.server.all_services


@pytest.mark.in_memory
async def test_a_handler_that_swallows_its_eviction_ends_in_silence(connect: Connect) -> None:
    app, seen = MCPKit("stubborn"), list[str]()

    @app.tool
    async def stubborn(ctx: Context) -> str:
        try:
            await ctx.elicit("On?", key="on")
        except BaseException:
            seen.append("swallowed")
        return "unread"

    async with connect(app) as client:
        first = await send(client, tool("stubborn"))
        suspended_runs(app).evict_all()
        await until(lambda: seen)
        last = await send(client, tool("stubborn"), {"on": accept({})}, first.state)
        assert last.text == "unread"
    assert seen == ["swallowed"]


# --- what is left ---------------------------------------------------------------------------------


def left(app: MCPKit[Any]) -> tuple[int, int, int]:
    """The runs, the places and the bytes that a server has in use."""
    runs = suspended_runs(app)
    return len(runs.known), runs.count.used, runs._bytes.used


@pytest.mark.in_memory
async def test_nothing_is_left_of_runs_that_did_not_wait(connect: Connect, tag: str) -> None:
    """SEC-17: cancelled at once, over at once, or over between two requests."""
    app = make_app()

    @app.tool
    async def background(ctx: Context) -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(ctx.elicit, "On?")
            await anyio.sleep(0)
            group.cancel_scope.cancel()
        return "over"

    async with connect(app) as client:
        for number in range(20):
            gone = request(tool("effects", via="elicit", tag=f"{tag} {number}", number=1))
            await client.send(gone)
            await client.send(cancelled(gone["id"]))
            await send(client, tool("background"))
            await send(client, tool("impatient", via="elicit", tag=tag), {"unasked": {"x": "y"}})
            # A state of null is none, so this is a first request.
            await client.exchange(request({**tool("counted", tag=tag), "requestState": None}))
        await until(lambda: all(each.run.is_over for each in held(app)))
        suspended_runs(app).evict_all()
        await until(lambda: left(app) == (0, 0, 0))


@pytest.mark.in_memory
@pytest.mark.parametrize("part", ["first", "retry", "over"])
async def test_the_bytes_of_every_request_count(connect: Connect, part: str) -> None:
    """SEC-17: those that a handler still holds, and no others."""
    app, seen = make_evictable()
    junk: dict[str, Any] = {"junk": [{}] * 2000}
    size = 2000 * 3
    async with connect(app) as client:
        first = await send(client, tool("ask"), **(junk if part == "first" else {}))
        if part == "retry":
            await send(client, tool("ask"), {}, first.state, **junk)
        elif part == "over":
            await send(client, tool("ask"), {"on": accept("yes")}, first.state)
        before = left(app)[2]
        if part == "over":
            await send(client, tool("ask"), {"on": accept("no")}, first.state, **junk)
            assert left(app)[2] == before < size
        else:
            assert before > 20 * size, "the values are counted, not only their text"
    assert seen.count("start False") == 1


@pytest.mark.in_memory
async def test_a_handler_that_asks_in_a_task_of_its_own_is_evicted_as_well(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not see that its question has ended, so it is cancelled a moment later."""
    monkeypatch.setattr(suspended, "_CLEAN_UP_S", 0.05)
    app, seen = MCPKit("branch"), list[str]()

    @app.tool
    async def work(ctx: Context) -> str:
        async def ask() -> None:
            with suppress(BaseException):
                await ctx.elicit("On?")

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await anyio.sleep_forever()
        finally:
            seen.append("left")
        return "never"

    async with connect(app) as client:
        await send(client, tool("work"))
        suspended_runs(app).evict_all()
        await until(lambda: seen)
        await until(lambda: left(app) == (0, 0, 0))


@pytest.mark.in_memory
async def test_a_run_in_its_second_round_cleans_up_when_the_server_ends(connect: Connect) -> None:
    app, seen = MCPKit("ending"), list[str]()

    @app.tool
    async def work(ctx: Context) -> str:
        await ctx.elicit("On?", key="on")
        seen.append("working")
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.05)
            seen.append("clean")
        return "never"

    async with connect(app) as client:
        first = await send(client, tool("work"))
        await client.send(request(tool("work"), {"on": accept({})}, first.state))
        await until(lambda: seen)
    assert seen == ["working", "clean"]
