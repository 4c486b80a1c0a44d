"""Calls with a key run once, and equal calls share a run."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import anyio
import pydantic
import pytest

from mcpkit import (
    Audio,
    CallLimits,
    CallNext,
    Context,
    Depends,
    Elicit,
    Idempotent,
    Image,
    MCPKit,
    ResourceLink,
    TextContent,
    ToolError,
    ToolResult,
    UrlElicitationRequired,
)
from mcpkit.errors import Forbidden, ProtocolError, RegistrationError
from mcpkit.testing import REVISIONS, AsyncTestClient
from tests import keyed
from tests.asking.conftest import accept
from tests.kit import Gate, ThreadGate, at_once, suspended_runs, until
from tests.messages import MODERN
from tests.web import reached_by

Key = Annotated[str, Idempotent()]
REPEATS = 1000
OTHERS = "The arguments of the call with this key were others"
ASKED = "The answer to a question of the call with this key is missing"
UNKNOWN = "The outcome of the call with this key is unknown"


def make_app(**options: Any) -> MCPKit[None]:
    return MCPKit(f"app{secrets.token_hex(4)}", **options)


async def text_of(client: AsyncTestClient, tool: str, /, **arguments: Any) -> str:
    return (await client.call_tool(tool, arguments)).text


# --- over transports and revisions ----------------------------------------------------------------


@pytest.fixture(params=["memory", "stdio", "http"])
def target(request: pytest.FixtureRequest) -> Iterator[Any]:
    with reached_by(request.param, keyed.make_app(), Path(keyed.__file__)) as found:
        yield found


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_repeat_gets_the_recorded_result(target: Any, revision: str) -> None:
    async with AsyncTestClient(
        target, revision=revision, elicitation=lambda _: accept("yes")
    ) as client:
        call = partial(text_of, client)
        first = await client.call_tool("pay", {"key": "a", "amount": 2})
        again = await client.call_tool("pay", {"key": "a", "amount": "2", "seconds": 0})
        assert first == again
        assert first.text == '{"amount":2,"run":1}'
        assert OTHERS in await call("pay", key="a", amount=3)
        for _ in range(2):
            failed = await client.call_tool("pay", {"key": "b", "amount": 0})
            assert (failed.is_error, failed.text) == (True, "nothing to pay in run 1")
        assert await call("order", order="1") == await call("order", order="1") == " 1"
        assert "were others" in await call("order", order="1", note="x")
        assert [await call("order", order="2", item="any") for _ in "12"] == [" 1", " 2"]
        if revision in REVISIONS[-3:]:
            assert await call("ask", key="a") == await call("ask", key="a") == "yes a"


async def test_the_model_is_told_how_to_use_the_key() -> None:
    """What an author says stays."""
    app = keyed.make_app()

    @app.tool(idempotent=False)
    def own(key: Annotated[str, "An id of yours", Idempotent()]) -> None: ...

    tools = app.server.registry.tools
    shown = [tools[each].input_schema["properties"]["key"] for each in ("pay", "own")]
    use = "Use a new value for each new intent, and the same value when you repeat a call."
    assert [each["description"] for each in shown] == [
        f"The key of the call. {use}",
        f"An id of yours. {use}",
    ]
    hints = [tools[each].annotations for each in ("pay", "order", "own")]
    assert [each and each.idempotent for each in hints] == [True, True, False]


# --- keys and arguments ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key", ["\0", "\u202e", "é", "e\u0301", "🔑" * 256, "'; --", "call-1", "", "x" * 257]
)
async def test_a_key_is_any_text_of_1_to_256_characters(key: str) -> None:
    async with AsyncTestClient(keyed.make_app()) as client:
        texts = [await text_of(client, "pay", key=key) for _ in "12"]
    expected = '{"amount":1,"run":1}'
    if not 0 < len(key) <= 256:
        expected = f"key: expected 1 to 256 characters, got {len(key)}"
    assert texts == [expected] * 2


async def test_without_a_key_every_call_runs() -> None:
    app, runs = make_app(), list[str]()

    @app.tool
    def note(text: str, key: Annotated[str | None, Idempotent()] = None) -> str:
        runs.append(text)
        return str(len(runs))

    async with AsyncTestClient(app) as client:
        assert [await text_of(client, "note", text="a") for _ in "12"] == ["1", "2"]
        assert await text_of(client, "note", text="a", key=None) == "3"
        assert [await text_of(client, "note", text="a", key="k") for _ in "12"] == ["4", "4"]


NOW = partial(datetime.now, timezone.utc)


class Part(pydantic.BaseModel):
    name: str
    tags: set[str] = set()


async def test_arguments_are_compared_as_json() -> None:
    app, runs = make_app(), list[int]()

    @app.tool
    def note(
        key: Key,
        parts: list[Part],
        when: Annotated[datetime, pydantic.Field(default_factory=NOW)],
        extra: Any = None,
        many: int = 1,
    ) -> str:
        runs.append(many)
        return str(len(runs))

    given = {"parts": [{"name": "a", "tags": ["x", "y"]}], "extra": {"a": 1, "b": [{}] * 10_000}}
    other = {"parts": [{"tags": ["x", "y"], "name": "a"}], "extra": {"b": [{}] * 10_000, "a": 1}}
    async with AsyncTestClient(app) as client:
        assert await text_of(client, "note", key="a", **given) == "1"
        assert await text_of(client, "note", key="a", **other, many="1", toolCallId="7") == "1"
        assert OTHERS in await text_of(client, "note", key="a", parts=[{"name": "b"}])
        assert OTHERS in await text_of(client, "note", key="a", **given, many=2)


async def test_keys_belong_to_a_principal_and_to_a_tool() -> None:
    app = keyed.make_app()
    for prefix in ("one", "two"):
        app.include(keyed.make_app(), prefix=prefix)
    results: list[Any] = []
    for who in ("ann", "bob", None, None):
        async with AsyncTestClient(app, principal=who) as client:
            for tool in ("pay", "one_pay", "two_pay"):
                found = await client.call_tool(tool, {"key": "a"})
                results.append((found.structured_content or {})["run"])
    assert results == [1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3]


async def test_permissions_and_middleware_apply_to_repeats() -> None:
    app, seen, allowed = make_app(), list[str](), {"ann"}

    @app.middleware
    async def note(ctx: Context, call_next: CallNext) -> Any:
        seen.append(ctx.method)
        return await call_next()

    @app.tool(allow=lambda principal, arguments: principal.id in allowed)
    def pay(key: Key) -> str:
        return "paid"

    async with AsyncTestClient(app, principal="ann") as client:
        assert [await text_of(client, "pay", key="a") for _ in "12"] == ["paid", "paid"]
        allowed.clear()
        with pytest.raises(ProtocolError, match="You may not use pay"):
            await text_of(client, "pay", key="a")
    assert seen.count("tools/call") == 3


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_kind_of_result_is_recorded(revision: str) -> None:
    results: list[Any] = [
        None,
        "text",
        [TextContent("a"), Image(b"\x89PNG", "image/png"), Audio(b"wave", "audio/wav")],
        ToolResult("x", structured_content={"a": [1, None]}, meta={"m": 1}),
        ToolResult("no", is_error=True),
        ResourceLink("a://b", "b"),
        ToolError("no"),
        ValueError("secret"),
        Forbidden("no"),
    ]
    app, runs = make_app(), list[int]()

    @app.tool
    def anything(key: Key, number: int) -> Any:
        runs.append(number)
        found = results[number]
        if isinstance(found, Exception):
            raise found
        return found

    @app.tool(structured_output="raw")
    def numbers(key: Key) -> list[int]:
        return [len(runs)]

    async def call(tool: str, **arguments: Any) -> Any:
        try:
            return await client.call_tool(tool, arguments)
        except ProtocolError as error:
            return str(error)

    async with AsyncTestClient(app, revision=revision) as client:
        for number in range(len(results)):
            first, again = [await call("anything", key=f"{number}", number=number) for _ in "12"]
            assert first == again  # also the reference to the log
        first, again = [await call("numbers", key="a") for _ in "12"]
        assert first == again
    assert runs == [*range(len(results))]


async def test_a_result_that_is_too_large_is_not_recorded_and_its_call_not_repeated() -> None:
    app, runs = make_app(tasks={"max_bytes": 1000}), list[str]()

    @app.tool
    def large(key: Key) -> str:
        runs.append(key)
        return "x" * 2000

    async with AsyncTestClient(app) as client:
        assert await text_of(client, "large", key="a") == "x" * 2000
        assert "has run, but its result has more than 1000 bytes" in await text_of(
            client, "large", key="a"
        )
    assert runs == ["a"]


async def test_more_calls_than_there_is_room_for_are_rejected_and_none_is_forgotten() -> None:
    app = make_app(tasks={"max_stored": 20_000})

    @app.tool
    def pay(key: Key) -> str:
        return key

    async with AsyncTestClient(app) as client:
        texts = [await text_of(client, "pay", key=f"{each}") for each in range(6)]
        full = texts.index("Too many calls are recorded; try again later")
        assert full > 1
        assert [await text_of(client, "pay", key=f"{each}") for each in range(full)] == texts[:full]


async def test_a_call_that_needs_a_page_first_is_not_recorded() -> None:
    """ELIC-10: it is called again when the user has opened it."""
    app, pages, gate = make_app(), ["https://example.com/pay"], Gate()

    @app.tool
    async def pay(key: Key) -> str:
        await gate.pass_through()
        await anyio.sleep(0.05)
        if pages:
            raise UrlElicitationRequired("Log in", pages.pop())
        return "paid"

    async with AsyncTestClient(app, revision=REVISIONS[-2]) as client:
        call = partial(text_of, client, "pay", key="a")
        async with anyio.create_task_group() as group:
            group.start_soon(gate.open_at, 1)
            texts = await at_once(5, call)
        assert "Log in" in texts[0]
        assert [*texts[1:], await call()] == ["paid"] * 5


# --- at the same time -----------------------------------------------------------------------------


async def test_repeats_wait_for_the_first_call() -> None:
    app, gate = make_app(max_in_flight=2 * REPEATS), Gate()

    @app.tool
    async def work(key: Key) -> str:
        return await gate.pass_through()

    async with AsyncTestClient(app) as client, anyio.create_task_group() as group:
        group.start_soon(gate.open_at, 1)
        texts = await at_once(REPEATS, partial(text_of, client, "work", key="a"))
    assert texts == ["through"] * REPEATS
    assert gate.most == 1


@pytest.mark.parametrize("revision", [REVISIONS[0], *REVISIONS[-2:]])
@pytest.mark.parametrize("is_async", [True, False])
async def test_the_outcome_of_a_call_that_was_interrupted_is_unknown(
    revision: str, is_async: bool
) -> None:
    """By its client, or by its timeout; a thread goes on then."""
    app, runs, gate = make_app(), list[str](), ThreadGate("late")

    async def wait(key: Key) -> None:
        runs.append(key)
        await anyio.sleep_forever()

    def block(key: Key) -> str:
        runs.append(key)
        return str(gate())

    app.add_tool(wait if is_async else block, name="work")
    app.add_tool(wait if is_async else block, name="timed", timeout=0.1)
    async with AsyncTestClient(app, revision=revision) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(partial(text_of, client, "work", key="a"))
            await until(lambda: runs)
            group.cancel_scope.cancel()
        assert UNKNOWN in await text_of(client, "work", key="a")
        assert "longer than 0.1 seconds" in await text_of(client, "timed", key="b")
        gate.open()
        assert UNKNOWN in await text_of(client, "timed", key="b")
    assert runs == ["a", "b"]


async def test_a_rejected_call_has_not_run_and_may_be_repeated() -> None:
    app, gate = make_app(), Gate()
    limits = CallLimits(concurrency=1, max_waiting=0)

    @app.tool(call_limits=limits)
    async def work(key: Key) -> str:
        return await gate.pass_through()

    async with AsyncTestClient(app) as client, anyio.create_task_group() as group:
        group.start_soon(partial(text_of, client, "work", key="a"))
        await gate.wait_for(1)
        assert "Too many calls of work" in await text_of(client, "work", key="b")
        gate.open()
        await until(lambda: not gate.running)
        assert await text_of(client, "work", key="b") == "through"


# --- questions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["held", "replayed"])
@pytest.mark.parametrize("is_declared", [False, True])
async def test_the_retry_with_the_answers_is_the_same_call(how: str, is_declared: bool) -> None:
    """MRTR-5; a call with the same key has to wait for it."""
    app, runs, meanwhile = make_app(), list[str](), list[str]()

    async def ask(key: Key, ctx: Context) -> str:
        first = await ctx.elicit("One?", str)
        second = await ctx.elicit("Two?", str)
        runs.append(key)
        return f"{first.data} {second.data}"

    async def declared(key: Key, answer: Annotated[str, Elicit("One?")]) -> str:
        runs.append(key)
        return f"{answer} {answer}"

    app.add_tool(declared if is_declared else ask, name="ask")

    async def answer(_question: Any) -> Any:
        meanwhile.append(await text_of(client, "ask", key="a"))
        if how == "replayed":
            suspended_runs(app).evict_all()
        return accept("yes")

    async with AsyncTestClient(app, revision=MODERN, elicitation=answer) as client:
        for _ in range(2):
            assert await text_of(client, "ask", key="a") == "yes yes"
    assert runs == ["a"]
    assert [ASKED in each for each in meanwhile] == [True] * (1 if is_declared else 2)


async def test_before_2026_a_repeat_waits_while_the_first_call_asks() -> None:
    app, texts = keyed.make_app(), list[str]()

    async with anyio.create_task_group() as group:

        async def answer(_question: Any) -> Any:
            group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            return accept("yes")

        async def call() -> None:
            texts.append(await text_of(client, "ask", key="a"))

        async with AsyncTestClient(app, revision=REVISIONS[-2], elicitation=answer) as client:
            await call()
            await until(lambda: len(texts) == 2)
    assert texts == ["yes a"] * 2


# --- tasks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS[-2:])
async def test_a_repeat_as_a_task_gets_the_recorded_result(revision: str) -> None:
    app, runs = make_app(), list[str]()

    @app.tool(task="optional")
    async def work(key: Key, ctx: Context) -> str:
        answer = await ctx.elicit("Go?", str)
        runs.append(key)
        return f"{answer.data} {len(runs)}"

    async with AsyncTestClient(
        app, revision=revision, elicitation=lambda _: accept("yes")
    ) as client:
        handles = [await client.start("work", {"key": "a"}) for _ in range(2)]
        texts = {(await each.result()).text for each in handles} - {"yes 1"}
        assert all(each.startswith(ASKED) for each in texts)
        handle = await client.start("work", {"key": "a"})
        assert (await handle.result()).text == "yes 1"
        assert await text_of(client, "work", key="a") == "yes 1"
    assert runs == ["a"]


# --- single flight --------------------------------------------------------------------------------


class Shared:
    """A tool whose equal calls share a run."""

    def __init__(self) -> None:
        self.app, self.gate = make_app(), Gate()
        self.texts: list[str] = []
        self.cancelled = 0

        @self.app.tool(single_flight=True)
        async def look(name: str, ctx: Context) -> str:
            try:
                await self.gate.pass_through()
            except BaseException:
                self.cancelled += 1
                self.gate.running -= 1
                raise
            if name == "fails":
                raise ToolError("no")
            return f"{name} {ctx.cancelled}"

    async def call(
        self, client: AsyncTestClient, name: str, scope: anyio.CancelScope | None = None
    ) -> None:
        with scope or anyio.CancelScope():
            self.texts.append(await text_of(client, "look", name=name))


@pytest.mark.parametrize("revision", [REVISIONS[0], *REVISIONS[-2:]])
async def test_equal_calls_of_a_principal_share_a_run(revision: str) -> None:
    shared = Shared()
    async with (
        AsyncTestClient(shared.app, principal="ann", revision=revision) as ann,
        AsyncTestClient(shared.app, principal="bob", revision=revision) as bob,
        anyio.create_task_group() as group,
    ):
        for client in (ann, bob):
            for name in ("a", "b", "fails"):
                for _ in range(10):
                    group.start_soon(shared.call, client, name)
        await shared.gate.open_at(6)
    assert sorted(shared.texts) == ["a False"] * 20 + ["b False"] * 20 + ["no"] * 20
    assert shared.gate.most == 6


@pytest.mark.parametrize("revision", [REVISIONS[0], *REVISIONS[-2:]])
async def test_a_cancelled_call_does_not_cancel_the_others_and_the_last_one_does(
    revision: str,
) -> None:
    shared = Shared()
    async with AsyncTestClient(shared.app, revision=revision) as client:
        for stays in (True, False):
            shared.gate, scopes = Gate(), [anyio.CancelScope() for _ in range(2)]
            async with anyio.create_task_group() as group:
                for each in scopes:
                    group.start_soon(shared.call, client, "a", each)
                await shared.gate.wait_for(1)
                await anyio.wait_all_tasks_blocked()
                for each in scopes[: 1 if stays else 2]:
                    each.cancel()
                if stays:
                    await anyio.wait_all_tasks_blocked()
                    shared.gate.open()
            if not stays:
                await until(lambda: shared.cancelled)
            assert shared.cancelled == (not stays)
            assert shared.texts == ["a False"]
        shared.gate.open()
        assert await text_of(client, "look", name="a") == "a False"


async def test_a_shared_run_cannot_ask() -> None:
    app = make_app()

    @app.tool(single_flight=True)
    async def look(ctx: Context) -> str:
        return str(await ctx.elicit("Really?"))

    async with AsyncTestClient(app, elicitation=lambda _: accept("yes")) as client:
        text = await text_of(client, "look")
        assert text == "A tool with single_flight=True cannot ask its clients"


# --- registration ---------------------------------------------------------------------------------


def two(a: Key, b: Key) -> None: ...
def marked(key: Key) -> None: ...
def number(key: Annotated[int, Idempotent()]) -> None: ...
def preset(key: Key = "a") -> None: ...
def endless(key: Annotated[str, Idempotent(lifetime=0)]) -> None: ...
def without_call(key: Annotated[str, Idempotent]) -> None: ...
def asks(sure: Annotated[bool, Elicit("Sure?")]) -> None: ...
def injected(key: Annotated[str, Depends(lambda: "a"), Idempotent()]) -> None: ...
def plain(order: str) -> None: ...


@pytest.mark.parametrize(
    ("fn", "options", "text"),
    [
        (two, {}, "it has a with Idempotent(...) and b with Idempotent(...); omit all but one"),
        (marked, {"once": lambda key: key}, "it has key with Idempotent(...) and once=;"),
        (marked, {"single_flight": True}, "and single_flight=; omit all but one"),
        (number, {}, "write key: Annotated[str, Idempotent()]"),
        (preset, {}, "or str | None with the default None"),
        (endless, {}, "the lifetime of Idempotent(...) must be more than 0"),
        (without_call, {}, "write key: Annotated[str, Idempotent()], with ()"),
        (asks, {"single_flight": True}, "which cannot ask one of them for sure"),
        (injected, {}, "so a call has no key there; remove Idempotent(...)"),
        (plain, {"once": "order"}, "once= is a function of arguments of the tool"),
        (plain, {"once": lambda id: id}, "once= is a function of arguments of the tool"),
        (plain, {"once": lambda *all: None}, "once= is a function of arguments of the tool"),
    ],
)
def test_a_wrong_declaration_is_rejected(
    fn: Callable[..., Any], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(RegistrationError) as caught:
        make_app().add_tool(fn, **options)
    assert text in str(caught.value)


def test_only_tools_have_keys() -> None:
    for add in (make_app().prompt(), make_app().resource("a://{key}")):
        with pytest.raises(RegistrationError, match="only calls of tools have a key; remove it"):
            add(marked)
