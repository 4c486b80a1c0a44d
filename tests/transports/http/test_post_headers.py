"""Headers of POSTs: no value is remembered but the verdicts that all clients share."""

from __future__ import annotations

import asyncio
import gc
import json
import types

import httpx2
import pytest

from mcpkit import MCPKit
from mcpkit.transports.http.requests import Shortcut
from tests.messages import LEGACY, MODERN, announced, called, initialize, request
from tests.transports.http.conftest import begins_at_once
from tests.transports.http.wire import EVENTS, JSON, headers_of

VALUES = {
    "authorization": b"Bearer s3cret",
    "cookie": b"id=s3cret",
    "traceparent": b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "x-anything": b"another s3cret",
}


def held_by(root: object) -> set[bytes]:
    """Every bytes object that can be reached from an object, without going through code."""
    seen: set[int] = set()
    found: set[bytes] = set()
    waiting = [root]
    passed_over = (type, types.ModuleType, types.FunctionType, types.CodeType, types.FrameType)
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, passed_over):
            continue
        seen.add(id(each))
        if isinstance(each, bytes):
            found.add(each)
        waiting += gc.get_referents(each)
    return found


def call(begin: Shortcut, version: str, token: str) -> None:
    """Call a tool, with headers that no other client sends."""
    params = called("add", {"a": 1, "b": 2})
    if version == MODERN:
        message = announced(1, "tools/call", **params)
        own = headers_of(message)
    else:
        message = request(1, "tools/call", params)
        own = {"Mcp-Session-Id": token, "MCP-Protocol-Version": version}
    headers = {"Host": "127.0.0.1", "Content-Type": JSON, "Accept": f"{JSON}, {EVENTS}", **own}
    pairs = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    pairs += [(name.encode(), value) for name, value in VALUES.items()]
    scope = {"headers": pairs, "server": None}
    answer = begin(scope, json.dumps(message).encode(), asyncio.get_running_loop())
    assert isinstance(answer, tuple)
    assert answer[0] == 200


@begins_at_once
@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
def test_no_value_of_a_request_is_kept_once_it_is_answered(version: str) -> None:
    """SEC-13: neither secrets, nor what is another one in each request."""
    app = MCPKit("forgetful")

    @app.tool
    async def add(a: int, b: int) -> int:
        return a + b

    asgi = app.asgi(loopback=True)

    async def main() -> set[bytes]:
        transport = httpx2.ASGITransport(asgi)
        async with httpx2.AsyncClient(transport=transport) as client:
            began = await client.post("http://127.0.0.1/mcp", json=initialize(LEGACY[-1]))
            token = began.headers["mcp-session-id"]
        call(asgi.shortcuts[b"/mcp"], version, token)
        return held_by(asgi)

    kept = asyncio.run(main())
    assert kept, "the test can see what is kept"
    assert kept & set(VALUES.values()) == set()
