"""FastMCP in memory, through its own client, with the handshake, which is the faster."""

from __future__ import annotations

import asyncio

from fastmcp import Client  # type: ignore[import-not-found, unused-ignore]

from benchmarks.servers.fastmcp_add import app
from benchmarks.servers.memory import take_orders


def _right(answer: object) -> bool:
    return "42" in repr(answer)


async def _main() -> None:
    async with Client(app, mode="legacy") as client:
        await take_orders(lambda: client.call_tool("add", {"a": 17, "b": 25}), _right)


if __name__ == "__main__":
    asyncio.run(_main())
