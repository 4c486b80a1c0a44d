"""An app that is served in the event loop of a program that does other things as well."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpkit import Client, Limits, MCPKit
from mcpkit.errors import MCPKitError
from tests.transports.processes import TIMEOUT, call, started

app = MCPKit("guest")


@app.tool
async def add(a: int, b: int) -> int:
    return a + b


@app.tool
async def hold() -> str:
    await asyncio.sleep(3600)
    return "never"


@asynccontextmanager
async def served(
    caplog: pytest.LogCaptureFixture, transport: str, **options: Any
) -> AsyncIterator[tuple[asyncio.Task[None], str]]:
    """The app, its task and its URL."""
    caplog.set_level(logging.INFO)
    task = asyncio.create_task(app.serve(transport, port=0, **options))
    with anyio.fail_after(TIMEOUT):
        while (found := re.search(r"http://\S+", caplog.text)) is None and not task.done():
            await asyncio.sleep(0)
    if found is None:
        raise AssertionError(await asyncio.gather(task, return_exceptions=True))
    try:
        yield task, found[0]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("transport", ["http", "sse"])
def test_over_http(caplog: pytest.LogCaptureFixture, transport: str) -> None:
    async def main() -> None:
        before = set(asyncio.all_tasks())
        async with served(caplog, transport) as (task, url):
            async with Client(url) as client:
                assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert asyncio.all_tasks() == before
        with socket.socket() as free:
            free.bind(("127.0.0.1", int(url.split(":")[2].split("/")[0])))

    asyncio.run(main())


def test_a_call_that_runs_ends_with_it(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with (
            served(caplog, "http", limits=Limits(grace=0.05)) as (task, url),
            Client(url) as client,
        ):
            calling = asyncio.create_task(client.call_tool("hold"))
            assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, TIMEOUT)
            with pytest.raises(MCPKitError):
                await asyncio.wait_for(calling, TIMEOUT)

    asyncio.run(main())


def test_an_app_that_cannot_start_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    @asynccontextmanager
    async def broken(app: MCPKit[Any]) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    async def main() -> None:
        with pytest.raises(RuntimeError, match="could not begin"):
            await MCPKit("broken", lifespan=broken).serve("http", port=0)

    asyncio.run(main())
    assert "no database" in caplog.text


PROGRAM = """
import asyncio, sys
from mcpkit import MCPKit

app = MCPKit("guest")
beats = []

@app.tool
async def beat() -> int:
    return len(beats)

async def heart():
    while True:
        beats.append(1)
        await asyncio.sleep(0)

async def main():
    beating = asyncio.create_task(heart())
    {serving}
    beating.cancel()
    print("went on", file=sys.stderr)

asyncio.run(main())
"""
CANCELLED = """
    serving = asyncio.create_task(app.serve())
    while len(beats) < 1000:
        await asyncio.sleep(0)
    serving.cancel()
    try:
        await serving
    except asyncio.CancelledError:
        pass
"""


def test_on_stdio_beside_other_tasks(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(serving="await app.serve()"))
    with started([sys.executable, "program.py"], cwd=tmp_path) as server:
        first = int(server.text(call(1, "beat")))
        assert int(server.text(call(2, "beat"))) > first > 0
        server.close_stdin()
        assert server.exit_code(within=TIMEOUT) == 0
        assert server.stderr == "went on\n"


def test_on_stdio_until_the_task_is_cancelled(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(serving=CANCELLED.strip()))
    with started([sys.executable, "program.py"], cwd=tmp_path) as server:
        assert server.exit_code(within=TIMEOUT) == 0
        assert server.stderr == "went on\n"
