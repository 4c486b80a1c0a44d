"""How long a server may take, while a user is asked."""

from __future__ import annotations

import anyio
import pytest

from mcpkit.cli._progress import TimeLimit
from tests.transports.processes import (
    TIMEOUT,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Commands run on asyncio."""
    return "asyncio"


async def test_a_server_that_takes_too_long() -> None:
    with pytest.raises(TimeoutError), TimeLimit(0.01).limited():
        await anyio.sleep(TIMEOUT)


async def test_time_to_think_does_not_count() -> None:
    limit = TimeLimit(0.05)
    with limit.limited(), limit.paused():
        await anyio.sleep(0.1)


async def test_after_it_the_limit_holds_again() -> None:
    limit = TimeLimit(0.05)

    async def think_and_wait() -> None:
        with limit.paused():
            await anyio.sleep(0.1)
        await anyio.sleep(TIMEOUT)

    with pytest.raises(TimeoutError), limit.limited():
        await think_and_wait()


async def test_no_limit() -> None:
    limit = TimeLimit(None)
    with limit.limited(), limit.paused():
        await anyio.lowlevel.checkpoint()
