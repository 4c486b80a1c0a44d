"""Calling a function: where it runs, and what it is given."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from functools import partial
from typing import Annotated, Any

import pytest
from pydantic import Field

from mcpkit._injection import CallPlan, inspect_handler
from mcpkit.context import Context, SyncContext
from mcpkit.dependencies import Depends
from mcpkit.errors import RegistrationError
from tests.authoring import RecordingBackend, arguments_of, context_with, run


def plan_of(fn: Callable[..., Any]) -> CallPlan:
    return CallPlan(fn, inspect_handler(fn))


def refusal(fn: Callable[..., Any]) -> str:
    with pytest.raises(RegistrationError) as caught:
        plan_of(fn)
    return str(caught.value)


async def coroutine(a: int) -> int:
    return a + 1


def plain(a: int) -> int:
    return a + 1


class Callable_:  # noqa: N801 - the name is taken
    def __call__(self, a: int) -> int:
        return a + 1


def here() -> int:
    return threading.get_ident()


class TestWhereItRuns:
    @pytest.mark.parametrize("fn", [coroutine, plain, Callable_(), lambda a: coroutine(a)])
    def test_every_kind_is_called(self, fn: Callable[..., Any]) -> None:
        assert run(fn, {"a": 1}) == 2

    def test_a_plain_function_has_a_thread_unless_it_is_inline(self) -> None:
        async def coroutine_here() -> int:
            return here()

        def with_context(ctx: SyncContext) -> int:
            return here()

        async def depending(thread: Annotated[int, Depends(here)]) -> int:
            return thread

        assert run(here) != here()
        assert run(depending) != here()
        assert run(coroutine_here) == here()
        assert run(here, inline=True) == here()
        assert run(with_context, inline=True) == here()


def items() -> Iterator[int]:
    yield 1


async def async_items() -> AsyncIterator[int]:
    yield 1


class Yields:
    def __call__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize("fn", [items, async_items, Yields()])
def test_a_generator_is_refused(fn: Callable[..., Any]) -> None:
    assert "() yields; a request has one answer: collect the items" in refusal(fn)


class TestContext:
    def test_is_given_by_any_spelling(self) -> None:
        async def fn(a: int, ctx: Context, b: int = 2) -> Any:
            return a, ctx, b

        def blocking(ctx: SyncContext) -> Any:
            return ctx.state

        def optional(ctx: SyncContext[str] | None = None) -> Any:
            return ctx

        context = context_with(state="s")
        assert run(fn, {"a": 1}, context=context) == (1, context, 2)
        assert run(blocking, context=context) == "s"
        assert isinstance(run(optional), SyncContext)

    def test_its_use_is_known(self) -> None:
        def dependency(ctx: Context) -> int:
            return 1

        def fn(ctx: SyncContext) -> None: ...
        def depending(a: Annotated[int, Depends(dependency)]) -> None: ...

        assert plan_of(fn).uses_context
        assert plan_of(depending).uses_context
        assert not plan_of(plain).uses_context


class TestDepends:
    @pytest.mark.parametrize("provide", [lambda: 5, coroutine, plain, Callable_()])
    def test_every_kind_provides(self, provide: Callable[..., Any]) -> None:
        def fn(a: int, five: Annotated[int, Depends(provide)]) -> int:
            return five

        assert run(fn, {"a": 4}) == 5

    def test_a_class_provides_its_instance(self) -> None:
        class Session:
            def __init__(self, ctx: SyncContext) -> None:
                self.state = ctx.state

        def fn(session: Annotated[Session, Depends(Session)]) -> Any:
            return session.state

        assert run(fn, context=context_with(state="s")) == "s"

    def test_one_runs_once_for_each_call(self) -> None:
        calls: list[int] = []

        def base() -> int:
            calls.append(1)
            return len(calls)

        def left(b: Annotated[int, Depends(base)]) -> int:
            return b

        def right(b: Annotated[int, Depends(base)]) -> int:
            return b

        def fn(
            a: Annotated[int, Depends(left)],
            b: Annotated[int, Depends(right)],
            c: Annotated[int, Depends(base)],
        ) -> Any:
            return a, b, c

        assert run(fn) == (1, 1, 1)
        assert run(fn) == (2, 2, 2)

    def test_an_argument_left_out_has_the_handlers_default_else_its_own(self) -> None:
        def dependency(city: str = "rome") -> str:
            return city.upper()

        def fn(city: str = "oslo", *, loud: Annotated[str, Depends(dependency)]) -> str:
            return loud

        def field(city: str = Field("bonn"), *, loud: Annotated[str, Depends(dependency)]) -> str:
            return loud

        def without(loud: Annotated[str, Depends(dependency)]) -> str:
            return loud

        assert run(fn, {"city": "kyiv"}) == "KYIV"
        assert (run(fn), run(without)) == ("OSLO", "ROME")
        assert run(field, arguments_of(field).validate({})) == "BONN"


class TestRefusals:
    def test_a_coroutine_function_with_a_blocking_context(self) -> None:
        async def fn(ctx: SyncContext) -> None: ...

        assert "write ctx: Context" in refusal(fn)

    def test_a_circle(self) -> None:
        def first(b: Any) -> None: ...
        def second(a: Annotated[int, Depends(first)]) -> None: ...
        def fn(a: Annotated[int, Depends(first)]) -> None: ...

        first.__annotations__["b"] = Annotated[int, Depends(second)]
        assert refusal(fn).endswith("fn(): the dependencies form a cycle: first → second → first")
        first.__annotations__["b"] = Annotated[int, Depends(first)]
        assert "first → first" in refusal(fn)

    def test_a_name_that_nothing_fills(self) -> None:
        def dependency(town: str) -> str:
            return town

        def fn(city: str, a: Annotated[str, Depends(dependency)]) -> None: ...

        message = refusal(fn)
        assert message.startswith(f"test_plan.py:{fn.__code__.co_firstlineno}: fn()")
        assert "the dependency dependency() wants 'town', which is neither an argument" in message

        def bad(*names: str) -> None: ...
        def depending(a: Annotated[None, Depends(bad)]) -> None: ...

        assert "bad(): *names has no names a client could use" in refusal(depending)


def asks(ctx: Context) -> None:
    ctx.elicit("Sure?")  # type: ignore[unused-coroutine]


def asks_and_goes_on(where: str, ctx: Context[str] | None) -> None:
    if where and ctx is not None:
        ctx.sample(where)  # type: ignore[unused-coroutine]


def reads_off(ctx: Context) -> Any:
    return ctx.roots().result  # type: ignore[attr-defined]


def forgets(ctx: Context) -> str:
    answer = ctx.elicit("Sure?")  # noqa: F841
    return "done"


def reads_later(ctx: Context) -> Any:
    answer = ctx.elicit("Sure?")
    return "yes" if answer.accepted else "no"  # type: ignore[attr-defined]


def needs_an_answer(answer: Annotated[Any, Depends(asks)]) -> None: ...


@pytest.mark.parametrize(
    ("fn", "call", "at"),
    [
        (asks, "ctx.elicit()", "asks()"),
        (asks_and_goes_on, "ctx.sample()", "asks_and_goes_on()"),
        (reads_off, "ctx.roots()", "reads_off()"),
        (forgets, "ctx.elicit()", "forgets()"),
        (reads_later, "ctx.elicit()", "reads_later()"),
        (needs_an_answer, "ctx.elicit()", "asks()"),
        (partial(asks_and_goes_on, "x"), "ctx.sample()", "asks_and_goes_on()"),
    ],
)
def test_a_plain_function_that_would_never_be_answered_is_refused(
    fn: Callable[..., Any], call: str, at: str
) -> None:
    said = f"{at} is not async, so {call} is never awaited; write async def and await, or ctx: Sync"
    assert said in refusal(fn)


class Other:
    def sample(self) -> int:
        return 3


def has_another(ctx: Context) -> int:
    return Other().sample() if ctx.revision else 0


def passes_on(ctx: Context) -> Any:
    return ctx.elicit("Sure?") if ctx.revision else ctx.roots()


def returns_later(ctx: Context) -> Any:
    asked = ctx.elicit("Sure?")
    return asked  # noqa: RET504 - the test is about the assignment


def keeps(ctx: Context) -> Any:
    asked = [ctx.elicit("Sure?")]
    return asked[0]


def makes_another(ctx: Context) -> Any:
    async def ask() -> Any:
        return (await ctx.elicit("Sure?")).action

    return ask()


def in_sync(ctx: SyncContext) -> str:
    return ctx.elicit("Sure?").action


@pytest.mark.parametrize(
    "fn", [has_another, passes_on, returns_later, keeps, makes_another, in_sync]
)
def test_one_that_returns_the_question_or_waits_is_accepted(fn: Callable[..., Any]) -> None:
    assert plan_of(fn).uses_context


def generator(log: list[str], name: str) -> Callable[[], Iterator[str]]:
    def provide() -> Iterator[str]:
        log.append(f"open {name}")
        try:
            yield name
        except ValueError:
            log.append(f"error {name}")
            raise
        finally:
            log.append(f"close {name}")

    return provide


def async_generator(log: list[str], name: str) -> Callable[[], AsyncIterator[str]]:
    async def provide() -> AsyncIterator[str]:
        with contextmanager(generator(log, name))() as value:
            yield value

    return provide


def promised(log: list[str], name: str) -> Callable[..., Any]:
    def provide() -> AbstractContextManager[str]:
        return contextmanager(generator(log, name))()

    return provide


def async_promised(log: list[str], name: str) -> Callable[..., Any]:
    async def provide() -> AbstractAsyncContextManager[str]:
        return asynccontextmanager(async_generator(log, name))()

    return provide


KINDS: dict[str, Callable[[list[str], str], Callable[..., Any]]] = {
    "generator": generator,
    "async generator": async_generator,
    "managed": lambda log, name: contextmanager(generator(log, name)),
    "async managed": lambda log, name: asynccontextmanager(async_generator(log, name)),
    "promised": promised,
    "async promised": async_promised,
}


@pytest.mark.parametrize("provide", KINDS.values(), ids=KINDS)
def test_what_is_opened_is_open_during_the_call_and_closed_in_reverse(provide: Any) -> None:
    log: list[str] = []
    call = ["open a", "open b", "close b", "close a"]
    first, second = provide(log, "a"), provide(log, "b")

    def fn(a: Annotated[str, Depends(first)], b: Annotated[str, Depends(second)]) -> Any:
        return a, b, list(log)

    assert run(fn) == ("a", "b", call[:2])
    assert log == call
    log.clear()

    async def failing(a: Annotated[str, Depends(first)]) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        run(failing)
    assert log == ["open a", "error a", "close a"]
    log.clear()

    def broken() -> None:
        raise LookupError("broken")

    def half(a: Annotated[str, Depends(first)], b: Annotated[None, Depends(broken)]) -> None: ...

    with pytest.raises(LookupError):
        run(half)
    assert log == ["open a", "close a"]


def test_a_context_manager_of_another_class_is_a_value() -> None:
    """Entering a connection would begin a transaction, and leaving a client close it for all."""
    closed: list[str] = []
    stack = ExitStack()
    stack.callback(closed.append, "stack")

    def provide() -> ExitStack:
        return stack

    def fn(a: Annotated[ExitStack, Depends(provide)]) -> Any:
        return a

    assert run(fn) is stack
    assert closed == []


def test_a_plain_generator_is_entered_and_left_in_threads() -> None:
    threads: list[int] = []

    def provide() -> Iterator[None]:
        threads.append(here())
        yield
        threads.append(here())

    async def later(a: Annotated[None, Depends(provide)]) -> None: ...
    def fn(a: Annotated[None, Depends(provide)]) -> None: ...

    run(later)
    assert len(threads) == 2
    assert here() not in threads
    peer = RecordingBackend()
    run(fn, context=context_with(peer))
    assert peer.in_threads == 3  # enter, call, leave
