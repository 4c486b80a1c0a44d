"""Limits of calls: their time, how many run at once, and how often.

Nothing here is timed: calls are counted while gates hold them.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import CallLimits, Context, Elicit, LimitExceeded, MCPKit, SyncContext
from mcpkit._utils import quota
from mcpkit._utils.quota import Window
from mcpkit.call_limits import Gate
from mcpkit.errors import ConnectionClosed, MCPKitError, ProtocolError, RegistrationError
from mcpkit.testing import REVISIONS, AsyncTestClient
from tests import limited
from tests.asking.conftest import accept
from tests.kit import PATIENCE, ThreadGate, at_once, suspended_runs, until
from tests.kit import Gate as Held
from tests.messages import announced
from tests.transports.http.plain import Client
from tests.web import reached_by, serving

CALLERS = 64


def gates(app: MCPKit[Any], name: str) -> list[Gate]:
    """The gates of a tool."""
    found: Any = app.server.registry.tools[name].plan
    return list(found.gates)


def in_use(app: MCPKit[Any], name: str) -> list[int]:
    """How many places are in use at the gates of a tool, and how many calls wait."""
    return [n for each in gates(app, name) for n in (each.places.used, len(each._waiting))]


# --- over transports and revisions ----------------------------------------------------------------


@pytest.fixture(params=["memory", "stdio", "http"])
def target(request: pytest.FixtureRequest) -> Iterator[Any]:
    with reached_by(request.param, limited.make_app(), Path(limited.__file__)) as found:
        yield found


@pytest.mark.parametrize("revision", [REVISIONS[0], *REVISIONS[-2:]])
async def test_a_limit_holds_and_a_rejection_says_when_to_retry(target: Any, revision: str) -> None:
    """TOOL-7, with 64 callers: a model reads it in the result, a program in the error."""
    async with AsyncTestClient(target, revision=revision) as client:
        results = await at_once(CALLERS, partial(client.call_tool, "rated"))
        rejected = [each.text for each in results if each.is_error]
        assert len(rejected) == CALLERS - 20
        assert all(each.startswith("Too many calls of rated; try again in 3") for each in rejected)
        slow = await client.call_tool("endless")
        assert (slow.is_error, slow.text) == (True, "The call took longer than 0.2 seconds")


@pytest.mark.parametrize("revision", [REVISIONS[0], *REVISIONS[-2:]])
async def test_resources_and_prompts_are_rejected_with_an_error(revision: str) -> None:
    async with AsyncTestClient(limited.make_app(), revision=revision) as client:
        ways = partial(client.read_resource, "limited://page"), partial(client.get_prompt, "greet")
        for ask in ways:
            await ask()
            with pytest.raises(ProtocolError, match="try again in 3600 seconds") as caught:
                await ask()
            assert (caught.value.code, caught.value.data) == (-32603, {"retryAfter": 3600})


def test_without_sessions_http_has_a_status_and_a_header_for_it() -> None:
    """On 2026-07-28, where every response has a status of its own."""
    with serving(Path(limited.__file__)) as url:
        client = Client(url, [])
        first, second = [
            client.post(announced(1, "resources/read", uri="limited://page")) for _ in "12"
        ]
    assert (first.status, second.status) == (200, 429)
    assert second.last["error"]["data"] == {"retryAfter": int(second.header("Retry-After") or 0)}


# --- concurrency ----------------------------------------------------------------------------------


class Crowd:
    """Many calls of one tool, which a gate holds."""

    def __init__(self, **options: Any) -> None:
        self.held = Held()
        self.texts: list[str] = []
        of_app = options.pop("of_app", None)
        self.app: MCPKit[None] = MCPKit("a", call_limits=of_app)

        async def work() -> str:
            return await self.held.pass_through()

        self.app.add_tool(work, **options)

    async def call(self, client: AsyncTestClient) -> None:
        self.texts.append((await client.call_tool("work")).text)

    @asynccontextmanager
    async def callers(self, *names: str, number: int = CALLERS) -> AsyncIterator[None]:
        """Opens the gate at the end."""
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(AsyncTestClient(self.app, principal=name))
                for name in names
            ]
            group = await stack.enter_async_context(anyio.create_task_group())
            for client in clients:
                for _ in range(number):
                    group.start_soon(self.call, client)
            yield
            self.held.open()


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"concurrency": 10}, 10),
        ({"call_limits": CallLimits(concurrency_each=10)}, 10),
        ({"of_app": CallLimits(concurrency=10)}, 10),
        ({"concurrency": 12, "of_app": CallLimits(concurrency=10)}, 10),
    ],
)
async def test_64_callers_get_as_many_places_as_there_are_and_all_get_one(
    limits: dict[str, Any], most: int
) -> None:
    crowd = Crowd(**limits)
    async with crowd.callers("alice"):
        await crowd.held.wait_for(most)
        await anyio.wait_all_tasks_blocked()
        assert crowd.held.running == most
    assert crowd.texts == ["through"] * CALLERS
    assert crowd.held.most == most
    assert set(in_use(crowd.app, "work")) == {0}


async def test_each_principal_has_its_own_places() -> None:
    crowd = Crowd(call_limits=CallLimits(concurrency=8, concurrency_each=3))
    async with crowd.callers("alice", "bob", "carol", number=10):
        await crowd.held.wait_for(7)  # the last place is for another one
        places = gates(crowd.app, "work")[0].places
        held = [places.held(f"principal {each}") for each in ("alice", "bob", "carol")]
        assert (sum(held), max(held)) == (7, 3)


async def test_the_line_is_bounded_and_one_client_has_three_quarters_of_it() -> None:
    """SEC-17."""
    crowd = Crowd(of_app=CallLimits(concurrency=2, max_waiting=20, max_wait=PATIENCE))
    async with crowd.callers("alice"):
        await until(lambda: len(crowd.texts) == CALLERS - 2 - 15)
        assert in_use(crowd.app, "work") == [2, 15]
    assert set(crowd.texts) == {
        "through",
        f"Too many calls at once; try again in {PATIENCE:g} seconds",
    }


async def test_a_call_that_has_waited_for_too_long_is_rejected() -> None:
    crowd = Crowd(call_limits=CallLimits(concurrency=1, max_wait=0.01))
    async with crowd.callers("alice", number=2):
        await until(lambda: crowd.texts)
    assert crowd.texts == ["Too many calls of work at once; try again in 1 second", "through"]


async def test_calls_of_other_entries_are_not_held_up() -> None:
    crowd = Crowd(concurrency=1)
    crowd.app.add_tool(lambda: "free", name="other")
    async with crowd.callers("alice", number=3), AsyncTestClient(crowd.app) as client:
        await crowd.held.wait_for(1)
        assert (await client.call_tool("other")).text == "free"


async def test_an_included_app_keeps_its_limits_and_gets_those_of_the_app() -> None:
    inner: MCPKit[None] = MCPKit("inner", call_limits=CallLimits(concurrency=2))
    outer: MCPKit[None] = MCPKit("outer", call_limits=CallLimits(concurrency=3))
    inner.add_tool(lambda: 1, name="one", concurrency=1)
    outer.include(inner, prefix="in")
    found = [each.limits.concurrency for each in gates(outer, "in_one")]
    assert found == [1, 2, 3]
    assert [each.limits.concurrency for each in gates(inner, "one")] == [1, 2]


async def test_what_a_call_does_on_its_way_needs_no_second_place() -> None:
    """It would wait for itself."""
    app: MCPKit[None] = MCPKit("a", call_limits=CallLimits(concurrency=1, max_wait=PATIENCE))
    app.add_resource(lambda: "text", "a://b", name="b", concurrency=1)

    @app.tool
    async def reads(ctx: Context) -> str:
        [found] = await ctx.read_resource("a://b")
        return str(found.text)  # type: ignore[union-attr]

    async with AsyncTestClient(app) as client:
        assert (await client.call_tool("reads")).text == "text"


# --- time -----------------------------------------------------------------------------------------


async def test_a_thread_that_outlives_its_timeout_keeps_its_place_and_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate, app = ThreadGate("late"), MCPKit[None]("a")

    @app.tool(timeout=0.05, concurrency=1)
    def blocks() -> str:
        return str(gate())

    async with AsyncTestClient(app) as client:
        with caplog.at_level(logging.WARNING, "mcpkit"):
            assert "longer than 0.05 seconds" in (await client.call_tool("blocks")).text
        assert "blocks goes on in its thread" in caplog.text
        assert in_use(app, "blocks") == [1, 0]
        gate.open()
        await until(lambda: in_use(app, "blocks") == [0, 0])
        assert (await client.call_tool("blocks")).text == "late"


async def test_a_call_that_waits_for_a_thread_when_its_time_ends_never_runs() -> None:
    gate, seen = ThreadGate(), list[str]()
    app: MCPKit[None] = MCPKit("a", max_threads=1)
    app.add_tool(gate, name="first")
    app.add_tool(lambda: seen.append("ran"), name="second", timeout=0.05)
    async with AsyncTestClient(app) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "first")
        await until(gate.started.is_set)
        assert (await client.call_tool("second")).is_error
        assert in_use(app, "second") == [0, 0]
        gate.open()
    assert seen == []


@pytest.mark.parametrize(("own", "of_app", "text"), [(None, 0.05, "0.05"), (0.04, 9, "0.04")])
async def test_the_timeout_of_an_entry_replaces_that_of_the_app(
    own: float | None, of_app: float, text: str
) -> None:
    app: MCPKit[None] = MCPKit("a", call_limits=CallLimits(timeout=of_app))
    app.add_tool(anyio.sleep_forever, name="endless", timeout=own)
    async with AsyncTestClient(app) as client:
        assert f"longer than {text} seconds" in (await client.call_tool("endless")).text


async def test_an_exception_of_the_handler_is_its_own() -> None:
    app: MCPKit[None] = MCPKit("a", expose_errors="all")

    @app.tool(timeout=9)
    async def times_out() -> None:
        with anyio.fail_after(0):
            await anyio.sleep_forever()

    async with AsyncTestClient(app) as client:
        assert (await client.call_tool("times_out")).text == "TimeoutError"


# --- questions ------------------------------------------------------------------------------------


def add_asking(app: MCPKit[Any], kind: str, **options: Any) -> None:
    """Add a tool that asks, in each of its ways."""

    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("On?", str)).data)

    def ask_sync(ctx: SyncContext) -> str:
        return str(ctx.elicit("On?", str).data)

    async def declared(answer: Annotated[str, Elicit("On?")]) -> str:
        return answer

    made: dict[str, Callable[..., Any]] = {"async": ask, "sync": ask_sync, "declared": declared}
    app.add_tool(made[kind], name="ask", **options)


@pytest.mark.parametrize("kind", ["async", "sync", "declared"])
@pytest.mark.parametrize("revision", REVISIONS[-3:])
async def test_the_time_of_a_question_counts_to_no_limit(revision: str, kind: str) -> None:
    """Another call runs meanwhile, and the question outlasts the timeout."""
    app: MCPKit[None] = MCPKit("a", call_limits=CallLimits(concurrency=1, max_wait=PATIENCE))
    add_asking(app, kind, timeout=0.3)
    app.add_tool(lambda: "free", name="other")
    asked = anyio.Event()

    async def answer(_question: Any) -> Any:
        asked.set()
        assert (await client.call_tool("other")).text == "free"
        await anyio.sleep(0.4)
        return accept("yes")

    async with AsyncTestClient(app, revision=revision, elicitation=answer) as client:
        assert (await client.call_tool("ask")).text == "yes"
        assert set(in_use(app, "ask")) == {0}


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("revision", REVISIONS[-2:])
async def test_64_calls_that_ask_take_their_places_again_without_deadlock(
    revision: str, kind: str
) -> None:
    app: MCPKit[None] = MCPKit("a", call_limits=CallLimits(concurrency=3, max_wait=PATIENCE))
    add_asking(app, kind, concurrency=2)
    async with AsyncTestClient(
        app, revision=revision, elicitation=lambda _: accept("yes")
    ) as client:
        results = await at_once(CALLERS, partial(client.call_tool, "ask"))
    assert [each.text for each in results] == ["yes"] * CALLERS
    assert set(in_use(app, "ask")) == {0}


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_a_run_that_is_evicted_leaves_no_place_behind(kind: str) -> None:
    app: MCPKit[None] = MCPKit("a")
    add_asking(app, kind, concurrency=1)

    async def answer(_question: Any) -> Any:
        suspended_runs(app).evict_all()
        return accept("yes")

    async with AsyncTestClient(app, elicitation=answer) as client:
        assert (await client.call_tool("ask")).text == "yes"  # replayed from its start
        await until(lambda: in_use(app, "ask") == [0, 0])


async def never(_question: Any) -> Any:
    await anyio.sleep_forever()


async def test_a_handler_that_stops_waiting_for_an_answer_still_has_a_place() -> None:
    app, held = MCPKit[None]("a"), Held()

    @app.tool(concurrency=1, timeout=PATIENCE)
    async def impatient(ctx: Context) -> str:
        with anyio.move_on_after(0.01):
            await ctx.elicit("On?", str)
        return await held.pass_through()

    async with (
        AsyncTestClient(app, revision=REVISIONS[-2], elicitation=never) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(client.call_tool, "impatient")
        await held.wait_for(1)
        assert in_use(app, "impatient") == [1, 0]
        held.open()
    assert in_use(app, "impatient") == [0, 0]


# --- tasks ----------------------------------------------------------------------------------------


async def test_tasks_wait_for_a_place_however_long_that_takes_and_have_no_timeout() -> None:
    app, held = MCPKit[None](f"tasks{secrets.token_hex(4)}"), Held()
    limits = CallLimits(concurrency=1, max_waiting=0, timeout=0.01)

    @app.tool(task="optional", call_limits=limits)
    async def work() -> str:
        return await held.pass_through()

    async with AsyncTestClient(app) as client:
        handles = [await client.start("work") for _ in range(3)]
        await held.wait_for(1)
        await until(lambda: in_use(app, "work") == [1, 2])
        held.open()
        assert [(await each.result()).text for each in handles] == ["through"] * 3
    assert held.most == 1


# --- nothing leaks --------------------------------------------------------------------------------

ENDS = st.lists(
    st.sampled_from(["ends", "raises", "cancelled", "times out", "asks", "disconnects"]),
    min_size=1,
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(ENDS, st.sampled_from(REVISIONS[-2:]), st.booleans(), st.integers(1, 3))
def test_no_place_leaks_however_calls_end(
    ends: list[str], revision: str, in_thread: bool, concurrency: int
) -> None:
    app: MCPKit[None] = MCPKit("a", call_limits=CallLimits(concurrency=concurrency + 1))
    limits = CallLimits(concurrency=concurrency, timeout=0.05, max_wait=PATIENCE)

    ended: list[str] = []
    stays = ("times out", "cancelled", "disconnects")

    async def work(how: str, ctx: Context) -> str:
        ctx.progress(1)
        if how in stays:
            await anyio.sleep_forever()
        if how == "raises":
            raise ValueError(how)
        return str(await ctx.elicit("On?", str)) if how == "asks" else how

    def work_sync(how: str, ctx: SyncContext) -> str:
        ctx.progress(1)
        if how in stays:
            threading.Event().wait(0.1)
        if how == "raises":
            raise ValueError(how)
        return str(ctx.elicit("On?", str)) if how == "asks" else how

    async def call(client: AsyncTestClient, how: str) -> None:
        with anyio.CancelScope() as scope, suppress(ConnectionClosed):
            stop: Any = (lambda *_: scope.cancel()) if how == "cancelled" else None
            await client.call_tool("work", {"how": how}, on_progress=stop)
        ended.append(how)

    def connected() -> AsyncTestClient:
        return AsyncTestClient(app, revision=revision, elicitation=lambda _: accept("yes"))

    async def use() -> None:
        async with connected() as client:
            async with anyio.create_task_group() as group, connected() as gone:
                for how in ends:
                    group.start_soon(call, gone if how == "disconnects" else client, how)
                others = len(ends) - ends.count("disconnects")
                await until(lambda: len(ended) >= others)
                await anyio.wait_all_tasks_blocked()
                group.cancel_scope.cancel()
            await until(lambda: set(in_use(app, "work")) == {0})
            assert all(each.line.used == 0 for each in gates(app, "work"))

    app.add_tool(work_sync if in_thread else work, name="work", call_limits=limits)
    anyio.run(use)


# --- rates ----------------------------------------------------------------------------------------


@given(st.integers(1, 20), st.lists(st.floats(0, 3), max_size=100))
def test_no_window_has_more_events_than_its_rate_and_a_caller_that_waits_is_served(
    count: int, pauses: list[float]
) -> None:
    now, admitted = 100.0, list[float]()
    window = Window(count, 10.0, lambda: now)
    for pause in pauses:
        now += pause
        if not (wait := window.wait("a")):
            window.add("a")
            admitted.append(now)
        else:
            now += wait + 1e-9
            assert not window.wait("a")
        recent = [each for each in admitted if each > now - 10]
        assert len(recent) <= count
    assert not window.wait("b")


def test_the_rates_of_many_owners_take_bounded_memory() -> None:
    window = Window(1, 1)
    with patch.object(quota, "MAX_RATED_OWNERS", 10):
        for number in range(30):
            window.add(str(number))
    assert len(window._events) == 10


async def test_the_rate_of_one_principal_is_not_that_of_another() -> None:
    app: MCPKit[None] = MCPKit("a", call_limits=CallLimits(rate="3/h", rate_each="2/h"))
    app.add_tool(lambda: 1, name="one")
    found: list[bool] = []
    for name in ("alice", "bob"):
        async with AsyncTestClient(app, principal=name) as client:
            found += [(await client.call_tool("one")).is_error for _ in range(3)]
    assert found == [False, False, True, False, True, True]


# --- registration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"rate": "10"}, r'rate is a number of calls and a time, such as "10/s".*not \'10\''),
        ({"rate": "0/s"}, "rate is a number of calls"),
        ({"timeout": 0}, "timeout must be more than 0 and finite, not 0"),
        ({"concurrency": 0}, "concurrency must be at least 1 and finite, not 0"),
        ({"concurrency": 1.0}, "concurrency must be a whole number, not 1.0"),
        ({"call_limits": {"rate": "1/s"}}, "call_limits= is a CallLimits"),
        ({"timeout": 1, "inline": True}, "omit one of them"),
    ],
)
def test_a_wrong_limit_is_refused_with_file_and_line(options: dict[str, Any], text: str) -> None:
    app: MCPKit[None] = MCPKit("a")

    def here() -> None: ...

    with pytest.raises(RegistrationError, match=rf"(?s)test_call_limits\.py:\d+.*{text}"):
        app.add_tool(here, **options)


@pytest.mark.parametrize("name", ["max_waiting", "max_wait", "rate_each", "concurrency_each"])
def test_a_wrong_limit_of_an_app_is_refused(name: str) -> None:
    options: Any = {name: -1}
    with pytest.raises(ValueError, match=name):
        CallLimits(**options)


def test_a_rejection_is_an_exception_that_middleware_may_raise() -> None:
    error = LimitExceeded("Too many calls", 1.2)
    assert isinstance(error, MCPKitError)
    assert (str(error), error.retry_after) == ("Too many calls; try again in 2 seconds", 2)
