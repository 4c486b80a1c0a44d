"""The MCP methods: (server, params, context) → a value, or an awaitable of one.

A function for each method, named in the revisions' tables. Those that run a handler return an
awaitable, the others a value. Values are encoded at the end (`mcpkit._server.encoding`). Here also
stands what an exception becomes: a *result* for a tool that failed, an error for everything else.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeGuard

from mcpkit._entries import Entry, Listing
from mcpkit._protocol import wire
from mcpkit._protocol.connection import Request
from mcpkit._protocol.revisions import REVISIONS, Revision
from mcpkit._server.encoding import Completion, Encoded
from mcpkit._server.registry import Catalog, Page
from mcpkit._server.server import Server, log
from mcpkit._server.task_handlers import TASK_OPERATIONS, create_task_if_requested
from mcpkit._signature.converters import NotSerializable
from mcpkit._signature.output import OutputMismatch, Rendered
from mcpkit._utils.json import is_object
from mcpkit._utils.text import quote_name, truncate
from mcpkit.context import Context
from mcpkit.errors import (
    ConnectionClosed,
    ElicitationError,
    InputRequestError,
    InternalError,
    InvalidArguments,
    InvalidParams,
    MCPKitError,
    MissingClientCapability,
    PromptError,
    ProtocolError,
    PublicError,
    ResourceError,
    ResourceNotFound,
    UrlElicitationRequired,
)
from mcpkit.middleware import Handler, Params
from mcpkit.prompts import Prompt
from mcpkit.resources import Readable, ResourceTemplate
from mcpkit.tasks.protocol import may_list_tasks, task_capabilities
from mcpkit.tools import Tool
from mcpkit.types import PromptResult, ResourceResult

__all__ = [
    "OPERATIONS",
    "capabilities",
    "error_result",
    "not_found",
    "read",
    "to_protocol_error",
    "uri_of",
    "use_tool",
]

# --- identity -------------------------------------------------------------------------------------


def capabilities(
    catalog: Catalog, revision: Revision, *, lists_tasks: bool = False
) -> dict[str, Any]:
    """Return the capabilities object: exactly what there is to use, nothing else."""
    shapes: dict[str, dict[str, Any]] = {
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
        "completions": {},
        "logging": {},
    }
    advertised = catalog.advertised
    present: dict[str, Any] = {name: shape for name, shape in shapes.items() if name in advertised}
    if "tasks" in advertised:
        present.update(task_capabilities(revision, lists=lists_tasks))
    return revision.keep(revision.server_capabilities, present)


def initialize(server: Server, params: Params, context: Context[Any]) -> Mapping[str, Any]:
    """``initialize``: the negotiated revision, and who answers."""
    del params
    request = context.request
    return wire.some(
        protocolVersion=request.revision.version,
        capabilities=capabilities(
            server.catalog, request.revision, lists_tasks=may_list_tasks(request)
        ),
        serverInfo=wire.implementation_to_wire(server.info, request.revision),
        instructions=server.instructions,
    )


def discover(server: Server, params: Params, context: Context[Any]) -> Mapping[str, Any]:
    """``server/discover``: the same, for clients without a handshake."""
    del params
    request = context.request
    return wire.some(
        supportedVersions=[each.version for each in REVISIONS],
        capabilities=capabilities(server.catalog, request.revision),
        instructions=server.instructions,
    )


def ping(server: Server, params: Params, context: Context[Any]) -> Mapping[str, Any]:
    """``ping``: the empty result."""
    del server, params, context
    return {}


# --- lists ----------------------------------------------------------------------------------------


def _list(listing: Listing) -> Handler[Server]:
    def list_page(server: Server, params: Params, context: Context[Any]) -> Page | Awaitable[Page]:
        cursor = params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise InvalidParams('"cursor" must be a string')
        return server.catalog.page(listing, cursor, server.settings.page_size, context)

    return list_page


# --- tools ----------------------------------------------------------------------------------------


def call_tool(
    server: Server, params: Params, context: Context[Any]
) -> Awaitable[Rendered | Encoded]:
    """``tools/call``: a result, also when the tool failed; the model is to read about it."""
    name: Any = params.get("name")
    arguments: Any = params.get("arguments")
    if type(name) is not str:
        raise InvalidParams('tools/call needs "name", a string')
    if arguments is None:
        arguments = {}
    elif arguments.__class__ is not dict:
        raise InvalidParams('"arguments" must be an object')
    catalog = server.catalog
    tool = catalog.tools.get(name)
    if tool is not None:
        if "tasks" in catalog.advertised:
            task = create_task_if_requested(tool, params, arguments, server, context, error_result)
            if task is not None:
                return task
        return use_tool(tool, arguments, context)
    provided = catalog.provided("tools", name, context)
    if provided is None:
        raise InvalidParams(f"Unknown tool: {truncate(name)}")  # TOOL-6
    return _use_provided(name, provided, arguments, context)


async def _use_provided(
    name: str, provided: Awaitable[Tool | None], arguments: dict[str, Any], context: Context[Any]
) -> Rendered:
    tool = await provided
    if tool is None:
        raise InvalidParams(f"Unknown tool: {truncate(name)}")  # TOOL-6
    return await use_tool(tool, arguments, context)


async def use_tool(tool: Tool, arguments: dict[str, Any], context: Context[Any]) -> Rendered:
    """Call a tool, and turn its failure into a result for the model (TOOL-7, TOOL-8).

    Args:
        tool: Of the registry, or one that a model was given for a while.
        arguments: As they were sent.
        context: Of the request that is served.

    Raises:
        ProtocolError: The client is to act on the error's code.
    """
    try:
        return await tool.call(arguments, context)
    except Exception as error:
        return await error_result(tool, context, error)


async def error_result(tool: Tool, context: Context[Any], error: BaseException) -> Rendered:
    """Return the result that tells a model of an exception.

    Raises:
        BaseException: It is none for a model.
    """
    error = unwrap(error)
    if not isinstance(error, Exception):
        raise error
    if isinstance(error, UrlElicitationRequired):
        error = await context.peer.open_url(error)
    if isinstance(error, ProtocolError) and not _is_result(error, context.request):
        raise error
    if isinstance(error, (PublicError, ProtocolError, ElicitationError, ConnectionClosed)):
        context.peer.handler_raised(error)
        text = str(error)
    elif isinstance(error, OutputMismatch):
        reference = fault(context, error, f"the tool {tool.name} returned an unfit value")
        text = f"The tool returned a value that does not fit its own output schema ({reference})."
    elif isinstance(error, NotSerializable):
        reference = fault(context, error, f"the tool {tool.name} returned an unfit value")
        text = f"The tool returned a value that cannot be sent: {error} ({reference})."
    elif (shown := shown_text(error, tool.errors)) is not None:
        context.peer.handler_raised(error)
        text = shown
    else:
        reference = fault(context, error, f"the tool {tool.name} failed", tool)
        text = f"The tool failed ({reference})."
    return Rendered(text, is_error=True)


# --- exceptions -----------------------------------------------------------------------------------


def to_protocol_error(error: BaseException, context: Context[Any]) -> ProtocolError:
    """Turn the exception that ended a run into the error that answers its request."""
    error = unwrap(error)
    if isinstance(error, ProtocolError) and not _is_result(error, context.request):
        return error
    if isinstance(error, (PublicError, ProtocolError, ElicitationError, ConnectionClosed)):
        context.peer.handler_raised(error)
        if isinstance(error, ResourceNotFound):
            return not_found(error, error.uri or "", context.request.revision)
        return InternalError(str(error))
    reference = fault(context, error, f"{context.method} failed")
    if isinstance(error, NotSerializable):
        return InternalError(f"The server cannot send its answer: {error} ({reference})")
    return InternalError(f"The server failed to answer ({reference})")


def _is_result(error: ProtocolError, request: Request) -> bool:
    """True if a client has no use for an error's code: a tool's result has to tell (S2C-5)."""
    if request.revision.client_asks == "result":
        return False
    if isinstance(error, UrlElicitationRequired):
        elicitation = request.client.capabilities.get("elicitation")
        can_open = is_object(elicitation) and "url" in elicitation  # ELIC-1
        return not (request.revision.elicitation_ids and can_open)
    return isinstance(error, MissingClientCapability)


def _shown(error: Exception, entry: Entry, kind: type[PublicError]) -> Exception:
    """Return the error whose message is shown instead of an exception; itself if none is."""
    found = unwrap(error)
    if isinstance(found, (MCPKitError, OutputMismatch, NotSerializable)):
        return error
    text = shown_text(found, entry.errors)
    return error if text is None else kind(text)


def unwrap(error: BaseException) -> BaseException:
    """Return the one exception in a group of one, such as a task group raises around it."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    while len(inner) == 1:
        error = inner[0]
        inner = getattr(error, "exceptions", ())
    return error


def shown_text(error: BaseException, errors: tuple[type[Exception], ...]) -> str | None:
    """Return the text of an exception, if its author wants it to be shown; None if not.

    Args:
        error: As it left the handler; of a group of exceptions all have to be shown.
        errors: The classes that are shown.
    """
    if not errors:
        return None
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    if inner:
        texts = [shown_text(each, errors) for each in inner]
        return None if None in texts else "\n".join(filter(None, texts))
    if not isinstance(error, errors):
        return None
    text = str(error)
    # The text of a KeyError is the key alone, and some exceptions have none.
    if isinstance(error, KeyError):
        return f"{type(error).__name__}: {text}"
    return text or type(error).__name__


def _names(error: BaseException) -> Iterator[str]:
    """Yield the name of the class of an exception, of a group those of all in it."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    if not inner:
        yield type(error).__name__
    for each in inner:
        yield from _names(each)


def fault(
    context: Context[Any], error: BaseException, what: str, entry: Entry | None = None
) -> str:
    """Log a fault of the server, and return the reference that stands beside it in the log.

    Args:
        context: Of the request that failed.
        error: That left the handler.
        what: What failed, as the beginning of a sentence.
        entry: Whose exceptions may be shown, if its author says so; the log tells how, once.
    """
    reference = f"reference {os.urandom(4).hex()}"
    how = ""
    if entry is not None and entry.tells_how and isinstance(error, Exception):
        entry.tells_how = False
        names = ", ".join(dict.fromkeys(_names(error)))
        how = f"; the model does not see why: errors=({names},) or ToolError would show it"
    log.error("%s (%s, request %r)%s", what, reference, context.request_id, how, exc_info=error)
    context.peer.handler_raised(error)
    return reference


# --- resources ------------------------------------------------------------------------------------


_LONGEST_URI: Final = 64 * 1024
"""Characters of a URI; matching one with a template takes time in proportion."""


def uri_of(params: Params) -> str:
    """Return the ``uri`` of a request.

    Raises:
        InvalidParams: There is none.
    """
    uri = params.get("uri")
    if not isinstance(uri, str):
        raise InvalidParams('"uri" must be a string')
    check_uri(uri)
    return uri


def check_uri(uri: str) -> None:
    """Check that a URI is not too long to be looked up.

    Raises:
        InvalidParams: It is.
    """
    if len(uri) > _LONGEST_URI:
        raise InvalidParams(f"A URI is longer than {_LONGEST_URI} characters")


async def read_resource(server: Server, params: Params, context: Context[Any]) -> ResourceResult:
    """``resources/read``: one or several contents; a missing resource is an error (RES-3…5)."""
    uri = uri_of(params)
    try:
        return await read(server, uri, context)
    except ResourceNotFound as error:
        raise not_found(error, uri, context.request.revision) from error


async def read(server: Server, uri: str, context: Context[Any]) -> ResourceResult:
    """Read what is at a URI.

    Raises:
        ResourceNotFound: There is nothing, or the handler says so.
    """
    catalog = server.catalog
    entry: Readable | None
    variables: Mapping[str, Any]
    entry, variables = catalog.resource(uri) or (None, {})
    if entry is None:
        provided = catalog.provided("resources", uri, context)
        entry = None if provided is None else await provided
    if entry is None:
        raise ResourceNotFound(uri)
    try:
        result = await entry.read(uri, variables, context)
    except UrlElicitationRequired as error:
        raise await context.peer.open_url(error) from None
    except Exception as error:
        raise _shown(error, entry, ResourceError) from error
    return ResourceResult(
        result.contents,
        ttl=entry.ttl if result.ttl is None else result.ttl,
        # CACHE-4: whoever may not read must not find it kept by another.
        cache_scope="private"
        if entry.scopes or entry.allow
        else result.cache_scope or entry.cache_scope,
        meta=result.meta,
    )


def not_found(error: ResourceNotFound, uri: str, revision: Revision) -> ProtocolError:
    """Return the JSON-RPC error for a URI that names nothing; its code depends on the revision."""
    return ProtocolError(
        str(error) if error.uri else f"Resource not found: {truncate(uri)}",
        code=revision.resource_not_found,
        data={"uri": uri},
    )


# --- prompts --------------------------------------------------------------------------------------


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
    prompt = server.catalog.prompts.get(name)
    if prompt is None:
        prompt = await _prompt(server.catalog, name, context)
    try:
        result = await prompt.get(arguments, context)
    except InvalidArguments as error:  # PROMPT-2, PROMPT-3
        raise InvalidParams(
            f"Invalid arguments for the prompt {truncate(name)}: {error}"
        ) from error
    except UrlElicitationRequired as error:
        raise await context.peer.open_url(error) from None
    except Exception as error:
        raise _shown(error, prompt, PromptError) from error
    if result.description:
        return result
    return replace(result, description=prompt.description)


async def _prompt(catalog: Catalog, name: Any, context: Context[Any]) -> Prompt:
    prompt = catalog.prompts.get(name) if isinstance(name, str) else None
    if prompt is None and isinstance(name, str):
        provided = catalog.provided("prompts", name, context)
        prompt = None if provided is None else await provided
    if prompt is None:
        raise InvalidParams(f"Unknown prompt: {quote_name(name)}")
    return prompt


_STRING: Final = frozenset({str})


def _are_strings(value: object) -> TypeGuard[dict[str, str]]:
    return is_object(value) and {*map(type, value.values())} <= _STRING


# --- completion -----------------------------------------------------------------------------------

_MOST_VALUES: Final = 100


async def complete(server: Server, params: Params, context: Context[Any]) -> Completion:
    """``completion/complete``: at most 100 values, and how many there are (COMP-2)."""
    argument = params.get("argument")
    ref = params.get("ref")
    if not is_object(argument) or not is_object(ref):
        raise InvalidParams('completion/complete needs "ref" and "argument", both objects')
    name, typed = argument.get("name"), argument.get("value")
    if not isinstance(name, str) or not isinstance(typed, str):
        raise InvalidParams('"argument" needs "name" and "value", both strings')
    entry = await _referred(server.catalog, ref, context)
    if name not in entry.argument_names:
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
        # A suggestion is no reason to fail, and on 2026-07-28 completers cannot ask.
        log.debug("nothing is suggested for %s: %s", name, error)
    return Completion(found[:_MOST_VALUES], len(found) if len(found) > _MOST_VALUES else None)


async def _referred(
    catalog: Catalog, ref: Mapping[str, Any], context: Context[Any]
) -> Prompt | ResourceTemplate:
    kind = ref.get("type")
    if kind == "ref/prompt":
        return await _prompt(catalog, ref.get("name"), context)
    if kind == "ref/resource":
        uri = ref.get("uri")
        if isinstance(uri, str):
            template = catalog.templates.get(uri)
            if template is not None:
                return template
            found = catalog.resource(uri)  # COMP-5
            if found is not None and isinstance(found[0], ResourceTemplate):
                return found[0]
            provided = catalog.provided("resourceTemplates", uri, context)
            entry = None if provided is None else await provided
            if isinstance(entry, ResourceTemplate):
                return entry
        raise InvalidParams(f"Unknown resource template: {quote_name(uri)}")
    raise InvalidParams('"ref.type" must be "ref/prompt" or "ref/resource"')


OPERATIONS: Final[Mapping[str, Handler[Server]]] = {
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
    **TASK_OPERATIONS,
}
