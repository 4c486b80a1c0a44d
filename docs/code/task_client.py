"""A client that starts a task, and fetches its result later."""

import asyncio
from typing import Any

from mcpkit import Client


def fill_in(params: dict[str, Any]) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": "Tea"}}


async def main() -> None:
    async with Client("reports.py", elicitation=fill_in) as client:
        task = await client.start("report", {"pages": 3})
        assert task.id is not None  # the server might have answered at once
        kept = task.id

    async with Client("reports.py", elicitation=fill_in) as client:
        task = client.task(kept)
        async for status in task:
            if status.is_over:
                print(status.status)
        print((await task).text)


asyncio.run(main())
