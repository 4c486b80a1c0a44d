"""What is read of a descriptor, and when nothing more is."""

from __future__ import annotations

import os
import sys

import anyio
import pytest

from mcpkit._concurrency.loop import open_loop
from mcpkit.transports.stdio.reader import ThreadReader, make_reader

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform == "win32", reason="pipes are not polled there"),
]


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
