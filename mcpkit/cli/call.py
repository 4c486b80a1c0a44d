"""``mcpkit call``: call a tool."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Generator, Mapping
from typing import Annotated, Any, Final

import typer

from mcpkit._protocol.revisions import BY_VERSION
from mcpkit._utils.json import UNSET
from mcpkit._utils.targets import is_url
from mcpkit.cli._arguments import suggest, tool_arguments
from mcpkit.cli._options import ConnectionOptions, TargetArgument
from mcpkit.cli._render import (
    Saver,
    as_binary,
    on_terminal,
    put,
    put_bytes,
    put_json,
    text_of,
)
from mcpkit.cli._session import ServerSession, talking
from mcpkit.cli._terminal import BAD_NEWS, fail, note, say
from mcpkit.client.client import Client
from mcpkit.client.results import CallResult, ListedTool, Progress, TaskStatus
from mcpkit.errors import InvalidParams, MethodNotFound, ProtocolError
from mcpkit.types import LogLevel

__all__ = ["call", "show_result"]

_LEVEL: Final[LogLevel] = "info"


@talking
async def call(
    talk: ServerSession,
    target: TargetArgument,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="The name of the tool")],
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Its arguments"),
    ] = None,
    args: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="All arguments as one object; - reads it from stdin"),
    ] = None,
    detach: Annotated[
        bool,
        typer.Option("--detach", help="Begin a task, print its id, and leave; see mcpkit tasks"),
    ] = False,
) -> None:
    """Call a tool and print what it answers.

    Arguments: key=value is a text, or what the tool wants there (a number, true, JSON); a list
    is given item by item, tag=a tag=b, and a member of an object as address.city=Oslo. key:=json
    is JSON as it is. key=@file and key:=@file.json read a file.

    What the server asks meanwhile, it asks you; --answer does it for you. What it asks the model,
    --sampling-command gets as text: a lone message as it is, otherwise each part behind System:,
    User: or Assistant:.

    A tool that runs as a task is followed to its end, and cancelled by Ctrl-C.

    Pictures and other files are saved; a pipe gets the bytes of a lone one. Exit code 1: the tool
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
    async with talk.connected() as client:
        listed = await _listed(client)
        found = listed.get(tool) or _unlisted(tool, listed, talk.reach)
        given = tool_arguments(arguments or (), found.input_schema, args)
        if not talk.quiet:
            await _want_logs(client)
        as_task = _may_be_task(client, found)
        if detach and not as_task:
            fail(f"{tool} does not run as a task; leave out --detach")

        def on_progress(now: Progress) -> None:
            talk.telling.progress(now.progress, now.total, now.message)

        options: dict[str, Any] = {
            "on_progress": None if talk.quiet else on_progress,
            "log_level": None if talk.quiet else _LEVEL,
            "timeout": float("inf"),
        }
        with talk.waiting(tool), _known(tool, listed):
            if as_task:
                task = await client.start(tool, given, **options)
                if detach and task.status is not None:
                    talk.telling.close()
                    _detached(task.status, target, as_json=talk.as_json)
                    return
                result = await talk.outcome(task, is_ours=True)
            else:
                result = await client.call_tool(tool, given, **options)
        if detach:
            note(f"{tool} has answered at once; there is no task")
        show_result(result, tool, talk.saver, as_json=talk.as_json)


def _may_be_task(client: Client, tool: ListedTool) -> bool:
    """Return True if a call may become a task: the tool says so, or the server decides."""
    by_handshake = BY_VERSION[client.revision].handshake
    return client._has_tasks and (not by_handshake or tool.task_support != "forbidden")


def _detached(status: TaskStatus, target: str, *, as_json: bool) -> None:
    if as_json:
        put_json(status.raw)
    else:
        put(status.id)
    if not is_url(target):
        note(
            f"{target} has been stopped, and goes on with the task when it runs again, if its "
            f"tasks are kept in a file or a database"
        )


async def _listed(client: Client) -> dict[str, ListedTool]:
    listed = await client.list_tools() if "tools" in client.server_capabilities else []
    return {each.name: each for each in listed}


def _unlisted(name: str, listed: Mapping[str, ListedTool], reach: ConnectionOptions) -> ListedTool:
    """Return a tool that a server has not listed.

    An authenticated caller may lack a scope, without which the tool is hidden; a server that is
    asked for it all the same says which (AUTH-6).
    """
    if reach.is_anonymous:
        fail(suggest("tool", name, list(listed)))
    return ListedTool.from_wire({"name": name, "inputSchema": {}})


@contextlib.contextmanager
def _known(name: str, listed: Mapping[str, ListedTool]) -> Generator[None, None, None]:
    """Say what there is instead, if a server does not know a tool that it has not listed."""
    try:
        yield
    except (InvalidParams, MethodNotFound):
        if name in listed:
            raise
        fail(suggest("tool", name, list(listed)))


async def _want_logs(client: Client) -> None:
    """Ask a server for log messages that has to be asked once, and not with every call."""
    by_handshake = BY_VERSION[client.revision].handshake
    if by_handshake and "logging" in client.server_capabilities:
        with contextlib.suppress(ProtocolError):
            await client.set_log_level(_LEVEL)


def show_result(result: CallResult, tool: str, saver: Saver, *, as_json: bool) -> None:
    """Print a result.

    Args:
        result: Of the tool.
        tool: Its name.
        saver: Saves binary content.
        as_json: Whether to print the result as it was sent.

    Raises:
        typer.Exit: The tool has failed.
    """
    if as_json:
        put_json(result.raw)
    else:
        _show(result, tool, saver)
    if result.is_error:
        raise typer.Exit(BAD_NEWS)


def _show(result: CallResult, tool: str, saver: Saver) -> None:
    """Print the texts of a result, or its data if they are equal; save binary content."""
    files = [as_binary(block, tool) for block in result.content]
    texts = [text for text in map(text_of, result.content) if text is not None]
    if result.is_error:
        for text in texts:
            say(text, err=True)
        if not texts:
            note(f"{tool} failed, and does not say why")
    elif result.structured_content is not UNSET and _say_the_same(texts, result):
        if on_terminal() or not texts:
            _show_data(result.data)
        else:
            for text in texts:
                put(text)
    else:
        for text in texts:
            put(text)
    binaries = [each for each in files if each is not None]
    if len(result.content) == len(binaries) == 1 and not on_terminal() and not saver.wanted:
        put_bytes(binaries[0].data)
        return
    for each in binaries:
        saver.keep(each)
    if not result.content and result.structured_content is UNSET and not result.is_error:
        note(f"{tool} has run, and answers nothing")


def _show_data(data: Any) -> None:
    if isinstance(data, str):
        put(data)
    else:
        put_json(data)


def _say_the_same(texts: list[str], result: CallResult) -> bool:
    """Return True if the texts are only the data once more."""
    if not texts:
        return True
    said = [_value(text) for text in texts]
    ways = [said[0]] if len(said) == 1 else [said]
    return any(way in (result.data, result.structured_content) for way in ways)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text
