"""A client that answers the questions of a server, and shows its progress."""

import asyncio
from typing import Any

from mcpkit import Client


def agree(question: dict[str, Any]) -> dict[str, Any]:
    print("asked:", question["message"])
    return {"action": "accept", "content": {}}


async def main() -> None:
    async with Client("rooms.py", elicitation=agree) as client:
        result = await client.call_tool(
            "book",
            {"room": "12", "nights": 2},
            on_progress=lambda now: print(f"{now.progress} of {now.total}"),
        )
        print(result.data)
        refused = await client.call_tool("book", {"room": "12"})
        print(refused.is_error, refused.text)


asyncio.run(main())
