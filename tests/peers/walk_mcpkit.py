"""Walks with our own client; see `walk.py`."""

from __future__ import annotations

from typing import Any

import httpx2
from walk import NAME, Walk, walk_to_all

from mcpkit import Client
from mcpkit.client.auth import MemoryTokenStore, OAuth


async def walk_to(url: str, rotate: str) -> dict[str, Any]:
    walk = Walk(httpx2, rotate)
    tokens: list[str] = []

    class Store(MemoryTokenStore):
        async def set(self, url: str, credentials: Any) -> None:
            if credentials is not None:
                tokens.append(credentials.access_token)
            await super().set(url, credentials)

    async def show(address: str) -> None:
        end = await walk.follow(address)
        async with walk.connection() as connection:
            await connection.get(end)

    async with Client(url, auth=OAuth(client_name=NAME, show=show, store=Store())) as client:

        async def names() -> list[str]:
            return [each.name for each in await client.list_tools()]

        async def call(tool: str) -> str:
            return (await client.call_tool(tool)).text

        walk.report["revision"] = client.revision
        await walk.go(names, call, lambda: tokens[-1])
    return walk.report


walk_to_all(walk_to)
