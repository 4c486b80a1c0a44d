"""Walks with our own client, as others do: see `walk_python.py`."""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx2

from mcpkit import Client
from mcpkit.oauth import MemoryTokenStore, OAuth

WAIT = 40


async def walk(name: str, browser: str, lifetime: str, url: str, rotate: str) -> dict[str, Any]:
    report: dict[str, Any] = {}
    asked: list[str] = []
    tokens: list[str] = []

    class Store(MemoryTokenStore):
        async def set(self, url: str, credentials: Any) -> None:
            if credentials is not None:
                tokens.append(credentials.access_token)
            await super().set(url, credentials)

    async def show(address: str) -> None:
        fields = parse_qs(urlsplit(address).query)
        asked.append(fields.get("scope", [""])[0])
        end = quote(fields["redirect_uri"][0], safe="")
        async with httpx2.AsyncClient(timeout=WAIT, trust_env=False) as client:
            answer = await client.get(
                f"{browser}?who={name}&url={quote(address, safe='')}&end={end}"
            )
            if answer.status_code != 200:
                raise RuntimeError(answer.text)
            await client.get(answer.text)

    async def note(key: str, action: Callable[[], Awaitable[Any]]) -> None:
        try:
            report[key] = await asyncio.wait_for(action(), WAIT)
        except Exception as error:
            report[key] = {"raised": repr(error)}

    auth = OAuth(client_name=name, show=show, store=Store())
    async with Client(url, auth=auth) as client:

        async def names() -> list[str]:
            return [each.name for each in await client.list_tools()]

        async def call(tool: str) -> str:
            return (await client.call_tool(tool)).text

        report["revision"] = client.revision
        await note("listed", names)
        await note("who", lambda: call("who"))
        await note("written", lambda: call("write"))
        await note("listed_then", names)
        first = tokens[-1]
        async with httpx2.AsyncClient(timeout=WAIT, trust_env=False) as other:
            await other.post(rotate)
        await asyncio.sleep(float(lifetime))
        await note("who_then", lambda: call("who"))
        report["refreshed"] = tokens[-1] != first
    report["asked"] = asked
    return report


async def tried(*arguments: str) -> dict[str, Any]:
    try:
        return await walk(*arguments)
    except Exception:
        return {"failed": traceback.format_exc()}


async def main(name: str, browser: str, lifetime: str, *pairs: str) -> list[dict[str, Any]]:
    walks = zip(pairs[::2], pairs[1::2], strict=True)
    return await asyncio.gather(*(tried(name, browser, lifetime, *each) for each in walks))


print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
