"""The values that handlers return → the members of a result, in the request's revision.

Handlers know nothing of the wire: their values are encoded here, once, at the very end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pydantic_core import to_json

from mcpkit._input_requests.requester import InputRequired
from mcpkit._protocol import wire
from mcpkit._protocol.connection import Request
from mcpkit._protocol.messages import Encoded, encode, members
from mcpkit._protocol.revisions import Revision
from mcpkit._server.registry import Page
from mcpkit._server.server import Server
from mcpkit._signature.converters import block_of, check_content
from mcpkit._signature.output import Rendered
from mcpkit.types import CacheScope, Message, PromptResult, ResourceResult

_Encoded: TypeAlias = tuple[
    bytes, "Mapping[str, Any] | None", "float | None", "CacheScope | None", bytes
]
"""A result without the members that its revision adds to every one.

The encoded members without braces; the ``_meta``; the seconds that it may be cached, and the scope
of the cache, or None for the server's settings; the ``resultType``.
"""

_COMPLETE: Final = b"complete"
_QUOTE: Final = ord('"')


def encode_result(server: Server, request: Request, value: Any, *, private: bool = False) -> bytes:
    """Encode the members of a result, with those that its revision adds to every one.

    A `private` result must not be cached, whatever the settings say (CACHE-5). Raises any exception
    if a ``_meta`` is not JSON.
    """
    revision = request.revision
    encode_value = _ENCODERS.get(type(value)) or next(  # pyright: ignore[reportUnknownArgumentType]
        (encoder for each, encoder in _ENCODERS.items() if isinstance(value, each)), _members
    )
    text, own_meta, ttl, scope, name = encode_value(value, revision)
    if not revision.result_metadata:
        if own_meta is None:
            return text
        return (text + b"," if text else b"") + members({"_meta": own_meta})
    hints = b""
    if request.known.cacheable and name == b"complete":  # CACHE-2
        settings = server.settings
        ttl = settings.cache_ttls.get(request.known.capability, 0) if ttl is None else ttl
        scope = scope or settings.cache_scope
        if private:
            ttl, scope = 0, "private"
        hints = b',"ttlMs":%d,"cacheScope":%b' % (round(ttl * 1000), encode(scope))
    meta = server.info_texts.get(revision.version) or server.info_meta(revision)
    if own_meta:
        meta = members(own_meta) + b"," + meta
    if text:
        text += b","
    return b'%b"resultType":"%b"%b,"_meta":{%b}' % (text, name, hints, meta)


def _tool(value: Rendered, revision: Revision) -> _Encoded:
    content = value.content
    structured = value.structured
    if content is None and structured is not None:
        if b'"' not in structured:  # numbers, literals and lists of them need no escapes
            text = b'"content":[{"type":"text","text":"%b"}]' % structured
        else:  # a JSON string is its own text
            is_text = structured[0] == _QUOTE
            quoted = structured if is_text else to_json(structured.decode())
            text = b'"content":[{"type":"text","text":%b}]' % quoted
    elif isinstance(content, str):
        text = b'"content":[{"type":"text","text":%b}]' % encode(content)
    else:
        text = b'"content":' + encode(
            [wire.block_to_wire(each, revision) for each in content or ()]
        )
    known = revision.structured_output
    if structured is not None and known != "none":
        if value.is_object or (value.is_raw and known != "object"):
            text += b',"structuredContent":' + structured
        else:
            text += b',"structuredContent":{"result":%b}' % structured  # TOOL-11
    if value.is_error:
        text += b',"isError":true'
    return text, value.meta, None, None, _COMPLETE


def _page(value: Page, revision: Revision) -> _Encoded:
    scope: CacheScope | None = "private" if value.is_private else None
    return value.members(revision), None, None, scope, _COMPLETE


def _resource(value: ResourceResult, revision: Revision) -> _Encoded:
    for each in value.contents:
        check_content(each)
    contents = [wire.contents_to_wire(each, revision) for each in value.contents]
    text = members({"contents": contents})
    return text, value.meta, value.cache_ttl, value.cache_scope, _COMPLETE


def _prompt(value: PromptResult, revision: Revision) -> _Encoded:
    messages: list[dict[str, Any]] = []
    for each in value.messages:
        content: Any = each
        message = each if isinstance(each, Message) else Message(content)
        block = wire.block_to_wire(block_of(message.content), revision)  # PROMPT-4
        messages.append({"role": message.role, "content": block})
    found = wire.some(description=value.description, messages=messages)
    return members(found), value.meta, None, None, _COMPLETE


def _members(value: Mapping[str, Any], _: Revision) -> _Encoded:
    return members(value), None, None, None, _COMPLETE


_Encoder: TypeAlias = Callable[[Any, Revision], _Encoded]

_ENCODERS: Final[Mapping[type[Any], _Encoder]] = {
    Rendered: _tool,
    Page: _page,
    ResourceResult: _resource,
    PromptResult: _prompt,
    InputRequired: lambda value, _: (members(value.members), None, None, None, b"input_required"),
    Encoded: lambda value, _: (value.members, value.meta, value.ttl, value.scope, value.kind),
}
"""A row for each class of value; a mapping of members has none."""
