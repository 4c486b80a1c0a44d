"""Starts quickstart.py as a server process and uses it, as an editor or a chat program would."""

import asyncio
from pathlib import Path

from mcpkit import Client

SERVER = Path(__file__).with_name("quickstart.py")


async def main() -> None:
    async with Client(SERVER) as client:
        server = client.server_info
        print(f"Connected to {server.name if server else 'a server'} on {client.revision}\n")

        for tool in await client.list_tools():
            print(f"  tool      {tool.name}({', '.join(tool.input_schema['properties'])})")
        for resource in await client.list_resources():
            print(f"  resource  {resource.uri}")
        for template in await client.list_resource_templates():
            print(f"  template  {template.uri_template}")
        for prompt in await client.list_prompts():
            print(f"  prompt    {prompt.name}")

        total = await client.call_tool("add", {"a": 2, "b": 40})
        print(f"\nadd(2, 40) = {total.data}")

        days = await client.call_tool(
            "forecast",
            {"city": "Oslo", "days": 2},
            on_progress=lambda now: print(f"  … {now.progress} of {now.total}"),
        )
        for day in days.data:
            print(f"Oslo, day {day['day']}: {day['celsius']} °C")

        wrong = await client.call_tool("forecast", {"city": "Atlantis", "days": 9})
        print(f"\nforecast('Atlantis', 9) is refused, and the model can read why:\n{wrong.text}")


asyncio.run(main())
