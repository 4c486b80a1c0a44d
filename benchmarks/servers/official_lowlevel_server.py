"""The official SDK, low-level, its fastest way: `official_lowlevel_server.py add|http [PORT]`.

The schemas are written out, and the handler validates the arguments and encodes the result.
"""

from __future__ import annotations

import sys
from typing import Any

import anyio
import mcp_types as types  # type: ignore[import-not-found, unused-ignore]
import uvicorn
from mcp.server.lowlevel import Server  # type: ignore[import-not-found, unused-ignore]
from mcp.server.stdio import stdio_server  # type: ignore[import-not-found, unused-ignore]
from pydantic_core import SchemaValidator, core_schema, to_json

from benchmarks.servers.many import add

_INTEGER = {"type": "integer"}
_INPUT = {
    "type": "object",
    "properties": {"a": _INTEGER, "b": _INTEGER},
    "required": ["a", "b"],
}
_OUTPUT = {"type": "object", "properties": {"result": _INTEGER}, "required": ["result"]}
_validate = SchemaValidator(
    core_schema.typed_dict_schema(
        {name: core_schema.typed_dict_field(core_schema.int_schema()) for name in ("a", "b")},
        extra_behavior="forbid",
    )
).validate_python


async def _list_tools(_context: Any, _params: Any) -> Any:
    tool = types.Tool(
        name="add", description=add.__doc__, input_schema=_INPUT, output_schema=_OUTPUT
    )
    return types.ListToolsResult(tools=[tool])


async def _call_tool(_context: Any, params: Any) -> Any:
    value = await add(**_validate(params.arguments))
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=to_json(value).decode())],
        structured_content={"result": value},
    )


server = Server("bench", on_list_tools=_list_tools, on_call_tool=_call_tool)


async def _main() -> None:
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    if sys.argv[1] == "http":
        app = server.streamable_http_app(json_response=True)
        uvicorn.run(app, port=int(sys.argv[2]), log_level="warning")
    else:
        anyio.run(_main)
