"""The limit over HTTP: an ASGI application that does what a tools/call needs, and nothing else.

It runs on uvicorn with uvloop and httptools. Of the protocol it looks at the envelope, at the
session id, and on 2026-07-28 at the headers that repeat the body. There is no routing, no look at
`Origin`, `Accept` or sizes, no cancellation and no error handling.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Literal

import uvicorn
from pydantic_core import SchemaValidator, core_schema, from_json, to_json

from benchmarks.servers.bare_asyncio import BareTool, add

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

_MODERN = "2026-07-28"
_VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
_SERVER_INFO = {"name": "bare", "version": "1"}
_MODERN_MARK: dict[str, object] = {
    "resultType": "complete",
    "_meta": {"io.modelcontextprotocol/serverInfo": _SERVER_INFO},
}
_JSON = (b"content-type", b"application/json")
_STREAM = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]

_validate_add = BareTool(add).validate
_validate_count = SchemaValidator(
    core_schema.typed_dict_schema({"steps": core_schema.typed_dict_field(core_schema.int_schema())})
).validate_python
_sessions: set[bytes] = set()


async def count(send: Send, token: object, *, steps: int) -> int:
    """Report that many steps of progress."""
    for step in range(1, steps + 1):
        params = {"progressToken": token, "progress": step}
        await _send_event(send, {"method": "notifications/progress", "params": params})
    return steps


async def app(scope: Message, receive: Receive, send: Send) -> None:
    """Answer one POST, whatever its path."""
    event = await receive()
    body = event["body"]
    while event["more_body"]:
        event = await receive()
        body += event["body"]
    message = from_json(body)
    headers = dict(scope["headers"])
    method = message["method"]
    if message["jsonrpc"] != "2.0" or not isinstance(message.get("id", 0), (int, str)):
        return await _send_json(send, 400, b"")
    if method == "initialize":
        return await _initialize(send, message)
    params: dict[str, Any] = message.get("params", {})
    meta: dict[str, Any] = params.get("_meta") or {}
    modern = meta.get(_VERSION_KEY) == _MODERN
    if modern:
        if (
            headers.get(b"mcp-protocol-version") != _MODERN.encode()
            or headers.get(b"mcp-method") != method.encode()
            or headers.get(b"mcp-name") != params["name"].encode()
        ):
            return await _send_json(send, 400, b"")
    elif headers.get(b"mcp-session-id") not in _sessions:
        return await _send_json(send, 404, b"")
    if "id" not in message:
        return await _send_json(send, 202, b"")
    streams = params["name"] == "count"
    if streams:
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM})
        arguments = _validate_count(params["arguments"])
        value = await count(send, meta["progressToken"], **arguments)
    else:
        value = await add(**_validate_add(params["arguments"]))
    result: dict[str, object] = {
        "content": [{"type": "text", "text": to_json(value).decode()}],
        "structuredContent": {"result": value},
    }
    if modern:
        result.update(_MODERN_MARK)
    if not streams:
        answer = to_json({"jsonrpc": "2.0", "id": message["id"], "result": result})
        return await _send_json(send, 200, answer)
    await _send_event(send, {"id": message["id"], "result": result})
    return await send({"type": "http.response.body"})


async def _initialize(send: Send, message: Message) -> None:
    session = secrets.token_hex(16).encode()
    _sessions.add(session)
    result: dict[str, object] = {
        "protocolVersion": message["params"]["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": _SERVER_INFO,
    }
    answer = to_json({"jsonrpc": "2.0", "id": message["id"], "result": result})
    await _send_json(send, 200, answer, (b"mcp-session-id", session))


async def _send_json(send: Send, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [_JSON, (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _send_event(send: Send, message: dict[str, object]) -> None:
    data = b"data: %b\n\n" % to_json({"jsonrpc": "2.0", **message})
    await send({"type": "http.response.body", "body": data, "more_body": True})


def run(port: int, application: Application = app, lifespan: Literal["on", "off"] = "off") -> None:
    """Serve it on the server stack that mcpkit has by default, without its log of requests."""
    uvicorn.run(
        application,
        port=port,
        loop="uvloop",
        http="httptools",
        lifespan=lifespan,
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
    )


if __name__ == "__main__":
    run(int(sys.argv[1]))
