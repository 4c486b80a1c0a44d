"""What each MCP method does: (server, params, context) → the members of its result.

A function per method, named in the revisions' tables. Those that run a handler are async, the
others are plain. What an exception becomes is decided in `mcpkit.engine.session`, except where the
protocol asks for a *result*: a tool that failed.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeGuard, cast

from mcpkit.asking.elicitation import ElicitUrl
from mcpkit.context import Context
from mcpkit.engine.registry import Listing, Readable, Registry, Resource, ResourceTemplate, Tool
from mcpkit.engine.server import Server, log
from mcpkit.errors import (
    AskError,
    ConnectionClosed,
    ElicitationError,
    InvalidArguments,
    InvalidParams,
    MissingClientCapability,
    ProtocolError,
    PublicError,
    ResourceNotFound,
    UrlElicitationRequired,
)
from mcpkit.functions.output import OutputMismatch, Rendered, block_of
from mcpkit.protocol import wire
from mcpkit.protocol.connection import Request
from mcpkit.protocol.messages import encode, members
from mcpkit.protocol.revision import Revision
from mcpkit.protocol.revisions import REVISIONS
from mcpkit.types import (
    BlobResourceContents,
    CacheScope,
    Media,
    Message,
    PromptResult,
    ResourceContents,
    ResourceResult,
    TextResourceContents,
    contents_of,
    is_binary,
    is_object,
)

__all__ = [
    "OPERATIONS",
    "Reply",
    "capabilities",
    "is_result",
    "read",
    "tool_failed",
    "tool_members",
]

Params: TypeAlias = Mapping[str, Any]


@dataclass(slots=True)
class Reply:
    """A result, before its revision has stamped it.

    Args:
        members: Its encoded members, without braces.
        meta: Its ``_meta``, without what the stamp adds.
        ttl: For how many seconds it may be kept; None leaves the server's setting.
        cache_scope: As above.
        kind: The ``resultType``, where results have one.
    """

    members: bytes
    meta: Mapping[str, Any] | None = None
    ttl: float | None = None
    cache_scope: CacheScope | None = None
    kind: str = "complete"


EMPTY: Final = Reply(b"")

# --- identity -------------------------------------------------------------------------------------


def capabilities(registry: Registry, revision: Revision) -> dict[str, Any]:
    """The capabilities object: exactly what is registered, nothing else."""
    shapes: dict[str, dict[str, Any]] = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "completions": {},
        "logging": {},
    }
    present: dict[str, Any] = {
        name: shape for name, shape in shapes.items() if name in registry.advertised
    }
    return revision.keep(revision.server_capabilities, present)


def initialize(server: Server, params: Params, context: Context[Any]) -> Reply:
    """``initialize``: what was negotiated, and who answers."""
    del params
    revision = context.request.revision
    result = wire.some(
        protocolVersion=revision.version,
        capabilities=capabilities(server.registry, revision),
        serverInfo=wire.implementation_to_wire(server.info, revision),
        instructions=server.instructions,
    )
    return Reply(members(result))


def discover(server: Server, params: Params, context: Context[Any]) -> Reply:
    """``server/discover``: the same, for clients without a handshake."""
    del params
    result = wire.some(
        supportedVersions=[each.version for each in REVISIONS],
        capabilities=capabilities(server.registry, context.request.revision),
        instructions=server.instructions,
    )
    return Reply(members(result))


def ping(server: Server, params: Params, context: Context[Any]) -> Reply:
    """``ping``: the empty result."""
    del server, params, context
    return EMPTY


# --- lists ----------------------------------------------------------------------------------------


def _list(listing: Listing) -> Callable[[Server, Params, Context[Any]], Reply]:
    def list_page(server: Server, params: Params, context: Context[Any]) -> Reply:
        cursor = params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise InvalidParams('"cursor" must be a string')
        revision = context.request.revision
        return Reply(server.registry.page(listing, revision, cursor, server.settings.page_size))

    return list_page


# --- tools ----------------------------------------------------------------------------------------


async def call_tool(server: Server, params: Params, context: Context[Any]) -> Reply:
    """``tools/call``: a result, also when the tool failed; the model is to read about it."""
    name = params.get("name")
    arguments = params.get("arguments")
    if not isinstance(name, str):
        raise InvalidParams('tools/call needs "name", a string')
    if arguments is None:
        arguments = {}
    elif type(arguments) is not dict:
        raise InvalidParams('"arguments" must be an object')
    tool = server.registry.tools.get(name)
    if tool is None:
        raise InvalidParams(f"Unknown tool: {name}")  # TOOL-6
    try:
        values = tool.arguments.validate(cast("dict[str, Any]", arguments))
        result = await tool.plan.run(values, context)
        rendered = tool.output.render(result)
        return Reply(tool_members(tool, rendered, context.request.revision), rendered.meta)
    except Exception as error:
        return await tool_failed(tool, context, error)


async def tool_failed(tool: Tool, context: Context[Any], error: BaseException) -> Reply:
    """The result of a tool that has raised; what is no result is raised again."""
    if not isinstance(error, Exception):
        raise error
    rendered = _failed(tool, context, await _page_asked(unwrap(error), context))
    return Reply(tool_members(tool, rendered, context.request.revision), rendered.meta)


def _failed(tool: Tool, context: Context[Any], error: BaseException) -> Rendered:
    """The result that tells a model of a failure (TOOL-7, TOOL-8); protocol errors pass through."""
    if isinstance(error, ProtocolError) and not is_result(error, context.request):
        raise error
    if isinstance(error, (PublicError, ProtocolError, ElicitationError, ConnectionClosed)):
        context.peer.handler_raised(context.request, error)
        text = str(error)
    elif isinstance(error, OutputMismatch):
        reference = fault(context, error, f"the tool {tool.name} returned an unfit value")
        text = f"The tool returned a value that does not fit its own output schema ({reference})."
    else:
        reference = fault(context, error, f"the tool {tool.name} failed")
        text = f"The tool failed ({reference})."
    return Rendered(text, is_error=True)


def is_result(error: ProtocolError, request: Request) -> bool:
    """Whether a client has no use for an error's code: a tool's result has to tell (S2C-5)."""
    if request.revision.client_asks == "result":
        return False
    if isinstance(error, UrlElicitationRequired):
        elicitation = request.client.capabilities.get("elicitation")
        can_open = is_object(elicitation) and "url" in elicitation  # ELIC-1
        return not (request.revision.elicitation_ids and can_open)
    return isinstance(error, MissingClientCapability)


async def _page_asked(error: BaseException, context: Context[Any]) -> BaseException:
    """What to answer an exception with, once the user was asked to open the page it wants."""
    asks = context.request.revision.client_asks
    if not isinstance(error, UrlElicitationRequired) or asks == "request":
        return error
    ask = ElicitUrl(error.message, error.url, error.elicitation_id)
    try:
        # To open a page is not to be done there (ELIC-10): the handler said that it is not.
        while (await context.peer.ask(context, ask)).accepted:
            pass
    except Exception as refused:
        return refused
    return AskError(f"The user did not open the page: {error.message}")


def unwrap(error: BaseException) -> BaseException:
    """The one exception in a group of one, such as a task group raises around a single failure."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    while len(inner) == 1:
        error = inner[0]
        inner = getattr(error, "exceptions", ())
    return error


def tool_members(tool: Tool, rendered: Rendered, revision: Revision) -> bytes:
    """The members of a tool's result, as a revision has them."""
    content = rendered.content
    if isinstance(content, str):
        text = b'"content":[{"type":"text","text":' + encode(content) + b"}]"
    else:
        text = b'"content":' + encode([wire.block_to_wire(each, revision) for each in content])
    structured = rendered.structured
    if structured is not None and revision.structured_output != "none":
        is_object = structured[:1] == b"{" if tool.output.schema is None else tool.output.is_object
        if revision.structured_output == "object" and not is_object:
            structured = b'{"result":' + structured + b"}"  # TOOL-11
        text += b',"structuredContent":' + structured
    return text + b',"isError":true' if rendered.is_error else text


def fault(context: Context[Any], error: BaseException, what: str) -> str:
    """Log a fault of the server, and give the reference that stands beside it in the log."""
    reference = f"reference {os.urandom(4).hex()}"
    log.error("%s (%s, request %r)", what, reference, context.request_id, exc_info=error)
    context.peer.handler_raised(context.request, error)
    return reference


# --- resources ------------------------------------------------------------------------------------


_LONGEST_URI: Final = 64 * 1024
"""Characters of a URI; matching one with a template takes time in proportion."""


def uri_of(params: Params) -> str:
    """The ``uri`` of a request.

    Raises:
        InvalidParams: There is none.
    """
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise InvalidParams('"uri" must be a string')
    if len(uri) > _LONGEST_URI:
        raise InvalidParams(f'"uri" is longer than {_LONGEST_URI} characters')
    return uri


async def read_resource(server: Server, params: Params, context: Context[Any]) -> Reply:
    """``resources/read``: one or several contents; a missing resource is an error (RES-3…5)."""
    uri = uri_of(params)
    try:
        resource, result = await read(server, uri, context)
    except ResourceNotFound as error:
        raise not_found(error, uri, context.request.revision) from error
    revision = context.request.revision
    contents = [wire.contents_to_wire(each, revision) for each in result.contents]
    return Reply(
        members({"contents": contents}),
        result.meta,
        result.ttl if result.ttl is not None else resource.ttl,
        result.cache_scope or resource.cache_scope,
    )


async def read(server: Server, uri: str, context: Context[Any]) -> tuple[Readable, ResourceResult]:
    """Run the handler of a resource.

    Raises:
        ResourceNotFound: There is none, or its handler says so.
    """
    found = server.registry.find_resource(uri)
    if found is None:
        raise ResourceNotFound(uri)
    resource, variables = found
    values: dict[str, Any] = {}
    if isinstance(resource, ResourceTemplate):
        try:
            values = resource.arguments.validate(variables)
        except InvalidArguments as error:
            # The URI fits the template, but names nothing that this handler could look up.
            raise ResourceNotFound(uri, f"Resource not found: {uri} ({error})") from error
    try:
        value = await resource.plan.run(values, context)
    except UrlElicitationRequired as error:
        raise await _page_asked(error, context) from None
    return resource, _resource_result(value, uri, resource.mime_type)


def not_found(error: ResourceNotFound, uri: str, revision: Revision) -> ProtocolError:
    """The JSON-RPC error for a URI that names nothing; its code depends on the revision."""
    return ProtocolError(
        str(error) if error.uri else f"Resource not found: {uri}",
        code=revision.resource_not_found,
        data={"uri": uri},
    )


def _resource_result(value: Any, uri: str, mime_type: str | None) -> ResourceResult:
    if isinstance(value, ResourceResult):
        return value
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        if items and all(isinstance(item, _CONTENTS) for item in items):
            return ResourceResult(cast("Sequence[ResourceContents]", items))
    return ResourceResult([_contents(value, uri, mime_type)])


_CONTENTS: Final = (TextResourceContents, BlobResourceContents)


def _contents(value: Any, uri: str, mime_type: str | None) -> ResourceContents:
    if isinstance(value, _CONTENTS):
        return value
    if isinstance(value, str):
        return TextResourceContents(uri, value, mime_type=mime_type or "text/plain")
    if is_binary(value):
        mime_type = mime_type or "application/octet-stream"
        return BlobResourceContents(uri, bytes(value), mime_type=mime_type)
    if isinstance(value, Media):
        return contents_of(uri, value.data, mime_type or value.mime_type)
    text = encode(value, by_alias=True, bytes_mode="base64", inf_nan_mode="null").decode()
    return TextResourceContents(uri, text, mime_type=mime_type or "application/json")


# --- prompts --------------------------------------------------------------------------------------


async def get_prompt(server: Server, params: Params, context: Context[Any]) -> Reply:
    """``prompts/get``: messages, from arguments that arrive as strings (PROMPT-3)."""
    name = params.get("name")
    arguments = params.get("arguments")
    if not isinstance(name, str):
        raise InvalidParams('prompts/get needs "name", a string')
    if arguments is None:
        arguments = {}
    elif not _are_strings(arguments):
        raise InvalidParams('"arguments" must be an object of strings')
    prompt = server.registry.prompts.get(name)
    if prompt is None:
        raise InvalidParams(f"Unknown prompt: {name}")
    try:
        values = prompt.arguments.validate(arguments)
    except InvalidArguments as error:  # PROMPT-2, PROMPT-3
        raise InvalidParams(f"Invalid arguments for the prompt {name}: {error}") from error
    try:
        result = _prompt_result(await prompt.plan.run(values, context))
    except UrlElicitationRequired as error:
        raise await _page_asked(error, context) from None
    revision = context.request.revision
    found = wire.some(
        description=result.description or prompt.description,
        messages=[_message(each, revision) for each in result.messages],
    )
    return Reply(members(found), result.meta)


def _are_strings(value: object) -> TypeGuard[dict[str, str]]:
    return is_object(value) and all(isinstance(each, str) for each in value.values())


def _prompt_result(value: Any) -> PromptResult:
    if isinstance(value, PromptResult):
        return value
    if isinstance(value, (list, tuple)):
        return PromptResult(cast("Sequence[Any]", value))
    return PromptResult([value])


def _message(value: Any, revision: Revision) -> dict[str, Any]:
    message = value if isinstance(value, Message) else Message(value)
    return wire.message_to_wire(message, block_of(message.content), revision)


# --- completion -----------------------------------------------------------------------------------

_MOST_VALUES: Final = 100


async def complete(server: Server, params: Params, context: Context[Any]) -> Reply:
    """``completion/complete``: at most 100 values, and whether there are more (COMP-2)."""
    argument = params.get("argument")
    ref = params.get("ref")
    if not is_object(argument) or not is_object(ref):
        raise InvalidParams('completion/complete needs "ref" and "argument", both objects')
    name, typed = argument.get("name"), argument.get("value")
    if not isinstance(name, str) or not isinstance(typed, str):
        raise InvalidParams('"argument" needs "name" and "value", both strings')
    entry = _referred(server.registry, ref)
    if name not in {field.wire_name for field in entry.arguments.fields}:
        raise InvalidParams(f"Unknown argument: {name}")  # COMP-3
    completer = entry.completers.get(name)
    found: list[str] = []
    if completer is not None:
        others: Mapping[str, str] | None = None
        if context.request.revision.completion_context:
            filled = params.get("context")
            others = filled.get("arguments") if is_object(filled) else None
            if others is not None and not _are_strings(others):
                raise InvalidParams('"context.arguments" must be an object of strings')
        try:
            found = [str(each) for each in await completer(typed, others, context)]
        except AskError as error:
            # A suggestion is no reason to fail, and on 2026-07-28 completers cannot ask.
            log.debug("nothing is suggested for %s: %s", name, error)
    completion: dict[str, Any] = {"values": found[:_MOST_VALUES]}
    if len(found) > _MOST_VALUES:
        completion["total"] = len(found)
        completion["hasMore"] = True
    return Reply(members({"completion": completion}))


def _referred(registry: Registry, ref: Mapping[str, Any]) -> Any:
    kind = ref.get("type")
    if kind == "ref/prompt":
        name = ref.get("name")
        prompt = registry.prompts.get(name) if isinstance(name, str) else None
        if prompt is None:
            raise InvalidParams(f"Unknown prompt: {name}")
        return prompt
    if kind == "ref/resource":
        uri = ref.get("uri")
        if isinstance(uri, str):
            if uri in registry.templates:
                return registry.templates[uri]
            found = registry.find_resource(uri)  # COMP-5
            if found is not None and not isinstance(found[0], Resource):
                return found[0]
        raise InvalidParams(f"Unknown resource template: {uri}")
    raise InvalidParams('"ref.type" must be "ref/prompt" or "ref/resource"')


Operation: TypeAlias = Callable[[Server, Params, Context[Any]], "Reply | Awaitable[Reply]"]

OPERATIONS: Final[dict[str, Operation]] = {
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
