"""Results of tools with ``max_result=``: truncated, and their rest, which is read page by page.

The rest is stored like a task that has ended, for its caller alone, and within the quotas of tasks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from pydantic_core import from_json, to_json

from mcpkit._entries import Entry, EntryOption
from mcpkit._protocol.messages import encode
from mcpkit._server.failures import not_found
from mcpkit._server.server import Server
from mcpkit._signature.output import Rendered
from mcpkit._signature.truncation import Truncation, end_of_piece, pieces
from mcpkit._utils.logs import log
from mcpkit.context import Context
from mcpkit.errors import InvalidParams, ProtocolError, RegistrationError, ResourceNotFound
from mcpkit.middleware import Handler, Params
from mcpkit.tasks.protocol import outcome_field
from mcpkit.tasks.service import service_of
from mcpkit.tools import Tool
from mcpkit.types import (
    ContentBlock,
    ResourceLink,
    ResourceResult,
    TextContent,
    TextResourceContents,
)

KEPT_S: Final = 600.0
"""Seconds for which the rest of a result can be read."""

_KEPT: Final = f"{KEPT_S / 60:g} minutes"
_NOTE: Final = 700
"""Characters of the budget that are for the note and the link."""

_LISTED: Final = 250
"""Characters of a list of truncated parts before it is ended with a number."""

_URI: Final = re.compile(r"result://([0-9a-f]{48})/([1-9][0-9]{0,5})")


_LEAST_RESULT: Final = 1000


@dataclass(frozen=True)
class Budget(EntryOption):
    """The characters of a result of a tool: ``max_result=``."""

    limit: int
    capabilities = ("resources", "results")


def prepare(tool: Entry, options: Mapping[str, Any], at: str) -> None:
    """Give a tool its budget; raises `RegistrationError`."""
    limit = options["max_result"]
    if type(limit) is not int or limit < _LEAST_RESULT:
        raise RegistrationError(
            f"{at}: max_result= is a number of characters, at least {_LEAST_RESULT}, not {limit!r}"
        )
    tool.options["max_result"] = Budget(limit)


def _budget_of(tool: Entry) -> int | None:
    found = tool.options.get("max_result")
    return found.limit if isinstance(found, Budget) else None


def call_tool(handler: Handler, server: Server, params: Params, context: Context[Any]) -> Any:
    """``tools/call``: leaves the call to the handler, and truncates the result if it has to."""
    name: Any = params.get("name")
    tool = server.catalog.tools.get(name) if type(name) is str else None
    limit = None if tool is None else _budget_of(tool)
    if tool is None or limit is None:
        return handler(server, params, context)
    return _call_within(limit, tool, handler, server, params, context)


async def _call_within(
    limit: int,
    tool: Tool,
    handler: Handler,
    server: Server,
    params: Params,
    context: Context[Any],
) -> Rendered:
    rendered: Rendered = await handler(server, params, context)
    if _size(rendered) <= limit:
        return rendered
    # In a thread: it takes a time in proportion to the size.
    truncate = partial(_truncate, rendered, tool, limit - _NOTE)
    note, rest = await context.backend.in_thread(truncate)
    pages = [*pieces(rest, limit - _NOTE)]
    id = await _store(pages, tool, params.get("arguments") or {}, server, context)
    links: list[ContentBlock] = []
    if id is None:
        note += " cannot be read; ask for less at once."
    else:
        first, last = f"result://{id}/1", f"result://{id}/{len(pages)}"
        note += f" can be read for {_KEPT}: {first}{f' to {last}' if pages[1:] else ''}"
        links = [ResourceLink(first, "The rest", mime_type="text/plain")]
    rendered.content = [*rendered.blocks(), TextContent(note), *links]
    return rendered


def _size(rendered: Rendered) -> int:
    blocks = () if rendered.content is None else rendered.blocks()
    texts = sum(len(each.text) for each in blocks if isinstance(each, TextContent))
    return max(texts, len((rendered.structured or b"").decode()))


def _truncate(rendered: Rendered, tool: Tool, room: int) -> tuple[str, str]:
    """Truncate a result; return the beginning of the note, and the rest."""
    size, rest, places = _size(rendered), "", ""
    if rendered.content is not None:
        rendered.content, rest = _truncated_blocks(rendered.blocks(), room)
    if rendered.structured is not None:
        rest += "\n" if rest else ""
        found = None
        with suppress(ValueError):  # nested more deeply than the parser allows
            found = Truncation(from_json(rendered.structured), tool.output_schema, room)
        if found is None or not found.fits:
            log.warning("a result of %s cannot be truncated to its max_result=", tool.name)
            rest += rendered.structured.decode()
            rendered.content = rendered.content or []
            rendered.structured, rendered.is_error = None, True
            return f"The result of {size:,} characters cannot be truncated to {room:,}. It", rest
        rendered.structured = to_json(found.value)
        rest += "".join(line for cut in found.cuts for line in cut.lines())
        for number, cut in enumerate(found.cuts):
            if len(places) > _LISTED:
                places += f"; {len(found.cuts) - number} more"
                break
            places += f"{'; ' if places else ': '}{cut}"
    return f"Truncated to {_size(rendered):,} of {size:,} characters{places}. The rest", rest


def _truncated_blocks(blocks: Sequence[ContentBlock], room: int) -> tuple[list[ContentBlock], str]:
    """Return blocks whose texts have some characters together at most, and the rest of these."""
    kept: list[ContentBlock] = []
    rest = ""
    for block in blocks:
        if isinstance(block, TextContent):
            end = 0 if rest else end_of_piece(block.text, 0, room)
            room -= end
            rest += block.text[end:]
            block = replace(block, text=block.text[:end])
            if not end:
                continue
        kept.append(block)
    return kept, rest


async def _store(
    pages: Sequence[str],
    tool: Tool,
    arguments: Mapping[str, Any],
    server: Server,
    context: Context[Any],
) -> str | None:
    """Store the rest for the caller, and return its id; None if it cannot be stored."""
    tasks, rest = service_of(server), encode(pages)
    if tasks is None or len(rest) > tasks.settings.max_bytes:
        return None
    try:
        task = await tasks.begin(
            *(tool.name, arguments, context.request),
            tool_ttl=KEPT_S,
            by_arguments=tool.allow is not None,
            given={},
            rest=rest,
        )
    except ProtocolError as error:  # too much is stored, or the store is unavailable
        log.warning("the rest of a result of %s is not stored: %s", tool.name, error)
        return None
    return task.id


def read_resource(handler: Handler, server: Server, params: Params, context: Context[Any]) -> Any:
    """``resources/read``: returns a page of the rest of a result, or leaves it to the handler."""
    found = _URI.fullmatch(str(params.get("uri")))
    if found is not None and server.catalog.resource(found[0]) is None:
        return _read_rest(found, handler, server, params, context)
    return handler(server, params, context)


async def _read_rest(
    found: re.Match[str],
    handler: Handler,
    server: Server,
    params: Params,
    context: Context[Any],
) -> Any:
    """Return a page of the rest of a result.

    Raises `ProtocolError` if it has expired, or the caller may not read it.
    """
    uri, tasks = found[0], service_of(server)
    if tasks is None:
        return await handler(server, params, context)
    try:
        task = await tasks.get(found[1], tasks.owner_of(context.request, "results"))
    except InvalidParams:
        why = f"the rest of a result is kept for {_KEPT}; call the tool again"
        error = ResourceNotFound(uri, f"Resource not found: {uri} ({why})")
        raise not_found(error, uri, context.request.revision) from None
    await tasks.admit(task, server, context.request.origin)
    pages: list[str] = from_json(tasks.open(task, task.outcome or b"", *outcome_field(task)))
    number = int(found[2])
    if number > len(pages):
        return await handler(server, params, context)
    contents = [TextResourceContents(uri, pages[number - 1], mime_type="text/plain")]
    if number < len(pages):
        following = f"result://{found[1]}/{number + 1}"
        note = f"Page {number} of {len(pages)}. The next page: {following}"
        contents.append(TextResourceContents(uri, note, mime_type="text/plain"))
    return ResourceResult(contents, cache_scope="private")
