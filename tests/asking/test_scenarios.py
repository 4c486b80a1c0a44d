"""Straight-line code that asks does the same in every revision (PROTOCOL §5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import pytest

from mcpkit import Complete, Context, MCPKit, ProtocolError, SyncContext
from mcpkit.errors import ConnectionClosed, MissingClientCapability
from tests import kit
from tests.asking.conftest import Asked, Connect, accept, speak
from tests.asking.server import make_app, question
from tests.scenarios.tapped import HANDSHAKE, MODERN, PATIENCE, since, until

both = pytest.mark.parametrize("kind", ["", "_sync"], ids=["async", "sync"])
via_both = pytest.mark.parametrize(
    "via",
    [pytest.param("elicit", marks=pytest.mark.revisions(*since("2025-06-18"))), "sample"],
)


async def text(client: Asked, name: str, **arguments: Any) -> str:
    return (await client.call_tool(name, arguments)).text


# --- shapes of code -------------------------------------------------------------------------------


@both
@via_both
@pytest.mark.parametrize("number", [1, 2, 3])
async def test_questions_in_a_row(client: Asked, via: str, kind: str, number: int) -> None:
    client.script("a", "b", "c")
    assert await text(client, "asks" + kind, via=via, number=number) == "a,b,c"[: number * 2 - 1]
    assert client.messages == ["Number 0?", "Number 1?", "Number 2?"][:number]


@both
@via_both
async def test_several_questions_at_once(client: Asked, via: str, kind: str) -> None:
    client.script("a", "b", "c")
    answers = (await text(client, "together" + kind, via=via)).split(",")
    # Before 2026-07-28 they go out side by side, in any order.
    assert sorted(answers) == ["a", "b", "c"]
    assert sorted(client.messages) == ["One?", "Two?", "Two?"]


@via_both
@pytest.mark.parametrize("grouped", [True, False])
async def test_questions_in_tasks_of_the_handler(client: Asked, via: str, grouped: bool) -> None:
    client.script(*["a"] * 9)
    assert await text(client, "in_tasks", via=via, grouped=grouped) == "a,a,a"
    assert len(client.questions) == len(set(client.messages))


@via_both
async def test_a_task_that_fails_beside_a_question_fails_the_call(client: Asked, via: str) -> None:
    result = await client.call_tool("group_with_failure", {"via": via})
    assert result.is_error
    assert "reference" in result.text


@both
@via_both
async def test_a_handler_cannot_swallow_the_wait(client: Asked, via: str, kind: str) -> None:
    client.script("it")
    assert await text(client, "reckless" + kind, via=via) == "got it"


# --- places ---------------------------------------------------------------------------------------


@via_both
async def test_prompts_resources_and_dependencies_ask(client: Asked, via: str) -> None:
    client.script("hello", "hello", "hello", "Ann", "Bob")
    assert (await client.get_prompt("asking_prompt", {"via": via})).messages[0].text == "Say hello"
    (contents,) = await client.read_resource(f"asking://resource/{via}")
    assert getattr(contents, "text", None) == "Contents hello"
    assert await text(client, "reading", via=via) == "Contents hello", "read by a tool"
    assert await text(client, "depending", via=via) == "Ann,Bob"
    assert client.messages == ["What?", "What?", "What?", "Whose?", "And?"]


@pytest.mark.revisions(*since("2025-06-18"))
async def test_parameters_that_are_asked_for(client: Asked) -> None:
    answers: dict[str, Any] = {"Whose is /a?": "Ann", "How old?": 3}
    client._handlers["elicitation/create"] = lambda params: accept(answers[params["message"]])
    assert await text(client, "declared", path="/a") == "/a Ann 3"


@pytest.mark.revisions(*since("2025-06-18"))
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_declared_question_that_is_declined_fails_the_call(
    client: Asked, action: str
) -> None:
    """ELIC-3."""
    client.script({"action": action}, {"action": action})
    result = await client.call_tool("declared", {"path": "/a"})
    assert result.is_error
    said = "declined" if action == "decline" else "dismissed the question"
    assert result.text == f"The user {said}."


@both
async def test_the_model_and_the_roots(client: Asked, kind: str) -> None:
    client.script("Roses are red")
    assert await text(client, "declared_sample") == "Roses are red 1", "as parameters"
    assert "file:///home/ann" in await text(client, "roots" + kind)


# --- steps ----------------------------------------------------------------------------------------


@both
@via_both
async def test_every_step_runs_once_and_keeps_its_type(
    client: Asked, via: str, kind: str, tag: str
) -> None:
    client.script("a", "b")
    assert await text(client, "stepped" + kind, via=via, tag=tag) == "a,b,3,Ann"
    assert await text(client, "counted", tag=tag) == "3"


@both
@via_both
async def test_a_step_that_failed_is_the_handlers_affair(
    client: Asked, via: str, kind: str, tag: str
) -> None:
    assert await text(client, "failing_step" + kind, via=via, tag=tag) == "1"


# --- answers --------------------------------------------------------------------------------------


@both
@pytest.mark.revisions(*since("2025-06-18"))
@pytest.mark.parametrize(("action", "expected"), [("decline", "Declined"), ("cancel", "Dismissed")])
async def test_no_is_an_answer(client: Asked, kind: str, action: str, expected: str) -> None:
    """ELIC-3."""
    client.script({"action": action})
    assert await text(client, "person" + kind) == expected


@both
@pytest.mark.revisions(*since("2025-06-18"))
async def test_a_malformed_answer_is_requested_again(client: Asked, kind: str) -> None:
    """MRTR-9, MRTR-11; before, it is an error in the handler (ELIC-4, S2C-4)."""
    client.script(accept({"name": "Ann"}), accept({"name": "Ann", "age": 3}))
    result = await client.call_tool("person" + kind)
    if client.revision == MODERN:
        assert (result.text, client.messages) == ("name='Ann' age=3", ["Who?", "Who?"])
    else:
        assert result.is_error
        assert len(client.questions) == 1


@both
@pytest.mark.revisions(*HANDSHAKE)
@pytest.mark.parametrize("member", ["result", "error"])
@pytest.mark.parametrize("value", [7, None, [], "text"], ids=repr)
async def test_a_response_that_is_not_even_an_object_is_an_error(
    client: Asked, kind: str, member: str, value: Any
) -> None:
    """S2C-4: the handler does not wait in vain for a better one."""

    async def answer(params: Any) -> Any:
        await client.send({"jsonrpc": "2.0", "id": client.received[-1]["id"], member: value})
        return speak("too late")

    client._handlers["sampling/createMessage"] = answer
    assert await text(client, "caught" + kind, via="sample") == "InvalidInputResponse"


@both
@pytest.mark.revisions(*HANDSHAKE)
@via_both
async def test_a_client_that_refuses(client: Asked, via: str, kind: str) -> None:
    """S2C-4."""
    client.script(ProtocolError("the user said no", code=-1))
    assert await text(client, "caught" + kind, via=via) == "InputRequestRefused -1"


@both
@pytest.mark.revisions(*HANDSHAKE)
@via_both
async def test_a_client_that_takes_too_long(client: Asked, via: str, kind: str) -> None:
    """CANC-9: the request is cancelled."""
    method = "elicitation/create" if via == "elicit" else "sampling/createMessage"

    async def never(params: Any) -> Any:
        await anyio.sleep(0.2)
        return speak("late") if via == "sample" else {"action": "accept"}

    client._handlers[method] = never
    assert await text(client, "caught" + kind, via=via, timeout=0.01) == "InputRequestTimeout"
    (asked,) = [each for each in client.received if each.get("method") == method]
    assert client.told("notifications/cancelled") == [
        {"requestId": asked["id"], "reason": "timeout"}
    ]


# --- capabilities ---------------------------------------------------------------------------------


@both
@via_both
@pytest.mark.in_memory
async def test_a_client_that_cannot_be_asked(connect: Connect, via: str, kind: str) -> None:
    """S2C-1, S2C-5, MRTR-4."""
    member = "elicitation" if via == "elicit" else "sampling"
    call = ("asks" + kind, {"via": via, "number": 1})
    async with connect(lacks=frozenset({member})) as client:
        if client.revision == MODERN:
            with pytest.raises(MissingClientCapability) as caught:
                await client.call_tool(*call)
            assert caught.value.code == -32021
            assert caught.value.data == {"requiredCapabilities": {member: {}}}
        else:
            result = await client.call_tool(*call)
            assert result.is_error
            assert member in result.text
        assert not client.questions
        assert not client.violations


@both
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("person", marks=pytest.mark.revisions(*until("2025-06-18"))),
        pytest.param("open_url", marks=pytest.mark.revisions("2025-06-18")),
    ],
)
async def test_there_were_no_forms_or_pages_yet(client: Asked, kind: str, name: str) -> None:
    """ELIC-1, S2C-5."""
    result = await client.call_tool(name + kind)
    assert result.is_error
    assert "elicitation" in result.text
    assert not client.questions


@pytest.mark.in_memory
async def test_nothing_of_several_is_asked_if_one_cannot_be(connect: Connect) -> None:
    """MRTR-4: what cannot be asked does not leave the others asked in vain."""
    app = MCPKit("half")

    @app.tool
    async def half(ctx: Context) -> str:
        try:
            return str(await ctx.gather(question("sample", "One?"), question("elicit", "Two?")))
        except MissingClientCapability:
            return "did without"

    async with connect(app, lacks=frozenset({"elicitation"})) as client:
        assert await text(client, "half") == "did without"
        assert not client.questions


# --- pages ----------------------------------------------------------------------------------------


@both
@pytest.mark.revisions(*since("2025-11-25"))
async def test_asking_to_open_a_page(client: Asked, kind: str) -> None:
    """ELIC-10: accepting is consent, and carries nothing."""
    client.script({"action": "accept"})
    assert await text(client, "open_url" + kind) == "None"
    (asked,) = client.questions
    expected = {"mode": "url", "message": "Sign in", "url": "https://example.com/in"}
    if client.revision != MODERN:
        expected["elicitationId"] = "page"
        # ELIC-9
        assert client.told("notifications/elicitation/complete") == [{"elicitationId": "page"}]
    assert asked == expected


@pytest.mark.revisions("2025-11-25")
async def test_a_page_that_is_required_is_an_error(client: Asked, tag: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        await client.call_tool("page_required", {"tag": tag})
    assert caught.value.code == -32042
    await client.call_tool("finish_page", {"tag": tag})
    assert await text(client, "page_required", tag=tag) == "signed in"


@pytest.mark.revisions(MODERN)
async def test_a_page_that_is_required_is_asked_for(client: Asked, tag: str) -> None:
    """ELIC-3, ELIC-10: it is asked for once, since consent is not completion."""
    client.script({"action": "decline"}, {"action": "accept"})
    for reason in (
        "The user did not open the page: Sign in",
        "Sign in: the page is open, and to be finished before the next call",
    ):
        result = await client.call_tool("page_required", {"tag": tag})
        assert (result.is_error, result.text) == (True, reason)
    assert client.messages == ["Sign in", "Sign in"]

    async def finish(params: Any) -> Any:
        await client.call_tool("finish_page", {"tag": tag})
        return {"action": "accept"}

    client._handlers["elicitation/create"] = finish
    assert await text(client, "page_required", tag=tag) == "signed in"


@pytest.mark.in_memory
async def test_a_page_that_is_required_of_a_client_without_pages(
    connect: Connect, tag: str
) -> None:
    """ELIC-1, MRTR-4."""
    async with connect(capabilities={"elicitation": {}}) as client:
        if client.revision != MODERN:
            result = await client.call_tool("page_required", {"tag": tag})
            assert (result.is_error, result.text) == (True, "Sign in")
            return
        with pytest.raises(MissingClientCapability) as caught:
            await client.call_tool("page_required", {"tag": tag})
    assert caught.value.data == {"requiredCapabilities": {"elicitation": {"url": {}}}}


@pytest.mark.in_memory
@pytest.mark.revisions("2025-11-25")
async def test_a_page_may_be_completed_when_the_request_is_long_over(connect: Connect) -> None:
    """ELIC-9."""
    app = MCPKit("later")
    kept: list[Context] = []

    @app.tool
    async def keep(ctx: Context) -> None:
        kept.append(ctx)

    async with connect(app) as client:
        await client.call_tool("keep")
        kept[0].elicitation_complete("page")
        told = await client.notification("notifications/elicitation/complete")
    assert told == {"elicitationId": "page"}


# --- roots ----------------------------------------------------------------------------------------


@pytest.mark.in_memory
@pytest.mark.revisions(*HANDSHAKE)
@pytest.mark.parametrize("announced", [True, False])
async def test_roots_are_kept_if_their_changes_are_announced(
    connect: Connect, announced: bool
) -> None:
    async with connect(capabilities={"roots": {"listChanged": announced}}) as client:
        await client.call_tool("roots")
        await client.call_tool("roots")
        assert len(client.questions) == (1 if announced else 2)
        client.roots = ["file:///elsewhere"]
        await client.notify("notifications/roots/list_changed")
        assert "file:///elsewhere" in await text(client, "roots")


@pytest.mark.in_memory
@pytest.mark.revisions(*HANDSHAKE)
async def test_roots_that_change_while_they_are_listed_are_not_kept(connect: Connect) -> None:
    async with connect() as client:

        async def changing(params: Any) -> Any:
            found = {"roots": [{"uri": each} for each in client.roots]}
            if "file:///elsewhere" not in client.roots:
                client.roots = ["file:///elsewhere"]
                await client.notify("notifications/roots/list_changed")
            return found

        client._handlers["roots/list"] = changing
        await client.call_tool("roots")
        assert "file:///elsewhere" in await text(client, "roots")


@pytest.mark.revisions(*HANDSHAKE)
async def test_a_handler_is_notified_of_new_roots(client: Asked, tag: str) -> None:
    await client.call_tool("watch_roots", {"tag": tag})
    await client.subscribe("asking://roots")
    client.roots = ["file:///new"]
    await client.notify("notifications/roots/list_changed")
    await client.notification("notifications/resources/updated")
    await client.unsubscribe("asking://roots")
    assert "file:///new" in await text(client, "roots_seen", tag=tag)


# --- beginnings and ends --------------------------------------------------------------------------


def call_early(client: Asked, then: Callable[[], Awaitable[Any]]) -> None:
    """Make a client call a tool that asks, and do something else, before it says it is ready."""
    notify = client.notify

    async def notify_late(method: str, params: Any = None) -> None:
        if method == "notifications/initialized":
            call = {"name": "asks", "arguments": {"via": "sample", "number": 1}}
            await client.send({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": call})
            await client.exchange({"jsonrpc": "2.0", "id": 98, "method": "ping"})
            assert not client.questions
            await then()
        await notify(method, params)

    client.notify = notify_late  # type: ignore[method-assign]


@pytest.mark.in_memory
@pytest.mark.revisions(*HANDSHAKE)
async def test_nothing_is_asked_before_the_client_is_ready(connect: Connect) -> None:
    """LIFE-6."""
    client = connect()
    call_early(client, anyio.lowlevel.checkpoint)
    async with client:
        client.script("hello")
        await client.notification("sampling/createMessage")
        answer = await client.exchange({"jsonrpc": "2.0", "id": 97, "method": "ping"})
        assert answer["result"] == {}
    assert not client.violations


@pytest.mark.in_memory
@pytest.mark.revisions(*HANDSHAKE)
async def test_a_question_that_was_never_sent_is_not_cancelled(connect: Connect) -> None:
    """LIFE-6, CANC-9."""
    client = connect()

    async def cancel() -> None:
        await client.send(
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}
        )
        await anyio.sleep(0.01)  # the handler has ended then

    call_early(client, cancel)
    async with client:
        await client.exchange({"jsonrpc": "2.0", "id": 96, "method": "ping"})
        assert not [each for each in client.received if "method" in each]
    assert not client.violations


@both
@pytest.mark.in_memory
@pytest.mark.revisions(*HANDSHAKE)
async def test_a_request_that_is_cancelled_takes_its_question_back(
    connect: Connect, kind: str
) -> None:
    """CANC-1, CANC-9: also that of a thread, which then ends."""
    app = MCPKit("cancelled")
    seen: list[str] = []

    async def hold(ctx: Context) -> None:
        try:
            await ctx.sample("On?")
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    def hold_sync(ctx: SyncContext) -> None:
        try:
            ctx.sample("On?")
        except BaseException as error:
            seen.append(type(error).__name__)
            raise

    app.tool(hold)
    app.tool(hold_sync)
    async with connect(app) as client:
        asked = anyio.Event()

        async def never(params: Any) -> Any:
            asked.set()
            await anyio.sleep_forever()

        client._handlers["sampling/createMessage"] = never
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "hold" + kind)
                await asked.wait()
                group.cancel_scope.cancel()
            await kit.until(lambda: seen)
            told = await client.notification("notifications/cancelled")
        (question,) = [each for each in client.received if "id" in each and "method" in each]
        assert told["requestId"] == question["id"]
        assert seen == ["InputRequestError"] if kind else len(seen) == 1


@pytest.mark.in_memory
@pytest.mark.revisions(*HANDSHAKE)
async def test_a_client_that_leaves_fails_the_question(connect: Connect) -> None:
    """S2C-4."""
    app = MCPKit("left")
    seen: list[type[BaseException]] = []

    @app.tool
    async def hold(ctx: Context) -> None:
        try:
            await ctx.sample("On?")
        except ConnectionClosed as error:
            seen.append(type(error))

    async with connect(app) as client:

        async def leave(params: Any) -> Any:
            link: Any = client.link
            link._link.session.disconnect()
            await anyio.sleep_forever()

        client._handlers["sampling/createMessage"] = leave
        await client.call_tool("hold")
    assert seen == [ConnectionClosed]


@pytest.mark.in_memory
@pytest.mark.revisions(MODERN)
async def test_nothing_can_be_asked_outside_of_the_three_methods(connect: Connect) -> None:
    """MRTR-1: a completer that wants to has nothing to suggest."""
    app = MCPKit("completing")

    async def suggest(value: str, ctx: Context) -> list[str]:
        return [(await ctx.sample("Which?")).text]

    @app.prompt
    def write(word: Annotated[str, Complete(suggest)]) -> str:
        return word

    async with connect(app) as client:
        assert list((await client.complete("word", "a", prompt="write")).values) == []
        assert not client.violations


@pytest.mark.in_memory
@pytest.mark.revisions(MODERN)
async def test_a_handler_that_asks_while_it_is_cancelled_ends_quietly(connect: Connect) -> None:
    app = MCPKit("stubborn")
    started = anyio.Event()

    @app.tool
    async def stubborn(ctx: Context) -> None:
        try:
            started.set()
            await anyio.sleep_forever()
        finally:
            await ctx.sample("Really?")

    @app.tool
    def fine() -> str:
        return "fine"

    async with connect(app) as client:
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "stubborn")
                await started.wait()
                group.cancel_scope.cancel()
            assert await text(client, "fine") == "fine"


@both
@via_both
@pytest.mark.in_memory
async def test_calls_at_the_same_time_do_not_mix_up_their_answers(
    connect: Connect, via: str, kind: str
) -> None:
    async with connect(make_app()) as client:
        method = "elicitation/create" if via == "elicit" else "sampling/createMessage"
        given: list[str] = []

        async def slow(params: Any) -> Any:
            given.append(str(len(given)))
            answer = given[-1]
            await anyio.sleep(0)
            return speak(answer) if via == "sample" else accept(answer)

        client._handlers[method] = slow
        with anyio.fail_after(PATIENCE):
            results = await kit.at_once(5, partial(text, client, "asks" + kind, via=via, number=3))
        used = [each for result in results for each in result.split(",")]
        assert sorted(used) == sorted(given)


@pytest.mark.in_memory
async def test_a_thread_may_wait_for_another_even_if_there_is_one_only(connect: Connect) -> None:
    app = MCPKit("narrow", max_threads=1)

    @app.resource("narrow://inner")
    def inner(ctx: SyncContext) -> str:
        return ctx.sample("On?").text

    @app.tool
    def outer(ctx: SyncContext) -> str:
        return str(getattr(ctx.read_resource("narrow://inner")[0], "text", ""))

    async with connect(app) as client:
        client.script("inside")
        assert await text(client, "outer") == "inside"
