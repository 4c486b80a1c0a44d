import asyncio

from fastmcp import Client

from fastmcp_server import mcp


def test_a_trip():
    async def run():
        async with Client(mcp) as client:
            arguments = {"start": "Lisbon", "end": "Porto"}
            result = await client.call_tool("trip", arguments)
            return result.data

    assert asyncio.run(run()).kilometres == 313
