"""Handlers that ask: each of them async, and sync under the same name with ``_sync`` after it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Annotated, Any, Literal, TypeAlias

import anyio
import sniffio
from pydantic import BaseModel
from typing_extensions import Unpack

from mcpkit import (
    Context,
    Declined,
    Depends,
    Dismissed,
    Elicit,
    InputRequestError,
    MCPKit,
    Roots,
    Sample,
    SyncContext,
    UrlElicitationRequired,
)
from mcpkit._protocol.input_request import InputRequest
from mcpkit.context import AskOptions
from mcpkit.elicitation import Accepted, Elicitation

Via: TypeAlias = Literal["elicit", "sample"]
"""Whom to ask: there is a user to ask since 2025-06-18, and a model in every revision."""

COUNTS: Counter[str] = Counter()
"""How often something happened, by a tag that the caller made up."""

ROOTS_SEEN: dict[str, list[str]] = {}


class Person(BaseModel):
    name: str
    age: int


def said(answer: Elicitation[Any]) -> str:
    return str(answer.data) if answer.accepted else type(answer).__name__


def question(via: Via, message: str) -> InputRequest[Any]:
    return Sample(message) if via == "sample" else Elicit(message, str)


def text_of(answer: Any) -> str:
    return answer.text if hasattr(answer, "text") else said(answer)


async def put(ctx: Context, via: Via, message: str, **options: Unpack[AskOptions]) -> str:
    if via == "sample":
        return (await ctx.sample(message, **options)).text
    return said(await ctx.elicit(message, str, **options))


def put_sync(ctx: SyncContext, via: Via, message: str, **options: Unpack[AskOptions]) -> str:
    if via == "sample":
        return ctx.sample(message, **options).text
    return said(ctx.elicit(message, str, **options))


def count(tag: str) -> int:
    COUNTS[tag] += 1
    return COUNTS[tag]


def count_guest(tag: str) -> Person:
    count(tag)
    return Person(name="Ann", age=3)


async def count_async(tag: str) -> int:
    await anyio.sleep(0)
    return count(tag)


class FromTheUserError(Exception):
    """Raised by a handler of its own accord."""


def fail_once(tag: str) -> int:
    if count(tag) == 1:
        raise FromTheUserError
    return COUNTS[tag]


async def wanted_name(ctx: Context, via: Via) -> str:
    return await put(ctx, via, "Whose?")


def make_app(**options: Any) -> MCPKit[None]:
    """A new app; the counters are shared by all."""
    app: MCPKit[None] = MCPKit("asking", cache_ttl=30, cache_scope="public", **options)

    @app.tool
    def counted(tag: str) -> int:
        """How often something happened."""
        return COUNTS[tag]

    @app.tool
    def roots_seen(tag: str) -> list[str]:
        """What a handler for changed roots was told."""
        return ROOTS_SEEN.get(tag, [])

    _add_shapes(app)
    _add_suspended(app)
    _add_steps(app)
    _add_outcomes(app)
    _add_other_places(app)
    return app


# --- shapes of code around asks -------------------------------------------------------------------


def _add_shapes(app: MCPKit[None]) -> None:
    @app.tool
    async def asks(via: Via, number: int, ctx: Context) -> str:
        return ",".join([await put(ctx, via, f"Number {each}?") for each in range(number)])

    @app.tool
    async def same(via: Via, number: int, ctx: Context, key: str | None = None) -> str:
        return ",".join([await put(ctx, via, "Again?", key=key) for _ in range(number)])

    @app.tool
    async def together(via: Via, ctx: Context) -> str:
        asked = [question(via, "One?"), question(via, "Two?"), question(via, "Two?")]
        return ",".join(map(text_of, await ctx.gather(*asked)))

    @app.tool
    async def in_tasks(via: Via, grouped: bool, ctx: Context) -> str:
        """As a program does it: a task group, or asyncio.gather."""
        found: dict[str, str] = {}

        async def fetch(message: str) -> None:
            found[message] = await put(ctx, via, message)

        messages = ["A?", "B?", "C?"]
        if sniffio.current_async_library() == "asyncio" and not grouped:
            await asyncio.gather(*map(fetch, messages))
        else:
            async with anyio.create_task_group() as group:
                for message in messages:
                    group.start_soon(fetch, message)
        return ",".join(found[message] for message in messages)

    @app.tool
    async def group_with_failure(via: Via, ctx: Context) -> str:
        async def fail() -> None:
            raise FromTheUserError

        async with anyio.create_task_group() as group:
            group.start_soon(put, ctx, via, "A?")
            group.start_soon(fail)
        return "unreachable"

    @app.tool
    async def reckless(via: Via, ctx: Context) -> str:
        """Even this gets its answer."""
        try:
            return "got " + await put(ctx, via, "Really?")
        except Exception:
            return "swallowed"
        except BaseException as error:
            raise FromTheUserError from error

    @app.tool
    def asks_sync(via: Via, number: int, ctx: SyncContext) -> str:
        return ",".join([put_sync(ctx, via, f"Number {each}?") for each in range(number)])

    @app.tool
    def together_sync(via: Via, ctx: SyncContext) -> str:
        asked = [question(via, "One?"), question(via, "Two?"), question(via, "Two?")]
        return ",".join(map(text_of, ctx.gather(*asked)))

    @app.tool
    def reckless_sync(via: Via, ctx: SyncContext) -> str:
        try:
            return "got " + put_sync(ctx, via, "Really?")
        except Exception:
            return "swallowed"
        except BaseException as error:
            raise FromTheUserError from error


# --- what a handler does once ---------------------------------------------------------------------


@asynccontextmanager
async def entered(tag: str) -> AsyncGenerator[str]:
    count(f"{tag} entered")
    try:
        yield "inside"
    finally:
        count(f"{tag} left")


def _add_suspended(app: MCPKit[None]) -> None:
    @app.tool
    async def effects(via: Via, tag: str, number: int, ctx: Context) -> str:
        """A side effect before each question, and after the last."""
        answers: list[str] = []
        for each in range(number):
            count(tag)
            answers.append(await put(ctx, via, f"Number {each}?"))
        return f"{','.join(answers)} {count(tag)}"

    @app.tool
    def effects_sync(via: Via, tag: str, number: int, ctx: SyncContext) -> str:
        answers: list[str] = []
        for each in range(number):
            count(tag)
            answers.append(put_sync(ctx, via, f"Number {each}?"))
        return f"{','.join(answers)} {count(tag)}"

    @app.tool
    async def holding(
        place: Annotated[str, Depends(entered)], via: Via, tag: str, ctx: Context
    ) -> str:
        """Holds a resource across its question."""
        answer = await put(ctx, via, "Still there?")
        return f"{answer} {place} {COUNTS[f'{tag} entered']} {COUNTS[f'{tag} left']}"

    @app.tool
    async def impatient(via: Via, tag: str, ctx: Context) -> str:
        """Goes on without an answer."""
        with anyio.move_on_after(0.01):
            return await put(ctx, via, "Quick?")
        ctx.info("not quick")
        return f"went on {count(tag)}"

    @app.tool
    async def two_branches(via: Via, tag: str, ctx: Context) -> str:
        """One asks while the other one waits for its answer, and reports meanwhile."""
        found: list[str] = []

        async def first() -> None:
            found.append(await put(ctx, via, "First?"))

        async def second() -> None:
            while not COUNTS[f"{tag} go"]:
                await anyio.sleep(0.002)
            ctx.progress(count(tag), message="meanwhile")
            ctx.info("meanwhile")
            found.append(await put(ctx, via, "Second?"))

        async with anyio.create_task_group() as group:
            group.start_soon(first)
            group.start_soon(second)
        return f"{','.join(sorted(found))} {count(tag)}"

    @app.tool
    async def hit(tag: str) -> int:
        """Counts a tag."""
        return count(tag)


# --- steps ----------------------------------------------------------------------------------------


def _add_steps(app: MCPKit[None]) -> None:
    @app.tool
    async def stepped(via: Via, tag: str, ctx: Context) -> str:
        """Steps before, between and after the questions."""
        guest = await ctx.step("before", count_guest, tag)
        first = await put(ctx, via, "One?")
        await ctx.step("between", count_async, tag)
        second = await put(ctx, via, "Two?")
        number = await ctx.step("after", count, tag)
        return f"{first},{second},{number},{guest.name}"

    @app.tool
    async def failing_step(via: Via, tag: str, ctx: Context) -> int:
        with suppress(FromTheUserError):
            await ctx.step("fails", fail_once, tag)
        await put(ctx, via, "On?")
        return COUNTS[tag]

    @app.tool
    def stepped_sync(via: Via, tag: str, ctx: SyncContext) -> str:
        guest = ctx.step("before", count_guest, tag)
        first = put_sync(ctx, via, "One?")
        ctx.step("between", count, tag)
        second = put_sync(ctx, via, "Two?")
        number = ctx.step("after", count, tag)
        return f"{first},{second},{number},{guest.name}"

    @app.tool
    def failing_step_sync(via: Via, tag: str, ctx: SyncContext) -> int:
        with suppress(FromTheUserError):
            ctx.step("fails", fail_once, tag)
        put_sync(ctx, via, "On?")
        return COUNTS[tag]


# --- what may be answered -------------------------------------------------------------------------


def _add_outcomes(app: MCPKit[None]) -> None:
    @app.tool
    async def person(ctx: Context) -> str:
        return said(await ctx.elicit("Who?", Person, key="person"))

    @app.tool
    async def caught(via: Via, ctx: Context, timeout: float | None = None) -> str:
        """What the handler sees of a question without an answer."""
        try:
            return await put(ctx, via, "On?", timeout=timeout)
        except InputRequestError as error:
            return f"{type(error).__name__} {getattr(error, 'code', '')}".strip()

    @app.tool
    async def open_url(ctx: Context) -> str:
        answer = await ctx.elicit_url("Sign in", "https://example.com/in", elicitation_id="page")
        ctx.elicitation_complete("page")
        return said(answer)

    @app.tool
    async def page_required(tag: str, ctx: Context) -> str:
        if not COUNTS[f"open {tag}"]:
            raise UrlElicitationRequired("Sign in", "https://example.com/in")
        return "signed in"

    @app.tool
    async def finish_page(tag: str, ctx: Context) -> str:
        count(f"open {tag}")
        return "finished"

    @app.tool
    async def roots(ctx: Context, key: str | None = None) -> list[str]:
        return [each.uri for each in await ctx.roots(key=key)]

    @app.tool
    async def watch_roots(tag: str, ctx: Context) -> str:
        async def told(found: Any) -> None:
            ROOTS_SEEN[tag] = [each.uri for each in found]
            ctx.notify_resource_updated("asking://roots")

        ctx.roots_changed(told)
        return "watching"

    @app.tool
    def person_sync(ctx: SyncContext) -> str:
        return said(ctx.elicit("Who?", Person, key="person"))

    @app.tool
    def caught_sync(via: Via, ctx: SyncContext, timeout: float | None = None) -> str:
        try:
            return put_sync(ctx, via, "On?", timeout=timeout)
        except InputRequestError as error:
            return f"{type(error).__name__} {getattr(error, 'code', '')}".strip()

    @app.tool
    def open_url_sync(ctx: SyncContext) -> str:
        answer = ctx.elicit_url("Sign in", "https://example.com/in", elicitation_id="page")
        ctx.elicitation_complete("page")
        return said(answer)

    @app.tool
    def roots_sync(ctx: SyncContext) -> list[str]:
        return [each.uri for each in ctx.roots()]


# --- where else questions come from ---------------------------------------------------------------


def _add_other_places(app: MCPKit[None]) -> None:
    @app.prompt
    async def asking_prompt(via: Via, ctx: Context) -> str:
        return "Say " + await put(ctx, via, "What?")

    @app.resource("asking://resource/{via}", cache_ttl=60, cache_scope="public")
    async def asking_resource(via: Via, ctx: Context) -> str:
        return "Contents " + await put(ctx, via, "What?")

    @app.resource("asking://roots")
    async def roots_resource() -> str:
        return "roots"

    @app.tool
    async def depending(whose: Annotated[str, Depends(wanted_name)], via: Via, ctx: Context) -> str:
        return whose + "," + await put(ctx, via, "And?")

    @app.tool
    async def reading(via: Via, ctx: Context) -> str:
        found = await ctx.read_resource(f"asking://resource/{via}")
        return str(getattr(found[0], "text", ""))

    @app.tool
    async def declared(
        path: str,
        name: Annotated[str, Elicit(lambda path: f"Whose is {path}?")],
        age: Annotated[Accepted[int] | Declined | Dismissed, Elicit("How old?")],
    ) -> str:
        return f"{path} {name} {said(age)}"

    @app.tool
    async def declared_sample(
        verse: Annotated[str, Sample("A verse")], roots: Annotated[list[Any], Roots()]
    ) -> str:
        return f"{verse} {len(roots)}"


app = make_app()
