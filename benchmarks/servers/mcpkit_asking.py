"""mcpkit in memory, with handlers that ask the user: `mcpkit_asking.py REVISION QUESTIONS`."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.servers.memory import take_orders
from mcpkit import Accepted, Context, MCPKit
from mcpkit.testing import AsyncTestClient

app = MCPKit("asking", secret="a secret of benchmarks")


@app.tool
async def ask(questions: int, ctx: Context) -> int:
    """Ask that often, and add up the answers."""
    total = 0
    for number in range(questions):
        answer = await ctx.elicit(f"Number {number}?", int)
        total += answer.data if isinstance(answer, Accepted) else 0
    return total


def _answer(params: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"action": "accept", "content": {"value": 14}}


async def _main(revision: str, questions: int) -> None:
    async with AsyncTestClient(app, revision=revision, elicitation=_answer) as client:
        await take_orders(
            lambda: client.call_tool("ask", {"questions": questions}),
            lambda answer: str(14 * questions) in repr(answer),
        )


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], int(sys.argv[2])))
