"""One JSON-RPC message ⇄ text."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._protocol import messages
from mcpkit._utils.json import UNSET, well_formed
from mcpkit.errors import InvalidParams, InvalidRequest, ParseError, ProtocolError
from tests.messages import notification, request

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=20,
)

# --- reading --------------------------------------------------------------------------------------

NOT_JSON = {
    "nothing": b"",
    "blanks": b"  \n",
    "words": b"hello",
    "half an object": b'{"jsonrpc":"2.0"',
    "a comma too many": b'{"jsonrpc":"2.0",}',
    "two values": b'{"a":1}{"b":2}',
    "single quotes": b"{'a':1}",
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":Infinity}',
    "-Infinity": b'{"a":-Infinity}',
    "a byte that is not UTF-8": b'{"a":"\xff"}',
    "a surrogate in UTF-8": b'{"a":"\xed\xa0\x80"}',
    "half a surrogate pair": b'{"a":"\\ud800"}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "two byte order marks": b'\xef\xbb\xbf\xef\xbb\xbf{"a":1}',
    "a bare control character": b'{"a":"\x01"}',
    "100,000 levels": b"[" * 100_000 + b"]" * 100_000,
    "100,000 levels of objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "an integer of 5,000 digits": b"9" * 5_000,
}


@pytest.mark.parametrize("text", NOT_JSON.values(), ids=NOT_JSON)
def test_what_is_not_json_is_a_parse_error(text: bytes) -> None:
    """MSG-1; -32700."""
    with pytest.raises(ParseError):
        messages.parse(text)


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_text_is_read_from_every_kind_of_buffer(kind: Any) -> None:
    assert messages.parse(kind(b'{"a":[1,"2"]}')) == {"a": [1, "2"]}


@given(JSON)
def test_a_byte_order_mark_is_skipped(value: Any) -> None:
    """MSG-1; RFC 8259, section 8.1."""
    assert messages.parse(b"\xef\xbb\xbf" + messages.encode(value)) == value


@given(JSON)
def test_text_is_one_line(value: Any) -> None:
    """STDIO-1."""
    assert b"\n" not in messages.encode(value)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_become_null(number: float) -> None:
    """MSG-1."""
    assert messages.encode({"a": [number]}) == b'{"a":[null]}'
    assert messages.members({"a": number}) == b'"a":null'
    assert b"null" in messages.notification_text("n", {"a": number})
    assert b"null" in messages.request_text(1, "m", {"a": number})
    assert b"null" in messages.error_text(1, ProtocolError("no", data=number))


TEXT = st.text(st.characters(), max_size=8)  # lone surrogates included
ANYTHING = st.recursive(
    TEXT | st.integers() | st.none(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


@given(JSON)
def test_valid_unicode_is_unchanged(value: Any) -> None:
    assert well_formed(value) == value


@given(ANYTHING)
def test_what_is_not_unicode_is_replaced(value: Any) -> None:
    """MSG-1: in values and names; nothing else changes, and nothing fails."""
    assert messages.parse(messages.encode(value)) == well_formed(value)


@pytest.mark.parametrize(
    ("text", "sent"),
    [("a\ud83d", "a\ufffd"), ("\udce9a", "\ufffda"), ("\ud83d\ude00", "\U0001f600")],
)
def test_each_half_of_a_pair_is_replaced_and_two_are_joined(text: str, sent: str) -> None:
    assert messages.parse(messages.encode({text: [text]})) == {sent: [sent]}


# --- the envelope ---------------------------------------------------------------------------------


def test_a_sound_envelope_passes() -> None:
    """MSG-17: with unknown members."""
    for message in (
        *(request(id, "m") for id in (1, 0, -1, 2**64, "", "x" * 1024)),
        request("1", "m", {"a": 1}),
        request(1, "m") | {"extra": 1},
        request(1, "m", {}) | {"extra": 1, "more": 2},
        notification("m"),
        notification("m", {}),
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": "1", "error": {"code": 1, "message": ""}},
        {"jsonrpc": "2.0", "error": {"code": 1, "message": ""}},
    ):
        messages.check_envelope(message)


BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "no jsonrpc (MSG-1)": ("jsonrpc", {"id": 1, "method": "m"}),
    "jsonrpc 1.0 (MSG-1)": ("jsonrpc", request(1, "m") | {"jsonrpc": "1.0"}),
    "jsonrpc as a number (MSG-1)": ("jsonrpc", request(1, "m") | {"jsonrpc": 2.0}),
    "a null id (MSG-2)": ("id", request(None, "m")),
    "a float id (MSG-2)": ("id", request(1.5, "m")),
    "a float id without a fraction (MSG-2)": ("id", request(1.0, "m")),
    "a bool id (MSG-2)": ("id", request(True, "m")),
    "a list id (MSG-2)": ("id", request([1], "m")),
    "an object id (MSG-2)": ("id", request({}, "m")),
    "a longer id": ("1024 characters", request("x" * 1025, "m")),
    "a larger id": ("64 bits", request(2**64 + 1, "m")),
    "a large negative id": ("64 bits", request(-(2**70), "m")),
    "a number as method": ("method", {"jsonrpc": "2.0", "id": 1, "method": 1}),
    "a null method": ("method", {"jsonrpc": "2.0", "id": 1, "method": None}),
    "a request with a result": ("result", request(1, "m") | {"result": {}}),
    "a request with an error": ("error", request(1, "m", {}) | {"error": {}}),
    "a notification with a result": ("result", notification("m") | {"result": {}}),
    "neither method nor result nor error": ("method", {"jsonrpc": "2.0", "id": 1}),
    "result and error (MSG-6)": ("result", {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {}}),
    "a result with a null id (MSG-2)": ("id", {"jsonrpc": "2.0", "id": None, "result": {}}),
}


@pytest.mark.parametrize(("named", "message"), BAD.values(), ids=BAD)
def test_a_broken_envelope_is_refused_with_the_member_that_is_wrong(
    named: str, message: dict[str, Any]
) -> None:
    """-32600."""
    with pytest.raises(InvalidRequest, match=named):
        messages.check_envelope(message)


NO_IDS: list[object] = [None, True, 1.0, [], {}, "x" * 1025, 2**70, -(2**70)]
NOT_UNICODE: list[object] = ["\ud83d", "a\udce9"]


def test_an_id_can_be_read_from_a_broken_message() -> None:
    """ERR-5, MSG-2."""
    for id in (1, 0, -1, 2**64, "1", "", "ü", "x" * 1024):
        found = messages.readable_id({"id": id})
        assert (found, type(found)) == (id, type(id))
    without: list[object] = [{}, [], 1, None, "id"]
    for message in (*without, *({"id": wrong} for wrong in (*NO_IDS, *NOT_UNICODE))):
        assert messages.readable_id(message) is UNSET


# --- writing --------------------------------------------------------------------------------------


@given(st.integers(-(10**30), 10**30) | st.text(st.characters(exclude_categories=["Cs"])))
def test_any_id_that_was_read_can_be_written(id: int | str) -> None:
    """MSG-2."""
    for written in (messages.result_text(id, b""), messages.error_text(id, ParseError("no"))):
        assert messages.parse(written)["id"] == id


def test_an_error_has_code_and_message_and_no_empty_members() -> None:
    """MSG-7, MSG-8."""
    error = {"code": -32602, "message": "no"}
    for id, members in ((UNSET, {}), ("x", {"id": "x"})):
        sent = json.loads(messages.error_text(id, InvalidParams("no")))
        assert sent == {"jsonrpc": "2.0", **members, "error": error}
