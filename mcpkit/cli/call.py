"""``mcpkit call``: call a tool."""

from __future__ import annotations

import contextlib
import json
from typing import Annotated, Any, Final

import typer

from mcpkit.cli.arguments import nothing_like, tool_arguments
from mcpkit.cli.connect import run_async
from mcpkit.cli.options import (
    Answers,
    AsJson,
    Env,
    Headers,
    Quiet,
    Reach,
    Revision,
    Roots,
    SamplingCommand,
    Save,
    TargetArgument,
    Timeout,
)
from mcpkit.cli.show import (
    Saver,
    as_binary,
    on_terminal,
    put,
    put_bytes,
    put_json,
    text_of,
)
from mcpkit.cli.talking import Talk
from mcpkit.cli.terminal import BAD_NEWS, fail, note, say
from mcpkit.client import Client
from mcpkit.errors import ProtocolError
from mcpkit.protocol.revisions import BY_VERSION
from mcpkit.results import CallResult, ListedTool
from mcpkit.types import UNSET, LogLevel

__all__ = ["call"]

_LEVEL: Final[LogLevel] = "info"


def call(
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
    as_json: AsJson = False,
    save: Save = None,
    quiet: Quiet = False,
    answer: Answers = None,
    sampling_command: SamplingCommand = None,
    roots: Roots = None,
    revision: Revision = None,
    header: Headers = None,
    env: Env = None,
    timeout: Timeout = None,
) -> None:
    """Call a tool and print what it answers.

    Arguments: key=value is a text, or what the tool wants there (a number, true, JSON); a list
    is given item by item, tag=a tag=b, and a member of an object as address.city=Oslo. key:=json
    is JSON as it is. key=@file and key:=@file.json read a file.

    What the server asks meanwhile, it asks you; --answer does it for you. What it asks the model,
    --sampling-command gets as text: a lone message as it is, otherwise each part behind System:,
    User: or Assistant:.

    Pictures and other files are saved; a pipe gets the bytes of a lone one. Exit code 1: the tool
    failed.

    \b
    Examples:
      mcpkit call server.py add a=1 b=2
      mcpkit call server.py search query=tea limit:=5 filters:='{"tags": ["new"]}'
      mcpkit call server.py translate text=@letter.txt > translation.txt
      mcpkit call server.py book city=Oslo --answer approve=yes --answer note=quiet
      mcpkit call "npx -y @example/server" list_files --roots . --json
      mcpkit call https://example.com/mcp whoami -H "Authorization: Bearer $TOKEN"
    """
    reach = Reach(target, revision, header, env, timeout)
    talk = Talk(reach, answer, sampling_command, roots, quiet)

    async def main() -> None:
        async with talk.connected() as client:
            found = await _find(client, tool)
            given = tool_arguments(arguments or (), found.input_schema, args)
            if not quiet:
                await _want_logs(client)
            with talk.waiting(tool):
                result = await client.call_tool(
                    tool,
                    given,
                    on_progress=None if quiet else talk.telling.progress,
                    log_level=None if quiet else _LEVEL,
                    timeout=float("inf"),
                )
            if as_json:
                put_json(result.raw)
            else:
                _show(result, tool, Saver(save))
            if result.is_error:
                raise typer.Exit(BAD_NEWS)

    run_async(main)


async def _find(client: Client, name: str) -> ListedTool:
    listed = await client.list_tools() if "tools" in client.server_capabilities else []
    found = {each.name: each for each in listed}
    if name not in found:
        fail(nothing_like("tool", name, list(map(str, found))))
    return found[name]


async def _want_logs(client: Client) -> None:
    """Ask a server for log messages that has to be asked once, and not with every call."""
    by_handshake = BY_VERSION[client.revision].handshake
    if by_handshake and "logging" in client.server_capabilities:
        with contextlib.suppress(ProtocolError):
            await client.set_log_level(_LEVEL)


def _show(result: CallResult, tool: str, saver: Saver) -> None:
    """Print a result: its texts, or its data where they say no more; save what is no text."""
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
