"""The limit over HTTP: an ASGI application with the bare needs of a tools/call, and nothing else.

It runs on uvicorn with uvloop and httptools. Of the protocol it looks at the envelope, at the
session id, and on 2026-07-28 at the headers that repeat the body. There is no routing, no look at
`Origin`, `Accept` or sizes, no cancellation and no error handling.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Literal

import uvicorn
from pydantic_core import from_json, to_json

from benchmarks.servers.bare_server import MODERN_MARK, SERVER_INFO, VERSION_KEY, BareTool
from benchmarks.servers.many import add

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

_MODERN = "2026-07-28"
_JSON = (b"content-type", b"application/json")

_validate = BareTool(add).validate
_sessions: set[bytes] = set()


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
        session = secrets.token_hex(16).encode()
        _sessions.add(session)
        result: dict[str, object] = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": SERVER_INFO,
        }
        answer = to_json({"jsonrpc": "2.0", "id": message["id"], "result": result})
        return await _send_json(send, 200, answer, (b"mcp-session-id", session))
    params: dict[str, Any] = message.get("params", {})
    meta: dict[str, Any] = params.get("_meta") or {}
    modern = meta.get(VERSION_KEY) == _MODERN
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
    value = await add(**_validate(params["arguments"]))
    result = {
        "content": [{"type": "text", "text": to_json(value).decode()}],
        "structuredContent": {"result": value},
    }
    if modern:
        result.update(MODERN_MARK)
    answer = to_json({"jsonrpc": "2.0", "id": message["id"], "result": result})
    return await _send_json(send, 200, answer)


async def _send_json(send: Send, status: int, body: bytes, *more: tuple[bytes, bytes]) -> None:
    headers = [_JSON, (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


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
