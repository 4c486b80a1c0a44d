"""Serve mixed clients for minutes, and see that nothing leaks: `python -m benchmarks.soak`.

Clients of every revision, raw and mcpkit's own, call, ask, subscribe, cancel, come back for what
they missed, leave at any point, and send invalid messages. Every minute it prints what the server
holds. In the end all of them leave, and the server must hold what it held before them.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import socket
import statistics
import struct
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio

from benchmarks.traffic import (
    GARBAGE,
    LEGACY,
    MODERN,
    PATIENCE,
    READY,
    ROOT,
    Answer,
    Message,
    Server,
    announced,
    answer_from,
    calling,
    initialize,
    packed,
    posted,
    request,
)
from mcpkit import Client

SERVER = ROOT / "tests" / "transports" / "http" / "pressed.py"
SETTINGS = {
    "session_idle": 10,
    "replay_time": 5,
    "body_timeout": 5,
    "write_timeout": 5,
    "max_sessions": 2000,
    "stream_after": 0.5,
    "keep_alive": 2,
}
SAMPLE_EVERY = 5.0
GROWTH = 1.05
"""How much greater the last third's memory may be than the middle third's."""

Actor = Callable[["Crowd", random.Random], Awaitable[None]]


class Left(Exception):
    """The client has left on purpose."""


@asynccontextmanager
async def exchange(
    port: int, data: bytes, rng: random.Random, leaving: float = 0.0
) -> AsyncGenerator[Answer, None]:
    """One request on a connection of its own; `leaving` is the chance to leave before it ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    vanish = rng.random() < 0.5
    try:
        if rng.random() < leaving:
            writer.write(data[: rng.randrange(len(data) + 1)])
            await writer.drain()
            await asyncio.sleep(rng.choice([0, 0.01, 0.3]))
            raise Left
        writer.write(data)
        await writer.drain()
        with anyio.fail_after(PATIENCE):
            yield await answer_from(reader)
        vanish = False
    except TimeoutError:
        raise TimeoutError(f"no end of the answer to {data[:500]!r}") from None
    finally:
        if vanish:
            made: socket.socket = writer.get_extra_info("socket")
            with suppress(OSError):
                made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort() if vanish else writer.close()


CALLS: list[tuple[str, Callable[[random.Random], Message]]] = [
    ("add", lambda rng: {"a": rng.randrange(99), "b": 1}),
    ("add", lambda rng: {"a": "no number", "b": 1}),
    ("large", lambda rng: {"size": rng.choice([10, 1000, 100_000, 1_000_000])}),
    ("length", lambda rng: {"value": ["x" * 100] * rng.choice([1, 100, 2000])}),
    ("wait", lambda rng: {"seconds": rng.choice([0, 0.05, 0.2, 1])}),
    ("advance", lambda rng: {"steps": rng.randrange(50), "size": rng.choice([1, 1000])}),
    ("advance", lambda rng: {"steps": 5, "pause": 0.05}),
    ("work", lambda rng: {"steps": rng.randrange(5), "pause": 0.02}),
    ("leave", lambda rng: {"seconds": rng.choice([0, 0.1, 0.5])}),
    ("user", lambda rng: {}),
    ("model", lambda rng: {}),
    ("fail", lambda rng: {}),
    ("touch", lambda rng: {"name": str(rng.randrange(20))}),
    ("missing", lambda rng: {}),
]
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "hm"}, "model": "m"}


def answer_to(question: Message) -> Message:
    """The result that a client gives to a question."""
    if question["method"] == "elicitation/create":
        names = question["params"]["requestedSchema"]["properties"]
        return {"action": "accept", "content": dict.fromkeys(names, "yes")}
    return SAMPLED


class Crowd:
    """All clients, and what became of their calls."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.counts: Counter[str] = Counter()
        self.surprises: Counter[str] = Counter()
        self.over = False

    def expect(self, status: int, *expected: int, where: str) -> None:
        self.counts[str(status)] += 1
        if status not in expected:
            self.surprises[f"{status} to {where}"] += 1

    async def play(self, actor: Actor, rng: random.Random) -> None:
        """Let one client come again and again."""
        while not self.over:
            try:
                await actor(self, rng)
            except Left:
                self.counts["left"] += 1
            except Exception as error:
                self.surprises[f"{type(error).__name__} in {actor.__name__}: {error}"[:500]] += 1
                await asyncio.sleep(0.1)
            await asyncio.sleep(rng.random() * 0.05)

    async def post(
        self,
        rng: random.Random,
        message: Any,
        headers: Mapping[str, str],
        *,
        leaving: float = 0.05,
        path: str = "/mcp",
        expected: tuple[int, ...] = (200,),
    ) -> tuple[Message, str, dict[str, str]]:
        """Post a message; the last message, the last event id, and the headers of the answer."""
        last, event = {}, ""
        answering: list[asyncio.Task[Any]] = []
        data = posted(message, headers, path)
        async with exchange(self.port, data, rng, leaving) as answer:
            self.expect(answer.status, *expected, where=str(message)[:80])
            async for id, found in answer.messages():
                event = id or event
                if found:
                    last = found
                if "method" in found and "id" in found:
                    reply = {"jsonrpc": "2.0", "id": found["id"], "result": answer_to(found)}
                    said = self.post(rng, reply, headers, leaving=0, expected=(202,))
                    answering.append(asyncio.create_task(said))
                if rng.random() < leaving / 5:
                    await asyncio.gather(*answering)
                    raise Left
            await asyncio.gather(*answering)
            return last, event, answer.headers


# --- clients --------------------------------------------------------------------------------------


def a_call(rng: random.Random, id: Any) -> Message:
    name, arguments = rng.choice(CALLS)
    message = calling(name, arguments(rng), id)
    message["params"]["_meta"] = {"progressToken": id}
    return message


async def in_a_session(crowd: Crowd, rng: random.Random) -> None:
    """A client of a handshake revision, from its first request to its end, or not quite."""
    version = rng.choice(LEGACY)
    _, _, found = await crowd.post(rng, initialize(version), {})
    headers = {"Mcp-Session-Id": found["mcp-session-id"], "MCP-Protocol-Version": version}
    await crowd.post(rng, READY, headers, expected=(202,))
    listening = asyncio.create_task(standalone(crowd, rng, headers)) if rng.random() < 0.5 else None
    try:
        for number in range(1, rng.randrange(2, 12)):
            await one_thing(crowd, rng, headers, version, number)
    finally:
        if listening is not None:
            listening.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await listening
    if rng.random() < 0.3:
        async with exchange(crowd.port, packed("DELETE", "/mcp", headers), rng) as answer:
            # 429: the server remembers as many ends as it may, so this session goes on.
            crowd.expect(answer.status, 204, 429, where="DELETE")
            is_over = answer.status == 204
        await crowd.post(
            rng, a_call(rng, 1), headers, leaving=0, expected=(404,) if is_over else (200,)
        )


async def one_thing(
    crowd: Crowd, rng: random.Random, headers: Mapping[str, str], version: str, number: int
) -> None:
    dice = rng.random()
    if dice < 0.6:
        await called(crowd, rng, headers, a_call(rng, number))
    elif dice < 0.7:
        uri = f"pressed://{rng.randrange(20)}"
        method = rng.choice(["resources/subscribe", "resources/unsubscribe", "resources/read"])
        await crowd.post(rng, request(method, {"uri": uri}, number), headers)
    elif dice < 0.75:
        level = {"level": rng.choice(["debug", "error"])}
        await crowd.post(rng, request("logging/setLevel", level, number), headers)
    elif dice < 0.85:
        await given_up(crowd, rng, headers, number)
    elif dice < 0.9:
        batch = [a_call(rng, f"b{each}") for each in range(rng.randrange(1, 5))]
        batched = version == "2025-03-26"
        await crowd.post(rng, batch, headers, expected=(200,) if batched else (400,))
    else:
        await crowd.post(rng, rng.choice(GARBAGE), headers, expected=(200, 202, 400, 409, 413))


async def called(
    crowd: Crowd, rng: random.Random, headers: Mapping[str, str], message: Message
) -> None:
    """Call, and come back for the rest if the server closes the stream before the answer."""
    last, event, _ = await crowd.post(rng, message, headers)
    for _ in range(20):
        if last.get("id") == message["id"] and "method" not in last:
            crowd.counts["calls"] += 1
            return
        if not event:
            break
        back = {**headers, "Accept": "text/event-stream", "Last-Event-ID": event}
        data = packed("GET", "/mcp", back)
        async with exchange(crowd.port, data, rng, leaving=0.05) as answer:
            crowd.expect(answer.status, 200, where="GET with Last-Event-ID")
            async for id, found in answer.messages():
                event = id or event
                last = found or last
        crowd.counts["resumed"] += 1
        await asyncio.sleep(0.02)
    crowd.surprises[f"no answer to {message['params']['name']}: {str(last)[:80]}"] += 1


async def given_up(
    crowd: Crowd, rng: random.Random, headers: Mapping[str, str], number: int
) -> None:
    """Call something that takes long, and cancel it."""
    message = calling(*rng.choice([("wait", {"seconds": 30}), ("user", {})]), number)
    cancel = request("notifications/cancelled", {"requestId": number})
    del cancel["id"]
    running = asyncio.create_task(crowd.post(rng, message, headers, leaving=0, expected=(200, 202)))
    try:
        await asyncio.sleep(rng.random() * 0.3)
        await crowd.post(rng, cancel, headers, leaving=0, expected=(202,))
        await running
    finally:
        running.cancel()
    crowd.counts["cancelled"] += 1


async def standalone(crowd: Crowd, rng: random.Random, headers: Mapping[str, str]) -> None:
    """Hold the stream of a session open, and lose it now and then."""
    event = ""
    while True:
        back = {**headers, "Accept": "text/event-stream"}
        if event:
            back["Last-Event-ID"] = event
        with suppress(Left):
            data = packed("GET", "/mcp", back)
            async with exchange(crowd.port, data, rng, leaving=0.05) as answer:
                crowd.expect(answer.status, 200, 503, where="GET")
                with suppress(TimeoutError):
                    with anyio.fail_after(rng.random() * 5):
                        async for id, _ in answer.messages():
                            event = id or event
                            crowd.counts["told"] += 1
        await asyncio.sleep(0.05)


async def without_session(crowd: Crowd, rng: random.Random) -> None:
    """A client of 2026-07-28: it calls, and calls again with what it was asked for."""
    call = a_call(rng, rng.randrange(10**6))
    for _ in range(5):
        message, headers = announced(call)
        last, _, _ = await crowd.post(rng, message, headers, leaving=0.1, expected=(200, 400))
        result = last.get("result", {})
        if result.get("resultType") != "input_required":
            crowd.counts["calls"] += 1
            return
        asked = result.get("inputRequests", {})
        call["params"]["inputResponses"] = {key: answer_to(each) for key, each in asked.items()}
        call["params"].pop("requestState", None)
        if "requestState" in result:
            call["params"]["requestState"] = result["requestState"]
    crowd.surprises["asked five times"] += 1


async def listener(crowd: Crowd, rng: random.Random) -> None:
    """A client of 2026-07-28 that listens for changes, and leaves."""
    wanted = {
        "toolsListChanged": True,
        "resourceSubscriptions": [f"pressed://{rng.randrange(20)}" for _ in range(5)],
    }
    message, headers = announced(request("subscriptions/listen", {"notifications": wanted}))
    with suppress(TimeoutError):
        with anyio.fail_after(rng.random() * 6):
            await crowd.post(rng, message, headers)
    crowd.counts["listened"] += 1


async def of_2024_11_05(crowd: Crowd, rng: random.Random) -> None:
    """A client of HTTP+SSE."""
    data = packed("GET", "/sse", {"Accept": "text/event-stream"})
    async with exchange(crowd.port, data, rng, leaving=0.05) as answer:
        crowd.expect(answer.status, 200, 503, where="/sse")
        if answer.status != 200:
            return
        arriving = answer.messages()
        path = (await anext(arriving))[1]["address"]

        async def say(message: Any, *expected: int) -> None:
            await crowd.post(rng, message, {}, path=path, leaving=0, expected=expected or (202,))

        async def until(id: Any) -> None:
            async for _, found in arriving:
                if "method" in found and "id" in found:
                    await say({"jsonrpc": "2.0", "id": found["id"], "result": answer_to(found)})
                elif found.get("id") == id:
                    return
            raise ConnectionError("the stream has ended")

        await say(initialize("2024-11-05"))
        await until(0)
        await say(READY)
        for number in range(1, rng.randrange(2, 8)):
            await say(a_call(rng, number))
            if rng.random() < 0.1:
                raise Left
            await until(number)
            crowd.counts["calls"] += 1
            if rng.random() < 0.2:
                await say(rng.choice(GARBAGE), 202, 400, 413)


async def our_own(crowd: Crowd, rng: random.Random) -> None:
    """mcpkit's client."""
    mode = rng.choice([MODERN, *LEGACY])

    def elicit(params: Mapping[str, Any]) -> Message:
        return answer_to({"method": "elicitation/create", "params": params})

    url = f"http://127.0.0.1:{crowd.port}/mcp"
    async with Client(
        url, revision=mode, elicitation=elicit, sampling=lambda params: SAMPLED
    ) as client:
        for _ in range(rng.randrange(1, 8)):
            name, arguments = rng.choice(CALLS)
            with suppress(TimeoutError):
                try:
                    with anyio.fail_after(PATIENCE if rng.random() < 0.9 else 0.02):
                        await client.call_tool(name, arguments(rng))
                        crowd.counts["calls"] += 1
                except Exception as error:
                    if name not in ("missing", "fail", "add"):
                        raise
                    crowd.counts[type(error).__name__] += 1


async def abandons(crowd: Crowd, rng: random.Random) -> None:
    """Clients that begin sessions, take a little state, and never come back."""
    for _ in range(20):
        _, _, found = await crowd.post(rng, initialize(LEGACY[-1]), {}, leaving=0)
        headers = {"Mcp-Session-Id": found["mcp-session-id"]}
        message = request("logging/setLevel", {"level": "debug"})
        await crowd.post(rng, message, headers, leaving=0)
        crowd.counts["abandoned"] += 1


async def malformed(crowd: Crowd, rng: random.Random) -> None:
    """A client that sends garbage."""
    if rng.random() < 0.7:
        await crowd.post(
            rng,
            rng.choice(GARBAGE),
            rng.choice([{}, {"Mcp-Session-Id": "x"}, {"MCP-Protocol-Version": MODERN}]),
            expected=(202, 400, 404, 409, 413),
        )
        return
    reader, writer = await asyncio.open_connection("127.0.0.1", crowd.port)
    try:
        writer.write(rng.choice([rng.randbytes(200), b"GET /", b"\r\n" * 50, b"\x16\x03\x01"]))
        await writer.drain()
        with suppress(TimeoutError, ConnectionError):
            with anyio.fail_after(0.2):
                await reader.read()
    finally:
        writer.transport.abort()
    crowd.counts["garbage"] += 1


async def prober(crowd: Crowd, rng: random.Random) -> None:
    """A client that behaves."""
    message, headers = announced(calling("add", {"a": 1, "b": 2}))
    last, _, _ = await crowd.post(rng, message, headers, leaving=0)
    if last["result"]["structuredContent"] != {"result": 3}:
        crowd.surprises[f"1 + 2 is {last}"] += 1
    await asyncio.sleep(0.1)


ACTORS: list[tuple[Actor, int]] = [
    (in_a_session, 12),
    (without_session, 8),
    (listener, 6),
    (of_2024_11_05, 5),
    (our_own, 3),
    (abandons, 1),
    (malformed, 2),
    (prober, 1),
]


# --- the run ------------------------------------------------------------------------------------


async def held(crowd: Crowd) -> dict[str, int]:
    """What the server says that it holds."""
    message, headers = announced(calling("state", {"objects": True}))
    last, _, _ = await crowd.post(random.Random(), message, headers, leaving=0)
    found: dict[str, int] = last["result"]["structuredContent"]
    return found


async def soak(server: Server, minutes: float, seed: int) -> list[str]:
    """Run; what is wrong in the end."""
    crowd = Crowd(server.port)
    for _ in range(50):
        await prober(crowd, random.Random(0))
    before, first_descriptors = await held(crowd), server.descriptors()
    print(f"before: {server.memory():.1f} MiB, {first_descriptors} fds, {before}", flush=True)
    playing = [
        asyncio.create_task(crowd.play(actor, random.Random(f"{seed} {actor.__name__} {place}")))
        for actor, count in ACTORS
        for place in range(count)
    ]
    memory: list[float] = []
    begun = time.monotonic()
    next_line = 60.0
    while (elapsed := time.monotonic() - begun) < minutes * 60:
        await asyncio.sleep(SAMPLE_EVERY)
        memory.append(server.memory())
        if elapsed + SAMPLE_EVERY >= next_line:
            next_line += 60
            print(
                f"{elapsed / 60:4.1f} min: {server.memory():.1f} MiB, {server.descriptors()} fds\n"
                f"  holds {await held(crowd)}\n"
                f"  counts {dict(crowd.counts)}\n"
                f"  surprises {dict(crowd.surprises)}",
                flush=True,
            )
    crowd.over = True
    _, late = await asyncio.wait(playing, timeout=PATIENCE + 10)
    for task in late:
        task.cancel()
        crowd.surprises[f"still running: {task.get_coro()}"] += 1
    wrong = [f"{count} × {what}" for what, count in crowd.surprises.items()]
    wrong += await leaks(server, crowd, before, first_descriptors)
    third = len(memory) // 3
    middle, last = statistics.mean(memory[third:-third]), statistics.mean(memory[-third:])
    growth = f"memory: {middle:.1f} MiB in the middle third, {last:.1f} MiB in the last"
    print(growth, flush=True)
    return [*wrong, growth] if last > middle * GROWTH else wrong


async def leaks(
    server: Server, crowd: Crowd, before: Mapping[str, int], descriptors: int
) -> list[str]:
    """What the server still holds when all clients have left, and it has had time to forget."""
    after: dict[str, int] = {}
    more: list[str] = []
    for _ in range(60):
        await asyncio.sleep(2)
        after = await held(crowd)
        more = [
            f"{after[name]} {name}, {before[name]} before"
            for name in before
            if name not in ("ended", "spare", "threads") and after[name] > before[name]
        ]
        if server.descriptors() > descriptors:
            more.append(f"{server.descriptors()} descriptors, {descriptors} before")
        if not more:
            break
    print(f"after: {server.memory():.1f} MiB, {server.descriptors()} fds, {after}", flush=True)
    if after["threads"] > 45:
        more.append(f"{after['threads']} threads")
    return more


def main() -> None:
    """Run the soak; exit code 1 if anything leaked or surprised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    logging.getLogger("mcpkit.client").setLevel(logging.CRITICAL)
    command = [sys.executable, "-m", "mcpkit", "run", str(SERVER), "--http", "--sse"]
    server = Server(command, SETTINGS)
    try:
        wrong = asyncio.run(soak(server, given.minutes, given.seed))
    finally:
        code = server.stop()
    if code != 0:
        wrong.append(f"the server ended with {code}")
    said = server.stderr
    if "Traceback" in said:
        wrong.append(f"the server's log has tracebacks: …{said[-3000:]}")
    print("\n".join(["FAILED", *wrong]) if wrong else "nothing leaked", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
