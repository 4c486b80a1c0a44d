"""What an exception becomes: the result of a tool that failed, or a JSON-RPC error."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from mcpkit._entries import Entry
from mcpkit._protocol.connection import Request
from mcpkit._protocol.revisions import Revision
from mcpkit._signature.converters import NotSerializable
from mcpkit._signature.output import OutputMismatch, Rendered
from mcpkit._utils.json import is_object
from mcpkit._utils.logs import log
from mcpkit._utils.text import truncate
from mcpkit.context import Context
from mcpkit.errors import (
    ConnectionClosed,
    ElicitationError,
    InternalError,
    LimitExceeded,
    MCPKitError,
    MissingClientCapability,
    ProtocolError,
    PublicError,
    ResourceNotFound,
    ToolError,
    UrlElicitationRequired,
)
from mcpkit.tools import Tool


async def error_result(tool: Tool, context: Context[Any], error: BaseException) -> Rendered:
    """Return the result that shows a model an exception (TOOL-7, TOOL-8).

    Raises those that are not for a model: a `ProtocolError` whose code the client has to act on.
    """
    error = unwrap(error)
    if not isinstance(error, Exception):
        raise error
    if isinstance(error, UrlElicitationRequired):
        error = await context.backend.requester().open_url(error)
    is_for_model = isinstance(error, LimitExceeded)
    if isinstance(error, ProtocolError) and not (
        is_for_model or _is_result(error, context.request)
    ):
        raise error
    if isinstance(error, (PublicError, ProtocolError, ElicitationError, ConnectionClosed)):
        context.backend.on_exception(error)
        text = str(error)
    elif isinstance(error, (OutputMismatch, NotSerializable)):
        reference = internal_error(
            context, error, f"the tool {tool.name} returned an invalid value"
        )
        why = "does not fit its own output schema"
        if isinstance(error, NotSerializable):
            why = f"cannot be sent: {error}"
        text = f"The tool returned a value that {why} ({reference})."
    elif (shown := shown_text(error, tool.expose_errors)) is not None:
        context.backend.on_exception(error)
        text = shown
    else:
        reference = internal_error(context, error, f"the tool {tool.name} failed", tool)
        text = f"The tool failed ({reference})."
    return Rendered(text, is_error=True)


def to_protocol_error(error: BaseException, context: Context[Any]) -> ProtocolError:
    """Return the JSON-RPC error for the exception that ended a run."""
    error = unwrap(error)
    if isinstance(error, ProtocolError) and not _is_result(error, context.request):
        return error
    if isinstance(error, (PublicError, ProtocolError, ElicitationError, ConnectionClosed)):
        context.backend.on_exception(error)
        if isinstance(error, ResourceNotFound):
            return not_found(error, error.uri or "", context.request.revision)
        return InternalError(str(error))
    reference = internal_error(context, error, f"{context.method} failed")
    if isinstance(error, NotSerializable):
        return InternalError(f"The server cannot send its answer: {error} ({reference})")
    return InternalError(f"The server failed to answer ({reference})")


def not_found(error: ResourceNotFound, uri: str, revision: Revision) -> ProtocolError:
    """Return the JSON-RPC error for a URI without a resource; its code depends on the revision."""
    return ProtocolError(
        str(error) if error.uri else f"Resource not found: {truncate(uri)}",
        code=revision.resource_not_found,
        data={"uri": uri},
    )


def text_to_show(error: Exception, entry: Entry, kind: type[PublicError]) -> str | None:
    """Return the text of the error of `kind` to show instead of an exception; None: it stays."""
    found = unwrap(error)
    if isinstance(found, (MCPKitError, OutputMismatch, NotSerializable)):
        return None
    text = shown_text(found, entry.expose_errors)
    if text is None and (how := _how_to_show(found, entry, kind)):
        log.warning("clients do not see why %s fails: %s", entry.name, how)
    return text


def shown_text(error: BaseException, errors: tuple[type[Exception], ...]) -> str | None:
    """Return the text of an exception if its class is shown; of a group, all must be."""
    if not errors:
        return None
    texts: list[str] = []
    for each in leaves(error):
        if not isinstance(each, errors):
            return None
        name, text = type(each).__name__, str(each)
        # The text of a KeyError is the key alone, and some exceptions have none.
        texts.append(f"{name}: {text}" if isinstance(each, KeyError) else text or name)
    return "\n".join(texts)


def unwrap(error: BaseException) -> BaseException:
    """Return the only exception in a group, such as a task group raises around it."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    while len(inner) == 1:
        error = inner[0]
        inner = getattr(error, "exceptions", ())
    return error


def internal_error(
    context: Context[Any], error: BaseException, what: str, tool: Tool | None = None
) -> str:
    """Log a fault of the server, and return the reference to the log for the response."""
    reference = f"reference {os.urandom(4).hex()}"
    how = _how_to_show(error, tool, ToolError) if tool is not None else ""
    how = how and f"; the model does not see why: {how}"
    log.error("%s (%s, request %r)%s", what, reference, context.request_id, how, exc_info=error)
    context.backend.on_exception(error)
    return reference


def _how_to_show(error: BaseException, entry: Entry, kind: type[PublicError]) -> str:
    """Return how to show exceptions of an entry; empty except for its first one."""
    if not entry.tells_how or not isinstance(error, Exception):
        return ""
    entry.tells_how = False
    names = ", ".join(dict.fromkeys(type(each).__name__ for each in leaves(error)))
    return f"expose_errors=({names},) or {kind.__name__} would show it"


def _is_result(error: ProtocolError, request: Request) -> bool:
    """Return True if the client cannot act on an error's code, and the model sees it (S2C-5)."""
    if request.revision.input_via == "result":
        return False
    if isinstance(error, UrlElicitationRequired):
        elicitation = request.client.capabilities.get("elicitation")
        can_open = is_object(elicitation) and "url" in elicitation  # ELIC-1
        return not (request.revision.elicitation_ids and can_open)
    return isinstance(error, MissingClientCapability)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, or all exceptions in a group."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    if not inner:
        yield error
    for each in inner:
        yield from leaves(each)
