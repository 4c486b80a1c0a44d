"""Tasks of mcpkit beside those of FastMCP 3, over stdio and 2025-11-25, in one run.

`python -m benchmarks.tasks --fastmcp PYTHON` names a Python that has ``fastmcp[tasks]``; without it
only mcpkit is measured, in memory and in a file of SQLite. Times are medians in milliseconds.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import anyio

from mcpkit import Client, ProtocolError

SERVERS: Final = Path(__file__).parent / "servers"
TASKS: Final = 300
AT_ONCE: Final = 32
CONCURRENT: Final = 1000
ROW: Final = "{:<16}" + "{:>12}" * 7


def text_of(result: Mapping[str, Any]) -> str:
    """Return what a tool has answered."""
    return str(result["content"][0]["text"])


async def begin(client: Client, tool: str, arguments: Mapping[str, Any]) -> str:
    """Call a tool as a task, and return its id."""
    params = {"name": tool, "arguments": arguments, "task": {"ttl": 600_000}}
    return str((await client.request("tools/call", params))["task"]["taskId"])


async def result(client: Client, id: str) -> str:
    """Wait for what comes of a task."""
    while True:
        try:
            return text_of(await client.request("tasks/result", {"taskId": id}, timeout=120))
        except ProtocolError as error:
            if "not completed yet" not in str(error):  # FastMCP does not wait (TASKL-6)
                raise
        await anyio.sleep(0.002)


async def handles(client: Client) -> float:
    """From the call to the id."""
    times: list[float] = []
    for number in range(100):
        begun = time.perf_counter()
        await begin(client, "small", {"number": number})
        times.append(time.perf_counter() - begun)
    return 1000 * statistics.median(times)


async def whole(client: Client) -> float:
    """From the call to the result, one after the other."""
    times: list[float] = []
    for number in range(50):
        begun = time.perf_counter()
        await result(client, await begin(client, "small", {"number": number}))
        times.append(time.perf_counter() - begun)
    return 1000 * statistics.median(times)


async def answers(client: Client, answered: list[float]) -> float:
    """From the answer to a question to the work that goes on."""
    times: list[float] = []
    for _ in range(20):
        went_on = float(await result(client, await begin(client, "ask", {})))
        times.append(went_on - answered[-1])
    return 1000 * statistics.median(times)


async def cancels(client: Client) -> float:
    """From the cancellation to the handler that is stopped."""
    times: list[float] = []
    for _ in range(20):
        id = await begin(client, "sleep", {"seconds": 30.0})
        await anyio.sleep(0.05)  # so that the handler has begun
        before = float(text_of(await client.request("tools/call", {"name": "last_stopped"})))
        begun = time.time()
        await client.request("tasks/cancel", {"taskId": id})
        with anyio.fail_after(60):
            while True:
                called = await client.request("tools/call", {"name": "last_stopped"})
                if (at := float(text_of(called))) > before:
                    break
        times.append(at - begun)
    return 1000 * statistics.median(times)


async def rate(client: Client) -> float:
    """Small tasks that are begun and fetched in a second, so many at once."""
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one(number: int) -> None:
        async with limit:
            await result(client, await begin(client, "small", {"number": number}))

    begun = time.perf_counter()
    async with anyio.create_task_group() as group:
        for number in range(TASKS):
            group.start_soon(one, number)
    return TASKS / (time.perf_counter() - begun)


def memory_of(process: int) -> float:
    """The resident memory of a process, in MiB."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {process} says nothing of its memory")


async def crowd(client: Client, process: int) -> tuple[float, float]:
    """Seconds that so many concurrent tasks of half a second take, and MiB that stay behind."""
    for number in range(2):
        before = memory_of(process)
        begun = time.perf_counter()
        ids = [await begin(client, "sleep", {"seconds": 0.5}) for _ in range(CONCURRENT)]
        for id in ids:
            await result(client, id)
        seconds = time.perf_counter() - begun
        if number:  # the first crowd is what memory grows to
            return seconds, memory_of(process) - before
    raise AssertionError


async def measure(name: str, command: list[str], env: Mapping[str, str]) -> None:
    """Print the row of a server."""
    answered: list[float] = []

    def agree(params: Any) -> Any:
        field = next(iter(params["requestedSchema"]["properties"]))
        answered.append(time.time())
        return {"action": "accept", "content": {field: True}}

    client = Client(command, revision="2025-11-25", elicitation=agree, env=env, timeout=120)
    async with client:
        cells: list[str] = []
        kinds: list[Callable[[], Any]] = [
            lambda: handles(client),
            lambda: whole(client),
            lambda: answers(client, answered),
            lambda: cancels(client),
            lambda: rate(client),
        ]
        for each in kinds:
            try:
                with anyio.fail_after(180):
                    cells.append(f"{await each():.2f}")
            except (ProtocolError, TimeoutError, KeyError, ValueError) as error:
                cells.append("–")
                print(f"{name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        try:
            link: Any = client._link
            seconds, left = await crowd(client, link._process.pid)
            cells += [f"{seconds:.2f}", f"{left:.1f}"]
        except (ProtocolError, TimeoutError, AttributeError) as error:
            cells += ["–", "–"]
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
    print(ROW.format(name, *cells), flush=True)


async def main(fastmcp: str | None) -> None:
    """Print the table."""
    heads = ("handle", "whole", "answer", "cancel", "tasks/s", f"{CONCURRENT} [s]", "left [MiB]")
    print(ROW.format("", *heads))
    ours = [sys.executable, str(SERVERS / "tasks_mcpkit.py")]
    with tempfile.TemporaryDirectory() as folder:
        await measure("mcpkit", ours, {})
        await measure("mcpkit, SQLite", ours, {"MCPKIT_TASKS": str(Path(folder) / "tasks.db")})
        if fastmcp is not None:
            theirs = [fastmcp, str(SERVERS / "tasks_fastmcp.py")]
            await measure("FastMCP 3", theirs, {"FASTMCP_LOG_LEVEL": "ERROR"})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tasks", description=__doc__)
    parser.add_argument("--fastmcp", help="a Python that has fastmcp[tasks]")
    anyio.run(main, parser.parse_args().fastmcp)
