"""The official SDK in memory, through its own client in its default mode, which is the faster."""

from __future__ import annotations

import asyncio

from mcp import Client  # type: ignore[import-not-found, unused-ignore]

from benchmarks.servers.memory import take_orders
from benchmarks.servers.official_add import app


def _right(answer: object) -> bool:
    return "42" in repr(answer)


async def _main() -> None:
    async with Client(app) as client:
        await take_orders(lambda: client.call_tool("add", {"a": 17, "b": 25}), _right)


if __name__ == "__main__":
    asyncio.run(_main())
