"""One JSON-RPC 2.0 message ⇄ text, lines of them in a stream, and results encoded beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypeGuard

from pydantic_core import PydanticSerializationError, from_json, to_json

from mcpkit._utils.json import BYTE_ORDER_MARK, UNSET, Unset, is_object, well_formed
from mcpkit.errors import InvalidRequest, ParseError, ProtocolError

Id: TypeAlias = str | int
"""A request id: a string or an integer, never null (JSON-RPC 2.0, section 4)."""

MAX_ID_LENGTH: Final = 1024
"""Characters of an id that is a string: every message about its request repeats it."""

MAX_ID: Final = 2**64
"""The largest id that is an integer. Much larger ones could be chosen so that their hashes collide,
as these are equal for all multiples of 2**61 - 1."""


def encode(value: Any, *, fallback: Any = None, mode: Any = "utf8") -> bytes:
    """Encode a JSON value in UTF-8, compact, without newlines.

    NaN and infinity become null, and U+FFFD replaces each lone surrogate: text for people and
    models must arrive, whatever it quotes. `fallback` and `mode`, of bytes, are as for `to_json`.
    """
    try:
        return to_json(value, inf_nan_mode="null", fallback=fallback, bytes_mode=mode)
    except PydanticSerializationError:
        return to_json(well_formed(value), inf_nan_mode="null", fallback=fallback, bytes_mode=mode)


def parse(text: bytes | bytearray) -> Any:
    """Return the JSON value in a text, which may begin with a byte order mark.

    Raises:
        ParseError: It is not JSON (nor are ``NaN`` and ``Infinity``), not UTF-8, or too deep.
    """
    try:
        return from_json(text.removeprefix(BYTE_ORDER_MARK), allow_inf_nan=False)
    except ValueError as error:
        raise ParseError(f"Not a JSON message: {error}") from None


def parse_leniently(text: bytes | bytearray) -> Any:
    """Return the value in a text that is nearly JSON, to see what it belongs to; else `UNSET`.

    JavaScript writes half a surrogate pair for half an emoji, and Python writes NaN.
    """
    import json  # only malformed messages need it

    try:
        return json.loads(text.decode("utf-8-sig", "surrogateescape"), strict=False)
    except (ValueError, RecursionError):
        return UNSET


def is_id(value: object) -> TypeGuard[Id]:
    """Return True if a JSON value can be a request id or a progress token."""
    if type(value) is int:
        return -MAX_ID <= value <= MAX_ID
    return type(value) is str and len(value) <= MAX_ID_LENGTH


def readable_id(message: object) -> Id | Unset:
    """Return the id of a malformed message, for the error response; `UNSET` if it has none."""
    found = message.get("id") if is_object(message) else None
    return found if is_id(found) and well_formed(found) == found else UNSET


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
    if "id" in message and not is_id(message["id"]):
        raise InvalidRequest(
            f'The member "id" must be a string of at most {MAX_ID_LENGTH} characters, or an '
            f"integer of at most 64 bits"
        )
    if "method" not in message:
        if ("result" in message) == ("error" in message):
            raise InvalidRequest("A message needs a method, a result or an error")
    elif type(message["method"]) is not str:
        raise InvalidRequest('The member "method" must be a string')
    elif "result" in message or "error" in message:
        raise InvalidRequest("A request cannot have a result or an error")


def result_text(id: Id, members: bytes) -> bytes:
    """Return a response, given the id and the encoded members of the result, without braces."""
    if type(id) is int:
        return b'{"jsonrpc":"2.0","id":%d,"result":{%b}}' % (id, members)
    return b'{"jsonrpc":"2.0","id":%b,"result":{%b}}' % (to_json(id), members)


def error_text(id: Id | Unset, error: ProtocolError) -> bytes:
    """Return an error response, without an id if none could be read (MSG-8)."""
    stated_id = b"" if isinstance(id, Unset) else b'"id":%b,' % to_json(id)
    return b'{"jsonrpc":"2.0",%b"error":%b}' % (stated_id, encode(error.to_wire()))


def notification_text(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """Return a notification."""
    return _message_text({"jsonrpc": "2.0", "method": method}, params)


def request_text(id: Id, method: str, params: Mapping[str, Any] | None = None) -> bytes:
    """Return a request."""
    return _message_text({"jsonrpc": "2.0", "id": id, "method": method}, params)


def _message_text(message: dict[str, Any], params: Mapping[str, Any] | None) -> bytes:
    if params is not None:
        message["params"] = params
    return encode(message)


def members(value: Mapping[str, Any]) -> bytes:
    """Encode the members of an object, without its braces."""
    return encode(value)[1:-1]


# --- results --------------------------------------------------------------------------------------


class Encoded(NamedTuple):
    """A result whose members are encoded already."""

    members: bytes  # without braces, and without a `_meta`
    meta: Mapping[str, Any] | None = None
    kind: bytes = b"complete"  # the `resultType`
    ttl: float | None = None  # seconds, of a method whose results may be cached
    scope: Literal["public", "private"] | None = None
