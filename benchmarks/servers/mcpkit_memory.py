"""mcpkit in memory, through its own test client."""

from __future__ import annotations

import asyncio

from benchmarks.servers.mcpkit_add import app
from benchmarks.servers.memory import take_orders
from mcpkit.testing import AsyncTestClient


def _right(answer: object) -> bool:
    return "42" in repr(answer)


async def _main() -> None:
    async with AsyncTestClient(app, revision="2025-11-25") as client:
        await take_orders(lambda: client.call_tool("add", {"a": 17, "b": 25}), _right)


if __name__ == "__main__":
    asyncio.run(_main())
