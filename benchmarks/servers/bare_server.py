"""The limit: a hand-written server with the bare needs of a tools/call, and nothing else.

`bare_server.py add|many|http [PORT]` is an asyncio loop, and over HTTP `bare_http.py`. The loop
parses a line, validates the arguments, awaits the function and encodes the content and the
structured content, with the fastest tools at hand (`pydantic_core`). It answers `initialize`,
`tools/list`, `tools/call` and, on 2026-07-28, `server/discover`; everything else is ignored. The
calls of one chunk are awaited in turn and their answers leave in one write. There is no
cancellation, no concurrency and no error handling: it says how fast Python can be, not how a
server should be written.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from pydantic_core import SchemaValidator, core_schema, from_json, to_json

from benchmarks.servers.many import add, register_all

AsyncFunction = Callable[..., Awaitable[Any]]

_READ_SIZE = 1 << 16
_MODERN = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
SERVER_INFO = {"name": "bare", "version": "1"}
MODERN_MARK: dict[str, object] = {
    "resultType": "complete",
    "_meta": {"io.modelcontextprotocol/serverInfo": SERVER_INFO},
}
_CACHE_HINTS: dict[str, object] = {"ttlMs": 0, "cacheScope": "private"}
_CORE_SCHEMAS: dict[object, core_schema.CoreSchema] = {
    int: core_schema.int_schema(),
    str: core_schema.str_schema(),
    bool: core_schema.bool_schema(),
}
_JSON_SCHEMAS = {int: {"type": "integer"}, str: {"type": "string"}, bool: {"type": "boolean"}}


class BareTool:
    """One function with its validator and its entry in tools/list, both made at registration."""

    __slots__ = ("entry", "function", "validate")

    def __init__(self, function: AsyncFunction) -> None:
        hints = inspect.get_annotations(function, eval_str=True)
        fields: dict[str, core_schema.TypedDictField] = {}
        properties: dict[str, object] = {}
        required: list[str] = []
        for parameter in inspect.signature(function).parameters.values():
            schema = _CORE_SCHEMAS[hints[parameter.name]]
            listed: dict[str, object] = dict(_JSON_SCHEMAS[hints[parameter.name]])
            if parameter.default is parameter.empty:
                required.append(parameter.name)
            else:
                schema = core_schema.with_default_schema(schema, default=parameter.default)
                listed["default"] = parameter.default
            fields[parameter.name] = core_schema.typed_dict_field(schema)
            properties[parameter.name] = listed
        self.function = function
        self.validate = SchemaValidator(
            core_schema.typed_dict_schema(fields, extra_behavior="forbid")
        ).validate_python
        self.entry = {
            "name": function.__name__,
            "description": function.__doc__,
            "inputSchema": {"type": "object", "properties": properties, "required": required},
            "outputSchema": {
                "type": "object",
                "properties": {"result": _JSON_SCHEMAS[hints["return"]]},
                "required": ["result"],
            },
        }


class BareServer:
    """The tools, and `answer`: one line in, one line out."""

    def __init__(self) -> None:
        self._tools: dict[str, BareTool] = {}
        self._listing: dict[bool, bytes] = {}

    def tool(self, function: AsyncFunction) -> AsyncFunction:
        self._tools[function.__name__] = BareTool(function)
        return function

    async def answer(self, line: bytes) -> bytes:
        """The answer to one line, with its newline; empty for what needs none."""
        message = from_json(line)
        method = message["method"]
        result: dict[str, object]
        if method == "tools/call":
            params = message["params"]
            tool = self._tools[params["name"]]
            value = await tool.function(**tool.validate(params["arguments"]))
            result = {
                "content": [{"type": "text", "text": to_json(value).decode()}],
                "structuredContent": {"result": value},
                "isError": False,
            }
            meta = params.get("_meta")
            if meta is not None and meta.get(VERSION_KEY) == _MODERN:
                result.update(MODERN_MARK)
            return to_json({"jsonrpc": "2.0", "id": message["id"], "result": result}) + b"\n"
        if method == "tools/list":
            modern = "_meta" in message.get("params", {})
            listing = self._listing.get(modern) or self._list_tools(modern)
            return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (to_json(message["id"]), listing)
        if method == "initialize":
            result = {
                "protocolVersion": message["params"]["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": SERVER_INFO,
            }
        elif method == "server/discover":
            result = {
                "supportedVersions": [_MODERN],
                "capabilities": {"tools": {}},
                **_CACHE_HINTS,
                **MODERN_MARK,
            }
        else:
            return b""
        return to_json({"jsonrpc": "2.0", "id": message["id"], "result": result}) + b"\n"

    def _list_tools(self, modern: bool) -> bytes:
        result: dict[str, object] = {"tools": [tool.entry for tool in self._tools.values()]}
        if modern:
            result |= _CACHE_HINTS | MODERN_MARK
        self._listing[modern] = listing = to_json(result)
        return listing

    def run(self) -> None:
        """Serve stdin and stdout until stdin ends."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        stdin = _Input(sys.stdin.fileno())
        stdout, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout.buffer)
        answer = self.answer
        rest = b""
        while chunk := await stdin.next():
            *lines, rest = (rest + chunk).split(b"\n")
            answers = [await answer(line) for line in lines]
            stdout.write(b"".join(answers))


class _Input:
    """What arrived on a pipe since it was last asked for.

    asyncio's own pipe transport reads into 256 KiB, which the allocator fetches from the system and
    returns for every call; that would be up to half of the time measured.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._loop = asyncio.get_running_loop()
        self._received: list[bytes] = []
        self._waiter: asyncio.Future[None] | None = None
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._read)

    def _read(self) -> None:
        data = os.read(self._fd, _READ_SIZE)
        if not data:
            self._loop.remove_reader(self._fd)
        self._received.append(data)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> bytes:
        """The bytes received so far, at least one; empty at the end of the stream."""
        while not self._received:
            self._waiter = self._loop.create_future()
            await self._waiter
        received = b"".join(self._received)
        self._received.clear()
        return received


def main(arguments: list[str]) -> None:
    """Serve `add`, `many` tools, or `add` over HTTP at a port."""
    kind, *port = arguments
    if port:
        from benchmarks.servers.bare_http import run

        return run(int(port[0]))
    server = BareServer()
    if kind == "many":
        register_all(server.tool)
    else:
        server.tool(add)
    return server.run()


if __name__ == "__main__":
    main(sys.argv[1:])
