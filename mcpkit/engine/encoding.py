"""Values that operations return → the members of a result, as the request's revision has them.

An operation returns a value and knows no wire; the value is encoded here, once, at the very end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias, cast

from mcpkit.engine.registry import Page
from mcpkit.engine.server import Server
from mcpkit.functions.output import Rendered, block_of
from mcpkit.protocol import wire
from mcpkit.protocol.connection import Request
from mcpkit.protocol.messages import encode, members
from mcpkit.protocol.revision import Revision
from mcpkit.types import CacheScope, Message, PromptResult, ResourceResult

__all__ = ["Completion", "InputRequired", "Tagged", "encode_result", "tool_members"]


@dataclass(slots=True)
class Completion:
    """Suggestions for an argument.

    Args:
        values: At most 100 (COMP-2).
        total: How many there are; None if these are all.
    """

    values: Sequence[str]
    total: int | None = None


@dataclass(slots=True)
class InputRequired:
    """A result that asks the client before the request can be answered (MRTR-2).

    Args:
        asked: The members ``inputRequests`` and ``requestState``.
    """

    asked: Mapping[str, Any]


@dataclass(slots=True)
class Tagged:
    """An empty result with a ``_meta``."""

    meta: Mapping[str, Any]


class _Encoded(NamedTuple):
    """A result before its revision has stamped it.

    Args:
        members: Encoded, without braces.
        meta: Its ``_meta``, without what the stamp adds.
        ttl: For how many seconds it may be kept; None: the server's setting.
        cache_scope: Who may keep it; None: the server's setting.
        kind: The ``resultType``, where results have one.
    """

    members: bytes
    meta: Mapping[str, Any] | None = None
    ttl: float | None = None
    cache_scope: CacheScope | None = None
    kind: str = "complete"


def encode_result(server: Server, request: Request, value: Any, *, private: bool = False) -> bytes:
    """Encode the members of a result, with those that its revision adds to every one.

    Args:
        server: Answers.
        request: Is answered.
        value: What the operation returned: a mapping of members, or a value of a class that has a
            row in the table below.
        private: True if nobody may keep the result, whatever the settings say (CACHE-5).

    Raises:
        Exception: A ``_meta`` holds what JSON cannot carry.
    """
    revision = request.revision
    kind = cast("type", type(value))
    encode_value = _ENCODERS.get(kind) or _encoder_of(kind)
    encoded = encode_value(value, revision)
    text = encoded.members
    if not revision.stamped:
        if encoded.meta is None:
            return text
        return (text + b"," if text else b"") + members({"_meta": encoded.meta})
    stamp = b'"resultType":' + encode(encoded.kind)
    if request.known.cacheable and encoded.kind == "complete":  # CACHE-2
        settings = server.settings
        ttl = settings.ttl if encoded.ttl is None else encoded.ttl
        scope = encoded.cache_scope or settings.cache_scope
        if private:
            ttl, scope = 0, "private"
        stamp += b',"ttlMs":%d,"cacheScope":%b' % (round(ttl * 1000), encode(scope))
    meta = server.info_meta(revision)
    if encoded.meta:
        meta = members(encoded.meta) + b"," + meta
    stamp += b',"_meta":{' + meta + b"}"
    return text + b"," + stamp if text else stamp


def tool_members(rendered: Rendered, revision: Revision) -> bytes:
    """Encode a tool's result as a revision has it."""
    content = rendered.content
    if isinstance(content, str):
        text = b'"content":[{"type":"text","text":' + encode(content) + b"}]"
    else:
        text = b'"content":' + encode([wire.block_to_wire(each, revision) for each in content])
    structured = rendered.structured
    if structured is not None and revision.structured_output != "none":
        if revision.structured_output == "object" and not rendered.is_object:
            structured = b'{"result":' + structured + b"}"  # TOOL-11
        text += b',"structuredContent":' + structured
    return text + b',"isError":true' if rendered.is_error else text


def _tool(value: Rendered, revision: Revision) -> _Encoded:
    return _Encoded(tool_members(value, revision), value.meta)


def _page(value: Page, revision: Revision) -> _Encoded:
    return _Encoded(value.members(revision))


def _resource(value: ResourceResult, revision: Revision) -> _Encoded:
    contents = [wire.contents_to_wire(each, revision) for each in value.contents]
    return _Encoded(members({"contents": contents}), value.meta, value.ttl, value.cache_scope)


def _prompt(value: PromptResult, revision: Revision) -> _Encoded:
    found = wire.some(
        description=value.description,
        messages=[_message(each, revision) for each in value.messages],
    )
    return _Encoded(members(found), value.meta)


def _message(value: Any, revision: Revision) -> dict[str, Any]:
    message = value if isinstance(value, Message) else Message(value)
    return wire.message_to_wire(message, block_of(message.content), revision)


def _completion(value: Completion, revision: Revision) -> _Encoded:
    del revision
    completion: dict[str, Any] = {"values": list(value.values)}
    if value.total is not None:
        completion["total"] = value.total
        completion["hasMore"] = True
    return _Encoded(members({"completion": completion}))


def _input_required(value: InputRequired, revision: Revision) -> _Encoded:
    del revision
    return _Encoded(members(value.asked), kind="input_required")


def _tagged(value: Tagged, revision: Revision) -> _Encoded:
    del revision
    return _Encoded(b"", value.meta)


def _members(value: Mapping[str, Any], revision: Revision) -> _Encoded:
    del revision
    return _Encoded(members(value))


_Encoder: TypeAlias = Callable[[Any, Revision], _Encoded]

_ENCODERS: Final[Mapping[type, _Encoder]] = {
    Rendered: _tool,
    Page: _page,
    ResourceResult: _resource,
    PromptResult: _prompt,
    Completion: _completion,
    InputRequired: _input_required,
    Tagged: _tagged,
}
"""A row for each class of value; a mapping of members has none."""


def _encoder_of(kind: type) -> _Encoder:
    for each in kind.__mro__:
        if each in _ENCODERS:
            return _ENCODERS[each]
    return _members
