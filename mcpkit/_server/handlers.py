"""The handlers of the MCP methods: (server, params, context) → a value, or an awaitable of one.

There is a function for each method that needs no session; revisions name them in their tables.
Values are encoded at the end, by `mcpkit._server.encoding`, and exceptions become results and
errors in `mcpkit._server.failures`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Any, Final, TypeGuard

from mcpkit._entries import Listing
from mcpkit._protocol import wire
from mcpkit._protocol.messages import Encoded, members
from mcpkit._protocol.revisions import REVISIONS
from mcpkit._server.failures import error_result, not_found, text_to_show
from mcpkit._server.lookup import prompt_named, referred, uri_of
from mcpkit._server.registry import Page
from mcpkit._server.server import Server
from mcpkit._signature.output import Rendered
from mcpkit._utils.json import is_object
from mcpkit._utils.logs import log
from mcpkit._utils.text import truncate
from mcpkit.context import Context
from mcpkit.errors import (
    InputRequestError,
    InvalidArguments,
    InvalidParams,
    PromptError,
    ResourceNotFound,
    UrlElicitationRequired,
)
from mcpkit.middleware import Handler, Params
from mcpkit.types import PromptResult, ResourceResult


def capabilities(server: Server, context: Context[Any]) -> dict[str, Any]:
    """Return the capabilities object: of the entries that a request can see, and of extensions.

    Extensions are declared on every revision (EXT-6).
    """
    request, advertised = context.request, server.catalog.advertised
    shapes: dict[str, dict[str, Any]] = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "completions": {},
        "logging": {},
    }
    if not request.streams:
        shapes |= {"tools": {}, "resources": {}, "prompts": {}}
    present: dict[str, Any] = {name: shape for name, shape in shapes.items() if name in advertised}
    found = request.revision.keep(request.revision.server_capabilities, present)
    for each in server.extensions:
        for name, value in each.capabilities(advertised, context).items():
            found[name] = {**found.get(name, {}), **value}
    return found


def initialize(server: Server, _params: Params, context: Context[Any]) -> Mapping[str, Any]:
    """``initialize``: the negotiated revision, and the identity of the server."""
    request = context.request
    return wire.some(
        protocolVersion=request.revision.version,
        capabilities=capabilities(server, context),
        serverInfo=wire.implementation_to_wire(server.info, request.revision),
        instructions=server.instructions,
    )


def discover(server: Server, _params: Params, context: Context[Any]) -> Mapping[str, Any] | Encoded:
    """``server/discover``: what ``initialize`` returns, for clients without a handshake."""
    found = wire.some(
        supportedVersions=[each.version for each in REVISIONS],
        capabilities=capabilities(server, context),
        instructions=server.instructions,
    )
    depends = any(each.depends_on_request for each in server.extensions)
    return Encoded(members(found), scope="private") if depends else found  # EXT-19


def ping(_server: Server, _params: Params, _context: Context[Any]) -> Mapping[str, Any]:
    """``ping``: an empty result."""
    return {}


def _list(listing: Listing) -> Handler:
    def list_page(server: Server, params: Params, context: Context[Any]) -> Page | Awaitable[Page]:
        size = server.settings.page_size
        return server.catalog.page(listing, params.get("cursor"), size, context)

    return list_page


async def call_tool(server: Server, params: Params, context: Context[Any]) -> Rendered:
    """``tools/call``: a result also if the tool failed, for the model to read (TOOL-7, TOOL-8)."""
    name: Any = params.get("name")
    arguments: Any = params.get("arguments")
    if type(name) is not str:
        raise InvalidParams('tools/call needs "name", a string')
    if arguments is None:
        arguments = {}
    elif arguments.__class__ is not dict:
        raise InvalidParams('"arguments" must be an object')
    tool = server.catalog.tools.get(name)
    if tool is None:
        raise InvalidParams(f"Unknown tool: {truncate(name)}")  # TOOL-6
    try:
        return await tool.call(arguments, context)
    except Exception as error:
        return await error_result(tool, context, error)


async def read_resource(server: Server, params: Params, context: Context[Any]) -> ResourceResult:
    """``resources/read``: one or several contents; a missing resource is an error (RES-3…5)."""
    uri = uri_of(params)
    try:
        return await server.read_resource(uri, context)
    except ResourceNotFound as error:
        raise not_found(error, uri, context.request.revision) from error


async def get_prompt(server: Server, params: Params, context: Context[Any]) -> PromptResult:
    """``prompts/get``: messages, from arguments that arrive as strings (PROMPT-3)."""
    name = params.get("name")
    arguments = params.get("arguments")
    if not isinstance(name, str):
        raise InvalidParams('prompts/get needs "name", a string')
    if arguments is None:
        arguments = {}
    elif not _are_strings(arguments):
        raise InvalidParams('"arguments" must be an object of strings')
    prompt = prompt_named(server.catalog, name)
    try:
        result = await prompt.get(arguments, context)
    except InvalidArguments as error:  # PROMPT-2, PROMPT-3
        raise InvalidParams(
            f"Invalid arguments for the prompt {truncate(name)}: {error}"
        ) from error
    except UrlElicitationRequired as error:
        raise await context.backend.requester().open_url(error) from None
    except Exception as error:
        if (text := text_to_show(error, prompt, PromptError)) is None:
            raise
        raise PromptError(text) from error
    if result.description:
        return result
    return replace(result, description=prompt.description)


def _are_strings(value: object) -> TypeGuard[dict[str, str]]:
    return is_object(value) and {*map(type, value.values())} <= {str}


MAX_COMPLETIONS: Final = 100
"""Values in the result of ``completion/complete`` (COMP-2)."""


async def complete(server: Server, params: Params, context: Context[Any]) -> Params:
    """``completion/complete``: at most 100 values, and how many there are (COMP-2)."""
    argument = params.get("argument")
    ref = params.get("ref")
    if not is_object(argument) or not is_object(ref):
        raise InvalidParams('completion/complete needs "ref" and "argument", both objects')
    name, typed = argument.get("name"), argument.get("value")
    if not isinstance(name, str) or not isinstance(typed, str):
        raise InvalidParams('"argument" needs "name" and "value", both strings')
    entry = referred(server.catalog, ref)
    if name not in [each.wire_name for each in entry.accepts.fields]:
        raise InvalidParams(f"Unknown argument: {truncate(name)}")  # COMP-3
    others: Mapping[str, str] | None = None
    if context.request.revision.completion_context:
        filled = params.get("context")
        others = filled.get("arguments") if is_object(filled) else None
        if others is not None and not _are_strings(others):
            raise InvalidParams('"context.arguments" must be an object of strings')
    found: list[str] = []
    try:
        found = [str(each) for each in await entry.complete(name, typed, others, context)]
    except InputRequestError as error:
        # Completion must not fail for that, and in 2026-07-28 completers cannot ask.
        log.debug("no completions for %s: %s", name, error)
    completion: dict[str, Any] = {"values": found[:MAX_COMPLETIONS]}
    if len(found) > MAX_COMPLETIONS:
        completion |= {"total": len(found), "hasMore": True}
    return {"completion": completion}


HANDLERS: Final[Mapping[str, Handler]] = {
    "initialize": initialize,
    "discover": discover,
    "ping": ping,
    "list_tools": _list("tools"),
    "list_resources": _list("resources"),
    "list_templates": _list("resourceTemplates"),
    "list_prompts": _list("prompts"),
    "call_tool": call_tool,
    "read_resource": read_resource,
    "get_prompt": get_prompt,
    "complete": complete,
}
