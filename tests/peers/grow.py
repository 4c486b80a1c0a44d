"""Prints the lists of a growing server that the official Python client notices.

Usage: grow.py MODE COMMAND [ARGUMENT ...]
"""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
import mcp_types as types
from mcp import Client, StdioServerParameters


async def main(mode: str, command: str, *arguments: str) -> None:
    send, receive = anyio.create_memory_object_stream[Any](10)

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            await send.send(message)

    async with Client(
        StdioServerParameters(command=command, args=list(arguments)),
        mode=mode,
        message_handler=on_message,
    ) as client:

        async def names() -> list[str]:
            return [each.name for each in (await client.list_tools()).tools]

        async def follow(changes: Any) -> None:
            for name in ("grow", "shrink"):
                await client.get_prompt(name)
                await anext(aiter(changes))
                seen.append(await names())

        seen: list[Any] = [await names(), list((await client.list_resources()).resources)]
        if mode == "legacy":
            await follow(receive)
        else:
            async with client.listen(tools_list_changed=True) as changes:
                await follow(changes)
        print(json.dumps([*seen, await names()]))


anyio.run(main, *sys.argv[1:])
