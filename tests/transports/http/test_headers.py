"""Arguments that headers repeat (HDR-1…7), and values that no header can carry as they are."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel

from mcpkit import Header, MCPKit, RegistrationError
from tests.messages import called
from tests.transports.http.wire import Exchange, Host, Site


def wrapped(text: str) -> str:
    return f"=?base64?{b64encode(text.encode()).decode()}?="


def route(site: Site, headers: dict[str, Any], **arguments: Any) -> Exchange:
    """Call the tool whose arguments are repeated."""
    return site.ask("tools/call", headers, **called("routed", arguments))


def told(region: Any = None, count: Any = None, really: Any = None, method: Any = None) -> str:
    return f"{region} {count} {really} {method}"


# --- what is declared -----------------------------------------------------------------------------


def test_a_schema_tells_which_arguments_are_repeated(site: Site) -> None:
    tools = site.ask("tools/list").result["tools"]
    [schema] = [each["inputSchema"] for each in tools if each["name"] == "routed"]
    found = {name: each["x-mcp-header"] for name, each in schema["properties"].items()}
    assert found == {"region": "Region", "count": "Count", "really": "Really", "method": "Method"}
    assert {name: each["type"] for name, each in schema["properties"].items()} == {
        "region": "string",
        "count": "integer",
        "really": "boolean",
        "method": "string",
    }


class Place(BaseModel):
    city: Annotated[str, Header("City")]


def bad_name(a: Annotated[str, Header("two words")]) -> None: ...
def no_name(a: Annotated[str, Header("")]) -> None: ...
def a_line_break(a: Annotated[str, Header("a\r\nb")]) -> None: ...
def taken(a: Annotated[str, Header("Same")], b: Annotated[str, Header("same")]) -> None: ...


def a_float(a: Annotated[float, Header("A")]) -> None: ...
def a_list(a: Annotated[list[str], Header("A")]) -> None: ...
def in_a_list(a: list[Annotated[str, Header("A")]]) -> None: ...
def in_a_list_of_objects(a: list[Place]) -> None: ...
def perhaps_null(a: Annotated[str | None, Header("A")]) -> None: ...
def in_a_union(a: Place | Literal["nowhere"]) -> None: ...


@pytest.mark.parametrize(
    "function",
    [
        *(bad_name, no_name, a_line_break, taken),
        *(a_float, a_list, in_a_list, in_a_list_of_objects, perhaps_null, in_a_union),
    ],
)
def test_a_name_is_unique_and_an_argument_a_scalar_that_properties_alone_lead_to(
    function: Any,
) -> None:
    """HDR-1, HDR-2, HDR-3, SEC-18."""
    with pytest.raises(RegistrationError):
        MCPKit("t").add_tool(function)


def test_nested_objects_are_reached(host: Host) -> None:
    """HDR-2, HDR-4."""
    app: MCPKit[Any] = MCPKit("nested")

    @app.tool
    async def go(place: Place) -> str:
        return place.city

    site = host.serve(app)
    call = called("go", {"place": {"city": "Oslo"}})
    assert site.ask("tools/call", {"Mcp-Param-City": "Oslo"}, **call).text == "Oslo"
    assert site.ask("tools/call", {"Mcp-Param-City": "Bergen"}, **call).refusal == (400, -32020)
    assert site.ask("tools/call", **call).refusal == (400, -32020)


# --- what is compared -----------------------------------------------------------------------------


def test_equal_values_pass(site: Site) -> None:
    """HDR-4."""
    headers = {"Mcp-Param-Region": "eu", "Mcp-Param-Count": "3", "Mcp-Param-Really": "true"}
    assert route(site, headers, region="eu", count=3, really=True).text == told("eu", 3, True)


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        ("Count", "42.0", 42),
        ("Count", "-7", -7),
        ("Count", "1e2", 100),
        ("Count", str(2**53 - 1), 2**53 - 1),
        ("Count", str(1 - 2**53), 1 - 2**53),
        ("Really", "false", False),
        ("Method", "mine", "mine"),
    ],
)
def test_values_are_compared_by_their_type(site: Site, name: str, written: str, value: Any) -> None:
    """HDR-4, HDR-5, HDR-7: ``Mcp-Param-Method`` has nothing to do with ``Mcp-Method``."""
    argument = {name.lower(): value}
    assert route(site, {f"Mcp-Param-{name}": written}, **argument).text == told(**argument)


@pytest.mark.parametrize(
    ("name", "written", "value"),
    [
        *(("Region", each, "eu") for each in (None, "", "us", "EU", "eu,eu", ["eu", "eu"])),
        ("Count", str(2**53), 2**53),
        ("Really", "True", True),
        ("Really", "0", False),
        ("Method", None, "tools/call"),
    ],
    ids=repr,
)
def test_a_header_that_is_missing_or_different_is_refused(
    site: Site, name: str, written: Any, value: Any
) -> None:
    """HDR-4, HDR-5, SEC-14, ERR-5: integers reach as far as JSON can tell them apart."""
    answer = route(site, {f"Mcp-Param-{name}": written}, **{name.lower(): value})
    assert answer.refusal == (400, -32020)
    assert answer.json["id"] == 1


@pytest.mark.parametrize("arguments", [{}, {"region": None}], ids=["absent", "null"])
def test_without_a_value_no_header_is_expected(site: Site, arguments: dict[str, Any]) -> None:
    """HDR-4: and one that is there is a mismatch."""
    answer = route(site, {}, **arguments)
    assert "error" not in answer.json
    assert route(site, {"Mcp-Param-Region": "eu"}, **arguments).refusal == (400, -32020)


# --- values that are wrapped ----------------------------------------------------------------------

AWKWARD = ["Zürich", " a ", "a\nb", "", "日本語", "=?base64?YQ==?="]


@pytest.mark.parametrize("value", AWKWARD)
def test_a_wrapped_value_is_unwrapped(site: Site, value: str) -> None:
    """HDR-6, HTTPM-4."""
    assert route(site, {"Mcp-Param-Region": wrapped(value)}, region=value).text == told(value)


@pytest.mark.parametrize("uri", ["wire://plain", "wire://%C3%A9", "wire://x"])
def test_names_may_be_wrapped_as_well(site: Site, uri: str) -> None:
    """HTTPM-4."""
    assert site.ask("resources/read", {"Mcp-Name": wrapped(uri)}, uri=uri).status == 200


@pytest.mark.parametrize(
    "value",
    ["=?base64?ZXU?=", "=?base64?ZX U=?=", "=?base64?ZXU==?=", "=?base64?€?=", "=?base64?/w==?="],
    ids=["no padding", "a blank", "much padding", "alphabet", "no UTF-8"],
)
def test_what_is_wrapped_badly_is_refused(site: Site, value: str) -> None:
    """HTTPM-4."""
    answer = route(site, {"Mcp-Param-Region": value.encode()}, region="eu")
    assert answer.refusal == (400, -32020)
    assert site.ask("tools/list", {"Mcp-Name": value.encode()}).status == 200
