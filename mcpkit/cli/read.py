"""``mcpkit read``: read a resource."""

from __future__ import annotations

from mcpkit._protocol.wire import contents_from_wire
from mcpkit.cli._arguments import suggest
from mcpkit.cli._options import TARGET, argument
from mcpkit.cli._render import Saver, as_binary, on_terminal, put, put_bytes, put_json, size
from mcpkit.cli._session import ServerSession, server_command
from mcpkit.cli._terminal import fail, note
from mcpkit.client.results import parse
from mcpkit.types import ResourceContents, TextResourceContents


@server_command
async def read(
    session: ServerSession,
    target: str = TARGET,
    uri: str = argument("The URI, with values for a template", "URI", ""),
) -> None:
    """Read a resource and print its contents.

    Text goes to stdout. So do bytes, if stdout is a pipe or a file; on a terminal they are saved.
    --save DIR saves everything instead, text too. Exit code 1: there is no such resource.

    \b
    Examples:
      mcpkit read server.py config://settings
      mcpkit read server.py weather://Oslo/now --json
      mcpkit read server.py images://logo > logo.png
      mcpkit read https://example.com/mcp docs://all --save docs/
    """
    async with session.connected() as client:
        if not uri:
            found = [str(each.uri) for each in await client.list_resources()]
            found += [each.uri_template for each in await client.list_resource_templates()]
            fail(suggest("resource", uri, found))
        with session.waiting(uri):
            # `Client.read_resource` does not return the whole result.
            result = await client._ask("resources/read", {"uri": uri}, timeout=float("inf"))
        contents = parse(
            lambda raw: [contents_from_wire(each) for each in raw["contents"]],
            result,
            "resources/read",
        )
        if session.as_json:
            put_json(result)
        else:
            _show(contents, session.saver)


def _show(contents: list[ResourceContents], saver: Saver) -> None:
    if not contents:
        note("the resource is empty")
    for each in contents:
        if isinstance(each, TextResourceContents) and not saver.wanted:
            if len(contents) > 1:
                kind = f" ({each.mime_type})" if each.mime_type else ""
                note(f"{each.uri}{kind}, {size(len(each.text.encode('utf-8', 'replace')))}:")
            put(each.text)
            continue
        found = as_binary(each, "content", text_too=True)
        assert found is not None
        if saver.wanted or on_terminal() or len(contents) > 1:
            saver.save(found)
        else:
            put_bytes(found.data)
