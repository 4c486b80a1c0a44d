"""The bare loop in memory: bytes in, bytes out, no transport."""

from __future__ import annotations

import asyncio
import json

from benchmarks.servers.bare_asyncio import server
from benchmarks.servers.memory import take_orders

_LINE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": 17, "b": 25}},
    }
).encode()


def _right(answer: object) -> bool:
    return isinstance(answer, bytes) and b'"structuredContent":{"result":42}' in answer


if __name__ == "__main__":
    asyncio.run(take_orders(lambda: server.answer(_LINE), _right))
