"""The way from a connected client to all that its server lists."""

from __future__ import annotations

from typing import Any, Final

from mcpkit._protocol.revisions import BY_VERSION
from mcpkit._utils.json import is_array, is_object
from mcpkit.cli._check.listing import Entry, Kind, Raw, Served, text_of
from mcpkit.client.client import Client
from mcpkit.errors import MethodNotFound, ProtocolError

__all__ = ["gather"]

_MAX_PAGES: Final = 1000
_MAX_BYTES: Final = 64 * 1024 * 1024


async def gather(client: Client) -> Served:
    """Ask a server for every list whose capability it declares, in the client's revision.

    Entries are taken as they are sent, malformed ones too.

    Raises:
        ConnectionClosed: The server is gone.
    """
    troubles: list[str] = []
    lists: dict[Kind, list[Entry]] = {}
    for kind, capability, method, member, key in _LISTS:
        declared = is_object(client.server_capabilities.get(capability))
        lists[kind] = await _read(client, kind, method, member, key, troubles) if declared else []
    info = client.server_info
    raw: dict[str, Any] = {} if info is None else {"name": info.name, "version": info.version}
    if info is not None:
        raw |= {
            name: value
            for name, value in {"title": info.title, "description": info.description}.items()
            if value
        }
    return Served(
        BY_VERSION[client.revision],
        Entry("server", text_of(raw, "name"), raw),
        client.instructions if isinstance(client.instructions, str) else "",
        client.server_capabilities,
        lists["tool"],
        lists["resource"],
        lists["template"],
        lists["prompt"],
        troubles,
    )


_LISTS: Final[tuple[tuple[Kind, str, str, str, str], ...]] = (
    ("tool", "tools", "tools/list", "tools", "name"),
    ("resource", "resources", "resources/list", "resources", "uri"),
    ("template", "resources", "resources/templates/list", "resourceTemplates", "uriTemplate"),
    ("prompt", "prompts", "prompts/list", "prompts", "name"),
)


async def _read(
    client: Client, kind: Kind, method: str, member: str, key: str, troubles: list[str]
) -> list[Entry]:
    entries: list[Entry] = []
    params: Raw = {}
    seen: set[str] = set()
    size = 0
    for _ in range(_MAX_PAGES):
        try:
            # As `Client.list_tools`, which keeps nothing of a list that is malformed.
            page, more = await client._requested(method, params)
        except MethodNotFound as error:
            if kind != "template":  # which many servers with resources do not know
                troubles.append(f"{method} fails: {error}")
            break
        except (ProtocolError, TimeoutError, ValueError) as error:
            troubles.append(f"{method} fails: {error or 'no answer in time'}")
            break
        size += more
        if size > _MAX_BYTES:
            troubles.append(f"{method} does not end: more than {_MAX_BYTES} bytes")
            break
        found = page.get(member)
        if not is_array(found):
            troubles.append(f"{method} answers without {member!r}")
            break
        for each in found:
            if is_object(each) and isinstance(each.get(key), str):
                entries.append(Entry(kind, each[key], each))
            else:
                troubles.append(f"{method} lists an entry without {key!r}")
        cursor = page.get("nextCursor")
        if not isinstance(cursor, str):
            break
        if cursor in seen:
            troubles.append(f"{method} gives the cursor {cursor!r} twice")
            break
        seen.add(cursor)
        params = {"cursor": cursor}
    return entries
