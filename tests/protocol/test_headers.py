"""The headers that repeat the body (PROTOCOL.md §8.4): those that agree, and those that do not."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit._protocol.headers import (
    HeaderParameter,
    check_method,
    check_name,
    check_parameters,
    check_version,
    declared_in,
    encode_value,
    parameter_headers,
    require_version,
)
from mcpkit.errors import HeaderMismatch
from mcpkit.http import by_name

VERSION = "2026-07-28"


def refused(check: Callable[..., object], *arguments: Any) -> str:
    """The message of the refusal."""
    with pytest.raises(HeaderMismatch) as caught:
        check(*arguments)
    assert caught.value.code == -32020
    return caught.value.message


def tool(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def header(name: Any, kind: Any = "string", **more: Any) -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": name, **more}


# --- headers by name ------------------------------------------------------------------------------


def test_a_header_sent_twice_equals_neither_of_its_values() -> None:
    """SEC-14: a proxy may have routed on the first and a server acted on the last."""
    headers = by_name([(b"mcp-name", b"add"), (b"host", b"a"), (b"mcp-name", b"delete")])
    assert headers == {b"mcp-name": b"add, delete", b"host": b"a"}
    refused(check_name, headers, "add")
    refused(check_name, headers, "delete")


class Counted(bytes):
    """A value of a header; counts how many are copied one by one."""

    copies = 0

    def __add__(self, other: Any) -> Any:
        type(self).copies += 1
        return bytes(self) + other

    __radd__ = __add__


def test_a_header_sent_many_times_is_joined_in_linear_time() -> None:
    """Not every server in front of the app limits the head of a request."""
    headers = by_name([(b"a", Counted(b"b"))] * 1000)
    assert headers == {b"a": b", ".join([b"b"] * 1000)}
    assert Counted.copies == 0


# --- version --------------------------------------------------------------------------------------


def test_header_and_meta_name_one_version() -> None:
    """HTTPM-2, HTTPM-6: the comparison comes first; support is another question."""
    name = b"mcp-protocol-version"
    for version in (VERSION, "1999-01-01"):
        check_version({name: version.encode()}, version)
    for headers in ({}, {name: b""}, {name: b"  "}, {name: b"2026\xff"}):
        assert "MCP-Protocol-Version" in refused(require_version, headers)
        refused(check_version, headers, VERSION)
    for found in ("2025-11-25", "2026-07-2", "2026-07-28, 2026-07-28"):
        message = refused(check_version, {name: found.encode()}, VERSION)
        assert message == (
            f"MCP-Protocol-Version: expected '2026-07-28' as in the body, got '{found}'"
        )


# --- method ---------------------------------------------------------------------------------------


def test_header_and_body_name_one_method() -> None:
    """HTTPM-2, HTTPM-3; HTTPM-4 does not encode methods."""
    for found in (b"tools/list", b" tools/list ", b"\ttools/list", b"tools/list "):
        check_method({b"mcp-method": found}, "tools/list")
    others = [b"TOOLS/LIST", b"tools/call", b"", b"tools/list\n", b"\xa0tools/list"]
    for found in (*others, b"tools/list\xff", b"=?base64?dG9vbHMvbGlzdA==?="):
        assert "Mcp-Method" in refused(check_method, {b"mcp-method": found}, "tools/list")
    for check, header in ((check_method, "Mcp-Method"), (check_name, "Mcp-Name")):
        message = refused(check, {b"host": b"add"}, "tools/list")
        assert message == f"{header}: expected as in the body, but the header is missing"


# --- name -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (b"add", "add"),
        (b" add\t", "add"),
        (b"file:///a%20b", "file:///a%20b"),
        (b"a, b", "a, b"),
        (b"", ""),
        (b"=?base64?SGVsbG8=?=", "Hello"),
        (b" =?base64?SGVsbG8=?= ", "Hello"),
        (b"=?base64??=", ""),
        (b"=?base64?IGEg?=", " a "),
        (b"=?base64?w6k=?=", "é"),
        (b"=?base64?PT9iYXNlNjQ/SGVsbG8/PQ==?=", "=?base64?Hello?="),
        ("é".encode(), "é"),
        # literals: without both markers there is nothing to decode
        (b"SGVsbG8=", "SGVsbG8="),
        (b"=?base64?SGVsbG8=", "=?base64?SGVsbG8="),
        (b"SGVsbG8=?=", "SGVsbG8=?="),
        (b"=?base64?=", "=?base64?="),
        (b"=?BASE64?SGVsbG8=?=", "=?BASE64?SGVsbG8=?="),
        (b"=?utf-8?B?SGVsbG8=?=", "=?utf-8?B?SGVsbG8=?="),
    ],
)
def test_the_name_agrees(found: bytes, name: str) -> None:
    """HTTPM-3, HTTPM-4."""
    check_name({b"mcp-name": found}, name)


@pytest.mark.parametrize(
    ("found", "name"),
    [
        (b"Add", "add"),
        (b"ad", "add"),
        (b"SGVsbG8=", "Hello"),
        (b"=?BASE64?SGVsbG8=?=", "Hello"),
        (b"=?base64?SGVsbG8=", "Hello"),
        (b"=?base64?SGVsbG8=?=", "=?base64?SGVsbG8=?="),
        (b" a ", " a "),
        (b"\xe9", "é"),
        (b"\xed\xa0\x80", "\ud800"),
    ],
)
def test_another_name_is_refused(found: bytes, name: str) -> None:
    """HTTPM-2 to HTTPM-4."""
    assert "Mcp-Name" in refused(check_name, {b"mcp-name": found}, name)


WRONG_BASE64 = {
    "no padding": "SGVsbG8",
    "too much padding": "SGVsbG8==",
    "padding alone": "=",
    "outside the alphabet": "SGVs!!!bG8=",
    "blank inside": "SGVs bG8=",
    "alphabet for URLs": "8J-YgA==",
    "padding inside": "SGVs=bG8=",
    "bits left over": "SGVsbG9=",
    "no UTF-8": "/w==",
    "letters beyond ASCII": "é===",
}


@pytest.mark.parametrize("wrapped", WRONG_BASE64.values(), ids=WRONG_BASE64)
def test_base64_is_strict(wrapped: str) -> None:
    """HTTPM-4."""
    for name in ("Hello", "", f"=?base64?{wrapped}?="):
        message = refused(check_name, {b"mcp-name": f"=?base64?{wrapped}?=".encode()}, name)
        assert message == "Mcp-Name: expected base64 of UTF-8 between =?base64? and ?="


def test_a_message_stays_on_one_line() -> None:
    """SEC-13: what was decoded may hold anything, and messages go into logs."""
    message = refused(check_name, {b"mcp-name": b"=?base64?YQpi?="}, "c\nd")
    assert message == r"Mcp-Name: expected 'c\nd' as in the body, got 'a\nb'"


# --- encoding -------------------------------------------------------------------------------------


def test_text_that_a_header_cannot_carry_is_wrapped() -> None:
    """HDR-6."""
    for text in ("", "a", "us-west1", "a b", "=?base64?", "?=", "=?BASE64?YQ==?="):
        assert encode_value(text) == text
    controls = ("\ta", "a\tb", "a\r\nX-Evil: 1", "a\n", "\x00", "\x7f")
    for text in ("é", "😀", " a", "a ", " ", *controls, "=?base64?YQ==?=", "=?base64?="):
        assert encode_value(text) == f"=?base64?{b64encode(text.encode()).decode()}?="


@given(st.text() | st.text("=?base64 \tYQ"))
def test_what_is_encoded_is_understood(text: str) -> None:
    """HDR-6, HTTPM-4."""
    value = encode_value(text)
    assert value.isascii()
    assert value.isprintable()
    assert value == value.strip()
    check_name({b"mcp-name": value.encode("ascii")}, text)


@given(st.text(), st.text())
def test_two_texts_are_never_encoded_alike(one: str, other: str) -> None:
    """SEC-14."""
    if one != other:
        refused(check_name, {b"mcp-name": encode_value(one).encode("ascii")}, other)


# --- what a schema declares -----------------------------------------------------------------------


def test_a_property_declares_its_header_also_inside_objects() -> None:
    """HDR-2."""
    for kind in ("string", "integer", "boolean"):
        found = declared_in(tool(region=header("Region", kind), other={"type": "number"}))
        assert found == (HeaderParameter(b"mcp-param-region", "Mcp-Param-Region", ("region",)),)
    (inner,) = declared_in(tool(place=tool(at=tool(zone=header("Zone")))))
    assert inner.path == ("place", "at", "zone")


def test_a_name_is_a_token_used_once() -> None:
    """HDR-1, HDR-7: case does not count, nor does the place."""
    for name in ("a", "Region-1", "!#$%&'*+-.^_`|~09AZaz", "Method"):
        (found,) = declared_in(tool(a=header(name)))
        assert found[:2] == (b"mcp-param-" + name.lower().encode(), f"Mcp-Param-{name}")
    others = ["", "My Region", "a:b", "a\r\nX-Evil", "a\n", "\x00", "é", "a/b", "(a)", '"a"']
    for other in (*others, None, 1, True):
        with pytest.raises(ValueError, match=r'^"x-mcp-header" at a is .* use letters, digits'):
            declared_in(tool(a=header(other)))
    with pytest.raises(ValueError, match=r"at b/c has the name REGION, which is taken by a, "):
        declared_in(tool(a=header("Region"), b=tool(c=header("REGION"))))


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        (header("A", "number"), "'number'"),
        (header("A", "object"), "'object'"),
        (header("A", "array"), "'array'"),
        (header("A", "null"), "'null'"),
        (header("A", ["string"]), "string"),
        (header("A", ["string", "null"]), "null"),
        ({"x-mcp-header": "A"}, "None"),
        ({"x-mcp-header": "A", "enum": ["a", "b"]}, "None"),
        ({"x-mcp-header": "A", "$ref": "#/$defs/A"}, "None"),
        ({"x-mcp-header": "A", "anyOf": [{"type": "string"}, {"type": "null"}]}, "None"),
    ],
)
def test_other_types_have_no_headers(schema: dict[str, Any], kind: str) -> None:
    """HDR-2: of several types none is the one; a property that may be missing serves as well."""
    with pytest.raises(ValueError, match=rf"at a needs the type .*, not .*{kind}.*; instead of"):
        declared_in(tool(a=schema))


Holder: TypeAlias = Callable[[str, dict[str, Any]], dict[str, Any]]

HOLDERS: list[tuple[Holder, tuple[str, ...]]] = [
    (lambda word, s: tool(a={word: s}), ("items", "contains", "not", "x-unheard-of")),
    (lambda word, s: tool(a={word: [s]}), ("prefixItems", "anyOf", "oneOf", "allOf")),
    (lambda word, s: {"type": "object", word: s}, ("additionalProperties", "propertyNames")),
    (lambda word, s: {"type": "object", word: s}, ("unevaluatedProperties", "if", "then", "else")),
    (lambda word, s: tool() | {word: {"A": s, "B": ["c"]}}, ("patternProperties", "dependencies")),
    (lambda word, s: tool() | {word: {"A": s}}, ("dependentSchemas", "$defs", "definitions")),
]


@pytest.mark.parametrize(
    ("holder", "word"), [(holder, word) for holder, words in HOLDERS for word in words]
)
def test_only_properties_lead_to_a_header(holder: Holder, word: str) -> None:
    """HDR-2."""
    below = rf"below {re.escape(word)} cannot be reached through properties alone; "
    for schema in (header("A"), tool(a=header("A"))):
        with pytest.raises(ValueError, match=below):
            declared_in(holder(word, schema))


def test_malformed_schemas_are_passed_over_and_endless_ones_refused() -> None:
    """HDR-2: the arguments as a whole have no header."""
    malformed: list[Any] = [None, {"a": True}, ["a"]]
    for properties in malformed:
        schema = {"type": "object", "properties": properties, "items": [1, True, None]}
        assert declared_in(schema) == ()
    endless: dict[str, Any] = {"type": "object"}
    endless["properties"] = {"a": endless, "b": endless}
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        declared_in(endless)
    with pytest.raises(ValueError, match="at the schema itself cannot be reached"):
        declared_in({"type": "object", "x-mcp-header": "A"})


# --- parameters -----------------------------------------------------------------------------------

REGION = declared_in(tool(region=header("Region")))
COUNT = declared_in(tool(count=header("Count", "integer")))
DRY = declared_in(tool(dry=header("Dry", "boolean")))
ZONE = declared_in(tool(place=tool(zone=header("Zone"))))

AGREEING: list[tuple[bytes, Any]] = [
    (b"us-west1", "us-west1"),
    (b"  us-west1\t", "us-west1"),
    (b"", ""),
    ("é".encode(), "é"),
    (b"42", 42),
    (b"42.0", 42),
    (b"42", 42.0),
    (b"4.2e1", 42),
    (b"4200E-2", 42),
    (b"-7", -7),
    (b"-0", 0),
    (b"=?base64?NDI=?=", 42),
    (b"9007199254740991", 2**53 - 1),
    (b"-9007199254740991", -(2**53) + 1),
    (b"true", True),
    (b"false", False),
    (b"42.5", 42.5),  # not for an integer, which is what validation will say
]


@pytest.mark.parametrize(("found", "value"), AGREEING)
def test_a_parameter_agrees(found: bytes, value: Any) -> None:
    """HDR-4, HDR-5."""
    check_parameters({b"mcp-param-region": found}, REGION, {"region": value})


DIFFERING: list[tuple[bytes, Any]] = [
    (b"us-west2", "us-west1"),
    (b"US-WEST1", "us-west1"),
    (b"", "us-west1"),
    (b"us-west1", ""),
    (b"=?base64?SGVsbG8?=", "Hello"),
    (b"\xff", "\xff"),
    (b"42.0", "42"),
    (b"43", 42),
    (b"42.00000000000000000001", 42),
    (b"042", 42),
    (b"+42", 42),
    (b"4_2", 42),
    (b".42e2", 42),
    (b"0x2a", 42),
    ("٤٢".encode(), 42),
    (b"4.2e1000000000", 42),
    (b"NaN", float("nan")),
    (b"nan", float("nan")),
    (b"inf", float("inf")),
    (b"9007199254740992", 2**53),
    (b"-9007199254740992", -(2**53)),
    (b"1" * 5000, int("1" * 4000)),
    (b"", 0),
    (b"1", True),
    (b"True", True),
    (b"TRUE", True),
    (b"false", True),
    (b"true", 1),
    (b"0", False),
    (b"[]", []),
    (b"{}", {}),
]


@pytest.mark.parametrize(("found", "value"), DIFFERING)
def test_another_parameter_is_refused(found: bytes, value: Any) -> None:
    """HDR-4, HDR-5, HTTPM-4."""
    headers = {b"mcp-param-region": found}
    assert "Mcp-Param-Region" in refused(check_parameters, headers, REGION, {"region": value})


def test_a_value_needs_the_header_of_its_own_path() -> None:
    """HDR-4."""
    arguments = {"region": "", "count": 0, "dry": False, "place": {"zone": "a"}}
    for declared in (REGION, COUNT, DRY, ZONE):
        assert "but the header is missing" in refused(check_parameters, {}, declared, arguments)
    arguments = {"zone": "b", "place": {"zone": "a"}}
    check_parameters({b"mcp-param-zone": b"a"}, ZONE, arguments)
    refused(check_parameters, {b"mcp-param-zone": b"b"}, ZONE, arguments)


@pytest.mark.parametrize("place", [..., None, {}, {"zone": None}, 1, [{"zone": "a"}]])
def test_without_a_value_no_header_is_expected(place: object) -> None:
    """HDR-4 (REC)."""
    arguments = {"zone": "a"} if place is ... else {"place": place}
    check_parameters({}, ZONE, arguments)
    for found in (b"a", b"", b"null"):
        message = refused(check_parameters, {b"mcp-param-zone": found}, ZONE, arguments)
        assert message == (
            "Mcp-Param-Zone: expected no such header, as the argument place.zone has no value"
        )


def test_a_value_cannot_hide_in_text() -> None:
    """SEC-14: validation reads the text of an object as one."""
    for headers in ({}, {b"mcp-param-zone": b"a"}, {b"mcp-param-zone": b'{"zone": "a"}'}):
        refused(check_parameters, headers, ZONE, {"place": '{"zone": "a"}'})


def test_every_parameter_is_compared() -> None:
    """HDR-4, SEC-13: the message does not repeat a value."""
    declared = (*REGION, *COUNT)
    headers = {b"mcp-param-region": b"eu", b"mcp-param-count": b"2"}
    check_parameters(headers, declared, {"region": "eu", "count": 2})
    message = refused(check_parameters, headers, declared, {"region": "eu", "count": 3})
    assert message == "Mcp-Param-Count: expected the value of the argument count, got another"


# --- the client -----------------------------------------------------------------------------------


def test_a_client_sends_declared_arguments_as_headers() -> None:
    """HDR-4 to HDR-6."""
    arguments = {"region": "Ålesund", "count": 42.0, "dry": False, "place": {"zone": "a"}, "b": 1}
    assert parameter_headers((*REGION, *COUNT, *DRY, *ZONE), arguments) == {
        "Mcp-Param-Region": "=?base64?w4VsZXN1bmQ=?=",
        "Mcp-Param-Count": "42",
        "Mcp-Param-Dry": "false",
        "Mcp-Param-Zone": "a",
    }


@pytest.mark.parametrize("value", [None, [], {}, 2**53, -(2**53), float("inf"), int("9" * 4000)])
def test_a_client_omits_values_that_no_header_can_carry(value: Any) -> None:
    """HDR-4, HDR-5."""
    assert parameter_headers(REGION, {"region": value}) == {}


SCALARS = (
    st.text()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-(2.0**53) + 1, 2.0**53 - 1)
    | st.none()
)


@given(SCALARS)
def test_a_server_agrees_with_a_client(value: Any) -> None:
    """HDR-4 to HDR-6."""
    sent = parameter_headers(REGION, {"region": value})
    headers = {name.lower().encode(): text.encode("ascii") for name, text in sent.items()}
    check_parameters(headers, REGION, {"region": value})
