import asyncio

from mcpkit import Client


async def main() -> None:
    async with Client(
        "server.py", extensions={"com.example/glossary": {}}
    ) as client:
        print(client.extension("com.example/glossary"))
        found = await client.request("glossary/define", {"term": "jitter"})
        print(found["text"])
        result = await client.call_tool("measure", {"host": "example.com"})
        print((result.meta or {})["com.example/terms"])


asyncio.run(main())
