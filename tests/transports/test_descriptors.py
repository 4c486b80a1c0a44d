"""Chunks that are read from a descriptor, and messages that are written together."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcpkit import Context, MCPKit
from mcpkit._concurrency.loop import open_loop
from mcpkit._server.session import Session
from mcpkit.transports.stdio import writer as writing
from mcpkit.transports.stdio.reader import ThreadReader, make_reader
from mcpkit.transports.stdio.writer import Output
from tests.messages import announced

app = MCPKit("writing")


@app.tool
async def report(ctx: Context, times: int, busy: float = 0) -> str:
    for done in range(times):
        ctx.progress(done)
    time.sleep(busy)
    return "reported"


@app.tool
async def say(ctx: Context) -> str:
    ctx.info("a word")
    return "said"


class Writes:
    """A pipe, and what was written to it, a list of messages for each write."""

    def __init__(self) -> None:
        self.all: list[list[dict[str, Any]]] = []
        self._arrived = anyio.Event()

    def write(self, data: memoryview) -> int:
        self.all.append([json.loads(line) for line in bytes(data).splitlines()])
        self._arrived.set()
        return len(data)

    async def finish(self) -> None:
        return

    async def until(self, id: int) -> None:
        """Wait for the answer to a request."""
        with anyio.fail_after(10):
            while not any(each.get("id") == id for part in self.all for each in part):
                self._arrived = anyio.Event()
                await self._arrived.wait()


@asynccontextmanager
async def talking(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Session, Output, Writes]]:
    writes = Writes()
    monkeypatch.setattr(writing, "open_writer", lambda fd: writes)
    async with open_loop() as loop:
        output = Output(0, loop, on_broken=lambda: None)
        session = Session(app.server, output, loop)
        yield session, output, writes
        await session.aclose()


def called(id: int, name: str, **arguments: Any) -> bytes:
    meta = {"progressToken": id, "io.modelcontextprotocol/logLevel": "info"}
    message = announced(id, "tools/call", name=name, arguments=arguments, _meta=meta)
    return json.dumps(message).encode()


@pytest.mark.parametrize("busy", [0, 0.02], ids=["at once", "the loop is held up"])
async def test_an_answer_leaves_after_the_progress_before_it(
    busy: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROG-3: a client that reads both at once may drop the progress."""
    async with talking(monkeypatch) as (session, _, writes):
        session.receive(called(1, "report", times=3, busy=busy))
        await writes.until(1)
        *reports, [answer] = writes.all
        assert [each["params"]["progress"] for part in reports for each in part] == [0, 1, 2]
        assert answer["result"]["content"][0]["text"] == "reported"


async def test_other_answers_do_not_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(monkeypatch) as (session, output, writes):
        with output:
            session.receive(called(1, "report", times=1))
            session.receive(called(2, "report", times=0))
            session.receive(called(3, "say"))
        await writes.until(1)
        first = [each.get("id") for part in writes.all[:-1] for each in part]
        assert {2, 3} <= set(first)


async def test_an_answer_that_is_kept_back_leaves_before_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "_APART_S", 3600)
    async with talking(monkeypatch) as (session, output, writes):
        session.receive(called(1, "report", times=1))
        await session.wait_idle()
        assert not any(each.get("id") == 1 for part in writes.all for each in part)
        await output.finish(1)
        assert writes.all[-1][-1]["id"] == 1


async def test_many_short_messages_leave_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    async with talking(monkeypatch) as (_, output, writes):
        with output:
            for _ in range(40):
                output.send(b"{}")
        assert writes.all == [[{}] * 40]


@pytest.mark.skipif(sys.platform == "win32", reason="pipes are not polled there")
@pytest.mark.parametrize("in_thread", [False, True])
async def test_the_end_comes_once(in_thread: bool) -> None:
    """Also if there is room again afterwards, because what came before has been answered."""
    reading, writing = os.pipe()
    chunks: list[bytes] = []
    ended = anyio.Event()

    def take(chunk: bytes) -> None:
        chunks.append(chunk)
        if not chunk:
            ended.set()

    try:
        async with open_loop() as loop:
            make = ThreadReader if in_thread else make_reader
            reader = make(reading, loop, take)
            os.write(writing, b"last words")
            os.close(writing)
            with anyio.fail_after(20):
                await ended.wait()
            reader.resume()
            await anyio.sleep(0.01)
            reader.stop()
    finally:
        os.close(reading)
    assert chunks == [b"last words", b""]
