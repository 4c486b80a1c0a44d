import asyncio

from mcpkit import Client


async def main() -> None:
    async with Client("server.py") as client:
        for skill in await client.skills():
            print(skill.name, list(skill.files or ()))
        times = await client.read_skill("brewing", "references/times.md")
        print(times.decode())


asyncio.run(main())
