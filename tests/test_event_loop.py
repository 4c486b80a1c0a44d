"""Running an event loop."""

from __future__ import annotations

import os
import signal
import sys

import anyio
import pytest

from mcpkit._concurrency.event_loop import run_loop


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_what_the_function_returns_is_returned(backend: str) -> None:
    async def add(one: int, two: int) -> int:
        await anyio.sleep(0)
        return one + two

    assert run_loop(add, 1, 2, backend=backend) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="has no signal of this kind")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_ctrl_c_is_an_interrupt_on_every_python(backend: str) -> None:
    async def interrupted() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.sleep(20)

    with pytest.raises(KeyboardInterrupt):
        run_loop(interrupted, backend=backend)
