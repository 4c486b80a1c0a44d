"""One JSON-RPC 2.0 message ⇄ text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, TypeAlias, TypeGuard

from pydantic_core import from_json, to_json

from mcpkit._utils.json import UNSET, Unset, is_object
from mcpkit.errors import InvalidRequest, ParseError, ProtocolError

__all__ = ["Id", "encode", "encode_id", "error_text", "parse", "readable_id", "result_text"]

Id: TypeAlias = str | int
"""A request id: a string or an integer, never null (JSON-RPC 2.0, section 4)."""

_LONGEST_ID: Final = 1024
"""Characters of an id that is a string: it is repeated in every message about its request."""

_LARGEST_ID: Final = 2**64
"""The largest id that is an integer.

It is a key as well: of much larger integers, which have the same hash for each multiple of
2**61 - 1, many could be chosen that collide.
"""

_SMALLEST_ID: Final = -_LARGEST_ID

encode: Final = partial(to_json, inf_nan_mode="null")
"""Any JSON value → its text in UTF-8, compact, without a newline; NaN and infinity become null."""


def parse(text: bytes | bytearray) -> Any:
    """The JSON value in a text.

    Raises:
        ParseError: It is not JSON (``NaN`` and ``Infinity`` are not) or UTF-8, or nested too deep.
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
        return _SMALLEST_ID <= value <= _LARGEST_ID
    return type(value) is str and len(value) <= _LONGEST_ID


def readable_id(message: object) -> Id | Unset:
    """The id a broken message can still be answered under, or `UNSET`."""
    found = message.get("id") if is_object(message) else None
    return found if is_id(found) else UNSET


def is_answer(message: Mapping[str, Any]) -> bool:
    """Return True if a message, even a broken one, is an answer, which is never answered."""
    return "method" not in message and ("result" in message or "error" in message)


def check_envelope(message: Mapping[str, Any]) -> None:
    """Refuse what is not a JSON-RPC 2.0 request, notification or response.

    Raises:
        InvalidRequest: With a sentence that says which member is wrong.
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
            f'The member "id" is longer than {_LONGEST_ID} characters, or than 64 bits'
        )
    return InvalidRequest('The member "id" must be a string or an integer')


def encode_id(id: Id) -> bytes:
    """An id with its own JSON type: ``1`` and ``"1"`` differ (MSG-2)."""
    return b"%d" % id if isinstance(id, int) else to_json(id)


def result_text(id: Id, members: bytes) -> bytes:
    """A response from the id and the encoded members of its result object, without braces."""
    if type(id) is int:
        return b'{"jsonrpc":"2.0","id":%d,"result":{%b}}' % (id, members)
    return b'{"jsonrpc":"2.0","id":%b,"result":{%b}}' % (to_json(id), members)


def error_text(id: Id | Unset, error: ProtocolError) -> bytes:
    """An error response; without an id when none could be read (MSG-8)."""
    head = (
        b'{"jsonrpc":"2.0"' if isinstance(id, Unset) else b'{"jsonrpc":"2.0","id":' + encode_id(id)
    )
    return head + b',"error":' + encode(error.to_wire()) + b"}"


def notification_text(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """A notification."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return encode(message)


def request_text(id: Id, method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """A request."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        message["params"] = params
    return encode(message)


def members(value: Mapping[str, Any]) -> bytes:
    """The encoded members of an object, without its braces."""
    return encode(value)[1:-1]
