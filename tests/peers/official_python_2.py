"""Drives a server with the official Python client of today; prints what it saw as JSON.

Usage: official_python_2.py MODE (URL | COMMAND [ARGUMENT ...])

MODE is "auto" or a protocol revision.

Without arguments they are read from stdin, a list in JSON on each line.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

import mcp.client.session
import mcp_types as types
from mcp import Client, MCPError, StdioServerParameters
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

WAIT = 20


def plain(model: Any) -> Any:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def seen(result: types.CallToolResult) -> dict[str, Any]:
    return {
        "content": [plain(block) for block in result.content],
        "structured": result.structured_content,
        "is_error": bool(result.is_error),
    }


def filled_in(schema: dict[str, Any]) -> dict[str, Any]:
    """A form's first choices, and something of the right type for the rest."""
    some = {"string": "Lisbon", "number": 38.7}
    fields = schema["properties"].items()
    return {name: field.get("enum", [some[field["type"]]])[0] for name, field in fields}


async def on_elicit(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content=filled_in(params.requested_schema))


async def on_sample(
    context: Any, params: types.CreateMessageRequestParams
) -> types.CreateMessageResult:
    text = types.TextContent(type="text", text="hot leaf water")
    return types.CreateMessageResult(role="assistant", content=text, model="a poet")


async def on_roots(context: Any) -> types.ListRootsResult:
    return types.ListRootsResult(roots=[types.Root(uri="file:///tea")])


async def main(mode: str, command: str, *arguments: str) -> dict[str, Any]:
    handshake = mode in HANDSHAKE_PROTOCOL_VERSIONS
    if handshake:
        # The client offers its newest in every handshake; there is no setting for it.
        mcp.client.session.LATEST_HANDSHAKE_VERSION = mode

    report: dict[str, Any] = {}
    progress: list[Any] = []
    counted_all = asyncio.Event()
    logged: list[Any] = []
    updated: asyncio.Queue[str] = asyncio.Queue()
    listed: asyncio.Queue[str] = asyncio.Queue()

    async def note(key: str, action: Callable[[], Awaitable[Any]]) -> None:
        try:
            report[key] = await asyncio.wait_for(action(), WAIT)
        except MCPError as error:
            report[key] = {"error": error.error.code}
        except Exception as error:
            report[key] = {"raised": repr(error)}

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        progress.append([done, total, message])
        if done == total:
            counted_all.set()

    async def on_log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append([params.level, params.logger, params.data])

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            updated.put_nowait(message.params.uri)
        elif isinstance(message, types.ToolListChangedNotification):
            listed.put_nowait("tools")

    is_url = command.startswith("http:")
    async with Client(
        command if is_url else StdioServerParameters(command=command, args=list(arguments)),
        mode="legacy" if handshake else mode,
        client_info=types.Implementation(name="official", version="2"),
        logging_callback=on_log,
        log_level="info",
        message_handler=on_message,
        elicitation_callback=on_elicit,
        sampling_callback=on_sample,
        list_roots_callback=on_roots,
        read_timeout_seconds=WAIT,
    ) as client:

        async def call(name: str, /, **values: Any) -> Any:
            return seen(await client.call_tool(name, values))

        async def read(uri: str) -> Any:
            return plain(await client.read_resource(uri))["contents"]

        async def complete(ref: Any, name: str, value: str, **context: str) -> Any:
            argument = {"name": name, "value": value}
            result = await client.complete(ref, argument, context or None)
            return result.completion.values

        async def tools() -> Any:
            return {tool.name: tool.description for tool in (await client.list_tools()).tools}

        async def resources() -> Any:
            return [each.uri for each in (await client.list_resources()).resources]

        async def templates() -> Any:
            result = await client.list_resource_templates()
            return [each.uri_template for each in result.resource_templates]

        async def prompts() -> Any:
            found = (await client.list_prompts()).prompts
            return {each.name: [part.name for part in each.arguments or ()] for each in found}

        async def prompt(**values: str) -> Any:
            return plain(await client.get_prompt("travel", values))["messages"]

        async def count() -> Any:
            if handshake:
                await client.set_logging_level("info")
            counting = asyncio.create_task(
                client.call_tool("count", {"to": 2}, progress_callback=on_progress)
            )
            await counted_all.wait()
            await call("go_on")
            return seen(await counting)

        async def update() -> Any:
            if handshake:
                await client.subscribe_resource("notes://today")
                await call("write", text="drink milk")
                return await updated.get()
            async with client.listen(resource_subscriptions=["notes://today"]) as changes:
                await call("write", text="drink milk")
                return (await anext(aiter(changes))).uri

        async def growth() -> Any:
            if handshake:
                await call("learn", name="new")
                await listed.get()
            else:
                async with client.listen(tools_list_changed=True) as changes:
                    await call("learn", name="new")
                    await anext(aiter(changes))
            return await call("new")

        async def hears() -> bool:
            """Whether its stream is there at some time; what is announced before that is lost."""
            while not listed.empty():
                listed.get_nowait()
            heard = asyncio.create_task(listed.get())
            for _ in range(100):
                await call("learn", name=f"new_{uuid4()}")
                if (await asyncio.wait([heard], timeout=0.1))[0]:
                    break
            return heard.done()

        async def come_back() -> dict[str, Any]:
            assert await hears()
            print("connected", flush=True)
            await asyncio.to_thread(sys.stdin.readline)  # the server has been started anew
            added = await call("add", a=2, b=40)
            return {"answer": added["content"][0]["text"], "heard": await hears()}

        if os.environ.get("COME_BACK"):
            return await come_back()
        report["revision"] = client.protocol_version
        report["server"] = client.server_info and [
            client.server_info.name,
            client.server_info.version,
        ]
        report["instructions"] = client.instructions
        report["capabilities"] = sorted(plain(client.server_capabilities))
        await note("tools", tools)
        await note("resources", resources)
        await note("templates", templates)
        await note("prompts", prompts)
        await note("sync", lambda: call("add", a=2, b=40))
        await note("async", lambda: call("shout", text="hey"))
        await note("structured", lambda: call("locate", city="Lisbon"))
        await note("wrapped", lambda: call("everywhere"))
        await note("picture", lambda: call("picture"))
        await note("refused", lambda: call("refuse", reason="not today"))
        await note("exploded", lambda: call("explode"))
        await note("bad_arguments", lambda: call("add", a="two"))
        await note("unknown_tool", lambda: call("nothing"))
        await note("decided", lambda: call("decide"))
        await note("thought", lambda: call("think"))
        await note("looked", lambda: call("look"))
        await note("text", lambda: read("notes://today"))
        await note("blob", lambda: read("notes://pixel"))
        await note("templated", lambda: read("notes://tomorrow/text"))
        await note("unknown_resource", lambda: read("other://never"))
        await note("prompt", lambda: prompt(country="Norway", city="Oslo", days="2"))
        await note("incomplete_prompt", lambda: prompt(country="Norway"))
        by_prompt = types.PromptReference(name="travel")
        by_template = types.ResourceTemplateReference(uri="notes://{day}/text")
        await note("complete_literal", lambda: complete(by_prompt, "country", "N"))
        await note("complete_context", lambda: complete(by_prompt, "city", "", country="Norway"))
        await note("complete_template", lambda: complete(by_template, "day", "tom"))
        await note("counted", count)
        await note("resumed", lambda: call("hang_up"))
        report["progress"] = progress
        report["logged"] = logged
        await note("updated", update)
        await note("grown", growth)
    return report


def drive() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
    for line in sys.stdin if len(sys.argv) == 1 else ():
        print(json.dumps(asyncio.run(main(*json.loads(line)))), flush=True)


drive()
