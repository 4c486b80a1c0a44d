"""One JSON-RPC 2.0 message ⇄ text, lines of them in a stream, and results encoded beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeGuard

from pydantic_core import from_json, to_json

from mcpkit._utils.json import UNSET, Unset, is_object
from mcpkit.errors import InvalidRequest, ParseError, ProtocolError

Id: TypeAlias = str | int
"""A request id: a string or an integer, never null (JSON-RPC 2.0, section 4)."""

MAX_ID_LENGTH: Final = 1024
"""Characters of an id that is a string: every message about its request repeats it."""

MAX_ID: Final = 2**64
"""The largest id that is an integer. Much larger ones could be chosen so that their hashes collide,
as these are equal for all multiples of 2**61 - 1."""

encode: Final = partial(to_json, inf_nan_mode="null")
"""Encodes a JSON value in UTF-8, compact, without newlines; NaN and infinity become null."""


def parse(text: bytes | bytearray) -> Any:
    """Return the JSON value in a text.

    Raises:
        ParseError: It is not JSON (nor are ``NaN`` and ``Infinity``), not UTF-8, or too deep.
    """
    if isinstance(text, memoryview):
        text = bytes(text)
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError as error:
        raise ParseError(f"Not a JSON message: {error}") from None


def is_id(value: object) -> TypeGuard[Id]:
    """Return True if a JSON value can be a request id or a progress token."""
    if type(value) is int:
        return -MAX_ID <= value <= MAX_ID
    return type(value) is str and len(value) <= MAX_ID_LENGTH


def readable_id(message: object) -> Id | Unset:
    """Return the id of a malformed message, for the error response; `UNSET` if it has none."""
    found = message.get("id") if is_object(message) else None
    return found if is_id(found) else UNSET


def is_response(message: Mapping[str, Any]) -> bool:
    """Return True if a message, even a malformed one, is a response, which is never answered."""
    return "method" not in message and ("result" in message or "error" in message)


def check_envelope(message: Mapping[str, Any]) -> None:
    """Check that a message is a JSON-RPC 2.0 request, notification or response.

    Raises:
        InvalidRequest: It is not; the message says which member is wrong.
    """
    if message.get("jsonrpc") != "2.0":
        raise InvalidRequest('The member "jsonrpc" must be "2.0"')
    if "method" in message:
        if type(message["method"]) is not str:
            raise InvalidRequest('The member "method" must be a string')
        if "id" in message and not is_id(message["id"]):
            raise _wrong_id(message["id"])
        if "result" in message or "error" in message:
            raise InvalidRequest("A request cannot have a result or an error")
        return
    if ("result" in message) == ("error" in message):
        raise InvalidRequest("A message needs a method, a result or an error")
    if "id" in message and not is_id(message["id"]):
        raise _wrong_id(message["id"])


def _wrong_id(id: object) -> InvalidRequest:
    if type(id) is int or type(id) is str:
        return InvalidRequest(
            f'The member "id" is longer than {MAX_ID_LENGTH} characters, or than 64 bits'
        )
    return InvalidRequest('The member "id" must be a string or an integer')


def encode_id(id: Id) -> bytes:
    """Encode an id with its own JSON type: ``1`` and ``"1"`` differ (MSG-2)."""
    return b"%d" % id if isinstance(id, int) else to_json(id)


def result_text(id: Id, members: bytes) -> bytes:
    """Return a response, given the id and the encoded members of the result, without braces."""
    if type(id) is int:
        return b'{"jsonrpc":"2.0","id":%d,"result":{%b}}' % (id, members)
    return b'{"jsonrpc":"2.0","id":%b,"result":{%b}}' % (to_json(id), members)


def error_text(id: Id | Unset, error: ProtocolError) -> bytes:
    """Return an error response, without an id if none could be read (MSG-8)."""
    head = (
        b'{"jsonrpc":"2.0"' if isinstance(id, Unset) else b'{"jsonrpc":"2.0","id":' + encode_id(id)
    )
    return head + b',"error":' + encode(error.to_wire()) + b"}"


def notification_text(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """Return a notification."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return encode(message)


def request_text(id: Id, method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """Return a request."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        message["params"] = params
    return encode(message)


def members(value: Mapping[str, Any]) -> bytes:
    """Encode the members of an object, without its braces."""
    return encode(value)[1:-1]


# --- results --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Encoded:
    """A result whose members are encoded already.

    Args:
        members: Without braces, and without a ``_meta``.
        meta: The ``_meta``.
        kind: The ``resultType``.
    """

    members: bytes
    meta: Mapping[str, Any] | None = None
    kind: bytes = b"complete"
