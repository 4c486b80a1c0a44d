"""What the code of a function tells of the exceptions that it raises and nobody reads."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from mcpkit import Context, MCPKit, SyncContext
from mcpkit.cli._check.listing import Entry
from mcpkit.cli._check.source import (
    _body,
    _hidden_errors,
    _slow,
    _task_times,
    _unknown_parameters,
    with_facts,
)
from mcpkit.errors import ToolError
from tests.cli.checks.served import server


class GitError(Exception):
    """Of an author."""


class Quiet:
    """No exception."""


def plainly(x: int) -> None:
    raise ValueError(f"no such {x}")


def of_a_module(x: str) -> None:
    raise json.JSONDecodeError("no", x, 0)


def several(x: int) -> None:
    if x:
        raise GitError("one")
    with open("a"):
        raise ValueError("two")


def in_a_handler() -> None:
    try:
        plainly(1)
    except ValueError as error:
        raise GitError("no") from error


def not_caught() -> None:
    try:
        raise GitError("no")
    except ValueError:
        pass


def twice(x: int) -> None:
    if x:
        raise GitError("one")
    raise GitError("two")


def found_in(fn: Any, *shown: type[Exception]) -> list[str]:
    return list(_hidden_errors(fn, _body(fn), shown))


@pytest.mark.parametrize(
    ("fn", "names"),
    [
        (plainly, ["ValueError"]),
        (of_a_module, ["JSONDecodeError"]),
        (several, ["GitError", "ValueError"]),
        (in_a_handler, ["GitError"]),
        (not_caught, ["GitError"]),
        (twice, ["GitError", "GitError"]),
    ],
    ids=lambda each: getattr(each, "__name__", "-"),
)
def test_exceptions_with_a_text_are_found(fn: Any, names: list[str]) -> None:
    assert found_in(fn) == names


def for_the_model() -> None:
    raise ToolError("no")


def without_a_text() -> None:
    raise ValueError


def unknown() -> None:
    raise Nowhere("no")  # type: ignore[name-defined]  # noqa: F821 - on purpose


def not_implemented() -> None:
    raise NotImplementedError("later")


def again() -> None:
    try:
        plainly(1)
    except ValueError:
        raise


def caught() -> None:
    try:
        raise GitError("no")
    except (ValueError, Exception):
        pass


def caught_by_all() -> None:
    try:
        raise GitError("no")
    except:  # noqa: E722 - on purpose
        pass


def elsewhere() -> Callable[[], None]:
    def inner() -> None:
        raise GitError("no")

    return inner


@pytest.mark.parametrize(
    "fn",
    [
        *(for_the_model, without_a_text, unknown, not_implemented, again, caught),
        *(caught_by_all, elsewhere),
    ],
    ids=lambda each: each.__name__,
)
def test_what_may_be_right_is_left_alone(fn: Any) -> None:
    assert found_in(fn) == []


def test_what_is_shown_is_left_alone() -> None:
    assert found_in(several, GitError) == ["ValueError"]
    assert found_in(several, Exception) == []


def test_code_that_cannot_be_read_is_left_alone() -> None:
    fn: Any = plainly
    assert list(_hidden_errors(fn, None, ())) == []


def test_how_long_tasks_are_kept() -> None:
    """The tool says so, or else the app."""
    app = MCPKit("tasks", tasks={"ttl": 60, "poll_interval": 5})
    app.tool(task="optional")(of_a_module)
    app.tool(task="required", task_ttl=2)(plainly)
    app.tool(in_a_handler)
    tools = app.server.registry.tools
    settings = app.server.settings.tasks
    found = {name: _task_times(each, settings) for name, each in tools.items()}
    assert found == {"of_a_module": (60, 5), "plainly": (2, 5), "in_a_handler": None}
    lasting = settings._replace(ttl=None)
    assert _task_times(tools["of_a_module"], lasting) is None


async def tells(ctx: Context, count: int) -> None:
    for number in range(count):
        ctx.progress(number, count)


def naps() -> None:
    time.sleep(30)


async def waits() -> None:
    await asyncio.sleep(12.5)


def pauses(ctx: SyncContext) -> None:
    ctx.log("info", "one moment")
    time.sleep(0.5)


def sleeps_as_told(seconds: int, progress: list[int]) -> None:
    time.sleep(seconds)
    progress.clear()


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (tells, "reports progress"),
        (naps, "sleeps for 30 s"),
        (waits, "sleeps for 12.5 s"),
        (pauses, ""),
        (sleeps_as_told, ""),
    ],
)
def test_what_shows_that_a_function_takes_long(fn: Any, expected: str) -> None:
    assert _slow(_body(fn)) == expected


def test_only_a_tool_that_is_never_a_task_is_slow(tmp_path: Path) -> None:
    """That of a tool which may run as a task is no fault."""
    file = tmp_path / "server.py"
    file.write_text(SLOW, encoding="utf-8")
    listed = [Entry("tool", name, {}) for name in ("count_up", "count_down")]
    served = with_facts(server(*listed), str(file))
    assert [each.slow for each in served.tools] == ["reports progress", ""]


def google(amount: int, /, *rest: str, ctx: Context) -> None:
    """Pay.

    Args:
        amount: In cents.
        currency: Such as EUR.
        rest: What else there is to say.
        ctx: Of the call.

    Returns:
        total: What was paid.
    """


def numpy(amount: int) -> None:
    """Pay.

    Parameters
    ----------
    amount : int
        In cents.
    currency, rate : str
        Such as EUR.
    """


def rest(amount: int) -> None:
    """Pay.

    :param amount: In cents.
    :param str currency: Such as EUR.
    """


def takes_any(amount: int, **more: str) -> None:
    """Pay.

    Args:
        amount: In cents.
        currency: Such as EUR.
    """


def in_prose(amount: int) -> None:
    """Pay an amount in cents: currency: EUR."""


def not_at_all(amount: int) -> None:
    pass


@pytest.mark.parametrize(
    ("fn", "names"),
    [
        (google, ["currency"]),
        (numpy, ["currency", "rate"]),
        (rest, ["currency"]),
        (takes_any, []),
        (in_prose, []),
        (not_at_all, []),
    ],
    ids=lambda each: getattr(each, "__name__", None),
)
def test_what_a_docstring_describes_and_the_function_does_not_take(
    fn: Any, names: list[str]
) -> None:
    assert list(_unknown_parameters(fn)) == names


SLOW: Final = '''
from mcpkit import Context, MCPKit

app = MCPKit("slow")


@app.tool
async def count_up(ctx: Context) -> None:
    """Count."""
    ctx.progress(1, 1)


@app.tool(task="optional")
async def count_down(ctx: Context) -> None:
    """Count."""
    ctx.progress(1, 1)
'''
