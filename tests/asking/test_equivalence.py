"""Random programs that ask: they do the same on every revision, also if they are replayed."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeAlias
from unittest.mock import patch

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import Context, Depends, MCPKit, Sample, SyncContext
from mcpkit._server.suspended import SuspendedRuns
from mcpkit.testing import REVISIONS, AsyncTestClient
from tests.asking.conftest import speak


@dataclass(frozen=True)
class Put:
    message: str
    key: str | None


@dataclass(frozen=True)
class Together:
    puts: tuple[Put, ...]


@dataclass(frozen=True)
class Once:
    """A step: a side effect, and perhaps more of the program inside it."""

    name: str
    inside: tuple[Statement, ...]


@dataclass(frozen=True)
class Branch:
    yes: tuple[Statement, ...]
    no: tuple[Statement, ...]


@dataclass(frozen=True)
class Loop:
    times: int
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Effect:
    """A side effect without a step."""

    name: str


Statement: TypeAlias = "Put | Together | Once | Branch | Loop | Effect"
Program: TypeAlias = tuple[Statement, ...]

puts = st.builds(
    Put,
    st.sampled_from(["a", "b"]),
    # Also such keys as a second use of another one might be given.
    st.sampled_from([None, None, "k", "k#2", "s/k", "j"]),
)


def blocks(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3).map(tuple)


def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(Once, st.sampled_from(["s", "s#2"]), blocks(inner)),
        st.builds(Branch, blocks(inner), blocks(inner)),
        st.builds(Loop, st.integers(1, 2), blocks(inner)),
    )


leaves = st.one_of(
    puts,
    puts,
    st.builds(Together, st.lists(puts, min_size=1, max_size=3).map(tuple)),
    st.builds(Once, st.sampled_from(["s", "s#2"]), st.just(())),
)
effects = st.one_of(leaves, st.builds(Effect, st.sampled_from(["e", "f"])))


def programs(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Program]:
    return st.lists(st.recursive(of, grow, max_leaves=6), min_size=1, max_size=4).map(tuple)


def leads_left(trail: list[str]) -> bool:
    return zlib.crc32(" ".join(trail).encode()) % 2 == 0


def effect(name: str, done: list[str]) -> str:
    """A side effect, which is seen outside of the handler."""
    done.append(name)
    return f"{name}!{len(done)}"


async def execute(program: Program, ctx: Context, done: list[str]) -> list[str]:
    trail: list[str] = []
    for each in program:
        if isinstance(each, Put):
            trail.append((await ctx.sample(each.message, key=each.key)).text)
        elif isinstance(each, Together):
            asks = [Sample(put.message, key=put.key) for put in each.puts]
            trail += [found.text for found in await ctx.gather(*asks)]
        elif isinstance(each, Once):
            trail += await ctx.step(each.name, partial(inside, each, ctx, done))
        elif isinstance(each, Effect):
            trail.append(effect(each.name, done))
        elif isinstance(each, Branch):
            trail += await execute(each.yes if leads_left(trail) else each.no, ctx, done)
        else:
            for _ in range(each.times):
                trail += await execute(each.body, ctx, done)
    return trail


async def inside(once: Once, ctx: Context, done: list[str]) -> list[str]:
    trail = await execute(once.inside, ctx, done)
    return [*trail, effect(once.name, done)]


def execute_sync(program: Program, ctx: SyncContext, done: list[str]) -> list[str]:
    trail: list[str] = []
    for each in program:
        if isinstance(each, Put):
            trail.append(ctx.sample(each.message, key=each.key).text)
        elif isinstance(each, Together):
            asks = [Sample(put.message, key=put.key) for put in each.puts]
            trail += [found.text for found in ctx.gather(*asks)]
        elif isinstance(each, Once):
            trail += ctx.step(each.name, partial(inside_sync, each, ctx, done))
        elif isinstance(each, Effect):
            trail.append(effect(each.name, done))
        elif isinstance(each, Branch):
            trail += execute_sync(each.yes if leads_left(trail) else each.no, ctx, done)
        else:
            for _ in range(each.times):
                trail += execute_sync(each.body, ctx, done)
    return trail


def inside_sync(once: Once, ctx: SyncContext, done: list[str]) -> list[str]:
    trail = execute_sync(once.inside, ctx, done)
    return [*trail, effect(once.name, done)]


def make_app(before: Program, program: Program, done: list[str]) -> MCPKit[None]:
    app: MCPKit[None] = MCPKit("random")

    async def prepared(ctx: Context) -> list[str]:
        return await execute(before, ctx, done)

    @app.tool
    async def play(first: Annotated[list[str], Depends(prepared)], ctx: Context) -> str:
        return " ".join([*first, *await execute(program, ctx, done)])

    @app.tool
    def play_sync(first: Annotated[list[str], Depends(prepared)], ctx: SyncContext) -> str:
        return " ".join([*first, *execute_sync(program, ctx, done)])

    return app


async def outcome(
    revision: str, name: str, before: Program, program: Program, *, is_held: bool = True
) -> tuple[str, list[str]]:
    """What a program returned, and its side effects in order."""
    done: list[str] = []
    asked: Counter[str] = Counter()

    def sampling(params: Mapping[str, Any]) -> dict[str, Any]:
        message = params["messages"][0]["content"]["text"]
        asked[message] += 1
        return speak(f"{message}{asked[message]}")

    app = make_app(before, program, done)
    lost = nullcontext() if is_held else patch.object(SuspendedRuns, "hold", lambda *_: None)
    with lost:
        async with AsyncTestClient(
            app, revision=revision, sampling=sampling, max_rounds=500
        ) as client:
            result = await client.call_tool(name)
    assert not result.is_error, result.text
    return result.text, done


both = pytest.mark.parametrize("name", ["play", "play_sync"])


@both
@settings(max_examples=2 * settings().max_examples, derandomize=True)
@given(before=st.lists(effects, max_size=2).map(tuple), program=programs(effects))
def test_a_program_does_the_same_on_every_revision(
    name: str, before: Program, program: Program
) -> None:
    """Every statement runs once, in the same order, with and without a step."""
    expected, *others = [anyio.run(outcome, each, name, before, program) for each in REVISIONS]
    assert others == [expected] * 4


@both
@settings(max_examples=2 * settings().max_examples, derandomize=True)
@given(before=st.lists(leaves, max_size=2).map(tuple), program=programs(leaves))
def test_a_program_that_is_replayed_gives_the_same(
    name: str, before: Program, program: Program
) -> None:
    """And every step runs once (MRTR-8, MRTR-15)."""
    replayed = anyio.run(partial(outcome, is_held=False), "2026-07-28", name, before, program)
    straight = anyio.run(outcome, "2025-11-25", name, before, program)
    assert replayed == straight
