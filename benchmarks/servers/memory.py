"""What the in-memory programs share: they are told on stdin how to call, and report on stdout.

An order is one line of JSON, `{"calls": 200, "concurrency": 1}`; the report is
`{"latency_s": <median of single calls>, "per_second": <calls per second>}`. A first line,
`{"ready": true}`, says that a call gave the right answer.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

Call = Callable[[], Awaitable[object]]


async def take_orders(call: Call, right: Callable[[object], bool]) -> None:
    """Serve orders until stdin ends. Between orders the event loop stands still on purpose.

    Raises:
        SystemExit: If the first call's answer is not right.
    """
    answer = await call()
    if not right(answer):
        raise SystemExit(f"wrong answer: {answer!r}")
    _report({"ready": True})
    for order in map(json.loads, sys.stdin):
        latencies: list[int] = []
        started = time.perf_counter()
        if order["concurrency"] == 1:
            await _call_repeatedly(call, order["calls"], latencies)
        else:
            share = order["calls"] // order["concurrency"]
            await asyncio.gather(
                *(_call_repeatedly(call, share, latencies) for _ in range(order["concurrency"]))
            )
        elapsed = time.perf_counter() - started
        _report(
            {
                "latency_s": statistics.median(latencies) / 1e9,
                "per_second": len(latencies) / elapsed,
            }
        )


async def _call_repeatedly(call: Call, times: int, latencies: list[int]) -> None:
    for _ in range(times):
        started = time.perf_counter_ns()
        await call()
        latencies.append(time.perf_counter_ns() - started)


def _report(values: dict[str, object]) -> None:
    print(json.dumps(values), flush=True)
