"""``mcpkit read``: read a resource."""

from __future__ import annotations

from typing import Annotated

import typer

from mcpkit._protocol.wire import contents_from_wire
from mcpkit.cli._options import TargetArgument
from mcpkit.cli._render import Saver, as_binary, on_terminal, put, put_bytes, put_json, size
from mcpkit.cli._session import ServerSession, talking
from mcpkit.cli._terminal import note
from mcpkit.client.results import parse
from mcpkit.types import ResourceContents, TextResourceContents

__all__ = ["read"]


@talking
async def read(
    talk: ServerSession,
    target: TargetArgument,
    uri: Annotated[
        str, typer.Argument(metavar="URI", help="Of the resource; a template's filled in")
    ],
) -> None:
    """Read a resource and print what is in it.

    Text goes to stdout. So do bytes, if stdout is a pipe or a file; on a terminal they are saved.
    --save DIR saves everything instead, text too. Exit code 1: there is no such resource.

    \b
    Examples:
      mcpkit read server.py config://settings
      mcpkit read server.py weather://Oslo/now --json
      mcpkit read server.py images://logo > logo.png
      mcpkit read https://example.com/mcp docs://all --save docs/
    """
    async with talk.connected() as client:
        with talk.waiting(uri):
            # As `Client.read_resource`, which does not keep what is sent beside it.
            result = await client._ask("resources/read", {"uri": uri}, timeout=float("inf"))
        contents = parse(
            lambda raw: [contents_from_wire(each) for each in raw["contents"]],
            result,
            "resources/read",
        )
        if talk.as_json:
            put_json(result)
        else:
            _show(contents, talk.saver)


def _show(contents: list[ResourceContents], saver: Saver) -> None:
    if not contents:
        note("the resource is empty")
    for each in contents:
        found = as_binary(each, "content")
        if saver.wanted:
            _save(each, saver)
        elif isinstance(each, TextResourceContents):
            if len(contents) > 1:
                kind = f" ({each.mime_type})" if each.mime_type else ""
                note(f"{each.uri}{kind}, {size(len(each.text.encode('utf-8', 'replace')))}:")
            put(each.text)
        elif on_terminal() or len(contents) > 1:
            assert found is not None
            saver.keep(found)
        else:
            assert found is not None
            put_bytes(found.data)


def _save(contents: ResourceContents, saver: Saver) -> None:
    found = as_binary(contents, "content", text_too=True)
    assert found is not None
    saver.keep(found)
