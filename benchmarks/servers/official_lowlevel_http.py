"""`add(a, b)` and `count(steps)` on the official SDK's low-level server, over HTTP."""

from __future__ import annotations

from typing import Any

import mcp_types as types  # type: ignore[import-not-found, unused-ignore]
import uvicorn
from mcp.server.lowlevel import Server  # type: ignore[import-not-found, unused-ignore]
from pydantic_core import SchemaValidator, core_schema, to_json

from benchmarks.servers.official_lowlevel_add import INPUT, OUTPUT, add, validate
from benchmarks.servers.options import HttpOptions
from benchmarks.servers.sampling import tell_memory

_COUNT_INPUT = {
    "type": "object",
    "properties": {"steps": {"type": "integer"}},
    "required": ["steps"],
}
_validate_count = SchemaValidator(
    core_schema.typed_dict_schema({"steps": core_schema.typed_dict_field(core_schema.int_schema())})
).validate_python


async def count(context: Any, steps: int) -> int:
    """Report that many steps of progress."""
    for step in range(1, steps + 1):
        await context.session.report_progress(step)
    return steps


async def _list_tools(_context: Any, _params: Any) -> Any:
    tools = [
        types.Tool(
            name=function.__name__,
            description=function.__doc__,
            input_schema=schema,
            output_schema=OUTPUT,
        )
        for function, schema in ((add, INPUT), (count, _COUNT_INPUT))
    ]
    return types.ListToolsResult(tools=tools)


async def _call_tool(context: Any, params: Any) -> Any:
    if params.name == "add":
        value = await add(**validate(params.arguments))
    else:
        value = await count(context, **_validate_count(params.arguments))
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=to_json(value).decode())],
        structured_content={"result": value},
    )


if __name__ == "__main__":
    options = HttpOptions.parse()
    if options.memory:
        tell_memory()
    server = Server("bench", on_list_tools=_list_tools, on_call_tool=_call_tool)
    app = server.streamable_http_app(json_response=options.json, stateless_http=options.stateless)
    uvicorn.run(app, port=options.port, log_level="warning")
