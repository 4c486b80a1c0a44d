"""Measure for how long one message can hold up a server: `python -m benchmarks.blocking`.

Bodies of almost the greatest length, and of about as many values as one may have, are served while
a probe on the same event loop notes the most processor time between two of its turns. The exit
status is 1 if that is more than a tenth of a second.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Json

from benchmarks.traffic import JSON_HEADERS, announced, post, request
from mcpkit import Limits, MCPKit

LONGEST: Final = 0.1
"""Seconds for which a message may hold up the event loop."""

COLLIDING: Final = 2**61 - 1
"""Integers whose difference is a multiple of it have the same hash."""

BODY: Final = Limits().max_body - 4096
VALUES: Final = Limits().max_values - 1000


class Point(BaseModel):
    x: int
    y: int = 0
    name: str = ""


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float


class Branch(BaseModel):
    inner: Branch | Leaf | None = None


class Leaf(BaseModel):  # nothing tells it apart from a branch
    inner: Branch | Leaf | None = None
    end: int = 0


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    x: int = 0


app = MCPKit("blocking")
TYPES: Final[Mapping[str, Any]] = {
    "anything": Any,
    "points": list[Point],
    "numbers": list[int],
    "table": dict[str, int],
    "either": list[Circle | Square],
    "text": str,
    "distinct": set[int],
    "groups": list[set[UUID]],
    "by_number": dict[int, int],
    "branches": Branch | Leaf | list[Branch | Leaf],
    "closed": Closed | list[Closed],
    "pattern": re.Pattern[str],
    "inner_json": Json[list[int]],
    "decimals": Decimal | list[Decimal],
    "by_id": list[dict[UUID, int]],
}
"""The type of the argument of each tool."""


def offer(name: str, argument: Any) -> None:
    async def tool(value: Any) -> int:
        return 0

    tool.__annotations__["value"] = argument
    app.add_tool(tool, name=name)


for each in TYPES:
    offer(each, TYPES[each])


@app.tool(
    input_schema={
        "type": "object",
        "properties": {"value": {"uniqueItems": True, "items": {"type": ["object", "integer"]}}},
    }
)
async def by_schema(**arguments: Any) -> int:
    return len(arguments)


@app.tool
def in_thread(value: list[Point]) -> int:
    return len(value)


def filled(part: str, values: int) -> str:
    """An array of as many parts as fit."""
    count = min(BODY // (len(part) + 1), VALUES // values)
    return "[" + ",".join([part] * count) + "]"


def listed(part: Callable[[int], str], most: int = VALUES) -> str:
    """An array of parts that differ, as many as fit."""
    length = len(part(most)) + 1
    return "[" + ",".join(map(part, range(min(BODY // length, most)))) + "]"


def nested(levels: int) -> str:
    """An object in an object, and so on; the innermost is wrong."""
    return '{"inner":' * levels + '{"end":"x"}' + "}" * levels


def keyed(value: str, name: Callable[[int], str] = "k{}".format) -> str:
    """An object of as many members as fit, no two of one name."""
    count = min(BODY // (len(name(VALUES)) + len(value) + 5), VALUES)
    return "{" + ",".join(f'"{name(number)}":{value}' for number in range(count)) + "}"


VALUES_BY_NAME: Final[Mapping[str, Callable[[], str]]] = {
    "empty objects": lambda: filled("{}", 1),
    "points": lambda: filled('{"x":1,"y":2,"name":"n"}', 4),
    "wrong points": lambda: filled('{"x":"a","y":[],"name":1}', 4),
    "numbers": lambda: filled("1", 1),
    "floats": lambda: filled("1.5e7", 1),
    "wrong numbers": lambda: filled('"x"', 1),
    "long texts": lambda: filled(json.dumps("x" * 400), 1),
    "members": lambda: keyed("1"),
    "wrong members": lambda: keyed('"x"'),
    "circles": lambda: filled('{"kind":"circle","radius":1}', 3),
    "neither": lambda: filled('{"kind":"line","radius":1}', 3),
    "one text": lambda: json.dumps("x" * BODY),
    "one text of escapes": lambda: '"' + "\\u00e9" * (BODY // 6) + '"',
    "one text of commas": lambda: '"' + "," * BODY + '"',
    "one text of quotes": lambda: '"' + '\\"' * (BODY // 2) + '"',
    "long names": lambda: keyed("1", "{:0150}".format),
    "colliding names": lambda: keyed("1", lambda number: str(number * COLLIDING)),
    "colliding numbers": lambda: listed(lambda number: str(number * COLLIDING)),
    "colliding ids": lambda: listed(lambda number: f'["{UUID(int=number * COLLIDING)}"]'),
    "groups of colliding ids": lambda: listed(
        lambda number: json.dumps(
            [str(UUID(int=(1500 * number + each) * COLLIDING)) for each in range(1500)]
        ),
        VALUES // 1501,
    ),
    "objects of colliding ids": lambda: listed(
        lambda number: json.dumps(
            {str(UUID(int=(900 * number + each) * COLLIDING)): 1 for each in range(900)}
        ),
        VALUES // 901,
    ),
    "long numbers": lambda: listed(lambda number: "7" * 4200, BODY // 4201),
    "one text of digits": lambda: '"' + "7" * BODY + '"',
    "one text of numbers": lambda: '"[' + "1," * (BODY // 2 - 3) + '1]"',
    "one text of long numbers": lambda: '"[' + ",".join(["7" * 4200] * (BODY // 4201)) + ']"',
    "objects in each other": lambda: nested(100),
    "many objects in each other": lambda: listed(lambda number: nested(9), VALUES // 12),
    "nested": lambda: "[" * 150 + "]" * 150,
    "too many values": lambda: "[" + "1," * (BODY // 2 - 1) + "1]",
}


async def longest(asgi: Any, body: bytes, headers: Mapping[str, str]) -> tuple[float, int]:
    """The longest time for which the event loop did not turn, and the status of the answer."""
    raw = {name.lower().encode(): value.encode() for name, value in headers.items()}
    # Processor time, so that what else the machine does is not counted.
    gaps = [0.0]
    over = False

    async def probe() -> None:
        last = time.process_time()
        while not over:
            await asyncio.sleep(0)
            now = time.process_time()
            gaps.append(now - last)
            last = now

    probing = asyncio.create_task(probe())
    await asyncio.sleep(0)
    status, _, _ = await asyncio.create_task(post(asgi, raw, body))
    over = True
    await probing
    return max(gaps), status


async def main() -> int:
    """Serve each body to each tool, and print what took longest."""
    asgi = app.asgi(loopback=True)
    found: list[tuple[float, str]] = []
    cases: dict[str, tuple[str, Any, Callable[[], str]]] = {
        f"{tool.name}({name})": (tool.name, {"value": "@"}, made)
        for tool in app.server.registry.tools.values()
        for name, made in VALUES_BY_NAME.items()
    }
    cases["text(unknown arguments)"] = ("text", "@", lambda: keyed("1"))
    for title, (tool, arguments, made) in cases.items():
        message, headers = announced(request("tools/call", {"name": tool, "arguments": arguments}))
        body = json.dumps(message).replace('"@"', made()).encode()
        results = [await longest(asgi, body, {**JSON_HEADERS, **headers}) for _ in range(3)]
        gap = min(each for each, _ in results)
        found.append((gap, f"{title}, {len(body) / 1e6:.1f} MB: {results[0][1]}"))
    found.sort(reverse=True)
    for gap, name in found[:12]:
        print(f"{gap * 1000:7.1f} ms  {name}")
    return 1 if found[0][0] > LONGEST else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
