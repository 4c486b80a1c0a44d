"""Serve one honest client among hostile ones for minutes: `python -m benchmarks.siege`.

The attackers come from four addresses and have no login: they flood, fuzz, do not read, hardly
write, leave what they have called, listen to everything, send giants, and keep all threads busy. An
honest client from another address uses the server meanwhile, with its default settings: all of its
calls must succeed, 99 of 100 within a quarter of a second, and when the attackers have left, the
server's memory must be what it was after three minutes of the same.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import anyio

from benchmarks.traffic import (
    GARBAGE,
    LEGACY,
    READY,
    ROOT,
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

SERVERS: Final = {
    "mcpkit": [sys.executable, "-m", "mcpkit", "run", "tests/transports/http/pressed.py", "--http"],
    "uvicorn": [
        *(sys.executable, "-m", "uvicorn", "tests.transports.http.pressed:app"),
        *("--log-level", "warning", "--no-access-log"),
    ],
}
PATIENCE: Final = 30.0
"""Seconds after which the honest client gives up, and the run has failed."""

QUICK: Final = 0.25
"""Seconds in which 99 of 100 honest calls must be answered."""

GROWTH: Final = 1.2
WARM_UP: Final = 180.0
"""Seconds after which a server has held as many sessions as it does later."""
HOSTILE: Final = [f"127.0.0.{number}" for number in range(2, 6)]
HONEST: Final = "127.0.0.1"


# --- HTTP -----------------------------------------------------------------------------------------


@asynccontextmanager
async def connected(
    port: int, source: str
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter], None]:
    """A connection from an address."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def modern(method: str, **params: Any) -> bytes:
    """A request of 2026-07-28."""
    return posted(*announced(request(method, params)))


def call(tool: str, **arguments: Any) -> bytes:
    return posted(*announced(calling(tool, arguments)))


async def begin(port: int, source: str, **capabilities: Any) -> dict[str, str]:
    """Begin a session; return its headers."""
    version = LEGACY[-1]
    async with connected(port, source) as (reader, writer):
        writer.write(posted(initialize(version, capabilities), {}))
        found = await answer_from(reader)
        if found.status != 200:
            raise ConnectionError(f"{found.status} to initialize")
        headers = {
            "Mcp-Session-Id": found.headers["mcp-session-id"],
            "MCP-Protocol-Version": version,
        }
        await found.last()
        writer.write(posted(READY, headers))
        await answer_from(reader)
        return headers


# --- attackers ------------------------------------------------------------------------------------


class Attack:
    """Who attacks what, and how."""

    def __init__(self, port: int, seed: str) -> None:
        self.port = port
        self.rng = random.Random(seed)
        self.source = self.rng.choice(HOSTILE)

    async def send(self, data: bytes, *, hold: float = 0, read: bool = True) -> None:
        """Send something, read an answer or do not, and hold the connection for a while."""
        async with connected(self.port, self.source) as (reader, writer):
            writer.write(data)
            if read:
                with suppress(TimeoutError):
                    with anyio.fail_after(5):
                        await writer.drain()
                        await reader.read(65536)
            await asyncio.sleep(hold)


async def floods(attack: Attack) -> None:
    """Small calls, many at once on one connection."""
    async with connected(attack.port, attack.source) as (reader, writer):
        for _ in range(50):
            writer.write(call("add", a=1, b=2) * 4)
            with anyio.fail_after(10):
                await writer.drain()
                await reader.read(65536)


async def fuzzes(attack: Attack) -> None:
    """Messages and heads with bytes changed, left out and added."""
    rng = attack.rng
    whole = bytearray(rng.choice([call("add", a=1, b=2), posted(rng.choice(GARBAGE), {})]))
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(whole))
        kind = rng.randrange(3)
        if kind == 0:
            whole[at] = rng.randrange(256)
        elif kind == 1:
            del whole[at : at + rng.randrange(1, 20)]
        else:
            whole[at:at] = rng.randbytes(rng.randrange(1, 20))
    async with connected(attack.port, attack.source) as (reader, writer):
        writer.write(bytes(whole))
        with suppress(TimeoutError):
            with anyio.fail_after(0.3):
                await reader.read(65536)


async def leaves(attack: Attack) -> None:
    """Calls of a session whose client does not wait for their end."""
    headers = await begin(attack.port, attack.source, elicitation={})
    for number in range(20):
        message = calling(*attack.rng.choice([("wait", {"seconds": 20}), ("user", {})]), number)
        async with connected(attack.port, attack.source) as (_, writer):
            writer.write(posted(message, headers))
            await writer.drain()
            await asyncio.sleep(0.01)


async def opens_streams(attack: Attack) -> None:
    if attack.rng.random() < 0.5:
        data = packed("GET", "/sse", {"Accept": "text/event-stream"})
    else:
        headers = await begin(attack.port, attack.source)
        data = packed("GET", "/mcp", {"Accept": "text/event-stream", **headers})
    await attack.send(data, hold=15)


GIANTS: Final[list[Callable[[], bytes]]] = [
    lambda: b"[" + b"{}," * 2_600_000 + b"{}]",
    lambda: b"{" + b",".join(b'"k%d":1' % number for number in range(600_000)) + b"}",
    lambda: b'{"a":1,"b":[' + b"1.5," * 1_500_000 + b"1]}",
    lambda: b'{"value":"' + b"\\u00e9" * 1_300_000 + b'"}',
    lambda: b'{"a":{"x":' + b'"y"' + b'},"b":"' + b"z" * 7_000_000 + b'"}',
    lambda: b'{"a":[' + b'"x",' * 90_000 + b'"x"],"b":1}',
    lambda: b"{" + b",".join(b'"u%d":[]' % number for number in range(45_000)) + b"}",
]


async def sends_giants(attack: Attack) -> None:
    """Bodies of almost the greatest length, of the kinds that take long to read."""
    arguments = attack.rng.choice(GIANTS)()
    message, headers = announced(request("tools/call", {"name": "add", "arguments": "@"}))
    body = json.dumps(message).encode().replace(b'"@"', arguments)
    await attack.send(posted(body, headers))
    await asyncio.sleep(1)


async def begins_sessions(attack: Attack) -> None:
    headers = await begin(attack.port, attack.source)
    await attack.send(posted(request("logging/setLevel", {"level": "debug"}), headers))
    for number in range(10):
        uri = f"pressed://{number}/{'x' * 3000}"
        await attack.send(posted(request("resources/subscribe", {"uri": uri}), headers))


def changed_headers(rng: random.Random) -> bytes:
    many = {f"X-{number}": "y" for number in range(rng.choice([10, 1000]))}
    long = {"Origin": f"http://{rng.randbytes(8).hex() * rng.choice([1, 1000, 100_000])}"}
    # Not more: plain uvicorn reads heads of any length before it calls an application.
    repeated = b"a: b\r\n" * rng.choice([10, 5_000])
    return packed("POST", "/mcp", rng.choice([many, long]))[:-2] + repeated + b"\r\n"


def unread(rng: random.Random) -> bytes:
    large = call("large", size=rng.choice([300_000, 3_000_000]))
    return rng.choice([large, call("advance", steps=3000, size=1000)])


def half_written(rng: random.Random) -> bytes:
    whole = call("length", value="x" * rng.choice([100, 100_000, 4_000_000]))
    return whole[: rng.randrange(len(whole))]


def listening(rng: random.Random) -> bytes:
    """To everything there is, and to much that there is not."""
    uris = [f"pressed://{number}{'x' * rng.choice([1, 2000])}" for number in range(500)]
    wanted = {"toolsListChanged": True, "resourceSubscriptions": uris}
    return modern("subscriptions/listen", notifications=wanted)


def wrong_cursor(rng: random.Random) -> bytes:
    return modern("tools/list", cursor=rng.randbytes(20).hex() * rng.choice([1, 100, 5000]))


def wrong_state(rng: random.Random) -> bytes:
    state = rng.randbytes(100).hex() * rng.choice([1, 1000])
    return modern("tools/call", name="user", arguments={}, requestState=state, inputResponses={})


def sending(
    made: Callable[[random.Random], bytes], *, hold: float = 0, read: bool = True
) -> Callable[[Attack], Awaitable[None]]:
    """An attack by one request on a connection of its own."""
    return lambda attack: attack.send(made(attack.rng), hold=hold, read=read)


ATTACKS: Final[list[tuple[Callable[[Attack], Awaitable[None]], int]]] = [
    (floods, 2),
    (fuzzes, 4),
    (leaves, 3),
    (opens_streams, 20),
    (sends_giants, 1),
    (begins_sessions, 3),
    (sending(unread, hold=10, read=False), 12),
    (sending(half_written, hold=10, read=False), 12),
    (sending(listening, hold=15), 20),
    (sending(lambda rng: call("work", steps=100, pause=0.05), hold=3), 60),
    (sending(lambda rng: call("touch", name=str(rng.randrange(500)))), 1),
    (sending(changed_headers), 2),
    (sending(wrong_cursor), 2),
    (sending(wrong_state), 1),
]


async def attack(port: int, seconds: float, seed: int) -> None:
    """Attack a server for a while, and leave."""

    async def again_and_again(kind: Callable[[Attack], Awaitable[None]], name: str) -> None:
        while True:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, IndexError, KeyError):
                await kind(Attack(port, f"{name} {time.monotonic()}"))
            await asyncio.sleep(0.02)

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as group:
            for number, (kind, count) in enumerate(ATTACKS):
                for place in range(count):
                    group.start_soon(again_and_again, kind, f"{seed} {number} {place}")


# --- the honest client ----------------------------------------------------------------------------


class Honest:
    """A client that behaves, what it has got, and how long that took."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.waits: list[float] = []
        self.failures: Counter[str] = Counter()
        self._session: dict[str, str] = {}

    async def get(self, data: bytes) -> Message:
        async with connected(self.port, HONEST) as (reader, writer):
            writer.write(data)
            found = await answer_from(reader)
            last = await found.last()
            if found.status != 200 or "error" in last:
                raise ConnectionError(f"{found.status} {str(last)[:200]}")
            result: Message = last["result"]
            return result

    async def in_a_session(self) -> Message:
        if not self._session:
            self._session = await begin(self.port, HONEST)
        return await self.get(posted(calling("advance", {"steps": 3}), self._session))

    async def uses(self, until: float) -> None:
        """Use the server again and again."""
        kinds: dict[str, tuple[Callable[[], Awaitable[Message]], Callable[[Message], bool]]] = {
            "calls": (
                lambda: self.get(call("add", a=1, b=2)),
                lambda found: found["structuredContent"] == {"result": 3},
            ),
            "calls in a thread": (lambda: self.get(call("work", steps=1, pause=0)), bool),
            "lists": (lambda: self.get(modern("tools/list")), lambda found: bool(found["tools"])),
            "reads": (lambda: self.get(modern("resources/read", uri="pressed://honest")), bool),
            "sends much": (
                lambda: self.get(call("length", value="x" * 200_000)),
                lambda found: found["structuredContent"] == {"result": 200_000},
            ),
            "gets much": (
                lambda: self.get(call("large", size=200_000)),
                lambda found: len(found["content"][0]["text"]) == 200_000,
            ),
            "calls in a session": (self.in_a_session, bool),
        }
        while time.monotonic() < until:
            for name, (use, is_right) in kinds.items():
                begun = time.perf_counter()
                try:
                    with anyio.fail_after(PATIENCE):
                        found = await use()
                    if not is_right(found):
                        self.failures[f"{name}: {found}"[:300]] += 1
                except Exception as error:
                    self.failures[f"{name}: {error!r}"[:300]] += 1
                self.waits.append(time.perf_counter() - begun)
                await asyncio.sleep(0.05)

    async def state(self) -> Message:
        """What the server says that it holds."""
        state: Message = (await self.get(call("state", objects=True)))["structuredContent"]
        return state

    @property
    def p99(self) -> float:
        return sorted(self.waits)[int(len(self.waits) * 0.99)]

    def summary(self) -> str:
        return (
            f"{len(self.waits)} honest calls, p99 {self.p99 * 1000:.1f} ms, "
            f"worst {max(self.waits) * 1000:.0f} ms, failures {dict(self.failures)}"
        )


# --- the run --------------------------------------------------------------------------------------


async def besieged(server: Server, seconds: float, seed: int) -> Honest:
    """Attack a server, and use it meanwhile."""
    honest = Honest(server.port)
    attackers = subprocess.Popen(
        [
            *(sys.executable, "-m", "benchmarks.siege", "--attack", str(server.port)),
            *("--minutes", str(seconds / 60), "--seed", str(seed)),
        ],
        cwd=ROOT,
    )
    end = time.monotonic() + seconds
    try:
        using = asyncio.create_task(honest.uses(end))
        while not using.done():
            await asyncio.wait([using], timeout=60)
            print(f"  {server.memory():6.1f} MiB  {honest.summary()}", flush=True)
        await using
    finally:
        attackers.terminate()
        attackers.wait(30)
    return honest


async def forgotten(server: Server) -> float:
    """The memory of a server that has had time to forget its clients, in MiB."""
    honest = Honest(server.port)
    for _ in range(60):
        await asyncio.sleep(2)
        state = await honest.state()
        if state["exchanges"] <= 1 and not any(map(state.get, ("streams", "waiting", "sessions"))):
            break
    else:
        raise AssertionError(f"it still holds {state}")
    print(f"  holds {state}", flush=True)
    return server.memory()


async def siege(name: str, minutes: float, seed: int) -> list[str]:
    """Besiege one kind of server; return what was wrong."""
    print(f"{name}:", flush=True)
    # The defaults, but for an end to wait for.
    settings = {"sse": True, "ask_timeout": 20, "session_idle": 20, "replay_time": 20}
    server = Server([*SERVERS[name]], settings)
    try:
        await besieged(server, min(WARM_UP, minutes * 60), seed)
        start = await forgotten(server)
        honest = await besieged(server, minutes * 60, seed + 1)
        end = await forgotten(server)
    finally:
        status = server.stop()
    print(f"  memory: {start:.1f} MiB after the warm-up, {end:.1f} MiB in the end", flush=True)
    wrong = [f"{name}: {count} × {what}" for what, count in honest.failures.items()]
    if honest.p99 > QUICK:
        wrong.append(f"{name}: p99 of the honest client is {honest.p99 * 1000:.0f} ms")
    if end > start * GROWTH:
        wrong.append(f"{name}: memory grew from {start:.1f} to {end:.1f} MiB")
    if status not in (0, -signal.SIGTERM):  # uvicorn ends by the signal that stops it
        wrong.append(f"{name}: exit status {status}: {server.stderr[-2000:]}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.siege", description=__doc__)
    parser.add_argument("--minutes", type=float, default=15, help="for each kind of server")
    parser.add_argument("--only", choices=list(SERVERS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--attack", type=int, metavar="PORT", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attack:
        asyncio.run(attack(options.attack, options.minutes * 60, options.seed))
        return 0
    wrong: list[str] = []
    for name in SERVERS:
        if options.only in (None, name):
            wrong += asyncio.run(siege(name, options.minutes, options.seed))
    print("\n".join(wrong) or "the honest client was served")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
