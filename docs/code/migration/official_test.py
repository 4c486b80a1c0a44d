import asyncio

from mcp import Client

from official_server import mcp


def test_a_trip():
    async def run():
        async with Client(mcp) as client:
            arguments = {"start": "Lisbon", "end": "Porto"}
            result = await client.call_tool("trip", arguments)
            return result.structured_content

    assert asyncio.run(run())["kilometres"] == 313
