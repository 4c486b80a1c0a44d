"""A client of a server over HTTP."""

import asyncio
import sys

from mcpkit import Client


async def main(url: str) -> None:
    async with Client(url) as client:
        print(
            client.revision, [tool.name for tool in await client.list_tools()]
        )
        print((await client.call_tool("stock", {"item": "tea"})).text)


asyncio.run(main(sys.argv[1]))
