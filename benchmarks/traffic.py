"""Messages, raw HTTP and ASGI to talk to servers with, and servers under load."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

from mcpkit._protocol.connection import CAPABILITIES_KEY, LOG_LEVEL_KEY, VERSION_KEY
from mcpkit._protocol.revisions import HANDSHAKE, PER_REQUEST
from tests.docs.pages import free_port, is_open
from tests.kit import eventually
from tests.transports.processes import Process

ROOT = Path(__file__).resolve().parents[1]
MODERN = PER_REQUEST[-1].version
LEGACY = [each.version for each in HANDSHAKE]
JSON_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}
PATIENCE = 60.0
"""Seconds after which a client gives up, and the run has failed."""

Message = dict[str, Any]
CAPABILITIES: Message = {"elicitation": {}, "sampling": {}, "roots": {}}
READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}
GARBAGE = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"text"',
    b"[" * 5000,
    b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}',
    b'{"jsonrpc":"2.0","id":1,"result":{}}',
    b'{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":""}}',
    b"\xff\xfe\x00",
    b"[" + b",".join([b'{"jsonrpc":"2.0","id":1,"method":"ping"}'] * 300) + b"]",
]


# --- messages -------------------------------------------------------------------------------------


def request(method: str, params: Mapping[str, Any], id: Any = 1) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def calling(tool: str, arguments: Mapping[str, Any], id: Any = 1) -> Message:
    return request("tools/call", {"name": tool, "arguments": arguments}, id)


def initialize(version: str, capabilities: Message = CAPABILITIES) -> Message:
    client = {"name": "load", "version": "1"}
    params = {"protocolVersion": version, "capabilities": capabilities, "clientInfo": client}
    return request("initialize", params, 0)


def announced(message: Message) -> tuple[Message, dict[str, str]]:
    """A message as 2026-07-28 has it, and its headers."""
    params = message["params"]
    meta = {
        VERSION_KEY: MODERN,
        CAPABILITIES_KEY: CAPABILITIES,
        LOG_LEVEL_KEY: "info",
        **params.get("_meta", {}),
    }
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
    if name := params.get("name", params.get("uri")):
        headers["Mcp-Name"] = name
    return {**message, "params": {**params, "_meta": meta}}, headers


# --- HTTP -----------------------------------------------------------------------------------------


def packed(method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """A request as it is sent."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def posted(message: Any, headers: Mapping[str, str], path: str = "/mcp") -> bytes:
    """A message, or the bytes of something that is none, as it is posted."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return packed("POST", path, {**JSON_HEADERS, **headers}, body)


class Answer:
    """A response whose body is read as it comes."""

    def __init__(self, reader: asyncio.StreamReader, status: int, headers: dict[str, str]) -> None:
        self.reader = reader
        self.status = status
        self.headers = headers

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(await self.reader.readline(), 16):
                yield (await self.reader.readexactly(size + 2))[:-2]
            await self.reader.readline()
        elif length := int(self.headers.get("content-length", 0)):
            yield await self.reader.readexactly(length)

    async def messages(self) -> AsyncGenerator[tuple[str, Message], None]:
        """Messages with the ids of their events; a priming event has an empty message."""
        if self.headers.get("content-type") == "application/json":
            body = b"".join([chunk async for chunk in self.chunks()])
            found = json.loads(body)
            for each in found if isinstance(found, list) else [found]:
                yield "", each
            return
        rest = b""
        async for chunk in self.chunks():
            *blocks, rest = (rest + chunk).split(b"\n\n")
            for block in blocks:
                fields = dict(line.partition(b": ")[::2] for line in block.split(b"\n"))
                data = fields.get(b"data")
                if fields.get(b"event") == b"endpoint" and data:
                    yield "", {"address": data.decode()}
                elif b"id" in fields or data:
                    yield fields.get(b"id", b"").decode(), json.loads(data) if data else {}

    async def last(self) -> Message:
        """The last message."""
        found: Message = {}
        async for _, message in self.messages():
            found = message
        return found


async def answer_from(reader: asyncio.StreamReader) -> Answer:
    """Read the head of an answer."""
    status = int((await reader.readline()).split()[1])
    found: dict[str, str] = {}
    while line := (await reader.readline()).strip():
        name, _, value = line.decode("latin-1").partition(":")
        found[name.lower()] = value.strip()
    return Answer(reader, status, found)


# --- ASGI -----------------------------------------------------------------------------------------


def scope_of(headers: Mapping[bytes, bytes], body: bytes) -> dict[str, Any]:
    """The scope of a POST, as uvicorn makes it."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "server": ("127.0.0.1", 8000),
        "client": ("127.0.0.1", 50000),
        "scheme": "http",
        "method": "POST",
        "root_path": "",
        "path": "/mcp",
        "query_string": b"",
        "headers": [*headers.items(), (b"content-length", b"%d" % len(body))],
        "state": {},
    }


async def post(
    application: Any, headers: Mapping[bytes, bytes], body: bytes
) -> tuple[int, dict[bytes, bytes], bytes]:
    """The status, the headers and the body of the answer of an ASGI application."""
    arriving = [{"type": "http.request", "body": body, "more_body": False}]
    answered: Message = {}
    parts: list[bytes] = []

    async def receive() -> dict[str, Any]:
        if not arriving:
            await asyncio.Event().wait()  # the client stays
        return arriving.pop()

    async def send(message: Mapping[str, Any]) -> None:
        answered.update(message)
        parts.append(message.get("body", b""))

    await application(scope_of(headers, body), receive, send)
    return answered["status"], dict(answered["headers"]), b"".join(parts)


# --- the server -----------------------------------------------------------------------------------


class Server(Process):
    """The server's process, and what the system knows of it."""

    def __init__(self, command: list[str], settings: Mapping[str, Any]) -> None:
        self.port = free_port()
        super().__init__(
            [*command, "--port", str(self.port)],
            cwd=ROOT,
            # One heap for all threads: what several keep for themselves comes and goes by chance.
            env={"PRESSED": json.dumps(settings), "MALLOC_ARENA_MAX": "1"},
            stdin=subprocess.DEVNULL,
            cold=True,
        )
        eventually(lambda: is_open(self.port))

    def memory(self) -> float:
        """Resident, in MiB."""
        return self.status("VmRSS") / 1024

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def stop(self) -> int:
        """Tell it to end; return its exit status."""
        self.signal(signal.SIGTERM)
        try:
            return self.exit_code(30)
        finally:
            self.end()
