"""What the code behind an entry tells the rules."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import Context, MCPKit
from mcpkit.cli._check.source import _task_times, _unknown_parameters


def test_the_lifetime_of_tasks_is_the_tools_or_else_the_apps() -> None:
    app = MCPKit("tasks", tasks={"ttl": 60, "poll_interval": 5})
    app.tool(task="optional")(rest)
    app.tool(task="required", task_ttl=2)(in_prose)
    app.tool(not_at_all)
    tools = app.server.registry.tools
    settings = app.server.settings.tasks
    found = {name: _task_times(each, settings) for name, each in tools.items()}
    assert found == {"rest": (60, 5), "in_prose": (2, 5), "not_at_all": None}
    assert _task_times(tools["rest"], settings._replace(ttl=None)) is None


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
def test_unknown_parameters_of_a_docstring_are_found(fn: Any, names: list[str]) -> None:
    assert list(_unknown_parameters(fn)) == names
