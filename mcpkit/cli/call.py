"""``mcpkit call``: call a tool."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

import typer

from mcpkit._protocol.revisions import APPS_EXTENSION, BY_VERSION
from mcpkit._utils.json import UNSET
from mcpkit._utils.targets import is_url
from mcpkit.cli._arguments import suggest, tool_arguments
from mcpkit.cli._options import TARGET, argument, flag, option
from mcpkit.cli._render import (
    Saver,
    as_binary,
    on_terminal,
    put,
    put_bytes,
    put_json,
    text_of,
)
from mcpkit.cli._session import ServerSession, server_command
from mcpkit.cli._terminal import BAD_NEWS, fail, note, say
from mcpkit.client.results import CallResult, ListedTool
from mcpkit.errors import InvalidParams, MethodNotFound, ProtocolError
from mcpkit.types import LogLevel

_LEVEL: Final[LogLevel] = "info"


@server_command
async def call(
    session: ServerSession,
    target: str = TARGET,
    tool: str = argument("The name of the tool", "TOOL", ""),
    arguments: list[str] | None = argument("Its arguments", "KEY=VALUE", None),
    args: str | None = option("All arguments as one object; - reads it from stdin", metavar="JSON"),
    detach: bool = flag("Start a task, print its id, and exit; see mcpkit tasks", "--detach"),
) -> None:
    """Call a tool and print its result.

    key=value is a text, or converted to the type in the tool's schema: a number, true, JSON. A
    list is tag=a tag=b, and a member of an object address.city=Oslo. key:=json is JSON. key=@file
    and key:=@file.json read a file.

    The server's questions are asked in the terminal, or answered by --answer. Questions to the
    model are passed on stdin to --sampling-command: a single message as it is, several messages
    each with its role in front (System:, User: or Assistant:).

    The command waits for a tool that runs as a task; Ctrl-C cancels it.

    Images and other files are saved; a pipe gets the bytes of a single one. Exit code 1: the tool
    failed.

    \b
    Examples:
      mcpkit call server.py add a=1 b=2
      mcpkit call server.py search query=tea limit:=5 filters:='{"tags": ["new"]}'
      mcpkit call server.py translate text=@letter.txt > translation.txt
      mcpkit call server.py book city=Oslo --answer approve=yes --answer note=quiet
      mcpkit call "npx -y @example/server" list_files --roots . --json
      mcpkit call https://example.com/mcp whoami  (after mcpkit login https://example.com/mcp)
    """
    async with session.connected() as client:
        listed = await client.list_tools() if "tools" in client.server_capabilities else []
        tools = {each.name: each for each in listed}
        # A tool may be hidden from a caller who lacks a scope, which the error names (AUTH-6), or
        # from a client without views (APP-7).
        hides = not session.options.is_anonymous or client.extension(APPS_EXTENSION) is not None
        if not tool or (tool not in tools and not hides):
            fail(suggest("tool", tool, list(tools)))
        found = tools.get(tool) or ListedTool.from_wire({"name": tool, "inputSchema": {}})
        given = tool_arguments(arguments or (), found.input_schema, args)
        by_handshake = BY_VERSION[client.revision].handshake
        if not session.quiet and by_handshake and "logging" in client.server_capabilities:
            with suppress(ProtocolError):
                await client.set_log_level(_LEVEL)
        # After a handshake the tool says so; since 2026-07-28 the server decides.
        as_task = client._has_tasks and not (by_handshake and found.task_support == "forbidden")
        if detach and not as_task:
            fail(f"{tool} does not run as a task; leave out --detach")
        options: dict[str, Any] = {
            "on_progress": None if session.quiet else session.display.progress,
            "log_level": None if session.quiet else _LEVEL,
            "timeout": float("inf"),
        }
        try:
            with session.waiting(tool):
                if as_task:
                    task = await client.start(tool, given, **options)
                    if detach and task.status is not None:
                        session.display.close()
                        if session.as_json:
                            put_json(task.status.raw)
                        else:
                            put(task.status.id)
                        if not is_url(target):
                            note(
                                f"{target} has been stopped; it continues the task when it runs "
                                f"again, if it stores tasks in a file or a database"
                            )
                        return
                    result = await session.outcome(task, is_ours=True)
                else:
                    result = await client.call_tool(tool, given, **options)
        except (InvalidParams, MethodNotFound):
            if tool in tools:
                raise
            fail(suggest("tool", tool, list(tools)))
        if detach:
            note(f"{tool} has answered at once; there is no task")
        show_result(result, tool, session.saver, as_json=session.as_json)


def show_result(result: CallResult, tool: str, saver: Saver, *, as_json: bool) -> None:
    """Print the result of a tool; exit if the tool has failed."""
    if as_json:
        put_json(result.raw)
    else:
        _show(result, tool, saver)
    if result.is_error:
        raise typer.Exit(BAD_NEWS)


def _show(result: CallResult, tool: str, saver: Saver) -> None:
    """Print the texts of a result, or its data if that is the same; save binary content."""
    files = [each for block in result.content if (each := as_binary(block, tool))]
    texts = [text for text in map(text_of, result.content) if text is not None]
    has_data = result.structured_content is not UNSET
    if result.is_error:
        for text in texts:
            say(text, err=True)
        if not texts:
            note(f"{tool} failed without a message")
    elif has_data and (not texts or (on_terminal() and _is_data(texts, result))):
        show = put if isinstance(result.data, str) else put_json
        show(result.data)
    else:
        for text in texts:
            put(text)
    if len(result.content) == len(files) == 1 and not on_terminal() and not saver.wanted:
        put_bytes(files[0].data)
        return
    for each in files:
        saver.save(each)
    if not result.content and not has_data and not result.is_error:
        note(f"{tool} succeeded and returned no content")


def _is_data(texts: list[str], result: CallResult) -> bool:
    values: list[Any] = []
    for text in texts:
        try:
            values.append(json.loads(text))
        except (ValueError, RecursionError):
            values.append(text)
    value = values[0] if len(values) == 1 else values
    return value in (result.data, result.structured_content)
